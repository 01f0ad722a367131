"""The linear Gaussian model of Şimşekli et al.: exact law, falling steps, errors, others."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
from scipy import integrate

import ewsg_jax as ewsg
from benchmarks.papers import curved, linear_gaussian
from benchmarks.papers.decreasing import Decreasing, kernels
from benchmarks.papers.figures import png
from benchmarks.papers.running import settings_of, text_of
from ewsg_jax.cli.config import method_of

SEED = 3


@functools.cache
def small():
    """The quick settings, made small."""
    settings = settings_of(linear_gaussian.Settings, text_of("linear-gaussian"), "quick")
    return dataclasses.replace(
        settings,
        dimensions=(2,),
        methods=[each | {"first_steps": each["first_steps"][:1]} for each in settings.methods],
        num_rows=60,
        num_iterations=100,
        data_seeds=(0,),
        factors=(1.0, 1e9),
        curved_chains=200,
        curved_steps=(0.1, 0.05),
        curved_time=1.0,
    )


def test_the_exact_mean_and_precision_are_where_the_gradient_and_curvature_say():
    data = linear_gaussian.rows_of(SEED, 2, small())
    mean, precision = linear_gaussian.exact(data, 10.0)
    model = linear_gaussian.model_of(10.0)
    np.testing.assert_allclose(model.gradient(jnp.asarray(mean, jnp.float32), data), 0, atol=1e-4)
    slopes = jax.jacobian(lambda position: model.gradient(position, data))(jnp.zeros(2))
    np.testing.assert_allclose(slopes, precision, rtol=1e-5)


def test_rows_are_as_wide_as_is_said():
    settings = dataclasses.replace(small(), num_rows=20_000)
    a = np.asarray(linear_gaussian.rows_of(SEED, 3, settings)["x"])
    widths = np.sqrt(np.linalg.eigvalsh(np.cov(a.T)))[::-1]
    np.testing.assert_allclose(widths, np.logspace(0, -1, 3), rtol=0.03)


def test_steps_fall_as_a_power():
    step = Decreasing(first=0.1)
    np.testing.assert_allclose(
        [step(jnp.int32(t - 1)) for t in (1, 10)], [0.1, 0.1 * 10**-0.51], rtol=1e-6
    )
    kernel = ewsg.sgld(linear_gaussian.model_of(1.0), step, batch_size=1)
    np.testing.assert_allclose(kernel.step_size(jnp.int32(3)), 0.1 * 4**-0.51, rtol=1e-6)
    assert "first=0.1" in repr(kernel)


def test_psgld_moves_as_with_gradients_of_the_sum():
    """By hand: G = 1/(λ + |Σ|) at the first step, α = 0, of the likelihood sum's gradient Σ."""
    data = {"x": jnp.asarray([[1.0], [2.0]]), "y": jnp.asarray([3.0, 5.0])}
    method = method_of(
        {
            "label": "p",
            "name": "psgld",
            "step_size": 1.0,
            "batch_size": 2,
            "decay": 0.0,
            "damping": 1e-3,
        },
        1,
    )
    (kernel,) = kernels(
        method,
        linear_gaussian.model_of(1.0),
        [0.25],
        2,
        power=0,
        temperature=1e-12,
        rows="blocks",
        noise="gaussian",
    )
    state = kernel.init(jax.random.key(0), jnp.zeros(1), data)
    state, _ = kernel.step(jax.random.key(1), state, data)
    total = -(3.0 + 10.0)
    np.testing.assert_allclose(state.position, [-0.25 * total / (1e-3 + abs(total))], rtol=1e-4)


def test_errors_are_of_weighted_averages_of_the_second_half():
    settings = small()
    data = linear_gaussian.rows_of(0, 2, settings)
    method = settings.named(0)["SGLD"]
    samples = linear_gaussian.runs(method, [1.0], data, settings, jax.random.key(0))[0][0]
    mean, precision = linear_gaussian.exact(data, 10.0)
    draws, weights = np.asarray(samples.position, float), samples.step_size
    assert weights[0] > weights[-1] > 0
    half = draws.shape[1] // 2
    off = np.average(draws[:, half:], axis=1, weights=weights[half:]) - mean
    expected = np.sqrt(np.mean([x @ precision @ x / 2 for x in off]))
    np.testing.assert_allclose(linear_gaussian.errors(samples, data, 10.0)[-1], expected, rtol=1e-5)


def test_the_law_off_gaussians_is_that_of_an_integral():
    """E x² is that of a normal law; the others by integrals over x alone."""
    normal = lambda x: np.exp(-(x**2) / 2) / np.sqrt(2 * np.pi)
    over = lambda f: integrate.quad(lambda x: normal(x) * f(x), -12, 12, limit=200)[0]
    expected = 1.0, over(lambda x: 2 * x * np.tanh(x)), 0.25 + over(lambda x: 4 * np.tanh(x) ** 2)
    np.testing.assert_allclose(curved.exact(), expected, rtol=1e-6)
    draws = np.asarray(curved.starts(0, 200_000), float)
    np.testing.assert_allclose(np.mean(draws[:, 0] * draws[:, 1]), expected[1], rtol=0.02)


def test_what_is_left_at_no_step_is_on_a_line():
    error = np.full(3, 0.01)
    steps = [
        {"step": h, "A": np.array([1.0, 2.0, 3.0]) + 0.3 + 2 * h, "A, error": error}
        for h in (0.04, 0.02, 0.01)
    ]
    value, found = curved.left({"exact": [1.0, 2.0, 3.0], "steps": steps}, "A")
    np.testing.assert_allclose(value, 0.3)
    np.testing.assert_allclose(found, 0.01 * np.hypot(4 / 3, 1 / 3))


def test_a_small_experiment():
    """A step that is too long is not taken; what is told of costs is so; draws are checked."""
    two = [each for each in small().methods if each["name"] in ("sgld", "hamcmc")]
    settings, done = dataclasses.replace(small(), methods=two), {}
    for name, compute in linear_gaussian.parts(settings).items():
        done[name] = compute(done) | {"seconds": 0.0}
    assert done["tuning, D = 2"]["factors"] == {"SGLD": 1.0, "HAMCMC": 1.0}
    part = done["D = 2, data 0"]
    each = {label: curve["evaluations_each"] for label, curve in part["paper"].items()}
    assert each == {"SGLD": 10, "HAMCMC": 20}
    assert part["evaluations"] == 2 * 8 * 100 * sum(each.values())
    assert part["paper"]["SGLD"]["check"]["outcome"] in ("right", "wrong", "unsure")
    for which in ("paper", "tuned"):
        part[which] |= dict.fromkeys(("pSGLD", "SGRLD"), part[which]["SGLD"])
    done["tuning, D = 2"]["factors"] |= {"pSGLD": 1.0, "SGRLD": 1.0}
    claims = linear_gaussian.claims(done)
    assert [claim.by_the_paper for claim in claims] == [True] * 3 + [False] * 4 + [True, False]
    assert png(linear_gaussian.draw(done))[:4] == b"\x89PNG"
