"""What many tests share: float64, and a kernel's step as affine map on a Gaussian posterior."""

import contextlib
import ctypes
import fnmatch
import importlib.metadata
import itertools
import os
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

if "EWSG_JAX_TESTS_XLA_DEFAULTS" not in os.environ:
    # Most of the suite's time is compiling. A program in one part takes less of it than one in a
    # part for each thread, and the compiler of jaxlib 0.10 knows a second way to write fused loops,
    # which takes half the time. What is optimised, notebooks among it, is so at the lowest level:
    # it compiles in half the time, and runs as fast. A flag that a version does not know ends the
    # process.
    os.environ["XLA_FLAGS"] = (
        f"{os.environ.get('XLA_FLAGS', '')} --xla_backend_optimization_level=1"
    )
    if importlib.metadata.version("jaxlib").startswith(("0.10.", "0.11.", "0.12.")):
        os.environ["XLA_FLAGS"] = (
            f"{os.environ['XLA_FLAGS']} --xla_cpu_parallel_codegen_split_count=1"
        )
    if importlib.metadata.version("jaxlib").startswith("0.10."):
        os.environ["XLA_FLAGS"] = f"{os.environ['XLA_FLAGS']} --xla_cpu_use_fusion_emitters=false"

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

from ewsg_jax import Randomness
from ewsg_jax.sampling import chunks
from tests.parts import as_drawn

# Before the first computation: two devices, so that sharding is tested everywhere.
jax.config.update("jax_num_cpu_devices", 2)
XLA_DEFAULTS = "EWSG_JAX_TESTS_XLA_DEFAULTS" in os.environ
"""Compile as a user does. CI runs some of the tests in this way too."""
if not XLA_DEFAULTS:
    # Most programs are run for less time than it takes to compile them: see `optimised`.
    jax.config.update("jax_disable_most_optimizations", True)
    # Which this program's own options would overrule.
    chunks.advance_small = chunks._jit()


LONGEST = ("tests/test_notebooks", "tests/test_docs", "tests/statistics")
"""Begun first, so that no process is left alone with one of them at the end."""


FULL = ("tests/experiments/", "tests/papers/", "tests/statistics/")
"""Folders of which every test is in the full tier, or in the sweep."""


class Guard:
    """Which tests may see prepared data: those with the marker `real_data`, and no others.

    For the others EWSG_JAX_DATA names an empty folder, in what they start as well: neither the
    folder of the data nor a cache of the user's is found there. Opening a file of one by its path
    fails.
    """

    def __init__(self):
        given = os.environ.get(VARIABLE)
        # Where it lies for processes that pytest starts, such as those of xdist.
        self.folder = os.environ.setdefault(VARIABLE + "_ASIDE", given or "") or None
        # One for all processes, of which many end without a chance to remove theirs.
        self.empty = os.path.join(tempfile.gettempdir(), "ewsg_jax_tests_without_data")
        os.makedirs(self.empty, exist_ok=True)
        if os.listdir(self.empty):
            raise pytest.UsageError(
                f"{self.empty} must be empty, for tests without data; got {os.listdir(self.empty)}"
            )
        cache = str(Path.home() / ".cache" / "ewsg_jax")
        self.guarded = tuple(
            os.path.abspath(path) + os.sep for path in (self.folder, cache) if path
        )
        self.is_open, self.opened, self.fixtures = False, 0, {}
        os.environ[VARIABLE] = self.empty
        sys.addaudithook(self.see)

    def see(self, event, arguments):
        if event != "open" or not isinstance(arguments[0], str | bytes | os.PathLike):
            return
        if os.path.abspath(os.fsdecode(arguments[0])).startswith(self.guarded):
            if not self.is_open:
                raise RuntimeError(
                    f"{os.fsdecode(arguments[0])}: only tests with the marker real_data open this"
                )
            self.opened += 1

    @contextlib.contextmanager
    def opens_for(self, item):
        if not item.get_closest_marker("real_data"):
            yield
            return
        if self.folder is not None:
            os.environ[VARIABLE] = self.folder
        self.is_open = True
        try:
            yield
        finally:
            os.environ[VARIABLE], self.is_open = self.empty, False


VARIABLE = "EWSG_JAX_DATA"
GUARD = Guard()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item):
    """Let a test see prepared data, its fixtures too, if it has the marker."""
    with GUARD.opens_for(item):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef):
    """Note which fixtures opened prepared data: tests without the marker may not share them."""
    before = GUARD.opened
    try:
        return (yield)
    finally:
        if GUARD.opened > before:
            GUARD.fixtures[fixturedef] = fixturedef.argname


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    """Fail an unmarked test whose fixture has opened prepared data for another one."""
    for definitions in item._fixtureinfo.name2fixturedefs.values():
        if definitions[-1] in GUARD.fixtures and not item.get_closest_marker("real_data"):
            name = GUARD.fixtures[definitions[-1]]
            pytest.fail(
                f"its fixture {name} opens prepared data: it needs the marker real_data",
                pytrace=False,
            )


def pytest_collection_modifyitems(config, items):
    """Give every test its tier, and skip what needs prepared data where there are none.

    A wrong folder of data is an error, not a skip.
    """
    items.sort(key=lambda item: not item.nodeid.startswith(LONGEST))
    unknown = {}
    for item in items:
        usual = item.get_closest_marker("usual_parameters")
        named = (
            {p for p in usual.args if fnmatch.fnmatchcase(item.callspec.id, p)} if usual else set()
        )
        if usual:
            unknown.setdefault(item.nodeid.partition("[")[0], set(usual.args)).difference_update(
                named
            )
        is_left_out = usual is not None and not named
        if is_left_out or item.get_closest_marker("real_data") or item.nodeid.startswith(FULL):
            item.add_marker(pytest.mark.full)
    # Of a test that is asked for by its parameter, the others are not collected.
    if any(unknown.values()) and not any("::" in argument for argument in config.args):
        names = {test: sorted(patterns) for test, patterns in unknown.items() if patterns}
        raise pytest.UsageError(f"usual_parameters must name parameters of its test; got {names}")
    folder = GUARD.folder
    if folder is not None and not (Path(folder) / "covertype.npz").is_file():
        raise pytest.UsageError(
            f"EWSG_JAX_DATA must name a folder that holds covertype.npz; got {folder!r}"
        )
    if folder is None:
        for item in items:
            if item.get_closest_marker("real_data"):
                item.add_marker(
                    pytest.mark.skip(reason="needs the data that EWSG_JAX_DATA points to")
                )


STATUS, TESTS_RUN, MOST_BYTES = Path("/proc/self/statm"), itertools.count(1), 1_200_000_000


@pytest.fixture(autouse=True)
def programs_are_freed():
    """Free the compiled programs of tests that have ended, and give their memory back to the
    system.

    The suite makes thousands. Two processes of it are to take 3 GB at most. To look takes time:
    every 10th test.
    """
    yield
    if next(TESTS_RUN) % 10 == 0 and STATUS.exists():
        resident = int(STATUS.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        if resident > MOST_BYTES:
            jax.clear_caches()
            ctypes.CDLL(None).malloc_trim(0)


@pytest.fixture
def optimised():
    """For tests that run for longer than they compile."""
    jax.config.update("jax_disable_most_optimizations", False)
    yield
    jax.config.update("jax_disable_most_optimizations", not XLA_DEFAULTS)


@pytest.fixture
def x64():
    """Run the test in float64."""
    with jax.enable_x64(True):
        yield


class AffineMaps(NamedTuple):
    """z' = matrix z + shift + factor ξ, one map per batch in front; z = (position, momentum)."""

    matrix: np.ndarray
    shift: np.ndarray
    factor: np.ndarray

    @property
    def noise(self):
        """The covariance of factor ξ."""
        return self.factor @ self.factor.swapaxes(1, 2)

    @property
    def steps(self):
        """`(matrix, shift, noise)` of every batch, as `lyapunov.stationary` takes them."""
        return list(zip(self.matrix, self.shift, self.noise, strict=True))


@pytest.fixture
def linearize(x64):
    """`linearize(kernel, dimension, data, batches=None) -> AffineMaps`, the Jacobians of
    `transition`.

    `batches` are row numbers with the batches on the leading axis; None for a kernel of the full
    gradient.
    """
    return _linearize


# One program for all kernels of one structure.
@jax.jit
def _maps(kernel, start, some_noise, data, batches):
    names = [name for name in start.dynamics._fields if name != "step"]
    dimension = start.position.size
    some_noise, unravel = ravel_pytree(some_noise)

    def step(z, noise, batch):
        parts = dict(zip(names, z.reshape(len(names), dimension), strict=True))
        state = start._replace(dynamics=start.dynamics._replace(**parts))
        moved, _ = kernel.transition(Randomness(as_drawn(batch), unravel(noise)), state, data)
        return jnp.concatenate([getattr(moved.dynamics, name) for name in names])

    z = jnp.linspace(-1.0, 1.5, len(names) * dimension)
    other_z = jnp.linspace(2.0, -3.0, len(names) * dimension)
    noise = jnp.zeros_like(some_noise)

    def maps(batch):
        jacobians = jax.jacfwd(lambda *at: (step(*at, batch),) * 2, argnums=(0, 1), has_aux=True)
        (matrix, factor), end = jacobians(z, noise)
        shift = end - matrix @ z
        return (matrix, shift, factor), step(other_z, some_noise, batch) - (
            matrix @ other_z + shift + factor @ some_noise
        )

    return jax.vmap(maps)(batches) if batches is not None else maps(())


def _linearize(kernel, dimension, data, batches=None):
    start = kernel.init(jax.random.key(0), jnp.zeros(dimension), data)
    some_noise = kernel.draw(jax.random.key(1), start, data).noise
    found, curvature = _maps(kernel, start, some_noise, data, batches)
    np.testing.assert_allclose(curvature, 0, atol=1e-10, err_msg="the step is not affine")
    maps_by_batch = (np.asarray(x) if batches is not None else np.asarray(x)[None] for x in found)
    return AffineMaps(*maps_by_batch)
