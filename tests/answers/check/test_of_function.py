"""A function of the position that is judged by itself: draws and targets of closed forms."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate, stats

import ewsg_jax as ewsg
from ewsg_jax.answers.check import differences, settings
from ewsg_jax.answers.check.draws import Draws
from ewsg_jax.vectors.layout import Layout

KEY = jax.random.key(0)
RNG = np.random.default_rng(7)
QUANTILES = stats.norm.ppf((np.arange(2_000) + 0.5) / 2_000)
"""Draws whose mean and variance are those of a standard normal distribution."""
NORMAL = ewsg.Posterior(lambda theta, row: row * 0.0, lambda theta: -0.5 * jnp.sum(theta**2))
ROWS = np.zeros(4, np.float32)


def in_chains(values, num_chains=4):
    """Return draws (any number, …) in another order, as chains."""
    shuffled = np.random.default_rng(0).permutation(values)
    return shuffled.reshape(num_chains, -1, *values.shape[1:])


FUNCTIONS = {
    "linear": lambda x: x,
    "square": np.square,
    "a kink": np.abs,
    "a jump": lambda x: (x > 0.7).astype(float),
    "a wave": lambda x: np.sin(3 * x),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_identity_holds_for_the_target(name):
    """E of the identity of h by the normal density and uniform U is 0, jumps and kinks or not."""
    f, step = FUNCTIONS[name], settings.OF_STEP
    x = np.linspace(-9, 9, 18_001)
    uniform = np.linspace(0, 1, 101)[1::2]
    second = (f(x + step) + f(x - step) - 2 * f(x)) / step**2
    near = [f(x + u * step) - f(x - u * step) for u in uniform]
    identity = second - x * np.mean(near, axis=0) / step
    density = stats.norm.pdf(x)
    size = integrate.trapezoid(second**2 * density, x) ** 0.5
    assert abs(integrate.trapezoid(identity * density, x)) < 2e-3 * size + 1e-8


@pytest.mark.usual_parameters("1.25")
@pytest.mark.parametrize("width", [0.8, 1.25])
def test_the_identities_of_a_linear_function_are_those_of_its_direction(width):
    """E[g u] − 1 of N(0, s²) is s² − 1, and E g of N(s, 1) is s."""
    at = width * QUANTILES
    draws = Draws.at(at[None, :, None], Layout.of(np.zeros(1, np.float32)))
    at_draws = differences.differences(
        KEY, lambda x: 3 * x[0] + 1, draws, (at[:, None], at[:, None]), [whole(len(at))]
    )
    identities = differences.of_functions(draws, at_draws)
    mean, _ = identities.at_draws("1", slice(None))
    excess, _ = identities.at_draws("u", slice(None))
    assert mean.mean() == pytest.approx(0, abs=1e-3)
    assert excess.mean() == pytest.approx(width**2 - 1, abs=5e-3)
    assert identities.order == pytest.approx(1 / width**2, rel=5e-3)


def whole(count):
    return differences.Metric(np.arange(count), np.ones(1))


@pytest.mark.usual_parameters("0.4")
@pytest.mark.parametrize("step_size", [0.4, 0.0])
def test_the_bias_of_a_scheme_is_known_in_a_square(step_size):
    """Euler's scheme for a standard normal target has the variance 1/(1 − h/2)."""
    variance = 1 / (1 - step_size / 2)
    draws = in_chains(np.sqrt(variance) * QUANTILES)
    report = ewsg.check(KEY, draws, NORMAL, ROWS, of=lambda x: x**2)
    # Under the target x² has the mean 1 and the sd √2.
    assert float(report.corrected.mean) == pytest.approx(1, abs=5e-3)
    assert float(report.corrected.sd) == pytest.approx(np.sqrt(2), rel=5e-3)
    assert float(report.mean_shift) == pytest.approx((variance - 1) / np.sqrt(2), abs=5e-3)
    assert float(report.sd_ratio) == pytest.approx(variance, rel=0.02)
    assert report.outcome == ("wrong" if step_size else "right")
    assert report.names == ("quantity",)


def test_a_probability_is_judged():
    draws = in_chains(QUANTILES + 0.3)
    report = ewsg.check(KEY, draws, NORMAL, ROWS, of=lambda x: x > 1.0)
    # The draws have 0.242; a regression on the jump's own identity alone saw no shift.
    assert float(report.corrected.mean) == pytest.approx(stats.norm.sf(1), abs=0.01)
    assert float(report.corrected.mean_error) < 0.1
    assert report.outcome != "right"


# Two modes that are each other's mirror image, each N(±5, 1): no chain moves between them.
TWO = ewsg.Posterior(lambda x, row: row * 0.0, lambda x: -0.5 * (jnp.abs(x) - 5.0) ** 2)
# A ring of radius 20: the radius is N(20, 1), the angle uniform.
RING = ewsg.Posterior(
    lambda x, row: row * 0.0,
    lambda x: -0.5 * (jnp.linalg.norm(x) - 20.0) ** 2 - jnp.log(jnp.linalg.norm(x)),
)


def orbits(kind, width):
    """Return a posterior with orbits, draws each chain of which is in another place, and a function
    that is N(center, 1) under the target.
    """
    across = in_chains(width * QUANTILES)
    if kind == "mirror":
        sign = np.array([1.0, -1.0, 1.0, -1.0])[:, None]
        return TWO, sign * (5 + across), jnp.abs, 5.0
    arcs = np.arange(4)[:, None] + RNG.uniform(0, 0.5, across.shape)
    radius = 20 + across
    ring = np.stack([radius * np.cos(arcs), radius * np.sin(arcs)], axis=-1)
    return RING, ring, jnp.linalg.norm, 20.0


@pytest.mark.usual_parameters("mirror")
@pytest.mark.parametrize("kind", ["mirror", "ring"])
def test_what_is_constant_on_orbits_is_judged_where_chains_are_on_different_ones(kind):
    posterior, draws, function, center = orbits(kind, 1.0)
    draws = draws.astype(np.float32)
    assert ewsg.check(KEY, draws, posterior, ROWS).outcome == "wrong"
    right = ewsg.check(KEY, draws, posterior, ROWS, of=function)
    assert right.outcome == "right"
    assert right.rhat < 1.01
    _, draws, _, _ = orbits(kind, 1.2)
    wide = ewsg.check(KEY, draws.astype(np.float32), posterior, ROWS, of=function)
    assert wide.outcome == "wrong"
    assert float(wide.sd_ratio) == pytest.approx(1.2, rel=0.02)
    assert float(wide.corrected.mean) == pytest.approx(center, abs=0.05)
    assert float(wide.corrected.sd) == pytest.approx(1, rel=0.02)


@pytest.mark.full
def test_what_differs_between_orbits_is_wrong():
    _, draws, _, _ = orbits("mirror", 1.0)
    report = ewsg.check(KEY, draws, TWO, ROWS, of=lambda x: x)
    assert report.outcome == "wrong"
    assert "chains do not agree" in report.verdict
    assert np.isnan(report.sd_ratio)


def test_what_changes_around_no_draw_is_not_known():
    """Which of two modes a draw is in: gradients say nothing of their weights."""
    draws = in_chains((5 + QUANTILES) * RNG.choice([-1.0, 1.0], len(QUANTILES)))
    report = ewsg.check(KEY, draws, TWO, ROWS, of=lambda x: x > 0)
    assert report.outcome == "unsure"
    assert report.verdict.startswith("not known: of is one number within")
    assert np.isnan(report.mean_shift)
    assert report.corrected is None


@pytest.mark.full
def test_several_numbers_have_names_and_a_table():
    draws = in_chains(np.stack([QUANTILES, RNG.permutation(QUANTILES)], axis=1))
    report = ewsg.check(
        KEY, draws, NORMAL, ROWS, of=lambda x: {"sum": x[0] + x[1], "each": jnp.exp(x / 2)}
    )
    assert report.names == ("each[0]", "each[1]", "sum")
    assert report.corrected.mean["each"].shape == (2,)
    # The mean of a lognormal variable.
    np.testing.assert_allclose(report.corrected.mean["each"], np.exp(1 / 8), rtol=0.01)
    assert "each[1]" in report.table("each")
    assert report.outcome == "right"


@pytest.mark.full
def test_a_function_whose_derivative_is_by_vjp_alone():
    @jax.custom_vjp
    def double(x):
        return 2 * x

    double.defvjp(lambda x: (2 * x, None), lambda _, g: (2 * g,))
    report = ewsg.check(KEY, in_chains(QUANTILES), NORMAL, ROWS, of=double)
    assert float(report.corrected.sd) == pytest.approx(2, rel=0.03)


def test_the_weights_of_modes_are_not_known():
    """Draws in both modes, in the wrong proportion: identities hold in each, chains agree."""
    sign = np.where(np.arange(len(QUANTILES)) % 10 < 3, -1.0, 1.0)
    draws = in_chains(sign * (5 + RNG.permutation(QUANTILES))).astype(np.float32)
    report = ewsg.check(KEY, draws, TWO, ROWS, of=lambda x: x, max_draws=2_000)
    assert report.outcome == "unsure"
    assert "explain 4" in report.verdict
    assert "whose weights no gradient knows" in report.verdict


@pytest.mark.full
def test_sorted_components_are_judged_whatever_their_order():
    target = jnp.array([-4.0, 0.0, 4.0])
    model = ewsg.Posterior(
        lambda m, row: row * 0.0, lambda m: -0.5 * jnp.sum((jnp.sort(m) - target) ** 2)
    )
    orders = np.array([[0, 1, 2], [2, 0, 1], [1, 2, 0], [0, 2, 1]])
    for width, outcome in ((1.0, "right"), (1.25, "wrong")):
        draws = np.asarray(target) + width * RNG.normal(size=(4, 1_000, 3))
        draws = np.stack([chain[:, order] for chain, order in zip(draws, orders, strict=True)])
        report = ewsg.check(KEY, draws.astype(np.float32), model, ROWS, of=jnp.sort)
        assert report.outcome == outcome


@pytest.mark.full
def test_a_sum_on_a_ridge_is_judged():
    """a + b is N(0, 1) and a − b nearly flat: chains that crawl along the ridge do not agree."""
    model = ewsg.Posterior(
        lambda x, row: row * 0.0,
        lambda x: -0.5 * (x[0] + x[1]) ** 2 - 0.5 * ((x[0] - x[1]) / 3_000) ** 2,
    )
    total = in_chains(QUANTILES)
    crawl = np.cumsum(20 * RNG.normal(size=total.shape), axis=1)
    crawl += np.array([0.0, 2_000.0, -2_000.0, 4_000.0])[:, None]
    for width in (1.0, 1.3):
        draws = np.stack([(width * total + crawl) / 2, (width * total - crawl) / 2], axis=-1)
        report = ewsg.check(KEY, draws.astype(np.float32), model, ROWS, of=jnp.sum)
        assert report.outcome == ("right" if width == 1 else "wrong")
        assert float(report.corrected.sd) == pytest.approx(1, rel=0.03)
