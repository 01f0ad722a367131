"""Chains that were thrown out of a narrow part by a step too large for it, and drifted back.

A few such excursions dominate a variance, and its standard error: identities show no bias, and a
much longer run is asked for, which has more of them. They differ from a heavy tail in their
direction in time. A chain of the posterior goes out as it comes back: reversed, it is as likely. An
excursion goes out in a few large moves and comes back in many of the usual size. Visits of one or
a few draws, as those of independent draws, are not judged.
"""

from typing import NamedTuple

import jax
import numpy as np

from ewsg_jax.answers.check import settings
from ewsg_jax.answers.check.crossfit import TINY
from ewsg_jax.answers.check.draws import Draws, tree_of
from ewsg_jax.base.typing import PyTree
from ewsg_jax.model_checks.finding import Finding
from ewsg_jax.run.samples import Samples
from ewsg_jax.vectors.row_subsets import evenly


class Excursion(NamedTuple):
    """One stretch of draws of a chain that is far out in a coordinate.

    Attributes:
        chain: its place among the chains.
        start: the number of its first draw.
        peak: the number of the draw that is farthest.
        end: the number of the draw after its last.
        distance: how far the farthest draw is from the median, in robust sds.
        outward: the largest move between two draws up to the farthest, in robust sds.
        inward: the largest move from there on.
    """

    chain: int
    start: int
    peak: int
    end: int
    distance: float
    outward: float
    inward: float

    def reversed(self) -> "Excursion":
        """Return what it were if time ran backwards."""
        first, last = self.start - 1, self.end
        return self._replace(
            start=-last, peak=-self.peak, end=-first, outward=self.inward, inward=self.outward
        )

    def is_thrown(self, usual_move: float) -> bool:
        """Return whether it went out by a few large moves and came back by many usual ones.

        Args:
            usual_move: the robust sd of a move between two draws, in robust sds.
        """
        rise, fall = self.peak - self.start + 1, self.end - self.peak
        return (
            # Fewer draws do not show the direction in time; by hand.
            fall >= 8
            and fall >= settings.EXCURSION_RATIO * rise
            and self.outward >= settings.EXCURSION_MOVES * usual_move
            and self.outward >= settings.EXCURSION_MOVE_RATIO * self.inward
        )


def excursions(samples: Samples | PyTree, draws: Draws) -> list[Finding]:
    """Return a finding if excursions of some chains dominate a variance; none if there are none.

    Args:
        samples: the run, or a pytree of draws with leading axes (chain, draw). All are used.
        draws: those that are used, for names and for the chains that stayed finite.
    """
    near, far = settings.EXCURSION_SDS
    worst: tuple[float, int, list[Excursion]] = (0.0, 0, [])
    first = 0
    for leaf in jax.tree.leaves(tree_of(samples)):
        values = np.asarray(leaf)
        if not values.size:
            continue
        values = values.reshape(*values.shape[:2], -1)
        if len(draws.chains) < len(values):
            values = values[draws.chains]
        subset = values[:, evenly(values.shape[1], settings.QUANTILE_DRAWS)]
        low, middle, high = np.quantile(subset, (0.25, 0.5, 0.75), axis=(0, 1))
        # The quartiles of N(0, 1) are 1.349 apart.
        sds = np.maximum((high - low) / 1.349, TINY)
        largest = np.maximum(values.max((0, 1)) - middle, middle - values.min((0, 1))) / sds
        candidates = np.argsort(-largest, kind="stable")[: settings.MAX_RHAT_COORDINATES]
        for k in candidates[largest[candidates] >= far]:
            off = (values[:, :, k].astype(np.float64) - middle[k]) / sds[k]
            share, thrown = _thrown(off, near, far)
            if share > worst[0]:
                worst = share, first + int(k), thrown
        first += values.shape[2]
    share, number, thrown = worst
    # An sd that is 5 % too large, as the default tolerance.
    if share < 0.1:
        return []
    farthest = max(thrown, key=lambda one: one.distance)
    steps, unit = np.arange(draws.num_draws), "draw"
    if isinstance(samples, Samples):
        steps, unit = np.asarray(samples.step), "step"
    name = draws.names[number]
    start, end = steps[farthest.start], steps[farthest.end]
    text = (
        f"chain {draws.chains[farthest.chain]} was thrown out at {unit} {start:,}, to "
        f"{farthest.distance:,.0f} robust sds ({name}), and came back in "
        f"{end - start:,} {unit}s"
    )
    if len(thrown) > 1:
        chains = len({one.chain for one in thrown})
        which = f"{chains} chains" if chains > 1 else "this chain"
        text += f"; {len(thrown)} such excursions of {which} make"
    else:
        text += ", which makes"
    text += f" {100 * share:.0f} % of the variance of {name}"
    cure = (
        "the posterior has a narrow part for which the steps are too large; take a smaller step "
        "(half, then half of it) or another parametrisation, as more draws have more of them"
    )
    return [Finding("excursions", "doubt", text, cure)]


def _thrown(off: np.ndarray, near: float, far: float) -> tuple[float, list[Excursion]]:
    """Return the part of a variance that is due to excursions, and these; 0 and none if as many
    go the other way.

    Args:
        off: a coordinate's draws less their median, in robust sds, shape (chain, draw).
        near: the distance at which an excursion begins and ends.
        far: the distance that it has to come to.
    """
    episodes = [one for c, chain in enumerate(off) for one in _episodes(c, chain, near, far)]
    every = max(1, off.shape[1] // settings.QUANTILE_DRAWS)
    moves = np.abs(np.diff(off, axis=1))[:, ::every]
    # Half of N(0, 1) is nearer than 0.6745.
    usual = float(np.median(moves)) / 0.6745
    thrown = [one for one in episodes if one.is_thrown(usual)]
    backwards = sum(one.reversed().is_thrown(usual) for one in episodes)
    if not thrown or backwards * settings.EXCURSION_RATIO > len(thrown):
        return 0.0, []
    squares = (off - off.mean()) ** 2
    part = sum(squares[one.chain, one.start : one.end].sum() for one in thrown)
    return float(part / squares.sum()), thrown


def _episodes(number: int, off: np.ndarray, near: float, far: float) -> list[Excursion]:
    """Return the stretches of a chain that are beyond `near` and come beyond `far`, but for those
    that begin with its first draw or do not end.

    Args:
        number: the place of the chain.
        off: its draws less the median, in robust sds, shape (draw,).
        near: the distance at which a stretch begins and ends.
        far: the distance that it has to come to.
    """
    size = np.abs(off)
    is_out = np.concatenate([[False], size > near, [False]])
    edges = np.flatnonzero(np.diff(is_out.astype(np.int8)))
    stretches = []
    for start, end in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
        if start == 0 or end == len(off) or size[start:end].max() < far:
            continue
        peak = start + int(size[start:end].argmax())
        moves = np.abs(np.diff(off[start - 1 : end + 1]))
        split = peak - start + 1
        stretches.append(
            Excursion(
                chain=number,
                start=start,
                peak=peak,
                end=end,
                distance=float(size[peak]),
                outward=float(moves[:split].max()),
                inward=float(moves[split:].max()),
            )
        )
    return stretches
