"""Runs over four forced devices of a CPU, for `test_devices`: a process of its own, which prints
what checks say.

`python on_four_devices.py NAME …` makes the checks of these names, all without any.
"""

import functools
import itertools
import sys
import tempfile
import time
import traceback
import warnings

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, Mesh

import ewsg_jax as ewsg
from ewsg_jax.planning import walls
from ewsg_jax.rows import spread
from ewsg_jax.rows.shards import Shard
from ewsg_jax.sampling import devices, loop
from ewsg_jax.sampling.starts import keys_of

jax.config.update("jax_num_cpu_devices", 4)
jax.config.update("jax_enable_x64", True)
jax.config.update("jax_disable_most_optimizations", True)
devices.QUICK = {}
N, STEPS, KEY = 103, 20, jax.random.key(7)
X = np.random.default_rng(0).standard_normal((N, 3))
ROWS = {"x": X, "y": (X[:, 0] + 0.3 * X[:, 1] > 0).astype(float)}
MODEL = ewsg.models.logistic_regression(prior_scale=1.0)
DEVICES = np.array(jax.devices())
CHAINS, DATA = Mesh(DEVICES, ("chains",)), Mesh(DEVICES, ("data",))
BOTH = jax.make_mesh((2, 2), ("chains", "data"), axis_types=(AxisType.Explicit, AxisType.Explicit))
ON_DATA = (
    "ld",
    "sgld",
    "svrg_ld",
    "saga_hmc",
    "cv_uld",
    "ewsg",
    "hamcmc",
    "psgld",
    "random_walk_metropolis",
    "nc_sghmc",
    "ewsg_vr",
)
FORECAST = ("ld", "sgld", "svrg_ld", "saga_ld", "cv_uld", "ewsg", "nc_sghmc", "leverage", "blocks")


def built(name):
    """A named method with batches of 4 rows."""
    example = dict(ewsg.METHODS[name].example)
    if "batch_size" in example:
        example["batch_size"] = 4
    return ewsg.METHODS[name].build(MODEL, 1e-3, **example)


def sampled(kernel, mesh=None, num_chains=7, steps=STEPS, rows=ROWS, **options):
    """Seven chains: no number of devices divides them."""
    wanted = {"progress": False, "mesh": mesh} | options
    return ewsg.sample(KEY, kernel, jnp.full(3, 0.1), rows, steps, num_chains=num_chains, **wanted)


def close(a, b):
    np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)


def close_to(a, b):
    """Of what is found in rounds, each of which takes rounding on."""
    np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)


def cut(rows, parts, axes):
    """Rows in parts, by NumPy: as even as can be, in order, made equally long by copies."""
    n = len(rows["x"])
    bounds = [n * part // parts for part in range(parts + 1)]
    most = -(-n // parts)
    numbers = np.array(
        [[a + k % (b - a) for k in range(most)] for a, b in itertools.pairwise(bounds)]
    )
    size = np.array(
        [[b - a] * (b - a) + [0] * (most - b + a) for a, b in itertools.pairwise(bounds)], np.int32
    )
    return Shard(
        rows=jax.tree.map(lambda x: jnp.asarray(x[numbers]), rows),
        size=jnp.asarray(size),
        total=n,
        parts=parts,
        axes=axes,
    )


def stepped(kernel, parts, num_chains, steps=STEPS):
    """A run whose rows are in parts, step by step under `vmap` on one device: step, part, chain,
    number.
    """
    own, starts = keys_of(KEY, num_chains), jnp.full((num_chains, 3), 0.1)
    rows = cut(ROWS, parts, ("parts",))

    def over(function, in_axes):
        chains = jax.vmap(function, (0, 0, None))
        return jax.jit(jax.vmap(chains, (*in_axes, 0), axis_name="parts"))

    def one_step(key, state, rows):
        return kernel.transition(kernel.draw(key, state, rows), state, rows)[0]

    state = over(kernel.init, (None, None))(own.states, starts, rows)
    step, found = over(one_step, (None, 0)), []
    for t in range(steps):
        at = jax.vmap(lambda key, t=t: jax.random.fold_in(key, t))(own.steps)
        state = step(at, state, rows)
        found.append(state.position)
    return np.asarray(found)


def chains_of_each_method(name):
    kernel = built(name)
    one, four = sampled(kernel), sampled(kernel, CHAINS)
    close(one.position, four.position)
    assert one.evaluations.tolist() == four.evaluations.tolist()
    assert len({tuple(x) for x in four.position[:, -1].tolist()}) == 7


def rows_of_each_method(name):
    kernel = built(name)
    expected = stepped(kernel, 4, 5)
    # What all devices make of a chain is the same on each, bit for bit.
    assert (expected == expected[:, :1]).all()
    close(sampled(kernel, DATA, 5).position, expected[:, 0].swapaxes(0, 1))


def rows_and_chains():
    for name in ("saga_ld", "ewsg"):
        kernel = built(name)
        expected = stepped(kernel, 2, 5)[:, 0].swapaxes(0, 1)
        close(sampled(kernel, BOTH, 5).position, expected)


def full_gradients_are_those_of_one_device():
    for name in ("ld", "uld", "random_walk_metropolis"):
        close(sampled(built(name), DATA).position, sampled(built(name)).position)


def estimates_are_unbiased():
    rows = {"x": X[:5], "y": ROWS["y"][:5]}
    parts, point = cut(rows, 2, ("parts",)), jnp.array([0.3, -0.2, 0.1])
    whole = MODEL.gradient(point, rows)
    for estimator in (
        ewsg.gradients.uniform(MODEL, batch_size=2),
        ewsg.gradients.svrg(MODEL, batch_size=2),
        ewsg.gradients.saga(MODEL, batch_size=2),
        ewsg.gradients.control_variate(MODEL, batch_size=2, center=jnp.ones(3)),
    ):

        def estimate(batch, part, estimator=estimator):
            memory = estimator.init(KEY, point + 0.5, part)
            drawn = estimator.draw(KEY, part)
            chosen = ewsg.rows.Batch(batch)
            drawn = drawn._replace(batch=chosen) if hasattr(drawn, "word") else chosen
            memory, at, _ = estimator.refresh(drawn, memory, jnp.int32(0), point, part)
            return estimator.propose(drawn, memory, at, part, None)[0].gradient

        mapped = jax.jit(jax.vmap(estimate, axis_name="parts"))
        # Rows 0 and 1 are of the first part, 2 to 4 of the second.
        every = [
            mapped(jnp.array([[i], [j]], jnp.int32), parts) for i in range(2) for j in range(3)
        ]
        assert all((np.asarray(x[0]) == np.asarray(x[1])).all() for x in every)
        close(np.mean([x[0] for x in every], axis=0), whole)


def covariances_are_those_of_all_batches():
    """Of what each part draws from its own rows, by listing; of more parts than one a device."""
    rows = {"x": X[:5], "y": ROWS["y"][:5]}
    parts, point = cut(rows, 2, ("parts",)), jnp.array([0.3, -0.2, 0.1])
    independent = [[[i], [j]] for i in range(2) for j in range(3)]
    subsets = [[[0, 1], pair] for pair in ([0, 1], [0, 2], [1, 2])]
    for replace, batches in ((True, independent), (False, subsets)):
        for build, structure in itertools.product(
            (ewsg.gradients.covariance_tracking, ewsg.gradients.kept_covariance),
            ("dense", "diagonal", "low_rank"),
        ):
            size = 2 * len(batches[0][0])
            estimator = build(MODEL, batch_size=size, replace=replace, structure=structure, rank=3)

            def estimate(batch, part, estimator=estimator):
                memory = estimator.init(KEY, point + 0.5, part)
                memory, at, _ = estimator.refresh(batch, memory, jnp.int32(0), point, part)
                found = estimator.propose(ewsg.rows.Batch(batch), memory, at, part, None)[0]
                return found.gradient, jax.vmap(found.covariance.times)(jnp.eye(3))

            mapped = jax.jit(jax.vmap(estimate, out_axes=None, axis_name="parts"))
            every, told = zip(
                *(mapped(jnp.array(batch, jnp.int32), parts) for batch in batches), strict=True
            )
            close(np.mean(every, axis=0), MODEL.gradient(point, rows))
            expected = np.cov(np.array(every).T, bias=True)
            close_to(told[0], np.diag(np.diag(expected)) if structure == "diagonal" else expected)


def kept_covariances_and_carried_indices():
    for kernel in (
        ewsg.nc_sghmc(MODEL, 1e-3, friction=2.0, batch_size=4, covariance="kept", refresh_every=5),
        ewsg.nc_sghmc(
            MODEL, 1e-3, friction=2.0, batch_size=8, structure="low_rank", rank=2, replace=False
        ),
        ewsg.ewsg_vr(MODEL, 1e-3, friction=2.0, batch_size=4, carry_index=True),
    ):
        expected = stepped(kernel, 4, 5)
        assert (expected == expected[:, :1]).all()
        run = sampled(kernel, DATA, 5)
        close_to(run.position, expected[:, 0].swapaxes(0, 1))
        # Two parts on each device, and each chain's memory on the devices of its own.
        two = Mesh(DEVICES[:2], ("data",))
        with tempfile.TemporaryDirectory() as folder:
            stopped(kernel, DATA, f"{folder}/run")
            rest = ewsg.resume(f"{folder}/run", ROWS, kernel=kernel, mesh=two, progress=False)
        close_to(rest.position, run.position)
        close_to(sampled(kernel, BOTH, 5).position, stepped(kernel, 2, 5)[:, 0].swapaxes(0, 1))


def in_parts(kernel, parts):
    """The kernel whose law of rows has a table for each part."""
    found = kernel.estimator
    while not hasattr(found, "law"):
        found = found.estimator

    def is_law(part):
        return part is found.law

    return jax.tree.map(
        lambda part: part.over_parts(parts) if is_law(part) else part, kernel, is_leaf=is_law
    )


def rows_by_probability():
    weights = np.random.default_rng(3).uniform(0.5, 2.0, N)
    weights[[3, 40, 41]] = 60.0  # in every batch of their part
    strata = np.arange(N) % 2
    for rows in (
        ewsg.rows.by_probability(weights),
        ewsg.rows.by_probability(weights, strata=strata),
    ):
        for build in (ewsg.sgld, ewsg.svrg_ld, ewsg.saga_ld, ewsg.cv_ld):
            kernel = build(MODEL, 1e-3, batch_size=16, rows=rows)
            expected = stepped(in_parts(kernel, 4), 4, 5)
            assert (expected == expected[:, :1]).all()
            run = sampled(kernel, DATA, 5)
            close(run.position, expected[:, 0].swapaxes(0, 1))
        weighted = ewsg.gradients.exponentially_weighted(
            ewsg.gradients.uniform(MODEL, batch_size=16, rows=rows)
        )
        kernel = ewsg.kernel(ewsg.dynamics.euler(1e-3, friction=5.0), weighted)
        close(
            sampled(kernel, BOTH, 5).position,
            stepped(in_parts(kernel, 2), 2, 5)[:, 0].swapaxes(0, 1),
        )
    with tempfile.TemporaryDirectory() as folder:
        kernel = ewsg.sgld(MODEL, 1e-3, batch_size=16, rows=rows)
        whole = sampled(kernel, DATA, 5)
        stopped(kernel, DATA, f"{folder}/run")
        rest = ewsg.resume(f"{folder}/run", ROWS, kernel=kernel, progress=False)
        close(rest.position, whole.position)


def rows_by_probability_are_unbiased():
    rows, weights = {"x": X[:5], "y": ROWS["y"][:5]}, np.array([1.0, 3.0, 1.0, 2.0, 4.0])
    parts, point = cut(rows, 2, ("parts",)), jnp.array([0.3, -0.2, 0.1])
    law = ewsg.rows.by_probability(weights)
    for build in (
        ewsg.gradients.uniform,
        ewsg.gradients.svrg,
        ewsg.gradients.saga,
        ewsg.gradients.control_variate,
    ):
        estimator = build(MODEL, batch_size=2, rows=law.of_size(2).over_parts(2))

        def estimate(batch, part, estimator=estimator):
            memory = estimator.init(KEY, point + 0.5, part)
            drawn = estimator.draw(KEY, part)
            law = estimator.law
            chosen = ewsg.rows.Batch(batch, weights=law._of(law.weight, part, 0)[batch])
            drawn = drawn._replace(batch=chosen) if hasattr(drawn, "word") else chosen
            memory, at, _ = estimator.refresh(drawn, memory, jnp.int32(0), point, part)
            found = estimator.propose(drawn, memory, at, part, None)[0]
            return found.gradient, estimator.gradient_at(found, at, part)

        mapped = jax.jit(jax.vmap(estimate, out_axes=None, axis_name="parts"))
        # Rows 0 and 1 are of the first part, 2 to 4 of the second; each by its weight among its
        # part's.
        total = 0.0
        for i, j in itertools.product(range(2), range(3)):
            gradient, probed = mapped(jnp.array([[i], [j]], jnp.int32), parts)
            close(gradient, probed)
            total += weights[i] / 4 * weights[2 + j] / 7 * np.asarray(gradient)
        # Of the table's words 32 bits are random.
        np.testing.assert_allclose(total, MODEL.gradient(point, rows), rtol=1e-8)
    law, keys = estimator.law, jax.random.split(KEY, 4000)
    drawn = jax.vmap(
        lambda part: jax.vmap(lambda key: law.draw(key, part).indices)(keys), axis_name="parts"
    )(parts)
    for part, own in enumerate((weights[:2], weights[2:])):
        counts = np.bincount(np.ravel(drawn[part]), minlength=len(own))
        expected = 4000 * own / own.sum()
        assert ((counts - expected) ** 2 / expected).sum() < 16


def batches_are_of_each_device_own_rows():
    parts = cut(ROWS, 4, ("parts",))
    law = ewsg.gradients.uniform(MODEL, batch_size=8).law
    keys = jax.random.split(KEY, 4000)
    drawn = jax.vmap(
        lambda part: jax.vmap(lambda key: law.draw(key, part).indices)(keys), axis_name="parts"
    )(parts)
    assert drawn.shape == (4, 4000, 2)
    for part, size in enumerate((25, 26, 26, 26)):
        counts = np.bincount(np.ravel(drawn[part]), minlength=26)
        assert (counts[:size] > 0).all()
        assert (counts[size:] == 0).all()
        expected = 8000 / size
        assert ((counts[:size] - expected) ** 2 / expected).sum() < 80
    # Each part has draws of its own.
    assert (np.asarray(drawn[1]) != np.asarray(drawn[2])).mean() > 0.9


def runs_go_on_elsewhere():
    kernel = built("saga_ld")
    two = {"chains": Mesh(DEVICES[:2], ("chains",)), "data": Mesh(DEVICES[1:3], ("data",))}
    for first in (CHAINS, DATA):
        whole = sampled(kernel, first, 5)
        for later in (None, two[first.axis_names[0]]):
            with tempfile.TemporaryDirectory() as folder:
                path = f"{folder}/run"
                stopped(kernel, first, path)
                rest = ewsg.resume(path, ROWS, kernel=kernel, mesh=later, progress=False)
            assert rest.num_steps == STEPS
            close(rest.position, whole.position)


def stopped(kernel, mesh, path):
    """A run that ends after 8 of its steps, as if killed."""
    keep, loop.run = loop.run, functools.partial(ends_early, loop.run)
    try:
        sampled(kernel, mesh, 5, checkpoint=path)
    finally:
        loop.run = keep


def ends_early(run, advance, outcome, num_steps, *rest):
    return run(advance, outcome, 8, *rest)


def states_go_on():
    kernel = built("saga_ld")
    for mesh in (CHAINS, BOTH):
        whole, part = sampled(kernel, mesh, 5), sampled(kernel, mesh, 5, steps=8)
        rest = ewsg.sample(
            KEY, kernel, None, ROWS, STEPS - 8, state=part.state, mesh=mesh, progress=False
        )
        close(np.concatenate([part.position, rest.position], axis=1), whole.position)


def what_is_kept_and_lost():
    kernel, options = built("sgld"), {"moments": ewsg.moments(), "thin": 3, "burn_in": 2}
    for mesh in (CHAINS, BOTH):
        one = sampled(kernel, mesh if mesh is BOTH else None, 5, **options)
        four = sampled(kernel, mesh, 5, **options)
        close(one.moments.mean, four.moments.mean)
        close(one.position, four.position)
    # One chain starts where its potential overflows: it is lost, alone and in the same step.
    starts = jnp.full((5, 3), 0.1).at[3].set(1e160)
    found = []
    for mesh in (None, CHAINS):
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            found.append(
                ewsg.sample(
                    KEY,
                    ewsg.sgld(MODEL, 1e200, batch_size=4),
                    starts,
                    ROWS,
                    5,
                    stacked=True,
                    progress=False,
                    mesh=mesh,
                )
            )
        assert any("diverged" in str(each.message) for each in told)
    assert found[0].diverged_at.tolist() == found[1].diverged_at.tolist()


def stacks_and_shared_batches():
    stack = ewsg.stack([ewsg.sgld(MODEL, h, batch_size=4) for h in (1e-3, 1e-2)])
    close(sampled(stack).whole.position, sampled(stack, CHAINS).whole.position)
    kernel = built("sgld")
    for mesh in (CHAINS, BOTH):
        shared = sampled(kernel, mesh, 6, shared_minibatch=True)
        assert shared.shared_minibatch
    one, four = (sampled(kernel, mesh, 6, shared_minibatch=True) for mesh in (None, CHAINS))
    close(one.position, four.position)


def modes_are_those_of_one_device():
    automatic = ewsg.Posterior(MODEL.log_likelihood, MODEL.log_prior)
    for model in (MODEL, automatic):
        one, four = (
            ewsg.find_mode(KEY, model, jnp.zeros(3), ROWS, progress=False, mesh=m)
            for m in (None, DATA)
        )
        close(one.position, four.position)
        np.testing.assert_allclose(one.sd, four.sd, rtol=1e-9)
        assert (one.num_steps, one.data_passes) == (four.num_steps, four.data_passes)
    # By L-BFGS, and by products of the Hessian with vectors.
    wide = jax.tree.map(
        lambda x: jnp.asarray(x),
        {"x": np.random.default_rng(1).standard_normal((203, 300)), "y": np.arange(203) % 2.0},
    )
    one, four = (
        ewsg.find_mode(KEY, MODEL, jnp.zeros(300), wide, progress=False, mesh=m)
        for m in (None, DATA)
    )
    np.testing.assert_allclose(one.position, four.position, atol=1e-6)


def checks_say_what_they_say_on_one_device():
    kernel = ewsg.uld(MODEL, 0.1, friction=2.0)
    samples = sampled(kernel, None, 8, steps=3000, burn_in=200, thin=7)
    for size in (1_000, 12):
        reports = [
            ewsg.check(KEY, samples, MODEL, ROWS, batch_size=size, mesh=mesh)
            for mesh in (None, DATA)
        ]
        assert reports[0].outcome == reports[1].outcome
        # Of all rows the same gradients; of batches others, which tell the same.
        within = 1e-9 if size == 1_000 else 0.2
        np.testing.assert_allclose(reports[0].sd_ratio, reports[1].sd_ratio, rtol=within)
    run = sampled(kernel, DATA, 4, steps=400)
    assert ewsg.check(KEY, run, MODEL, ROWS, kernel=kernel, mesh=DATA).kinetic is not None


def forecast_is_that_of_one_device(name):
    mode = ewsg.find_mode(KEY, MODEL, jnp.zeros(3), ROWS, progress=False)
    if name in ewsg.METHODS:
        kernel = built(name)
    else:
        rows = ewsg.rows.leverage(X, mode.covariance) if name == "leverage" else name
        kernel = ewsg.kernel(
            ewsg.dynamics.langevin(1e-2), ewsg.gradients.uniform(MODEL, batch_size=8, rows=rows)
        )
    one, four = (ewsg.forecast(kernel, mode, ROWS, mesh=mesh) for mesh in (None, DATA))
    for told in (
        "variance_ratio",
        "mean_shift",
        "autocorrelation_time",
        "covariance",
        "target",
        "largest_step",
    ):
        close_to(getattr(one, told), getattr(four, told))
    assert one.passes_per_step == four.passes_per_step
    assert one.passes_at_start == four.passes_at_start


def forecasts_of_many_numbers_are_those_of_one_device():
    wide = {"x": np.random.default_rng(1).standard_normal((203, 1_010)), "y": np.arange(203) % 2.0}
    model = ewsg.models.logistic_regression(prior_scale=0.1)
    mode = ewsg.find_mode(KEY, model, jnp.zeros(1_010), wide, progress=False, rank=4)
    kernel = ewsg.sgld(model, 1e-4, batch_size=4)
    one, four = (ewsg.forecast(kernel, mode, wide, mesh=mesh) for mesh in (None, DATA))
    close_to(one.variance_ratio, four.variance_ratio)
    close_to(one.largest_step, four.largest_step)


def plans_are_those_of_one_device():
    model, start = ewsg.models.gaussian_location(), jnp.zeros(3)
    for posterior, data in ((model, X), (MODEL, ROWS)):
        # Where rows could be drawn by leverage the plan is one of all rows.
        some = {
            "methods": ["uld"] if posterior is MODEL else ["uld", "sgld", "saga_ld", "svrg_hmc"]
        }
        one, four = (
            ewsg.plan(KEY, posterior, start, data, mesh=mesh, **some) for mesh in (None, DATA)
        )
        assert [str(each.way) for each in one.table] == [str(each.way) for each in four.table]
        for mine, other in zip(one.table, four.table, strict=True):
            close_to(mine[1:-2], other[1:-2])
            assert mine.why_not == other.why_not
        close_to(one.gaussian.sd, four.gaussian.sd)
        assert (one.burn_in, one.notes) == (four.burn_in, four.notes)
        run = ewsg.sample(
            KEY, four.kernel, four.start, data, 20, num_chains=4, mesh=DATA, progress=False
        )
        assert run.is_finite.all()


def walls_are_those_of_one_device():
    """Of 103 rows one part of four has a copy, which is no row."""
    places = jnp.asarray(np.random.default_rng(2).standard_normal((16, 3)))
    asked = MODEL.predictor, jnp.ones(3), places
    one, four = (
        walls._largest(*asked, rows, jnp.ones(()))
        for rows in (jax.tree.map(jnp.asarray, ROWS), spread.over(DATA, ROWS))
    )
    close(one, four)


def batches_of_a_plan_are_shared():
    three = Mesh(DEVICES[:3], ("data",))
    plan = ewsg.plan(KEY, MODEL, jnp.zeros(3), ROWS, mesh=three, methods=["sgld", "svrg_ld"])
    assert not [each for each in plan.table if each.way.rows == "leverage"]
    assert all(each.batch_size % 3 == 0 for each in plan.table)
    run = ewsg.sample(
        KEY, plan.kernel, plan.start, ROWS, 3000, num_chains=8, mesh=three, progress=False
    )
    np.testing.assert_allclose(run.sd, plan.gaussian.sd, rtol=0.15)


def rows_are_taken_from_where_they_are():
    numbers = jnp.array([[0, 102], [25, 26]])
    data = ROWS | {"seen": np.arange(N) % 3 == 0, "place": np.arange(N)}
    cut = spread.over(DATA, data)
    found = jax.jit(lambda cut: ewsg.rows.gather(cut, numbers).pieces)(cut)
    for name, rows in data.items():
        assert found[name].dtype == rows.dtype
        assert (np.asarray(found[name]) == rows[np.asarray(numbers)]).all()
    # Of the first part four, of the others none, one and two.
    some = np.array([0, 3, 4, 24, 55, 100, 102])
    here = cut.some(some)
    assert np.asarray(here.size)[:, 0].tolist() == [4, 0, 1, 2]
    for part, own in enumerate((some[:4], some[:0], some[4:5], some[5:])):
        assert (np.asarray(here.rows["x"])[part, : len(own)] == X[own]).all()
    # What a sum over them takes is these rows.
    summed = MODEL.likelihood_gradient(jnp.ones(3), spread.over(DATA, ROWS).some(some))
    close(
        summed,
        MODEL.likelihood_gradient(jnp.ones(3), jax.tree.map(lambda x: jnp.asarray(x[some]), ROWS)),
    )


def main(names):
    checks = {
        f"chains: {name}": functools.partial(chains_of_each_method, name) for name in ewsg.METHODS
    }
    checks |= {f"rows: {name}": functools.partial(rows_of_each_method, name) for name in ON_DATA}
    checks |= {
        f"forecast: {name}": functools.partial(forecast_is_that_of_one_device, name)
        for name in FORECAST
    }
    alone = (
        rows_and_chains,
        full_gradients_are_those_of_one_device,
        estimates_are_unbiased,
        batches_are_of_each_device_own_rows,
        runs_go_on_elsewhere,
        states_go_on,
        what_is_kept_and_lost,
        stacks_and_shared_batches,
        modes_are_those_of_one_device,
        checks_say_what_they_say_on_one_device,
        forecasts_of_many_numbers_are_those_of_one_device,
        rows_are_taken_from_where_they_are,
        rows_by_probability,
        rows_by_probability_are_unbiased,
        covariances_are_those_of_all_batches,
        kept_covariances_and_carried_indices,
        plans_are_those_of_one_device,
        walls_are_those_of_one_device,
        batches_of_a_plan_are_shared,
    )
    checks |= {check.__name__: check for check in alone}
    for name in names or checks:
        began = time.perf_counter()
        try:
            checks[name]()
            print(f"{name}\tok\t{time.perf_counter() - began:.1f}", flush=True)
        except Exception:
            print(f"{name}\t{' / '.join(traceback.format_exc().splitlines()[-12:])}", flush=True)
        jax.clear_caches()


if __name__ == "__main__":
    main(sys.argv[1:])
