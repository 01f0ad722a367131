"""Members that start where told: each run is that of all from its own start."""

import jax
import jax.numpy as jnp
import pytest

import ewsg_jax as ewsg
from tests.run.alike import same_leaves

pytestmark = pytest.mark.full

D, C, M = 3, 4, 3
KEY = jax.random.key(0)
ROWS = jax.random.normal(jax.random.key(9), (40, D)) + 1
SETS = ewsg.stack_data([ROWS[:20], ROWS, ROWS[5:]])
MODEL = ewsg.models.gaussian_location()
STARTS = jax.random.normal(jax.random.key(2), (M, D))
STEPS = (0.01, 0.02, 0.03)
METHODS = {
    "sgld": ewsg.sgld,
    "cv_ld": ewsg.cv_ld,
    "svrg_ld": ewsg.svrg_ld,
    "saga_ld": ewsg.saga_ld,
    "sghmc": lambda model, h, batch_size: ewsg.sghmc(model, h, friction=1.0, batch_size=batch_size),
}


def run(kernel, position, data=ROWS, **changes):
    options = {
        "num_steps": 30,
        "num_chains": C,
        "burn_in": 4,
        "thin": 2,
    } | changes
    return ewsg.sample(KEY, kernel, position, data, **options)


def grid(name):
    return [METHODS[name](MODEL, h, batch_size=5) for h in STEPS]


def over(name, over_data):
    """A kernel and its data: over data sets, or of step sizes."""
    return (
        (METHODS[name](MODEL, 0.01, batch_size=5), SETS)
        if over_data
        else (ewsg.stack(grid(name)), ROWS)
    )


def draws_of(key):
    return jax.random.normal(key, (M, D))


@pytest.mark.usual_parameters("cv_ld-data sets")
@pytest.mark.parametrize("over_data", [False, True], ids=["kernels", "data sets"])
@pytest.mark.parametrize("name", METHODS)
def test_each_member_is_what_it_is_where_all_start_there(name, over_data):
    """Bit for bit: draws and last states; also where the start is remembered."""
    kernel, data = over(name, over_data)
    one, by_keys = (
        run(kernel, position, data, stacked="members") for position in (STARTS, draws_of)
    )
    for member in range(M):
        alone = run(kernel, STARTS[member], data)[member]
        same_leaves((one[member].position, one[member].state), (alone.position, alone.state))
        assert one[member].common_start
        alone = run(kernel, lambda key, member=member: draws_of(key)[member], data)[member]
        same_leaves(
            (by_keys[member].position, by_keys[member].state), (alone.position, alone.state)
        )
        assert not by_keys[member].common_start


@pytest.mark.full
def test_positions_may_be_any_tree():
    model = ewsg.Posterior(
        lambda p, row: -0.5 * jnp.sum((row - p["a"] - p["b"]) ** 2),
        lambda p: -0.5 * (jnp.sum(p["a"] ** 2) + p["b"] ** 2),
    )
    kernel, start = ewsg.sgld(model, 0.01, batch_size=5), {"a": STARTS, "b": jnp.arange(3.0)}
    runs = run(kernel, start, SETS, stacked="members")
    alone = run(kernel, jax.tree.map(lambda x: x[1], start), SETS)
    same_leaves(runs[1].position, alone[1].position)


@pytest.mark.full
@pytest.mark.parametrize("over_data", [False, True], ids=["kernels", "data sets"])
def test_as_many_members_as_chains_or_numbers(over_data):
    """Where axes are of one length, they are still told apart."""
    kernel, data = over("sgld", over_data)
    starts = jax.random.normal(KEY, (M, M))
    runs = run(kernel, starts, data, stacked="members", num_chains=M)
    for member in range(M):
        alone = run(kernel, starts[member], data, num_chains=M)
        same_leaves(runs[member].position, alone[member].position)


@pytest.mark.full
@pytest.mark.parametrize("position", [STARTS, draws_of], ids=["one for each", "by keys"])
def test_in_batches_of_chains_and_after_a_kill(tmp_path, position):
    kernel, data = over("sgld", True)
    whole = run(kernel, position, data, stacked="members")
    batched = run(
        kernel, position, data, stacked="members", chain_batch_size=2, checkpoint=tmp_path / "run"
    )
    same_leaves(batched[2].position, whole[2].position)
    again = ewsg.resume(tmp_path / "run" / "chains-000000", data, kernel=kernel)
    same_leaves(again[2].position, whole[2].position[: again.num_chains])
