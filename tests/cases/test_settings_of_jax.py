"""Settings of JAX that people have on in one process with other libraries: the draws are those that
they are without.
"""

import contextlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ewsg_jax as ewsg

KEY = jax.random.key(0)
RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(40, 3)).astype(np.float32)
ROWS = {"x": X, "y": (X[:, 0] > 0).astype(np.int32)}
MODEL = ewsg.models.logistic_regression()
ZEROS = jnp.zeros(3)
BATCH = {"friction": 5.0, "batch_size": 8}
KERNELS = {
    "ewsg_vr": ewsg.ewsg_vr(MODEL, 0.02, refresh_every=5, **BATCH),
    "saga_ld": ewsg.saga_ld(MODEL, 1e-3, batch_size=8),
    "nc_sghmc": ewsg.nc_sghmc(MODEL, 0.02, **BATCH),
    "cp_sghmc": ewsg.cp_sghmc(MODEL, 0.02, labels="y", num_strata=2, **BATCH),
    "hamcmc": ewsg.hamcmc(MODEL, 1e-3, batch_size=8, memory_size=2),
    "flymc": ewsg.flymc(MODEL, 0.2, capacity=40),
    "nuts": ewsg.nuts(MODEL, 0.1),
    "signs": ewsg.sgld(MODEL, 1e-3, batch_size=8, noise="rademacher", rows="blocks"),
    "epochs": ewsg.sgld(MODEL, 1e-3, batch_size=7, rows="block_epochs"),
}
"""Kernels that have all the code of their estimators, dynamics and rows in them."""
SETTINGS = {
    "strict": {"jax_numpy_dtype_promotion": "strict"},
    "rank": {"jax_numpy_rank_promotion": "raise"},
    "nans": {"jax_debug_nans": True, "jax_debug_infs": True},
    "leaks": {"jax_check_tracer_leaks": True},
    "no_jit": {"jax_disable_jit": True},
}


@contextlib.contextmanager
def settings(name):
    """Settings of JAX by their names in `SETTINGS`."""
    before = {setting: getattr(jax.config, setting) for setting in SETTINGS[name]}
    try:
        for setting, value in SETTINGS[name].items():
            jax.config.update(setting, value)
        yield
    finally:
        for setting, value in before.items():
            jax.config.update(setting, value)


def draws(name, data=ROWS, steps=6):
    options = {"num_chains": 2, "progress": False, "moments": ewsg.moments(weights="step_size")}
    return ewsg.sample(KEY, KERNELS[name], ZEROS, data, steps, **options).position


@pytest.fixture(scope="module")
def plain():
    """The draws without a setting, made when they are compared first."""
    known = {}
    return lambda name: known.setdefault(name, draws(name))


BOTH = ("ewsg_vr", "nc_sghmc")
OF_SETTING = {
    "strict": [*BOTH, "saga_ld", "hamcmc", "flymc", "signs"],
    "rank": [*BOTH, "cp_sghmc", "nuts", "epochs"],
}
"""Between them all kernels."""


@pytest.mark.usual_parameters("ewsg_vr-strict", "nc_sghmc-rank")
@pytest.mark.parametrize(
    ("name", "setting"),
    [
        pytest.param(name, setting, id=f"{name}-{setting}")
        for setting in SETTINGS
        for name in OF_SETTING.get(setting, ["ewsg_vr"])
    ],
)
def test_draws_are_those_without_the_setting(name, setting, plain):
    expected = plain(name)
    with settings(setting):
        with_setting = draws(name)
    np.testing.assert_allclose(with_setting, expected, rtol=1e-4, atol=1e-5)


def test_functions_of_float32_are_evaluated_in_float64():
    """The search for a mode ends in float64, and a strict user has constants of float32."""
    prior = ewsg.Posterior(MODEL.log_likelihood, lambda w: -jnp.float32(0.5) * jnp.sum(w**2))
    expected = ewsg.find_mode(KEY, prior, ZEROS, ROWS, progress=False)
    with settings("strict"):
        found = ewsg.find_mode(KEY, prior, ZEROS, ROWS, progress=False)
    np.testing.assert_allclose(found.position, expected.position, rtol=1e-5)


@pytest.mark.full
@pytest.mark.parametrize("setting", ["strict", "rank"])
def test_answers_are_those_without_the_setting(setting):
    def answers():
        mode = ewsg.find_mode(KEY, MODEL, ZEROS, ROWS, progress=False)
        samples = ewsg.sample(
            KEY, ewsg.uld(MODEL, 0.2, friction=3.0), ZEROS, ROWS, 400, num_chains=4, progress=False
        )
        report = ewsg.check(KEY, samples, MODEL, ROWS)
        mean = report.expectation(lambda w: w[0] > 0)[0]
        plan = ewsg.plan(KEY, MODEL, ZEROS, ROWS, progress=False)
        return mode.sd, report.sd_ratio, mean, plan.gaussian.sd

    expected = answers()
    with settings(setting):
        found = answers()
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-4)


def test_arrays_that_were_made_with_64_bits_are_taken_without():
    """Such as a start, rows, draws, and the mode of an earlier cell of a notebook."""
    jax.config.update("jax_enable_x64", True)
    try:
        start, rows = jnp.full(3, 0.1), jax.tree.map(jnp.asarray, ROWS)
        rows["x"] = rows["x"].astype(float)
        tiny, state = jnp.full(3, 1e-60), draws_state()
    finally:
        jax.config.update("jax_enable_x64", False)
    kernel = ewsg.sgld(MODEL, 1e-3, batch_size=8)
    expected = ewsg.sample(KEY, kernel, jnp.full(3, 0.1), ROWS, 6, progress=False)
    found = ewsg.sample(KEY, kernel, start, rows, 6, progress=False)
    np.testing.assert_array_equal(found.position, expected.position)
    assert found.state.position.dtype == jnp.float32
    stacked = ewsg.sample(KEY, kernel, start[None], rows, 6, stacked=True, progress=False)
    np.testing.assert_array_equal(stacked.position, expected.position)
    assert MODEL.gradient(start, rows).dtype == jnp.float32
    with pytest.raises(ValueError, match="position must hold numbers that float32 holds"):
        ewsg.sample(KEY, kernel, tiny, ROWS, 6, progress=False)
    with pytest.raises(ValueError, match=r"state\.dynamics\.position of float32; got float64"):
        ewsg.sample(KEY, kernel, None, ROWS, 6, state=state, progress=False)


def draws_state():
    kernel = ewsg.sgld(MODEL, 1e-3, batch_size=8)
    return ewsg.sample(KEY, kernel, jnp.zeros(3), ROWS, 2, progress=False).state
