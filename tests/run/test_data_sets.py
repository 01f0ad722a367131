"""A stack of data sets is one run: each as by itself, rows that do not count leave no trace."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ewsg_jax as ewsg
from ewsg_jax.run.stacks.stack import over
from tests import contract
from tests.run.alike import close

pytestmark = pytest.mark.full

LENGTHS = (7, 12, 9)
D, C = 3, 2
KEY = jax.random.key(3)
LOGISTIC = ewsg.models.logistic_regression()
NETWORK = ewsg.Posterior(
    lambda w, row: -0.5 * (jnp.tanh(row["x"] @ w) - row["y"]) ** 2,
    lambda w: -0.5 * jnp.sum(w**2),
    name="network",
)


def data_sets(lengths=LENGTHS):
    rng = np.random.default_rng(1)
    return [
        {"x": rng.normal(size=(n, D)) + n / 5, "y": (rng.random(n) < 0.5).astype(float)}
        for n in lengths
    ]


SETS = data_sets()
METHODS = {
    "sgld": lambda p: ewsg.sgld(p, 0.02, batch_size=3),
    "subsets": lambda p: ewsg.sghmc(p, 0.05, friction=1.0, batch_size=7, replace=False),
    "psgld": lambda p: ewsg.psgld(p, 0.02, batch_size=3),
    "uld": lambda p: ewsg.uld(p, 0.05, friction=1.0),
    "ewsg": lambda p: ewsg.ewsg(p, 0.05, friction=1.0, batch_size=3, chain_length=2),
    "svrg": lambda p: ewsg.svrg_ld(p, 0.02, batch_size=3, refresh_every=2),
    "saga": lambda p: ewsg.saga_ld(p, 0.02, batch_size=3),
    "control variate": lambda p: ewsg.cv_uld(p, 0.05, friction=1.0, batch_size=3),
    "metropolis": lambda p: ewsg.random_walk_metropolis(p, 0.3),
}


def run(kernel, data, num_steps=30, **changes):
    options = {"num_chains": C, "burn_in": 4, "thin": 2} | changes
    start = None if "state" in changes else jnp.zeros(D)
    return ewsg.sample(KEY, kernel, start, data, num_steps, **options)


@pytest.mark.usual_parameters("subsets")
@pytest.mark.parametrize("name", METHODS)
def test_each_is_sampled_as_by_itself(x64, name):
    """With keys of its own; three steps on posteriors of linear predictors and of none."""
    for posterior in (LOGISTIC, NETWORK) if name in ("sgld", "svrg", "saga") else (LOGISTIC,):
        kernel = METHODS[name](posterior)
        stacked = ewsg.stack_data(SETS)
        stack, _ = over(kernel, stacked)
        together = stack.init(KEY, stack.spread(jnp.full(D, 0.1)), stacked.rows)
        step = jax.jit(stack.step)
        for t in range(3):
            together, _ = step(jax.random.fold_in(KEY, t), together, stacked.rows)
        for number in (0, 1):
            data = jax.tree.map(jnp.asarray, SETS[number])
            state = kernel.init(jax.random.fold_in(KEY, number), jnp.full(D, 0.1), data)
            for t in range(3):
                key = jax.random.fold_in(jax.random.fold_in(KEY, t), number)
                state, _ = contract.compiled_step(kernel)(key, state, data)
            close(together.position[number], state.position)
            inner = state.dynamics._replace(position=(), step=())
            close(jax.tree.map(lambda x, number=number: x[number], together.dynamics.rest), inner)


@pytest.mark.full
@pytest.mark.parametrize("rows", ["random", "blocks", "epochs"])
def test_a_run_is_its_steps(x64, rows):
    """Also where data sets are of one length, which need no padding: by any law of rows."""
    sets = SETS if rows == "random" else data_sets((8, 8, 8))
    kernel = ewsg.kernel(
        ewsg.dynamics.splitting(0.05, friction=1.0),
        ewsg.gradients.uniform(LOGISTIC, batch_size=3, rows=rows),
    )
    stacked = ewsg.stack_data(sets)
    runs = run(kernel, stacked, num_steps=10, burn_in=0, thin=1)
    stack, _ = over(kernel, stacked)
    init_key, run_key, _ = jax.random.split(KEY, 3)
    chain = jax.random.fold_in(run_key, 1)
    state = stack.init(
        jax.random.fold_in(jax.random.fold_in(init_key, 1), 1),
        stack.spread(jnp.zeros(D)),
        stacked.rows,
    )
    step = jax.jit(stack.step)
    for t in range(10):
        state, _ = step(jax.random.fold_in(chain, t), state, stacked.rows)
        for number in range(3):
            close(runs[number].position[1, t], state.position[number])


@pytest.mark.full
def test_what_is_told_of_a_run():
    """By labels and lengths; going on, saved, in ArviZ and in a picture."""
    kernel, labels = METHODS["svrg"](LOGISTIC), ["a", "b", "c"]
    data = ewsg.stack_data(SETS, labels=labels)
    assert repr(data) == "StackedData(3 data sets of 7 to 12 rows)"
    close([one["x"] for one in data], [one["x"] for one in SETS], 1e-6)
    runs = run(kernel, data)
    assert runs.values["data_set"].tolist() == labels
    assert [one.num_data for one in runs] == list(LENGTHS)
    assert runs[1].data_passes == pytest.approx(runs[1].gradient_evaluations / C / 12)
    more = run(kernel, data, state=runs.state, burn_in=0)
    whole = run(kernel, data, 60)
    close(runs.concatenate(more)[2].position, whole[2].position, 1e-5)


@pytest.mark.full
def test_other_ways_to_give_them(tmp_path):
    """Own kernels; files, ArviZ and a picture."""
    listed = ewsg.stack_data(SETS)
    grid = [
        METHODS["sgld"](LOGISTIC),
        ewsg.sgld(LOGISTIC, 1e30, batch_size=3),
        ewsg.sgld(LOGISTIC, 0.01, batch_size=3),
    ]
    with pytest.warns(
        RuntimeWarning,
        match=r"1 of 3 members have diverged chains.*data_set = 1, step_size = 1e\+30",
    ):
        runs = run(ewsg.stack(grid), listed)
    close(runs[0].position, run(grid[0], listed)[0].position, 1e-5)
    close(runs[2].position, run(grid[2], listed)[2].position, 1e-5)
    runs.save(tmp_path / "runs.npz")
    loaded = ewsg.StackedSamples.load(tmp_path / "runs.npz", kernel=ewsg.stack(grid), data=listed)
    assert loaded[2].num_data == 9
    close(loaded[2].state, runs[2].state, 0)
    runs = run(grid[0], ewsg.stack_data(SETS, labels=list("abc")))
    pytest.importorskip("matplotlib")
    assert runs.plot().axes[0].get_xlabel() == "member"
    pytest.importorskip("arviz")
    found = runs.to_arviz()["posterior"]["position"].sel(data_set="b")
    np.testing.assert_array_equal(found.values, runs[1].position)


@pytest.mark.full
@pytest.mark.parametrize("check_data", [True, False])
def test_a_metric_that_reads_rows_is_refused_where_some_are_copies(check_data):
    """Its sum would count the copies."""
    short, long = np.full((4, 1), 4.0, np.float32), np.full((7, 1), 7.0, np.float32)

    def run(metric, sets):
        kernel = ewsg.sgrld(
            ewsg.models.gaussian_location(), 1e-4, inverse_metric=metric, batch_size=2
        )
        data = ewsg.stack_data(sets)
        return ewsg.sample(jax.random.key(0), kernel, jnp.ones(1), data, 4, check_data=check_data)

    def of_rows(position, data):
        return 1 / (1 + jnp.sum(jax.tree.leaves(data)[0] ** 2, axis=0))

    with pytest.raises(ValueError, match=r"inverse_metric must not read the data.*by itself"):
        run(of_rows, [short, long])
    run(of_rows, [long, long + 1])
    run(lambda position, data: 1 / (1 + position**2), [short, long])
