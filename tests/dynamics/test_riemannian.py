"""Langevin in a metric against its formulas and the Fokker–Planck equation, and its law with and
without Γ.

θ' = θ − h(M g − Γ) + √(2hT) L ξ, M = G⁻¹ = L Lᵀ, Γᵢ = T Σⱼ ∂ⱼMᵢⱼ: M and its derivatives typed here
in NumPy.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ewsg_jax as ewsg
from ewsg_jax.dynamics import RiemannianState
from ewsg_jax.gradients import Estimate
from tests.oracles import transition
from tests.parts import no_probe

H, TEMPERATURE = 0.07, 0.6
DATA = np.array([[0.5, -1.0], [2.0, 0.3], [-0.7, 1.1]])
FIELD = np.array([[1.0, 0.3, -0.2], [0.1, 1.2, 0.4], [-0.3, 0.2, 0.9]])
POSITION, GRADIENT, NOISE, _ = np.random.default_rng(6).normal(size=(4, 3))


# Three metrics of three numbers: of its own coordinate each, diagonal, dense. M(θ) and ∂ₖM(θ), (3,
# 3, 3), k last.


def separable(theta):
    return np.diag(1 / (1 + theta**2)), np.einsum(
        "ik,ij->ijk", np.diag(-2 * theta / (1 + theta**2) ** 2), np.eye(3)
    )


def diagonal(theta):
    s = np.sin(FIELD @ theta)
    slope = np.cos(FIELD @ theta)[:, None] * FIELD
    return np.diag(1.5 + s), np.einsum("ik,ij->ijk", slope, np.eye(3))


def dense(theta):
    """I + A Aᵀ with A = diag(tanh(Fθ)) F, plus the rows' mean square on the diagonal."""
    t = np.tanh(FIELD @ theta)
    A = t[:, None] * FIELD
    dA = ((1 - t**2)[:, None] * FIELD)[:, None, :] * FIELD[:, :, None]
    product = np.einsum("iak,ja->ijk", dA, A)
    return (1 + np.mean(DATA**2)) * np.eye(3) + A @ A.T, product + product.transpose(1, 0, 2)


TYPED = {"separable": separable, "diagonal": diagonal, "dense": dense}


def inverse_metric(name):
    """The same in jax, of a position that is an array."""

    def of(theta, data):
        if name == "separable":
            return 1 / (1 + theta**2)
        if name == "diagonal":
            return 1.5 + jnp.sin(FIELD @ theta)
        A = jnp.tanh(FIELD @ theta)[:, None] * FIELD
        return (1 + jnp.mean(data**2)) * jnp.eye(3) + A @ A.T

    return of


def typed_parts(name, theta, T=TEMPERATURE):
    """M, its factor L and Γ."""
    M, slope = TYPED[name](theta)
    return M, np.linalg.cholesky(M), T * np.einsum("ijj->i", slope)


def tree(flat):
    """A scalar and a vector, the scalar first, as jax sorts the names."""
    return {"a": jnp.asarray(flat[0]), "b": jnp.asarray(flat[1:])}


def in_tree(name):
    """The inverse metric of a position that is a tree: dense over the numbers leaf after leaf."""

    def of(position, data):
        made = inverse_metric(name)(jnp.concatenate([position["a"][None], position["b"]]), data)
        return made if name == "dense" else {"a": made[0], "b": made[1:]}

    return of


def no_prior(position):
    raise AssertionError("the prior is not asked for")


def dynamics_of(metric, h: Any = H, T: Any = TEMPERATURE, **options):
    return ewsg.dynamics.riemannian(h, inverse_metric=metric, temperature=T, **options)


FORMS = {"array": (jnp.asarray, inverse_metric), "tree": (tree, in_tree)}


def flat(position):
    return np.concatenate([np.ravel(x) for x in jax.tree.leaves(position)])


# The formulas.


@pytest.mark.usual_parameters(
    "separable-array-automatic", "diagonal-array-automatic", "dense-array-automatic"
)
@pytest.mark.parametrize("divergence", ["automatic", "given"])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", TYPED)
def test_move(x64, name, form, divergence):
    make, metric = FORMS[form]
    M, L, gamma = typed_parts(name, POSITION)
    given = (
        {"divergence": lambda p, data: make(gamma / TEMPERATURE)} if divergence == "given" else {}
    )
    dynamics = dynamics_of(metric(name), **given)
    prepared = dynamics.prepare(
        RiemannianState(make(POSITION), jnp.int32(4)), no_prior, jnp.asarray(DATA)
    )
    moved = dynamics.apply(make(NOISE), prepared, Estimate(make(GRADIENT), ()), no_probe)
    expected = POSITION - H * (M @ GRADIENT - gamma) + np.sqrt(2 * H * TEMPERATURE) * L @ NOISE
    np.testing.assert_allclose(flat(moved.position), expected, rtol=1e-12)
    assert int(moved.step) == 5


@pytest.mark.full
def test_a_metric_that_is_not_positive_definite_shows():
    ones = jnp.ones(2)
    for metric in (lambda p, data: -jnp.eye(2), lambda p, data: jnp.array([1.0, -1.0])):
        dynamics = dynamics_of(metric)
        prepared = dynamics.prepare(
            RiemannianState(ones, jnp.int32(0)), no_prior, jnp.asarray(DATA)
        )
        moved = dynamics.apply(ones, prepared, Estimate(ones, ()), no_probe)
        assert np.isnan(moved.position).any()


# The drift. V = ¼ Σ θᵢ⁴ + θ₀θ₁ + ½ ‖θ‖².


def potential(theta):
    return 0.25 * np.sum(theta**4) + theta[0] * theta[1] + 0.5 * theta @ theta


def gradient_of_potential(theta):
    return theta**3 + theta + np.array([theta[1], theta[0], 0])


def printed_drift(name, theta, T):
    """Patterson & Teh's: T (−2 Σⱼ (G⁻¹ ∂ⱼG G⁻¹)ᵢⱼ + Σⱼ (G⁻¹)ᵢⱼ tr(G⁻¹ ∂ⱼG)), with ∂G = −G ∂M G."""
    M, slope = TYPED[name](theta)
    G = np.linalg.inv(M)
    dG = -np.einsum("ia,abk,bj->ijk", G, slope, G)
    return T * (-2 * np.einsum("ia,abj,bj->i", M, dG, M) + np.einsum("ij,ab,baj->i", M, M, dG))


@pytest.mark.parametrize("name", TYPED)
def test_the_target_has_no_flux_with_this_drift(x64, name):
    """J = b π − T ∇·(M π), b from `move`, the divergence by differences of M, at points of R³."""
    T, eps = TEMPERATURE, 1e-3
    dynamics = dynamics_of(inverse_metric(name))
    density = lambda theta: np.exp(-potential(theta) / T)
    # Of fourth order.
    weights = {-2: 1 / 12, -1: -2 / 3, 1: 2 / 3, 2: -1 / 12}

    @jax.jit
    def drift(theta, g):
        prepared = dynamics.prepare(
            RiemannianState(theta, jnp.int32(0)), no_prior, jnp.asarray(DATA)
        )
        return (
            dynamics.apply(jnp.zeros(3), prepared, Estimate(g, ()), no_probe).position - theta
        ) / H

    def diffusive(theta):
        return sum(
            w
            * TYPED[name](theta + k * eps * unit)[0]
            @ unit
            * density(theta + k * eps * unit)
            / eps
            for unit in np.eye(3)
            for k, w in weights.items()
        )

    printed = []
    for theta in np.random.default_rng(1).uniform(-1.2, 1.2, size=(20, 3)):
        g = gradient_of_potential(theta)
        second = T * diffusive(theta) / density(theta)
        np.testing.assert_allclose(drift(theta, g), second, atol=1e-8)
        M = TYPED[name](theta)[0]
        printed.append(np.abs(printed_drift(name, theta, T) - M @ g - second).max())
    if name == "separable":
        assert max(printed) < 1e-8
    else:
        assert min(printed) > 1e-3
        assert max(printed) > 0.1


# The law, in one dimension: V = 3 e^θ − 6 θ, M = 1/(1 + e^θ).


def moments_of_the_chain(h, T, **options):
    posterior = ewsg.Posterior(lambda p, x: -x * jnp.exp(p[0]), lambda p: 6 * p[0])
    dynamics = dynamics_of(lambda p, data: 1 / (1 + jnp.exp(p)), h, T, **options)
    kernel = ewsg.kernel(dynamics, ewsg.gradients.full(posterior))
    data, grid = jnp.array([0.5, 1.0, 1.5]), np.linspace(-4.5, 3.0, 401)
    start = kernel.init(jax.random.key(0), jnp.zeros(1), data)

    @jax.jit
    @jax.vmap
    def ends(x):
        state = start._replace(dynamics=start.dynamics._replace(position=x[None]))
        return [
            kernel.transition(ewsg.Randomness((), jnp.full(1, xi)), state, data)[0].position[0]
            for xi in (0.0, 1.0)
        ]

    mean, end = (np.asarray(x) for x in ends(grid))
    return transition.mean_and_variance(grid, transition.stationary(grid, mean, end - mean))


@pytest.mark.full
@pytest.mark.parametrize("T", [pytest.param(1.0, marks=pytest.mark.sweep), 0.7])
def test_law(x64, T):
    """exp(−V/T) at order h; without Γ it would be exp(−V/T)/M, 0.11 or 0.08 off in the mean."""
    grid = np.linspace(-4.5, 3.0, 20_001)
    V = 3 * np.exp(grid) - 6 * grid
    target = transition.mean_and_variance(grid, transition.tilted(grid, V, T))
    coarse, fine = (moments_of_the_chain(h, T) - target for h in (0.04, 0.02))
    np.testing.assert_allclose(coarse / fine, 2, rtol=0.06)
    assert np.abs(2 * fine - coarse).max() < 1e-3
    other = transition.mean_and_variance(grid, transition.tilted(grid, V, T, 1 + np.exp(grid)))
    without = {"divergence": lambda p, data: 0 * p}
    coarse, fine = (moments_of_the_chain(h, T, **without) - other for h in (0.04, 0.02))
    assert np.abs(2 * fine - coarse).max() < 1e-3
    assert other[0] - target[0] == pytest.approx({1.0: 0.1111, 0.7: 0.0778}[T], abs=1e-4)
