"""PyMC's own log density of twenty models, and its gradient, in float64, at five positions."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ewsg_jax as ewsg
from tests.bridges.needs_pymc import skip_without_pymc

skip_without_pymc()

from pytensor.compile.mode import Mode  # noqa: E402

from tests.bridges import pymc_models as models  # noqa: E402

POSITIONS = 5
ACCURACY = 1e-9
"""Difference of potentials and gradients in float64, as a share of a potential above 1."""
BY_ROW = [name for name in models.MODELS if name not in models.ONE_DATUM]
USUAL = "logistic", "minibatch", "effects_of_rows"


def bridged(name):
    rows = "all" if name in models.ONE_DATUM else models.ROWS.get(name)
    return ewsg.from_pymc(models.model(name), rows=rows)


def places(model, count=POSITIONS):
    """Positions around the start, where no two numbers are equal."""
    random = np.random.default_rng(3)
    return [
        {k: np.asarray(x) + 0.5 * random.normal(size=x.shape) for k, x in model.position.items()}
        for _ in range(count)
    ]


@pytest.mark.filterwarnings("ignore:Data in y contains missing values")
@pytest.mark.usual_parameters(*USUAL)
@pytest.mark.parametrize("name", models.MODELS)
def test_the_potential_and_its_gradient_are_pymcs(name):
    # Nothing is compiled by C, and what is drawn from whole arrays is written with them.
    theirs = models.model({"minibatch": "of_minibatch"}.get(name, name))
    known = {"mode": Mode(linker="py", optimizer="fast_compile")}
    density, gradient = theirs.compile_logp(**known), theirs.compile_dlogp(**known)
    with jax.enable_x64(True):
        model = bridged(name)
        mine = jax.jit(jax.value_and_grad(lambda p: model.posterior.potential(p, model.data)))
        for place in places(model):
            potential, slopes = mine(place)
            assert potential.dtype == np.float64
            size = max(1.0, abs(density(place)))
            assert abs(potential + density(place)) < ACCURACY * size
            flat = np.concatenate([np.ravel(slopes[value.name]) for value in theirs.value_vars])
            np.testing.assert_allclose(flat, -gradient(place), rtol=0, atol=ACCURACY * size)


def test_there_are_twelve_models_and_more():
    assert len(BY_ROW) >= 12


@pytest.mark.usual_parameters("effects_of_rows")
@pytest.mark.parametrize(
    "name",
    [
        "multivariate",
        "two_observed",
        "effects_of_rows",
        "with_potential",
        "minibatch",
        "total_size",
    ],
)
def test_the_rows_of_a_batch_add_up_to_all(name):
    """In an order of their own."""
    model = bridged(name)
    assert ewsg.rows.num_rows(model.data) == models.N
    (position,) = places(model, 1)
    position = jax.tree.map(jnp.float32, position)
    numbers = np.random.default_rng(0).permutation(models.N)[:8]
    some = jax.tree.map(lambda x: x[numbers], model.data)

    @jax.jit
    def both(position, data, some):
        # Each row once: the estimates of three batches have the gradient as their mean.
        posterior = model.posterior
        batches = [
            posterior.batch_gradient(position, data, jnp.arange(k, k + 8)) for k in (0, 8, 16)
        ]
        mean = jax.tree.map(lambda *x: sum(x) / 3, *batches)
        estimated = jax.tree.map(jnp.add, mean, posterior.prior_gradient(position))
        whole = posterior.gradient(position, data)
        values = [posterior.log_likelihoods(position, rows) for rows in (data, some)]
        return values, (estimated, whole)

    (whole, of_some), (estimated, gradient) = both(position, model.data, some)
    np.testing.assert_allclose(of_some, whole[numbers], rtol=1e-4, atol=1e-5)
    for key, wanted in gradient.items():
        np.testing.assert_allclose(estimated[key], wanted, rtol=1e-3, atol=1e-3)
