"""A copy of the tree in which faults are planted one after another, and the process that runs tests there."""

import compileall
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
READ = ("ewsg_jax", "tests", "docs", "benchmarks", "notebooks", "configs")
"""The folders that tests read; with them the files beside them."""
NO_PROGRAM, NO_VALUE = {"NameError", "SyntaxError", "ImportError"}, {"TypeError", "AttributeError"}
"""What says that the fault is no program, and, where it is raised in the file that is changed, that it makes no sense."""
ANY = "any"
"""What `server.py` calls the functions that another process may have entered."""
NO_TESTS = 5
"""The exit code where a marker leaves no test of a file."""
TIMED_OUT = {-14, -27}
"""The exit codes of tests that an alarm ended, of the clock or of processor time."""


class Verdict(NamedTuple):
    """pytest's exit code, what it printed last, and why this does not count as found; no reason where it does.

    The seconds are those of processor time.
    """

    code: int
    said: str
    why: str | None
    seconds: float


class Judge:
    """Plants one fault at a time and runs tests on it, in forks of one process that holds one thread."""

    def __init__(self, folder: Path, programs: Path | None = None):
        self.tree = folder / "tree"
        self.output = folder / "output"
        self.raised = folder / "raised.json"
        self.entered = folder / "entered.json"
        for name in READ:
            shutil.copytree(
                ROOT / name, self.tree / name, ignore=shutil.ignore_patterns("__pycache__")
            )
        for name in ("pyproject.toml", "README.md", "CHANGELOG.md", "CITATION.cff"):
            shutil.copy2(ROOT / name, self.tree)
        compileall.compile_dir(self.tree / "ewsg_jax", quiet=1)
        environment = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
        environment |= {"JAX_DISABLE_MOST_OPTIMIZATIONS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
        environment["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
        if programs:
            # Most of a test's time is compiling, and few of its programs hold the fault.
            environment["JAX_COMPILATION_CACHE_DIR"] = str(programs)
            environment["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
        # -P: the modules of this folder must not stand for modules of Python.
        process = subprocess.Popen(
            [sys.executable, "-P", str(Path(__file__).with_name("server.py"))],
            env=os.environ | environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdin is not None
        assert process.stdout is not None
        self.process, self.asked, self.answered = process, process.stdin, process.stdout

    def close(self):
        """End the process."""
        self.asked.close()
        self.process.wait()
        self.answered.close()

    def _answer(
        self, tests: list[str], seconds: int, markers: Sequence[str], entered: Path | None
    ) -> tuple[int, float]:
        for written in (self.output, self.raised, self.entered):
            written.unlink(missing_ok=True)
        paths = {"tree": str(self.tree), "output": str(self.output), "raised": str(self.raised)}
        request = {**paths, "tests": tests, "seconds": seconds, "markers": markers}
        self.asked.write(json.dumps({**request, "entered": entered and str(entered)}) + "\n")
        self.asked.flush()
        code, used = self.answered.readline().split()
        return int(code), float(used)

    def reached(
        self, test: str, markers: Sequence[str], seconds: int = 600
    ) -> tuple[float, set[str]]:
        """What the tests of a file take on the unchanged tree, where they must pass, and what they enter.

        Returns:
            Seconds of processor time, and functions of the package.
        """
        code, used = self._answer([test], seconds, markers, self.entered)
        if code not in (0, NO_TESTS):
            raise RuntimeError(
                f"{test} must pass on the unchanged tree; got exit code {code}:\n"
                f"{self.output.read_text()[-3000:]}"
            )
        return used, set(json.loads(self.entered.read_text()))

    def run(
        self,
        file: Path,
        source: str,
        tests: list[str],
        seconds: int = 600,
        markers: Sequence[str] = ("",),
    ) -> Verdict:
        """With that source for the file: the tests of one marker after the other, to the first that fails."""
        name = str(file.relative_to(ROOT))
        compile(source, name, "exec")
        (self.tree / name).write_text(source)
        try:
            code, used = self._answer(tests, seconds, markers, None)
        finally:
            shutil.copy2(ROOT / name, self.tree / name)
        said = self.output.read_text()[-3000:]
        return Verdict(code, said, self._why(code, said, name), used)

    def _why(self, code, said, name):
        # 1: tests ran and failed. Anything else is a test that passes, is missing or cannot be collected.
        if code != 1:
            return f"no test failed ({code}):\n{said}"
        failures = json.loads(self.raised.read_text())
        if [failure["when"] for failure in failures] != ["call"]:
            return f"an error is no failure:\n{said}"
        senseless = NO_PROGRAM | (NO_VALUE if failures[0]["raised_in"] == name else set())
        return f"the fault cannot run:\n{said}" if senseless & set(failures[0]["kinds"]) else None
