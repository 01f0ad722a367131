"""An estimator that says its noise is known to forecasts and to halving, whoever wrote it."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ewsg_jax as ewsg
from ewsg_jax.gradients import NoiseModel
from tests import own

pytestmark = pytest.mark.full

KEY = jax.random.key(0)
MODEL = ewsg.models.gaussian_location()
ROWS = jax.random.normal(KEY, (25, 2)) * jnp.array([1.0, 2.0])


@pytest.fixture(scope="module")
def mode():
    return ewsg.find_mode(KEY, MODEL, jnp.zeros(2), ROWS)


@ewsg.module
class Plain(ewsg.gradients.OfRows):
    """The gradient of a batch, as `uniform` has it."""

    def noise_model(self, data):
        return NoiseModel(self, order=1.0)


@ewsg.module
class Like(ewsg.gradients.OfRows):
    """Estimates whose errors are those of another estimator."""

    other: ewsg.gradients.GradientEstimator

    def noise_model(self, data):
        return self.other.noise_model(data)

    def evaluations(self, data):
        return self.other.evaluations(data)


def forecast(mode, estimator):
    return ewsg.forecast(ewsg.kernel(ewsg.dynamics.langevin(0.01), estimator), mode, ROWS)


def assert_same(found, expected):
    for name in ("variance_ratio", "mean_shift", "autocorrelation_time", "covariance"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))
    assert found.by == expected.by
    assert found.passes_per_step == expected.passes_per_step


@pytest.mark.parametrize("name", ["uniform", "svrg", "saga", "control_variate"])
def test_its_forecast_is_that_of_the_estimator_that_it_imitates(mode, name):
    theirs = getattr(ewsg.gradients, name)(MODEL, batch_size=5)
    mine = (
        own.of_rows(Plain, MODEL) if name == "uniform" else own.of_rows(Like, MODEL, other=theirs)
    )
    assert_same(forecast(mode, mine), forecast(mode, theirs))


def test_so_is_the_forecast_of_weights_around_it(mode):
    mine, theirs = own.of_rows(Plain, MODEL), ewsg.gradients.uniform(MODEL, batch_size=5)
    weighted = [ewsg.gradients.exponentially_weighted(each) for each in (mine, theirs)]
    assert_same(*(forecast(mode, each) for each in weighted))


def test_halving_takes_the_order_that_it_says():
    halved = [
        ewsg.halve(
            KEY,
            ewsg.kernel(ewsg.dynamics.langevin(0.01), estimator),
            jnp.zeros(2),
            ROWS,
            100,
            num_chains=8,
            progress=False,
        )
        for estimator in (own.of_rows(Plain, MODEL), ewsg.gradients.uniform(MODEL, batch_size=5))
    ]
    assert halved[0].order == 1
    np.testing.assert_array_equal(halved[0].half.sd, halved[1].half.sd)


@pytest.fixture
def methods():
    """Methods on an estimator that says its noise, and on one that does not."""

    def on(cls):
        def build(posterior, step_size, *, batch_size):
            estimator = own.of_rows(cls, posterior, batch_size)
            return ewsg.kernel(ewsg.dynamics.langevin(step_size), estimator)

        return build

    record = dict.fromkeys(("title", "bias", "evaluations", "memory", "source", "hazard"), "")
    names = {"plain_ld": Plain, "averaged_ld": own.Averaged}
    for name, cls in names.items():
        build = on(cls)
        build.__name__ = name
        ewsg.method(**record, dynamics=("langevin",), estimator=name, example={"batch_size": 2})(
            build
        )
    yield names
    for name in names:
        ewsg.METHODS.pop(name)


def test_a_plan_takes_a_method_whose_estimator_says_its_noise(methods):
    rows = jax.random.normal(KEY, (2_000, 2))
    table = {}
    for names in (["sgld"], ["plain_ld", "averaged_ld"]):
        plan = ewsg.plan(KEY, MODEL, jnp.zeros(2), rows, methods=names, progress=False)
        table |= {str(candidate.way): candidate for candidate in plan.table}
    mine, theirs = table["langevin + plain_ld"], table["langevin + uniform"]
    for name in ("batch_size", "step_size", "sd_error", "mean_error", "passes"):
        assert getattr(mine, name) == getattr(theirs, name)
    assert "its noise is unknown: averaged" in table["langevin + averaged_ld"].why_not


@pytest.mark.parametrize("base", [Plain, type(ewsg.gradients.uniform(MODEL, batch_size=5))])
def test_a_class_that_changes_estimates_has_to_say_its_noise_anew(mode, base):
    """It may have a memory, of which a forecast and halving would know nothing."""

    class Derived(base):
        init = own.Averaged.init
        propose = own.Averaged.propose
        commit = own.Averaged.commit

    derived = own.of_rows(ewsg.module(Derived), MODEL)
    for estimator in (derived, ewsg.gradients.exponentially_weighted(derived)):
        with pytest.raises(ValueError, match=r"got derived, one of your own without a noise"):
            forecast(mode, estimator)
    kernel = ewsg.kernel(ewsg.dynamics.langevin(0.01), derived)
    with pytest.raises(ValueError, match=r"must be one whose bias has a known order.*got derived"):
        ewsg.halve(KEY, kernel, jnp.zeros(2), ROWS, 100)


def test_a_derived_class_that_changes_no_estimate_keeps_the_model(mode):
    class Named(Plain):
        def check(self, position, data):
            super().check(position, data)

    named = own.of_rows(ewsg.module(Named), MODEL)
    assert_same(forecast(mode, named), forecast(mode, own.of_rows(Plain, MODEL)))


def test_a_memory_that_changes_is_not_shared_by_two_chains():
    """The chains of h and h/2 have one memory, so halving refuses it whatever the noise is."""

    class Remembering(own.Averaged):
        def noise_model(self, data):
            return NoiseModel(self, order=math.inf)

    kernel = ewsg.kernel(ewsg.dynamics.langevin(0.01), own.of_rows(ewsg.module(Remembering), MODEL))
    with pytest.raises(ValueError, match=r"must be one whose bias has a known order"):
        ewsg.halve(KEY, kernel, jnp.zeros(2), ROWS, 100)


@pytest.mark.parametrize(
    ("model", "error", "message"),
    [
        ("none", TypeError, r"noise_model of Saying must return .*NoiseModel; got 'none'"),
        (NoiseModel(anchor="table"), ValueError, "measured on no svrg estimator"),
        (NoiseModel(unknown="rows in an order"), ValueError, "got rows in an order: saying"),
    ],
)
def test_models_that_say_too_little(mode, model, error, message):
    class Saying(Plain):
        def noise_model(self, data):
            return model

    with pytest.raises(error, match=message):
        forecast(mode, own.of_rows(ewsg.module(Saying), MODEL))


def test_a_run_by_batches_of_ones_own_tells_their_heat():
    """Without a law of rows, a model is what `gradient_noise` goes by."""
    labels = {"labels": lambda data: jnp.zeros(len(data), int), "num_strata": 1}
    strata = ewsg.gradients.stratified(MODEL, batch_size=5, **labels)
    plain = ewsg.gradients.uniform(MODEL, batch_size=5)
    excess = []
    for estimator in (strata, plain):
        kernel = ewsg.kernel(ewsg.dynamics.langevin(0.01), estimator)
        run = ewsg.sample(KEY, kernel, jnp.zeros(2), ROWS, 100, num_chains=4, progress=False)
        excess.append(ewsg.diagnostics.gradient_noise(KEY, kernel, run, ROWS).largest)
    assert excess[0] == pytest.approx(excess[1], rel=0.25)
