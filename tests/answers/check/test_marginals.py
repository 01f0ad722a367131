"""The marginal of a scale from its mean gradient, against densities known in closed form."""

import numpy as np
import pytest
from scipy.integrate import quad

from ewsg_jax.answers.check.marginals import Beyond, marginal_of, places_beyond

POTENTIALS = {
    # Normal; a log scale with a half-normal prior; the same with a likelihood of a few effects.
    "normal": (lambda u: u**2 / 2, lambda u: u),
    "log scale": (lambda u: np.exp(2 * u) / 2 - u, lambda u: np.exp(2 * u) - 1),
    "few effects": (
        lambda u: 4 * u + 4 * np.exp(-2 * u) / (1 + np.exp(-2 * u)) + np.exp(2 * u) / 2 - 5 * u,
        lambda u: -1 - 8 * np.exp(-2 * u) / (1 + np.exp(-2 * u)) ** 2 + np.exp(2 * u),
    ),
}


def moments(potential):
    """Mean and sd by quadrature."""
    low, high = -30.0, 6.0
    mass, first, second = (
        quad(lambda u, k=k: u**k * np.exp(-potential(u)), low, high, limit=500)[0] for k in range(3)
    )
    mean = first / mass
    return mean, (second / mass - mean**2) ** 0.5


def draws(potential, tilt, count, rng):
    """Independent draws of a density times exp(tilt)."""
    grid = np.linspace(-30, 6, 100_001)
    density = np.exp(-potential(grid) + tilt(grid))
    cdf = np.cumsum(density)
    return np.interp(rng.random(count), cdf / cdf[-1], grid)


TILTS = {
    "none": lambda u: 0.0 * u,
    "shifted": lambda u: 0.3 * u,
    "narrower": lambda u: -0.2 * u**2,
    "without small values": lambda u: -np.exp(-2 * (u + 1)),
}


@pytest.mark.parametrize("name", POTENTIALS)
@pytest.mark.parametrize("tilt", TILTS)
def test_moments_are_those_of_the_target_not_of_the_draws(name, tilt):
    potential, gradient = POTENTIALS[name]
    mean, sd = moments(potential)
    for seed in range(3):
        rng = np.random.default_rng(seed)
        u = draws(potential, TILTS[tilt], 4_000, rng)
        # Gradients as noisy as those of effects given their scale.
        marginal = marginal_of(u, gradient(u) + rng.normal(size=len(u)), 32)
        assert abs(marginal.mean - mean) <= 4 * marginal.mean_error
        assert abs(np.log(marginal.sd / sd)) <= 4 * marginal.sd_error
        if tilt == "none":
            # The errors are small enough to say that draws are right.
            assert marginal.mean_error < 0.1 * sd
            assert marginal.sd_error < 0.12


@pytest.mark.parametrize("name", POTENTIALS)
def test_gradients_beyond_the_draws_show_the_tails_that_these_lack(name):
    potential, gradient = POTENTIALS[name]
    mean, sd = moments(potential)
    tilt = TILTS["without small values"]
    for seed in range(3):
        rng = np.random.default_rng(seed)
        u = draws(potential, tilt, 4_000, rng)
        noisy = gradient(u) + rng.normal(size=len(u))
        places = places_beyond(u)
        at_places = gradient(places)[:, None, None] + rng.normal(size=(len(places), 32, 2))
        alone = marginal_of(u, noisy, 32)
        marginal = marginal_of(u, noisy, 32, Beyond(places, at_places))
        assert abs(marginal.mean - mean) <= 4 * marginal.mean_error
        assert abs(np.log(marginal.sd / sd)) <= 4 * marginal.sd_error
        assert marginal.sd_error < alone.sd_error
        # Nearer to the target than the draws are.
        assert abs(np.log(marginal.sd / sd)) < 0.5 * abs(np.log(u.std() / sd))


def test_a_tail_that_no_draw_shows_is_part_of_the_error():
    """The gradient at the last draws is steeper than further out, and known without noise."""
    potential, gradient = POTENTIALS["few effects"]
    mean, sd = moments(potential)
    u = draws(potential, lambda u: -30.0 * (u < -0.5), 4_000, np.random.default_rng(0))
    marginal = marginal_of(u, gradient(u), 32)
    assert abs(np.log(marginal.sd / sd)) <= 3 * marginal.sd_error
    assert abs(marginal.mean - mean) <= 3 * marginal.mean_error


@pytest.mark.parametrize("off", [0.0, 0.3, -0.4])
def test_the_distance_is_that_of_the_densities(off):
    """∫ (p − q)²/q of p = N(0, 1) and q = N(m, 1) is exp(m²) − 1; exact draws are at distance 0."""
    for seed in range(3):
        rng = np.random.default_rng(seed)
        u = off + rng.normal(size=16_000)
        marginal = marginal_of(u, u + 0.5 * rng.normal(size=len(u)), 32)
        expected = np.expm1(off**2) ** 0.5
        assert marginal.distance == pytest.approx(expected, rel=0.15, abs=0.03)


def test_an_overflow_beyond_the_draws_ends_a_tail():
    u = np.random.default_rng(0).normal(size=4_000)
    places = places_beyond(u)
    at_places = np.broadcast_to(places[:, None, None], (len(places), 32, 2)).copy()
    at_places[[0, -1]] = np.inf
    marginal = marginal_of(u, u, 32, Beyond(places, at_places))
    assert marginal.sd == pytest.approx(1.0, rel=0.02)


def test_a_known_gradient_gives_moments_to_its_bins():
    # Not at all as the target has them.
    u = np.random.default_rng(0).permutation(np.linspace(-3, 3, 20_001))
    marginal = marginal_of(u, u, 32)
    assert marginal.mean == pytest.approx(0.0, abs=0.02)
    assert marginal.sd == pytest.approx(1.0, rel=0.03)


def test_a_tail_without_a_known_end_is_unknown():
    u = np.random.default_rng(0).normal(size=4_000)
    assert marginal_of(u, np.zeros_like(u), 32).sd_error == np.inf


def test_noise_that_piles_the_density_up_leaves_it_unknown():
    """Exact draws of horseshoes were called wrong by 1,400 ± 43 sds, with warnings of NumPy's."""
    for seed in range(20):
        rng = np.random.default_rng(seed)
        u = rng.normal(size=4_000)
        marginal = marginal_of(u, u + 3_000 * rng.standard_t(2, size=4_000), 32)
        assert marginal.sd_error == np.inf or marginal.sd > 0.1
        assert marginal.mean_error == np.inf or abs(marginal.mean) < 5 * marginal.mean_error


def test_units_do_not_matter():
    rng = np.random.default_rng(0)
    u = rng.normal(size=4_000)
    one, other = marginal_of(u, u, 32), marginal_of(5 + 1e3 * u, u / 1e3, 32)
    assert other.mean == pytest.approx(5 + 1e3 * one.mean, rel=1e-6)
    assert other.sd_error == pytest.approx(one.sd_error, rel=1e-6)
