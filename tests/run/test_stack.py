"""A stack of kernels is one kernel and one run: each member is what its own kernel would be."""

import dataclasses
import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ewsg_jax as ewsg
from ewsg_jax.kernels.protocol import chain_axes
from ewsg_jax.run import compiled_loop
from ewsg_jax.run.stacks.stack import over
from tests import contract
from tests.run.alike import close

STEPS = (0.02, 0.05, 0.03)
N, D, C = 40, 3, 4
ROWS = jax.random.normal(jax.random.key(9), (N, D)) + 1
MODEL = ewsg.models.gaussian_location()
KEY = jax.random.key(0)


def run(kernel, position=None, num_steps=30, data=ROWS, **changes):
    options = {"num_chains": C, "burn_in": 5, "thin": 2} | changes
    start = jnp.zeros(D) if position is None and "state" not in changes else position
    return ewsg.sample(KEY, kernel, start, data, num_steps, **options)


@contract.every_kernel(shift=2)
def test_members_step_as_their_own_kernels(x64, name, options):
    kernels = [contract.build(name, options, step_size=h) for h in STEPS]
    data, keys = contract.data(), [jax.random.fold_in(KEY, t) for t in range(5)]
    stack = ewsg.stack(kernels)
    position = jnp.asarray(contract.POSITION)
    together = stack.init(KEY, stack.spread(position), data)
    step = jax.jit(stack.step)
    infos = []
    for key in keys:
        together, info = step(key, together, data)
        infos.append(info)
    for member in (0, 2):
        kernel = stack[member]
        assert kernel == kernels[member]
        state = kernel.init(KEY, position, data)
        for key, info in zip(keys, infos, strict=True):
            state, own = contract.compiled_step(kernel)(key, state, data)
            for field in ("index_acceptance", "acceptance", "step_size"):
                told = np.broadcast_to(getattr(info, field), len(STEPS))
                np.testing.assert_allclose(told[member], getattr(own, field), rtol=1e-6)
        close(together.position[member], state.position)
        inner = state.dynamics._replace(position=(), step=())
        close(jax.tree.map(lambda x, member=member: x[member], together.dynamics.rest), inner)
        assert int(together.step) == int(state.step) == len(keys)


ESTIMATORS = {
    "uniform": lambda posterior: ewsg.gradients.uniform(posterior, batch_size=5),
    "svrg": lambda posterior: ewsg.gradients.svrg(posterior, batch_size=5),
    "saga": lambda posterior: ewsg.gradients.saga(posterior, batch_size=5),
    "of the start": lambda posterior: ewsg.gradients.control_variate(posterior, batch_size=5),
    "of the data": lambda posterior: ewsg.gradients.control_variate(
        posterior, batch_size=5, center=jnp.ones(D)
    ),
    "epochs": lambda posterior: ewsg.gradients.uniform(posterior, batch_size=5, rows="epochs"),
    "full": ewsg.gradients.full,
}


def kernels_of(name, posterior=MODEL):
    return [
        ewsg.kernel(ewsg.dynamics.splitting(h, friction=1.0), ESTIMATORS[name](posterior))
        for h in STEPS
    ]


@pytest.mark.usual_parameters("uniform")
@pytest.mark.parametrize("name", ESTIMATORS)
def test_a_run_is_that_of_every_member(x64, name):
    """Draws, costs and states; going on from the states of one member, and of all."""
    kernels = kernels_of(name)
    runs = run(ewsg.stack(kernels))
    assert runs.values == {"step_size": pytest.approx(STEPS)}
    assert len(runs) == len(list(runs)) == 3
    alone = run(kernels[1])
    close(runs[1].position, alone.position)
    close(runs[1].state, alone.state)
    for field in (
        "step",
        "step_size",
        "evaluations",
        "gradient_evaluations",
        "num_steps",
        "diverged_at",
    ):
        np.testing.assert_array_equal(getattr(runs[1], field), getattr(alone, field))
    more = run(ewsg.stack(kernels), state=runs.state, burn_in=0)
    on = run(kernels[1], state=runs[1].state, burn_in=0)
    close(more[1].position, on.position)
    both = runs.concatenate(more)
    close(both[1].position, np.concatenate([alone.position, on.position], axis=1))


@pytest.mark.full
@pytest.mark.parametrize("rows", ["epochs", "block_epochs", "block_sweeps"])
@pytest.mark.parametrize("differ_by", ["step_size", "center", "data"])
def test_members_go_through_their_rows_in_the_order_of_their_own_kernel(rows, differ_by):
    """Over the ends of epochs; fetched ahead where the rows are the same for all members."""

    def make(number):
        h, center = (STEPS[number], 0.0) if differ_by == "step_size" else (0.01, float(number))
        center = jnp.full(D, center * (differ_by == "center"))
        return ewsg.cv_ld(MODEL, h, batch_size=7, center=center, rows=rows)

    kernels, keys = [make(number) for number in range(3)], jax.random.split(KEY, C)
    stack, data = ewsg.stack(kernels), ROWS
    if differ_by == "data":
        stack, data = over(kernels[0], ewsg.stack_data([ROWS] * 3))
    state = jax.vmap(stack.init, (0, 0, None))(keys, jnp.zeros((C, 3, D)), data)

    @jax.jit
    def drawn(kernel, state, data):
        of_step = lambda key, state, step: kernel.draw(key, state.at_step(step), data)
        of_chains = jax.vmap(of_step, (0, chain_axes(False), None))
        return jax.vmap(of_chains, (None, None, 0))(keys, state, jnp.arange(20))

    told = drawn(stack, state, data)
    for member, kernel in enumerate(kernels):
        own = keys if differ_by != "data" else jax.vmap(jax.random.fold_in, (0, None))(keys, member)
        alone = jax.vmap(kernel.init, (0, 0, None))(own, jnp.zeros((C, D)), ROWS)
        wanted = jax.tree.leaves(drawn(kernel, alone, ROWS).batch)[0]
        found = jax.tree.leaves(told.batch)[0]
        np.testing.assert_array_equal(
            found if differ_by == "step_size" else found[:, :, member], wanted
        )
    batch = stack.fetch(told, data).batch
    is_fetched = isinstance(batch, ewsg.rows.Batch) and batch.rows is not None
    assert is_fetched == (differ_by == "step_size")


@pytest.mark.full
@pytest.mark.parametrize(
    "changes",
    [
        {"keep": jnp.sum},
        {"keep": None, "moments": ewsg.moments(covariance="dense", weights="step_size")},
        {"keep": None, "moments": ewsg.moments(jnp.square)},
        {"shared_minibatch": True},
        {"position": lambda key: jax.random.normal(key, (D,))},
        {"position": np.random.default_rng(4).normal(size=(C, D)), "stacked": True},
    ],
    ids=[
        "keep",
        "dense moments",
        "moments of a function",
        "shared batches",
        "starts by keys",
        "starts of chains",
    ],
)
def test_whatever_a_run_is_asked_for_is_as_for_each(x64, changes):
    kernels = kernels_of("uniform")
    runs, alone = run(ewsg.stack(kernels), **changes), run(kernels[2], **changes)
    close(runs[2].draws, alone.draws)
    if alone.moments is not None:
        close(vars(runs[2].moments), vars(alone.moments))
        later = run(ewsg.stack(kernels), state=runs.state, num_steps=40, **changes)
        on = run(kernels[2], state=alone.state, num_steps=40, **changes)
        close(vars(runs.concatenate(later)[2].moments), vars(alone.concatenate(on).moments))


def weighted(mass):
    return ewsg.kernel(
        ewsg.dynamics.splitting(0.05, friction=1.0, inverse_mass=mass),
        ewsg.gradients.uniform(MODEL, batch_size=5),
    )


def centered(center):
    return ewsg.kernel(
        ewsg.dynamics.langevin(0.01),
        ewsg.gradients.control_variate(
            ewsg.models.logistic_regression(), batch_size=5, center=center
        ),
    )


def by_rows(share):
    law = ewsg.rows.by_probability(1 + share * jnp.arange(N))
    return ewsg.kernel(
        ewsg.dynamics.langevin(0.01), ewsg.gradients.uniform(MODEL, batch_size=5, rows=law)
    )


def test_rows_that_no_batch_of_a_member_has_are_reported():
    """The first member stands for all; its rows are numbered as those of the data."""
    drawn = [jnp.arange(N) < 30, jnp.arange(N) >= 10]
    kernels = [
        ewsg.kernel(
            ewsg.dynamics.langevin(0.01),
            ewsg.gradients.uniform(
                MODEL, batch_size=5, rows=ewsg.rows.by_probability(jnp.where(some, 1.0, 0.0))
            ),
        )
        for some in drawn
    ]
    with pytest.warns(RuntimeWarning, match=r"are 0 for 10 of them.*\(row 30\)"):
        run(ewsg.stack(kernels))


@pytest.mark.usual_parameters("masses")
@pytest.mark.parametrize(
    "kernels",
    [
        [weighted(jnp.eye(D)), weighted(jnp.diag(jnp.arange(1.0, 4.0)))],
        [centered(jnp.zeros(D)), centered(jnp.ones(D))],
        [by_rows(0.0), by_rows(1.0)],
        [ewsg.sgld(MODEL, 0.01, batch_size=5, temperature=t) for t in (1.0, 0.5)],
    ],
    ids=["masses", "centers", "laws of rows", "temperatures"],
)
def test_members_may_differ_in_any_number(x64, kernels):
    is_logistic = "logistic" in repr(kernels)
    data = {"x": ROWS, "y": ROWS[:, 0] > 1} if is_logistic else ROWS
    runs = run(ewsg.stack(kernels), data=data)
    for member in (0, 1):
        close(runs[member].position, run(kernels[member], data=data).position)
    assert np.abs(runs[0].position - runs[1].position).max() > 1e-3


@pytest.mark.usual_parameters("sgld")
@pytest.mark.parametrize("method", [ewsg.sgld, ewsg.svrg_ld], ids=["sgld", "svrg_ld"])
def test_a_member_that_diverges_is_marked_and_the_others_go_on(x64, method):
    kernels = [method(MODEL, h, batch_size=5) for h in (0.01, 1e200, 0.02, 1e150)]
    with pytest.warns(
        RuntimeWarning, match=r"2 of 4 members have diverged.*size = 1e\+200; step_size = 1e\+150"
    ):
        runs = run(ewsg.stack(kernels))
    assert runs.is_stable.tolist() == [True, False, True, False]
    assert "stable=2" in repr(runs)
    with pytest.warns(RuntimeWarning, match="4 of 4 chains diverged"):
        alone = run(kernels[1])
    np.testing.assert_array_equal(runs[1].diverged_at, alone.diverged_at)
    close(runs[1].state.position, alone.state.position)
    close(runs[2].position, run(kernels[2]).position)
    # They stay lost where it goes on, whatever they remember, and the others do go on.
    memory = (
        jax.tree.map(lambda x: x.at[:, 1].set(jnp.nan), runs.state.memory)
        if method is ewsg.svrg_ld
        else ()
    )
    if memory:
        whole = dataclasses.replace(runs.whole, state=runs.state._replace(memory=memory))
        runs = dataclasses.replace(runs, whole=whole)
    with pytest.warns(RuntimeWarning, match="2 of 4 members"):
        more = run(ewsg.stack(kernels), state=runs.state, burn_in=0)
    np.testing.assert_array_equal(more[1].diverged_at, runs[1].diverged_at)
    close(more[2].position, run(kernels[2], state=runs[2].state, burn_in=0).position)


@pytest.mark.full
def test_a_run_ends_when_all_members_are_lost():
    kernels = [ewsg.sgld(MODEL, h, batch_size=5) for h in (1e30, 1e35)]
    with pytest.warns(RuntimeWarning, match="2 of 2 members have diverged"):
        runs = run(ewsg.stack(kernels), num_steps=100_000, keep=None, moments=ewsg.moments())
    assert runs.whole.num_steps < 100_000


@pytest.mark.full
def test_counted_evaluations_are_those_of_a_member():
    """Firefly chains say themselves what they evaluate; of a stack, the members' mean."""
    model, data = ewsg.models.logistic_regression(), {"x": ROWS, "y": ROWS[:, 0] > 1}
    kernels = [
        ewsg.flymc(model, h, capacity=N, resample_probability=0.3, proposal_capacity=N)
        for h in (0.01, 0.1, 1.0)
    ]
    runs = run(ewsg.stack(kernels), data=data)
    alone = [run(kernel, data=data).gradient_evaluations for kernel in kernels]
    assert len(set(alone)) > 1
    assert abs(runs[0].gradient_evaluations - np.mean(alone)) <= 2


@pytest.mark.full
def test_one_under_vmap_is_a_stack(x64):
    def make(h, friction):
        return ewsg.sghmc(MODEL, h, friction=friction, batch_size=5)

    frictions = (1.0, 2.0, 3.0)
    by_vmap = ewsg.stack(jax.vmap(make)(jnp.array(STEPS), jnp.array(frictions)))
    by_list = ewsg.stack([make(h, friction) for h, friction in zip(STEPS, frictions, strict=True)])
    assert set(by_vmap.values) == set(by_list.values) == {"step_size", "friction"}
    close(run(by_vmap)[1].position, run(by_list)[1].position)


def test_a_stack_is_a_value():
    stack = ewsg.stack([ewsg.sgld(MODEL, h, batch_size=5) for h in STEPS])
    assert (
        stack
        == ewsg.stack([ewsg.sgld(MODEL, h, batch_size=5) for h in STEPS])
        == pickle.loads(pickle.dumps(stack))
    )
    assert stack != ewsg.stack([ewsg.sgld(MODEL, 2 * h, batch_size=5) for h in STEPS])
    assert hash(stack) == hash(ewsg.stack([ewsg.sgld(MODEL, 2 * h, batch_size=5) for h in STEPS]))
    assert repr(stack).startswith("stack of 3: kernel(dynamics=langevin(step_size=<float64[3]>")
    assert stack[-1] == stack[2]
    with pytest.raises(IndexError, match="member must be from 0 to 2; got 3"):
        stack[3]


def test_other_numbers_share_a_program():
    compiled_loop.advance_small.clear_cache()
    for factor in (1.0, 0.5):
        run(ewsg.stack([ewsg.sgld(MODEL, factor * h, batch_size=5) for h in STEPS]))
        assert compiled_loop.advance_small._cache_size() == 1


@pytest.mark.full
@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16])
def test_positions_keep_their_dtype(x64, dtype):
    """Beside numbers in double precision."""
    start = {"a": jnp.zeros(D, dtype)}
    model = ewsg.Posterior(
        log_prior=lambda p: -0.5 * jnp.sum(p["a"] ** 2),
        log_likelihood=lambda p, row: -0.5 * jnp.sum((row - p["a"]) ** 2),
    )
    kernels = [ewsg.uld(model, h, friction=1.0) for h in STEPS]
    data = ROWS.astype(dtype)
    runs = ewsg.sample(KEY, ewsg.stack(kernels), start, data, 10, num_chains=2)
    alone = ewsg.sample(KEY, kernels[1], start, data, 10, num_chains=2)
    assert runs[1].position["a"].dtype == dtype
    tolerance = 0.05 if dtype == jnp.bfloat16 else 1e-5
    np.testing.assert_allclose(
        np.asarray(runs[1].position["a"], float),
        np.asarray(alone.position["a"], float),
        atol=tolerance,
    )


@pytest.mark.full
def test_runs_are_saved(tmp_path):
    stack = ewsg.stack(kernels_of("svrg"))
    runs = run(stack)
    runs.save(tmp_path / "runs.npz")
    with pytest.raises(
        ValueError, match=r"it holds samples of a stack, which ewsg_jax.StackedSamples.load reads"
    ):
        ewsg.load(tmp_path / "runs.npz")
    runs[0].save(tmp_path / "one.npz")
    with pytest.raises(ValueError, match=r"it holds samples, which ewsg_jax.load reads"):
        ewsg.StackedSamples.load(tmp_path / "one.npz")
    whole = ewsg.StackedSamples.load(tmp_path / "runs.npz", kernel=stack, data=ROWS)
    close(whole[2].state, runs[2].state, 0)
    without = ewsg.StackedSamples.load(tmp_path / "runs.npz")
    with pytest.raises(AttributeError, match=r"samples\.state has no position"):
        _ = without[2].state.position
    for member, error in ((3, IndexError), (slice(2), TypeError), (1.0, TypeError)):
        with pytest.raises(error, match="member must be"):
            runs[member]
    for loaded in (whole, without):
        np.testing.assert_array_equal(loaded[1].position, runs[1].position)
        np.testing.assert_array_equal(loaded.values["step_size"], STEPS)
        np.testing.assert_array_equal(loaded.diverged_at, runs.diverged_at)
        assert len(loaded) == len(STEPS)


@pytest.mark.full
def test_runs_in_arviz():
    pytest.importorskip("arviz")
    runs = run(ewsg.stack([ewsg.sgld(MODEL, h, batch_size=5) for h in STEPS]))
    posterior = runs.to_arviz()["posterior"]
    found = posterior["position"].sel(step_size=STEPS[1])
    np.testing.assert_array_equal(found.values, runs[1].position)
    two = run(ewsg.stack([ewsg.sgld(MODEL, h, batch_size=5, temperature=10 * h) for h in STEPS]))
    posterior = two.to_arviz()["posterior"]
    assert posterior["position"].dims[:3] == ("chain", "draw", "member")
    np.testing.assert_allclose(posterior["temperature"].values, 10 * np.array(STEPS))


@pytest.mark.full
def test_a_plot_shows_widths_by_step_size_and_who_was_lost(tmp_path):
    matplotlib = pytest.importorskip("matplotlib")
    with pytest.warns(RuntimeWarning, match="1 of 3 members"):
        runs = run(ewsg.stack([ewsg.sgld(MODEL, h, batch_size=5) for h in (0.02, 1e30, 0.001)]))
    figure = runs.plot(tmp_path / "runs.png")
    means, widths = figure.axes
    assert (tmp_path / "runs.png").stat().st_size > 5_000
    lines, (lost,) = widths.lines[:-1], widths.lines[-1:]
    assert len(lines) == D
    np.testing.assert_array_equal(lines[1].get_xdata(), [0.001, 0.02])
    np.testing.assert_allclose(
        lines[1].get_ydata(), [runs[k].position[..., 1].std() for k in (2, 0)], rtol=1e-5
    )
    np.testing.assert_allclose(
        means.lines[0].get_ydata()[1], runs[0].position[..., 0].mean(), rtol=1e-5
    )
    assert lost.get_xdata()[0] == 1e30
    assert means.get_xscale() == "log"
    assert isinstance(figure, matplotlib.figure.Figure)
