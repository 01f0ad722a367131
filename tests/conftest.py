"""What all tests share: flags, devices, tiers, prepared data, float64."""

import ctypes
import fnmatch
import gc
import importlib.metadata
import itertools
import os
import tempfile
from pathlib import Path

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
import pytest

from ewsg_jax.answers.plan import settings as plan_settings
from ewsg_jax.run import compiled_loop
from tests import linear_maps

# Before the first computation: two devices, so that sharding is tested everywhere.
jax.config.update("jax_num_cpu_devices", 2)
XLA_DEFAULTS = "EWSG_JAX_TESTS_XLA_DEFAULTS" in os.environ
"""Compile as a user does. CI runs some of the tests in this way too."""
if not XLA_DEFAULTS:
    # Most programs are run for less time than it takes to compile them: see `optimised`.
    jax.config.update("jax_disable_most_optimizations", True)
    # Which this program's own options would overrule.
    compiled_loop.advance_small = compiled_loop._jit()


LONGEST = ("tests/test_notebooks", "tests/test_docs", "tests/statistics")
"""Begun first, so that no process is left alone with one of them at the end."""


FULL = ("tests/cli/", "tests/statistics/", "benchmarks/tests/")
"""Folders whose tests are all in the full tier, or in the sweep."""


VARIABLE = "EWSG_JAX_DATA"
PREPARED = os.environ.setdefault(f"{VARIABLE}_ASIDE", os.environ.get(VARIABLE, ""))
"""The folder of prepared data, which processes that pytest starts know too; or empty."""
EMPTY = os.path.join(tempfile.gettempdir(), "ewsg_jax_tests_without_data")
"""What the variable names for all tests but those with the marker `real_data`: they see no data,
whatever a user has. CI runs them where there are none.
"""
os.makedirs(EMPTY, exist_ok=True)
os.environ[VARIABLE] = EMPTY


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item):
    """Let a test see prepared data, its fixtures too, if it has the marker."""
    if PREPARED and item.get_closest_marker("real_data"):
        os.environ[VARIABLE] = PREPARED
    try:
        return (yield)
    finally:
        os.environ[VARIABLE] = EMPTY


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
    if PREPARED and not (Path(PREPARED) / "covertype.npz").is_file():
        raise pytest.UsageError(
            f"EWSG_JAX_DATA must name a folder that holds covertype.npz; got {PREPARED!r}"
        )
    if not PREPARED:
        for item in items:
            if item.get_closest_marker("real_data"):
                item.add_marker(
                    pytest.mark.skip(reason="needs the data that EWSG_JAX_DATA points to")
                )


def pytest_collection_finish(session):
    """Let no later collection of garbage go through modules and tests, which stay to the end."""
    gc.collect()
    gc.freeze()


STATUS, TESTS_RUN, MOST_BYTES = Path("/proc/self/statm"), itertools.count(1), 1_200_000_000


@pytest.fixture(autouse=True, scope="session")
def plans_have_time():
    """Let a plan take ten times its default: what it finds must not depend on how busy a machine
    is. The tests of its time (`answers/plan/test_time.py`) give the seconds.
    """
    plan_settings.PLAN_SECONDS *= 10
    yield
    plan_settings.PLAN_SECONDS /= 10


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


@pytest.fixture
def linearize(x64):
    """The maps of a kernel's step, in float64."""
    return linear_maps.linearize
