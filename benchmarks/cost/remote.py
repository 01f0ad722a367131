"""The peers' processes: started once, asked for one run at a time, so that runs can be
interleaved.
"""

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

ROOT = Path(__file__).parents[2]
"""The checkout: where a worker runs, so that it finds this package."""


class MissingPeerError(RuntimeError):
    """A peer that was to be measured does not run."""


class Worker:
    """A peer in an interpreter of its own.

    Args:
        peer: a name that the worker knows.
        python: the interpreter that has it.
    """

    def __init__(self, peer: str, python: str) -> None:
        self.peer, self.python = peer, python
        self.process = subprocess.Popen(
            [python, "-m", "benchmarks.cost.peer_worker"],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"JAX_ENABLE_COMPILATION_CACHE": "0"},
        )

    def ask(self, **request: Any) -> dict[str, Any]:
        """Send one request and wait for its answer.

        Raises:
            RuntimeError: the worker answered with an error, or died.
        """
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        try:
            self.process.stdin.write(json.dumps(request) + "\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
        except BrokenPipeError:
            line = ""
        answer = (
            json.loads(line) if line else {"error": f"its process ended with {self.process.wait()}"}
        )
        if "error" in answer:
            raise RuntimeError(f"{self.peer}: {answer['error']}")
        return answer

    def run(self) -> float:
        """Return the microseconds per step and chain of one run."""
        return self.ask(do="run")["microseconds"]

    def afresh(self, **request: Any) -> dict[str, Any]:
        """Ask a new process of the same interpreter, which has done nothing else, and end it."""
        worker = Worker(self.peer, self.python)
        try:
            return worker.ask(peer=self.peer, **request)
        finally:
            worker.close()

    def close(self) -> None:
        """End the process."""
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()
        self.process.wait()


class Peers:
    """All peers that are measured, as a context; those not installed are reported together.

    Args:
        names: the peers.
        pythons: the interpreter of each that does not run in this one.
        install: how each is installed.

    Raises:
        MissingPeerError: some do not run; the message says which and how to install them.
    """

    def __init__(
        self, names: Iterable[str], pythons: Mapping[str, str], install: Mapping[str, str]
    ) -> None:
        self.workers: dict[str, Worker] = {}
        self.versions: dict[str, dict[str, str]] = {}
        missing = []
        for name in names:
            try:
                worker = Worker(name, pythons.get(name, sys.executable))
                self.workers[name] = worker
                self.versions[name] = worker.ask(do="versions", peer=name)["versions"]
            except (OSError, RuntimeError) as error:
                missing.append(f"  {name} ({error})\n    install: {install.get(name, '')}")
        if missing:
            self.close()
            raise MissingPeerError(
                "these peers do not run, and a benchmark without them would flatter:\n"
                + "\n".join(missing)
                + "\nor name the peers to measure with --peers; the result records it"
            )

    def close(self) -> None:
        """End all processes."""
        for worker in self.workers.values():
            worker.close()

    def __enter__(self) -> "Peers":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
