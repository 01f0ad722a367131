"""Other libraries in one process: handlers on a stack, threads, profilers.

The right values come from closed forms.
"""

import concurrent.futures
import contextlib
import contextvars
import subprocess
import sys
import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ewsg_jax as ewsg

KEY = jax.random.key(0)
X = np.random.default_rng(0).normal(size=(200, 2)).astype(np.float32)
Y = (X @ [1.0, -0.5] + np.random.default_rng(1).normal(size=200)).astype(np.float32)
ROWS = {"x": X, "y": Y}


class Handlers:
    """One stack for the whole process, as NumPyro has it: two traces at once mix it up."""

    def __init__(self):
        self.stack, self.threads = [], set()

    @contextlib.contextmanager
    def entered(self):
        self.threads.add(threading.get_ident())
        self.stack.append({})
        yield
        self.stack.pop()

    def site(self, name, value):
        assert name not in self.stack[-1], "all sites must have unique names"
        self.stack[-1][name] = value
        return value


def handled(handlers, spent=lambda: None):
    """A regression with Student's errors, of unknown scale, written with handlers."""

    def log_likelihood(p, row):
        with handlers.entered():
            mean = handlers.site("mean", row["x"] @ p["w"])
            spent()
            scale = jnp.exp(handlers.site("scale", p["s"]))
            return -3.0 * jnp.log1p(((row["y"] - mean) / scale) ** 2 / 5.0) - p["s"]

    def log_prior(p):
        with handlers.entered():
            return -0.5 * jnp.sum(handlers.site("w", p["w"]) ** 2) - 0.5 * p["s"] ** 2

    return ewsg.Posterior(log_likelihood, log_prior), {"w": jnp.zeros(2), "s": jnp.float32(0)}


@pytest.mark.full
def test_user_functions_are_traced_in_the_thread_of_the_caller():
    handlers = Handlers()
    posterior, start = handled(handlers)
    plan = ewsg.plan(KEY, posterior, start, ROWS, progress=False)
    samples = ewsg.sample(KEY, plan.kernel, plan.start, ROWS, **plan.sample_options(ess=100))
    ewsg.check(KEY, samples, posterior, ROWS)
    assert handlers.threads == {threading.get_ident()}
    assert handlers.stack == []


@pytest.mark.parametrize("kind", ["thread", "context"])
def test_a_setting_of_a_thread_is_that_of_the_caller(kind):
    """A prior's width that only the caller's thread knows, and another thread takes for 0.1."""

    class Local(threading.local):
        width = 0.1

    local, context = Local(), contextvars.ContextVar("width", default=0.1)
    local.width = 1.0
    context.set(1.0)
    read = {"thread": lambda: local.width, "context": context.get}[kind]
    posterior = ewsg.Posterior(lambda p, y: -0.5 * (y - p) ** 2, lambda p: -0.5 * (p / read()) ** 2)
    kernel = ewsg.ld(posterior, 1e-3)
    positions = ewsg.sample(KEY, kernel, jnp.float32(0.5), Y[:9], 50).position
    right = ewsg.ld(ewsg.Posterior(posterior.log_likelihood, lambda p: -0.5 * p**2), 1e-3)
    np.testing.assert_array_equal(
        positions, ewsg.sample(KEY, right, jnp.float32(0.5), Y[:9], 50).position
    )


FORKED = """
import os, warnings
import jax, jax.numpy as jnp, ewsg_jax as ewsg
warnings.simplefilter("ignore")
model = ewsg.models.gaussian_location()
call = lambda: ewsg.sample(
    jax.random.key(0), ewsg.ld(model, 0.1), jnp.zeros(1), jnp.ones((4, 1)), 10, progress=False
)
call()
if os.fork() == 0:
    try:
        call()
    except RuntimeError as error:
        print(error, flush=True)
    os._exit(0)
os.wait()
"""


@pytest.mark.full
def test_a_fork_of_a_process_that_ran_programs_is_refused():
    """JAX's threads are not in it: the call would never end."""
    done = subprocess.run(
        [sys.executable, "-c", FORKED], capture_output=True, text=True, timeout=120, check=True
    )
    assert "sample must be called in a process that is no fork" in done.stdout


@pytest.mark.full
def test_threads_have_their_own_values_at_the_same_time():
    """Four of them search for the mode of one model, whose prior each has a width for."""
    local = threading.local()
    posterior = ewsg.Posterior(
        lambda p, y: -0.5 * (y - p) ** 2, lambda p: -0.5 * (p / local.width) ** 2
    )

    def mode(width):
        local.width = width
        return float(ewsg.find_mode(KEY, posterior, jnp.float32(0), Y, progress=False).position)

    widths = [0.1, 0.03, 1.0, 0.1, 1.0, 0.03]
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        modes = list(pool.map(mode, widths))
    np.testing.assert_allclose(modes, [Y.sum() / (len(Y) + w**-2) for w in widths], rtol=1e-3)
