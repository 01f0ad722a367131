"""Exponential weights: the index chain's exact law, its thresholds and what it costs, without
sampling.

All candidates of five rows are handed in as randomness, and every uniform number on either side of
the threshold that the implementation itself shows; the law that follows is compared with a
transition matrix made by NumPy from log weights typed from the paper.
"""

import functools
import itertools
import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ewsg_jax as ewsg
from ewsg_jax.gradients._index_chain import ChainDraw
from ewsg_jax.rows import Batch
from tests.oracles import enumeration, index_chain
from tests.parts import altered

N = 5
RNG = np.random.default_rng(4)
X, Y = RNG.normal(size=(N, 2)), np.array([0, 1, 1, 0, 1])
POSITION, MOMENTUM = np.array([0.4, -0.3]), np.array([0.8, -0.5])
FRICTION, TEMPERATURE = 2.0, 1.5
STEP_SIZE = {"gaussian_location": 0.08, "logistic_regression": 0.3}
FROZEN_NOISE = ["momentum", "zero", "one", "rest"]
BATCHES = [(1, True), (2, False)]
"""b = 1 gives 5 batches, b = 2 without replacement 10."""


class Setting(NamedTuple):
    """A model at a fixed state, and what NumPy says about its batches."""

    posterior: ewsg.Posterior
    data: object
    step_size: float
    batches: np.ndarray
    gradients: np.ndarray

    @property
    def weight(self):
        dynamics = ewsg.dynamics.semi_implicit(
            self.step_size, friction=FRICTION, temperature=TEMPERATURE
        )
        return functools.partial(dynamics.log_weight, state_at(dynamics))

    def log_weights(self, frozen_noise="momentum"):
        return index_chain.log_weights(
            self.gradients, MOMENTUM, self.step_size, FRICTION, TEMPERATURE, frozen_noise
        )

    def uniform(self):
        replace = len(self.batches) == N
        return ewsg.gradients.uniform(
            self.posterior, batch_size=self.batches.shape[1], replace=replace
        )


def setting(model, batch_size=1, replace=True, step_size=None):
    if model == "gaussian_location":
        posterior, data = ewsg.models.gaussian_location(noise_scale=0.9, prior_scale=2.0), X
        per_datum = enumeration.gaussian_location(POSITION, X, 0.9)
    else:
        posterior, data = ewsg.models.logistic_regression(prior_scale=2.0), {"x": X, "y": Y}
        per_datum = enumeration.logistic_regression(POSITION, X, Y)
    listed, _ = enumeration.batches(N, batch_size, replace)
    gradients = enumeration.stochastic_gradients(
        per_datum, enumeration.normal_prior(POSITION, 2.0), listed
    )
    data = jax.tree.map(jnp.asarray, data)
    return Setting(posterior, data, step_size or STEP_SIZE[model], listed, gradients)


def state_at(dynamics):
    state = dynamics.init(jax.random.key(0), jnp.asarray(POSITION))
    return state._replace(
        **{"momentum": jnp.asarray(MOMENTUM)} if hasattr(state, "momentum") else {}
    )


class Outcome(NamedTuple):
    """What the chain chose: the batch's number, the share of proposals accepted, the gradient."""

    number: np.ndarray
    acceptance: np.ndarray
    gradient: np.ndarray


def outcomes(s, chain_length, frozen_noise="momentum"):
    """Return `choose(numbers, log_uniforms) -> Outcome`, tuples of candidates in front."""
    estimator = ewsg.gradients.exponentially_weighted(
        s.uniform(), chain_length=chain_length, frozen_noise=frozen_noise
    )

    def one(batches, log_uniforms):
        estimate, _ = estimator.propose(
            ChainDraw(Batch(batches), log_uniforms), (), jnp.asarray(POSITION), s.data, s.weight
        )
        return estimate

    run = jax.jit(jax.vmap(one))

    def choose(numbers, log_uniforms):
        batches = jnp.asarray(s.batches[numbers], jnp.int32)
        estimate = jax.device_get(run(batches, jnp.asarray(log_uniforms, jnp.float64)))
        hit = np.all(estimate.batch.indices[:, None] == s.batches, axis=2)
        assert np.all(hit.sum(axis=1) == 1)
        return Outcome(hit.argmax(axis=1), estimate.acceptance, estimate.gradient)

    return choose


def thresholds(choose, count):
    """Bisect, for every pair (i, j), the largest log u at which i gives way to j."""
    pairs = np.array(list(itertools.product(range(count), repeat=2)))

    def accepts(log_u):
        accepted = choose(pairs, log_u[:, None]).acceptance
        assert set(accepted.tolist()) <= {0, 1}
        return accepted == 1

    yes, no = np.full(len(pairs), -40.0), np.zeros(len(pairs))
    assert accepts(yes).all()
    always = accepts(no)
    for _ in range(60):
        middle = (yes + no) / 2
        accepted = accepts(middle)
        yes, no = np.where(accepted, middle, yes), np.where(accepted, no, middle)
    return np.where(always, 0.0, yes).reshape(count, count)


@functools.cache
def thresholds_of(model, batch_size, replace):
    s = setting(model, batch_size, replace)
    return thresholds(outcomes(s, 1), len(s.batches))


def law_of_the_chain(choose, log_threshold, chain_length):
    """The exact law of the chosen batch, from the implementation's choices alone.

    For every tuple of M+1 candidates and every accept/reject pattern, the uniforms are put just
    inside the end of the interval that the pattern asks for, and the interval's length is that
    pattern's probability.
    """
    count, edge = len(log_threshold), 1e-9
    numbers = np.array(list(itertools.product(range(count), repeat=chain_length + 1)))
    law = np.zeros(count)
    for pattern in itertools.product([True, False], repeat=chain_length):
        current = numbers[:, 0]
        probability = np.full(len(numbers), 1 / len(numbers))
        log_uniforms = []
        for accepted, proposal in zip(pattern, numbers[:, 1:].T, strict=True):
            threshold = log_threshold[current, proposal]
            log_uniforms.append(np.minimum(threshold - edge if accepted else threshold + edge, 0))
            probability = probability * (np.exp(threshold) if accepted else -np.expm1(threshold))
            current = proposal if accepted else current
        possible = probability > 0
        chosen = choose(numbers, np.stack(log_uniforms, axis=1))
        np.testing.assert_array_equal(chosen.number[possible], current[possible])
        np.testing.assert_allclose(chosen.acceptance[possible], np.mean(pattern), rtol=1e-7)
        law += np.bincount(chosen.number, probability, count)
    return law


# The index chain's law.


@pytest.mark.usual_parameters("gaussian_location-1-True", "logistic_regression-2-False")
@pytest.mark.parametrize(("batch_size", "replace"), BATCHES)
@pytest.mark.parametrize("model", STEP_SIZE)
def test_acceptance_has_metropolis_threshold(x64, model, batch_size, replace):
    """A visit accepts just for u ≤ min(1, exp(Δw)): bisected to rounding, and on a grid."""
    s = setting(model, batch_size, replace)
    count, w = len(s.batches), s.log_weights()
    choose, found = outcomes(s, 1), thresholds_of(model, batch_size, replace)
    np.testing.assert_allclose(np.exp(found), index_chain.acceptance(w), rtol=0, atol=1e-12)

    grid = (np.arange(4096) + 0.5) / 4096
    pairs = np.array(list(itertools.product(range(count), repeat=2)))
    chosen = choose(np.repeat(pairs, 4096, axis=0), np.tile(np.log(grid), len(pairs))[:, None])
    accepted = chosen.acceptance.reshape(count, count, 4096) == 1
    np.testing.assert_array_equal(accepted, np.log(grid) <= found[:, :, None])
    expected = np.where(accepted, np.arange(count)[None, :, None], np.arange(count)[:, None, None])
    np.testing.assert_array_equal(chosen.number, expected.ravel())
    np.testing.assert_allclose(chosen.gradient, s.gradients[chosen.number], atol=1e-12)
    law = np.bincount(chosen.number, minlength=count) / len(chosen.number)
    np.testing.assert_allclose(law, index_chain.law(w, 1), rtol=0, atol=1 / 4096)


@pytest.mark.usual_parameters("*-1-True-1", "*-2-False-3")
@pytest.mark.parametrize("chain_length", [1, 2, 3])
@pytest.mark.parametrize(("batch_size", "replace"), BATCHES)
@pytest.mark.parametrize("model", STEP_SIZE)
def test_law_is_the_transition_matrix_applied_to_uniform(
    x64, model, batch_size, replace, chain_length
):
    s = setting(model, batch_size, replace)
    found = thresholds_of(model, batch_size, replace)
    law = law_of_the_chain(outcomes(s, chain_length), found, chain_length)
    np.testing.assert_allclose(
        law, index_chain.law(s.log_weights(), chain_length), rtol=0, atol=1e-12
    )


@pytest.mark.parametrize("frozen_noise", FROZEN_NOISE)
def test_frozen_noise_reaches_the_chain(x64, frozen_noise):
    s = setting("gaussian_location")
    found = thresholds(outcomes(s, 1, frozen_noise=frozen_noise), N)
    expected = index_chain.acceptance(s.log_weights(frozen_noise))
    np.testing.assert_allclose(np.exp(found), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize(("batch_size", "replace"), BATCHES)
def test_no_visits_are_the_wrapped_estimator(x64, batch_size, replace):
    s = setting("gaussian_location", batch_size, replace)
    every = np.arange(len(s.batches))
    chosen = outcomes(s, 0)(every[:, None], np.zeros((len(every), 0)))
    np.testing.assert_array_equal(chosen.number, every)
    np.testing.assert_allclose(chosen.gradient, s.gradients, atol=1e-12)
    np.testing.assert_array_equal(chosen.acceptance, 1)


def exact_draw(log_uniform):
    """Exact weights take one uniform number; the batch drawn beside it is for a refresh alone."""
    return ChainDraw(None, log_uniform[None])


@pytest.mark.full
def test_exact_weights_do_not_overflow():
    """In float32 exp(½‖x + a‖²) would be infinite here; the law is all on the heaviest batch."""
    s = setting("gaussian_location", step_size=1e3)
    estimator = ewsg.gradients.exponentially_weighted(s.uniform(), chain_length=math.inf)
    position, heaviest = jnp.asarray(POSITION, jnp.float32), int(s.log_weights().argmax())
    choose = jax.jit(
        lambda log_u: estimator.propose(exact_draw(log_u), (), position, s.data, s.weight)[0].batch
    )
    assert [choose(jnp.log(u)).indices.tolist() for u in (1e-6, 0.5, 1.0)] == 3 * [[heaviest]]


def test_every_candidate_and_the_uniforms_have_their_own_key():
    """A wrapped estimator whose draw is its key: M+1 different keys, not the chain's own."""
    s = setting("gaussian_location")
    inner = s.uniform()
    keyed = altered(inner, draw=lambda key, data, order: jax.random.key_data(key))
    drawn = ewsg.gradients.exponentially_weighted(keyed, chain_length=6).draw(
        jax.random.key(5), s.data
    )
    keys = {tuple(key) for key in drawn.batches.tolist()}
    assert len(keys) == 7
    assert drawn.log_uniforms.shape == (6,)
    for key in keys:
        same = jnp.log1p(
            -jax.random.uniform(jax.random.wrap_key_data(jnp.array(key, jnp.uint32)), (6,))
        )
        assert not np.any(np.asarray(same) == np.asarray(drawn.log_uniforms))


# What the weights do to the mean.


@pytest.mark.usual_parameters("1-True-gaussian_location", "2-False-gaussian_location")
@pytest.mark.parametrize("model", STEP_SIZE)
@pytest.mark.parametrize(("batch_size", "replace"), BATCHES)
def test_one_visit_tilts_the_mean_to_first_order(x64, model, batch_size, replace):
    """E g + (h/σ²)[S(γp + ∇V) + ½E‖δ‖²δ] + O(h²), over all pairs and actual thresholds."""

    def residual(h):
        s = setting(model, batch_size, replace, step_size=h)
        g, count = s.gradients, len(s.batches)
        accept = np.exp(thresholds(outcomes(s, 1), count))
        mean = np.einsum("ij,jd->d", accept, g) + np.einsum("ij,id->d", 1 - accept, g)
        delta = g - g.mean(axis=0)
        covariance = delta.T @ delta / count
        skewness = (np.sum(delta**2, axis=1)[:, None] * delta).mean(axis=0)
        tilt = covariance @ (FRICTION * MOMENTUM + g.mean(axis=0)) + skewness / 2
        first_order = h / (2 * FRICTION * TEMPERATURE) * tilt
        return mean / count**2 - g.mean(axis=0) - first_order, first_order

    h = STEP_SIZE[model] / 400
    (coarse, tilt), (fine, _) = residual(h), residual(h / 2)
    assert np.linalg.norm(coarse) < 0.05 * np.linalg.norm(tilt)
    np.testing.assert_allclose(coarse / fine, 4, rtol=0.02)
