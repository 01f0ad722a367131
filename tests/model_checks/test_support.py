"""Densities of 0: seen by densities themselves, for a gradient shows none of it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import ewsg_jax as ewsg
from ewsg_jax.model_checks.support import NONE, outside
from ewsg_jax.model_checks.support_structure import can_end
from tests.densities import flat, location, none

KEY = jax.random.key(0)
RNG = np.random.default_rng(0)
Y = jnp.asarray(RNG.normal(0.02, 1.0, 400), jnp.float32)
UPTO = jnp.asarray(RNG.uniform(0.0, 2.0, 100), jnp.float32)
PAIRS = jnp.asarray(RNG.normal([1.0, 0.0], size=(100, 2)), jnp.float32)
COUNTS = jnp.asarray(RNG.multinomial(1, [0.0, 0.4, 0.6], 60), jnp.float32)
MANY = jnp.asarray(RNG.normal(size=(60, 40)), jnp.float32)
INF = jnp.inf


def walls(low, beyond=-INF):
    return lambda t: jnp.where((t > low) & (t < 1), 0.0, beyond)


def uniform(t, row):
    return jnp.where(row < t, -jnp.log(t), -INF)


def multinomial(p, row):
    return jnp.sum(row * jnp.log(jnp.append(p, 1 - p.sum())))


def on_simplex(p):
    return jnp.where(jnp.all(p > 0) & (p.sum() < 1), 0.0, -INF)


AT_A_WALL = {
    "a location between walls": (location, walls(0.0), 0.3, Y, "log_prior is -inf"),
    "walls of a large number": (location, walls(0.1, -1e30), 0.3, Y, "log_prior is -inf"),
    "the logarithm of a comparison": (
        location,
        lambda t: jnp.log(jnp.asarray((t > 0) & (t < 1), float)),
        0.3,
        Y,
        "log_prior is -inf",
    ),
    "half of a normal law": (
        none,
        lambda t: jnp.where(t > 0, -0.5 * t**2, -INF),
        0.3,
        Y,
        "log_prior is -inf",
    ),
    "a support that the data bound": (
        uniform,
        lambda t: -0.5 * t**2,
        3.0,
        UPTO,
        "log_likelihood is -inf or NaN",
    ),
    "an order": (
        location,
        lambda p: jnp.where(p[0] < p[1], 0.0, -INF),
        [0.0, 1.0],
        PAIRS,
        "log_prior is -inf",
    ),
    "a simplex with an empty class": (
        multinomial,
        on_simplex,
        [0.3, 0.3],
        COUNTS,
        "log_prior is -inf",
    ),
    "forty positive numbers": (
        location,
        lambda p: jnp.where(jnp.all(p > 0), 0.0, -INF),
        np.ones(40),
        MANY,
        "log_prior is -inf",
    ),
}


SELDOM = {"forty positive numbers", "walls of a large number"}


@pytest.mark.usual_parameters("half of a normal law", "a support that the data bound")
@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.sweep) if name in SELDOM else name for name in AT_A_WALL],
)
def test_a_mode_on_a_wall_is_none(name):
    log_likelihood, log_prior, start, data, message = AT_A_WALL[name]
    posterior = ewsg.Posterior(log_likelihood, log_prior)
    with pytest.warns(
        RuntimeWarning, match=f"found no mode.*boundary of the support.*{message}.*bijector"
    ):
        found = ewsg.find_mode(KEY, posterior, jnp.asarray(start, jnp.float32), data)
    assert not found.converged
    assert found.distance == np.inf
    # It ends inside.
    assert np.isfinite(posterior.potential(found.position, data))


@pytest.mark.parametrize("low", [-0.5, -5.0])
def test_a_mode_inside_is_one(low):
    """Half a width from a wall it is a mode; draws around it are another matter."""
    posterior = ewsg.Posterior(location, lambda t: jnp.where(t > low / 20, 0.0, -INF))
    found = ewsg.find_mode(KEY, posterior, jnp.float32(0.3), Y - Y.mean())
    assert found.converged
    assert abs(float(found.position)) < 0.01 / 20


@pytest.mark.parametrize(
    ("log_likelihood", "log_prior", "start", "data", "message"),
    [
        (location, walls(0.0), -0.3, Y, r"got V = inf.*: log_prior is -inf \(the density is 0"),
        (
            uniform,
            flat,
            1.0,
            UPTO,
            r"log_likelihood is -inf for \d+ of 100 rows \(the density is 0",
        ),
        (
            lambda t, row: jnp.log(t) - t,
            flat,
            -1.0,
            Y,
            r"log_likelihood is NaN for 400 of 400 rows",
        ),
        (
            lambda t, row: -jnp.exp(row + t),
            flat,
            800.0,
            Y,
            r"log_likelihood is -inf for 400 of 400.*too large",
        ),
        (
            lambda t, row: jnp.where(row > 9, jnp.sqrt(row - 9) * t, -t * t) + 0 * jnp.sqrt(t - 1),
            flat,
            1.0,
            Y,
            r"derivatives of log_likelihood are not finite, though it is finite itself \(jnp.where",
        ),
        (location, lambda t: -1 / t, 0.0, Y, "log_prior is -inf"),
    ],
)
def test_a_start_without_a_density_names_the_part(log_likelihood, log_prior, start, data, message):
    posterior = ewsg.Posterior(log_likelihood, log_prior)
    with pytest.raises(
        ValueError, match=f"^position must be a start at which the potential .*{message}"
    ):
        ewsg.find_mode(KEY, posterior, jnp.float32(start), data)


@pytest.mark.full
def test_minibatches_that_lead_out_of_the_support_are_not_followed():
    """Adam does not look where it goes; the search then begins where it was told to."""
    import optax

    posterior = ewsg.Posterior(location, walls(-0.8))
    options = {"batch_size": 10, "optimizer": optax.sgd(1.0)}
    found = ewsg.find_mode(KEY, posterior, jnp.float32(0.3), Y, **options)
    assert found.converged
    assert abs(float(found.position) - Y.mean()) < 0.01 / 20


def test_ready_models_and_smooth_functions_have_no_end():
    """Nothing is evaluated for them."""
    rows = {"x": jnp.ones((5, 3)), "y": jnp.ones(5)}
    for model in (ewsg.models.logistic_regression(), ewsg.models.linear_regression()):
        assert can_end(model, jnp.zeros(3), rows) == (False, False)
    labels = rows | {"y": jnp.ones(5, int)}
    assert can_end(ewsg.models.softmax_regression(), jnp.zeros((3, 2)), labels) == (
        False,
        False,
    )
    for smooth in (
        lambda t, row: -jnp.log1p((row - t) ** 2),
        lambda t, row: jnp.log(row) * t,
        lambda t, row: jax.nn.logsumexp(jnp.stack([t, row])),
        lambda t, row: -jnp.log(jnp.exp(t) + 1) - jnp.abs(t - row),
        # What stands in for a number that is not finite, what data choose, what is not returned.
        lambda t, row: jnp.where(jnp.isfinite(t), t * row, jnp.inf * (t > 0)),
        lambda t, row: jnp.where((t == t) & (t != jnp.inf), -(t**2), -jnp.inf),
        lambda t, row: jnp.where(row > 0, -((t - row) ** 2), -jnp.inf) + t,
        lambda t, row: t * row + 0 * jnp.sum(jnp.where(t < row, jnp.inf, 0.0) > 0),
        lambda t, row: (t * row, jnp.log(t))[0],
        lambda t, row: jnp.log1p(jnp.power(t - row, 2.0)) + jnp.log(jnp.exp(t) ** -0.5),
    ):
        assert can_end(ewsg.Posterior(smooth, flat), jnp.float32(0), Y) == (
            False,
            False,
        )
    for ends in (
        uniform,
        lambda t, row: jnp.log(t),
        lambda t, row: jnp.sqrt(t - row),
        lambda t, row: t**0.5,
        lambda t, row: jnp.log(t**3),
        lambda t, row: jnp.where(jnp.isfinite(jnp.log(t)), t * row, -jnp.inf),
        lambda t, row: jnp.where(t > 0, jnp.where(row > 0, t, -jnp.inf), t),
        lambda t, row: -INF * (t < row),
        lambda t, row: jax.lax.cond(t < row, lambda: -jnp.inf, lambda: t),
    ):
        assert can_end(ewsg.Posterior(ends, flat), jnp.float32(0), Y) == (False, True)


@pytest.mark.full
def test_shares_are_those_of_the_law():
    """Draws of a normal law by its distribution function; rows' least that draws allow."""
    draws = jax.random.normal(KEY, (20_000,))
    posterior = ewsg.Posterior(uniform, lambda t: jnp.where(t < 1.5, 0.0, -INF))
    found = outside(posterior, draws, jnp.asarray([-1.0, 0.5, -2.0]))
    above, below = stats.norm.sf(1.5), stats.norm.cdf(0.5)
    for share, exact in (
        (found.prior, above),
        (found.likelihood, below),
        (found.share, above + below),
    ):
        assert abs(share - exact) < 5 * (exact * (1 - exact) / 20_000) ** 0.5
    assert found.data_passes == 20_000
    # Half a percent of a tolerance of 5 % matters.
    assert found.matters(0.05)
    assert not NONE.matters(0.05)
    inside = outside(posterior, jnp.full(7, 1.0), jnp.asarray([0.5]))
    assert (inside.prior, inside.likelihood, inside.share) == (0, 0, 0)
    nowhere = outside(posterior, jnp.full(7, 2.0), jnp.asarray([3.0]))
    assert (nowhere.prior, nowhere.likelihood, nowhere.share) == (1, 1, 1)
