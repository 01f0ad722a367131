"""The laws of epochs: against all orders of a few batches, and against chains of the library."""

import itertools
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ewsg_jax as ewsg
from benchmarks.pages import epoch_laws, row_epochs
from tests.oracles import lyapunov

H, GAMMA, B, R = 0.7, 2.0, 2, 4
ROWS = 8.0 * np.array([0.3, -1.2, 0.5, 1.9, -0.4, 0.1, -2.0, 1.1])[:, None]
N = len(ROWS)
MODEL = ewsg.models.gaussian_location(noise_scale=N**0.5)
KERNELS = {
    "sgld": lambda rows: ewsg.sgld(MODEL, H, batch_size=B, rows=rows),
    "splitting": lambda rows: ewsg.sghmc(
        MODEL, H, friction=GAMMA, batch_size=B, rows=rows, integrator="splitting"
    ),
    "semi_implicit": lambda rows: ewsg.sghmc(MODEL, H, friction=GAMMA, batch_size=B, rows=rows),
}


def steps(method):
    """A step of each of the R blocks, typed in NumPy: the gradient is θ − x̄."""
    unit = np.eye(1)
    for mean in ROWS.reshape(R, B).mean(axis=1):
        if method == "sgld":
            yield lyapunov.langevin(unit, np.array([mean]), H, 1.0)
        else:
            yield getattr(lyapunov, method)(unit, np.array([mean]), H, GAMMA, 1.0)


def over_all_orders(method, kind):
    """θ's variance over the places in a period: each of R! orders is one affine map."""
    blocks = list(steps(method))
    paths = []
    for order in itertools.permutations(range(R)):
        places = [*order, *order[::-1]] if kind == "block_sweeps" else order
        size = len(blocks[0].matrix)
        path = [lyapunov.Step(np.eye(size), np.zeros(size), np.zeros((size, size)))]
        for block in (blocks[place] for place in places):
            a, c, noise = path[-1]
            m = block.matrix
            path.append(lyapunov.Step(m @ a, m @ c + block.shift, m @ noise @ m.T + block.noise))
        paths.append(path)
    mean, first = lyapunov.stationary([path[-1] for path in paths])
    variances = []
    for place in range(len(paths[0]) - 1):
        at = [path[place] for path in paths]
        means = np.array([step.matrix @ mean + step.shift for step in at])
        within = np.mean([step.matrix @ first @ step.matrix.T + step.noise for step in at], axis=0)
        variances.append(within[0, 0] + means[:, 0].var())
    return np.mean(variances)


@pytest.mark.parametrize("kind", row_epochs.KINDS)
@pytest.mark.parametrize("method", KERNELS)
def test_the_law_is_that_of_all_orders(x64, method, kind):
    """The library's step with the batches' covariances, against typed steps in any order."""
    step = epoch_laws.affine(KERNELS[method]("blocks"), jnp.asarray(ROWS), B)
    found = epoch_laws.covariance(step, kind)[0, 0]
    np.testing.assert_allclose(found, over_all_orders(method, kind), rtol=1e-10)
    at_random = lyapunov.stationary(list(steps(method)))[1][0, 0]
    np.testing.assert_allclose(epoch_laws.covariance(step, "random")[0, 0], at_random, rtol=1e-10)
    assert found < at_random


@pytest.mark.parametrize("kind", row_epochs.KINDS)
def test_chains_have_the_law(optimised, kind):
    """Squares of 20,000 chains, averaged over a period: 4.9 standard errors."""
    with jax.enable_x64():
        step = epoch_laws.affine(KERNELS["splitting"]("blocks"), jnp.asarray(ROWS), B)
    run = ewsg.sample(
        jax.random.key(5), KERNELS["splitting"](kind), jnp.zeros(1), jnp.asarray(ROWS, jnp.float32),
        56 + 2 * R, num_chains=20_000, burn_in=56,
    )  # fmt: skip
    squares = np.mean((np.asarray(run.position, float)[..., 0] - ROWS.mean()) ** 2, axis=1)
    error = squares.std(ddof=1) / len(squares) ** 0.5
    laws = {name: epoch_laws.covariance(step, name)[0, 0] for name in ("random", *row_epochs.KINDS)}
    assert abs(squares.mean() - laws.pop(kind)) < 4.9 * error
    assert all(abs(squares.mean() - other) > 6 * error for other in laws.values())


def test_the_page_tells_its_numbers():
    """The table is that of stored numbers, these are the laws', and runs are near them."""
    result = json.loads(row_epochs.NUMBERS.read_text())
    text = row_epochs.PAGE.read_text(encoding="utf-8")
    assert row_epochs.page(text, result) == text, "run python -m benchmarks.pages.row_epochs --draw"
    for kind in row_epochs.KINDS:
        exact = dict(zip(result["lengths"], result["exact"]["sghmc"][kind], strict=True))
        assert exact[10] == pytest.approx(
            epoch_laws.share_of_heat(row_epochs.step_of("sghmc", 10), kind), rel=1e-3
        )
        for count, (share, error) in zip(result["run"], result["runs"][kind], strict=True):
            assert abs(share - exact[count]) < 4 * error
