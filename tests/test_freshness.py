"""Every public call takes what its functions read when it is called: globals, attributes, closures,
arrays.

The right answer is that of a function that is new and holds the value as a constant, bit for bit.
"""

import contextlib
import dataclasses
import functools
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ewsg_jax as ewsg
from ewsg_jax.base import freshness
from tests.ways_of_reading import WAYS, gaussian, settings_module

KEY = jax.random.key(0)
DATA = jnp.linspace(-1.0, 2.0, 12)


def log_prior(position):
    return -0.5 * position**2


def one_step(log_likelihood, prior=log_prior, **options):
    """Two steps of full gradients, which are a function of the key and the posterior."""
    kernel = ewsg.ld(ewsg.Posterior(log_likelihood, prior), 0.01)
    return ewsg.sample(KEY, kernel, jnp.float32(0.5), DATA, 2, **options)


@functools.cache
def right(value):
    """The draws of a function that holds the value."""
    return one_step(gaussian(value)).position


@contextlib.contextmanager
def compiled_programs():
    """The seconds that each program took which was compiled in a block."""
    found = []

    def listen(event, seconds, **_):
        if "backend_compile" in event:
            found.append(seconds)

    jax.monitoring.register_event_duration_secs_listener(listen)
    yield found
    jax.monitoring.unregister_event_duration_listener(listen)


@pytest.mark.full
def test_a_function_may_hold_a_typed_key():
    """As the state of a network with dropout does."""
    key = jax.random.key(3)
    held = one_step(
        lambda position, datum: -0.5 * ((datum - position) / (1.0 if key.ndim == 0 else 2.0)) ** 2
    )
    np.testing.assert_array_equal(held.position, right(1.0))


@pytest.mark.usual_parameters("of_global", "of_jitted", "of_function")
@pytest.mark.parametrize("way", WAYS)
def test_a_run_has_the_value_of_its_time(way):
    log_likelihood, put = way()
    found = []
    for value in (1.0, 3.0, 1.0):
        put(value)
        found.append(one_step(log_likelihood).position)
        np.testing.assert_allclose(found[-1], right(value), rtol=2e-6)
    assert (found[0] == found[2]).all()
    assert (found[0] != found[1]).any()


@pytest.mark.full
def test_equal_objects_have_their_own_values():
    """JAX finds the program of one for the other."""

    @dataclasses.dataclass(unsafe_hash=True)
    class Own:
        scale: list = dataclasses.field(compare=False)

        def __call__(self, position, datum):
            return -0.5 * ((datum - position) / self.scale[0]) ** 2

    for value in (1.0, 3.0):
        np.testing.assert_allclose(one_step(Own([value])).position, right(value), rtol=2e-6)


@pytest.mark.full
def test_values_that_come_back_are_no_new_program():
    own = {"scale": 1.0}

    def log_likelihood(position, datum):
        return -0.5 * ((datum - position) / own["scale"]) ** 2

    kernel = ewsg.ld(ewsg.Posterior(log_likelihood, log_prior), 0.01)
    for value, is_new in ((1.0, True), (1.0, False), (3.0, True), (1.0, False), (3.0, False)):
        own["scale"] = value
        with compiled_programs() as found:
            ewsg.sample(KEY, kernel, jnp.float32(0.5), DATA, 2)
        assert (len(found) > 0) is is_new, value


def of_file(path):
    put = lambda value: path.write_text(repr(value))
    scale = lambda: float(path.read_text())
    return lambda position, datum: -0.5 * ((datum - position) / scale()) ** 2, put


def of_name_made_up(path):
    put = settings_module()[1]
    name = {"name": "".join(["sc", "ale"])}
    own = lambda: vars(sys.modules["settings_of" + "_a_test"])[name["name"]]
    return lambda position, datum: -0.5 * ((datum - position) / own()) ** 2, put


@pytest.mark.usual_parameters("of_file")
@pytest.mark.parametrize("way", [of_file, of_name_made_up], ids=lambda way: way.__name__)
def test_a_second_look_sees_what_no_digest_shows(way, tmp_path, monkeypatch):
    """A model that reads a file is traced anew from time to time, here in every call."""
    monkeypatch.setattr(freshness, "LOOK_SHARE", float("inf"))
    log_likelihood, put = way(tmp_path / "scale")
    for value in (1.0, 3.0, 1.0, 3.0):
        put(value)
        with compiled_programs() as found:
            run = one_step(log_likelihood).position
        np.testing.assert_allclose(run, right(value), rtol=2e-6)
    assert found == []


def test_a_second_look_is_a_hundredth_of_the_time(monkeypatch):
    clock, traced = [0.0], []
    monkeypatch.setattr(freshness.time, "perf_counter", lambda: clock[0])

    class Of:
        pass

    def trace(model):
        traced.append(clock[0])
        clock[0] += 0.001
        return b"program"

    model = Of()
    look = freshness._Look(model, trace, lambda _: None)
    for _ in range(1_000):
        clock[0] += 0.001
        look.look()
    # At once after what was compiled, and then after each tenth of a second.
    assert len(traced) == 2 + 9
    assert look.version is None


@pytest.mark.full
def test_what_tracing_changes_is_no_change():
    traced = []

    def log_likelihood(position, datum):
        traced.append(1)
        return -0.5 * (datum - position) ** 2

    kernel = ewsg.ld(ewsg.Posterior(log_likelihood, log_prior), 0.01)
    ewsg.sample(KEY, kernel, jnp.float32(0.5), DATA, 2)
    with compiled_programs() as found:
        ewsg.sample(KEY, kernel, jnp.float32(0.5), DATA, 2)
    assert found == []


@pytest.mark.full
def test_what_is_kept_and_moments_and_schedules_and_starts():
    own = {"factor": 1.0}
    kernel = ewsg.ld(ewsg.Posterior(gaussian(1.0), log_prior), lambda step: 0.01 * own["factor"])

    def run(**options):
        start = {"position": jnp.float32(0.5)} | options
        return ewsg.sample(KEY, kernel, start.pop("position"), DATA, 2, **start)

    def values():
        return (
            run().position,
            run(keep=lambda position: position * own["factor"]).draws,
            run(moments=ewsg.moments(of=scaled)).moments.mean,
            run(position=start).position,
            run(keep=scaled).draws,
        )

    def scaled(position):
        return position * own["factor"]

    def start(key):
        return jnp.float32(own["factor"])

    first = values()
    own["factor"] = 2.0
    second = values()
    own["factor"] = 1.0
    for a, b, again in zip(first, second, values(), strict=True):
        assert (np.asarray(a) != np.asarray(b)).all()
        assert (np.asarray(a) == np.asarray(again)).all()


@pytest.mark.full
def test_modes_forecasts_checks_and_predictions():
    own = {"scale": 1.0, "factor": 1.0}
    posterior = ewsg.Posterior(
        lambda p, x: -0.5 * ((x - p) / own["scale"]) ** 2, lambda p: -0.5 * p**2
    )
    kernel = ewsg.sgld(posterior, 0.01, batch_size=3)
    draws = np.random.default_rng(0).normal(0.4, 0.3, (4, 200))

    def of_constant(value):
        constant = ewsg.Posterior(gaussian(value), lambda p: -0.5 * p**2)
        mode = ewsg.find_mode(KEY, constant, jnp.float32(0), DATA)
        report = ewsg.check(KEY, jnp.asarray(draws), constant, DATA)
        return mode, report, ewsg.forecast(ewsg.sgld(constant, 0.01, batch_size=3), mode, DATA)

    for value in (1.0, 3.0):
        own["scale"] = own["factor"] = value
        mode, report, forecast = of_constant(value)
        found = ewsg.find_mode(KEY, posterior, jnp.float32(0), DATA)
        assert float(found.position) == pytest.approx(float(mode.position), rel=1e-6)
        assert float(found.sd) == pytest.approx((12 / value**2 + 1) ** -0.5, rel=1e-5)
        told = ewsg.check(KEY, jnp.asarray(draws), posterior, DATA)
        np.testing.assert_allclose(told.sd_ratio, report.sd_ratio, rtol=1e-4)
        again = ewsg.forecast(kernel, found, DATA).variance_ratio
        np.testing.assert_allclose(again, forecast.variance_ratio, rtol=1e-3)
        expected, _ = told.expectation(lambda p: own["factor"] * jnp.ones_like(p))
        assert float(expected) == pytest.approx(value)


@pytest.mark.full
def test_densities_of_rows_and_predictions():
    own = {"scale": 1.0}
    posterior = ewsg.Posterior(lambda p, x: -0.5 * ((x - p) / own["scale"]) ** 2, log_prior)
    samples = one_step(gaussian(1.0))

    def scaled(position, x):
        return x * own["scale"] * jnp.ones_like(position)

    for value in (1.0, 3.0):
        own["scale"] = value
        found = ewsg.diagnostics.log_predictive_density(samples, posterior, DATA)
        each = -0.5 * ((np.asarray(DATA)[:, None] - np.asarray(samples.position)[0]) / value) ** 2
        np.testing.assert_allclose(found, np.log(np.exp(each).mean(1)), rtol=1e-4, atol=1e-6)
        assert samples.predict(scaled, 2.0) == pytest.approx(2 * value)


@pytest.mark.full
def test_metrics_and_dynamics():
    own = {"metric": 0.5}
    posterior = ewsg.Posterior(gaussian(1.0), log_prior)
    kernel = ewsg.sgrld(
        posterior,
        0.01,
        batch_size=3,
        inverse_metric=lambda p, data: own["metric"] * jnp.ones_like(p),
    )
    found = []
    for value in (0.5, 2.0):
        own["metric"] = value
        found.append(ewsg.sample(KEY, kernel, jnp.float32(0.5), DATA, 1).position.item())
    assert found[0] != found[1]


@pytest.mark.full
def test_bijectors_of_ones_own():
    class Scaled:
        factor = 1.0

        def forward(self, position):
            return position * self.factor

        def log_det(self, position):
            return jnp.log(jnp.float32(self.factor))

    own = Scaled()
    posterior = ewsg.Posterior(gaussian(1.0), log_prior).transformed(own)
    found = []
    for value in (1.0, 2.0, 1.0):
        own.factor = value
        found.append(float(ewsg.find_mode(KEY, posterior, jnp.float32(0), DATA).position))
    assert found[1] == pytest.approx(found[0] / 2, rel=1e-5)
    assert found[2] == found[0]


def test_nothing_is_held():
    """What a function read is forgotten with it."""

    def make():
        own = {"scale": 1.0}

        def function(position):
            return position * own["scale"]

        with freshness.as_of_now(function):
            pass
        own["scale"] = 2.0
        with freshness.as_of_now(function):
            assert freshness.now()

    make()
    before = len(freshness._VERSIONS)
    for _ in range(10):
        make()
    assert len(freshness._VERSIONS) <= before
