"""Thermostat, preconditioner and metric over every estimator.

The dynamics' part of a step is typed here in NumPy from the estimate that the estimator makes.
"""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ewsg_jax as ewsg
from tests import contract

H, GAMMA, T, DAMPING, DECAY = 0.03, 1.3, 0.7, 0.2, 0.9


def matrix(theta, data):
    """A dense inverse metric, of jax arrays or of NumPy's."""
    return (1 + theta @ theta) * np.eye(len(theta)) + theta[:, None] * theta[None, :]


def divergence_of_matrix(theta):
    """Σⱼ ∂ⱼ of (1 + ‖θ‖²) δᵢⱼ + θᵢθⱼ: 2θᵢ + (d + 1) θᵢ."""
    return (3 + len(theta)) * theta


DYNAMICS = {
    "thermostat": ewsg.dynamics.thermostat(H, friction=GAMMA, temperature=T),
    "preconditioned": ewsg.dynamics.preconditioned(H, decay=DECAY, damping=DAMPING, temperature=T),
    "corrected": ewsg.dynamics.preconditioned(
        H, decay=DECAY, damping=DAMPING, correction=True, temperature=T
    ),
    "diagonal": ewsg.dynamics.riemannian(
        H, inverse_metric=lambda theta, data: 1 / (1 + theta**2), temperature=T
    ),
    "dense": ewsg.dynamics.riemannian(H, inverse_metric=matrix, temperature=T),
}
MODEL = ewsg.models.logistic_regression(prior_scale=2.0)
G = ewsg.gradients
ESTIMATORS = {
    "full": G.full(MODEL),
    "uniform": G.uniform(MODEL, batch_size=2),
    "svrg": G.svrg(MODEL, batch_size=2, refresh_every=3, option="I"),
    "saga": G.saga(MODEL, batch_size=2),
    "control_variate": G.control_variate(MODEL, batch_size=2),
    "stratified": G.stratified(
        MODEL, batch_size=2, labels=ewsg.METHODS["cp_sghmc"].example["labels"], num_strata=2
    ),
    "weighted": G.exponentially_weighted(G.uniform(MODEL, batch_size=2), chain_length=2),
    "weighted_svrg": G.exponentially_weighted(G.svrg(MODEL, batch_size=2, refresh_every=3)),
}
PER_STEP = {
    "full": 7,
    "uniform": 2,
    "svrg": 4,
    "saga": 2,
    "control_variate": 4,
    "stratified": 2,
    "weighted": 6,
    "weighted_svrg": 8,
}
"""∇Vᵢ evaluated in a step; a probe is one gradient of the batch."""


def moved(name, state, g, prior, n, noise):
    """The position after a step, typed, of NumPy arrays."""
    theta = np.asarray(state.position)
    if name == "thermostat":
        p = np.asarray(state.momentum)
        p = p - H * float(state.thermostat) * p - H * g + np.sqrt(2 * GAMMA * T * H) * noise
        return theta + H * p
    if name == "preconditioned":
        m = DECAY * np.asarray(state.mean_square) + (1 - DECAY) * ((g - prior) / n) ** 2
        scale = 1 / (DAMPING + np.sqrt(m))
        return theta - H * scale * g + np.sqrt(2 * H * T * scale) * noise
    if name == "corrected":
        m, slope = np.asarray(state.mean_square), np.asarray(state.slope)
        scale = 1 / (DAMPING + np.sqrt(m))
        drift = -T * scale**2 * slope / (2 * np.sqrt(m))
        return theta - H * (scale * g - drift) + np.sqrt(2 * H * T * scale) * noise[0]
    if name == "diagonal":
        scale, drift = 1 / (1 + theta**2), -2 * T * theta / (1 + theta**2) ** 2
        return theta - H * (scale * g - drift) + np.sqrt(2 * H * T * scale) * noise
    factor = np.linalg.cholesky(matrix(theta, None))
    drift = T * divergence_of_matrix(theta)
    return theta - H * (factor @ factor.T @ g - drift) + np.sqrt(2 * H * T) * factor @ noise


def every_pair():
    """Every dynamics with every estimator; those of a run meet each of both."""
    for (i, name), (j, estimator) in itertools.product(enumerate(DYNAMICS), enumerate(ESTIMATORS)):
        in_every_run = (j - 2 * i) % 8 in (0, 1)
        yield pytest.param(name, estimator, marks=[] if in_every_run else [pytest.mark.sweep])


@pytest.mark.usual_parameters(
    "thermostat-*", "preconditioned-saga", "corrected-control_variate", "diagonal-weighted"
)
@pytest.mark.parametrize(("name", "estimator"), [*every_pair()])
def test_over_every_estimator(x64, name, estimator):
    made, dynamics, data = ESTIMATORS[estimator], DYNAMICS[name], contract.data()
    kernel = ewsg.kernel(dynamics, made)

    @jax.jit
    def step(key, state):
        """The step, and what its estimator has estimated where."""
        randomness = kernel.draw(key, state, data)
        current, wanted = state.dynamics, dynamics.evaluation_point(state.dynamics)
        memory, point, _ = made.refresh(randomness.batch, state.memory, state.step, wanted, data)
        if point is not wanted:
            current = dynamics.with_evaluation_point(current, point)
        weight = functools.partial(
            dynamics.log_weight, dynamics.prepare(current, made.posterior.prior_gradient, data)
        )
        estimate, _ = made.propose(randomness.batch, memory, point, data, weight)
        return (
            kernel.transition(randomness, state, data),
            randomness.noise,
            current,
            estimate.gradient,
        )

    state = kernel.init(jax.random.key(0), jnp.asarray(contract.POSITION), data)
    spent = 0
    for t in range(5):
        (state, info), noise, before, g = step(jax.random.key(t), state)
        spent += int(info.gradient_evaluations)
        assert bool(info.is_finite)
        if t or name != "corrected":
            prior = np.asarray(before.position) / 4
            expected = moved(name, before, np.asarray(g), prior, 7, jax.tree.map(np.asarray, noise))
            np.testing.assert_allclose(state.position, expected, rtol=1e-11)
    probed = 5 * (7 if estimator == "full" else 2) if name == "corrected" else 0
    refreshed = 2 * 7 if "svrg" in estimator else 0
    assert (
        spent
        == kernel.evaluations(data).of_steps(0, 5)
        == 5 * PER_STEP[estimator] + refreshed + probed
    )


@pytest.mark.parametrize("name", ["sgnht", "psgld", "sgrld"])
def test_named_methods_hand_on_their_options(name):
    """Each is its dynamics over `gradients.uniform`, with no option at its default."""
    shared = {"temperature": T, "noise": "rademacher"}
    rows = {"batch_size": 3, "replace": False}
    own = {
        "sgnht": {"friction": GAMMA},
        "psgld": {"decay": DECAY, "damping": DAMPING, "correction": True},
        "sgrld": {"inverse_metric": matrix, "divergence": lambda theta, data: 3.0 * theta},
    }[name]
    build = {"sgnht": "thermostat", "psgld": "preconditioned", "sgrld": "riemannian"}[name]
    named = getattr(ewsg, name)(MODEL, H, **own, **shared, **rows)
    composed = ewsg.kernel(
        getattr(ewsg.dynamics, build)(H, **own, **shared), G.uniform(MODEL, **rows)
    )
    assert named == composed
