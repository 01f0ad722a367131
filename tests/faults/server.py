"""Runs pytest in forks of one process that has imported what planted faults do not touch.

The process makes no computation of its own and holds one thread, so that a fork of it is safe; JAX starts its threads
in the fork. A request is one line of JSON on its standard input: the tree to run in, the tests, and the files to write.
The answer is one line, the exit code and the seconds of processor time it took.
"""

import itertools
import json
import os
import signal
import sys
import threading

import chex
import jax.flatten_util
import numpy
import optax
import pytest

ANY = "any"
LOADED = (chex, jax, numpy, optax, pytest)


class Failures:
    """What was raised: when, the names of its class and bases, and the last file of the tree on the way there."""

    def __init__(self, tree):
        self.tree, self.found = tree, []

    def pytest_runtest_makereport(self, item, call):
        if call.excinfo is not None:
            paths = [os.path.relpath(entry.path, self.tree) for entry in call.excinfo.traceback]
            inside = [path for path in paths if not path.startswith(os.pardir)]
            kinds = [cls.__name__ for cls in call.excinfo.type.__mro__]
            self.found.append(
                {"when": call.when, "kinds": kinds, "raised_in": inside[-1] if inside else None}
            )


def note_entered(tree):
    """The set of the package's functions that are entered from now on, by their dotted paths; and ANY.

    ANY is there once another process is started, of which nothing is seen.
    """
    entered, package = set(), os.path.join(tree, "ewsg_jax", "")

    def enter(code, offset):
        if code.co_filename.startswith(package):
            file = os.path.relpath(code.co_filename, tree).removesuffix(".py")
            entered.add(f"{file}.{code.co_qualname.partition('.<locals>')[0]}".replace(os.sep, "."))
        return sys.monitoring.DISABLE  # of this function: each is noted once

    sys.addaudithook(lambda event, _: event == "subprocess.Popen" and entered.add(ANY))
    sys.monitoring.use_tool_id(sys.monitoring.COVERAGE_ID, "functions entered")
    sys.monitoring.register_callback(
        sys.monitoring.COVERAGE_ID, sys.monitoring.events.PY_START, enter
    )
    sys.monitoring.set_events(sys.monitoring.COVERAGE_ID, sys.monitoring.events.PY_START)
    return entered


def run(tree, tests, output, raised, seconds, markers, entered):
    """In the fork: pytest in that tree, the tests of one marker after the other, its exit code; which functions it enters, where a file for them is named."""
    # Of processor time, since others may hold the machine; what sleeps for ever is ended as well.
    signal.setitimer(signal.ITIMER_PROF, seconds)
    signal.alarm(10 * seconds)
    noted = note_entered(tree) if entered else set()
    if not entered:
        # Programs of the unchanged tree may be read, those of a fault are not worth a file.
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 1e9)
    written = os.open(output, os.O_WRONLY | os.O_CREAT)
    os.dup2(written, 1)
    os.dup2(written, 2)
    os.chdir(tree)
    sys.path.insert(0, tree)
    failures, code = Failures(tree), 0
    # File by file: of a fault that the first one finds, the others need not be imported.
    parts = list(itertools.product(markers, tests))
    for marker, test in parts:
        options = ["-q", "-x", "-m", marker, "-p", "no:cacheprovider"]
        code = pytest.main([*options, test], plugins=[failures])
        if code == pytest.ExitCode.NO_TESTS_COLLECTED and len(parts) > 1:
            code = 0
        if code:
            break
    with open(raised, "w") as file:
        json.dump(failures.found, file)
    if entered:
        with open(entered, "w") as file:
            json.dump(sorted(noted), file)
    sys.stdout.flush()
    sys.stderr.flush()
    return code


def serve():
    for line in sys.stdin:
        if threading.active_count() > 1:
            raise RuntimeError("a fork of a process with several threads is not safe")
        child = os.fork()
        if child == 0:
            code = 70
            try:
                code = run(**json.loads(line))
            finally:
                os._exit(code)
        _, status, used = os.wait4(child, 0)
        code = os.waitstatus_to_exitcode(status)
        print(code, round(used.ru_utime + used.ru_stime, 1), flush=True)


if __name__ == "__main__":
    serve()
