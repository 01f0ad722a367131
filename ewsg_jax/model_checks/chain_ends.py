"""Chains at the end of a run: draws where the density is 0, and chains that blew up and stayed
finite.

Some hundred evaluations of log_prior are made and up to four thousand of log_likelihood, at most a
two-hundredth of the run's own or 128, by one compiled program that later runs share.

A chain has blown up if its last potential is
- a thousand temperatures a dimension above that of its own start and those of all chains that have
  not blown up, and ten times as high above the least that is known (on the way from a bad start it
  may go up before it falls); or
- a million above its start, whatever others do: less may be the noise of batches; or
- 200 temperatures and ten a dimension above all other chains, and the chain is a thousand times
  farther than they are: the potential may hardly depend on how far a chain is, as that of a network
  without a prior.

A chain that is right is never that high: it stays d/2 temperatures above the least potential, give
or take a few roots of d, even in a heavy-tailed distribution.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import numpy as np

from ewsg_jax.base import pytrees
from ewsg_jax.base.typing import Data, Position, PyTree
from ewsg_jax.model_checks import densities
from ewsg_jax.model_checks.divergence import FAR_LENGTHS, RISE, RISE_PER_DIMENSION
from ewsg_jax.model_checks.finding import Finding
from ewsg_jax.model_checks.support import NONE, SUPPORT_CURE, Outside
from ewsg_jax.posterior.posterior import Posterior
from ewsg_jax.vectors.row_subsets import evenly, take_rows

EVALUATION_SHARE = 1 / 200
"""Evaluations of log_likelihood that may be made here, as a share of the run's: half a percent of
its time."""
CLIMB, CLIMB_TIMES = 1e3, 10.0
"""How far a blown-up chain is above its own start and all other chains: temperatures a dimension,
and times the height of those above the least potential. A chain that is right is half a
temperature a dimension above the least; on the way from a bad start it falls. `test_model_warnings`
has heavy tails, funnels and bad starts that must not be marked."""
CLIMB_ALONE = 1e6
"""The same temperatures a dimension if no other chain is known to be fine: gradient noise may have
lifted all of them equally. Set by hand."""


class ChainEnds(NamedTuple):
    """The chains of one kernel at the end of a run, NumPy arrays.

    Attributes:
        posterior: the model that they sample.
        temperature: that of the last step, at least 1.
        draws: positions that were kept, leading axes (chain, draw); None if something else was.
        last: the last positions, leading axis chain.
        alive: which of the chains stayed finite, shape (chain,).
        start: the first position of the first chain.
        starts: returns the first positions of all, leading axis chain.
        rows: some rows.
        num_data: the number of all rows n.
        evaluations: how often log_likelihood may be evaluated.
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


class EndReport(NamedTuple):
    """What the densities at a run's end show.

    Attributes:
        outside: which share of the draws lies where the density is 0.
        starts_outside: whether the first chain started there.
        blown_up: which chains blew up, shape (chain,).
    """

    outside: Outside
    starts_outside: bool
    blown_up: np.ndarray


def examine(ends: ChainEnds) -> EndReport | None:
    """Return what densities show of one kernel's chains; None if none stayed finite."""
    blown_up = np.zeros(len(ends.alive), bool)
    # As long as all of the farthest chains blew up there may be others behind them.
    while True:
        alive = np.flatnonzero(ends.alive & ~blown_up)
        if not alive.size:
            return EndReport(NONE, False, blown_up) if blown_up.any() else None
        norms = _norms(ends.last)
        most, few, _ = densities.sizes(ends.evaluations, ends.last)
        # A chain that blew up is among the farthest.
        farthest = alive[np.argsort(-norms[alive], kind="stable")][: (few - 1) // 2]
        draws, num_first = _draws(ends, alive, most - 1 - len(farthest), few - 1 - len(farthest))
        start = jax.tree.map(lambda x: np.asarray(x)[None], ends.start)
        at = _evaluated(ends, [start, take_rows(ends.last, farthest), draws])
        first = 1 + len(farthest)
        no_prior, no_likelihood = (~np.isfinite(x) for x in at)
        outside = Outside.of(no_prior[first:], no_likelihood[first : first + num_first])
        starts_outside = bool(no_prior[0] or no_likelihood[0])
        new = _blown_up(ends, farthest, norms, alive, at.potential(ends.num_data))
        blown_up |= new
        if not new[farthest].all():
            return EndReport(outside, starts_outside, blown_up)


def _evaluated(ends: ChainEnds, trees: list[PyTree]) -> densities.Densities:
    """Return densities at positions that are given in parts, pytrees with one leading axis."""
    positions = jax.tree.map(lambda *leaves: np.concatenate(leaves), *trees)
    return densities.densities(ends.posterior, positions, ends.rows, ends.evaluations)


def _blown_up(
    ends: ChainEnds, farthest: np.ndarray, norms: np.ndarray, alive: np.ndarray, values: np.ndarray
) -> np.ndarray:
    """Return which of the farthest chains blew up.

    Args:
        ends: all chains.
        farthest: the numbers of the chains in question.
        norms: the length of each last position.
        alive: the numbers of the chains that stayed finite.
        values: potentials of the first chain's start, of these chains, and of draws.
    """
    blown_up = np.zeros(len(ends.alive), bool)
    # A chain of temperature T is about dT/2 above the mode: heights go in units of dT.
    unit = ends.temperature * max(1, pytrees.size(ends.last, leading_axes=1))
    heights = values[1 : 1 + len(farthest)]
    least = np.min(values[np.isfinite(values)], initial=np.inf)
    high = RISE_PER_DIMENSION * unit + RISE * ends.temperature
    suspicious = ~np.isfinite(heights) | (heights > least + high)
    if not suspicious.any():
        return blown_up
    # Only now are starts evaluated, which most runs do not need.
    chains, heights = farthest[suspicious], heights[suspicious]
    others = np.setdiff1d(alive, chains)
    _, few, _ = densities.sizes(ends.evaluations, ends.last)
    judged_by = others[evenly(len(others), few // 2)] if others.size else others
    starts = take_rows(ends.starts(), chains[: few - len(judged_by)])
    again = _evaluated(ends, [starts, take_rows(ends.last, judged_by)]).potential(ends.num_data)
    highest = float(np.max(again[len(again) - len(judged_by) :], initial=-np.inf))
    distance, start_norms = norms[others].max(initial=0.0), _norms(starts)
    # From the lowest on: a heavy tail, as of gradient noise, has chains at every height, a blow-up
    # leaves a gap.
    for k in np.argsort(heights[: few - len(judged_by)], kind="stable"):
        chain, height, before = chains[k], float(heights[k]), float(again[k])
        if not np.isfinite(height):
            # A distance whose square float32 barely holds.
            blown_up[chain] = norms[chain] > 1e15
            continue
        # Far above its own start and every chain known to be fine, or far above its start alone.
        rise = CLIMB if len(judged_by) else CLIMB_ALONE
        climbs = _is_above(height, max(before, highest), least, rise * unit)
        climbs |= _is_above(height, before, least, CLIMB_ALONE * unit)
        # In a flat tail the density may hardly fall: there the distance shows it.
        is_far = len(judged_by) > 1 and norms[chain] > FAR_LENGTHS * max(distance, start_norms[k])
        blown_up[chain] = climbs or bool(is_far and height > highest + high)
        if not blown_up[chain]:
            highest, distance = max(highest, height), max(distance, norms[chain])
    return blown_up


def _is_above(height: float, known: float, least: float, rise: float) -> bool:
    """Return whether a potential is far above a known one."""
    return bool(height > known + rise + CLIMB_TIMES * max(0.0, known - least))


def _draws(ends: ChainEnds, alive: np.ndarray, most: int, few: int) -> tuple[PyTree, int]:
    """Return at most `most` draws of these chains, evenly spaced, such that the first few are too,
    and how many these few are.
    """
    if ends.draws is None:
        # Without draws the chains' last states stand for them.
        chosen = alive[evenly(len(alive), most)]
        return take_rows(ends.last, chosen), min(few, len(chosen))
    length = jax.tree.leaves(ends.draws)[0].shape[1]
    places = evenly(len(alive) * length, most)
    first = places[evenly(len(places), few)] if few else places[:0]
    chain, draw = np.divmod(np.concatenate([first, np.setdiff1d(places, first)]), length)
    return jax.tree.map(lambda x: x[alive[chain], draw], ends.draws), len(first)


def _norms(positions: PyTree) -> np.ndarray:
    """Return the length of each position, in float64, shape (chain,)."""
    leaves = jax.tree.leaves(positions)
    with np.errstate(over="ignore"):
        squares = [
            np.square(np.asarray(x).reshape(len(x), -1), dtype=np.float64).sum(1) for x in leaves
        ]
    return np.sqrt(np.sum(squares, axis=0))


def support_findings(members: list[tuple[str, EndReport]]) -> list[Finding]:
    """Return one finding of draws where the density is 0, of the member of a stack that has most;
    none if there are none.

    Args:
        members: the name of each member and its report; an empty name for a single kernel.
    """
    outside = [(name, report) for name, report in members if report.outside]
    if not outside:
        return []
    name, worst = max(outside, key=lambda x: max(x[1].outside.prior, x[1].outside.likelihood))
    more = f" ({len(outside)} of {len(members)} members have such draws)"
    started = "; they started there" if worst.starts_outside else ""
    text = f"{name}{worst.outside}{more * (len(members) > 1)}{started}"
    return [Finding("support", "error", text, SUPPORT_CURE)]


def blown_up_findings(blown_up: np.ndarray) -> list[Finding]:
    """Return one finding of chains that blew up, shape (chain,); none if there are none."""
    chains = np.flatnonzero(blown_up)
    if not chains.size:
        return []
    numbers = ", ".join(map(str, chains[:5])) + (", …" if chains.size > 5 else "")
    text = (
        f"{chains.size} of {len(blown_up)} chains blew up and stayed finite (chains {numbers}): "
        "their potential is far above that of their start or of the other chains; they are marked "
        "like those that diverged (samples.diverged_at), and means leave them out"
    )
    cure = "a smaller step_size, columns of one scale (standardise them) or a better start may help"
    return [Finding("blown_up", "error", text, cure)]
