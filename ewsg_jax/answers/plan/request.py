"""What the search for a kernel is given (`PlanRequest`), and what it returns (`PlanResult`)."""

import contextlib
import math
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from jax.sharding import Mesh

from ewsg_jax.answers.check.report import Report
from ewsg_jax.answers.mode.mode import Mode
from ewsg_jax.answers.plan import settings
from ewsg_jax.answers.plan.candidates import Candidate, CandidateForecast
from ewsg_jax.answers.plan.gaussian import Gaussian
from ewsg_jax.answers.plan.run_requirements import RunRequirements
from ewsg_jax.answers.plan.whitening import Whitening
from ewsg_jax.base.compiling import Ahead
from ewsg_jax.base.progress import Clock
from ewsg_jax.base.typing import Data, Position
from ewsg_jax.kernels.protocol import Kernel
from ewsg_jax.model_checks.finding import Finding
from ewsg_jax.posterior.posterior import Posterior

UNDER_WAY = {
    "gaussian": "the normal approximation at the mode is checked",
    "windows": "chains warm up",
    "candidates": "candidates are forecast",
    "trials": "a pilot run is made",
    "modes": "other modes are looked for",
}
"""What a terminal shows during each part of a plan. The keys are those of `Plan.seconds_spent`."""


@dataclass(frozen=True, eq=False, kw_only=True)
class PlanRequest:
    """A posterior to plan for, and what the plan may use.

    Attributes:
        posterior: the target.
        data: all n rows, shared by the devices of a mesh.
        start_position: the position at which the search for a mode began.
        mode: the mode, or the position at which the search for it ended.
        candidates: the kernels that may be taken.
        requirements: what the run must achieve.
        max_passes: passes over the data that each chain of a pilot run or a window may take.
        budget: seconds that the plan may take.
        started: when it began, by `time.perf_counter`.
        data_for_runs: the rows as the user gave them; each run shares them among devices itself.
        mesh: devices that share the rows; None for one.
        names_methods: whether the user named methods.
        step_seconds: seconds of a step of all chains, by estimator, rows, friction and batch size,
            as they are measured.
        seconds: what planning took, by part.
        left_out: what there was no time for, in words; filled by the search.
        compiling: programs that a thread compiles; each is waited for before it is run.
        clock: shows on a terminal what is under way.
    """

    posterior: Posterior
    data: Data
    start_position: Position
    mode: Mode
    candidates: list[Candidate]
    requirements: RunRequirements
    max_passes: float
    budget: float = math.inf
    started: float = field(default_factory=time.perf_counter)
    data_for_runs: Data = None
    mesh: Mesh | None = None
    names_methods: bool = False
    step_seconds: dict[tuple[str, str, bool, int], float] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)
    compiling: Ahead = field(default_factory=Ahead)
    clock: Clock = field(default_factory=lambda: Clock(False))

    @property
    def num_row_shards(self) -> int:
        """Number of devices that share the rows."""
        return self.requirements.num_row_shards

    @property
    def seconds_of_a_run(self) -> float | None:
        """The part of the seconds that are left which a pilot run may take; None for any."""
        if self.budget == math.inf:
            return None
        left = self.started + self.budget - time.perf_counter()
        # A run may take two seconds if nothing is left.
        return max(left * settings.SECONDS_SHARE, 2.0)

    def has_time_for(self, what: str, seconds: float = 0.0, share: float = 0.0) -> bool:
        """Return whether this share of the budget is left after these seconds more; if not, note
        what is left out.
        """
        taken = time.perf_counter() - self.started + seconds
        if taken < (1 - share) * self.budget:
            return True
        if what not in self.left_out:
            self.left_out.append(what)
        return False

    @contextlib.contextmanager
    def timed(self, part: str) -> Iterator[None]:
        """Show a part of the plan as under way, and add the seconds that it takes to its own."""
        started = time.perf_counter()
        self.clock.says(f"plan: {UNDER_WAY[part]}")
        try:
            yield
        finally:
            self.seconds[part] = self.seconds.get(part, 0.0) + time.perf_counter() - started


@dataclass(frozen=True, eq=False, kw_only=True)
class PlanResult:
    """The kernel that a search chose.

    Attributes:
        kernel: the kernel.
        start: a function of a key that returns the start of a chain.
        time: autocorrelation time: steps of a chain that one effective draw takes.
        burn_in: first steps that are not kept.
        table: forecasts of all candidates, the best first.
        gaussian: the normal approximation at the mode; None if it is no answer.
        report: the report of `check` on the last pilot run; None without one.
        data_passes: passes over the data of all chains that the search took.
        notes: what the user should know, in words.
        findings: what is wrong with the model, or with the pilot run of the kernel.
        whitening: coordinates by chains, in which pilot runs were made; None without one.
    """

    kernel: Kernel
    start: Any
    time: float
    burn_in: int
    table: list[CandidateForecast]
    gaussian: Gaussian | None
    report: Report | None
    data_passes: float
    notes: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()
    whitening: Whitening | None = None

    @property
    def doubts(self) -> list[str]:
        """Why the kernel may not be trusted, in words; empty if nothing is against it."""
        return [finding.text for finding in self.findings if finding.severity != "note"]
