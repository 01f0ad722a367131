"""`full` against gradients typed by hand in NumPy, its memory, and the batches of `uniform`."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ewsg_jax as ewsg
from tests.gradients.six_rows import (
    MODELS,
    NAMES,
    N,
    as_jax,
    close,
    flat,
    no_weight,
    shifted,
)
from tests.oracles import enumeration


@pytest.mark.parametrize("name", ["gaussian_location", *NAMES])
def test_full_is_the_gradient_typed_by_hand(x64, name):
    """In chunks of four rows; a probe is the gradient where it is asked for."""
    model = MODELS[name]
    estimator = ewsg.gradients.full(model.posterior, chunk_size=4)
    position, elsewhere = as_jax(model.position), shifted(model.position, 0.5, -0.2)

    @jax.jit
    def both(position, elsewhere, data):
        estimate, update = estimator.propose((), (), position, data, no_weight)
        assert update == ()
        return estimate, estimator.gradient_at(estimate, elsewhere, data)

    estimate, probe = both(position, as_jax(elsewhere), as_jax(model.data))
    like = lambda tree: jax.tree.map(lambda x: (x.shape, x.dtype), tree)
    assert like(estimate.gradient) == like(position)
    assert (estimate.batch, estimate.acceptance) == ((), 1)
    for found, at in ((estimate.gradient, model.position), (probe, elsewhere)):
        expected = enumeration.full_gradient(model.per_datum(at), model.prior(at))
        close(np.asarray(flat(found)), expected)


@pytest.mark.parametrize("replace", [True, False])
@pytest.mark.parametrize("batch_size", [1, 2])
def test_batches_lists_every_batch_once(batch_size, replace):
    model = ewsg.models.gaussian_location()
    estimator = ewsg.gradients.uniform(model, batch_size=batch_size, replace=replace)
    listed = estimator.batches(jnp.zeros((N, 1)))
    assert listed.indices.dtype == jnp.int32
    np.testing.assert_array_equal(listed.indices, enumeration.batches(N, batch_size, replace)[0])


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
