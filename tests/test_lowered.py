"""Programs for a GPU, by lowering: what would wait for the host or copy the data."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh

import ewsg_jax as ewsg
from benchmarks.cost import lowering
from benchmarks.cost.reading import Program
from ewsg_jax.run import layout, plan
from ewsg_jax.run.layout import choose_layout

pytestmark = pytest.mark.full

REFRESHES = ("nc_sghmc", "ewsg_vr", "svrg_ld", "svrg_hmc", "svrg2nd_hmc")
"""A full gradient is made under a condition that is asked in every step."""
PASSES = ("ld", "uld", "random_walk_metropolis", *REFRESHES)
"""More rows than a chunk has are seen in a loop of known length."""
SOLVES = ("nc_sghmc", "ewsg_vr")
"""The square root of a dense matrix is one of a library."""


@pytest.fixture(scope="module")
def rows():
    return lowering.data()


@pytest.mark.parametrize("name", ewsg.METHODS)
def test_a_step_of_a_run(rows, name):
    """The loop over steps has known length; its body asks no host and copies no data."""
    program, _, step, block, arrays = lowering.of_sample(lowering.built(name), rows, 100, "cuda")
    assert program.is_counted(step)
    inside, besides = program.read(step.regions[1].blocks[0]), program.read(block, without=step)
    assert (inside.open_loops, inside.counted_loops) == (0, name in PASSES)
    assert inside.conditions == (name in REFRESHES)
    assert set(inside.calls) == ({"cusolver_syevd_ffi"} if name in SOLVES else set())
    assert not besides.calls
    assert not inside.whole
    assert not besides.whole
    assert not inside.wide
    assert program.donated() == arrays


@pytest.mark.parametrize(
    ("kept", "conditions"),
    [
        ({"moments": ewsg.moments()}, 0),
        ({"moments": ewsg.moments(covariance="dense")}, 1),
        ({"keep": lambda position: position[:2]}, 1),
    ],
)
def test_what_is_kept_under_a_condition(rows, kept, conditions):
    """What may cost more than a step does is worked out for kept steps alone."""
    found = lowering.of_sample(lowering.built("sgld"), rows, 100, "cuda", **kept)
    assert found.program.read(found.in_step.regions[1].blocks[0]).conditions == conditions


def test_blocks_are_as_long_as_memory_allows():
    """An accelerator waits for the host once a block; rows out of cache cost nothing."""
    shape = jax.ShapeDtypeStruct
    rows = {"x": shape((464_809, 54), np.float32), "y": shape((464_809,), np.float32)}
    kernel = ewsg.sgld(ewsg.models.logistic_regression(), 1e-7, batch_size=50)
    state = jax.eval_shape(
        lambda key, rows: jax.vmap(lambda key: kernel.init(key, jnp.zeros(54), rows))(
            jax.random.split(key, 1_000)
        ),
        jax.random.key(0),
        rows,
    )
    known = layout.ProgramLayout(
        shared_minibatch=False, shared_memory=False, num_slots=1, keep=None, moments=None
    )

    def block(**where):
        return choose_layout(kernel, state, rows, 10_000, 2**28, known._replace(**where))[
            0
        ].block_size

    assert (block(), block(accelerator=True)) == (1, 24)


def test_what_other_devices_run_draws_the_same(monkeypatch, rows):
    """Gathers, searches and slices that are otherwise for a CPU, here as elsewhere."""
    far = jnp.full(lowering.DIMENSION, 0.5)
    model = ewsg.models.logistic_regression(prior_scale=2.0)
    kernel = ewsg.flymc(model, 0.02, capacity=2_000, resample_probability=0.1, center=far)
    run = functools.partial(
        ewsg.sample, jax.random.key(1), kernel, jnp.zeros(lowering.DIMENSION), rows, 20
    )
    monkeypatch.setattr(layout, "SMALL_STEP_NUMBERS", 0)  # both are optimised alike
    here = run(num_chains=2)
    monkeypatch.setattr(
        jax.lax, "platform_dependent", lambda *arguments, default, **_: default(*arguments)
    )
    monkeypatch.setattr(plan, "on_accelerator", lambda data: True)
    there = run(num_chains=2)
    assert not here.overflow.any()
    assert np.all(np.sum(here.state.dynamics.bright.rows >= 0, axis=1) > 100)
    for mine, other in zip(jax.tree.leaves(there.state), jax.tree.leaves(here.state), strict=True):
        np.testing.assert_array_equal(mine, other)
    np.testing.assert_array_equal(there.position, here.position)


def test_the_search_for_a_mode(rows):
    for _, program in lowering.of_find_mode(rows, "cuda"):
        found = program.read(program.main)
        assert not found.calls
        assert not found.whole


def test_what_is_there_is_found(rows):
    """Of the reading itself: one of each, some in called functions, some in branches."""
    n = lowering.NUM_ROWS

    @jax.jit
    def called(x, i):
        return jnp.sort(jnp.take(x, jnp.array([i, 1]), axis=0))

    def turn(i, carry):
        x, total = carry
        total = jax.lax.cond(
            total > 0, lambda: jax.lax.fori_loop(0, 3, lambda _, t: t + 1, total), lambda: total
        )
        total += jnp.sum(called(x, i)) + jnp.sum(x.T.astype(jnp.bfloat16)[0].astype(jnp.float32))
        total += jax.pure_callback(np.sin, jax.ShapeDtypeStruct((), np.float32), total)
        return x.at[i].set(total), total

    def run(x, count):
        return jax.lax.fori_loop(0, count, turn, (x, jnp.float32(0)))

    x = jnp.zeros((n, 3))
    program = Program(
        jax.jit(run, donate_argnums=0).trace(x, 3).lower(lowering_platforms=("cpu",)), n
    )
    (loop,) = program.loops(program.main)
    assert not program.is_counted(loop)
    found = program.read(loop.regions[1].blocks[0])
    assert (found.counted_loops, found.open_loops, found.conditions, found.loops_in_conditions) == (
        1,
        0,
        1,
        1,
    )
    assert [(g.source, g.is_sorted) for g in found.gathers] == [(f"tensor<{n}x3xf32>", False)]
    assert (found.scatters, found.sorts, list(found.calls.values())) == (1, 1, [1])
    assert any("callback" in name for name in found.calls)
    assert any(what.startswith("transpose") for what in found.whole)
    assert program.donated() == 1
    constant = Program(jax.jit(lambda x: run(x, 3)).trace(x).lower(lowering_platforms=("cpu",)), n)
    assert constant.is_counted(*constant.loops(constant.main))
    assert constant.donated() == 0


@pytest.mark.parametrize("platform", ["cuda", "tpu"])
@pytest.mark.parametrize(
    ("name", "numbers"),
    [
        ("sgld", [1]),
        ("svrg_ld", [1]),
        ("saga_hmc", [1]),
        ("hamcmc", [1, 1]),
        ("ewsg", [2]),
        ("nc_sghmc", [1, 8, 1 / 8]),
    ],
)
def test_what_devices_exchange_in_a_step(rows, platform, name, numbers):
    """Along rows one sum of d numbers for each chain and gradient, an index chain's all at once;
    else nothing.

    Of a tracked covariance its d² numbers too, and how far it is lost in rounding.
    """
    kernel, devices = lowering.built(name, batch_size=4), np.array(jax.devices()[:2])
    if name == "ewsg":
        kernel = lowering.built(name, batch_size=4, num_proposals=1)
    over = {axis: Mesh(devices, (axis,)) for axis in ("chains", "data")}
    assert (
        lowering.exchanged(lowering.over_devices_of(kernel, rows, 100, platform, over["chains"]))
        == []
    )
    program = lowering.over_devices_of(kernel, rows, 100, platform, over["data"])
    sizes = [(kind, np.prod(shape)) for kind, shape in lowering.exchanged(program)]
    assert sizes == [("all_reduce", count * 100 * lowering.DIMENSION) for count in numbers]


@pytest.mark.parametrize("name", ["sgld", "cv_uld"])
def test_what_devices_exchange_for_a_forecast(rows, name):
    """Rows of batches, and one sum of d numbers at a centre; never all of the data."""
    kernel, mesh = lowering.built(name, batch_size=4), Mesh(np.array(jax.devices()[:2]), ("data",))
    found = lowering.exchanged(lowering.of_noise(kernel, rows, "cuda", mesh))
    assert {kind for kind, _ in found} == {"all_reduce"}
    # Two leaves of all batches, 64 points of 2 with 4 rows each.
    expected = [(lowering.DIMENSION,)] * (name == "cv_uld") + [
        (64, 2, 4),
        (64, 2, 4, lowering.DIMENSION),
    ]
    assert sorted(shape for _, shape in found) == sorted(expected)
