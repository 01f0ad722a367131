"""Less noise for the minibatch's: its formulas, its exact law on EWSG's Gaussian example, and a
covariance given.

p' = p − h (g + Γp) + √h Σ ξ, typed in `tests/oracles/lyapunov.py::reduced`.
"""

import jax.numpy as jnp
import numpy as np
import pytest

import ewsg_jax as ewsg
from ewsg_jax.dynamics._protocol import needs_covariance
from ewsg_jax.gradients import Covariance, Estimate
from tests.dynamics.test_noise_corrected import (
    COVARIANCES,
    GAMMA,
    GRADIENT,
    INTEGRATORS,
    MOMENTUM,
    NOISE,
    POSITION,
    TEMPERATURE,
    H,
    estimate_of,
    flat,
    state_of,
    tree,
)
from tests.dynamics.test_noise_corrected_law import FRICTION, D, N, covariance_of, rows_of
from tests.oracles import lyapunov
from tests.parts import no_probe


def factored():
    """The dense covariance as eigenvalues and vectors."""
    return Covariance(*map(jnp.asarray, np.linalg.eigh(COVARIANCES["dense"][1])))


def made(integrator, h=H, gamma=GAMMA, T=TEMPERATURE, **options):
    return ewsg.dynamics.noise_reduced(
        h, friction=gamma, temperature=T, integrator=integrator, **options
    )


def typed_move(integrator, h, covariance):
    """Position and momentum after the step, from Σ and Γ by eigenvalues."""
    values, vectors = np.linalg.eigh(covariance)
    sigma2 = 2 * GAMMA * TEMPERATURE
    left = (vectors * np.sqrt(np.maximum(sigma2 - h * values, 0))) @ vectors.T
    friction = (vectors * np.maximum(GAMMA, h * values / (2 * TEMPERATURE))) @ vectors.T
    momentum = MOMENTUM - h * (GRADIENT + friction @ MOMENTUM) + np.sqrt(h) * left @ NOISE
    return POSITION + h * (MOMENTUM if integrator == "euler" else momentum), momentum, values


# The formulas.


@pytest.mark.usual_parameters(
    "semi_implicit-dense-0.01",
    "semi_implicit-low_rank-1.5",
    "euler-dense-0.01",
    "euler-low_rank-1.5",
)
@pytest.mark.parametrize("h", [0.01, 1.5])
@pytest.mark.parametrize("structure", [*COVARIANCES, "factored"])
@pytest.mark.parametrize("integrator", INTEGRATORS)
def test_move(x64, integrator, structure, h):
    """At the larger h some directions have no noise to take away, and friction takes the rest."""
    name = "dense" if structure == "factored" else structure
    position, momentum, values = typed_move(integrator, h, COVARIANCES[name][1])
    assert (h * values > 2 * GAMMA * TEMPERATURE).any() == (h == 1.5 and name != "none")
    estimate = (
        Estimate(tree(GRADIENT), (), covariance=factored())
        if structure == "factored"
        else estimate_of(name)
    )
    moved = made(integrator, h).apply(tree(NOISE), state_of(), estimate, no_probe)
    np.testing.assert_allclose(flat(moved.momentum), momentum, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(flat(moved.position), position, rtol=1e-12, atol=1e-12)


@pytest.mark.full
@pytest.mark.parametrize("kind", ["noise_corrected", "noise_reduced"])
@pytest.mark.parametrize("given", ["matrix", "diagonal", "factored"])
def test_a_covariance_that_is_given(x64, kind, given):
    """It takes the place of the estimator's, which then need not report one."""
    structure = "diagonal" if given == "diagonal" else "dense"
    covariance = factored() if given == "factored" else COVARIANCES[structure][0][0]
    build = getattr(ewsg.dynamics, kind)
    of_the_estimate, own = (
        build(0.3, friction=GAMMA, temperature=TEMPERATURE, covariance=c)
        for c in (None, covariance)
    )
    assert needs_covariance(of_the_estimate)
    assert not needs_covariance(own)
    expected = of_the_estimate.apply(tree(NOISE), state_of(), estimate_of(structure), no_probe)
    found = own.apply(tree(NOISE), state_of(), Estimate(tree(GRADIENT), ()), no_probe)
    np.testing.assert_allclose(flat(found.momentum), flat(expected.momentum), rtol=1e-12)


# The laws, EWSG section 5.1: the covariance is the same at every θ.


def kernels(balance, covariance):
    """By name: each way to the covariance, as `h, integrator -> kernel`."""
    ways = {"tracked": {"refresh_every": 1}, "kept": {}, "given": {"covariance": covariance}}
    ways["kept"] = {"covariance": "kept", "refresh_every": 5}
    return {
        name: lambda h, integrator, options=options: ewsg.nc_sghmc(
            ewsg.models.gaussian_location(),
            h,
            friction=FRICTION,
            batch_size=1,
            integrator=integrator,
            balance=balance,
            **options,
        )
        for name, options in ways.items()
    }


@pytest.mark.usual_parameters(
    "semi_implicit-noise-0.02-kept",
    "semi_implicit-friction-0.005-tracked",
    "euler-noise-0.005-given",
    "euler-friction-0.02-given",
)
@pytest.mark.parametrize("way", ["tracked", "kept", "given"])
@pytest.mark.parametrize(
    ("balance", "h"),
    [("noise", 0.005), ("noise", 0.02), ("friction", 0.005), ("friction", 0.02)],
)
@pytest.mark.parametrize("integrator", INTEGRATORS)
def test_laws(linearize, integrator, balance, h, way):
    """The typed maps; with noise enough, the full gradient's law without friction beside γ."""
    rows = rows_of(0)
    C = covariance_of(rows)
    kernel = kernels(balance, jnp.asarray(C))[way](h, integrator)
    maps = linearize(kernel, D, jnp.asarray(rows), jnp.arange(N)[:, None])

    typed = lyapunov.reduced if balance == "noise" else lyapunov.corrected
    steps = [typed(integrator, N * np.eye(D), N * row, h, FRICTION, 1.0, C) for row in rows]
    np.testing.assert_allclose(maps.matrix, [s.matrix for s in steps], rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(maps.shift, [s.shift for s in steps], rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(maps.noise, [s.noise for s in steps], rtol=1e-10, atol=1e-14)
    mean, covariance = lyapunov.stationary(maps.steps)
    np.testing.assert_allclose(mean, np.concatenate([rows.mean(0), np.zeros(D)]), atol=1e-10)
    has_enough = h * np.linalg.eigvalsh(C)[-1] < 2 * FRICTION
    assert has_enough == (h == 0.005)
    if balance == "friction":
        expected = lyapunov.corrected_variances(integrator, N, h, FRICTION, 1.0, C)
    elif has_enough:
        expected = np.kron(lyapunov.CLOSED_FORMS[integrator](N, h, FRICTION, 1.0), np.eye(D))
    else:  # each step adds noise of variance 2hTΓ, whichever part of it is injected
        friction = np.maximum(FRICTION, h * np.linalg.eigvalsh(C) / 2)
        vectors = np.linalg.eigh(C)[1].T
        expected = sum(
            np.kron(lyapunov.CLOSED_FORMS[integrator](N, h, g, 1.0), np.outer(v, v))
            for g, v in zip(friction, vectors, strict=True)
        )
    np.testing.assert_allclose(covariance, expected, rtol=1e-9, atol=1e-11)


@pytest.mark.full
def test_any_estimator_with_the_covariance_given(linearize):
    """Strata, whose estimates report none: the law is that of their own covariance taken out."""
    rows, h = rows_of(1)[:6], 0.05
    estimator = ewsg.gradients.stratified(
        ewsg.models.gaussian_location(),
        batch_size=2,
        labels=lambda data: jnp.arange(6) // 3,
        num_strata=2,
    )
    listed = np.array([(i, j) for i in range(3) for j in range(3, 6)])
    sums = 3 * (rows[listed[:, 0]] + rows[listed[:, 1]])
    C = np.cov(sums.T, bias=True)
    dynamics = ewsg.dynamics.noise_reduced(h, friction=FRICTION, covariance=jnp.asarray(C))
    assert h * np.linalg.eigvalsh(C)[-1] < 2 * FRICTION
    kernel = ewsg.kernel(dynamics, estimator)
    # A row of a stratum of three comes from a third of all words of 32 bits.
    words = (listed % 3 * 2**32) // 3 + 2**20
    maps = linearize(kernel, D, jnp.asarray(rows), jnp.asarray(words[:, None], jnp.uint32))
    _, covariance = lyapunov.stationary(maps.steps)
    expected = np.kron(lyapunov.semi_implicit_variances(6, h, FRICTION, 1.0), np.eye(D))
    np.testing.assert_allclose(covariance, expected, rtol=1e-9, atol=1e-11)
