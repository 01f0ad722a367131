"""The log weight of an estimate is ½‖ξ‖², ξ the noise that takes the step to its frozen end.

A step is affine in its noise, so that ξ is solved from `apply`, whose steps other tests compare
with the papers' formulas: that ties the weight of every dynamics to its own update.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

import ewsg_jax as ewsg
from ewsg_jax.gradients import Covariance, Estimate

D = 4
RNG = np.random.default_rng(3)
ROOT, BASIS = RNG.normal(size=(D, D)), np.linalg.qr(RNG.normal(size=(D, 2)))[0]
DENSE = ROOT @ ROOT.T + np.eye(D)
DATA = {"x": 0.5 * RNG.normal(size=(5, D)), "y": 0.5 * RNG.normal(size=(5, D))}
START, GRADIENT, MOMENTUM = RNG.normal(size=(3, D))
H, GAMMA, T, INVERSE_MASS = 0.05, 1.7, 0.6, 0.4


def tree(flat):
    """A position of a scalar and a vector."""
    return {"intercept": jnp.asarray(flat[0]), "weights": jnp.asarray(flat[1:])}


def flat(position):
    return ravel_pytree(position)[0]


def log_likelihood(position, row):
    theta = flat(position)
    return row["y"] @ theta - jnp.exp(row["x"] @ theta)


POSTERIOR = ewsg.Posterior(log_likelihood, lambda position: -0.5 * jnp.sum(flat(position) ** 2))


def metric(position, data):
    """A dense inverse metric, in `ravel_pytree` order."""
    theta = flat(position)
    return (1 + theta @ theta) * jnp.eye(D) + theta[:, None] * theta


def build(name, options) -> ewsg.dynamics.Dynamics:
    make: Any = getattr(ewsg.dynamics, name)
    momentum = name not in ("langevin", "preconditioned", "riemannian", "quasi_newton")
    friction = {"friction": GAMMA} if momentum else {}
    return make(step_size=H, temperature=T, **friction, **options)


DYNAMICS: dict[str, tuple[str, dict[str, Any]]] = {
    name: (name, {}) for name in ("langevin", "euler", "semi_implicit", "splitting", "thermostat")
}
DYNAMICS |= {word: ("palindrome", {"letters": word}) for word in ("ABOBA", "BAOAB", "BUB")}
DYNAMICS |= {
    "exact": ("exact", {"inverse_mass": INVERSE_MASS}),
    "langevin, a mass": ("langevin", {"inverse_mass": DENSE}),
    "semi_implicit, a mass": ("semi_implicit", {"inverse_mass": DENSE}),
    "noise_corrected": ("noise_corrected", {}),
    "noise_corrected, euler": ("noise_corrected", {"integrator": "euler"}),
    # A batch's gradient moves m' by less than rounding: a weight has the stored m.
    "preconditioned": ("preconditioned", {"decay": 1 - 1e-15, "damping": 0.3}),
    "preconditioned, corrected": ("preconditioned", {"damping": 0.3, "correction": True}),
    "riemannian, diagonal": (
        "riemannian",
        {"inverse_metric": lambda p, data: jax.tree.map(lambda x: 1 / (1 + x**2), p)},
    ),
    "riemannian": ("riemannian", {"inverse_metric": metric}),
    "quasi_newton": (
        "quasi_newton",
        {"memory_size": 3, "trust_region": 0.7, "initial_scale": 0.3},
    ),
}
COVARIANCES = {
    "dense": (np.diag([2.0, 0.5, 0.0, 1.0]) + 0.1, None),
    "low rank": (np.array([[2.0, 0.5], [0.5, 1.0]]), BASIS),
}


def moved_part(name, state):
    """What the noise of a step moves: a momentum, else the position; both of `exact`."""
    if name == "exact":
        return jnp.concatenate([flat(state.position), flat(state.momentum)])
    return flat(state.momentum if hasattr(state, "momentum") else state.position)


def some_state(dynamics):
    """A state some steps from the start, with a momentum of the test's choice."""
    # A covariance is reported by the test's own estimates alone.
    stepped = build("semi_implicit", {}) if "noise_corrected" in repr(dynamics) else dynamics
    kernel = ewsg.kernel(stepped, ewsg.gradients.full(POSTERIOR))
    state = kernel.init(jax.random.key(0), tree(0.1 * START), DATA)
    step = jax.jit(kernel.step)
    for number in range(7):
        state, _ = step(jax.random.key(number), state, DATA)
    own = {"momentum": tree(MOMENTUM), "mean_square": tree(START**2)}
    return state.dynamics._replace(
        **{name: value for name, value in own.items() if hasattr(state.dynamics, name)}
    )


CASES = [(name, "dense") for name in DYNAMICS]
CASES += [(name, "low rank") for name in DYNAMICS if name.startswith("noise_corrected")]


@pytest.mark.usual_parameters(
    "euler-dense", "exact-dense", "semi_implicit, a mass-dense", "noise_corrected-low rank"
)
@pytest.mark.parametrize(("name", "covariance"), CASES)
def test_weight_is_that_of_the_noise_that_reaches_the_frozen_end(x64, name, covariance):
    """For each frozen noise, and gradients of ordinary size and large ones."""
    dynamics = build(*DYNAMICS[name])
    state = some_state(dynamics)
    no_noise, unravel = ravel_pytree(dynamics.draw(jax.random.key(0), state))

    @jax.jit
    def solved(state, g):
        prepared = dynamics.prepare(state, POSTERIOR.prior_gradient, DATA)
        estimate = Estimate(tree(g), (), covariance=Covariance(*COVARIANCES[covariance]))
        still = estimate._replace(gradient=tree(0 * g))

        def end(noise, estimate=estimate):
            made = dynamics.apply(unravel(noise), prepared, estimate, lambda position: tree(g))
            return moved_part(name, made)

        return (
            end(0 * no_noise),
            jax.jacfwd(end)(no_noise),
            {"zero": end(0 * no_noise, still), "one": end(1 + 0 * no_noise, still)},
            {x: dynamics.log_weight(prepared, estimate, x) for x in dynamics.frozen_noise},
            dynamics.log_weight(prepared, estimate),
        )

    # Without a momentum a step starts where its gradient is taken.
    here = moved_part(name, state)
    if not hasattr(state, "momentum"):
        here = flat(dynamics.evaluation_point(state))
    for scale in (1.0, 30.0):
        start, by_noise, ends, weights, default = jax.device_get(solved(state, scale * GRADIENT))
        ends |= {"momentum": np.asarray(here), "rest": 0 * np.asarray(here)}
        if name == "exact":  # v' = v and θ' = θ + h v
            ends["momentum"] = ends["momentum"] + np.append(H * MOMENTUM, 0 * MOMENTUM)
        for frozen, weight in weights.items():
            if name == "exact" and frozen != "momentum":
                continue
            noise, *_ = np.linalg.lstsq(by_noise, ends[frozen] - start, rcond=None)
            np.testing.assert_allclose(start + by_noise @ noise, ends[frozen], atol=1e-10 * scale)
            np.testing.assert_allclose(weight, 0.5 * noise @ noise, rtol=1e-9)
        assert default == weights["momentum"]


@pytest.mark.parametrize("how", ["zero", "one"])
def test_exact_weight_of_a_frozen_noise_adds_it_to_the_scaled_gradient(x64, how):
    """The residuals are d numbers times fixed ones, so that there is one noise: x + √(uh/2γT) g."""
    x = {"zero": 0, "one": 1}[how]
    scale = np.sqrt(INVERSE_MASS * H / (2 * GAMMA * T))
    expected = 0.5 * np.sum((x + scale * GRADIENT) ** 2)
    dynamics = build(*DYNAMICS["exact"])
    state = some_state(dynamics)
    weight = dynamics.log_weight(state, Estimate(tree(GRADIENT), ()), how)
    np.testing.assert_allclose(weight, expected, rtol=1e-12)
