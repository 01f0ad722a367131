"""Chains in batches have the draws of all at once, and each batch memory of its own."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ewsg_jax as ewsg
from ewsg_jax.run import compiled_loop, layout
from ewsg_jax.run import run as steps_of
from tests.run.alike import same_runs

D, C = 3, 5
KEY = jax.random.key(0)
DATA = jax.random.normal(jax.random.key(1), (40, D)) + 1
MODEL = ewsg.models.gaussian_location()
STARTS = jax.random.normal(jax.random.key(2), (C, D))
KERNELS = {
    "sgld": ewsg.sgld(MODEL, 0.01, batch_size=5),
    "svrg_ld": ewsg.svrg_ld(MODEL, 0.01, batch_size=5),
    "cv_uld": ewsg.cv_uld(MODEL, 0.05, friction=1.0, batch_size=5),
    "stack": ewsg.stack([ewsg.cv_ld(MODEL, h, batch_size=5) for h in (0.01, 0.02)]),
}


def run(kernel=KERNELS["sgld"], position=lambda key: jax.random.normal(key, (D,)), **changes):
    options = {
        "num_steps": 30,
        "num_chains": C,
        "burn_in": 4,
        "thin": 2,
    } | changes
    start = None if "state" in changes else position
    return ewsg.sample(KEY, kernel, start, DATA, **options)


@pytest.mark.usual_parameters("svrg_ld")
@pytest.mark.parametrize("name", KERNELS)
def test_draws_are_those_of_all_at_once(name):
    """Bit for bit: five chains as three and two; starts by keys, and going on from states."""
    kernel = KERNELS[name]
    at_once, batched = run(kernel), run(kernel, chain_batch_size=3)
    on, on_batched = (run(kernel, state=runs.state, num_chains=1, **size) for runs, size in (
        (at_once, {}), (batched, {"chain_batch_size": 3})
    ))  # fmt: skip
    for one, other in ((batched, at_once), (on_batched, on)):
        if name == "stack":
            same_runs(one[1], other[1])
            one, other = one.whole, other.whole
        same_runs(one, other)


@pytest.mark.usual_parameters("svrg_ld")
@pytest.mark.parametrize("name", KERNELS)
def test_chains_by_first_chain_are_those_of_the_whole_run(name):
    """Bit for bit: three and two runs of their own, and going on from their states."""
    kernel = KERNELS[name]
    whole = run(kernel)
    batches = [run(kernel, first_chain=first, num_chains=n) for first, n in ((0, 3), (3, 2))]
    on = run(kernel, state=whole.state, num_chains=1)
    on_batches = [
        run(kernel, state=batch.state, first_chain=first, num_chains=1)
        for first, batch in zip((0, 3), batches, strict=True)
    ]
    for runs, wanted in ((batches, whole), (on_batches, on)):
        if name == "stack":
            runs, wanted = [one.whole for one in runs], wanted.whole
        for field in ("draws", "acceptance", "diverged_at"):
            joined = [getattr(one, field) for one in runs]
            np.testing.assert_array_equal(np.concatenate(joined), getattr(wanted, field))


def test_a_batch_by_first_chain_makes_all_its_steps():
    """When all its chains diverge too, so that the draws of batches have one shape."""
    steep = ewsg.Posterior(lambda p, row: -jnp.sum((p - row) ** 4), lambda p: 0.0)
    long = {"num_steps": 3_000, "thin": 100, "keep": jnp.sum, "num_chains": 2}
    position = lambda key: 1e9 * (1 + jax.random.uniform(key, (D,)))
    with pytest.warns(RuntimeWarning, match="2 of 2 chains diverged"):
        batch = run(ewsg.ld(steep, 1e-4), position, first_chain=0, **long)
    assert batch.num_steps == 3_000
    with pytest.warns(RuntimeWarning, match="2 of 2 chains diverged"):
        assert run(ewsg.ld(steep, 1e-4), position, **long).num_steps < 3_000


@pytest.mark.full
@pytest.mark.parametrize(
    "changes",
    [
        {"shared_minibatch": True},
        {"position": STARTS, "stacked": True, "num_chains": 1},
        {"position": STARTS[0]},
    ],
    ids=["shared batches", "starts of chains", "one start"],
)
def test_whatever_is_asked_for(changes):
    kernel = KERNELS["cv_uld"]
    same_runs(
        run(kernel, chain_batch_size=2 if "shared_minibatch" in changes else 3, **changes),
        run(kernel, **changes),
    )


@pytest.mark.full
def test_moments_are_those_of_all_at_once():
    changes = {"keep": None, "moments": ewsg.moments(covariance="dense")}
    at_once, batched = run(**changes), run(chain_batch_size=2, **changes)
    assert batched.draws is None
    for a, b in zip(
        *(jax.tree.leaves(vars(runs.moments)) for runs in (at_once, batched)), strict=True
    ):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


@pytest.mark.full
def test_costs_that_steps_tell_are_means_over_all_chains():
    """Five chains as three and two: FlyMC's, the last two see most rows in every step."""
    data = {"x": DATA, "y": (DATA[:, 0] > 1).astype(float)}
    kernel = ewsg.flymc(
        ewsg.models.logistic_regression(),
        1e-3,
        capacity=40,
        resample_probability=0.1,
        proposal_capacity=40,
        center=jnp.zeros(D),
    )
    starts = jnp.zeros((C, D)).at[3:].set(4.0)
    options = {"stacked": True, "chain_batch_size": 3}
    samples = ewsg.sample(KEY, kernel, starts, data, 30, **options)
    assert abs(samples.evaluations[-1] - samples.gradient_evaluations / C) <= 1


@pytest.mark.full
def test_a_batch_that_is_lost_rests_to_the_end():
    """And the others are what they are; also where it is the first one."""
    steep = ewsg.Posterior(lambda p, row: -jnp.sum((p - row) ** 4), lambda p: 0.0)
    starts = jnp.ones((5, D)).at[:2].set(1e9)
    kernel = ewsg.ld(steep, 1e-4)
    long = {"num_steps": 3_000, "thin": 100, "stacked": True, "keep": jnp.sum}
    with pytest.warns(RuntimeWarning, match="2 of 5 chains diverged"):
        at_once = run(kernel, starts, **long)
    for size in (2, 4):
        with pytest.warns(RuntimeWarning, match="2 of [23] chains diverged"):
            same_runs(run(kernel, starts, chain_batch_size=size, **long), at_once)


@pytest.mark.full
@pytest.mark.parametrize(
    ("where", "error", "how"),
    [
        ("make_steps", RuntimeError("out of memory"), "failed: RuntimeError: out of memory"),
        ("plan", KeyboardInterrupt(), "were interrupted"),
    ],
    ids=["a failure", "an interrupt before its steps"],
)
def test_what_was_sampled_before_is_returned(monkeypatch, where, error, how):
    real = getattr(steps_of, where)

    def failing(*arguments):
        if failing.calls == 1:
            raise error
        failing.calls += 1
        return real(*arguments)

    failing.calls = 0
    monkeypatch.setattr(steps_of, where, failing)
    with pytest.warns(RuntimeWarning, match=f"chains from 3 on {how}; of 5 chains those of"):
        found = run(chain_batch_size=3)
    assert found.interrupted
    monkeypatch.undo()
    np.testing.assert_array_equal(found.position, run().position[:3])


@pytest.mark.full
def test_it_is_for_runs_that_do_not_fit():
    """The limit is that of the chains of a batch, and of all draws."""
    free = {"num_chains": 4_000, "num_steps": 6, "burn_in": 0, "thin": 1}
    limit = {"memory_limit": 600_000, "randomness_memory": 10_000}
    with pytest.raises(ValueError, match="with a chain_batch_size"):
        run(**free, **limit)
    assert run(**free, **limit, chain_batch_size=400).position.shape == (4_000, 6, D)
    with pytest.raises(ValueError, match=r"kept draws 1\.[0-9]+ MiB"):
        run(**free | {"num_steps": 40}, **limit, chain_batch_size=400)


@pytest.mark.full
@pytest.mark.parametrize(
    ("most", "short", "program"),
    [
        (75, 0, "advance_small"),
        (74, 0, "advance"),
        (0, 30 * 75, "advance_small"),
        (0, 30 * 75 - 1, "advance"),
    ],
)
def test_batches_are_compiled_like_the_whole(monkeypatch, most, short, program):
    """A step of five chains touches 5 × 5 × 3 numbers, a run 30 times as many; one of two chains,
    in a batch, less.
    """
    monkeypatch.setattr(layout, "SMALL_STEP_NUMBERS", most)
    monkeypatch.setattr(layout, "SHORT_RUN_NUMBERS", short)
    used = []

    def watch(name):
        true = getattr(compiled_loop, name)
        monkeypatch.setattr(
            compiled_loop,
            name,
            lambda *parts, **options: [used.append(name), true(*parts, **options)][1],
        )

    watch("advance")
    watch("advance_small")
    same_runs(run(chain_batch_size=2), run())
    assert set(used) == {program}
