"""What a run has come to: draws where the density is 0, and chains that blew up and stayed finite.

A step follows gradients; what the density is where a chain has gone only an evaluation says. At the
end of a run some hundred of log_prior and up to four thousand of log_likelihood are made, at most a
two-hundredth of the run's own or 128, by one compiled program that later runs share.

A chain has blown up where its last potential is a thousand temperatures a dimension above that of
its own start and those of all chains that have not, and ten times as high above the least that is
known (on the way from a bad start it may go up before it falls); or a million above its start,
whatever others do: less may be the noise of batches. That of a chain that is right is not: it stays
d/2 temperatures above the least one, give or take a few roots of d, wherever a chain of a
heavy-tailed law may be; and on the way from a bad start it falls. Where the potential hardly sees
how far a chain is, as that of a network without a prior, one has blown up that is a thousand times
farther than all other chains, and above them by 200 temperatures and ten a dimension: a draw of a
Cauchy law would have to be e¹⁰⁰ times as far as others.
"""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ewsg_jax.base import checked_arrays, checks
from ewsg_jax.base.typing import Data, Position, PyTree
from ewsg_jax.base.warn import warn
from ewsg_jax.dynamics._protocol import Constant
from ewsg_jax.kernels.pair import Pair
from ewsg_jax.model_checks import support
from ewsg_jax.model_checks.support import NONE, Outside
from ewsg_jax.posterior.posterior import Posterior
from ewsg_jax.rows._view import view
from ewsg_jax.run.checkpoint import Earlier
from ewsg_jax.run.host import on_host
from ewsg_jax.run.plan import Planned
from ewsg_jax.run.request import Request
from ewsg_jax.run.samples import Samples
from ewsg_jax.run.stacks.kernels import Stack
from ewsg_jax.run.stacks.members import of_member
from ewsg_jax.run.starts import keys_of, make_starts, num_chains_of
from ewsg_jax.vectors.row_subsets import evenly

SHARE = 1 / 200
"""Of the run's evaluations, those of log_likelihood that may be made here."""
CLIMB, TIMES = 1e3, 10.0
"""Temperatures a dimension above its start and all other chains, and times as high above the least
potential known, at which a chain has blown up.
"""
ALONE = 1e6
"""The first where no other chains are known good: all may be hot alike, by batch noise."""
FAR, HIGH, MORE = 1e3, 10.0, 200.0
"""Times as far as all other chains, and temperatures a dimension above, where it has too."""
ENORMOUS = 1e15
"""A distance whose square float32 barely holds: with an infinite potential, a blown-up chain."""
MOST_MEMBERS = 256
"""Members of a stack that are evaluated."""


class Run(NamedTuple):
    """The chains of one kernel, NumPy arrays.

    Attributes:
        posterior: what they sample.
        temperature: at the last step, at least 1.
        draws: positions that were kept, leading axes (chain, draw); None where something else was.
        last: the last positions, leading axis chain.
        alive: which of them stayed finite, shape (chain,).
        start: where the first one started.
        starts: returns where all did, leading axis chain.
        rows: some rows.
        num_data: n.
        evaluations: of log_likelihood that may be made.
    """

    posterior: Posterior
    temperature: float
    draws: PyTree
    last: PyTree
    alive: np.ndarray
    start: Position
    starts: Callable[[], PyTree]
    rows: Data
    num_data: int
    evaluations: int


class Found(NamedTuple):
    """What was found: draws outside, whether the first chain began there, blown-up chains."""

    outside: Outside
    starts_outside: bool
    blown: np.ndarray


class EndCheck:
    """The check at a run's end, which keeps the first chain's start and some rows only."""

    def __init__(self, request: Request, earlier: Earlier | None = None) -> None:
        self._request, self._start, self._rows = request, None, []
        # A run that resumes did not start where it resumes.
        self._began = None if earlier is None else earlier.starts
        kernel = request.kernel.kernel if isinstance(request.kernel, Stack) else request.kernel
        # Exact methods compare densities themselves.
        self._posterior = kernel.estimator.posterior if isinstance(kernel, Pair) else None

    def keep(self, start: Position, data: Data) -> None:
        """Keep what a run began with."""
        if self._posterior is None or self._rows:
            return
        self._start = on_host(self._first_of(start))
        sets, rows = self._request.data_sets, view(data).tree
        if sets is None:
            self._rows = [support.some_rows(rows)]
            return
        # Of data sets side by side each has rows of its own, and padding must not be among them.
        for member in evenly(len(sets), MOST_MEMBERS):
            places = evenly(int(sets.num_rows[member]), support.LEVELS[-1][1])
            self._rows.append(support.take_rows(rows, (places, int(member))))

    def _first_of(self, start: Position) -> Position:
        """Return where the first chain started, which is `start` where no run resumes."""
        return start if self._began is None else support.take_rows(self._began, 0)

    def compile_ahead(self, planned: Planned, data: Data) -> None:
        """Compile what a short run of one kernel waits for, while a thread compiles its steps."""
        cost, terms = planned.cost, planned.terms
        if self._posterior is None or isinstance(self._request.kernel, Stack) or cost.counted:
            return
        spent = planned.num_chains * int(cost.at_init + cost.of_steps(0, terms.num_steps))
        first = jax.tree.map(lambda x: np.asarray(x)[None], self._start)
        work = functools.partial(
            support.densities, self._posterior, first, self._rows[0], int(SHARE * spent)
        )
        # Once: later runs of the same kernel and data find the program.
        asked = "densities", support.sizes(int(SHARE * spent), first)
        checked_arrays.remembered(asked, work, data, self._request.kernel)

    def judged(self, samples: Samples) -> Samples:
        """Return samples with blown-up chains marked; warn of them and of draws of density 0."""
        if self._posterior is None or not self._rows:
            return samples
        # What was sampled is not lost to a look at it.
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

    def _judged(self, samples: Samples) -> Samples:
        kernel, state = self._request.kernel, samples.state
        is_stack, own = isinstance(kernel, Stack), state.dynamics
        last, position = int(np.ravel(on_host(state.step))[0]), on_host(state.position)
        # One kernel is a stack of one member.
        diverged = np.array(on_host(own.diverged_at) if is_stack else samples.diverged_at[:, None])
        said = []
        for number, member in enumerate(evenly(diverged.shape[1], MOST_MEMBERS)):
            # Data sets have rows of their own, other members those of all.
            rows = self._rows[number % len(self._rows)]
            found = look(self._run(samples, position, diverged[:, member] < 0, member, rows))
            if found is not None:
                said.append((f"member {member}: " if is_stack else "", found))
                diverged[found.blown, member] = last
        _warn_outside(said)
        if is_stack:
            # The warning of members that lost chains names them.
            own = own._replace(diverged_at=jnp.asarray(diverged, jnp.int32))
            return dataclasses.replace(samples, state=state._replace(dynamics=own))
        for _, found in said:
            if found.blown.any():
                _warn_blown(found.blown)
        return dataclasses.replace(samples, diverged_at=diverged[:, 0])

    def _run(
        self, samples: Samples, last: PyTree, alive: np.ndarray, member: int, rows: Data
    ) -> Run:
        """Return the chains of one kernel, or of a member of a stack."""
        sets, kernel = self._request.data_sets, self._request.kernel

        def of_it(tree: PyTree, axis: int = 1) -> PyTree:
            return of_member(tree, member, axis) if isinstance(kernel, Stack) else tree

        # Heights are judged by the temperature; a schedule's is not known, and taken for 1.
        own: Any = kernel[member] if isinstance(kernel, Stack) else kernel
        given = getattr(own.dynamics, "temperature", None)
        temperature = max(1.0, float(np.max(given.value))) if isinstance(given, Constant) else 1.0
        assert self._posterior is not None
        return Run(
            self._posterior,
            temperature,
            # Draws that are functions of positions say nothing of a density: the last states do.
            of_it(samples.draws, 2) if samples.keeps_positions and samples.num_draws else None,
            of_it(last),
            alive,
            of_it(self._start, 0),
            lambda: of_it(self._starts()),
            rows,
            samples.num_data if sets is None else int(sets.num_rows[member]),
            int(SHARE * samples.gradient_evaluations / (1 if sets is None else len(sets))),
        )

    def _starts(self) -> PyTree:
        """Return where all chains started, or continued from."""
        request = self._request
        if self._began is not None:
            return self._began
        if request.state is not None:
            return on_host(request.state.position)
        count = num_chains_of(request)
        keys = keys_of(request.key, count, request.first_chain or 0)
        return on_host(make_starts(keys, request.position, count, bool(request.stacked)))


def look(run: Run) -> Found | None:
    """Return what is found of one kernel's chains; None where none stayed finite."""
    blown = np.zeros(len(run.alive), bool)
    # As long as all of the farthest chains blew up there may be others behind them.
    while True:
        alive = np.flatnonzero(run.alive & ~blown)
        if not alive.size:
            return Found(NONE, False, blown) if blown.any() else None
        norms = _norms(run.last)
        most, few, _ = support.sizes(run.evaluations, run.last)
        # A chain that blew up is among the farthest.
        farthest = alive[np.argsort(-norms[alive], kind="stable")][: (few - 1) // 2]
        kept, first = _draws(run, alive, most - 1 - len(farthest), few - 1 - len(farthest))
        parts = [
            jax.tree.map(lambda x: np.asarray(x)[None], run.start),
            support.take_rows(run.last, farthest),
            kept,
        ]
        found = support.densities(run.posterior, _put(parts), run.rows, run.evaluations)
        behind = 1 + len(farthest)
        likelihood = found.outside_likelihood[behind : behind + first]
        outside = Outside.of(found.outside_prior[behind:], likelihood)
        starts_outside = bool(found.outside_prior[0] or found.outside_likelihood[0])
        new = _blown_up(run, farthest, norms, alive, found.potential(run.num_data))
        blown |= new
        if not new[farthest].all():
            return Found(outside, starts_outside, blown)


def _blown_up(
    run: Run, those: np.ndarray, norms: np.ndarray, alive: np.ndarray, potential: np.ndarray
) -> np.ndarray:
    """Return which of `those` chains blew up; `potential`: of a start, of these, of others."""
    blown = np.zeros(len(run.alive), bool)
    # A chain of temperature T is about dT/2 above the mode: heights go in units of dT.
    unit = run.temperature * max(1, sum(x[0].size for x in jax.tree.leaves(run.last)))
    own = potential[1 : 1 + len(those)]
    known = potential[np.isfinite(potential)]
    least = known.min() if known.size else np.inf
    high = HIGH * unit + MORE * run.temperature
    suspicious = ~np.isfinite(own) | (own > least + high)
    if not suspicious.any():
        return blown
    # Only now are starts evaluated, which most runs do not need.
    chains, own = those[suspicious], own[suspicious]
    others = np.setdiff1d(alive, chains)
    _, few, _ = support.sizes(run.evaluations, run.last)
    some = others[evenly(len(others), few // 2)] if others.size else others
    starts = support.take_rows(run.starts(), chains[: few - len(some)])
    again = support.densities(
        run.posterior, _put([starts, support.take_rows(run.last, some)]), run.rows, run.evaluations
    )
    values = again.potential(run.num_data)
    highest = np.max(values[len(values) - len(some) :], initial=-np.inf)
    farthest = norms[others].max(initial=0.0)
    # From the lowest on: a law with a heavy tail, as of a hot run, has chains at every height, a
    # blow-up a gap.
    for number in np.argsort(own[: few - len(some)], kind="stable"):
        chain, before = chains[number], values[number]
        if not np.isfinite(own[number]):
            blown[chain] = norms[chain] > ENORMOUS
            continue
        # Far above its own start and every chain known to be fine, or far above its start alone.
        known = max(before, highest)
        climb = CLIMB if len(some) else ALONE
        climbs = np.isfinite(known) and own[number] > known + climb * unit + TIMES * max(
            0.0, known - least
        )
        climbs |= bool(own[number] > before + ALONE * unit + TIMES * max(0.0, before - least))
        # A flat tail may have a density that hardly falls: there the distance tells.
        far = len(some) > 1 and norms[chain] > FAR * max(farthest, _norms(starts)[number])
        blown[chain] = climbs or bool(far and own[number] > highest + high)
        if not blown[chain]:
            highest, farthest = max(highest, own[number]), max(farthest, norms[chain])
    return blown


def _draws(run: Run, alive: np.ndarray, most: int, few: int) -> tuple[PyTree, int]:
    """Return draws of these chains, evenly spaced, the first few too, and how many these are."""
    if run.draws is None:
        # Without draws the chains' last states stand for them.
        chosen = alive[evenly(len(alive), most)]
        return support.take_rows(run.last, chosen), min(few, len(chosen))
    length = jax.tree.leaves(run.draws)[0].shape[1]
    places = evenly(len(alive) * length, most)
    first = places[evenly(len(places), few)] if few else places[:0]
    chain, draw = np.divmod(np.concatenate([first, np.setdiff1d(places, first)]), length)
    return jax.tree.map(lambda x: x[alive[chain], draw], run.draws), len(first)


def _put(trees: list[PyTree]) -> PyTree:
    return jax.tree.map(lambda *leaves: np.concatenate(leaves), *trees)


def _norms(positions: PyTree) -> np.ndarray:
    """Return the length of each position, in float64, shape (chain,)."""
    leaves = jax.tree.leaves(positions)
    with np.errstate(over="ignore"):
        squares = [
            np.square(np.asarray(x).reshape(len(x), -1), dtype=np.float64).sum(1) for x in leaves
        ]
    return np.sqrt(np.sum(squares, axis=0))


def _warn_outside(found: list[tuple[str, Found]]) -> None:
    """Warn of draws where the density is 0, of the member of a stack where they are most."""
    outside = [one for one in found if one[1].outside]
    if not outside:
        return
    name, worst = max(outside, key=lambda one: max(one[1].outside.prior, one[1].outside.likelihood))
    more = f" ({len(outside)} of {len(found)} members have such draws)" if len(found) > 1 else ""
    started = "; they started there" if worst.starts_outside else ""
    warn(f"{name}{worst.outside}{more}{started}: {support.CURE}")


def _warn_blown(blown: np.ndarray) -> None:
    numbers = ", ".join(map(str, np.flatnonzero(blown)[:5])) + (", …" if blown.sum() > 5 else "")
    warn(
        f"{blown.sum()} of {len(blown)} chains blew up and stayed finite (chains {numbers}): their "
        "potential is far above that of their start or of the other chains; they are marked like "
        "those that diverged (samples.diverged_at), and means leave them out: a smaller step_size, "
        "columns of one scale (standardise them) or a better start may help"
    )
