"""Rates on a convex quadratic: exact laws against enumerated batches, costs, rules."""

import dataclasses
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.linalg import sqrtm

from benchmarks.papers import quadratic_laws, rates
from tests.oracles import enumeration, lyapunov, memory_laws

N, LAM = 4, 0.7
H = np.array([0.01, 0.05, 0.15])


def rows():
    """Two of four rows know of θ: Vᵢ = λ(θ − xᵢ)², xᵢ of mean 0 and variance 1/2λ."""
    x = np.array([1.0, -1.0, 0, 0]) / np.sqrt(2 * LAM)
    design = np.array([1.0, 1.0, 0, 0]) * np.sqrt(2 * LAM)
    return memory_laws.linear_regression(design[:, None], design * x, 1.0, np.inf)


def batches(b):
    return enumeration.batches(N, b, True)[0]


def plain(drift, b):
    kept = rows()
    steps = []
    for batch in batches(b):
        H_b = N * np.mean(kept.hessians[batch], axis=0)
        k_b = N * np.mean(kept.constants[batch], axis=0)
        steps.append(
            memory_laws._step(
                drift, H_b @ drift.point, k_b, np.zeros((0, len(drift.free))), np.zeros(0)
            )
        )
    return steps


@pytest.mark.parametrize("b", [1, 2])
def test_langevin_with_plain_batches_and_a_centre(b):
    for number, h in enumerate(H):
        drift = memory_laws.drift("langevin", 1, h, 1.0)
        expected = lyapunov.stationary(plain(drift, b))[1][0, 0]
        found = quadratic_laws.langevin(H, N, LAM, b, 1.0, False)
        np.testing.assert_allclose(found.variance[number], expected, rtol=1e-9)
        np.testing.assert_allclose(np.exp(-found.rate[number]), abs(1 - h * N * LAM), rtol=1e-12)
        steps = memory_laws.with_fixed_anchor(
            memory_laws.anchored(drift, rows(), batches(b)), rows(), 1, np.zeros(1)
        )
        expected = lyapunov.stationary(steps)[1][0, 0]
        found = quadratic_laws.langevin(H, N, LAM, b, 1.0, True).variance[number]
        np.testing.assert_allclose(found, expected, rtol=1e-9)


def exact(h):
    """The step of `lyapunov.exact` at u = 1/n, taken apart."""
    free = lyapunov.exact(np.zeros((1, 1)), np.zeros(1), h, 2.0, 1.0, 1 / N)
    pull = lyapunov.exact(np.zeros((1, 1)), np.ones(1), h, 2.0, 1.0, 1 / N).shift
    return memory_laws.Drift(free.matrix, pull[:, None], np.array([[1.0, 0.0]]), free.noise)


@pytest.mark.parametrize("b", [1, 2])
def test_underdamped_with_plain_batches_and_a_centre(b):
    steps = np.array([1e-3, 0.1, 0.5])
    for number, h in enumerate(steps):
        expected = lyapunov.stationary(plain(exact(h), b))[1][0, 0]
        found = quadratic_laws.underdamped(steps, N, LAM, b, 1.0, False).variance[number]
        np.testing.assert_allclose(found, expected, rtol=1e-6)
        anchored = memory_laws.anchored(exact(h), rows(), batches(b))
        expected = lyapunov.stationary(
            memory_laws.with_fixed_anchor(anchored, rows(), 2, np.zeros(1))
        )[1][0, 0]
        found = quadratic_laws.underdamped(steps, N, LAM, b, 1.0, True).variance[number]
        np.testing.assert_allclose(found, expected, rtol=1e-6)
        full = lyapunov.exact(np.eye(1) * N * LAM, np.zeros(1), h, 2.0, 1.0, 1 / N)
        found = quadratic_laws.underdamped(steps, N, LAM, None, 0.0, False)
        np.testing.assert_allclose(
            found.variance[number], lyapunov.stationary([full])[1][0, 0], rtol=1e-6
        )
        radius = np.abs(np.linalg.eigvals(full.matrix)).max()
        np.testing.assert_allclose(np.exp(-found.rate[number]), radius, rtol=1e-9)


@pytest.mark.parametrize("b", [1, 2])
def test_a_table(b):
    for number, h in enumerate(H):
        drift = memory_laws.drift("langevin", 1, h, 1.0)
        steps = memory_laws.with_sum_of_table(
            memory_laws.saga(drift, rows(), batches(b)), rows(), 1
        )
        # Rows that know nothing of θ keep their 0.
        size = len(steps[0].shift)
        known = np.eye(size)[:, [0, 1, 2]]
        steps = [
            lyapunov.Step(known.T @ a @ known, known.T @ c, known.T @ q @ known)
            for a, c, q in steps
        ]
        expected = lyapunov.stationary(steps)[1][0, 0]
        found = quadratic_laws.saga(H, N, LAM, b).variance[number]
        np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_anchors():
    """Option II against the periodic law; option I against its own mixture, composed by hand."""
    b, period = 2, 3
    for number, h in enumerate(H):
        drift = memory_laws.drift("langevin", 1, h, 1.0)
        first = memory_laws.anchored(drift, rows(), batches(b), refresh=True)
        later = memory_laws.anchored(drift, rows(), batches(b))
        # G follows from w: the state is (θ, w).
        keep = np.array([[1.0, 0], [0, 1], [0, N * LAM]])
        cycle = [
            [lyapunov.Step((a @ keep)[:2], c[:2], q[:2, :2]) for a, c, q in steps]
            for steps in (first, later, later)
        ]
        after = memory_laws.periodic(cycle)
        # Before each stage of the cycle: its mean over all of them is that after.
        expected = np.mean([covariance[0, 0] for _, covariance in after])
        found = quadratic_laws.svrg(H, N, LAM, b, period, "II").variance[number]
        np.testing.assert_allclose(found, expected, rtol=1e-9)

        def means(start, h=h):
            """E θ² after each step from θ = w of this second moment."""
            here, cross, told = start, start, []
            for _ in range(period):
                noise = N**2 / b * LAM**2 * (here - 2 * cross + start)
                here = (1 - h * N * LAM) ** 2 * here + h**2 * noise + 2 * h
                cross = (1 - h * N * LAM) * cross
                told.append(here)
            return np.mean(told)

        found = quadratic_laws.svrg(H, N, LAM, b, period, "I")
        np.testing.assert_allclose(means(found.variance[number]), found.variance[number], rtol=1e-9)
        shrunk = np.mean([(1 - h * N * LAM) ** k for k in (1, 2, 3)])
        np.testing.assert_allclose(np.exp(-period * found.rate[number]), shrunk, rtol=1e-9)


def test_no_law_beyond_stable_steps():
    h = np.array([0.1, 10.0])
    for law in (
        quadratic_laws.langevin(h, N, LAM, 1, 1.0, False),
        quadratic_laws.underdamped(10 * h, N, LAM, 1, 1.0, False),
        quadratic_laws.svrg(h, N, LAM, 1, 4, "II"),
        quadratic_laws.saga(h, N, LAM, 1),
    ):
        assert np.isnan(law.variance).tolist() == [False, True]


def settings():
    return rates.Settings(
        (1.0, 0.01, 0.001),
        1e-3,
        (1000, 100),
        (1, 4),
        4.0,
        (1, 10),
        (200, 400),
        (2, 3),
        10,
        (0.1, 0.01),
    )


def test_costs_of_full_gradients_are_closed_forms():
    """λ Var θ − 1 = s/2/(1 − s/2), s = hΛ, and an e-fold takes −1/log(1 − s) steps of n."""
    n, far = 1000, 1e-3
    found = rates.cheapest(rates.WAYS["LD"], n, 1, np.array([far / np.sqrt(n)]), settings())
    s = 2 * (1 - (1 + far) ** -2)
    assert found[0] == pytest.approx(-n / np.log1p(-s), rel=0.07)
    assert found[0] >= -n / np.log1p(-s)
    # Coordinates of equal curvature: √d times as far.
    same = dataclasses.replace(settings(), condition=1.0)
    first = rates.distances(rates.WAYS["SGLD"], n, rates.spectrum(1, 1.0), 10)
    second = rates.distances(rates.WAYS["SGLD"], n, rates.spectrum(4, 1.0), 10)
    np.testing.assert_allclose(second[0], 2 * first[0], rtol=1e-6)
    assert rates.on_quadratic(same)["costs"]["SAGA-LD"]["first"] == n


def test_the_distance_is_that_of_normal_laws():
    rng = np.random.default_rng(0)
    chain, target = (x @ x.T + np.eye(3) for x in rng.normal(size=(2, 3, 3)))
    shift = rng.normal(size=3)
    told = SimpleNamespace(covariance=chain, target=target, mean_shift=shift)
    moved = shift * np.sqrt(np.diag(target))
    root = sqrtm(target)
    expected = moved @ moved + np.trace(chain + target - 2 * sqrtm(root @ chain @ root).real)
    np.testing.assert_allclose(rates.distance(told), np.sqrt(expected), rtol=1e-9)


def test_forecasts_of_two_methods(monkeypatch):
    """Twice as long a step is about twice as far off, at half the cost."""
    every = rates.kernels
    monkeypatch.setattr(
        rates,
        "kernels",
        lambda *given: {x: k for x, k in every(*given).items() if x in ("LD", "CV-LD")},
    )
    found = rates.forecasts(200, 2, 10, (0.02, 0.01))
    for label in ("LD", "CV-LD"):
        far, cost = found[label]["distance"], found[label]["cost"]
        assert far[0] / far[1] == pytest.approx(2, rel=0.1)
        assert cost[1] / cost[0] == pytest.approx(2, rel=0.1)
