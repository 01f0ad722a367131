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
from jax.sharding import Mesh

import ewsg_jax as ewsg
from ewsg_jax.rows import _spread as spread
from tests.run import answers_on_four_devices as answers
from tests.run import stops
from tests.run.four_devices import (
    BOTH,
    CHAINS,
    DATA,
    DEVICES,
    KEY,
    MODEL,
    ROWS,
    STEPS,
    N,
    X,
    built,
    close,
    close_to,
    cut,
    sampled,
    stepped,
)

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


def chains_of_each_method(name):
    kernel = built(name)
    one, four = sampled(kernel), sampled(kernel, CHAINS)
    close(one.position, four.position)
    assert one.evaluations.tolist() == four.evaluations.tolist()
    assert len({tuple(x) for x in four.position[:, -1].tolist()}) == 7


def chains_that_the_devices_divide():
    for kernel in (built("saga_ld"), ewsg.sgld(MODEL, 1e-3, batch_size=4, rows="epochs")):
        close(sampled(kernel, None, 8).position, sampled(kernel, CHAINS, 8).position)


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
            rest = ewsg.resume(f"{folder}/run", ROWS, kernel=kernel, mesh=two)
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
        rest = ewsg.resume(f"{folder}/run", ROWS, kernel=kernel)
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
                rest = ewsg.resume(path, ROWS, kernel=kernel, mesh=later)
            assert rest.num_steps == STEPS
            close(rest.position, whole.position)


def stopped(kernel, mesh, path):
    """A run that ends after 8 of its steps, as if killed."""
    stops.after(8, lambda: sampled(kernel, mesh, 5, checkpoint=path))


def states_go_on():
    # The memory is each chain's, or that of all where they have one start.
    for name, mesh in itertools.product(("saga_ld", "cv_ld"), (CHAINS, BOTH)):
        kernel = built(name)
        whole, part = sampled(kernel, mesh, 5), sampled(kernel, mesh, 5, steps=8)
        rest = ewsg.sample(KEY, kernel, None, ROWS, STEPS - 8, state=part.state, mesh=mesh)
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
                    mesh=mesh,
                )
            )
        assert any("diverged" in str(each.message) for each in told)
    assert found[0].diverged_at.tolist() == found[1].diverged_at.tolist()


def stacks_and_shared_batches():
    stack = ewsg.stack([ewsg.sgld(MODEL, h, batch_size=4) for h in (1e-3, 1e-2)])
    close(sampled(stack).whole.position, sampled(stack, CHAINS).whole.position)
    # With a memory of parts of the rows: each member goes on from its own.
    for method in (ewsg.saga_ld, ewsg.cv_ld):
        stack = ewsg.stack([method(MODEL, h, batch_size=4) for h in (1e-3, 1e-2, 2e-2)])
        runs = sampled(stack, DATA, 5, steps=8)
        whole = sampled(stack[2], DATA, 5)
        close(runs[2].position, whole.position[:, :8])
        options = {"state": runs[2].state, "mesh": DATA, "progress": False}
        rest = ewsg.sample(KEY, stack[2], None, ROWS, STEPS - 8, **options)
        close(rest.position, whole.position[:, 8:])
    kernel = built("sgld")
    for mesh in (CHAINS, BOTH):
        shared = sampled(kernel, mesh, 6, shared_minibatch=True)
        assert shared.shared_minibatch
    one, four = (sampled(kernel, mesh, 6, shared_minibatch=True) for mesh in (None, CHAINS))
    close(one.position, four.position)


def rows_are_taken_from_where_they_are():
    numbers = jnp.array([[0, 102], [25, 26]])
    data = ROWS | {"seen": np.arange(N) % 3 == 0, "place": np.arange(N)}
    cut = spread.over(DATA, data)
    found = jax.jit(lambda cut: ewsg.rows.gather(cut, numbers).rows)(cut)
    for name, rows in data.items():
        assert found[name].dtype == rows.dtype
        assert (np.asarray(found[name]) == rows[np.asarray(numbers)]).all()
    # Of the first part four, of the others none, one and two.
    some = np.array([0, 3, 4, 24, 55, 100, 102])
    here = cut.subset(some)
    assert np.asarray(here.size)[:, 0].tolist() == [4, 0, 1, 2]
    for part, own in enumerate((some[:4], some[:0], some[4:5], some[5:])):
        assert (np.asarray(here.rows["x"])[part, : len(own)] == X[own]).all()
    # What a sum over them takes is these rows.
    summed = MODEL.likelihood_gradient(jnp.ones(3), spread.over(DATA, ROWS).subset(some))
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
        f"forecast: {name}": functools.partial(answers.forecast_is_that_of_one_device, name)
        for name in answers.FORECAST
    }
    alone = (
        chains_that_the_devices_divide,
        rows_and_chains,
        full_gradients_are_those_of_one_device,
        estimates_are_unbiased,
        batches_are_of_each_device_own_rows,
        runs_go_on_elsewhere,
        states_go_on,
        what_is_kept_and_lost,
        stacks_and_shared_batches,
        rows_are_taken_from_where_they_are,
        rows_by_probability,
        rows_by_probability_are_unbiased,
        covariances_are_those_of_all_batches,
        kept_covariances_and_carried_indices,
        *answers.CHECKS,
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
