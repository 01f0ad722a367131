"""Ways in which a function reads a number: each makes a log likelihood and what sets the number."""

import contextvars
import functools
import importlib
import multiprocessing
import os
import sys
import threading
import types
import weakref

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd

scale = 1.0


def gaussian(scale):
    """A log likelihood that reads nothing: its scale is a constant of its own code."""
    return eval(f"lambda position, datum: -0.5 * ((datum - position) / {scale!r}) ** 2")


def of_global():
    def put(value):
        global scale
        scale = value

    return lambda position, datum: -0.5 * ((datum - position) / scale) ** 2, put


def of_closure():
    own = 1.0

    def put(value):
        nonlocal own
        own = value

    return lambda position, datum: -0.5 * ((datum - position) / own) ** 2, put


def of_array():
    own = np.ones(1)
    return (
        lambda position, datum: -0.5 * ((datum - position) / own[0]) ** 2,
        lambda value: own.fill(value),
    )


def of_dictionary():
    own = {"inner": [{"scale": 1.0}]}
    put = functools.partial(own["inner"][0].__setitem__, "scale")
    return lambda position, datum: -0.5 * ((datum - position) / own["inner"][0]["scale"]) ** 2, put


def of_default():
    def function(position, datum, own={"scale": 1.0}):  # noqa: B006 - as people write it
        return -0.5 * ((datum - position) / own["scale"]) ** 2

    return function, functools.partial(function.__defaults__[0].__setitem__, "scale")


def of_partial():
    own = {"scale": 1.0}
    log = functools.partial(
        lambda own, position, datum: -0.5 * ((datum - position) / own["scale"]) ** 2, own
    )
    return log, functools.partial(own.__setitem__, "scale")


class Model:
    """A model with a method for its likelihood."""

    shared = 1.0

    def __init__(self):
        self.scale = 1.0

    def log_likelihood(self, position, datum):
        return -0.5 * ((datum - position) / self.scale / self.shared) ** 2


def of_method():
    model = Model()
    return model.log_likelihood, lambda value: setattr(model, "scale", value)


def of_class():
    class Own(Model):
        pass

    return Own().log_likelihood, lambda value: setattr(Own, "shared", value)


def of_function():
    def log_likelihood(position, datum):
        return -0.5 * ((datum - position) / log_likelihood.scale) ** 2

    log_likelihood.scale = 1.0
    return log_likelihood, functools.partial(setattr, log_likelihood, "scale")


def of_attribute_of_partial():
    helper = functools.partial(abs)
    helper.scale = 1.0
    log_likelihood = lambda position, datum: -0.5 * ((datum - position) / helper.scale) ** 2
    return log_likelihood, functools.partial(setattr, helper, "scale")


def of_builtin_method():
    own = {"scale": 1.0}
    get = own.get
    log_likelihood = lambda position, datum: -0.5 * ((datum - position) / get("scale")) ** 2
    return log_likelihood, functools.partial(own.__setitem__, "scale")


def of_table():
    own = pd.Series({"scale": 1.0})
    log_likelihood = lambda position, datum: -0.5 * ((datum - position) / own["scale"]) ** 2
    return log_likelihood, functools.partial(own.__setitem__, "scale")


def of_slots():
    class Own:
        __slots__ = ("__scale",)

        def __call__(self, position, datum):
            return -0.5 * ((datum - position) / self.__scale) ** 2

        def put(self, value):
            self.__scale = value

    own = Own()
    own.put(1.0)
    return own, own.put


def of_helper():
    module = types.ModuleType("settings_of_a_test")
    exec("def residual(position, datum):\n    return (datum - position) / 1.0", module.__dict__)

    def put(value):
        exec(
            f"def residual(position, datum):\n    return (datum - position) / {value!r}",
            module.__dict__,
        )

    return lambda position, datum: -0.5 * module.residual(position, datum) ** 2, put


def of_jitted():
    own = {"scale": 1.0}
    inner = jax.jit(lambda position, datum: -0.5 * ((datum - position) / own["scale"]) ** 2)
    inner(0.5, 1.0)  # JAX keeps this program
    return lambda position, datum: inner(position, datum), functools.partial(
        own.__setitem__, "scale"
    )


def of_scanned():
    own = {"scale": 1.0}

    def body(total, residual):
        return total - 0.5 * (residual / own["scale"]) ** 2, None

    def log_likelihood(position, datum):
        return jax.lax.scan(body, jnp.float32(0), (datum - position)[None])[0]

    log_likelihood(jnp.float32(0.5), jnp.float32(-1.0))  # JAX keeps what it traced of the body
    return log_likelihood, functools.partial(own.__setitem__, "scale")


def of_custom_derivative():
    own = {"scale": 1.0}

    @jax.custom_jvp
    def log_likelihood(position, datum):
        return -0.5 * ((datum - position) / own["scale"]) ** 2

    @log_likelihood.defjvp
    def _(values, tangents):
        residual = (values[1] - values[0]) / own["scale"]
        return -0.5 * residual**2, residual / own["scale"] * tangents[0]

    return log_likelihood, functools.partial(own.__setitem__, "scale")


def of_code():
    def log_likelihood(position, datum):
        return -0.5 * ((datum - position) / 1.0) ** 2

    def put(value):  # as an editor that loads code again does it
        log_likelihood.__code__ = gaussian(value).__code__

    return log_likelihood, put


def settings_module():
    """A module that can be imported, and what sets its scale."""
    module = types.ModuleType("settings_of_a_test")
    module.scale, sys.modules[module.__name__] = 1.0, module
    return module, functools.partial(setattr, module, "scale")


def of_import_inside():
    def log_likelihood(position, datum):
        import settings_of_a_test

        return -0.5 * ((datum - position) / settings_of_a_test.scale) ** 2

    return log_likelihood, settings_module()[1]


def of_name_imported_inside():
    def log_likelihood(position, datum):
        from settings_of_a_test import scale

        return -0.5 * ((datum - position) / scale) ** 2

    return log_likelihood, settings_module()[1]


def of_import_by_string():
    def log_likelihood(position, datum):
        module = importlib.import_module("settings_of_a_test")
        return -0.5 * ((datum - position) / module.scale) ** 2

    return log_likelihood, settings_module()[1]


def of_attribute_by_string():
    module, put = settings_module()
    return lambda position, datum: -0.5 * ((datum - position) / getattr(module, "scale")) ** 2, put  # noqa: B009


def of_attribute_that_a_module_makes():
    module, _ = settings_module()
    own = {"scale": 1.0}
    del module.scale
    module.__getattr__ = lambda name: own[name]
    return lambda position, datum: -0.5 * ((datum - position) / module.scale) ** 2, (
        functools.partial(own.__setitem__, "scale")
    )


def of_context():
    own = contextvars.ContextVar("scale", default=1.0)
    return lambda position, datum: -0.5 * ((datum - position) / own.get()) ** 2, own.set


def of_thread():
    own = threading.local()
    put = functools.partial(setattr, own, "scale")
    return lambda position, datum: -0.5 * ((datum - position) / own.scale) ** 2, put


def of_thread_with_a_default():
    class Own(threading.local):
        scale = 1.0

    own = Own()
    put = functools.partial(setattr, own, "scale")
    return lambda position, datum: -0.5 * ((datum - position) / own.scale) ** 2, put


def of_weak_reference():
    own = Model()
    refer = weakref.ref(own)
    # The function that sets it keeps it.
    return lambda position, datum: -0.5 * ((datum - position) / refer().scale) ** 2, (
        functools.partial(setattr, own, "scale")
    )


def of_weak_proxy():
    own = Model()
    proxy = weakref.proxy(own)
    return lambda position, datum: -0.5 * ((datum - position) / proxy.scale) ** 2, (
        functools.partial(setattr, own, "scale")
    )


def put_in_environment(value):
    os.environ["SCALE_OF_A_TEST"] = repr(value)


def of_shared_number():
    own = multiprocessing.Value("d", 1.0)
    return lambda position, datum: -0.5 * ((datum - position) / own.value) ** 2, (
        functools.partial(setattr, own, "value")
    )


def of_memory():
    own = np.ones(1)
    view = memoryview(own)
    return lambda position, datum: -0.5 * ((datum - position) / view[0]) ** 2, own.fill


def of_environment():
    def log_likelihood(position, datum):
        return -0.5 * ((datum - position) / float(os.environ["SCALE_OF_A_TEST"])) ** 2

    return log_likelihood, put_in_environment


def of_environment_by_default():
    get = os.getenv

    def log_likelihood(position, datum):
        return -0.5 * ((datum - position) / float(get("SCALE_OF_A_TEST", "1.0"))) ** 2

    return log_likelihood, put_in_environment


def of_proxy():
    """As `werkzeug.local.LocalProxy` is made."""

    class Proxy:
        __slots__ = ("_of",)

        def __getattr__(self, name):
            return getattr(self._of(), name)

    own, proxy = contextvars.ContextVar("own"), Proxy()
    proxy._of = lambda: own.get()
    return lambda position, datum: -0.5 * ((datum - position) / proxy.scale) ** 2, (
        lambda value: own.set(types.SimpleNamespace(scale=value))
    )


WAYS = [value for name, value in list(globals().items()) if name.startswith("of_")]
