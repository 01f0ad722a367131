"""Walls that rise within a step: draws do not lie on them, and steps lead there."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ewsg_jax as ewsg
from ewsg_jax.answers.mode.mode import Mode
from ewsg_jax.answers.plan import settings
from ewsg_jax.answers.plan.stiff_directions import stiffest_direction, stiffest_within_a_step
from ewsg_jax.answers.plan.whitening import Whitening

pytestmark = pytest.mark.full

DATA = jnp.zeros(2)


def made(rate: float) -> tuple[ewsg.Posterior, Whitening]:
    """V = exp(−rate θ) + θ²/2, around 2 in units of 1."""
    posterior = ewsg.Posterior(
        lambda theta, row: -jnp.exp(-rate * theta[0]) / 2, lambda theta: -0.5 * jnp.sum(theta**2)
    )
    center = jnp.full(1, 2.0)
    mode = Mode(center, True, 0.0, 0.0, 0.0, 0, 0.0)
    return posterior, Whitening.of_covariance(mode, center, np.eye(1))


def curvature(rate: float, theta: np.ndarray) -> np.ndarray:
    """Of that potential."""
    return rate**2 * np.exp(-rate * theta) + 1


@pytest.mark.parametrize("rate", [0.01, 0.5, 2.0, 10.0])
def test_a_step_leads_to_nothing_steeper_than_it_stands(rate):
    """By the closed form: stable where it leads from the steepest draw, four times as fast."""
    posterior, whitening = made(rate)
    places = np.linspace(-1.5, 0.0, 64, dtype=np.float32)[:, None]
    wall = stiffest_direction(posterior, whitening, places, DATA)
    np.testing.assert_allclose(wall.curvature, curvature(rate, np.array(0.5)), rtol=1e-3)
    found = stiffest_within_a_step(posterior, whitening, places[:8], DATA, wall)

    def is_stable(curvature_here: float) -> bool:
        step = 2 * settings.STABLE_STEP_SHARE / curvature_here**0.5
        return bool(step**2 * curvature(rate, 2 - 1.5 - 2 * settings.STIFF_WIDTH * step) < 4)

    assert is_stable(found.curvature)
    if rate < 0.1:
        assert found == wall, "no wall rises within a step"
    else:
        assert not is_stable(wall.curvature)


def test_where_there_is_no_number_a_step_does_not_lead():
    """The logarithm of what is below 0: the step gets shorter, and stays a number."""
    posterior = ewsg.Posterior(
        lambda theta, row: jnp.log(theta[0]), lambda theta: -0.5 * jnp.sum(theta**2)
    )
    mode = Mode(jnp.ones(1), True, 0.0, 0.0, 0.0, 0, 0.0)
    whitening = Whitening.of_covariance(mode, jnp.ones(1), np.eye(1))
    places = np.full((8, 1), -0.9, np.float32)
    wall = stiffest_direction(posterior, whitening, places, DATA)
    found = stiffest_within_a_step(posterior, whitening, places, DATA, wall)
    assert 10 * wall.curvature < found.curvature < np.inf


@pytest.mark.full
@pytest.mark.parametrize("seed", [0, 7])
def test_separated_labels_are_planned_right(seed):
    """A slope that no row bounds, sd 29, and a wall of width 2: rows say only that it is positive.

    Steps that jumped the foot of the wall made its sd 1.4 of the right one, in one run of four.
    """
    x = np.linspace(-2, 2, 20).astype(np.float32)
    rows = {"x": x, "y": (x > 0).astype(np.float32)}
    grid = np.linspace(-50, 400, 200_001)
    logit = x[:, None] * grid
    log_density = (rows["y"][:, None] * logit - np.logaddexp(0, logit)).sum(0) - (
        grid / 50
    ) ** 2 / 2
    weight = np.exp(log_density - log_density.max())
    mean = np.average(grid, weights=weight)
    sd = np.average((grid - mean) ** 2, weights=weight) ** 0.5

    def likelihood(slope: jax.Array, row: dict[str, jax.Array]) -> jax.Array:
        return row["y"] * row["x"] * slope - jax.nn.softplus(row["x"] * slope)

    posterior = ewsg.Posterior(likelihood, lambda slope: -0.5 * (slope / 50) ** 2)
    for_plan, for_run = jax.random.split(jax.random.key(seed), 3)[:2]
    plan = ewsg.plan(for_plan, posterior, jnp.zeros(()), rows, progress=False)
    run = {"num_chains": 8, "burn_in": plan.burn_in, "progress": False}
    samples = ewsg.sample(
        for_run, plan.kernel, plan.start, rows, data_passes=plan.data_passes(ess=1000), **run
    )
    draws = np.asarray(samples.position, np.float64)
    assert abs(draws.mean() - mean) < 0.2 * sd
    assert abs(draws.std() / sd - 1) < 0.15


@pytest.mark.full
def test_between_soft_walls_there_are_no_widths():
    """Level in the middle: the mode's variance is more than float32 holds, and so is a window's."""

    def likelihood(theta: jax.Array, row: jax.Array) -> jax.Array:
        return -jnp.sum(jax.nn.softplus((jnp.abs(theta) - 1) / 0.01)) / 2

    posterior = ewsg.Posterior(likelihood, lambda theta: 0.0)
    with pytest.raises(ValueError, match=r"log_prior proper\? And posterior must be proper, with"):
        ewsg.plan(jax.random.key(0), posterior, jnp.zeros(1), DATA, progress=False)
