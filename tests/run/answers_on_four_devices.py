"""What comes before and after a run, over four devices: modes, checks, forecasts and plans."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

import ewsg_jax as ewsg
from ewsg_jax.answers.plan import stiff_directions
from ewsg_jax.rows import _spread as spread
from tests.run.four_devices import (
    DATA,
    DEVICES,
    KEY,
    MODEL,
    ROWS,
    X,
    built,
    close,
    close_to,
    sampled,
)

FORECAST = ("ld", "sgld", "svrg_ld", "saga_ld", "cv_uld", "ewsg", "nc_sghmc", "leverage", "blocks")


def modes_are_those_of_one_device():
    automatic = ewsg.Posterior(MODEL.log_likelihood, MODEL.log_prior)
    for model in (MODEL, automatic):
        one, four = (ewsg.find_mode(KEY, model, jnp.zeros(3), ROWS, mesh=m) for m in (None, DATA))
        close(one.position, four.position)
        np.testing.assert_allclose(one.sd, four.sd, rtol=1e-9)
        assert (one.num_steps, one.data_passes) == (four.num_steps, four.data_passes)
    # By L-BFGS, and by products of the Hessian with vectors.
    wide = jax.tree.map(
        lambda x: jnp.asarray(x),
        {"x": np.random.default_rng(1).standard_normal((203, 300)), "y": np.arange(203) % 2.0},
    )
    one, four = (ewsg.find_mode(KEY, MODEL, jnp.zeros(300), wide, mesh=m) for m in (None, DATA))
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
    mode = ewsg.find_mode(KEY, MODEL, jnp.zeros(3), ROWS)
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
        assert [str(each.candidate) for each in one.table] == [
            str(each.candidate) for each in four.table
        ]
        for mine, other in zip(one.table, four.table, strict=True):
            close_to(mine[1:-2], other[1:-2])
            assert mine.why_not == other.why_not
        close_to(one.gaussian.sd, four.gaussian.sd)
        assert (one.burn_in, one.notes) == (four.burn_in, four.notes)
        run = ewsg.sample(KEY, four.kernel, four.start, data, 20, num_chains=4, mesh=DATA)
        assert run.is_finite.all()


def walls_are_those_of_one_device():
    """Of 103 rows one part of four has a copy, which is no row."""
    places = jnp.asarray(np.random.default_rng(2).standard_normal((16, 3)))
    asked = MODEL.predictor, jnp.ones(3), places
    one, four = (
        stiff_directions._row_bound(*asked, rows, jnp.ones(()))
        for rows in (jax.tree.map(jnp.asarray, ROWS), spread.over(DATA, ROWS))
    )
    close(one, four)


def batches_of_a_plan_are_shared():
    three = Mesh(DEVICES[:3], ("data",))
    plan = ewsg.plan(KEY, MODEL, jnp.zeros(3), ROWS, mesh=three, methods=["sgld", "svrg_ld"])
    assert not [each for each in plan.table if each.candidate.rows == "leverage"]
    assert all(each.batch_size % 3 == 0 for each in plan.table)
    run = ewsg.sample(KEY, plan.kernel, plan.start, ROWS, 3000, num_chains=8, mesh=three)
    np.testing.assert_allclose(run.sd, plan.gaussian.sd, rtol=0.15)


CHECKS = (
    modes_are_those_of_one_device,
    checks_say_what_they_say_on_one_device,
    plans_are_those_of_one_device,
    walls_are_those_of_one_device,
    batches_of_a_plan_are_shared,
)
