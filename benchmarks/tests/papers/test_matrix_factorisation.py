"""Matrix factorisation: the stable law another way, gradients, the experiment made small."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate, stats

from benchmarks.papers import matrix_factorisation
from benchmarks.papers.matrix_factorisation import StableNoise, model, product, synthetic
from benchmarks.papers.running import settings_of, text_of
from ewsg_jax.cli.config import ConfigError


def density(x, alpha):
    """The stable density at a point, by its characteristic function."""
    return integrate.quad(lambda t: np.exp(-(t**alpha)), 0, np.inf, weight="cos", wvar=x)[0] / np.pi


@pytest.mark.parametrize("alpha", [1.2, 1.5, 1.8])
def test_the_mixture_has_the_stable_density(alpha):
    x = np.array([0.3, 1.0, 3.0, 8.0])
    expected = [density(each / 0.7, alpha) / 0.7 for each in x]
    np.testing.assert_allclose(
        np.exp(StableNoise(alpha, 0.7)(jnp.asarray(x))), expected, rtol=0.006
    )


def test_cauchy_and_normal_noise():
    x = jnp.asarray([0.0, 0.5, 2.0, 40.0])
    np.testing.assert_allclose(
        StableNoise(1.0, 2.0)(x), stats.cauchy(scale=2).logpdf(x), atol=0.005
    )
    np.testing.assert_allclose(
        StableNoise(2.0, 0.5)(x), stats.norm(scale=0.5**0.5).logpdf(x), rtol=1e-5
    )


def test_draws_are_of_the_law():
    rng, noise = np.random.default_rng(0), StableNoise(1.5, 0.5)
    draws = noise.draw(rng, (100_000,))
    t = np.array([0.5, 1.0, 2.0])
    np.testing.assert_allclose(
        np.cos(np.outer(t, draws)).mean(1), np.exp(-((0.5 * t) ** 1.5)), atol=0.01
    )
    assert abs(np.median(draws)) < 0.01
    np.testing.assert_allclose(
        StableNoise(2.0, 0.5).draw(rng, (100_000,)).std(), 0.5**0.5, rtol=0.01
    )


def test_the_gradient_is_that_of_normal_noise():
    """Σ (w·v − x) v / 2s² + w, over entries that repeat rows and columns, by NumPy."""
    problem = synthetic(4, 2, StableNoise(2.0, 0.5), 0.25, 1)
    factors = problem.start(jax.random.key(0))
    left, right = (np.asarray(factors[name], float) for name in ("left", "right"))
    row, column, y = (np.asarray(problem.train[name]) for name in ("row", "column", "y"))
    off = (np.sum(left[row] * right[column], axis=1) - y) / (2 * 0.5**2)
    expected = left.copy()
    np.add.at(expected, row, off[:, None] * right[column])
    found = model(StableNoise(2.0, 0.5)).gradient(factors, problem.train)
    np.testing.assert_allclose(found["left"], expected, rtol=1e-4)


def test_held_out_entries_are_others_and_without_noise():
    problem = synthetic(6, 2, StableNoise(1.5, 0.1), 0.25, 0)
    places = [
        set(zip(x["row"].tolist(), x["column"].tolist(), strict=True))
        for x in (problem.train, problem.test)
    ]
    assert (len(places[0]), len(places[1]), len(places[0] | places[1])) == (27, 9, 36)
    rng = np.random.default_rng(0)
    left, right = rng.standard_normal((2, 6, 2))
    factors = {"left": jnp.asarray(left), "right": jnp.asarray(right)}
    np.testing.assert_allclose(product(factors, problem.test), problem.test["y"], atol=1e-5)


def test_a_small_experiment():
    settings = settings_of(matrix_factorisation.Settings, text_of("matrix-factorisation"), "quick")
    small = dataclasses.replace(
        settings,
        size=8,
        rank=2,
        batch_size=8,
        data_passes=8,
        num_repeats=1,
        ensemble=1,
        data_seeds=(1,),
        factors=(1.0, 4.0),
        methods=[each for each in settings.methods if each["label"] == "HAMCMC"],
    )
    done = {}
    for name in ("tuning, distributed", "distributed, data 1"):
        done[name] = matrix_factorisation.parts(small)[name](done) | {"seconds": 0.0}
    part = done["distributed, data 1"]
    assert part["paper"]["HAMCMC"]["per_step"] == 16
    assert part["tuned"]["HAMCMC"]["check"].keys() >= {"outcome"}
    with pytest.raises(ConfigError, match="alpha must be above 0 and below 2"):
        dataclasses.replace(small, alpha=2.0)
    with pytest.raises(ConfigError, match=r"methods\[1\].model must be one of stable, distributed"):
        dataclasses.replace(small, methods=[{"label": "a"}]).named("stable")
