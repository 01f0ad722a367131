"""An inverse mass C = L Lᵀ: the same dynamics in the coordinates z = L⁻¹θ, step for step."""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

import ewsg_jax as ewsg
from ewsg_jax.base import pytrees
from ewsg_jax.dynamics import LowRank
from ewsg_jax.dynamics._mass import InMetric
from ewsg_jax.gradients import Covariance, Estimate
from tests.oracles import lyapunov

RNG = np.random.default_rng(7)
D = 5
ROWS = RNG.normal(size=(6, D))
START = RNG.normal(size=D)
ROOT = RNG.normal(size=(D, D))
BASIS = np.linalg.qr(RNG.normal(size=(D, 2)))[0]
SPREAD, VALUES = RNG.uniform(0.5, 2.0, D), np.array([3.0, 0.2])
DENSE = ROOT @ ROOT.T / D + np.eye(D)


def tree(flat):
    """A position of two leaves: a matrix and a vector."""
    return {"a": jnp.reshape(flat[:4], (2, 2)), "b": flat[4:]}


def flat(position):
    return ravel_pytree(position)[0]


def masses():
    """By name: what is given, and its L typed."""
    middle = np.eye(D) + (BASIS * (np.sqrt(VALUES) - 1)) @ BASIS.T
    return {
        "number": (0.3, np.sqrt(0.3) * np.eye(D)),
        "scalar": (jnp.asarray(0.3), np.sqrt(0.3) * np.eye(D)),
        "tree": (tree(jnp.asarray(SPREAD)), np.diag(np.sqrt(SPREAD))),
        "dense": (jnp.asarray(DENSE), np.linalg.cholesky(DENSE)),
        "low_rank": (
            LowRank(*map(jnp.asarray, (SPREAD, BASIS, VALUES))),
            np.sqrt(SPREAD)[:, None] * middle,
        ),
    }


STRUCTURES = ("number", "scalar", "tree", "dense", "low_rank")
DYNAMICS = (
    "langevin",
    "semi_implicit",
    "euler",
    "splitting",
    "exact",
    "BUB",
    "thermostat",
    "noise_corrected",
)


def log_likelihood(position, row):
    return -jnp.sum(jnp.cosh(flat(position) - row))


def log_prior(position):
    return -0.1 * jnp.sum(flat(position) ** 4)


def in_its_coordinates(L):
    """The posterior as a function of z."""
    there = lambda z: tree(jnp.asarray(L) @ flat(z))
    return ewsg.Posterior(
        lambda z, row: log_likelihood(there(z), row), lambda z: log_prior(there(z))
    )


def dynamics_of(name, **options):
    options |= {} if name == "langevin" else {"friction": 1.3}
    if name.isupper():
        return ewsg.dynamics.palindrome(name, 0.04, temperature=0.7, **options)
    return getattr(ewsg.dynamics, name)(
        0.01 if name == "langevin" else 0.04, temperature=0.7, **options
    )


def estimator_of(kind, posterior, dynamics):
    if dynamics == "noise_corrected":
        return ewsg.gradients.covariance_tracking(posterior, batch_size=2, refresh_every=3)
    if kind == "uniform":
        return ewsg.gradients.uniform(posterior, batch_size=2)
    anchored = ewsg.gradients.svrg(posterior, batch_size=2, refresh_every=3)
    return ewsg.gradients.exponentially_weighted(anchored, chain_length=2)


# Step for step.


@pytest.mark.usual_parameters("langevin-uniform", "splitting-uniform")
@pytest.mark.parametrize(
    ("name", "kind"),
    [(name, "uniform") for name in DYNAMICS] + [(name, "weighted svrg") for name in DYNAMICS[:-1]],
)
def test_it_is_the_same_dynamics_in_other_coordinates(x64, name, kind):
    """Seven steps of one randomness, each structure: θ = L z, z's momentum, to rounding."""
    given = {
        key: value
        for key, value in masses().items()
        if kind == "uniform" or key in ("dense", "tree")
    }
    posterior = ewsg.Posterior(log_likelihood, log_prior)

    def run(kernel, start, data):
        def step(state, key):
            state, info = kernel.step(key, state, data)
            return state, info.index_acceptance

        state = kernel.init(jax.random.key(0), start, data)
        return jax.lax.scan(step, state, jax.random.split(jax.random.key(1), 7))

    @jax.jit
    def with_each(data):
        def end(inverse_mass):
            kernel = ewsg.kernel(
                dynamics_of(name, inverse_mass=inverse_mass), estimator_of(kind, posterior, name)
            )
            return run(kernel, tree(jnp.asarray(START)), data)

        return [end(inverse_mass) for inverse_mass, _ in given.values()]

    @jax.jit
    @functools.partial(jax.vmap, in_axes=(0, None))
    def in_coordinates(L, data):
        plain = ewsg.kernel(dynamics_of(name), estimator_of(kind, in_its_coordinates(L), name))
        return run(plain, tree(jnp.linalg.solve(L, START)), data)

    data = jnp.asarray(ROWS)
    plains = in_coordinates(np.stack([L for _, L in given.values()]), data)
    for place, (end, accepted) in enumerate(with_each(data)):
        plain, same = jax.tree.map(lambda x, place=place: np.asarray(x)[place], plains)
        structure, (_, L) = list(given.items())[place]
        np.testing.assert_array_equal(accepted, same)
        position = np.asarray(flat(end.position))
        assert np.abs(position - START).max() > 0.05
        np.testing.assert_allclose(
            position, L @ np.asarray(flat(plain.position)), rtol=1e-10, atol=1e-12
        )
        if name != "langevin":
            scale = (
                np.sqrt(0.3) if name == "exact" and structure in ("number", "scalar") else 1.0
            )  # its velocity
            momentum = scale * np.asarray(flat(plain.dynamics.momentum))
            np.testing.assert_allclose(
                flat(end.dynamics.momentum), momentum, rtol=1e-10, atol=1e-12
            )


class MidpointState(NamedTuple):
    position: Any
    step: Any


@ewsg.module
class Midpoint(ewsg.dynamics.Dynamics):
    """Half a step to a point, and a step by the gradient there: it asks for a second gradient."""

    translates = True
    extra_gradients = 1

    step_size: Any

    def init(self, key, position):
        return MidpointState(position, jnp.int32(0))

    def apply(self, noise, prepared, estimate, gradient_at):
        def moved(share, gradient):
            scale = jnp.sqrt(2 * share * h)
            terms = (1, prepared.position), (-share * h, gradient), (scale, noise)
            return pytrees.combine(*terms)

        h = self.step_size(prepared.step)
        end = moved(1.0, gradient_at(moved(0.5, estimate.gradient)))
        return MidpointState(end, prepared.step + 1)


@ewsg.module
class WithPrior(Midpoint):
    """Beside it the prior's force where the step begins, once more, which `prepare` evaluates."""

    def prepare(self, state, prior_gradient, data):
        return state, prior_gradient(state.position)

    def apply(self, noise, prepared, estimate, gradient_at):
        state, of_prior = prepared
        total = pytrees.combine((1, estimate.gradient), (1, of_prior))
        return super().apply(noise, state, estimate._replace(gradient=total), gradient_at)


@pytest.mark.full
@pytest.mark.parametrize("kind", [Midpoint, WithPrior])
@pytest.mark.parametrize("structure", STRUCTURES)
def test_gradients_of_a_step_of_ones_own_are_those_of_the_same_coordinates(x64, structure, kind):
    """What `apply` and `prepare` ask for at a point z is Lᵀ∇V(θ + L z), and of V₀ alone."""
    given, L = masses()[structure]
    inner = kind(**ewsg.hyperparameters(step_size=0.01))
    there = in_its_coordinates(L)
    posterior = ewsg.Posterior(log_likelihood, log_prior)

    def end(dynamics, posterior, start):
        kernel = ewsg.kernel(dynamics, ewsg.gradients.full(posterior))
        state = kernel.init(jax.random.key(0), start, ROWS)
        keys = jax.random.split(jax.random.key(1), 7)
        step = lambda state, key: (kernel.step(key, state, jnp.asarray(ROWS))[0], None)
        return flat(jax.lax.scan(step, state, keys)[0].position)

    found = end(ewsg.dynamics.in_metric(inner, given), posterior, tree(jnp.asarray(START)))
    expected = L @ np.asarray(end(inner, there, tree(jnp.linalg.solve(L, START))))
    assert np.abs(found - START).max() > 0.05
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("structure", STRUCTURES)
def test_factors(x64, structure):
    """L v and Lᵀ v, and L Lᵀ is what was given."""
    given, L = masses()[structure]
    factor = ewsg.dynamics.semi_implicit(0.1, friction=1.0, inverse_mass=given).mass.factor
    v = tree(jnp.asarray(RNG.normal(size=D)))
    np.testing.assert_allclose(flat(factor.times(v)), L @ np.asarray(flat(v)), rtol=1e-12)
    np.testing.assert_allclose(flat(factor.transposed(v)), L.T @ np.asarray(flat(v)), rtol=1e-12)
    C = {
        "number": 0.3 * np.eye(D),
        "scalar": 0.3 * np.eye(D),
        "tree": np.diag(SPREAD),
        "dense": DENSE,
        "low_rank": np.sqrt(np.outer(SPREAD, SPREAD))
        * (np.eye(D) + (BASIS * (VALUES - 1)) @ BASIS.T),
    }[structure]
    np.testing.assert_allclose(L @ L.T, C, rtol=1e-12, atol=1e-14)


@pytest.mark.full
def test_a_given_covariance_is_turned_too(x64):
    """The friction of `noise_corrected` is of Lᵀ Cov L, Cov in the position's coordinates."""
    _, L = masses()["dense"]
    C, p, xi, g = np.cov(RNG.normal(size=(D, 40))), *RNG.normal(size=(3, D))
    own = dynamics_of("noise_corrected", covariance=jnp.asarray(C), inverse_mass=jnp.asarray(DENSE))
    state = own.init(jax.random.key(0), tree(jnp.asarray(START)))._replace(
        momentum=tree(jnp.asarray(p))
    )
    moved = own.apply(
        tree(jnp.asarray(xi)), state, Estimate(tree(jnp.asarray(g)), ()), lambda position: position
    )
    h, gamma, T = 0.04, 1.3, 0.7
    friction = lyapunov.friction_matrix(L.T @ C @ L, h, gamma, T)
    momentum = p - h * (L.T @ g + friction @ p) + np.sqrt(2 * gamma * T * h) * xi
    np.testing.assert_allclose(flat(moved.momentum), momentum, rtol=1e-12)
    np.testing.assert_allclose(flat(moved.position), START + h * L @ momentum, rtol=1e-12)


@pytest.mark.full
@pytest.mark.parametrize("name", DYNAMICS[:-1])
def test_a_restart_takes_the_gradient_where_it_is_told(x64, name):
    """Of the splitting that is half a drift ahead of the position, and the momentum stays."""
    own = dynamics_of(name, inverse_mass=jnp.asarray(DENSE))
    state = own.init(jax.random.key(0), tree(jnp.asarray(START)))
    there = tree(jnp.linspace(-1.0, 1.0, D))
    if name != "langevin":
        state = state._replace(momentum=tree(jnp.linspace(2.0, 3.0, D)))
    restarted = own.with_evaluation_point(state, there)
    np.testing.assert_allclose(
        flat(own.evaluation_point(restarted)), flat(there), rtol=1e-12, atol=1e-14
    )
    moved = restarted._replace(position=state.position)
    jax.tree.map(np.testing.assert_array_equal, moved, state)


# The law.


@pytest.mark.full
@pytest.mark.parametrize("name", ["langevin", "semi_implicit", "euler", "splitting"])
def test_with_the_covariance_of_the_target_every_direction_is_of_width_one(linearize, name):
    """Variances 1 and 10⁶, correlated: the law is L times that of N(0, T I) at the same step."""
    n, d = 4, 2
    covariance = np.array([[1.0, 600.0], [600.0, 1e6]])
    precision = np.linalg.inv(covariance)
    posterior = ewsg.Posterior(
        lambda p, row: -0.5 * p @ jnp.asarray(precision) @ p / n, lambda p: 0.0
    )
    h, T = 0.3, 0.6
    options = {} if name == "langevin" else {"friction": 1.5}
    dynamics = getattr(ewsg.dynamics, name)(
        h, temperature=T, inverse_mass=jnp.asarray(covariance), **options
    )
    maps = linearize(ewsg.kernel(dynamics, ewsg.gradients.full(posterior)), d, jnp.zeros((n, 1)))
    _, found = lyapunov.stationary(maps.steps)
    L = np.linalg.cholesky(covariance)
    expected = lyapunov.CLOSED_FORMS[name](1.0, h, *options.values(), T)
    blocks = (
        np.kron(np.diag([1, 0]), L) + np.kron(np.diag([0, 1]), np.eye(d))
        if name != "langevin"
        else L
    )
    np.testing.assert_allclose(
        found, blocks @ np.kron(expected, np.eye(d)) @ blocks.T, rtol=1e-8, atol=1e-8
    )


# As a value.


@pytest.mark.full
def test_one_costs_nothing():
    for name in DYNAMICS:
        assert (
            dynamics_of(name, inverse_mass=1)
            == dynamics_of(name, inverse_mass=1.0)
            == dynamics_of(name)
        )
        if name != "exact":
            assert not isinstance(dynamics_of(name, inverse_mass=1.0), InMetric)


@pytest.mark.full
def test_it_is_printed_and_compared_by_value():
    made = functools.partial(dynamics_of, "euler")
    text = "euler(step_size=0.04, friction=1.3, temperature=0.7, inverse_mass="
    assert repr(made(inverse_mass=0.5)) == f"{text}0.5)"
    assert repr(made(inverse_mass=np.eye(2, dtype=np.float32))) == f"{text}<float32[2, 2]>)"
    assert (
        made(inverse_mass=np.eye(2))
        == made(inverse_mass=np.eye(2))
        != made(inverse_mass=2 * np.eye(2))
    )


@pytest.mark.full
def test_a_reported_covariance_stays_in_the_coordinates_of_the_position():
    """An estimator's report is not changed on the way: `Covariance` is of ∇V, not of Lᵀ∇V."""
    own = dynamics_of("noise_corrected", inverse_mass=4.0)
    state = own.init(jax.random.key(0), jnp.zeros(2))._replace(momentum=jnp.ones(2))
    estimate = Estimate(jnp.zeros(2), (), covariance=Covariance(jnp.array([3.0, 5.0])))
    moved = own.apply(jnp.zeros(2), state, estimate, lambda position: position)
    h, gamma, T = 0.04, 1.3, 0.7
    np.testing.assert_allclose(
        moved.momentum, 1 - h * (gamma + h * 4 * np.array([3.0, 5.0]) / (2 * T)), rtol=1e-6
    )


def test_components_of_a_basis_may_be_as_small_as_they_are():
    """As those of an eigenvector along which a unit of a network does nothing."""
    basis = np.array([[1.0], [1e-40]], np.float32)
    mass = LowRank(np.ones(2, np.float32), basis, np.full(1, 4.0, np.float32))
    dynamics = ewsg.dynamics.langevin(0.1, inverse_mass=mass)
    kernel = ewsg.kernel(dynamics, ewsg.gradients.full(ewsg.models.gaussian_location()))
    state = kernel.init(jax.random.key(0), jnp.zeros(2), np.zeros((3, 2), np.float32))
    assert np.isfinite(state.position).all()
