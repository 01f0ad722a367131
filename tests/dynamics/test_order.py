"""The order of every dynamics: of its stationary variances on a quadratic, and of one step on a
quartic.

Nothing is sampled: the stationary law comes from the Jacobians of `transition`, the mean over one
step's noise from Gauss–Hermite quadrature, and what it should be from the generator of the
diffusion.
"""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ewsg_jax as ewsg
from tests.oracles import lyapunov

LAMBDA, GAMMA, TEMPERATURE, INVERSE_MASS = 3.0, 2.0, 0.4, 0.5


def build(name, h):
    options = {"temperature": TEMPERATURE}
    if name != "langevin":
        options["friction"] = GAMMA
    if name == "exact":
        options["inverse_mass"] = INVERSE_MASS
    if name.isupper():
        return ewsg.dynamics.palindrome(name, h, **options)
    return getattr(ewsg.dynamics, name)(h, **options)


# Stationary variance / target − 1 = constant · h^order + …, expanded from the closed forms in
# tests/oracles/lyapunov.py. "exact" uses a gradient that is old by h/2 on average, which is a
# friction smaller by huλ/2: its order is 1. The position of "semi_implicit" has order 2 on a
# quadratic, its momentum has order 1.
STATIONARY_BIAS = {
    ("langevin", "position"): (1, LAMBDA / 2),
    ("euler", "position"): (1, LAMBDA / GAMMA),
    ("euler", "momentum"): (1, LAMBDA / GAMMA + GAMMA / 2),
    ("semi_implicit", "position"): (2, LAMBDA / 4),
    ("semi_implicit", "momentum"): (1, GAMMA / 2),
    ("splitting", "position"): (2, -(GAMMA**2) / 24),
    ("splitting", "momentum"): (2, LAMBDA / 4 - GAMMA**2 / 6),
    ("ABOBA", "momentum"): (2, LAMBDA / 4),
    ("OBABO", "position"): (2, LAMBDA / 4),
    ("OABAO", "position"): (2, -LAMBDA / 4),
    ("AOBOA", "position"): (2, GAMMA**2 / 8),
    ("BOAOB", "position"): (2, GAMMA**2 / 8 + LAMBDA / 4),
    ("BUB", "position"): (2, LAMBDA / 12),
    ("exact", "position"): (1, INVERSE_MASS * LAMBDA / (2 * GAMMA)),
    ("exact", "momentum"): (1, INVERSE_MASS * LAMBDA / (2 * GAMMA)),
}


@pytest.mark.parametrize(("name", "part"), STATIONARY_BIAS)
def test_stationary_bias_has_its_order_and_its_constant(linearize, name, part):
    order, constant = STATIONARY_BIAS[name, part]
    posterior = ewsg.models.gaussian_location(noise_scale=LAMBDA**-0.5)
    target = TEMPERATURE / LAMBDA
    if part == "momentum":
        target = TEMPERATURE * (INVERSE_MASS if name == "exact" else 1)

    sizes = 0.02 / 2.0 ** np.arange(4)
    biases = []
    for h in sizes:
        kernel = ewsg.kernel(build(name, h), ewsg.gradients.full(posterior))
        _, covariance = lyapunov.stationary(linearize(kernel, 1, jnp.zeros((1, 1))).steps)
        biases.append(covariance[(0, 0) if part == "position" else (1, 1)] / target - 1)
    np.testing.assert_allclose(slopes(biases), order, atol=0.05)
    assert biases[-1] / sizes[-1] ** order == pytest.approx(constant, rel=0.02)


def slopes(errors):
    """The order seen at each halving of the step size."""
    errors = np.abs(errors)
    return np.log2(errors[:-1] / errors[1:])


def moments(z):
    """The first two moments' functions: zᵢ and zᵢzⱼ."""
    return jnp.concatenate([z, jnp.outer(z, z)[np.triu_indices(len(z))]])


def generator(drift, diffusion):
    """L f = drift·∇f + ½ tr(diffusion diffusionᵀ ∇²f) of dz = drift dt + diffusion dW."""

    def apply(f):
        def image(z):
            second = jnp.einsum("kij,il,jl->k", jax.hessian(f)(z), diffusion, diffusion)
            return jax.jacfwd(f)(z) @ drift(z) + second / 2

        return image

    return apply


@pytest.mark.usual_parameters("langevin-1", "euler-1", "splitting-2", "ABOBA-2")
@pytest.mark.parametrize(
    ("name", "order"),
    [
        ("langevin", 1),
        ("euler", 1),
        ("semi_implicit", 1),
        ("splitting", 2),
        ("exact", 1),
        ("ABOBA", 2),
        ("BAOAB", 2),
    ],
)
def test_one_step_on_a_quartic_is_weakly_accurate_to_its_order(x64, name, order):
    # V = θ⁴/4 + θ²/2, one datum that plays no part.
    posterior = ewsg.Posterior(
        lambda theta, x: 0.0 * x[0], lambda theta: -(theta[0] ** 4) / 4 - theta[0] ** 2 / 2
    )
    force = lambda theta: -(theta**3) - theta
    u = INVERSE_MASS if name == "exact" else 1.0
    if name == "langevin":
        z = jnp.array([0.7])
        L = generator(force, jnp.array([[np.sqrt(2 * TEMPERATURE)]]))
    else:
        z = jnp.array([0.7, -0.4])
        L = generator(
            lambda z: jnp.stack([z[1], u * force(z[0]) - GAMMA * z[1]]),
            jnp.array([[0.0], [np.sqrt(2 * GAMMA * u * TEMPERATURE)]]),
        )

    points, weights = np.polynomial.hermite_e.hermegauss(8)
    count = 2 if name == "exact" else 1
    noises = jnp.array(list(itertools.product(points, repeat=count)))
    probabilities = jnp.prod(
        jnp.array(list(itertools.product(weights / weights.sum(), repeat=count))), axis=1
    )

    data = jnp.zeros((1, 1))

    @jax.jit
    def mean_after(h):
        kernel = ewsg.kernel(build(name, h), ewsg.gradients.full(posterior))
        state = kernel.init(jax.random.key(0), z[:1], data)
        # The momentum of BAOAB is that before the last half kick.
        half = h / 2 if name == "BAOAB" else 0.0
        if name != "langevin":
            momentum = z[1:] - half * force(z[:1])
            state = state._replace(dynamics=state.dynamics._replace(momentum=momentum))

        def end(noise):
            noise = (noise[:1], noise[1:]) if name == "exact" else noise
            moved, _ = kernel.transition(ewsg.Randomness((), noise), state, data)
            if name == "langevin":
                return moments(moved.position)
            momentum = moved.dynamics.momentum + half * force(moved.position)
            return moments(jnp.concatenate([moved.position, momentum]))

        return probabilities @ jax.vmap(end)(noises)

    once = jax.jit(L(moments))(z)
    twice = jax.jit(L(L(moments)))(z) if order == 2 else 0
    expansion = lambda h: moments(z) + h * once + h**2 / 2 * twice
    errors = [
        float(jnp.max(jnp.abs(mean_after(h) - expansion(h)))) for h in 0.02 / 2.0 ** np.arange(4)
    ]
    np.testing.assert_allclose(slopes(errors), order + 1, atol=0.05)
