"""L-BFGS on the way to a mode, on parabolas whose mode is known."""

import jax.numpy as jnp
import numpy as np
import pytest

import ewsg_jax as ewsg
from ewsg_jax.answers.mode.potential import HostPotential
from ewsg_jax.answers.mode.quasi_newton import approach

pytestmark = pytest.mark.full

D, TOLERANCE = 100, 0.01


@pytest.mark.parametrize("far", [1.0, 30.0])
def test_it_ends_near_the_mode_in_units_of_the_widths(x64, far):
    """Of widths from 1 to 1e-3, all coordinates some standard deviations off."""
    widths, places = np.logspace(0, -3, D), np.random.default_rng(0).permutation(D)
    parabola = ewsg.Posterior(
        lambda p, x: -0.5 * jnp.sum(((p - 1) / widths) ** 2), lambda p: 0.0 * jnp.sum(p)
    )
    potential = HostPotential(parabola, jnp.zeros(D), jnp.ones((1, 1)), 1, lazy=True)
    start = potential.at(1 + far * widths * np.where(np.arange(D) % 3, 1, -2))
    # Right up to a factor of 3: a search takes some tens of steps, and the last ones are short.
    units = widths * np.geomspace(1 / 3, 3, D)[places]
    lower, num_steps = approach(potential, start, units, TOLERANCE, 500, lambda: None)
    assert 20 < num_steps < 80
    assert np.linalg.norm((lower.flat - 1) / widths) < 3 * TOLERANCE
