"""Step sizes by energy errors: against the potential's own values."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ewsg_jax as ewsg
from ewsg_jax.diagnostics import _energy

ROWS = np.random.default_rng(0).normal(size=(12, 3))
MODEL = ewsg.Posterior(
    lambda x, row: -0.5 * jnp.sum((x - row) ** 2) - 0.05 * jnp.sum(x**4) / 12,
    lambda x: -0.3 * x[0] * x[1],
)
MASS = np.array([[2.0, 0.5, 0.0], [0.5, 1.0, 0.2], [0.0, 0.2, 0.5]])


def kernel_of(h, estimator=None, **options):
    dynamics = ewsg.dynamics.microcanonical(h, decoherence_length=1.0, **options)
    return ewsg.kernel(dynamics, estimator or ewsg.gradients.full(MODEL))


@pytest.mark.parametrize("mass", [1.0, MASS], ids=["one", "a matrix"])
def test_errors_are_those_of_the_potential(x64, mass):
    """Exactly: the gradient along a line is a polynomial of third degree."""
    kernel = kernel_of(0.3, inverse_mass=mass, temperature=0.5)
    measured = dataclasses.replace(kernel, dynamics=_energy._measured(kernel.dynamics))
    state = kernel.init(jax.random.key(0), jnp.ones(3), ROWS)
    randomness = kernel.draw(jax.random.key(1), state, ROWS)
    (plain, _), (other, info) = (k.transition(randomness, state, ROWS) for k in (kernel, measured))
    np.testing.assert_allclose(other.position, plain.position, rtol=1e-14)
    change = MODEL.potential(plain.position, ROWS) - MODEL.potential(state.position, ROWS)
    np.testing.assert_allclose(
        other.dynamics.kinetic_change, change / 0.5 + plain.dynamics.kinetic_change, rtol=1e-10
    )
    assert info.gradient_evaluations == 3 * 12


def test_a_batch_has_the_energy_of_its_own_potential(x64):
    estimator = ewsg.gradients.uniform(MODEL, batch_size=4)
    kernel = kernel_of(0.3, estimator)
    measured = dataclasses.replace(kernel, dynamics=_energy._measured(kernel.dynamics))
    state = kernel.init(jax.random.key(0), jnp.ones(3), ROWS)
    randomness = kernel.draw(jax.random.key(1), state, ROWS)
    (plain, _), (other, _) = (k.transition(randomness, state, ROWS) for k in (kernel, measured))
    tripled = jnp.repeat(jnp.asarray(ROWS)[randomness.batch.indices], 3, axis=0)
    change = MODEL.potential(plain.position, tripled) - MODEL.potential(state.position, tripled)
    np.testing.assert_allclose(
        other.dynamics.kinetic_change, change + plain.dynamics.kinetic_change, rtol=1e-10
    )


def test_the_step_size_has_the_wanted_energy_wherever_the_search_begins():
    key = jax.random.key(2)
    found = [
        ewsg.diagnostics.energy_step_size(
            key, kernel_of(h), jnp.zeros(3), ROWS, energy_variance=1e-3, num_steps=4_000
        )
        for h in (1e-3, 30.0)
    ]
    assert found[0].step_size / found[1].step_size == pytest.approx(1, abs=0.15)
    for each in found:
        assert each.energy_variance == pytest.approx(1e-3, rel=0.6)
    assert np.isfinite(found[0].position).all()


def test_a_round_of_several_chains_takes_their_lower_median(x64):
    """The correction (wanted/measured)^(1/6), measured from steps of each chain by itself."""
    kernel, key = kernel_of(0.3), jax.random.key(3)
    keys = jax.random.split(key, 4)
    starts = jnp.array([[0.1, 0.2, 0.3], [1.0, 2.0, 0.0], [9.0, 9.0, 9.0], [0.0, 0.1, 0.0]])
    states = jax.vmap(kernel.init, (0, 0, None))(keys, starts, ROWS)
    rounds = _energy.by_energy(key, kernel, states, ROWS, 1e-3, 1, 5)
    measured = dataclasses.replace(kernel, dynamics=_energy._measured(kernel.dynamics))
    squares = []
    for number, chain_key in enumerate(jax.random.split(jax.random.split(key, 1)[0], 4)):
        state = jax.tree.map(lambda x, number=number: x[number], states)
        of_chain = []
        for step_key in jax.random.split(chain_key, 5):
            state, _ = measured.step(step_key, state, ROWS)
            of_chain.append(float(state.dynamics.kinetic_change) ** 2 / 3)
        squares.append(np.mean(of_chain))
        np.testing.assert_allclose(rounds.position[number], state.position, rtol=1e-10)
    assert rounds.variances == pytest.approx(sorted(squares)[1], rel=1e-8)
    factor = np.clip((1e-3 / sorted(squares)[1]) ** (1 / 6), 0.25, 4)
    assert rounds.step_sizes == pytest.approx([0.3, 0.3 * factor], rel=1e-8)
