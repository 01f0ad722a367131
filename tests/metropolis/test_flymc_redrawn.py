"""FlyMC with exactly r data drawn anew a step, by enumeration; and a step size adapted while the
chain burns in.

As tests/metropolis/test_flymc.py: every outcome of a step's randomness is handed to
`transition`, and the exact transition matrix over positions and all 2ⁿ bright sets follows.
"""

import functools
import itertools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ewsg_jax as ewsg
from ewsg_jax import Randomness
from ewsg_jax.metropolis import bright_set
from ewsg_jax.metropolis import flymc as flymc_module
from ewsg_jax.metropolis.bright_set import BrightSet, Redrawing, Selected
from ewsg_jax.metropolis.flymc import FireflyMemory, FireflyNoise, FireflyState
from ewsg_jax.metropolis.random_walk_metropolis import RandomWalkNoise
from ewsg_jax.rows import Batch
from tests.metropolis.test_flymc import (
    CENTER,
    EDGE,
    LATTICE,
    MODEL,
    MODEL_OF_OURS,
    SETS,
    H,
    N,
    X,
    Y,
    assert_invariant,
    log_dark,
    log_prior,
    walks,
)
from tests.oracles import flymc

CASES = [(4, 2, 1.0), (2, 2, 1.0), (1, 3, 1.0), (3, 1, 0.6)]
"""Room for bright data, how many are drawn anew, temperature."""


def rows_of_data():
    """In the precision of the test."""
    return {"x": jnp.asarray(X), "y": jnp.asarray(Y)}


class Branches(NamedTuple):
    """Outcomes of steps on a leading axis: probabilities, where the walk leads, states and
    randomness.
    """

    probability: np.ndarray
    places: np.ndarray
    z: np.ndarray
    after: np.ndarray
    rows: np.ndarray
    gaps: np.ndarray
    log_dark: np.ndarray
    direction: np.ndarray
    log_uniform: np.ndarray
    chosen: np.ndarray
    log_uniforms: np.ndarray


def branches_of(capacity, count, temperature):
    """Every outcome of a step, from every position of the lattice and every set that fits."""
    made = []
    choices = list(itertools.combinations(range(N), count))
    for (j, at), z in itertools.product(enumerate(LATTICE), SETS[SETS.sum(axis=1) <= capacity]):
        theta = np.array([at])
        gaps = np.log1p(flymc.odds(MODEL, theta, CENTER))
        order = np.flatnonzero(z)[::-1]
        free = capacity - len(order)
        for (direction, moves, log_uniform, p), chosen in itertools.product(
            walks(theta, z, temperature), choices
        ):
            there = theta + H * direction * moves
            odds = flymc.odds(MODEL, there, CENTER, temperature)[list(chosen)]
            bright = odds / (1 + odds)
            for lit in itertools.product([False, True], repeat=count):
                probability = p / len(choices) * np.prod(np.where(lit, bright, 1 - bright))
                after = z.copy()
                after[list(chosen)] = lit
                made.append(
                    Branches(
                        probability,
                        np.array([j, j + direction * moves]),
                        z,
                        after if after.sum() <= capacity else z,
                        np.append(order, np.full(free, -1)).astype(np.int32),
                        np.append(gaps[order], np.zeros(free)),
                        log_dark(theta),
                        float(direction),
                        log_uniform,
                        np.array(chosen, np.int32),
                        np.log(bright) + np.where(lit, -EDGE, EDGE),
                    )
                )
    made = Branches(*(np.stack(parts) for parts in zip(*made, strict=True)))
    return Branches(*(part[made.probability > 0] for part in made))


@functools.cache
def moved(capacity, count, temperature):
    """The branches, the states and infos that `transition` makes of them, and the sets after it."""
    kernel = ewsg.flymc(
        MODEL_OF_OURS,
        H,
        capacity=capacity,
        num_resampled=count,
        center=CENTER,
        temperature=temperature,
    )
    center = jnp.asarray(CENTER)
    memory = FireflyMemory(center, MODEL_OF_OURS.bound.summarize(center, rows_of_data(), N))
    made = branches_of(capacity, count, temperature)

    def step(made, memory):
        theta = (LATTICE[0] + H * made.places[:1]).astype(float)
        bright = BrightSet(made.rows, made.gaps)
        state = FireflyState(theta, jnp.int32(3), made.log_dark, bright, jnp.bool_(False))
        selected = Selected(Batch(made.chosen), jnp.ones(count, bool), jnp.bool_(True))
        noise = FireflyNoise(
            RandomWalkNoise(made.direction[None], made.log_uniform), Redrawing(made.log_uniforms)
        )
        return kernel.transition(
            Randomness(selected, noise), ewsg.KernelState(state, memory), rows_of_data()
        )

    over_all = jax.jit(jax.vmap(step, (0, None), (ewsg.KernelState(0, None), 0)))
    state, info = jax.tree.map(np.asarray, over_all(jax.tree.map(jnp.asarray, made), memory))
    after = np.stack([(state.dynamics.bright.rows == i).any(axis=1) for i in range(N)], axis=1)
    return made, state.dynamics, info, after


@pytest.mark.usual_parameters("2-2-1.0")
@pytest.mark.parametrize(("capacity", "count", "temperature"), CASES)
def test_the_joint_law_is_invariant(x64, capacity, count, temperature):
    made, state, _, after = moved(capacity, count, temperature)
    np.testing.assert_array_equal(after, made.after)
    assert_invariant(capacity, temperature, made.probability, made.places, made.z, after, state)


@pytest.mark.full
@pytest.mark.parametrize(("capacity", "count", "temperature"), CASES)
def test_what_a_step_keeps_and_counts(x64, capacity, count, temperature):
    made, state, info, after = moved(capacity, count, temperature)
    wanted = made.z.copy()
    for theta in np.unique(state.position[:, 0]):
        at = state.position[:, 0] == theta
        gaps = np.append(np.log1p(flymc.odds(MODEL, np.array([theta]), CENTER)), 0)
        np.testing.assert_allclose(
            state.bright.gaps[at], gaps[state.bright.rows[at]], rtol=1e-9, atol=1e-14
        )
        odds = np.expm1(gaps[made.chosen[at]] / temperature)
        bright = made.log_uniforms[at] <= np.log(odds / (1 + odds))
        for row, chosen, is_lit in zip(np.flatnonzero(at), made.chosen[at], bright, strict=True):
            wanted[row, chosen] = is_lit
    np.testing.assert_array_equal(info.overflow, wanted.sum(axis=1) > capacity)
    np.testing.assert_array_equal(after[info.overflow], made.z[info.overflow])
    dark = (~np.take_along_axis(made.z, made.chosen, axis=1)).sum(axis=1)
    np.testing.assert_array_equal(info.gradient_evaluations, made.z.sum(axis=1) + dark)
    used = state.bright.rows >= 0
    assert (np.diff(used.astype(int), axis=1) <= 0).all(), "the set lies at the front"
    np.testing.assert_array_equal(used.sum(axis=1), after.sum(axis=1))


@pytest.mark.full
def test_exactly_so_many_different_data_are_chosen_each_as_often():
    for count, n in ((3, 7), (300, 1000)):
        keys = jax.random.split(jax.random.key(2), 4000)
        chosen = jax.jit(jax.vmap(lambda k, count=count, n=n: bright_set.choose(k, count, n)))(keys)
        rows = np.asarray(chosen.rows.indices)
        assert rows.shape == (4000, count)
        assert (np.diff(rows, axis=1) > 0).all()
        assert rows.min() >= 0
        assert rows.max() < n
        share = np.bincount(rows.ravel(), minlength=n) / 4000
        expected = count / n
        z = (share - expected) / np.sqrt(expected * (1 - expected) / 4000)
        assert np.abs(z).max() < 6
    kernel = ewsg.flymc(MODEL_OF_OURS, H, capacity=4, num_resampled=lambda n: n // 2)
    state = kernel.init(jax.random.key(0), jnp.zeros(1), rows_of_data())
    drawn = kernel.draw(jax.random.key(1), state, rows_of_data())
    assert drawn.batch.rows.indices.shape == drawn.noise.resampling.log_uniforms.shape == (2,)
    assert kernel.evaluations(rows_of_data()).per_step == 4 + 2
    assert "num_resampled=" in repr(kernel)


def adapting_kernel(steps=20, h=5.0):
    return ewsg.flymc(
        MODEL_OF_OURS,
        h,
        capacity=4,
        num_resampled=2,
        target_acceptance=0.3,
        adapt_steps=steps,
        center=CENTER,
    )


@pytest.mark.full
def test_the_step_size_follows_the_probability_of_acceptance(x64):
    """One step from chosen randomness, in and after the burn-in, against the oracle's ratio."""
    kernel = adapting_kernel()
    start = kernel.init(jax.random.key(0), jnp.array([0.7]), rows_of_data())
    transition = jax.jit(kernel.transition)
    for step, log_scale, direction in itertools.product(
        (0, 7, 19, 20, 300), (-1.5, 0.25), (-0.4, 1.0)
    ):
        dynamics = start.dynamics._replace(step=jnp.int32(step), log_scale=jnp.asarray(log_scale))
        drawn = kernel.draw(jax.random.key(1), start, rows_of_data())
        walk = RandomWalkNoise(jnp.array([direction]), drawn.noise.walk.log_uniform)
        state, info = transition(
            drawn._replace(noise=drawn.noise._replace(walk=walk)),
            start._replace(dynamics=dynamics),
            rows_of_data(),
        )
        h = 5.0 * np.exp(log_scale)
        np.testing.assert_allclose(info.step_size, h, rtol=1e-12)
        z = np.isin(np.arange(N), np.asarray(start.dynamics.bright.rows))
        joint = [
            flymc.log_joint(MODEL, log_prior, np.array([0.7 + shift]), z, CENTER)
            for shift in (h * direction, 0.0)
        ]
        probability = min(1, np.exp(joint[0] - joint[1]))
        change = (step + 1) ** -0.6 * (probability - 0.3) if step < 20 else 0
        np.testing.assert_allclose(state.dynamics.log_scale, log_scale + change, rtol=1e-9)


@pytest.mark.full
def test_a_proposal_without_a_density_counts_as_rejected():
    found = flymc_module.adapted(jnp.float32(0), jnp.int32(0), jnp.float32(jnp.nan), 0.25, 5)
    np.testing.assert_allclose(found, -0.25)


@pytest.mark.full
def test_adaptation_ends_with_the_burn_in_and_is_a_function_of_the_key():
    kernel = adapting_kernel(200, h=20.0)
    run = functools.partial(
        ewsg.sample,
        jax.random.key(5),
        kernel,
        jnp.zeros(1),
        rows_of_data(),
        num_chains=50,
    )
    samples, longer = run(200), run(400, burn_in=200)
    scales = np.asarray(samples.state.dynamics.log_scale)
    np.testing.assert_array_equal(scales, np.asarray(longer.state.dynamics.log_scale))
    assert len(set(scales.tolist())) > 40, "each chain has its own"
    # 20 is far too long for this posterior.
    assert scales.max() < -0.5
    taken = (np.diff(longer.position[..., 0], axis=1) != 0).mean()
    assert abs(taken - 0.3) < 0.05


def test_without_a_target_a_state_has_no_scale():
    kernel = ewsg.flymc(MODEL_OF_OURS, H, capacity=4)
    assert kernel.init(jax.random.key(0), jnp.zeros(1), rows_of_data()).dynamics.log_scale == ()
