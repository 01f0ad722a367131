"""The law of matrix friction on EWSG's Gaussian, with an exact and with a tracked covariance."""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ewsg_jax as ewsg
from tests.chains import run
from tests.dynamics.test_noise_corrected import INTEGRATORS
from tests.oracles import lyapunov
from tests.oracles.gaussian import kl_divergence

# EWSG section 5.1: V = Σᵢ ‖θ − xᵢ‖²/2, n = 50 rows from N(0, I), b = 1, γ = 10. The covariance of
# n∇Vᵢ is n² S at every θ, S that of the rows (dividing by n).

N, D, FRICTION = 50, 2, 10.0
STEP_SIZES = (0.005, 0.01, 0.02)


def rows_of(seed):
    return np.random.default_rng(seed).normal(size=(N, D))


def covariance_of(rows):
    return N**2 * np.cov(rows.T, bias=True)


def law(name, rows, h, is_corrected):
    """Mean and covariance of (θ, p) over all batches of one row, from the typed equations."""
    H, gradients = N * np.eye(D), [N * row for row in rows]
    if is_corrected:
        C = covariance_of(rows)
        return lyapunov.stationary(
            [lyapunov.corrected(name, H, k, h, FRICTION, 1.0, C) for k in gradients]
        )
    return lyapunov.stationary([lyapunov.UPDATES[name](H, k, h, FRICTION, 1.0) for k in gradients])


def compared(name, rows, h, is_corrected):
    """The smallest and largest variance over the target's, and KL(target ‖ law)."""
    mean, covariance = law(name, rows, h, is_corrected)
    ratios = N * np.linalg.eigvalsh(covariance[:D, :D])
    return (
        ratios[0],
        ratios[-1],
        kl_divergence(rows.mean(0), np.eye(D) / N, mean[:D], covariance[:D, :D]),
    )


# By integrator, whether corrected, and h: the range of the variances over the target's and of
# KL(target ‖ law).
FOUND = {
    ("euler", False, 0.005): (1.3830, 1.9607, 0.0701, 0.1383),
    ("euler", False, 0.01): (1.7877, 2.9746, 0.1943, 0.3367),
    ("euler", False, 0.02): (2.6726, 5.1889, 0.4592, 0.6970),
    ("semi_implicit", False, 0.005): (1.3484, 1.9117, 0.0620, 0.1275),
    ("semi_implicit", False, 0.01): (1.6983, 2.8259, 0.1695, 0.3061),
    ("semi_implicit", False, 0.02): (2.4055, 4.6703, 0.3897, 0.6180),
    ("euler", True, 0.005): (1.0135, 1.0193, 1.13e-4, 1.58e-4),
    ("euler", True, 0.01): (1.0195, 1.0318, 2.47e-4, 3.96e-4),
    ("euler", True, 0.02): (1.0314, 1.0505, 5.87e-4, 9.45e-4),
    ("semi_implicit", True, 0.005): (1.00032, 1.00033, 5.25e-8, 5.34e-8),
    ("semi_implicit", True, 0.01): (1.00136, 1.00146, 9.55e-7, 1.02e-6),
    ("semi_implicit", True, 0.02): (1.0066, 1.0095, 2.43e-5, 3.56e-5),
}


@pytest.mark.parametrize(("name", "is_corrected", "h"), FOUND)
def test_the_batch_heats_and_the_friction_takes_it_up(name, is_corrected, h):
    """Ten draws of rows, h = 0.02: 2.4 to 5.2 times the variance, or within 5 % (euler), 1 %."""
    low, high, closest, farthest = FOUND[name, is_corrected, h]
    values = np.array([compared(name, rows_of(seed), h, is_corrected) for seed in range(10)])
    assert low < values[:, 0].min() < values[:, 1].max() < high
    assert closest < values[:, 2].min() < values[:, 2].max() < farthest


@pytest.mark.parametrize("is_corrected", [False, True])
@pytest.mark.parametrize("name", INTEGRATORS)
def test_order_and_constant_of_the_bias(name, is_corrected):
    """Var θ over the target's is 1 + constant · hᵏ; the ratio to that is 1 + O(h), extrapolated
    from three h.

    The batch adds h Cov/(2γT); the friction removes it. What is left is the integrator's own: hλ/γ,
    or h²λ/4.
    """
    rows = rows_of(0)
    heat = np.linalg.eigvalsh(covariance_of(rows))[-1] / (2 * FRICTION)
    constant, order = {
        ("euler", False): (heat + N / FRICTION, 1),
        ("semi_implicit", False): (heat, 1),
        ("euler", True): (N / FRICTION, 1),
        ("semi_implicit", True): (N / 4, 2),
    }[name, is_corrected]
    ratios = [
        (compared(name, rows, h, is_corrected)[1] - 1) / (constant * h**order)
        for h in (1e-3, 5e-4, 2.5e-4)
    ]
    first = [2 * fine - coarse for coarse, fine in itertools.pairwise(ratios)]
    assert (4 * first[1] - first[0]) / 3 == pytest.approx(1, abs=1e-3)


def test_the_added_friction_bounds_the_bias_of_euler():
    """hλ/Γ, Γ = γ + h Cov/(2T), stops growing past h Cov/(2T) > γ: half the order, h 0.005–0.02."""
    rows = rows_of(0)
    excess = [compared("euler", rows, h, True)[1] - 1 for h in STEP_SIZES]
    slopes = np.log2(np.array(excess[1:]) / excess[:-1])
    np.testing.assert_allclose(slopes, [0.6616, 0.6322], atol=1e-4)
    plain = [compared("euler", rows, h, False)[1] - 1 for h in STEP_SIZES]
    assert np.all(np.log2(np.array(plain[1:]) / plain[:-1]) > 1)


# Between resets the tracked covariance follows the rows that were drawn, and is no longer exact.


@pytest.mark.sweep
@pytest.mark.parametrize("seed", range(3))
def test_how_far_the_tracked_covariance_strays(x64, seed):
    """The gradient's covariance is the same at every θ, yet the tracked one is off by 5 % before
    each reset.

    A step adds n (δεᵀ + εδᵀ), δ = θ − ω, ε = x̄ − xᵢ of the drawn row (and terms in δδᵀ, an order
    smaller). Were the rows independent of the path, the mean squares would add up to n² Σ_j
    E(2|δ_j|² tr S + 2 δ_jᵀSδ_j), δ_j from the exact law; the batches that were drawn move θ, which
    makes it a little less.
    """
    h, K, chains, cycles = 0.02, N, 1000, 10
    rows = rows_of(seed)
    C, S = covariance_of(rows), covariance_of(rows) / N**2
    tracking = ewsg.gradients.covariance_tracking(
        ewsg.models.gaussian_location(), batch_size=1, refresh_every=K
    )
    kernel = ewsg.kernel(ewsg.dynamics.noise_corrected(h, friction=FRICTION), tracking)
    keys, data = jax.random.split(jax.random.key(seed), chains), jnp.asarray(rows)

    def covariance(states, info):
        first, second = states.memory.moments
        return second - first[:, :, None] * first[:, None, :]

    start = jax.jit(jax.vmap(kernel.init, in_axes=(0, None, None)))(keys, jnp.zeros(D), data)
    states, tracked = run(kernel, start, data, cycles * K, keys, covariance)
    deviations = (np.asarray(tracked[-K:]) - C) / np.linalg.norm(C)
    root_mean_square = np.sqrt(np.mean(np.sum(deviations**2, axis=(2, 3)), axis=1))
    bias = np.linalg.norm(deviations.mean(1), axis=(1, 2))

    matrix = np.mean(
        [
            lyapunov.corrected("semi_implicit", N * np.eye(D), N * row, h, FRICTION, 1.0, C).matrix
            for row in rows
        ],
        axis=0,
    )
    law = lyapunov.corrected_variances("semi_implicit", N, h, FRICTION, 1.0, C)
    squares, power = [], np.eye(2 * D)
    for _ in range(K):
        moved = 2 * law - power @ law - (power @ law).T
        squares.append(
            np.sum(2 * np.trace(S) * np.trace(moved[:D, :D]) + 2 * np.trace(S @ moved[:D, :D]))
        )
        power = power @ matrix
    expected = N * np.sqrt(np.cumsum(squares)) / np.linalg.norm(C)
    np.testing.assert_allclose(root_mean_square[0], 0, atol=1e-12)
    assert np.all(root_mean_square[K // 5 :] < 1.02 * expected[K // 5 :])
    assert np.all(root_mean_square[K // 5 :] > 0.85 * expected[K // 5 :])
    assert 0.04 < root_mean_square[-1] < 0.06
    assert 0.005 < bias[-1] < 0.015
    assert np.all(states.memory.num_clipped == 0)


def simulated(kernel, rows, seed):
    """As `compared`, from 10,000 chains after 30 passes over the data."""
    samples = ewsg.sample(
        jax.random.key(1000 + seed),
        kernel,
        jnp.zeros(D),
        jnp.asarray(rows, jnp.float32),
        data_passes=30,
        num_chains=10_000,
        keep=None,
    )
    last = np.asarray(samples.state.position, float)
    covariance = np.cov(last.T)
    ratios = N * np.linalg.eigvalsh(covariance)
    return (
        ratios[0],
        ratios[-1],
        kl_divergence(rows.mean(0), np.eye(D) / N, last.mean(0), covariance),
    )


def named_kernels(h):
    model, settings = ewsg.models.gaussian_location(), {"friction": FRICTION, "batch_size": 1}
    tracking = functools.partial(ewsg.gradients.covariance_tracking, model, batch_size=1)
    corrected = {
        name: ewsg.dynamics.noise_corrected(h, friction=FRICTION, integrator=name)
        for name in INTEGRATORS
    }
    # A pass of two candidates a step is half as many steps.
    weighted = ewsg.gradients.exponentially_weighted(tracking(refresh_every=N // 2), chain_length=1)
    made = {"EWSG-VR, euler": ewsg.kernel(corrected["euler"], weighted)}
    for name in INTEGRATORS:
        made[f"SGHMC, {name}"] = ewsg.sghmc(model, h, integrator=name, **settings)
        made[f"EWSG, {name}"] = ewsg.ewsg(model, h, integrator=name, chain_length=1, **settings)
        made[f"corrected, {name}"] = ewsg.kernel(corrected[name], tracking())
    return made


@pytest.mark.sweep
@pytest.mark.parametrize("seed", range(3))
def test_what_each_method_leaves_of_the_heat(seed):
    """h = 0.02, 30 passes. Linear kernels have their exact law; EWSG damps half of the heat,
    EWSG-VR too much.

    It counts the friction twice: the weights already tilt the batch by h Cov/(2T) p.
    """
    h, rows = 0.02, rows_of(seed)
    for name, kernel in named_kernels(h).items():
        low, high, divergence = simulated(kernel, rows, seed)
        print(
            f"{name}, seed {seed}: variance over target {low:.3f} to {high:.3f}, KL "
            f"{divergence:.5f}"
        )
        method, integrator = name.split(", ")
        if method in ("SGHMC", "corrected"):
            expected = compared(integrator, rows, h, method == "corrected")
            # Five standard errors of a variance are 7 %; the tracked covariance adds to them.
            np.testing.assert_allclose((low, high), expected[:2], rtol=0.07)
            assert divergence == pytest.approx(expected[2], rel=0.1, abs=0.0015)
        elif method == "EWSG":
            assert 1.8 < low < high < 2.7
            assert 0.2 < divergence < 0.36
        else:
            assert 0.6 < low < high < 0.85
            assert 0.05 < divergence < 0.2
