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
from ewsg_jax.answers.halve.coupled import coupled
from tests.answers.halve.pairs import (
    DYNAMICS,
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


def assert_own_laws(linearize, kernel, joint, batches):
    """Each chain's part of the joint law is that of its kernel alone."""
    mean, covariance = joint
    for place, one in enumerate((kernel.coarse, kernel.fine)):
        maps = linearize(one, 1, jnp.asarray(ROWS), batches)
        own_mean, own_covariance = lyapunov.stationary(maps.steps)
        size = len(own_mean)
        part = slice(place * size, place * size + size)
        np.testing.assert_allclose(mean[part], own_mean, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(covariance[part, part], own_covariance, rtol=1e-9, atol=1e-9)


@pytest.mark.usual_parameters("langevin", "splitting")
@pytest.mark.parametrize("name", [*DYNAMICS, "own"])
def test_each_chain_has_the_law_of_its_kernel(linearize, name):
    kernel = coupled(full(name, 0.3))
    joint = lyapunov.stationary(steps_of(kernel, jnp.asarray(ROWS)))
    assert_own_laws(linearize, kernel, joint, None)
    _, covariance = joint
    half = len(covariance) // 2
    common = covariance[0, half] / np.sqrt(covariance[0, 0] * covariance[half, half])
    assert common > 0.9


@pytest.mark.usual_parameters("BAOAB-1-True")
@pytest.mark.parametrize(("batch_size", "replace"), [(1, True), (2, False)])
@pytest.mark.parametrize("name", DYNAMICS)
def test_each_chain_has_the_law_of_its_kernel_on_batches(linearize, name, batch_size, replace):
    kernel = coupled(of_batches(name, 0.15, batch_size, replace))
    combine = itertools.product if replace else itertools.combinations
    batches = np.array(list(combine(range(5), *[] if replace else [batch_size])))
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


@pytest.mark.full
@pytest.mark.parametrize("name", ["langevin", "exact"])
def test_it_is_a_kernel_as_others_are(name):
    """No key is used twice, evaluations are three steps', and rows may be fetched ahead."""
    estimator = ewsg.gradients.control_variate(MODEL, batch_size=2)
    kernel = coupled(ewsg.kernel(full(name, 0.1).dynamics, estimator))
    data = jnp.asarray(ROWS, jnp.float32)
    with jax.debug_key_reuse(True):
        state = jax.jit(kernel.init)(jax.random.key(0), (jnp.ones(1),) * 2, data)
        state, info = jax.jit(kernel.step)(jax.random.key(1), state, data)
    assert int(info.gradient_evaluations) == kernel.evaluations(data).per_step == 3 * 2 * 2
    assert kernel.evaluations(data).at_init == 5
    assert int(state.step) == 1
    randomness = kernel.draw(jax.random.key(1), state, data)
    one, two = (
        kernel.transition(each, state, data)[0].position
        for each in (randomness, kernel.fetch(randomness, data))
    )
    np.testing.assert_allclose(one, two, rtol=1e-6)
    steps = (float(each.step_size(jnp.int32(0))) for each in (kernel, kernel.fine))
    assert list(steps) == pytest.approx([0.1, 0.05])
