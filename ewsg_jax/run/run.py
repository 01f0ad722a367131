"""A run, from the request to the samples."""

import contextlib
import functools
import time
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from ewsg_jax.base import checks, numeric
from ewsg_jax.base.files import path_of
from ewsg_jax.base.interrupts import answered_after
from ewsg_jax.base.typing import Array, Scalar
from ewsg_jax.dynamics._protocol import Constant
from ewsg_jax.gradients import Evaluations
from ewsg_jax.kernels.notes import findings_of
from ewsg_jax.kernels.protocol import Kernel, temperature_of
from ewsg_jax.rows._view import all_rows
from ewsg_jax.run import consistency, states
from ewsg_jax.run.batch_windows import BatchWindows
from ewsg_jax.run.batches import sample_in_batches
from ewsg_jax.run.checkpoint import Earlier
from ewsg_jax.run.data_digest import origin_of
from ewsg_jax.run.health import warn_of_overflow
from ewsg_jax.run.host import on_host
from ewsg_jax.run.loop import make_steps
from ewsg_jax.run.member_arguments import of_members
from ewsg_jax.run.model_warnings import EndCheck
from ewsg_jax.run.moments import finish, positions
from ewsg_jax.run.outcome import Outcome
from ewsg_jax.run.plan import RunPlan, plan
from ewsg_jax.run.request import Request, check, num_steps_of, with_batches
from ewsg_jax.run.samples import Samples, without_diverged_moments
from ewsg_jax.run.stacked import StackedSamples, split_members
from ewsg_jax.run.stacks.kernels import Stack
from ewsg_jax.run.starts import num_chains_of
from ewsg_jax.run.streams.loader import Loader
from ewsg_jax.run.streams.stream import Stream
from ewsg_jax.run.windows import StreamWindows, Windows


def checked(request: Request) -> Request:
    """Check each argument by itself; return the request for one kernel, data as jax arrays.

    Raises:
        TypeError, ValueError: an argument has the wrong type or value; the message names it.
    """
    if request.checkpoint is not None:
        path_of(request.checkpoint, "checkpoint")
    checks.positive("checkpoint_every", request.checkpoint_every)
    # First, for a stack or a kernel on several devices is made anew.
    findings = (*request.findings, *findings_of(request.kernel))
    request = request._replace(findings=tuple(dict.fromkeys(findings)))
    with answered_after():
        request = with_batches(request)
        request = check(of_members(request._replace(data=numeric.native(request.data))))
    if isinstance(request.data, Loader) and num_chains_of(request) > 1:
        request = request._replace(shared_minibatch=True)
    return request


def run(request: Request, earlier: Earlier | None = None) -> Samples | StackedSamples:
    """Return the samples of a run, of all chains at once or in batches.

    Args:
        request: as `checked` returns it.
        earlier: the checkpoint from which the run resumes.

    Raises:
        TypeError, ValueError: arguments do not go together; the message names one.
    """
    if request.devices is not None and request.devices.mesh.is_multi_process:
        consistency.check_processes(request, earlier)
    if request.checkpoint is not None:
        # Before anything is traced: tracing may change what functions read.
        request = request._replace(functions=consistency.functions_fingerprint(request))
    if earlier is not None:
        consistency.check_resumed(request, earlier)
        kernel, data = request.kernel, request.data
        state = states.restored(earlier.state, kernel, data, request.placed)
        request = request._replace(state=state)
    # Before the run, whose draws are not lost then if a stream cannot be read at its end.
    request = request._replace(origin=origin_of(request.kernel, request.data))
    if request.chain_batch_size is None:
        samples = run_chains(request, earlier)
    else:
        samples = sample_in_batches(run_chains, request)
    return split_members(request, samples) if isinstance(request.kernel, Stack) else samples


def run_chains(request: Request, earlier: Earlier | None = None) -> Samples:
    """Plan, run and collect; check the chains at the end."""
    kernel, end_check = request.kernel, EndCheck(request, earlier)
    windows = _windows_of(request, earlier)
    # A stream's thread and memory go when the run ends, however it ends.
    with contextlib.nullcontext() if windows is None else contextlib.closing(windows):
        with answered_after():
            planned, outcome = plan(request, earlier, windows)
            if windows is None:
                end_check.keep(outcome.monitor.start, request.data)
                num_steps = planned.terms.num_steps
                end_check.compile_ahead(planned.num_chains, planned.cost, num_steps, request.data)
        compiled = make_steps(planned, outcome, request.seconds, request.progress)
        # Of a stream no window but those at hand is held on to.
        data = request.data if windows is None else windows.last
        rows = request.data if windows is None else windows.last.rows
        # From here on all is sampled: an interrupt ends what is still evaluated.
        try:
            outcome.monitor.warn(kernel, outcome.state, rows)
        except KeyboardInterrupt:
            outcome.interrupted = True
        if windows is not None:
            end_check.keep(outcome.monitor.start, rows)
        samples = collect(request._replace(data=data), planned, outcome, compiled)
    warn_of_overflow(samples.overflow)
    samples = end_check.judged(samples)
    return without_diverged_moments(samples, samples.diverged_at)


def _windows_of(request: Request, earlier: Earlier | None) -> Windows | None:
    """Return the windows of a run on a stream or on batches of the caller's, None for data."""
    kernel, data, state = request.kernel, request.data, request.state
    if isinstance(data, Stream):
        return StreamWindows(data, request.key, kernel, request.check_data)
    if not isinstance(data, Loader):
        return None
    step = 0 if state is None else int(np.ravel(state.step)[0])
    if earlier is not None:
        end = earlier.head["terms"]["first_step"] + earlier.head["terms"]["num_steps"]
    else:
        cost, budget = kernel.evaluations(data.shapes()), (request.num_steps, request.data_passes)
        end = step + num_steps_of(cost, data.num_rows, *budget, request.seconds)
    return BatchWindows(data, step, end, request.check_data)


def collect(request: Request, planned: RunPlan, outcome: Outcome, compiled: float) -> Samples:
    """Collect the draws, moments and costs of a finished run."""
    ended = time.perf_counter()
    num_chains, first_step, cost = planned.num_chains, planned.terms.first_step, planned.cost
    # Sums over steps become means over those made; what is constant was not summed.
    per_chain = functools.partial(_by_chain, outcome.totals, num_chains)
    num_draws = int(planned.kept.number(outcome.done))
    draws = jax.tree.map(lambda x: x[:, :num_draws], outcome.draws)
    step = planned.kept.steps(first_step, outcome.done)
    step_size = _at_steps(request.kernel, "step_size", step - 1)
    temperature = _at_steps(request.kernel, "temperature", step - 1)
    num_made = max(outcome.done, 1)
    spent = functools.partial(_spent, cost, outcome, num_chains, first_step)
    return Samples(
        draws=None if request.keep is None else draws,
        moments=None
        if request.moments is None or outcome.sums is None
        else finish(request.moments, outcome.sums),
        state=states.with_origin(
            outcome.state if request.devices is None else on_host(outcome.state), request.origin
        ),
        step=step,
        step_size=np.broadcast_to(step_size, (num_draws, *step_size.shape[1:])),
        temperature=np.broadcast_to(temperature, (num_draws, *temperature.shape[1:])),
        evaluations=cost.at_init + np.rint(spent(step - first_step) / num_chains).astype(np.int64),
        gradient_evaluations=num_chains * cost.at_init + int(spent(np.asarray(outcome.done))),
        num_data=all_rows(request.data),
        num_steps=outcome.done,
        index_acceptance=per_chain("index_acceptance", num_made) / num_made,
        acceptance=per_chain("acceptance", num_made) / num_made,
        overflow=per_chain("overflow", 0),
        diverged_at=outcome.monitor.diverged_at,
        keeps_positions=request.keep is positions,
        common_start=planned.terms.common_start,
        shared_minibatch=planned.layout.shared_minibatch,
        interrupted=outcome.interrupted,
        compile_seconds=planned.earlier_seconds[0] + compiled - planned.began,
        run_seconds=planned.earlier_seconds[1] + ended - compiled,
        findings=request.findings,
        kernel=request.kernel,
    )


def _at_steps(kernel: Kernel, name: str, steps: np.ndarray) -> np.ndarray:
    """Return h or T of the steps of these numbers, shape (steps,), or that of all, shape (1,)."""
    schedule = _schedule(kernel, name)
    if isinstance(schedule, Constant) and np.ndim(schedule.value) == 0:
        return np.asarray(schedule.value, jnp.result_type(float, schedule.value))[None]
    # Padded to a power of two: runs of other lengths share a program.
    padded = np.pad(steps, (0, (1 << len(steps).bit_length()) - len(steps)))
    return np.asarray(_of_schedule(kernel, name, padded.astype(np.int32)))[: len(steps)]


def _schedule(kernel: Kernel, name: str) -> Callable[[Array], Scalar]:
    return kernel.step_size if name == "step_size" else temperature_of(kernel)


@functools.partial(jax.jit, static_argnums=1)
def _of_schedule(kernel: Kernel, name: str, steps: Array) -> Array:
    return jax.vmap(lambda step: jnp.asarray(_schedule(kernel, name)(step)))(steps)


def _by_chain(totals: dict[str, np.ndarray], num_chains: int, name: str, known: int) -> np.ndarray:
    """Return sums over a run's steps of what `Info` reports, (chain,); `known` if nothing ran."""
    total = totals.get(name, np.asarray(known))
    return np.broadcast_to(total, (num_chains, *total.shape[1:])).copy()


def _spent(
    cost: Evaluations, outcome: Outcome, num_chains: int, first_step: int, steps: np.ndarray
) -> np.ndarray:
    """Return evaluations of all chains in their first `steps` steps, int64, linear within calls."""
    if not cost.counted:
        return num_chains * cost.of_steps(first_step, steps)
    return np.rint(np.interp(steps, *np.transpose(outcome.spent))).astype(np.int64)
