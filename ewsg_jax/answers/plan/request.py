"""What a search for a kernel is asked, and where it ends."""

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from jax.sharding import Mesh

from ewsg_jax.answers.check.report import Report
from ewsg_jax.answers.mode.mode import Mode
from ewsg_jax.answers.plan.candidates import Way
from ewsg_jax.answers.plan.gaussian import Gaussian
from ewsg_jax.answers.plan.run_size import Candidate, Wanted
from ewsg_jax.base.compiling import Ahead
from ewsg_jax.base.progress import Clock
from ewsg_jax.base.typing import Data, Position
from ewsg_jax.kernels.protocol import Kernel
from ewsg_jax.posterior.posterior import Posterior

SAID = {
    "gaussian": "the normal approximation at the mode is checked",
    "windows": "chains warm up",
    "candidates": "candidates are forecast",
    "trials": "a kernel is tried",
    "modes": "other modes are looked for",
}
"""What is under way, by the part of a plan."""


@dataclass
class Ended:
    """Where a search ends.

    Attributes:
        kernel, start, burn_in, time, table, gaussian, report, notes: of the plan.
        data_passes: what the search cost.
        doubts: why the kernel may not be trusted, in words.
    """

    kernel: Kernel
    start: Any
    burn_in: int
    time: float
    table: list[Candidate]
    gaussian: Gaussian | None
    report: Report | None
    data_passes: float
    notes: list[str] = field(default_factory=list)
    doubts: list[str] = field(default_factory=list)


@dataclass(frozen=True, eq=False)
class Asked:
    """What is searched for, and among what.

    Attributes:
        posterior, data: of which.
        begin: where the search for a mode began.
        mode: where it ended.
        ways: that may be taken.
        wanted: of the run.
        max_passes: of each chain of a trial.
        given: the rows as they were given, for runs: cut again where there is a mesh.
        mesh: the devices, None for one.
        names_methods: whether methods were named.
        measured: seconds of a step of all chains, of what was measured.
        seconds: what planning took, part by part.
        ahead: compiles programs, which are waited for before they are run.
        clock: says what is under way.
    """

    posterior: Posterior
    data: Data
    begin: Position
    mode: Mode
    ways: list[Way]
    wanted: Wanted
    max_passes: float
    given: Data = None
    mesh: Mesh | None = None
    names_methods: bool = False
    measured: dict[tuple[str, str, bool, int], float] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    ahead: Ahead = field(default_factory=Ahead)
    clock: Clock = field(default_factory=lambda: Clock(False))

    @property
    def parts(self) -> int:
        """Into how many parts rows are cut."""
        return self.wanted.parts

    @contextlib.contextmanager
    def timed(self, part: str) -> Iterator[None]:
        """Add the seconds of what is done within to those of a part, and say what that is."""
        began = time.perf_counter()
        self.clock.says(f"plan: {SAID[part]}")
        try:
            yield
        finally:
            self.seconds[part] = self.seconds.get(part, 0.0) + time.perf_counter() - began
