"""Covariances that stay from reset to reset, and those at one point."""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ewsg_jax as ewsg
from tests.gradients.six_rows import MODELS, N, as_jax, close, flat
from tests.gradients.test_covariance_tracking import (
    EVERY,
    STEPS,
    STRUCTURES,
    along,
    as_numpy,
    matrix_of,
    positions,
    restricted,
)
from tests.oracles import enumeration

pytestmark = pytest.mark.full


@pytest.mark.parametrize("structure", ["dense", "diagonal"])
def test_a_kept_covariance_is_that_of_the_last_reset(x64, structure):
    """Any rank, along given points: the closed form's at the point of the last reset."""
    model = MODELS["custom"]
    center = np.asarray(flat(as_jax(model.position)))
    points = center + 0.3 * np.random.default_rng(5).normal(size=(STEPS, len(center)))
    estimator = ewsg.gradients.kept_covariance(
        model.posterior,
        batch_size=2,
        replace=False,
        refresh_every=EVERY,
        structure=structure,
        rank=2,
    )

    steps = along(
        estimator, positions(points, model), np.tile([1, 4], (STEPS, 1)), as_jax(model.data)
    )
    covariance, evaluations = steps.estimate.covariance, steps.evaluations
    gradients = jax.vmap(flat)(steps.estimate.gradient)
    found = matrix_of(covariance)
    for step, point in enumerate(points):
        anchor = as_numpy(points[step - step % EVERY], model)
        exact = enumeration.batch_covariance(model.per_datum(anchor), 2, replace=False)
        close(found[step], restricted(exact, structure), 1e-12)
        here = as_numpy(point, model)
        expected = enumeration.stochastic_gradients(
            model.per_datum(here), model.prior(here), np.array([[1, 4]])
        )
        close(np.asarray(gradients[step]), expected[0], 1e-12)
    np.testing.assert_array_equal(evaluations, np.where(np.arange(STEPS) % EVERY == 0, N, 0))
    cost = estimator.evaluations(as_jax(model.data))
    assert cost == ewsg.gradients.Evaluations(2, 2, per_refresh=N, refresh_every=EVERY)
    assert cost.of_steps(0, STEPS) == 2 * STEPS + evaluations.sum()


@pytest.mark.usual_parameters("True-dense", "False-low_rank")
@pytest.mark.parametrize("structure", STRUCTURES)
@pytest.mark.parametrize("replace", [True, False])
def test_the_covariance_at_a_point(x64, structure, replace):
    """By closed form; of a low rank, the leading eigenvectors after so many passes."""
    model = MODELS["custom"]
    found = ewsg.gradients.covariance_at(
        model.posterior,
        as_jax(model.position),
        as_jax(model.data),
        batch_size=2,
        replace=replace,
        chunk_size=4,
        passes=60,
        **STRUCTURES[structure],
    )
    exact = enumeration.batch_covariance(model.per_datum(model.position), 2, replace)
    values, vectors = np.linalg.eigh(exact)
    expected = restricted(exact, structure)
    if structure == "low_rank":
        expected = (vectors[:, -2:] * values[-2:]) @ vectors[:, -2:].T
    close(matrix_of(found), expected, 1e-10)
    assert found.size == len(values)


def test_each_pass_but_the_last_turns_the_basis_once(x64):
    """What it spans after a pass more is the covariance times what it spanned before."""
    model = MODELS["custom"]
    exact = enumeration.batch_covariance(model.per_datum(model.position), 2, True)
    bases = [
        np.asarray(
            ewsg.gradients.covariance_at(
                model.posterior,
                as_jax(model.position),
                as_jax(model.data),
                batch_size=2,
                passes=passes,
                **STRUCTURES["low_rank"],
            ).basis
        )
        for passes in (1, 2, 3)
    ]
    for before, after in itertools.pairwise(bases):
        turned, _ = np.linalg.qr(exact @ before)
        close(after @ after.T, turned @ turned.T, 1e-9)


@jax.custom_vjp
def half_square(residual):
    """x²/2, differentiated backwards alone."""
    return residual**2 / 2


half_square.defvjp(lambda x: (half_square(x), x), lambda x, weight: (x * weight,))


@pytest.mark.full
def test_a_low_rank_makes_no_gradient_of_a_row(x64):
    """A likelihood without forward differentiation: no array of rows by numbers."""
    rng = np.random.default_rng(6)
    d, rows_at_once = 33, 16
    data = {"x": jnp.asarray(rng.normal(size=(48, 11))), "y": jnp.asarray(rng.normal(size=48))}
    position = jnp.asarray(rng.normal(size=(3, 11)))
    posterior = ewsg.Posterior(
        lambda w, row: -half_square(row["y"] - jnp.sum(jnp.tanh(w @ row["x"]))),
        lambda w: -jnp.sum(w**2) / 2,
    )

    def found(structure, passes, rank=d):
        return functools.partial(
            ewsg.gradients.covariance_at,
            posterior,
            batch_size=3,
            structure=structure,
            rank=rank,
            passes=passes,
            chunk_size=rows_at_once,
        )

    close(
        matrix_of(found("low_rank", 2)(position, data)),
        matrix_of(found("dense", 1)(position, data)),
        1e-12,
    )
    told = {
        name: jax.jit(found(name, 2, rank=4)).lower(position, data).as_text()
        for name in ("dense", "low_rank")
    }
    of_rows = f"tensor<{rows_at_once}x{d}x"
    assert of_rows in told["dense"]
    assert of_rows not in told["low_rank"]


@pytest.mark.parametrize("is_linear", [False, True])
@pytest.mark.parametrize(
    "make", [ewsg.gradients.kept_covariance, ewsg.gradients.covariance_tracking]
)
def test_a_low_rank_of_single_positions_and_double_rows(x64, make, is_linear):
    """A likelihood in float64 of a position in float32: the covariance is that of the dense one."""
    rng = np.random.default_rng(7)
    data = {"x": jnp.asarray(rng.normal(size=(30, 3))), "y": jnp.asarray(rng.normal(size=30))}
    model = ewsg.models.linear_regression()
    model = model if is_linear else ewsg.Posterior(model.log_likelihood, model.log_prior)
    point = jnp.asarray([0.1, -0.2, 0.3], jnp.float32)
    estimator = make(model, batch_size=5, structure="low_rank", rank=3)
    memory = estimator.init(jax.random.key(0), point, data)
    memory, _, _ = estimator.refresh((), memory, jnp.int32(0), point, data)
    batch = estimator.draw(jax.random.key(1), data)
    estimate, _ = estimator.propose(batch, memory, point, data, lambda *_: jnp.zeros(()))
    dense = ewsg.gradients.covariance_at(model, point, data, batch_size=5)
    found = ewsg.gradients.covariance_at(
        model, point, data, batch_size=5, structure="low_rank", rank=3
    )
    for each in (estimate.covariance, found):
        np.testing.assert_allclose(matrix_of(each), matrix_of(dense), rtol=1e-4, atol=1e-4)
    assert estimate.gradient.dtype == jnp.float32
