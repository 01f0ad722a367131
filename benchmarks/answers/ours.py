"""What `answers.py` measures of this library; each way is a function of a case and its data."""

import functools
import time
from typing import Any, NamedTuple

import jax
import numpy as np

import ewsg_jax as ewsg
from benchmarks.answers.case import Case, Data, flat
from ewsg_jax.draws import convergence
from ewsg_jax.gradients._protocol import uses_batches

NUM_CHAINS, ESS = 8, 1_000
COMPILED = "/jax/core/compile/backend_compile_duration"
"""The event of one program compiled."""


class Answer(NamedTuple):
    """Means, standard deviations and what they cost.

    Attributes:
        mean: shape (d,); None where the time was over before there was one.
        sd: shape (d,), or None.
        passes: over the data.
        parts: seconds of each part, in order.
        says: what is said of it.
        extrapolated: seconds and passes that it would have taken, where the time was over before.
        more: of this answer alone, stored as it is.
    """

    mean: np.ndarray | None
    sd: np.ndarray | None
    passes: float
    parts: dict[str, float]
    says: str = ""
    extrapolated: dict[str, float] | None = None
    more: dict[str, Any] | None = None


@functools.cache
def compiled() -> list[str]:
    """Return a list that grows by one for each program that this process compiles from now on."""
    events: list[str] = []

    def listen(event: str, duration_secs: float, **_: Any) -> None:
        if event == COMPILED:
            events.append(event)

    jax.monitoring.register_event_duration_secs_listener(listen)
    return events


class Clock:
    """Seconds of parts, with the CPU's and the number of programs that they compiled."""

    def __init__(self) -> None:
        self.parts: dict[str, float] = {}
        self.cpu: dict[str, float] = {}
        self.programs: dict[str, int] = {}
        self.skip()

    def skip(self) -> None:
        """Count what has just been done as none of the answer's."""
        self._last = time.perf_counter(), time.process_time(), len(compiled())

    def tick(self, name: str) -> float:
        """Say what has just been done; return its seconds."""
        wall, cpu, programs = self._last
        self.skip()
        self.parts[name] = self.parts.get(name, 0.0) + self._last[0] - wall
        self.cpu[name] = round(self.cpu.get(name, 0.0) + self._last[1] - cpu, 2)
        self.programs[name] = self.programs.get(name, 0) + self._last[2] - programs
        return self.parts[name]

    def told(self) -> dict[str, Any]:
        """Return CPU seconds and programs of the parts so far."""
        return {"cpu": dict(self.cpu), "programs": dict(self.programs)}


def mode_of(case: Case, data: Data) -> ewsg.Mode:
    """Find the mode from zero."""
    return ewsg.find_mode(
        jax.random.key(0), case.posterior, case.starts(data), data, progress=False
    )


def flat_position(position: Any) -> np.ndarray:
    """Return the numbers of a position, in `ravel_pytree` order."""
    return np.concatenate([np.ravel(np.asarray(x, np.float64)) for x in jax.tree.leaves(position)])


def least_ess(draws: np.ndarray) -> float:
    """Return the bulk effective sample size of the worst mean of draws of shape (chain,
    draw, d).
    """
    return float(np.min(convergence.ess_bulk(draws.astype(np.float64))))


def moments(draws: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return means and standard deviations of draws of shape (…, d)."""
    flat = np.asarray(draws, np.float64).reshape(-1, draws.shape[-1])
    return flat.mean(0), flat.std(0)


def normal_draws(mode: ewsg.Mode) -> jax.Array:
    """Return 500 draws of the normal approximation for each of eight chains."""
    keys = jax.random.split(jax.random.key(1), (NUM_CHAINS, 500))
    return jax.vmap(jax.vmap(lambda key: mode.start(key, 1.0)))(keys)


def _corrected(case: Case, report: ewsg.Report, draws: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the moments corrected, or those of the draws where these are not known of what is
    compared.
    """
    if report.corrected is None or case.summary is not flat:
        return moments(draws)
    return flat_position(report.corrected.mean), flat_position(report.corrected.sd)


def laplace(case: Case, data: Data, limit: float) -> dict[str, Answer]:
    """The normal approximation at the mode, and corrected."""
    clock = Clock()
    mode = mode_of(case, data)
    clock.tick("mode")
    found = {
        "laplace": Answer(
            np.asarray(mode.position), np.asarray(mode.sd), mode.data_passes, dict(clock.parts)
        )
    }
    draws = normal_draws(mode)
    report = ewsg.check(jax.random.key(2), draws, case.posterior, data)
    clock.tick("check")
    passes = mode.data_passes + report.data_passes
    found["laplace, corrected"] = Answer(
        *_corrected(case, report, np.asarray(draws)), passes, clock.parts, report.outcome
    )
    return found


def planned(case: Case, data: Data, limit: float) -> dict[str, Answer]:
    """Three calls: plan, sample, check."""
    clock = Clock()
    plan = ewsg.plan(jax.random.key(1), case.posterior, case.starts(data), data)
    clock.tick("plan")
    found, spent = {}, plan.data_passes_spent
    more: dict[str, Any] = {"is_trusted": plan.is_trusted, "doubts": list(plan.doubts)}
    right = (
        plan.gaussian.report.corrected
        if plan.gaussian is not None and plan.gaussian.is_right
        else None
    )
    if plan.gaussian is not None and right is not None and case.summary is flat:
        answer = flat_position(right.mean), flat_position(right.sd)
        says = plan.gaussian.verdict
        found["plan, no chain"] = Answer(
            *answer, spent, dict(clock.parts), says, None, more | clock.told()
        )
    passes = plan.data_passes(ess=ESS)
    # One batch for all chains: their noise is a small part of what moves them.
    shared = uses_batches(plan.kernel)
    samples = ewsg.sample(
        jax.random.key(2),
        plan.kernel,
        plan.start,
        data,
        shared_minibatch=shared,
        progress=False,
        **plan.sample_options(ess=ESS),
    )
    clock.tick("sample")
    spent += passes if shared else NUM_CHAINS * passes
    draws = case.summary(samples.position)
    more["least_ess"] = least_ess(draws)
    says = repr(plan.kernel)
    found["plan and sample"] = Answer(
        *moments(draws), spent, dict(clock.parts), says, None, more | clock.told()
    )
    clock.skip()
    report = ewsg.check(jax.random.key(3), samples, case.posterior, data)
    clock.tick("check")
    spent += report.data_passes
    more |= {"outcome": report.outcome} | clock.told()
    answer = _corrected(case, report, draws)
    found["plan, sample, check"] = Answer(*answer, spent, clock.parts, report.verdict, None, more)
    return found


def full(case: Case, data: Data, limit: float) -> dict[str, Answer]:
    """Full gradients, preconditioned at the mode: as many steps as a normal posterior needs for the
    ESS.
    """
    clock = Clock()
    mode = mode_of(case, data)
    clock.tick("mode")
    kernel = ewsg.uld(
        case.posterior, 0.7, friction=1.0, integrator="splitting", inverse_mass=mode.inverse_mass
    )
    memory = 3.0
    steps = round(memory * (8 + ESS / NUM_CHAINS))
    run: dict[str, Any] = {
        "num_chains": NUM_CHAINS,
        "burn_in": round(8 * memory),
        "progress": False,
    }
    samples = ewsg.sample(jax.random.key(1), kernel, mode.start, data, steps, **run)
    clock.tick("sample")
    passes = mode.data_passes + NUM_CHAINS * samples.data_passes
    return {"full gradients": Answer(*moments(samples.position), passes, clock.parts)}
