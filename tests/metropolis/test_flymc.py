"""FlyMC leaves the joint law of position and bright set invariant, by enumeration.

Every outcome of a step's randomness is handed to `transition`: the direction of the walk, every
selected set, and every uniform number on either side of the threshold that NumPy computes from the
published law (tests/oracles/flymc.py). The result is the exact transition matrix over positions and
all 2ⁿ bright sets.
"""

import functools
import itertools
import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ewsg_jax as ewsg
from ewsg_jax import Randomness
from ewsg_jax.metropolis import bright_set
from ewsg_jax.metropolis.bright_set import BrightSet, Resampling, Selected
from ewsg_jax.metropolis.flymc import FireflyMemory, FireflyNoise, FireflyState
from ewsg_jax.metropolis.random_walk_metropolis import RandomWalkNoise
from ewsg_jax.rows import Batch
from tests.oracles import flymc

N, Q, H = 4, 0.15, 0.9
PRIOR_SCALE = 2.0
X, Y = np.array([[2.4], [-1.5], [4.0], [0.9]]), np.array([1, 1, 0, 0])
"""Odds on both sides of Q inside the lattice."""
CENTER = np.array([0.1])
LATTICE = np.array([-2.0, -1.1, -0.2, 0.7, 1.6])
"""Positions H apart: the walk goes from one to the next. Flows at the ends lead out of it."""
MODEL = flymc.logistic_regression(X, Y)
MODEL_OF_OURS = ewsg.models.logistic_regression(prior_scale=PRIOR_SCALE)
SETS = flymc.sets(N)
EDGE = 1e-7
"""Uniform numbers this far below and above their thresholds."""


def log_prior(theta):
    return -0.5 * np.sum(theta**2) / PRIOR_SCALE**2


def log_dark(theta):
    """log p₀ + Σ (log Bᵢ − log Bᵢ(c)), as the state keeps it."""
    _, log_bounds = MODEL
    return log_prior(theta) + np.sum(log_bounds(theta, CENTER) - log_bounds(CENTER, CENTER))


def outcomes_of(bright, odds):
    """What can happen to a datum in a move of the set.

    `(selected, log uniform, probability, is bright after it, selected in the move back)`.
    """
    log = lambda bound, side: np.log(bound) + side * EDGE
    if bright:
        down = min(1, Q / odds)
        for selected, p in ((True, Q), (False, 1 - Q)):
            yield selected, log(down, -1), p * down, False, True
            yield selected, log(down, 1), p * (1 - down), True, selected
    else:
        up = min(1, odds / Q)
        yield False, np.nan, 1 - Q, False, False
        yield True, log(up * Q, -1), Q * up * Q, True, True
        yield True, log(up, -1), Q * up * (1 - Q), True, False
        yield True, log(up, 1), Q * (1 - up), False, True


def walks(theta, z, temperature):
    """What can happen to the position: a direction, whether it moves, log uniform, probability."""
    for direction in (-1, 1):
        there, here = (
            flymc.log_joint(MODEL, log_prior, x, z, CENTER, temperature)
            for x in (theta + H * direction, theta)
        )
        accept = min(1, np.exp(there - here))
        yield direction, True, min(there - here, 0) - EDGE, accept / 2
        yield direction, False, there - here + EDGE, (1 - accept) / 2


class Branches(NamedTuple):
    """Outcomes of steps in front: probabilities, where the walk leads, states, randomness."""

    probability: np.ndarray
    places: np.ndarray
    z: np.ndarray
    rows: np.ndarray
    gaps: np.ndarray
    log_dark: np.ndarray
    direction: np.ndarray
    log_uniform: np.ndarray
    darken: np.ndarray
    selected: np.ndarray
    used: np.ndarray
    brighten: np.ndarray
    size: np.ndarray
    dark: np.ndarray
    fits: np.ndarray


def branches_of(capacity, room, temperature):
    """Every outcome of a step, from every position of the lattice and every set that fits."""
    groups = []
    for (j, at), z in itertools.product(enumerate(LATTICE), SETS[SETS.sum(axis=1) <= capacity]):
        theta = np.array([at])
        gaps = np.log1p(flymc.odds(MODEL, theta, CENTER))
        # In descending order: nothing may depend on it.
        order = np.flatnonzero(z)[::-1]
        free = capacity - len(order)
        for direction, moves, log_uniform, p in walks(theta, z, temperature):
            odds = flymc.odds(MODEL, theta + H * direction * moves, CENTER, temperature)
            outcomes = np.array(list(itertools.product(*map(outcomes_of, z, odds))))
            probability = p * outcomes[..., 2].prod(axis=1)
            outcomes, probability = outcomes[probability > 0], probability[probability > 0]
            is_selected, thresholds = outcomes[..., 0] == 1, outcomes[..., 1]
            number = len(outcomes)
            same = lambda value, number=number: np.broadcast_to(value, (number, *np.shape(value)))
            # The selected ones first, ascending; those that are free or bright would be
            # accepted if they could.
            chosen = np.argsort(~is_selected, axis=1, kind="stable")[:, :room]
            used = np.take_along_axis(is_selected, chosen, axis=1)
            brighten = np.take_along_axis(thresholds, chosen, axis=1)
            groups.append(
                Branches(
                    probability,
                    same(np.array([j, j + direction * moves])),
                    same(z),
                    same(np.append(order, np.full(free, -1)).astype(np.int32)),
                    same(np.append(gaps[order], np.zeros(free))),
                    same(log_dark(theta)),
                    same(float(direction)),
                    same(log_uniform),
                    np.hstack([thresholds[:, order], np.full((number, free), -np.inf)]),
                    np.where(used, chosen, N - 1).astype(np.int32),
                    used,
                    np.where(used & ~z[chosen], brighten, -np.inf),
                    is_selected.sum(axis=1),
                    (used & ~z[chosen]).sum(axis=1),
                    (is_selected.sum(axis=1) <= room)
                    & (outcomes[..., 3].sum(axis=1) <= capacity)
                    & (outcomes[..., 4].sum(axis=1) <= room),
                )
            )
    return Branches(*(np.concatenate(parts) for parts in zip(*groups, strict=True)))


class Moves:
    """Every branch and where `transition` leads it."""

    def __init__(self, capacity, room, temperature):
        kernel = ewsg.flymc(
            MODEL_OF_OURS,
            H,
            capacity=capacity,
            resample_probability=Q,
            proposal_capacity=room,
            center=CENTER,
            temperature=temperature,
        )
        data = {"x": jnp.asarray(X), "y": jnp.asarray(Y)}
        center = jnp.asarray(CENTER)
        memory = FireflyMemory(center, MODEL_OF_OURS.bound.summarize(center, data, N))
        made = branches_of(capacity, room, temperature)
        self.probability, self.places, self.before = made.probability, made.places, made.z
        self.dark, self.fits = made.dark, made.fits

        def step(made, memory, data):
            theta = (LATTICE[0] + H * made.places[:1]).astype(float)
            bright = BrightSet(made.rows, made.gaps)
            state = FireflyState(theta, jnp.int32(3), made.log_dark, bright, jnp.bool_(False))
            walk = RandomWalkNoise(made.direction[None], made.log_uniform)
            randomness = Randomness(
                Selected(Batch(made.selected), made.used, made.size <= room),
                FireflyNoise(walk, Resampling(made.darken, made.brighten)),
            )
            return kernel.transition(randomness, ewsg.KernelState(state, memory), data)

        over_all = jax.jit(jax.vmap(step, (0, None, None), (ewsg.KernelState(0, None), 0)))
        state, info = over_all(jax.tree.map(jnp.asarray, made), memory, data)
        self.state, self.info = jax.tree.map(np.asarray, (state.dynamics, info))
        self.after = np.stack([(self.state.bright.rows == i).any(axis=1) for i in range(N)], axis=1)


@functools.cache
def moves(capacity, room, temperature=1.0):
    return Moves(capacity, room, temperature)


def number(z):
    """The place of bright sets in SETS."""
    return z @ (1 << np.arange(N)[::-1])


ROOMS = [(4, 4), (2, 4), (4, 2), (2, 2), (3, 1)]
CASES = [*((*room, 1.0) for room in ROOMS), (4, 4, 0.6), (3, 2, 2.5)]


@pytest.mark.usual_parameters("2-2-1.0", "3-2-2.5")
@pytest.mark.parametrize(("capacity", "room", "temperature"), CASES)
def test_the_joint_law_is_invariant(x64, capacity, room, temperature):
    made = moves(capacity, room, temperature)
    assert_invariant(
        capacity, temperature, made.probability, made.places, made.before, made.after, made.state
    )


def assert_invariant(capacity, temperature, probability, places, before, after, state):
    """Restricted to sets that fit, whatever does not: p(θ, z) of Maclaurin & Adams."""
    law = np.zeros((len(LATTICE), len(SETS)))
    for (j, theta), (k, z) in itertools.product(enumerate(LATTICE), enumerate(SETS)):
        if z.sum() <= capacity:
            law[j, k] = np.exp(
                flymc.log_joint(MODEL, log_prior, np.array([theta]), z, CENTER, temperature)
            )
    from_states, to_places = (places[:, 0], number(before)), places[:, 1]
    np.testing.assert_allclose(state.position[:, 0], LATTICE[0] + H * to_places, atol=1e-12)
    inside = (to_places >= 0) & (to_places < len(LATTICE))
    left = np.zeros_like(law)
    np.add.at(left, from_states, probability)
    np.testing.assert_allclose(left[law > 0], 1, rtol=1e-12, err_msg="every outcome is there")
    flow = probability * law[from_states]
    arrived = np.zeros_like(law)
    np.add.at(arrived, (to_places[inside], number(after)[inside]), flow[inside])
    # The ends of the lattice lack what would come from outside.
    np.testing.assert_allclose(arrived[1:-1], law[1:-1], rtol=1e-12, atol=1e-12 * law.max())


@pytest.mark.full
def test_with_room_for_all_each_datum_moves_alone(x64):
    """The matrix of a datum: up q·min(1, O/q), down min(1, q/O)."""
    made = moves(N, N)
    for j, theta in enumerate(LATTICE):
        odds = flymc.odds(MODEL, np.array([theta]), CENTER)
        up, down = Q * np.minimum(1, odds / Q), np.minimum(1, Q / odds)
        expected = np.ones((len(SETS), len(SETS)))
        for (a, z), (b, w) in itertools.product(enumerate(SETS), enumerate(SETS)):
            change = np.where(z, np.where(w, 1 - down, down), np.where(w, up, 1 - up))
            expected[a, b] = np.prod(change)
        arrived = made.places[:, 1] == j
        matrix, total = np.zeros_like(expected), np.zeros(len(SETS))
        np.add.at(
            matrix,
            (number(made.before[arrived]), number(made.after[arrived])),
            made.probability[arrived],
        )
        np.add.at(total, number(made.before[arrived]), made.probability[arrived])
        np.testing.assert_allclose(matrix / total[:, None], expected, atol=1e-12)


@pytest.mark.full
@pytest.mark.parametrize(("capacity", "room", "temperature"), CASES)
def test_what_does_not_fit_is_told_and_changes_no_set(x64, capacity, room, temperature):
    """A move is made just where its selection, its set and the selection back fit."""
    made = moves(capacity, room, temperature)
    overflow = made.info.overflow
    assert overflow.any() == (capacity < N or room < N)
    np.testing.assert_array_equal(overflow, ~made.fits)
    np.testing.assert_array_equal(made.after[overflow], made.before[overflow])
    assert made.after.sum(axis=1).max() <= capacity
    assert not np.array_equal(made.after[~overflow], made.before[~overflow])


@pytest.mark.usual_parameters("4-4-1.0", "2-2-1.0")
@pytest.mark.parametrize(("capacity", "room", "temperature"), CASES)
def test_what_a_state_keeps_is_of_its_own_position(x64, capacity, room, temperature):
    made = moves(capacity, room, temperature)
    states, info = made.state, made.info
    thetas = states.position[:, 0]
    for theta in np.unique(thetas):
        at = thetas == theta
        gaps = np.append(np.log1p(flymc.odds(MODEL, np.array([theta]), CENTER)), 0)
        np.testing.assert_allclose(
            states.bright.gaps[at], gaps[states.bright.rows[at]], rtol=1e-9, atol=1e-14
        )
        np.testing.assert_allclose(
            states.log_dark[at], log_dark(np.array([theta])), rtol=1e-9, atol=1e-12
        )
    used = states.bright.rows >= 0
    assert (np.diff(used.astype(int), axis=1) <= 0).all(), "the set lies at the front"
    np.testing.assert_array_equal(used.sum(axis=1), made.after.sum(axis=1))
    spent = made.before.sum(axis=1) + made.dark
    np.testing.assert_array_equal(info.gradient_evaluations, spent)
    np.testing.assert_array_equal(info.acceptance, made.places[:, 0] != made.places[:, 1])
    assert (states.step == 4).all()
    assert info.is_finite.all()


@pytest.mark.usual_parameters("3")
@pytest.mark.parametrize("room", [1, 2, 3, 4])
def test_skips_select_every_set_with_its_probability(x64, room):
    """Every sequence of skips, from uniform numbers at both ends of its interval."""
    skips = np.array(list(itertools.product(range(N + 1), repeat=room + 1)))
    law = {tuple(z): Q ** z.sum() * (1 - Q) ** (N - z.sum()) for z in SETS}
    probability = np.prod(np.where(skips < N, Q * (1 - Q) ** skips, (1 - Q) ** N), axis=1)
    for end in (1e-9, 1 - 1e-9):
        uniform = (1 - Q) ** (skips + end)
        found = jax.vmap(lambda u: bright_set.select(u, Q, N))(jnp.log(uniform))
        rows, used, whole = (np.asarray(x) for x in (found.rows.indices, *found[1:]))
        assert (np.diff(rows, axis=1) >= 0).all()
        assert rows.min() >= 0
        assert rows.max() < N
        z = np.stack([((rows == i) & used).any(axis=1) for i in range(N)], axis=1)
        np.testing.assert_array_equal(used.sum(axis=1), z.sum(axis=1))
        for chosen, p in law.items():
            same = (z == chosen).all(axis=1)
            if sum(chosen) < room:
                assert whole[same].all()
            fitting = probability[same & whole].sum()
            np.testing.assert_allclose(fitting, p if sum(chosen) <= room else 0, rtol=1e-12)


@pytest.mark.usual_parameters("2147483647")
@pytest.mark.parametrize("n", [10**9, 2**31 - 1])
def test_skips_do_not_leave_32_bits(n):
    """A sum of many skips of about n."""
    for found in (
        bright_set.select(jnp.full(18, -30.0), 1e-8, n),
        bright_set.select(jnp.full(9, -1e30), 0.5, n),
    ):
        assert not np.asarray(found.used).any()
        assert bool(found.is_whole)
        assert np.asarray(found.rows.indices).max() == n - 1


EVERY_UNIFORM = np.arange(2**23, dtype=np.float32) * np.float32(2**-23)
"""What `jax.random.uniform` draws from, in float32."""


@pytest.mark.usual_parameters("1e-07-16777217")
@pytest.mark.parametrize(("q", "n"), [(1e-7, 2**24 + 1), (5e-10, 2**31 - 1)])
def test_a_long_skip_has_its_probability_to_the_resolution_of_uniform_numbers(q, n):
    """k = size·high + low, each over all 2²³ uniform numbers, against q(1 − q)^k in float64."""
    every, one = jnp.log1p(-EVERY_UNIFORM), jnp.zeros(2**23)
    skips = jax.jit(lambda *parts: bright_set._skips(jnp.stack(parts, axis=1).reshape(-1), q, n))
    size = 2 ** round(-math.log2(q) / 2)
    of_high, of_low = np.asarray(skips(every, one)), np.asarray(skips(one, every))
    assert of_low.max() == size - 1
    assert not (of_high % size).any()
    high, low = np.bincount(of_high // size) / 2**23, np.bincount(of_low) / 2**23
    parts = n // size + 1
    exact_high = np.exp(size * np.arange(parts) * np.log1p(-q)) * -np.expm1(size * np.log1p(-q))
    exact_low = np.exp(np.arange(size) * np.log1p(-q)) * q / -np.expm1(size * np.log1p(-q))
    np.testing.assert_allclose(high[:parts], exact_high, rtol=0, atol=3 * 2**-23)
    np.testing.assert_allclose(low, exact_low, rtol=0, atol=3 * 2**-23)
    np.testing.assert_allclose(high[parts:].sum(), np.exp(size * parts * np.log1p(-q)), rtol=1e-5)
    # The last row, which a cap in float32 would take for all that lie beyond.
    last = high[(n - 1) // size] * low[(n - 1) % size]
    np.testing.assert_allclose(last, q * (1 - q) ** (n - 1), rtol=0.01)


@pytest.mark.full
def test_the_last_rows_of_many_are_told_apart():
    """Skips to each of the last rows of 2²⁴ + 1, and beyond them."""
    q, n = 1e-7, 2**24 + 1
    size, rate = 4096, -math.log1p(-q)
    for k in (n - 3, n - 2, n - 1, n, n + 1):
        high, low = divmod(k, size)
        log_low = np.log1p(-np.expm1(-rate * (low + 0.5)) / np.expm1(-rate * size))
        found = bright_set.select(
            jnp.array([-rate * size * (high + 0.5), log_low, -1e30, 0.0], jnp.float32), q, n
        )
        assert bool(found.used[0]) == (k < n)
        assert int(found.rows.indices[0]) == min(k, n - 1)
        assert bool(found.is_whole)


def test_log_odds():
    gaps = jnp.array([-1e-6, 0.0, 1e-6, 1.0, 50.0, 500.0], jnp.float32)
    expected = [-np.inf, -np.inf, np.log(1e-6), np.log(np.expm1(1)), 50, 500]
    np.testing.assert_allclose(bright_set.log_odds(gaps), expected, rtol=1e-6)
