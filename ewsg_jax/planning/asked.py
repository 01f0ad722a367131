"""What a search for a kernel is asked, and where it ends."""

import contextlib
import functools
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from jax.sharding import Mesh

from ewsg_jax._kernel import Kernel
from ewsg_jax._types import Data, Key, Position
from ewsg_jax.checking import Report
from ewsg_jax.compiling import Ahead
from ewsg_jax.planning.candidate import Candidate, Wanted
from ewsg_jax.planning.frame import Frame
from ewsg_jax.planning.gaussian import Gaussian
from ewsg_jax.planning.trial import NUM_CHAINS, Trial, trial
from ewsg_jax.planning.ways import Way
from ewsg_jax.posterior import Posterior
from ewsg_jax.preparation import Mode
from ewsg_jax.rows.view import num_rows


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
        is_restricted: whether methods were named.
        measured: seconds of a step of all chains, of what was measured.
        seconds: what planning took, part by part.
        ahead: compiles programs, which are waited for before they are run.
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
    is_restricted: bool = False
    measured: dict[tuple[str, str, bool, int], float] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    ahead: Ahead = field(default_factory=Ahead)

    @property
    def parts(self) -> int:
        """Into how many parts rows are cut."""
        return self.wanted.parts

    @contextlib.contextmanager
    def timed(self, part: str) -> Iterator[None]:
        """Add the seconds of what is done within to those of a part."""
        began = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[part] = self.seconds.get(part, 0.0) + time.perf_counter() - began

    def tried(
        self,
        key: Key,
        kernel: Kernel,
        frame: Frame,
        memory: float,
        start: Callable[[Key], Position] | None = None,
        patience: float = float("inf"),
    ) -> Trial:
        """Return a trial of a kernel, from around the frame's center or from where a start says."""
        cost, n = kernel.evaluations(self.data), num_rows(self.data)
        most = int(self.max_passes * n / max(1.0, cost.on_average))
        tolerance = self.wanted.tolerance
        with self.timed("trials"):
            self.ahead.wait("check")
            if start is None:
                start = functools.partial(frame.starts, count=NUM_CHAINS)
            return trial(
                key,
                kernel,
                start,
                self.posterior,
                self.given,
                memory,
                tolerance,
                most,
                self.mesh,
                patience,
            )
