"""Leaves that are not sampled, as arguments of programs: the same draws, and small programs."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ewsg_jax as ewsg
from ewsg_jax import networks

RNG = np.random.default_rng(0)
WIDE = 300
PARAMS = {
    "base": RNG.normal(size=(3, WIDE)).astype(np.float32),
    "middle": RNG.normal(size=(WIDE, WIDE)).astype(np.float32) / 30,
    "last": np.zeros((WIDE, 1), np.float32),
}
DATA = {"x": RNG.normal(size=(12, 3)).astype(np.float32), "y": RNG.normal(size=12)}
DATA["y"] = DATA["y"].astype(np.float32)
METHODS = {
    "sghmc": lambda p: ewsg.sghmc(p, 1e-4, friction=1.0, batch_size=4),
    "svrg_ld": lambda p: ewsg.svrg_ld(p, 1e-4, batch_size=4, refresh_every=3),
}


def apply(params, x):
    return jnp.tanh(jnp.tanh(x @ params["base"]) @ params["middle"]) @ params["last"]


def model():
    likelihood = networks.normal(1.0)
    return networks.posterior(apply, PARAMS, DATA, likelihood=likelihood, sampled="last")


@pytest.mark.full
@pytest.mark.parametrize("name", METHODS)
def test_draws_are_the_same(name):
    of = model()
    kernel = METHODS[name](of.posterior)
    carried = networks.carry(kernel, of)
    runs = [
        ewsg.sample(jax.random.key(0), each, of.position, DATA, 20, num_chains=2, progress=False)
        for each in (kernel, carried, carried)
    ]
    for run in runs[1:]:
        np.testing.assert_allclose(run.draws["last"], runs[0].draws["last"], rtol=1e-5, atol=1e-7)
    assert np.any(runs[0].draws["last"])


@pytest.mark.full
def test_a_stopped_run_goes_on_with_the_same_leaves_alone(tmp_path):
    of = model()
    kernel = networks.carry(METHODS["sghmc"](of.posterior), of)
    key, options = jax.random.key(0), {"progress": False, "num_chains": 2}
    path, steps = tmp_path / "run", 200_000
    begun = ewsg.sample(
        key, kernel, of.position, DATA, steps, thin=100, seconds=0.1, checkpoint=path, **options
    )
    assert begun.num_draws < steps // 100
    options = {"position": of.position, "seconds": 0.1, "progress": False}
    longer = ewsg.resume(path, DATA, kernel=kernel, **options)
    assert longer.num_draws > begun.num_draws
    np.testing.assert_array_equal(longer.draws["last"][:, : begun.num_draws], begun.draws["last"])
    moved = networks.posterior(
        apply,
        PARAMS | {"base": PARAMS["base"] + 1},
        DATA,
        likelihood=networks.normal(1.0),
        sampled="last",
    )
    other = networks.carry(METHODS["sghmc"](moved.posterior), moved)
    with pytest.raises(ValueError, match=r"kernel must be that of the run .* other numbers"):
        ewsg.resume(path, DATA, kernel=other, **options)


@pytest.mark.full
def test_halved_steps_and_forecasts_are_the_same():
    def small(params, x):
        return jnp.tanh(x @ params["base"]) @ params["last"]

    params = {"base": PARAMS["base"][:, :3], "last": PARAMS["last"][:3]}
    likelihood = networks.normal(1.0)
    of = networks.posterior(small, params, DATA, likelihood=likelihood, sampled="last")
    kernel = ewsg.sgld(of.posterior, 1e-2, batch_size=4)
    carried = networks.carry(kernel, of)
    assert repr(carried).startswith("carry(kernel(dynamics=langevin")
    halved, plain = (
        ewsg.halve(jax.random.key(0), each, of.position, DATA, 200, progress=False).bias.mean_shift
        for each in (carried, kernel)
    )
    np.testing.assert_allclose(halved["last"], plain["last"], rtol=1e-3, atol=1e-5)
    mode = ewsg.find_mode(jax.random.key(0), of.posterior, of.position, DATA)
    predicted, plain = (
        ewsg.forecast(each, mode, DATA).variance_ratio["last"] for each in (carried, kernel)
    )
    np.testing.assert_array_equal(predicted, plain)


def test_programs_do_not_hold_what_is_carried():
    of = model()
    kernel = METHODS["sghmc"](of.posterior)
    state = kernel.init(jax.random.key(0), of.position, DATA)

    def text(kernel):
        step = jax.jit(lambda kernel, key, state, data: kernel.step(key, state, data))
        return step.lower(kernel, jax.random.key(0), state, DATA).as_text()

    num_bytes = PARAMS["middle"].nbytes
    assert len(text(kernel)) > 2 * num_bytes
    assert len(text(networks.carry(kernel, of))) < num_bytes / 2


def test_an_adapter_of_two_factors_is_sampled_and_read():
    """Low-rank factors, the second of which begins at 0: each has an effect away from there."""

    def adapted(params, x):
        weights = params["base"] + params["adapter"]["a"] @ params["adapter"]["b"]
        return jnp.tanh(x @ weights) @ params["last"]

    params = {
        "base": PARAMS["base"],
        "adapter": {"a": np.ones((3, 1), np.float32), "b": np.zeros((1, WIDE), np.float32)},
        "last": np.ones((WIDE, 1), np.float32) / WIDE,
    }
    of = networks.posterior(
        adapted, params, DATA, likelihood=networks.normal(1.0), sampled="adapter", fixed="base"
    )
    assert [x.shape for x in jax.tree.leaves(of.position)] == [(3, 1), (1, WIDE)]
    assert of.roles == {
        "adapter/a": "sampled",
        "adapter/b": "sampled",
        "base": "fixed",
        "last": "trained",
    }


@pytest.mark.parametrize(
    "make",
    [
        lambda p: ewsg.random_walk_metropolis(p, 1e-3),
        lambda p: ewsg.kernel(
            ewsg.dynamics.langevin(1e-4), ewsg.gradients.streamed(p, num_data=12)
        ),
    ],
)
def test_a_kernel_that_carries_is_one_of_its_kind(make):
    of = model()
    kernel = make(of.posterior)
    carried = networks.carry(kernel, of)
    assert isinstance(carried, type(kernel))
    assert carried == networks.carry(kernel, of) == networks.carry(carried, of)
    assert repr(carried) == f"carry({kernel!r}, 2 leaves)"
    ends = []
    for each in (kernel, carried):
        state = each.init(jax.random.key(0), of.position, DATA)
        ends.append(each.step(jax.random.key(1), state, DATA)[0].position["last"])
    np.testing.assert_allclose(ends[0], ends[1], rtol=1e-5, atol=1e-7)
    assert np.any(ends[0])
