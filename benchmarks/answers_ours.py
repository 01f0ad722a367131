"""What `answers.py` measures of this library; each way is a function of a case and its data."""

import time
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import ewsg_jax as ewsg
from benchmarks.answers_cases import Case
from ewsg_jax.gradients.protocol import uses_batches

NUM_CHAINS, ESS = 8, 1_000
Data = dict[str, jax.Array]


class Answer(NamedTuple):
    """Means, standard deviations and what they cost.

    Attributes:
        mean: shape (d,); None where the time was over before there was one.
        sd: shape (d,), or None.
        passes: over the data.
        parts: seconds of each part, in order.
        says: what is said of it.
        extrapolated: seconds and passes that it would have taken, where the time was over before.
    """

    mean: np.ndarray | None
    sd: np.ndarray | None
    passes: float
    parts: dict[str, float]
    says: str = ""
    extrapolated: dict[str, float] | None = None


class Clock:
    """Seconds of parts."""

    def __init__(self) -> None:
        self.parts: dict[str, float] = {}
        self._last = time.perf_counter()

    def tick(self, name: str) -> float:
        """Say what has just been done; return its seconds."""
        now = time.perf_counter()
        self.parts[name] = self.parts.get(name, 0.0) + now - self._last
        self._last = now
        return self.parts[name]


def mode_of(case: Case, data: Data) -> ewsg.Mode:
    """Find the mode from zero."""
    return ewsg.find_mode(jax.random.key(0), case.model, jnp.zeros(data["x"].shape[1]), data, progress=False)


def moments(draws: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return means and standard deviations of draws of shape (…, d)."""
    flat = np.asarray(draws, np.float64).reshape(-1, draws.shape[-1])
    return flat.mean(0), flat.std(0)


def normal_draws(mode: ewsg.Mode) -> jax.Array:
    """Return 500 draws of the normal approximation for each of eight chains."""
    keys = jax.random.split(jax.random.key(1), (NUM_CHAINS, 500))
    return jax.vmap(jax.vmap(lambda key: mode.start(key, 1.0)))(keys)


def _corrected(report: ewsg.Report) -> tuple[np.ndarray, np.ndarray]:
    if report.corrected is None:
        raise ValueError(f"report must be of draws that can be corrected; got {report.not_corrected}")
    return np.asarray(report.corrected.mean, np.float64), np.asarray(report.corrected.sd, np.float64)


def laplace(case: Case, data: Data, limit: float) -> dict[str, Answer]:
    """The normal approximation at the mode, and corrected."""
    clock = Clock()
    mode = mode_of(case, data)
    clock.tick("mode")
    found = {"laplace": Answer(np.asarray(mode.position), np.asarray(mode.sd), mode.data_passes, dict(clock.parts))}
    report = ewsg.check(jax.random.key(2), normal_draws(mode), case.model, data)
    clock.tick("check")
    passes = mode.data_passes + report.data_passes
    found["laplace, corrected"] = Answer(*_corrected(report), passes, clock.parts, report.outcome)
    return found


def planned(case: Case, data: Data, limit: float) -> dict[str, Answer]:
    """Three calls: plan, sample, check."""
    clock = Clock()
    plan = ewsg.plan(jax.random.key(1), case.model, jnp.zeros(data["x"].shape[1]), data)
    clock.tick("plan")
    found, spent = {}, plan.data_passes_spent
    if plan.gaussian is not None and plan.gaussian.is_right:
        answer = _corrected(plan.gaussian.report)
        found["plan, no chain"] = Answer(*answer, spent, dict(clock.parts), plan.gaussian.verdict)
    passes = plan.data_passes(ess=ESS)
    # One batch for all chains: their noise is a small part of what moves them.
    shared = uses_batches(plan.kernel)
    run: dict[str, Any] = {"num_chains": NUM_CHAINS, "burn_in": plan.burn_in, "data_passes": passes}
    samples = ewsg.sample(
        jax.random.key(2), plan.kernel, plan.start, data, shared_minibatch=shared, progress=False, **run
    )
    clock.tick("sample")
    spent += passes if shared else NUM_CHAINS * passes
    found["plan and sample"] = Answer(*moments(samples.position), spent, dict(clock.parts), repr(plan.kernel))
    report = ewsg.check(jax.random.key(3), samples, case.model, data)
    clock.tick("check")
    spent += report.data_passes
    found["plan, sample, check"] = Answer(*_corrected(report), spent, clock.parts, report.verdict)
    return found


def full(case: Case, data: Data, limit: float) -> dict[str, Answer]:
    """Full gradients, preconditioned at the mode: as many steps as a normal posterior needs for the ESS."""
    clock = Clock()
    mode = mode_of(case, data)
    clock.tick("mode")
    kernel = ewsg.uld(case.model, 0.7, friction=1.0, integrator="splitting", inverse_mass=mode.inverse_mass)
    memory = 3.0
    steps = round(memory * (8 + ESS / NUM_CHAINS))
    run: dict[str, Any] = {"num_chains": NUM_CHAINS, "burn_in": round(8 * memory), "progress": False}
    samples = ewsg.sample(jax.random.key(1), kernel, mode.start, data, steps, **run)
    clock.tick("sample")
    passes = mode.data_passes + NUM_CHAINS * samples.data_passes
    return {"full gradients": Answer(*moments(samples.position), passes, clock.parts)}
