"""The exact integrator's mean map and covariance, from γh = 1e-6 to 20, against 60 decimal digits.

Written as published, these formulas cancel: Var θ' is of order (γh)³, so at γh = 1e-6 float64 has
no digit left of it. The reference is evaluated with Python's `decimal`. The formulas
themselves are checked against the stochastic equation, by the moments of 10⁵ small steps.
"""

import decimal
from decimal import Decimal

import jax
import jax.numpy as jnp
import numpy as np

import ewsg_jax as ewsg
from tests.oracles import lyapunov

TEMPERATURE, INVERSE_MASS = 0.6, 0.3

# Around γh = 2 the integrator changes from a continued fraction to a plain difference.
PRODUCTS = [
    *10.0 ** np.arange(-6, 0),
    0.3,
    0.7,
    1,
    1.5,
    1.9,
    1.99,
    2,
    2.01,
    2.1,
    2.5,
    3,
    4,
    6,
    10,
    20,
]


def grid():
    """All pairs of h and γ."""
    gamma, product = (x.ravel() for x in np.meshgrid([0.01, 1.7, 2.0, 50.0], PRODUCTS))
    return product / gamma, gamma


def reference(h, gamma):
    """The entries of the mean map and of the covariance, rounded once to float64."""
    with decimal.localcontext(prec=60):
        h, gamma, T, u = (Decimal(float(x)) for x in (h, gamma, TEMPERATURE, INVERSE_MASS))
        e = (-gamma * h).exp()
        return {
            "velocity by velocity": float(e),
            "velocity by gradient": float(-u / gamma * (1 - e)),
            "position by velocity": float((1 - e) / gamma),
            "position by gradient": float(-u / gamma * (h - (1 - e) / gamma)),
            "variance of velocity": float(T * u * (1 - e * e)),
            "variance of position": float(T * u / gamma**2 * (2 * gamma * h - 3 + 4 * e - e * e)),
            "covariance": float(T * u / gamma * (1 - e) ** 2),
        }


def entries(h, gamma):
    """The same of `transition`, by its Jacobians; h and γ may be arrays."""
    # One datum x with V = ½(θ − x)²: at θ = 0 the gradient is −x, so ∂/∂g = −∂/∂x, free of the 1 of
    # ∂θ'/∂θ.
    posterior = ewsg.models.gaussian_location()

    def end(h, gamma, velocity, datum, noise):
        dynamics = ewsg.dynamics.exact(
            h, friction=gamma, temperature=TEMPERATURE, inverse_mass=INVERSE_MASS
        )
        kernel = ewsg.kernel(dynamics, ewsg.gradients.full(posterior))
        state = kernel.init(jax.random.key(0), jnp.zeros(1), jnp.zeros((1, 1)))
        state = state._replace(dynamics=state.dynamics._replace(momentum=velocity[None]))
        randomness = ewsg.Randomness((), (noise[:1], noise[1:]))
        moved, _ = kernel.transition(randomness, state, datum[None, None])
        return moved.dynamics.momentum[0], moved.dynamics.position[0]

    jacobians = jax.jit(
        jax.vmap(jax.jacfwd(end, argnums=(2, 3, 4)), in_axes=(0, 0, None, None, None))
    )
    velocity, position = jacobians(h, gamma, jnp.ones(()), jnp.ones(()), jnp.zeros(2))
    (v_by_v, v_by_x, v_by_noise), (p_by_v, p_by_x, p_by_noise) = jax.tree.map(
        lambda x: np.asarray(x, np.float64), (velocity, position)
    )
    return {
        "velocity by velocity": v_by_v,
        "velocity by gradient": -v_by_x,
        "position by velocity": p_by_v,
        "position by gradient": -p_by_x,
        "variance of velocity": (v_by_noise**2).sum(-1),
        "variance of position": (p_by_noise**2).sum(-1),
        "covariance": (v_by_noise * p_by_noise).sum(-1),
    }


def matrices(e):
    """(θ', v') by (θ, v), (θ', v') by g, and the covariance of (θ', v'), for each step size."""
    one, zero = np.ones_like(e["covariance"]), np.zeros_like(e["covariance"])

    def rows(*table):
        return np.moveaxis(np.array(table), -1, 0)

    return (
        rows([one, e["position by velocity"]], [zero, e["velocity by velocity"]]),
        rows([e["position by gradient"]], [e["velocity by gradient"]]),
        rows(
            [e["variance of position"], e["covariance"]],
            [e["covariance"], e["variance of velocity"]],
        ),
    )


def assert_entries(dtype, rtol):
    h, gamma = (x.astype(dtype) for x in grid())
    found = entries(jnp.asarray(h), jnp.asarray(gamma))
    expected = [reference(*pair) for pair in zip(h, gamma, strict=True)]
    for name, values in found.items():
        np.testing.assert_allclose(values, [e[name] for e in expected], rtol=rtol, err_msg=name)


def test_every_entry_keeps_its_digits_in_float32():
    assert_entries(np.float32, 1e-5)


def test_every_entry_keeps_its_digits_in_float64(x64):
    assert_entries(np.float64, 1e-13)


def assert_fine_steps(dtype, rtol):
    h, gamma = (x.astype(dtype) for x in grid())
    found = matrices(entries(jnp.asarray(h), jnp.asarray(gamma)))
    pairs = zip(h.astype(float), gamma.astype(float), strict=True)
    fine = [lyapunov.exact_by_fine_steps(*pair, TEMPERATURE, INVERSE_MASS) for pair in pairs]
    for ours, steps in zip(found, zip(*fine, strict=True), strict=True):
        np.testing.assert_allclose(ours, np.stack(steps), rtol=rtol)


def test_step_is_that_of_many_small_steps_in_float64(x64):
    assert_fine_steps(np.float64, 3e-8)
