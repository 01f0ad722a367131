"""What orders beyond the leading one leave is in the errors: exact laws of linear steps."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ewsg_jax as ewsg
from ewsg_jax.forecasting.step import stationary_each, step_of
from ewsg_jax.halving.moments import extrapolated
from ewsg_jax.halving.order import share_beyond
from tests import own
from tests.halving.pairs import known_pairs

MODEL = ewsg.models.gaussian_location()


def variance_of(dynamics, lam):
    """T/λ times what is returned is the stationary variance of a coordinate of this curvature."""
    step = step_of(dynamics, MODEL, 0, jnp.zeros((1, 1)))
    return float(stationary_each(step, np.array([lam]), np.zeros(1)).variance[0]) * lam


LARGE = {
    "langevin": (ewsg.dynamics.langevin, {}, 1),
    "exact": (ewsg.dynamics.exact, {"friction": 2.0}, 1),
    "euler": (ewsg.dynamics.euler, {"friction": 2.0}, 1),
    "semi_implicit": (ewsg.dynamics.semi_implicit, {"friction": 6.0}, 2),
    "splitting": (ewsg.dynamics.splitting, {"friction": 2.0}, 2),
    "own": (own.momentum, {"friction": 6.0, "alpha": 0.3}, 1),
}


@pytest.mark.parametrize("name", LARGE)
def test_errors_cover_what_extrapolation_leaves_at_large_steps(name):
    """The exact laws of linear steps, up to a bias of a half: without chance the right sd is in."""
    make, numbers, order = LARGE[name]
    kernel = ewsg.kernel(make(0.1, **numbers), ewsg.gradients.full(MODEL))
    share, tried, left = share_beyond(kernel, order), 0, 0.0
    for lam, h in itertools.product((1.0, 4.0, 20.0), 2.0 ** np.arange(-6, 1.5, 0.5)):
        one, half = (variance_of(make(float(x), **numbers), lam) for x in (h, h / 2))
        if not 0.5 < one < 2 or abs(one - 1) < 0.01:
            continue
        found = extrapolated(known_pairs([one, half]), order, share)
        off = abs(found.right.sd.value[0] - 1)
        assert off <= found.beyond.sd[0]
        # Of the bias at h too, whose true size is known.
        true = one**0.5
        assert abs(found.bias.sd_ratio.value[0] - true) <= found.beyond.sd_ratio[0]
        tried, left = tried + 1, max(left, off)
    assert tried > 5
    assert left > 0.005  # there is something to cover


def test_what_is_left_is_in_what_is_printed(x64):
    """A dynamics of one's own at a large step: 0.19 where 0.21 is right, and the error says so."""

    class Known(own.Momentum):
        bias_order = 1

    numbers = ewsg.hyperparameters(step_size=0.25, temperature=1.0, friction=6.0)
    kernel = ewsg.kernel(ewsg.module(Known)(**numbers, alpha=0.3), ewsg.gradients.full(MODEL))
    data = jnp.zeros((1, 1))
    halved = ewsg.halve(
        jax.random.key(0), kernel, jnp.zeros(1), data, 4_000, num_chains=64, progress=False
    )
    sd, error = halved.extrapolated.sd[0], halved.extrapolated.sd_error[0]
    chance = halved.found.right.sd.error[0]
    right = 1.0
    assert abs(sd - right) > 3 * chance
    assert abs(sd - right) < error
    assert f"± {error:.2g}" in repr(halved)


def test_normals_in_another_shape_are_refused():
    class Stacked(own.Momentum):
        bias_order = 1

        def draw(self, key, state):
            return jax.random.normal(key, (2, *state.position.shape))

    numbers = ewsg.hyperparameters(step_size=0.25, temperature=1.0, friction=6.0)
    kernel = ewsg.kernel(ewsg.module(Stacked)(**numbers, alpha=0.3), ewsg.gradients.full(MODEL))
    with pytest.raises(ValueError, match=r"or a tuple of such trees; got stacked, of shapes"):
        ewsg.halve(jax.random.key(0), kernel, jnp.zeros(1), jnp.zeros((1, 1)), 100)
