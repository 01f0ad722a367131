"""Chains at h and h/2 with one noise: each has its own law, and what they have in common is known
exactly.

Nothing is sampled: the stationary law of both together solves a Lyapunov equation of the Jacobians
of `transition`, over all pairs of batches.
"""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ewsg_jax as ewsg
from ewsg_jax.halving.coupled import coupled, doubled
from ewsg_jax.halving.normals import free_step, joined, shared
from tests.halving.pairs import (
    DYNAMICS,
    GAMMA,
    LAMBDA,
    MODEL,
    NOISE_SCALE,
    ROWS,
    TEMPERATURE,
    full,
    of_batches,
    steps_of,
)
from tests.oracles import lyapunov

H = 0.3
EXACT = 1e-9


def assert_same(found, expected):
    np.testing.assert_allclose(found, expected, rtol=EXACT, atol=EXACT)


def assert_own_laws(linearize, kernel, joint, batches):
    """Each chain's part of the joint law is that of its kernel alone."""
    mean, covariance = joint
    for place, one in enumerate((kernel.whole, kernel.half)):
        maps = linearize(one, 1, jnp.asarray(ROWS), batches)
        own_mean, own_covariance = lyapunov.stationary(maps.steps)
        chosen = [place] if len(own_mean) == 1 else [place, 2 + place]
        assert_same(mean[chosen], own_mean)
        assert_same(covariance[np.ix_(chosen, chosen)], own_covariance)


@pytest.mark.usual_parameters("langevin", "splitting")
@pytest.mark.parametrize("name", DYNAMICS)
def test_each_chain_has_the_law_of_its_kernel(linearize, name):
    kernel = coupled(full(name, H))
    joint = lyapunov.stationary(steps_of(kernel, jnp.asarray(ROWS)))
    assert_own_laws(linearize, kernel, joint, None)
    _, covariance = joint
    assert covariance[0, 1] / np.sqrt(covariance[0, 0] * covariance[1, 1]) > 0.9


@pytest.mark.usual_parameters("BAOAB-1-True")
@pytest.mark.parametrize(("batch_size", "replace"), [(1, True), (2, False)])
@pytest.mark.parametrize("name", DYNAMICS)
def test_each_chain_has_the_law_of_its_kernel_on_batches(linearize, name, batch_size, replace):
    kernel = coupled(of_batches(name, 0.15, batch_size, replace))
    combine = (
        itertools.product(range(5), repeat=1)
        if replace
        else itertools.combinations(range(5), batch_size)
    )
    batches = np.array(list(combine))
    both = np.array(list(itertools.product(batches, repeat=2)))
    steps = steps_of(kernel, jnp.asarray(ROWS), (jnp.asarray(both[:, 0]), jnp.asarray(both[:, 1])))
    assert_own_laws(linearize, kernel, lyapunov.stationary(steps), jnp.asarray(batches))


def test_what_langevin_chains_have_in_common_by_hand(x64):
    # θ' = (1 − hλ)θ − h e₁ + √(2hT)(ξ₁ + ξ₂)/√2, η' = (1 − hλ/2)²η − (h/2)((1 − hλ/2)e₁ + e₂) +
    # √(hT)(… ξ₁ + ξ₂), with e the noise of a batch's gradient.
    h, keep = 0.15, 1 - 0.15 * LAMBDA / 2
    values = (len(ROWS) / NOISE_SCALE**2 * ROWS[:, 0]).var()
    expected = (h * TEMPERATURE * (keep + 1) + h * h / 2 * keep * values) / (
        1 - (1 - h * LAMBDA) * keep**2
    )
    rows = jnp.arange(5)[:, None]
    both = jnp.repeat(rows, 5, axis=0), jnp.tile(rows, (5, 1))
    _, covariance = lyapunov.stationary(
        steps_of(coupled(of_batches("langevin", h)), jnp.asarray(ROWS), both)
    )
    assert covariance[0, 1] == pytest.approx(expected, rel=1e-10)


@pytest.mark.usual_parameters("langevin", "BUB")
@pytest.mark.parametrize("name", DYNAMICS)
def test_a_step_without_a_force(name):
    zero = np.zeros((1, 1)), np.zeros(1)
    dynamics = full(name, H).dynamics
    numbers = (H, TEMPERATURE) if name == "langevin" else (H, GAMMA, TEMPERATURE)
    matrix, factor = free_step(dynamics)
    if name in lyapunov.UPDATES:
        step = lyapunov.UPDATES[name](*zero, *numbers)
    else:
        order = {"OBABO": "BOOBA", "OABAO": "ABAOO", "BUB": "BBU"}[name]
        # Twice the letters of the cycle: O and O one after the other are O for the sum of their
        # times.
        step = lyapunov.letters(order, *zero, *numbers)
    assert_same(matrix, step.matrix)
    assert_same(factor @ factor.T, step.noise)


@pytest.mark.parametrize("name", DYNAMICS)
def test_normals_of_the_step_are_standard_and_independent(name):
    kernel = coupled(full(name, H))
    weights = np.array(kernel.weights)
    assert_same(weights @ weights.T, np.eye(len(weights)))
    if len(weights) == 1:
        assert_same(weights, np.full((1, 2), 0.5**0.5))
    if name in ("langevin", "exact", "BUB"):
        # Steps without a force are exact there: two halves bring the noise of the whole.
        (_, factor) = free_step(kernel.whole.dynamics)
        (half_matrix, half_factor) = free_step(kernel.half.dynamics)
        assert_same(factor @ weights, np.hstack([half_matrix @ half_factor, half_factor]))


def test_normals_are_those_of_the_unit_mass():
    assert shared(full("exact", 0.2).dynamics, full("exact", 0.1).dynamics) == shared(
        full("exact", 0.2, inverse_mass=np.array([[2.0]])).dynamics, full("exact", 0.1).dynamics
    )


@pytest.mark.parametrize(
    "like", [np.zeros(3), {"a": np.zeros(2), "b": (np.zeros(()), np.zeros((2, 2)))}]
)
def test_normals_of_trees_are_joined_leaf_by_leaf(x64, like):
    weights = ((0.6, 0.0, 0.8, 0.0), (0.0, 0.8, 0.0, -0.6))
    trees = [jax.tree.map(lambda x, value=value: x + value, like) for value in (1.0, 2.0, 3.0, 4.0)]
    one, two = joined(weights, tuple(trees[:2]), tuple(trees[2:]), like)
    for leaf in jax.tree.leaves(one):
        np.testing.assert_allclose(leaf, 0.6 + 2.4)
    for leaf in jax.tree.leaves(two):
        np.testing.assert_allclose(leaf, 1.6 - 2.4)
    assert jax.tree.structure(one) == jax.tree.structure(two) == jax.tree.structure(like)
    single = joined(((0.5, 0.25),), trees[0], trees[3], like)
    assert all(np.allclose(leaf, 1.5) for leaf in jax.tree.leaves(single))


@pytest.mark.full
@pytest.mark.parametrize("name", ["langevin", "exact"])
def test_it_is_a_kernel_as_others_are(name):
    """No key is used twice, evaluations are three steps', and a step is what its parts say."""
    estimator = ewsg.gradients.control_variate(MODEL, batch_size=2)
    kernel = coupled(ewsg.kernel(full(name, 0.1).dynamics, estimator))
    data = jnp.asarray(ROWS, jnp.float32)
    with jax.debug_key_reuse(True):
        state = jax.jit(kernel.init)(jax.random.key(0), doubled(jnp.ones(1)), data)
        state, info = jax.jit(kernel.step)(jax.random.key(1), state, data)
    assert int(info.gradient_evaluations) == kernel.evaluations(data).per_step == 3 * 2 * 2
    assert kernel.evaluations(data).at_init == 5
    assert int(state.step) == 1
    randomness = kernel.draw(jax.random.key(1), state, data)
    noise, other = randomness.noise
    assert not np.array_equal(jax.tree.leaves(noise)[0], jax.tree.leaves(other)[0])
    gathered = kernel.fetch(randomness, data)
    one, two = (kernel.transition(each, state, data)[0].dynamics for each in (randomness, gathered))
    np.testing.assert_allclose(one.position, two.position, rtol=1e-6)
    assert float(kernel.step_size(jnp.int32(0))) == pytest.approx(0.1)
    assert float(kernel.half.step_size(jnp.int32(0))) == pytest.approx(0.05)
