"""A run's end: draws of density 0 are said, blown-up chains marked, right ones not."""

import dataclasses
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ewsg_jax as ewsg
from ewsg_jax.model_checks import chain_ends, densities
from ewsg_jax.run import model_warnings
from tests.run import stops

KEY = jax.random.key(0)
RNG = np.random.default_rng(0)
N = 200
Y = jnp.asarray(0.02 + RNG.normal(size=N), jnp.float32)


def normal(mean, y):
    return -0.5 * (y - mean) ** 2


WALLS = ewsg.Posterior(normal, lambda p: jnp.where((p > 0) & (p < 1), 0.0, -jnp.inf))
STEP = ewsg.uld(WALLS, 0.03, friction=15.0, integrator="BAOAB")
OPTIONS = {"num_chains": 4}
OUTSIDE = r"% of draws where log_prior is -inf or NaN.*bijector"


def sample(kernel=STEP, position=0.3, num_steps=600, data=Y, **options):
    return ewsg.sample(KEY, kernel, jnp.asarray(position), data, num_steps, **OPTIONS | options)


@pytest.mark.full
def test_draws_outside_are_said():
    with pytest.warns(RuntimeWarning, match=OUTSIDE) as told:
        samples = sample()
    share = np.mean((samples.position < 0) | (samples.position > 1))
    said = float(str(told[0].message).split("%")[0]) / 100
    assert said == pytest.approx(share, abs=0.12)
    assert said > 0.2
    assert "started there" not in str(told[0].message)


@pytest.mark.full
@pytest.mark.parametrize("error", [MemoryError("out of memory"), KeyboardInterrupt()], ids=type)
def test_a_look_at_the_end_loses_no_run(monkeypatch, error):
    with pytest.warns(RuntimeWarning, match=OUTSIDE):
        whole = sample()

    def failing(*_):
        raise error

    monkeypatch.setattr(densities, "densities", failing)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        found = sample()
    np.testing.assert_array_equal(found.position, whole.position)
    assert found.interrupted == (not told) == isinstance(error, KeyboardInterrupt)
    for one in told:
        assert "could not be evaluated: MemoryError: out of memory" in str(one.message)
        assert one.filename == __file__


@pytest.mark.full
@pytest.mark.parametrize(
    "kernel",
    [
        ewsg.ewsg(WALLS, 0.01, friction=10.0, batch_size=20),
        ewsg.svrg_ld(WALLS, 2e-3, batch_size=20, refresh_every=10),
    ],
    ids=["ewsg", "svrg"],
)
def test_by_other_estimators(kernel):
    with pytest.warns(RuntimeWarning, match=OUTSIDE):
        sample(kernel)


@pytest.mark.full
@pytest.mark.parametrize(
    "options",
    [
        {"keep": None},
        {"keep": jnp.exp},
        {"moments": ewsg.moments(), "keep": None},
        {"chain_batch_size": 2},
    ],
    ids=["nothing kept", "a function kept", "moments", "batches of chains"],
)
def test_whatever_is_kept(options):
    with pytest.warns(RuntimeWarning, match=OUTSIDE):
        sample(num_chains=16, **options)


@pytest.mark.full
def test_of_streams_and_stacks_and_data_sets():
    with pytest.warns(RuntimeWarning, match=OUTSIDE):
        sample(ewsg.sgld(WALLS, 2e-3, batch_size=20), data=ewsg.stream(np.asarray(Y), window=50))
    stack = ewsg.stack([ewsg.ld(WALLS, h) for h in (1e-6, 2e-3)])
    with pytest.warns(RuntimeWarning, match=r"member 1: .*log_prior.*1 of 2 members"):
        sample(stack)
    sets = ewsg.stack_data([Y, Y[:90] + 0.5])
    with pytest.warns(RuntimeWarning, match=r"member 0: "):
        sample(ewsg.sgld(WALLS, 2e-3, batch_size=20), data=sets)


def test_a_start_outside_is_said():
    with pytest.warns(RuntimeWarning, match=r"log_prior.*they started there"):
        sample(ewsg.ld(WALLS, 1e-9), -0.3, 3)


@pytest.mark.full
def test_a_likelihood_without_density():
    """x uniform on (0, θ): the gradient, -n/θ inside, does not know of the largest x."""
    uniform = ewsg.Posterior(
        lambda top, x: jnp.where(x < top, -jnp.log(top), -jnp.inf), lambda top: -top
    )
    data = jnp.asarray(RNG.uniform(0, 2, N), jnp.float32)
    with pytest.warns(RuntimeWarning, match=r"% of draws where log_likelihood of a row is -inf"):
        sample(ewsg.ld(uniform, 1e-4), 3.0, data=data)


def test_right_runs_say_nothing():
    to = ewsg.bijectors.interval(0.0, 1.0)
    free = ewsg.Posterior(normal, lambda p: 0.0).transformed(to)
    sample(ewsg.uld(free, 0.03, friction=15.0), 0.0)
    sample(ewsg.random_walk_metropolis(WALLS, 0.05))
    far = ewsg.Posterior(normal, lambda p: jnp.where(jnp.abs(p) < 2, 0.0, -jnp.inf))
    sample(ewsg.ld(far, 1e-3))


@pytest.mark.full
def test_it_costs_at_most_its_share():
    chains = ewsg.run.request.Request(KEY, STEP, 0.0, Y)
    look = model_warnings.EndCheck(chains)
    look.keep(jnp.float32(0.3), Y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        samples = sample(num_steps=40_000, num_chains=1, thin=400)
    run = look._ends(samples, samples.state.position, np.ones(1, bool), 0, Y)
    assert run.evaluations == samples.gradient_evaluations // 200


# Chains that blew up. What is right is drawn, exactly, by NumPy.


def looked(posterior, last, start, rows=Y, temperature=1.0, starts=None):
    last = np.asarray(last, np.float32)
    start = np.broadcast_to(np.asarray(start, np.float32), last.shape[1:])
    each = np.broadcast_to(start, last.shape) if starts is None else np.asarray(starts, np.float32)
    alive = np.ones(len(last), bool)
    run = chain_ends.ChainEnds(
        posterior,
        temperature,
        None,
        last,
        alive,
        each[0],
        lambda: each,
        np.asarray(rows),
        len(rows),
        10**6,
    )
    return np.flatnonzero(chain_ends.examine(run).blown_up).tolist()


def flat(p, y):
    return 0.0 * y


def law(log_density):
    return ewsg.Posterior(flat, log_density)


CAUCHY = law(lambda p: -jnp.sum(jnp.log1p(p**2)))
NORMAL = law(lambda p: -0.5 * jnp.sum(p**2))
FUNNEL = law(
    lambda p: -0.5 * p[0] ** 2 / 9 - jnp.sum(0.5 * p[1:] ** 2 * jnp.exp(-p[0]) + 0.5 * p[0])
)
SCALES = RNG.normal(0, 3, (40, 1))
RIGHT = {
    "cauchy": (CAUCHY, RNG.standard_cauchy((100, 1)), 0.0),
    "cauchy in five dimensions": (CAUCHY, RNG.standard_cauchy((100, 5)), 0.0),
    "two cauchy chains": (CAUCHY, np.array([[1.0], [1e9]]), 0.0),
    "one far chain of a cauchy law": (CAUCHY, np.r_[RNG.standard_cauchy((99, 1)), [[1e12]]], 0.0),
    "normal from the mode": (NORMAL, RNG.normal(size=(10, 50)), 0.0),
    "normal from far": (NORMAL, RNG.normal(size=(10, 50)), 1e6),
    "one normal chain": (NORMAL, RNG.normal(size=(1, 50)), 0.0),
    "variances of gradient noise a hundred times too large": (
        NORMAL,
        10 * RNG.normal(size=(10, 50)),
        0.0,
    ),
    "a heavy tail of a hot run": (
        NORMAL,
        np.r_[RNG.normal(size=(99, 1)), [[30.0], [60], [120], [240]]],
        0.0,
    ),
    "a funnel": (FUNNEL, np.c_[SCALES, np.exp(SCALES / 2) * RNG.normal(size=(40, 9))], 0.0),
    "student with half a degree": (
        law(lambda p: -0.75 * jnp.sum(jnp.log1p(2 * p**2))),
        RNG.standard_t(0.5, (60, 2)),
        0.0,
    ),
    "on the way, all of them": (NORMAL, 1e5 + RNG.normal(size=(10, 5)), 1e6),
}


@pytest.mark.full
@pytest.mark.parametrize("name", RIGHT)
def test_right_chains_are_not_marked(name):
    posterior, last, start = RIGHT[name]
    assert looked(posterior, last, start) == []


@pytest.mark.full
def test_a_tempered_chain_is_not_marked():
    assert looked(NORMAL, 100 * RNG.normal(size=(4, 20)), 0.0, temperature=1e4) == []


@pytest.mark.full
def test_a_chain_on_its_way_from_a_start_of_its_own_is_not_marked():
    starts = np.r_[[[1e6] * 3], RNG.normal(size=(5, 3))]
    assert looked(NORMAL, np.r_[[[1e5] * 3], RNG.normal(size=(5, 3))], 0, starts=starts) == []


SATURATED = ewsg.Posterior(
    lambda p, y: -0.5 * ((y - jnp.sum(jnp.tanh(p))) / 0.1) ** 2, lambda p: 0.0
)
BLOWN = {
    "one of ten": (NORMAL, np.r_[RNG.normal(size=(9, 8)), np.full((1, 8), 1e6)], 1.0, [9]),
    "one of ten from a bad start": (
        NORMAL,
        np.r_[RNG.normal(size=(9, 8)), np.full((1, 8), 1e6)],
        1e3,
        [9],
    ),
    "one alone": (NORMAL, np.full((1, 8), 3e4), 0.0, [0]),
    "thirty of forty": (
        NORMAL,
        np.r_[RNG.normal(size=(10, 2)), np.full((30, 2), 1e7)],
        0.0,
        [*range(10, 40)],
    ),
    "without a prior": (
        SATURATED,
        np.r_[0.1 * RNG.normal(size=(9, 8)), np.full((1, 8), 1e6)],
        0.0,
        [9],
    ),
    "so far that its potential is infinite": (
        NORMAL,
        np.r_[RNG.normal(size=(3, 2)), [[1e25, 0]]],
        0.0,
        [3],
    ),
}


@pytest.mark.full
@pytest.mark.parametrize("name", BLOWN)
def test_chains_that_blew_up_are_marked(name):
    posterior, last, start, expected = BLOWN[name]
    assert looked(posterior, last, start) == expected


X = RNG.uniform(-2, 2, (300, 2)).astype(np.float32)
DATA = {"x": X, "y": (np.sin(2 * X[:, 0]) * X[:, 1]).astype(np.float32)}


def network(p, x):
    return jnp.tanh(x @ p["a"] + p["b"]) @ p["c"]


NETWORK = ewsg.Posterior(
    lambda p, row: -0.5 * ((row["y"] - network(p, row["x"])) / 0.1) ** 2,
    lambda p: -0.5 * sum(jnp.sum(x**2) for x in jax.tree.leaves(p)),
)


def starts(scales):
    """One start a chain, weights of these sizes."""
    shapes, sizes = {"a": (2, 16), "b": (16,), "c": (16,)}, np.asarray(scales)
    rng = np.random.default_rng(1)
    return {
        name: jnp.asarray(
            sizes.reshape(-1, *[1] * len(shape)) * rng.normal(size=(len(sizes), *shape)),
            jnp.float32,
        )
        for name, shape in shapes.items()
    }


@pytest.mark.full
def test_a_network_that_blew_up_is_marked_and_left_out():
    """Two of ten from bad starts at too large a step: squares of 1e8 and more, and no NaN."""
    kernel = ewsg.sghmc(NETWORK, 0.0042, friction=20.0, batch_size=50)
    with pytest.warns(RuntimeWarning) as told:
        samples = ewsg.sample(
            KEY,
            kernel,
            starts([0.3] * 8 + [12.0] * 2),
            DATA,
            300,
            stacked=True,
            thin=10,
        )
    squares = sum(
        np.sum(np.float64(x[:, -1]) ** 2, tuple(range(1, x.ndim - 1)))
        for x in samples.draws.values()
    )
    assert any("blew up and stayed finite" in str(each.message) for each in told)
    assert all(np.isfinite(x).all() for x in samples.draws.values())
    assert (squares > 1e8).tolist() == [False] * 8 + [True] * 2
    assert samples.is_finite.tolist() == [True] * 8 + [False] * 2
    every = dataclasses.replace(samples, diverged_at=np.full(10, -1))
    spoiled = np.abs(every.predict(network_at, X[:5])).max()
    assert np.abs(samples.predict(network_at, X[:5])).max() < 1e-3 * spoiled


def network_at(p, x):
    return jax.vmap(lambda row: network(p, row))(x)


@pytest.mark.full
def test_members_of_a_stack_are_marked():
    normal = ewsg.Posterior(
        lambda p, y: -0.5 * jnp.sum((y - p) ** 2), lambda p: -0.5 * jnp.sum(p**2)
    )
    stack = ewsg.stack([ewsg.ld(normal, h) for h in (1e-3, 1.2e-2)])
    with pytest.warns(RuntimeWarning, match="1 of 2 members have diverged chains"):
        runs = ewsg.sample(KEY, stack, jnp.zeros(3), Y, 60, num_chains=2)
    assert runs.is_stable.tolist() == [True, False]
    assert np.isfinite(runs[1].position).all()


@pytest.mark.full
@pytest.mark.parametrize("size", [None, 2], ids=["at once", "in batches"])
@pytest.mark.parametrize("end", [60, 50], ids=["ended", "stopped"])
def test_a_run_that_resumes_is_judged_from_where_it_began(tmp_path, size, end):
    """From where it resumes no chain has climbed."""
    normal = ewsg.Posterior(
        lambda p, y: -0.5 * jnp.sum((y - p) ** 2), lambda p: -0.5 * jnp.sum(p**2)
    )
    kernel, path = ewsg.ld(normal, 1.2e-2), tmp_path / "run"
    options = {"num_chains": 4, "chain_batch_size": size, "checkpoint": path}
    count = size or 4
    blew_up = f"{count} of {count} chains blew up"
    with pytest.warns(RuntimeWarning, match=blew_up):
        stops.after(end, lambda: ewsg.sample(KEY, kernel, jnp.zeros(3), Y, 60, **options))
    for folder in [path] if size is None else [path / "chains-000000", path / "chains-000002"]:
        with pytest.warns(RuntimeWarning, match=blew_up):
            found = ewsg.resume(folder, Y, kernel=kernel)
        assert found.diverged_at.tolist() == [60] * count


@pytest.mark.full
def test_each_data_set_is_judged_with_its_own_rows(monkeypatch):
    """A potential of 4 rows, made up to that of 200, has chains of every height."""
    counts, look = [], chain_ends.examine
    monkeypatch.setattr(
        chain_ends, "examine", lambda run: counts.append((run.num_data, len(run.rows))) or look(run)
    )
    posterior = ewsg.Posterior(normal, lambda p: -0.5 * p**2)
    sets = ewsg.stack_data([Y[:4], Y])
    ewsg.sample(KEY, ewsg.sgld(posterior, 1e-3, batch_size=2), jnp.zeros(()), sets, 20)
    assert counts == [(4, 4), (200, 128)]
