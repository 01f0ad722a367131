"""`full` and `uniform` against every batch of six rows, with gradients typed by hand in NumPy."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

import ewsg_jax as ewsg
from ewsg_jax.rows import Batch
from tests.gradients.six_rows import MODELS, NAMES, N, as_jax, close, no_weight
from tests.oracles import enumeration

BATCHES = [(b, replace) for b in (1, 2) for replace in (True, False)]


class Case(NamedTuple):
    posterior: ewsg.Posterior
    position: object
    data: object
    per_datum: np.ndarray
    prior: np.ndarray


@pytest.fixture(params=["gaussian_location", *NAMES])
def case(request, x64):
    model = MODELS[request.param]
    return Case(
        model.posterior,
        as_jax(model.position),
        as_jax(model.data),
        model.per_datum(model.position),
        model.prior(model.position),
    )


def estimate_of(estimator, randomness, case):
    """The estimate, with its gradient flattened to a NumPy array."""

    @jax.jit
    def propose(randomness, position, data):
        estimate, _ = estimator.propose(randomness, (), position, data, no_weight)
        return estimate._replace(gradient=ravel_pytree(estimate.gradient)[0])

    return jax.device_get(propose(randomness, case.position, case.data))


def gradients(estimator, listed, case):
    """The estimate's gradient for each batch on the leading axis of `listed`, flattened, (N, d)."""

    @jax.jit
    def propose(listed, position, data):
        one = lambda rows: estimator.propose(rows, (), position, data, no_weight)[0].gradient
        return jax.vmap(lambda rows: ravel_pytree(one(rows))[0])(listed)

    return np.asarray(propose(Batch(jnp.asarray(listed, jnp.int32)), case.position, case.data))


def test_full_is_the_gradient_typed_by_hand(case):
    estimator = ewsg.gradients.full(case.posterior)
    estimate, update = jax.eval_shape(
        lambda p, d: estimator.propose((), (), p, d, no_weight), case.position, case.data
    )
    like = lambda tree: jax.tree.map(lambda x: (x.shape, x.dtype), tree)
    assert like(estimate.gradient) == like(case.position)
    assert update == ()
    estimate = estimate_of(estimator, (), case)
    close(estimate.gradient, enumeration.full_gradient(case.per_datum, case.prior))
    assert (estimate.batch, estimate.acceptance) == ((), 1)


@pytest.mark.parametrize(("batch_size", "replace"), BATCHES)
def test_uniform_over_all_batches(case, batch_size, replace):
    listed, probabilities = enumeration.batches(N, batch_size, replace)
    estimator = ewsg.gradients.uniform(case.posterior, batch_size=batch_size, replace=replace)
    values = gradients(estimator, listed, case)
    close(values, enumeration.stochastic_gradients(case.per_datum, case.prior, listed))
    mean, covariance = enumeration.mean_and_covariance(values, probabilities)
    close(mean, enumeration.full_gradient(case.per_datum, case.prior))
    close(covariance, enumeration.batch_covariance(case.per_datum, batch_size, replace))


@pytest.mark.parametrize(("batch_size", "replace"), BATCHES)
def test_batches_lists_every_batch_once(case, batch_size, replace):
    estimator = ewsg.gradients.uniform(case.posterior, batch_size=batch_size, replace=replace)
    listed = estimator.batches(case.data)
    assert listed.indices.dtype == jnp.int32
    np.testing.assert_array_equal(listed.indices, enumeration.batches(N, batch_size, replace)[0])


@pytest.mark.parametrize("kind", ["full", "uniform"])
def test_probe_is_the_same_batch_elsewhere(case, kind):
    if kind == "full":
        estimator, batch = ewsg.gradients.full(case.posterior, chunk_size=4), ()
    else:
        estimator = ewsg.gradients.uniform(case.posterior, batch_size=2)
        batch = Batch(jnp.array([4, 1]))

    @jax.jit
    def probe_and_propose(position, elsewhere, data):
        here, there = (
            estimator.propose(batch, (), p, data, no_weight)[0] for p in (position, elsewhere)
        )
        probes = [estimator.gradient_at(here, p, data) for p in (position, elsewhere)]
        return [ravel_pytree(x)[0] for x in (here.gradient, there.gradient, *probes)]

    elsewhere = jax.tree.map(lambda x: 0.5 * x - 0.2, case.position)
    here, there, probed_here, probed_there = map(
        np.asarray, probe_and_propose(case.position, elsewhere, case.data)
    )
    close(probed_here, here)
    close(probed_there, there)
    assert np.abs(there - here).max() > 0.1


# Memory and program size of `full`: what is compiled for 16 chains, without running it.

ROWS, CHAINS, CHUNK, WIDTH = 200_000, 16, 4096, 20


def network():
    """A posterior without a closed form, whose activations are as wide as its inputs."""
    return ewsg.Posterior(
        lambda w, row: -jnp.square(row["y"] - jnp.sum(jnp.tanh(row["x"] @ w))), lambda w: 0.0
    )


def lowered_for_chains(model, shape, n, chunk_size=CHUNK):
    estimator = ewsg.gradients.full(model, chunk_size=chunk_size)
    data = {
        "x": jax.ShapeDtypeStruct((n, WIDTH), jnp.float32),
        "y": jax.ShapeDtypeStruct((n,), jnp.float32),
    }
    positions = jax.ShapeDtypeStruct((CHAINS, *shape), jnp.float32)
    one = lambda position, data: estimator.propose((), (), position, data, no_weight)[0].gradient
    return jax.jit(jax.vmap(one, (0, None))).lower(positions, data)


WIDE = [(ewsg.models.logistic_regression(), (WIDTH,), 1), (network(), (WIDTH, WIDTH), WIDTH)]


@pytest.mark.parametrize(("model", "shape", "activations"), WIDE, ids=["closed_form", "autodiff"])
def test_memory_of_full_is_bounded_by_a_chunk(model, shape, activations):
    """A chunk of rows and some numbers an activation per chain; all rows at once need more."""

    def used(chunk_size):
        compiled = lowered_for_chains(model, shape, ROWS, chunk_size).compile()
        return compiled.memory_analysis().temp_size_in_bytes

    bound = 4 * CHUNK * (WIDTH + 1 + 4 * CHAINS * activations)
    assert used(CHUNK) < bound < 4 * ROWS * WIDTH * CHAINS / 10
    assert used(ROWS) > 5 * bound, "the measure would not see all rows taken at once"


@pytest.mark.parametrize(("model", "shape", "activations"), WIDE, ids=["closed_form", "autodiff"])
def test_program_of_full_does_not_grow_with_n(model, shape, activations):
    few, many = (
        lowered_for_chains(model, shape, n).as_text().count("\n") for n in (10_001, 200_001)
    )
    assert few == many
