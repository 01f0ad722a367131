"""Matrix friction against its formulas, its stability bounds, and its exact law on EWSG's Gaussian
example.

p' = p − h (g + Γp) + σ√h ξ, Γ = (σ² I + h Cov)/(2T), θ' = θ + h p' or θ + h p: typed here in NumPy
on flat vectors.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ewsg_jax as ewsg
from ewsg_jax.dynamics import UnderdampedState
from ewsg_jax.gradients import Covariance, Estimate
from tests.parts import no_probe

INTEGRATORS = ("semi_implicit", "euler")
H, GAMMA, TEMPERATURE = 0.07, 1.7, 0.6
SIGMA = np.sqrt(2 * GAMMA * TEMPERATURE)
SIZE = 7


def tree(flat):
    """A scalar and a matrix: flat[0] is the scalar, as jax sorts the names of a dictionary."""
    return {"intercept": jnp.asarray(flat[0]), "weights": jnp.asarray(flat[1:].reshape(2, 3))}


def flat(tree):
    return np.concatenate([np.ravel(tree["intercept"]), np.ravel(tree["weights"])])


RNG = np.random.default_rng(11)
POSITION, MOMENTUM, GRADIENT, NOISE, _ = RNG.normal(size=(5, SIZE))


def covariances():
    """For each structure what an estimate reports, and the matrix it stands for."""
    root = RNG.normal(size=(SIZE, SIZE))
    diagonal = RNG.uniform(0.5, 2.0, SIZE)
    basis = np.linalg.qr(RNG.normal(size=(SIZE, 3)))[0]
    inner = np.array([[2.0, 0.5, 0.1], [0.5, 1.0, -0.3], [0.1, -0.3, 0.7]])
    return {
        "dense": ((root @ root.T, None), root @ root.T),
        "diagonal": ((diagonal, None), np.diag(diagonal)),
        "low_rank": ((inner, basis), basis @ inner @ basis.T),
        "none": ((np.zeros(SIZE), None), np.zeros((SIZE, SIZE))),
    }


COVARIANCES = covariances()


def estimate_of(structure):
    matrix, basis = COVARIANCES[structure][0]
    covariance = Covariance(jnp.asarray(matrix), None if basis is None else jnp.asarray(basis))
    return Estimate(tree(GRADIENT), (), covariance=covariance)


def friction_of(structure):
    """Γ, typed."""
    return (SIGMA**2 * np.eye(SIZE) + H * COVARIANCES[structure][1]) / (2 * TEMPERATURE)


def dynamics_of(integrator, h: Any = H, gamma: Any = GAMMA, T: Any = TEMPERATURE):
    return ewsg.dynamics.noise_corrected(h, friction=gamma, temperature=T, integrator=integrator)


def state_of(step=0):
    return UnderdampedState(tree(POSITION), tree(MOMENTUM), jnp.int32(step))


# The formulas.


@pytest.mark.parametrize("structure", COVARIANCES)
@pytest.mark.parametrize("integrator", INTEGRATORS)
def test_move(x64, integrator, structure):
    friction = friction_of(structure)
    momentum = MOMENTUM - H * (GRADIENT + friction @ MOMENTUM) + SIGMA * np.sqrt(H) * NOISE
    position = POSITION + H * (MOMENTUM if integrator == "euler" else momentum)

    moved = dynamics_of(integrator).apply(tree(NOISE), state_of(), estimate_of(structure), no_probe)
    np.testing.assert_allclose(flat(moved.momentum), momentum, rtol=1e-13, atol=1e-13)
    np.testing.assert_allclose(flat(moved.position), position, rtol=1e-13, atol=1e-13)
    assert int(moved.step) == 1


# Stability.


def spectral_radius(integrator, h, lam, gamma, T, covariance):
    """Of the step of (θ, p) on V = λθ²/2, from the Jacobian of `move`."""
    dynamics = dynamics_of(integrator, h, gamma, T)

    def step(z):
        state = UnderdampedState(z[:1], z[1:], jnp.int32(0))
        estimate = Estimate(lam * z[:1], (), covariance=Covariance(jnp.full(1, covariance)))
        moved = dynamics.apply(jnp.zeros(1), state, estimate, no_probe)
        return jnp.concatenate([moved.position, moved.momentum])

    return np.abs(np.linalg.eigvals(np.asarray(jax.jacfwd(step)(jnp.ones(2))))).max()


def root(function, low, high):
    """Where a function that is negative at `low` and positive at `high` is 0."""
    assert function(low) < 0 < function(high)
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if function(middle) < 0 else (low, middle)
    return low


SCALARS = [(3.0, 1.0, 1.0, 0.0), (50.0, 10.0, 1.0, 2500.0), (7.0, 0.3, 0.4, 40.0)]
"""λ, γ, T, Cov."""
BOUNDS = {
    "semi_implicit": lambda h, lam, friction: h * h * lam - 4 + 2 * h * friction,
    "euler": lambda h, lam, friction: max(h * lam - friction, 2 * h * friction - 4 - h * h * lam),
}
"""Negative where the step is stable: h²λ < 4 − 2hΓ; hλ < Γ and 2hΓ < 4 + h²λ."""


@pytest.mark.parametrize(("lam", "gamma", "T", "covariance"), SCALARS)
@pytest.mark.parametrize("integrator", INTEGRATORS)
def test_it_is_stable_up_to_its_bound(x64, integrator, lam, gamma, T, covariance):
    """With Γ = γ + h Cov/(2T), which keeps Euler's first bound at every h for a Cov above 2Tλ."""
    friction = lambda h: gamma + h * covariance / (2 * T)
    bound = root(lambda h: BOUNDS[integrator](h, lam, friction(h)), 1e-6, 4.0)
    inside, at, outside = (
        spectral_radius(integrator, bound * factor, lam, gamma, T, covariance)
        for factor in (0.9999, 1.0, 1.0001)
    )
    assert 1 - 1e-2 < inside < 1 < outside < 1 + 1e-2
    assert at == pytest.approx(1, abs=1e-9)


@pytest.mark.full
@pytest.mark.parametrize("matrix", [np.diag([1, 2]), np.array([1, 2])], ids=["matrix", "diagonal"])
def test_a_covariance_of_whole_numbers_is_that_of_floats(matrix):
    made, wanted = (
        ewsg.dynamics.noise_corrected(H, friction=GAMMA, covariance=each)
        for each in (matrix, matrix.astype(np.float32))
    )
    np.testing.assert_array_equal(made.covariance.matrix, wanted.covariance.matrix)


@pytest.mark.full
@pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.float16, jnp.int32])
def test_a_given_covariance_may_have_any_real_dtype(dtype):
    matrix = jnp.array([[2.0, 1.0], [1.0, 2.0]])
    wide, narrow = (
        ewsg.dynamics.noise_corrected(0.1, friction=1.0, covariance=each).covariance
        for each in (matrix, matrix.astype(dtype))
    )
    np.testing.assert_array_equal(narrow.matrix, wide.matrix)
    np.testing.assert_array_equal(narrow.basis, wide.basis)
