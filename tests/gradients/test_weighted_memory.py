"""Exponential weights around estimators with a memory: the exact law of the index chain, and what a
batch moves.

As tests/gradients/test_index_chain.py does for plain gradients: thresholds by bisection, laws over
all candidates, against the transition matrix on the weights of the *reduced* gradients, typed in
NumPy.
"""

import functools
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ewsg_jax as ewsg
from ewsg_jax.gradients import GradientEstimator
from ewsg_jax.gradients._control_variate import ControlVariateMemory
from ewsg_jax.gradients._index_chain import ChainDraw
from ewsg_jax.gradients._protocol import reports_covariance, sharing_of
from ewsg_jax.gradients._saga import SAGAMemory
from ewsg_jax.gradients._svrg import SVRGDraw, SVRGMemory
from ewsg_jax.rows import Batch, Block
from tests.gradients.six_rows import as_jax, close
from tests.gradients.test_index_chain import Outcome, law_of_the_chain, thresholds
from tests.gradients.test_stratified import words_of
from tests.oracles import enumeration, index_chain

N = 5
RNG = np.random.default_rng(8)
X, Y = RNG.normal(size=(N, 2)), np.array([0, 1, 1, 0, 1])
DATA = {"x": X, "y": Y}
POSITION, MOMENTUM, ANCHOR = np.array([0.4, -0.3]), np.array([0.8, -0.5]), np.array([-0.9, 0.6])
STEP_SIZE, FRICTION, TEMPERATURE = 0.3, 2.0, 1.5
POSTERIOR = ewsg.models.logistic_regression(prior_scale=2.0)


class Wrapped(NamedTuple):
    """An estimator, its memory, all its batches, and what NumPy makes of them.

    Attributes:
        estimator: not yet weighted.
        memory: before the step.
        randomness: of all batches, on the leading axis.
        rows: the same as row numbers, (N, b).
        gradients: the estimates, (N, d).
        after: the numbers of the memory after a step with each batch, (N, …).
        damping: h Cov p/(2T), which the frozen noise holds beside γp; 0 where no covariance is
            reported.
    """

    estimator: GradientEstimator
    memory: object
    randomness: object
    rows: np.ndarray
    gradients: np.ndarray
    after: np.ndarray
    damping: np.ndarray | float = 0.0

    @property
    def dynamics(self):
        build = ewsg.dynamics.semi_implicit
        if reports_covariance(self.estimator):
            build = ewsg.dynamics.noise_corrected
        return build(STEP_SIZE, friction=FRICTION, temperature=TEMPERATURE)

    @property
    def weight(self):
        state = self.dynamics.init(jax.random.key(0), jnp.asarray(POSITION))
        return functools.partial(
            self.dynamics.log_weight, state._replace(momentum=jnp.asarray(MOMENTUM))
        )

    @property
    def log_weights(self):
        """½‖x + √h g/σ‖², x = √h Γp/σ."""
        sigma = np.sqrt(2 * FRICTION * TEMPERATURE)
        x = np.sqrt(STEP_SIZE) * (FRICTION * MOMENTUM + self.damping) / sigma
        return index_chain.log_weights(
            self.gradients, MOMENTUM, STEP_SIZE, FRICTION, TEMPERATURE, x
        )


def per_datum(position):
    return enumeration.logistic_regression(position, X, Y)


HERE, THERE, PRIOR = per_datum(POSITION), per_datum(ANCHOR), enumeration.normal_prior(POSITION, 2.0)
# SAGA's table: one number for each row, and the gradient that it stands for.
TABLE = np.array([0.3, -0.2, -0.8, 0.5, 0.1])
REFERENCES = TABLE[:, None] * X


def numbers_of(memory):
    """All numbers of memories with a leading axis, (N, …), row numbers and counts among them."""
    leaves = [np.asarray(x, np.float64) for x in jax.tree.leaves(memory)]
    return (
        np.concatenate([x.reshape(len(x), -1) for x in leaves], axis=1)
        if leaves
        else np.zeros((0, 0))
    )


def unchanged(memory, count):
    leaves = [np.ravel(np.asarray(x, np.float64)) for x in jax.tree.leaves(memory)]
    return np.tile(np.concatenate(leaves), (count, 1)) if leaves else np.zeros((0, 0))


def anchored(kind, batch_size, replace, **options):
    """SVRG or a control variate over uniform batches: no step moves the memory."""
    estimator = getattr(ewsg.gradients, kind)(
        POSTERIOR, batch_size=batch_size, replace=replace, **options
    )
    listed, _ = enumeration.batches(N, batch_size, replace)
    anchor, total = jnp.asarray(ANCHOR), jnp.asarray(THERE.sum(axis=0))
    rows = Batch(jnp.asarray(listed, jnp.int32))
    if kind == "svrg":
        memory, randomness = SVRGMemory(anchor, total, ()), SVRGDraw(rows, ())
    else:
        memory, randomness = ControlVariateMemory(anchor, total), rows
    gradients = enumeration.reduced_gradients(HERE, THERE, PRIOR, listed)
    return Wrapped(estimator, memory, randomness, listed, gradients, unchanged(memory, len(listed)))


def saga():
    """Batches that may hold a row twice: each changes its own rows of the table."""
    estimator = ewsg.gradients.saga(POSTERIOR, batch_size=2)
    listed, _ = enumeration.batches(N, 2, replace=True)
    memory = SAGAMemory(jnp.asarray(TABLE), jnp.asarray(REFERENCES.sum(axis=0)), jnp.zeros(2))
    new = np.array([here @ x / (x @ x) for here, x in zip(HERE, X, strict=True)])
    after = []
    for rows in listed:
        table = TABLE.copy()
        table[rows] = new[rows]
        after.append(np.concatenate([table, table @ X, np.zeros(2)]))
    gradients = enumeration.reduced_gradients(HERE, REFERENCES, PRIOR, listed)
    return Wrapped(
        estimator, memory, Batch(jnp.asarray(listed, jnp.int32)), listed, gradients, np.array(after)
    )


def stratified():
    """Strata of three and two rows, of which a batch has two and one."""
    labels, seats = np.array([0, 1, 0, 1, 0]), np.array([2, 1])
    estimator = ewsg.gradients.stratified(
        POSTERIOR, batch_size=3, labels=lambda data: jnp.asarray(labels), num_strata=2
    )
    listed, places = enumeration.stratified_batches(labels, seats)
    words, weight = words_of(listed, labels, places), (np.bincount(labels) / seats)[places]
    gradients = PRIOR + (weight[:, None] * HERE[listed]).sum(axis=1)
    memory = estimator.init(jax.random.key(0), jnp.asarray(POSITION), as_jax(DATA))
    randomness = jnp.asarray(words[:, None], jnp.uint32)
    return Wrapped(estimator, memory, randomness, listed, gradients, unchanged(memory, len(listed)))


def covariance_tracking():
    """Subsets of two rows; ω's covariance is in every weight, accepted rows move the moments."""
    estimator = ewsg.gradients.covariance_tracking(POSTERIOR, batch_size=2, replace=False)
    listed, _ = enumeration.batches(N, 2, replace=False)
    first, second = enumeration.moments(THERE)
    covariance = enumeration.covariance_of_moments(first, second, N, 2, replace=False)
    start = estimator.init(jax.random.key(0), jnp.asarray(ANCHOR), as_jax(DATA))
    memory = start._replace(moments=type(start.moments)(jnp.asarray(first), jnp.asarray(second)))
    after = []
    for rows in listed:
        moved = enumeration.moved_moments(first, second, HERE, THERE, rows)
        after.append(np.concatenate([ANCHOR, np.zeros(2), *map(np.ravel, moved), [0, 0]]))
    gradients = enumeration.stochastic_gradients(HERE, PRIOR, listed)
    damping = STEP_SIZE / (2 * TEMPERATURE) * covariance @ MOMENTUM
    randomness = Batch(jnp.asarray(listed, jnp.int32))
    return Wrapped(estimator, memory, randomness, listed, gradients, np.array(after), damping)


def blocks():
    listed = enumeration.blocks(N, 2)
    estimator = ewsg.gradients.uniform(POSTERIOR, batch_size=2, rows="blocks")
    gradients = enumeration.stochastic_gradients(HERE, PRIOR, listed)
    starts = Block(start=jnp.asarray(listed[:, 0], jnp.int32), size=2)
    # A block around the end is told by its rows in order.
    return Wrapped(estimator, (), starts, np.sort(listed, axis=1), gradients, unchanged((), N))


WRAPPED: dict[str, Callable[[], Wrapped]] = {
    "blocks": blocks,
    "svrg": lambda: anchored("svrg", 1, True),
    "saga": saga,
    "control_variate": lambda: anchored("control_variate", 2, False),
    "stratified": stratified,
    "covariance_tracking": covariance_tracking,
}


def number_of(estimate, w):
    """Which batch each estimate is of, by its rows, which stand first in what identifies it."""
    batch = estimate.batch if isinstance(estimate.batch, Batch) else estimate.batch[0]
    rows = np.asarray(batch.indices)
    hit = np.all(rows[:, None] == w.rows, axis=2)
    assert np.all(hit.sum(axis=1) == 1)
    return hit.argmax(axis=1)


@functools.cache
def wrapped(name):
    return WRAPPED[name]()


@functools.cache
def outcomes(name, chain_length):
    """`choose(numbers, log_uniforms) -> Outcome` as test_index_chain takes it.

    Whatever is chosen, the gradient must be that batch's reduced one, and the memory what that
    batch alone makes.
    """
    w = wrapped(name)
    estimator = ewsg.gradients.exponentially_weighted(w.estimator, chain_length=chain_length)
    data = as_jax(DATA)

    def one(numbers, log_uniforms):
        draw = ChainDraw(jax.tree.map(lambda x: x[numbers], w.randomness), log_uniforms)
        estimate, update = estimator.propose(draw, w.memory, jnp.asarray(POSITION), data, w.weight)
        return estimate, estimator.commit(update, w.memory)

    run = jax.jit(jax.vmap(one))

    def choose(numbers, log_uniforms):
        estimate, memory = jax.device_get(
            run(jnp.asarray(numbers), jnp.asarray(log_uniforms, jnp.float64))
        )
        chosen = number_of(estimate, w)
        close(estimate.gradient, w.gradients[chosen], 1e-12)
        if w.after.size:
            close(numbers_of(memory), w.after[chosen], 1e-12)
        return Outcome(chosen, estimate.acceptance, estimate.gradient)

    return choose


@functools.cache
def thresholds_of(name):
    return thresholds(outcomes(name, 1), len(wrapped(name).rows))


@pytest.mark.full
@pytest.mark.parametrize("name", WRAPPED)
def test_thresholds_are_those_of_the_reduced_gradients(x64, name):
    w = wrapped(name)
    expected = index_chain.acceptance(w.log_weights)
    np.testing.assert_allclose(np.exp(thresholds_of(name)), expected, rtol=0, atol=1e-12)
    law = index_chain.law(w.log_weights, 1)
    assert np.ptp(law) > 0.01 / len(law), "the weights hardly differ"


@pytest.mark.usual_parameters("svrg-1", "saga-2")
@pytest.mark.parametrize("chain_length", [1, 2])
@pytest.mark.parametrize("name", WRAPPED)
def test_law_is_the_transition_matrix_on_reduced_gradients(x64, name, chain_length):
    """And every tuple of candidates leaves the memory that its accepted batch alone makes."""
    law = law_of_the_chain(outcomes(name, chain_length), thresholds_of(name), chain_length)
    expected = index_chain.law(wrapped(name).log_weights, chain_length)
    np.testing.assert_allclose(law, expected, rtol=0, atol=1e-12)


@pytest.mark.usual_parameters("blocks", "saga")
@pytest.mark.parametrize(
    "name", ["blocks", "svrg", "saga", "control_variate", "covariance_tracking"]
)
def test_exact_weights_of_reduced_gradients(x64, name):
    """M = ∞: the law jumps at Σ_{k≤i} p_k, p of reduced gradients; the memory goes along."""
    w = wrapped(name)
    estimator = ewsg.gradients.exponentially_weighted(w.estimator, chain_length=np.inf)
    data = as_jax(DATA)

    def one(log_uniform):
        draw = ChainDraw(None, log_uniform[None])
        estimate, update = estimator.propose(draw, w.memory, jnp.asarray(POSITION), data, w.weight)
        return estimate, estimator.commit(update, w.memory)

    p = index_chain.exact_law(w.log_weights)
    jumps = np.cumsum(p)[:-1]
    uniforms = np.concatenate([jumps - 1e-10, jumps + 1e-10, [1e-300, 1.0]])
    estimate, memory = jax.device_get(jax.jit(jax.vmap(one))(jnp.log(jnp.asarray(uniforms))))
    expected = np.concatenate([np.arange(len(jumps)), np.arange(1, len(p)), [0, len(p) - 1]])
    np.testing.assert_array_equal(number_of(estimate, w), expected)
    close(estimate.gradient, w.gradients[expected], 1e-12)
    if w.after.size:
        close(numbers_of(memory), w.after[expected], 1e-12)
    inner = w.estimator.evaluations(data)
    late = 2 if name == "covariance_tracking" else 0
    assert estimator.evaluations(data).per_step == len(w.rows) * (inner.per_step - late) + late


@ewsg.module
class Wrapper(GradientEstimator):
    """An estimator of one's own around another, of which it says nothing."""

    estimator: GradientEstimator
    draw = propose = gradient_at = evaluations = lambda self, *arguments: None


@pytest.mark.full
def test_a_memory_is_each_chains_own_unless_its_estimator_says_otherwise():
    weighted = functools.partial(ewsg.gradients.exponentially_weighted, chain_length=1)
    anchored = functools.partial(ewsg.gradients.control_variate, POSTERIOR, batch_size=2)
    saga = ewsg.gradients.saga(POSTERIOR, batch_size=2, memory_limit=10_000)
    for estimator, of, limit in (
        (anchored(), "start", None),
        (anchored(center=jnp.zeros(2)), "data", None),
        (weighted(anchored(center=jnp.zeros(2))), "data", None),
        (weighted(anchored(), carry_index=True), "chain", None),
        (Wrapper(posterior=POSTERIOR, estimator=anchored()), "chain", None),
        (weighted(saga), "chain", 10_000),
        (weighted(saga, carry_index=True), "chain", 10_000),
    ):
        kernel = ewsg.kernel(ewsg.dynamics.langevin(0.1), estimator)
        assert sharing_of(kernel) == (of, limit)
        assert sharing_of(ewsg.stack([kernel, kernel])) == (of, limit)


def test_estimates_hold_a_covariance_where_their_estimator_says_so():
    tracked = ewsg.gradients.covariance_tracking(POSTERIOR, batch_size=2)
    weighted = functools.partial(ewsg.gradients.exponentially_weighted, tracked, chain_length=1)
    assert all(map(reports_covariance, (tracked, weighted(), weighted(carry_index=True))))
    assert not reports_covariance(Wrapper(posterior=POSTERIOR, estimator=tracked))
    assert not reports_covariance(ewsg.gradients.uniform(POSTERIOR, batch_size=2))
