"""Runs pytest in forks of one process that has imported what planted faults do not touch.

The process makes no computation of its own and holds one thread, so that a fork of it is safe; JAX starts its threads
in the fork. A request is one line of JSON on its standard input: the tree to run in, the tests, and the files to write.
The answer is one line, the exit code.
"""

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


def run(tree, tests, output, raised, seconds, marker):
    """In the fork: pytest in that tree, its exit code."""
    signal.alarm(seconds)
    written = os.open(output, os.O_WRONLY | os.O_CREAT)
    os.dup2(written, 1)
    os.dup2(written, 2)
    os.chdir(tree)
    sys.path.insert(0, tree)
    failures = Failures(tree)
    code = pytest.main(
        ["-q", "-x", "-m", marker, "-p", "no:cacheprovider", *tests], plugins=[failures]
    )
    with open(raised, "w") as file:
        json.dump(failures.found, file)
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
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


if __name__ == "__main__":
    serve()
