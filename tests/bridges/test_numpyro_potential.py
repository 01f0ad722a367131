"""NumPyro's own potential of twenty models, and its gradient, in float64."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from jax.flatten_util import ravel_pytree
from numpyro import handlers
from numpyro.infer.util import potential_energy

import ewsg_jax as ewsg
from ewsg_jax.model_checks.support_structure import can_end
from tests.bridges import numpyro_models as models

POSITIONS = 5
ACCURACY = 1e-9
"""Relative difference of potentials and gradients in float64."""


def theirs(name):
    """NumPyro's potential, of a model with a subsampled plate on all its rows."""
    model, arguments = models.MODELS[name]
    model = handlers.seed(model, 0)
    if name == "subsampled":
        model = handlers.substitute(model, {"N": jnp.arange(models.N)})
    constants = {
        site: value["value"]
        for site, value in handlers.trace(model).get_trace(*arguments).items()
        if value["type"] == "param"
    }
    return lambda p: potential_energy(handlers.substitute(model, constants), arguments, {}, p)


def bridged(name, **options):
    model, arguments = models.MODELS[name]
    rows = {"rows": "all"} if name in models.ONE_DATUM else {}
    return ewsg.from_numpyro(model, *arguments, **rows | options)


def places(model, count=POSITIONS):
    random = np.random.default_rng(3)
    return jax.tree.map(lambda x: x + 0.5 * random.normal(size=(count, *x.shape)), model.position)


@pytest.mark.filterwarnings("ignore:subsample_size does not match")
@pytest.mark.usual_parameters("hierarchy", "two sites")
@pytest.mark.parametrize("name", models.MODELS)
def test_the_potential_and_its_gradient_are_numpyros(name):
    with jax.enable_x64(True):
        model = bridged(name)
        at = places(model)
        found, wanted = (
            jax.jit(jax.vmap(jax.value_and_grad(function)))(at)
            for function in (lambda p: model.posterior.potential(p, model.data), theirs(name))
        )
        for mine, other in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
            assert mine.dtype == np.float64
            np.testing.assert_allclose(
                mine, other, rtol=ACCURACY, atol=ACCURACY * max(1, np.abs(wanted[0]).max())
            )


def test_there_are_twenty_models_and_more():
    assert len(models.MODELS) >= 20


@pytest.mark.filterwarnings("ignore:subsample_size does not match")
@pytest.mark.usual_parameters("subsampled", "condition")
@pytest.mark.parametrize(
    "name",
    [
        # Two thirds are of the sweep: they take a minute.
        pytest.param(name, id=name, marks=[pytest.mark.sweep] * (place % 3 != 0))
        if name not in ("subsampled", "condition")
        else name
        for place, name in enumerate(models.MODELS)
        if name not in models.ONE_DATUM
    ],
)
def test_the_rows_of_a_batch_add_up_to_all(name):
    """In an order of their own, and each by itself."""
    model = bridged(name)
    assert ewsg.rows.num_rows(model.data) == models.N
    position = jax.tree.map(lambda x: x[0], places(model, 1))
    position = jax.tree.map(jnp.float32, position)
    whole = model.posterior.log_likelihoods(position, model.data)
    numbers = np.random.default_rng(0).permutation(models.N)[:7]
    some = jax.tree.map(lambda x: x[numbers], model.data)
    np.testing.assert_allclose(
        model.posterior.log_likelihoods(position, some), whole[numbers], rtol=1e-4, atol=1e-5
    )
    gradient, _ = ravel_pytree(model.posterior.gradient(position, model.data))
    batches = [
        ravel_pytree(model.posterior.batch_gradient(position, model.data, jnp.arange(k, k + 8)))[0]
        for k in (0, 8, 16)
    ]
    prior, _ = ravel_pytree(model.posterior.prior_gradient(position))
    np.testing.assert_allclose(sum(batches) / 3 + prior, gradient, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("name", ["logistic", pytest.param("hierarchy", marks=pytest.mark.full)])
def test_validation_of_numpyro_is_no_end_of_a_density(name):
    """A plan would look for it, at the cost of a program and of passes over the data."""
    model = bridged(name)
    assert can_end(model.posterior, model.position, model.data) == (False, False)


def test_what_the_model_observes_may_still_be_outside_of_its_support():
    """By the position, of a row and of the whole model."""

    def within(y, largest):
        top = numpyro.sample("top", dist.LogNormal(0.0, 1.0))
        numpyro.sample("largest", dist.Uniform(0.0, top), obs=largest)
        with numpyro.plate("N", len(y)):
            numpyro.sample("y", dist.Uniform(0.0, top), obs=y)

    y = jnp.linspace(0.1, 1.0, 5)
    model = ewsg.from_numpyro(within, y, jnp.float32(2.0))
    for top, of_rows, prior in (
        (0.5, [0, 0, 1, 1, 1], True),
        (1.5, [0] * 5, True),
        (3, [0] * 5, 0),
    ):
        at = {"top": jnp.log(top)}
        np.testing.assert_array_equal(
            model.posterior.log_likelihoods(at, model.data) == -jnp.inf, of_rows
        )
        assert (model.posterior.log_prior(at) == -jnp.inf) == prior
    assert can_end(model.posterior, model.position, model.data) == (True, True)
