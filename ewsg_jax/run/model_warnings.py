"""What a run warns of that is about the user's model: before its steps, and at its end.

The questions stand in `model_checks`; here are the kernels, members and starts that they are asked
of.
"""

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ewsg_jax.base import checked_arrays, checks
from ewsg_jax.base.typing import Data, Position, PyTree
from ewsg_jax.base.warn import warn
from ewsg_jax.dynamics._protocol import Constant
from ewsg_jax.gradients import Evaluations
from ewsg_jax.kernels.in_coordinates import target_of
from ewsg_jax.kernels.protocol import Kernel
from ewsg_jax.model_checks import chain_ends, densities, ignored_arrays, rounding, spacing
from ewsg_jax.model_checks.undrawn_rows import undrawn_rows
from ewsg_jax.rows._view import view
from ewsg_jax.run.checkpoint import Earlier
from ewsg_jax.run.host import on_host
from ewsg_jax.run.request import Request
from ewsg_jax.run.samples import Samples
from ewsg_jax.run.stacks.kernels import Stack, of_member
from ewsg_jax.run.starts import keys_of, make_starts, num_chains_of
from ewsg_jax.run.streams.loader import Loader
from ewsg_jax.run.streams.stream import Stream
from ewsg_jax.vectors.layout import vector
from ewsg_jax.vectors.row_subsets import evenly, take_rows

MAX_MEMBERS = 256
"""Members of a stack that are evaluated at a run's end, each by up to 4,096 evaluations of
log_likelihood; bounds the time, set by hand."""


def warn_of_ignored_arrays(kernel: Kernel | Stack, start: Position, data: Data) -> None:
    """Warn, once for the same data, of arrays that a model ignores, and of rows never drawn."""
    rows = view(data).tree
    one: Any = kernel
    # All members have one model: the first one stands for them.
    if isinstance(kernel, Stack):
        one, start = kernel[0], take_rows(start, 0)
        rows = jax.tree.map(lambda x: x[:, 0], rows) if kernel.of_data else rows
    posterior, shapes = target_of(one), checks.shapes(start)
    if posterior is None:
        return  # Exact methods take no derivatives.
    kinds = tuple((x.shape, x.dtype) for x in jax.tree.leaves(shapes))
    # Once for a model and shapes of positions: what is read does not depend on their values.
    question = "ignored arrays", posterior, jax.tree.structure(shapes), kinds

    def ask() -> None:
        for finding in ignored_arrays.ignored_arrays(posterior, on_host(start), rows):
            warn(str(finding))

    def ask_of_rows() -> None:
        for finding in undrawn_rows(one.estimator, posterior, on_host(start), rows):
            warn(str(finding))

    checked_arrays.remembered(question, ask, data)
    checked_arrays.remembered(("undrawn rows",), ask_of_rows, data, kernel)


class EndCheck:
    """The check at a run's end, which keeps the first chain's start and some rows only."""

    def __init__(self, request: Request, earlier: Earlier | None = None) -> None:
        self._request, self._start, self._rows = request, None, []
        # A run that resumes did not start where it resumes.
        self._began_at = None if earlier is None else earlier.starts
        kernel = request.kernel.kernel if isinstance(request.kernel, Stack) else request.kernel
        self._posterior = target_of(kernel)

    def keep(self, start: Position, data: Data) -> None:
        """Keep what a run starts with."""
        if self._posterior is None or self._rows:
            return
        first = start if self._began_at is None else take_rows(self._began_at, 0)
        self._start = on_host(first)
        sets, rows = self._request.data_sets, view(data).tree
        if sets is None:
            self._rows = [densities.some_rows(rows)]
            return
        # Data sets side by side have rows of their own, among which padding must not be.
        for member in evenly(len(sets), MAX_MEMBERS):
            places = evenly(int(sets.num_rows[member]), densities.LEVELS[-1][1])
            self._rows.append(take_rows(rows, (places, int(member))))

    def compile_ahead(self, num_chains: int, cost: Evaluations, num_steps: int, data: Data) -> None:
        """Compile what a short run of one kernel waits for, while a thread compiles its steps.

        Args:
            num_chains: the number of chains.
            cost: what `init` and steps of a chain evaluate.
            num_steps: the number of steps.
            data: all rows.
        """
        if self._posterior is None or isinstance(self._request.kernel, Stack) or cost.counted:
            return
        spent = num_chains * int(cost.at_init + cost.of_steps(0, num_steps))
        first = jax.tree.map(lambda x: np.asarray(x)[None], self._start)
        allowed = int(chain_ends.EVALUATION_SHARE * spent)
        work = functools.partial(
            densities.densities, self._posterior, first, self._rows[0], allowed
        )
        # Once: later runs of the same kernel and data find the program.
        question = "densities", densities.sizes(allowed, first)
        checked_arrays.remembered(question, work, data, self._request.kernel)

    def judged(self, samples: Samples) -> Samples:
        """Return samples with blown-up chains marked; warn of them, of draws of density 0, and of
        densities that are lost to rounding.
        """
        if not samples.interrupted:
            self._warn_of_rounding(samples)
        if samples.keeps_positions and not isinstance(self._request.kernel, Stack):
            for finding in spacing.of_draws(samples.draws, samples.is_finite):
                warn(str(finding))
        if self._posterior is None or not self._rows:
            return samples
        # What was sampled is not lost if this fails.
        try:
            return self._judged(samples)
        except Warning:
            raise
        except KeyboardInterrupt:
            return dataclasses.replace(samples, interrupted=True)
        except Exception as error:
            warn(
                "whether chains blew up, and whether draws lie where the density is 0, is not "
                f"known, because the densities could not be evaluated: {checks.reason(error)}"
            )
            return samples

    def _warn_of_rounding(self, samples: Samples) -> None:
        """Warn, once for the same data, of densities that are compared and lost to rounding."""
        kernel, request = self._request.kernel, self._request
        is_stack, data = isinstance(kernel, Stack), request.data
        is_plain = request.devices is None and not isinstance(data, Stream | Loader)
        if self._posterior is not None or not is_plain:
            return
        # Members are alike: the first, with the rows of its data set, stands for all.
        one, sets = kernel[0] if isinstance(kernel, Stack) else kernel, request.data_sets

        def ask() -> None:
            lasts = on_host(samples.state.position)
            lasts = of_member(lasts, 0, 1) if is_stack else lasts
            finite = np.isfinite([vector(take_rows(lasts, c)).sum() for c in range(num_chains)])
            if not finite.any():
                return
            rows = data
            if sets is not None:
                rows = take_rows(view(data).tree, (np.arange(int(sets.num_rows[0])), 0))
            last = take_rows(lasts, int(np.argmax(finite)))
            for finding in rounding.lost_differences(one, last, rows):
                warn(str(finding))

        num_chains = samples.diverged_at.shape[0]
        checked_arrays.remembered("rounding", ask, data, kernel)

    def _judged(self, samples: Samples) -> Samples:
        state, is_stack = samples.state, isinstance(self._request.kernel, Stack)
        step, last = int(np.ravel(on_host(state.step))[0]), on_host(state.position)
        # One kernel is a stack of one member.
        diverged = np.array(
            on_host(state.dynamics.diverged_at) if is_stack else samples.diverged_at[:, None]
        )
        reports = []
        for number, member in enumerate(evenly(diverged.shape[1], MAX_MEMBERS)):
            # Data sets have rows of their own, other members those of all.
            rows = self._rows[number % len(self._rows)]
            ends = self._ends(samples, last, diverged[:, member] < 0, member, rows)
            report = chain_ends.examine(ends)
            if report is not None:
                reports.append((f"member {member}: " if is_stack else "", report))
                diverged[report.blown_up, member] = step
        findings = chain_ends.support_findings(reports)
        # The warning of members that lost chains names them.
        if not is_stack:
            for _, report in reports:
                findings += chain_ends.blown_up_findings(report.blown_up)
        for finding in findings:
            warn(str(finding))
        if not is_stack:
            return dataclasses.replace(samples, diverged_at=diverged[:, 0])
        dynamics = state.dynamics._replace(diverged_at=jnp.asarray(diverged, jnp.int32))
        return dataclasses.replace(samples, state=state._replace(dynamics=dynamics))

    def _ends(
        self, samples: Samples, last: PyTree, alive: np.ndarray, member: int, rows: Data
    ) -> chain_ends.ChainEnds:
        """Return the chains of one kernel, or of a member of a stack."""
        sets, kernel = self._request.data_sets, self._request.kernel

        def of_one(tree: PyTree, axis: int = 1) -> PyTree:
            return of_member(tree, member, axis) if isinstance(kernel, Stack) else tree

        # Heights are judged by the temperature; a schedule's is not known, and taken for 1.
        one: Any = kernel[member] if isinstance(kernel, Stack) else kernel
        constant = getattr(one.dynamics, "temperature", None)
        is_constant = isinstance(constant, Constant)
        assert self._posterior is not None
        return chain_ends.ChainEnds(
            posterior=self._posterior,
            temperature=max(1.0, float(np.max(constant.value))) if is_constant else 1.0,
            # Draws that are functions of positions have no density: the last states do.
            draws=of_one(samples.draws, 2)
            if samples.keeps_positions and samples.num_draws
            else None,
            last=of_one(last),
            alive=alive,
            start=of_one(self._start, 0),
            starts=lambda: of_one(self._starts()),
            rows=rows,
            num_data=samples.num_data if sets is None else int(sets.num_rows[member]),
            evaluations=int(
                chain_ends.EVALUATION_SHARE
                * samples.gradient_evaluations
                / (1 if sets is None else len(sets))
            ),
        )

    def _starts(self) -> PyTree:
        """Return the first positions of all chains, or those from which they continue."""
        request = self._request
        if self._began_at is not None:
            return self._began_at
        if request.state is not None:
            return on_host(request.state.position)
        count = num_chains_of(request)
        keys = keys_of(request.key, count, request.first_chain or 0)
        return on_host(make_starts(keys, request.position, count, bool(request.stacked)))
