"""Chains that start in a kernel's own stationary law stay in it: z-tests over many chains.

The law's first two moments come from the linear equations of tests/oracles/lyapunov.py (linear
kernels) or from a transition density on a grid (exponential weights). Seeds are fixed. Each test is
two-sided at α = 1e-6 / 10, with standard errors from the oracle's law or, for fourth moments, from
the chains.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ewsg_jax as ewsg
from tests.chains import run
from tests.oracles import index_chain, lyapunov

pytestmark = pytest.mark.usefixtures("optimised")

CHAINS = 20_000
STEPS = 40
Z = 5.33  # two-sided 1e-7

DATA = np.array([[-1.0], [0.3], [0.7], [2.2], [1.3]])


def assert_stationary(values, mean, variance):
    """z-tests of the mean and of the variance of independent values."""
    centred = values - mean
    z_mean = centred.mean() / np.sqrt(variance / len(values))
    squares = centred**2
    z_variance = (squares.mean() - variance) / (squares.std() / np.sqrt(len(values)))
    assert abs(z_mean) < Z, f"mean {values.mean():.5f}, stationary {mean:.5f}, z = {z_mean:.1f}"
    assert abs(z_variance) < Z, (
        f"variance {squares.mean():.5f}, stationary {variance:.5f}, z = {z_variance:.1f}"
    )


@pytest.mark.parametrize("temperature", [1.0, 0.3])
@pytest.mark.parametrize("batch_size", [None, 2])
@pytest.mark.parametrize("name", ["langevin", "euler", "semi_implicit", "splitting", "exact"])
def test_linear_kernels(name, batch_size, temperature):
    h, gamma, n = 0.1, 1.5, len(DATA)
    model = ewsg.models.gaussian_location()
    options = {"temperature": temperature} | (
        {} if batch_size is None else {"batch_size": batch_size}
    )
    if name == "langevin":
        kernel = (ewsg.ld if batch_size is None else ewsg.sgld)(model, h, **options)
        arguments = (h, temperature)
    else:
        build = ewsg.uld if batch_size is None else ewsg.sghmc
        kernel = build(model, h, friction=gamma, integrator=name, **options)
        arguments = (h, gamma, temperature)
    batches = [range(n)] if batch_size is None else [(i, j) for i in range(n) for j in range(n)]
    # g = nθ − (n/b) Σ_I xᵢ.
    steps = [
        lyapunov.UPDATES[name](n * np.eye(1), n * DATA[list(batch)].mean(0), *arguments)
        for batch in batches
    ]
    mean, covariance = lyapunov.stationary(steps)

    rng = np.random.default_rng(1)
    start = jnp.asarray(rng.multivariate_normal(mean, covariance, CHAINS), jnp.float32)
    data = jnp.asarray(DATA, jnp.float32)
    states = jax.vmap(kernel.init, in_axes=(None, 0, None))(jax.random.key(0), start[:, :1], data)
    if name != "langevin":
        states = states._replace(dynamics=states.dynamics._replace(momentum=start[:, 1:]))
    end, _ = run(kernel, states, data, STEPS, jax.random.split(jax.random.key(2), CHAINS))
    assert not np.allclose(end.position, start[:, :1]), "the chains must move"
    for k, values in enumerate(
        [end.position, *([] if name == "langevin" else [end.dynamics.momentum])]
    ):
        assert_stationary(np.asarray(values, float)[:, 0], mean[k], covariance[k, k])


@pytest.mark.parametrize("chain_length", [1, 4])
def test_exponential_weights(chain_length):
    """EWSG on Langevin dynamics in one dimension: its law from the density on a grid."""
    h, n = 0.06, len(DATA)
    grid = np.linspace(-5.0, 6.5, 1151)
    spacing = grid[1] - grid[0]
    gradients = n * (grid[:, None] - DATA[:, 0])  # (grid, batch)
    density = np.zeros((len(grid), len(grid)))
    for k, row in enumerate(gradients):
        weights = 0.5 * h / 2 * row**2  # ½‖√(h/2T) g‖², T = 1
        law = index_chain.law(weights, chain_length)
        ends = grid[k] - h * row
        normal = np.exp(-((grid[None, :] - ends[:, None]) ** 2) / (4 * h)) / np.sqrt(4 * np.pi * h)
        density[k] = law @ normal * spacing
    np.testing.assert_allclose(
        density[300:-300].sum(1), 1, atol=1e-9, err_msg="the grid is too small"
    )
    stationary = np.linalg.matrix_power(density, 1024)[len(grid) // 2]
    stationary /= stationary.sum()
    np.testing.assert_allclose(stationary @ density, stationary, atol=1e-12)
    mean = stationary @ grid
    variance = stationary @ (grid - mean) ** 2

    kernel = ewsg.ewsg_ld(
        ewsg.models.gaussian_location(), h, batch_size=1, chain_length=chain_length
    )
    uniform = ewsg.sgld(ewsg.models.gaussian_location(), h, batch_size=1)
    start = np.interp(np.random.default_rng(3).uniform(size=CHAINS), np.cumsum(stationary), grid)
    data = jnp.asarray(DATA, jnp.float32)
    for tested, stays in ((kernel, True), (uniform, False)):
        states = jax.vmap(tested.init, in_axes=(None, 0, None))(
            jax.random.key(0), jnp.asarray(start, jnp.float32)[:, None], data
        )
        states, _ = run(tested, states, data, STEPS, jax.random.split(jax.random.key(4), CHAINS))
        end = np.asarray(states.position, float)[:, 0]
        if stays:
            assert_stationary(end, mean, variance)
        else:  # the planted fault: batches chosen uniformly
            with pytest.raises(AssertionError):
                assert_stationary(end, mean, variance)
