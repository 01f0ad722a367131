"""The law of Theorem 4.1: against all vertices of its linear program, by enumeration in NumPy."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ewsg_jax as ewsg
from benchmarks.papers.least_variance import LawDraw, least_variance, least_variance_law
from tests.gradients.test_index_chain import POSITION, setting
from tests.gradients.test_index_chain_cost import counting

CASES = pytest.mark.parametrize(
    ("model", "batch_size", "replace"),
    [
        ("gaussian_location", 1, True),
        ("logistic_regression", 1, True),
        ("logistic_regression", 2, False),
    ],
)


def best_vertex(b):
    """The least Σ pₖ‖bₖ‖² of all vertices: laws on d + 1 batches that meet the equations."""
    count, d = b.shape
    equations = np.vstack([np.ones(count), b.T])
    best, law = np.inf, None
    for support in map(list, itertools.combinations(range(count), d + 1)):
        try:
            p = np.linalg.solve(equations[:, support], np.append(1.0, np.zeros(d)))
        except np.linalg.LinAlgError:
            continue
        cost = p @ np.sum(b[support] ** 2, axis=1)
        if p.min() >= -1e-12 and cost < best:
            best, law = cost, np.zeros(count)
            law[support] = p
    return best, law


@CASES
def test_the_law_is_the_best_vertex_and_unbiased(x64, model, batch_size, replace):
    s = setting(model, batch_size, replace)
    b = s.gradients - s.gradients.mean(axis=0)
    estimator = least_variance(s.uniform())
    p = np.asarray(jax.jit(estimator.law)(jnp.asarray(s.gradients)))
    best, law = best_vertex(b)
    np.testing.assert_allclose(p, law, rtol=0, atol=1e-9)
    assert np.count_nonzero(p) <= b.shape[1] + 1
    assert p.min() >= 0
    np.testing.assert_allclose(p.sum(), 1, rtol=1e-14)
    np.testing.assert_allclose(p @ s.gradients, s.gradients.mean(axis=0), rtol=1e-11)
    variance = p @ np.sum(b**2, axis=1)
    np.testing.assert_allclose(variance, best, rtol=1e-9)
    assert variance < 0.95 * np.mean(np.sum(b**2, axis=1)), "uniform batches do worse"


@CASES
def test_a_step_draws_from_it(x64, model, batch_size, replace):
    """One uniform number chooses; over a grid of them mean and covariance are those of the law."""
    s = setting(model, batch_size, replace)
    estimator = least_variance(s.uniform())
    b = s.gradients - s.gradients.mean(axis=0)
    _, p = best_vertex(b)
    place = jnp.asarray(POSITION)
    run = jax.jit(
        jax.vmap(lambda u: estimator.propose(LawDraw((), u), (), place, s.data, s.weight)[0])
    )
    # The midpoints between the ends of the law's intervals, and points just inside them.
    ends = np.append(0.0, np.cumsum(p[p > 0]))
    u = np.concatenate([ends[:-1] + 1e-8, ends[1:] - 1e-8, (ends[1:] + ends[:-1]) / 2])
    found = jax.device_get(run(jnp.log(jnp.asarray(u))))
    number = np.all(found.batch.indices[:, None] == s.batches, axis=2).argmax(axis=1)
    np.testing.assert_array_equal(number, np.tile(np.flatnonzero(p > 0), 3))
    np.testing.assert_allclose(found.gradient, s.gradients[number], rtol=1e-11)
    of_law, chosen = p[p > 0], found.gradient[: np.count_nonzero(p)]
    full = s.gradients.mean(axis=0)
    np.testing.assert_allclose(of_law @ chosen, full, rtol=1e-9)
    covariance = (chosen - full).T @ (of_law[:, None] * (chosen - full))
    np.testing.assert_allclose(covariance, b.T @ (p[:, None] * b), rtol=1e-8)


def test_many_batches_have_at_most_d_plus_1():
    b = np.random.default_rng(0).normal(size=(3, 400, 4)).astype(np.float32)
    b -= b.mean(axis=1, keepdims=True)
    laws = least_variance_law(b)
    assert laws.dtype == np.float32
    assert (np.count_nonzero(laws, axis=1) <= 5).all()
    assert np.abs(np.einsum("kn,knd->kd", laws, b)).max() < 1e-6
    assert (np.einsum("kn,knd->k", laws, b**2) < 0.2 * np.mean(np.sum(b**2, axis=2), axis=1)).all()
    assert np.isnan(least_variance_law(np.full((5, 2), np.nan))).all()
    np.testing.assert_allclose(least_variance_law(np.zeros((5, 2))).sum(), 1)


def test_the_wrapped_memory_and_the_count(x64):
    s = setting("gaussian_location")
    estimator = least_variance(counting(s))
    kernel = ewsg.kernel(ewsg.dynamics.langevin(0.01), estimator)
    assert kernel.evaluations(s.data).per_step == 5 * 2
    state = kernel.init(jax.random.key(0), jnp.asarray(POSITION), s.data)
    state, info = jax.jit(kernel.step)(jax.random.key(1), state, s.data)
    assert int(info.gradient_evaluations) == 5 * 2 + 7
    assert int(state.memory["commits"]) == int(state.memory["refreshes"]) == 1
    assert 0 <= int(state.memory["last"][0]) < 5
    plain = least_variance(s.uniform())
    assert "least_variance(estimator=uniform(" in repr(plain)
    mode = ewsg.find_mode(jax.random.key(0), s.posterior, jnp.zeros(2), s.data)
    kernel = ewsg.kernel(ewsg.dynamics.langevin(0.01), plain)
    with pytest.raises(ValueError, match="must have an estimator whose noise is known"):
        ewsg.forecast(kernel, mode, s.data)


@pytest.mark.parametrize("others", ["full", "epochs", "weighted"])
def test_batches_that_cannot_be_listed_are_refused(others):
    s = setting("gaussian_location")
    estimator = {
        "full": lambda: ewsg.gradients.full(s.posterior),
        "epochs": lambda: ewsg.gradients.uniform(s.posterior, batch_size=1, rows="block_epochs"),
        "weighted": lambda: ewsg.gradients.exponentially_weighted(s.uniform()),
    }[others]()
    with pytest.raises(ValueError, match="batches that can be listed"):
        least_variance(estimator)
