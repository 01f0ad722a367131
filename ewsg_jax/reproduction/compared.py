"""Methods compared by the scores with which they end, and along the way: claims and lines.

Curves are what `predicting.measured` gives of each method, by label; there is one such dictionary for each data
set.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ewsg_jax.reproduction.claim import Claim
from ewsg_jax.reproduction.figures import Line, numbers

Curves = dict[str, Any]


def ends(sets: Sequence[Curves], label: str, metric: str, higher: bool = False) -> np.ndarray:
    """Return a method's last scores, of each repeat on each data set; the worst there is where a chain was lost."""
    found = np.concatenate([numbers(each[label][metric]["last"]) for each in sets])
    return np.where(np.isnan(found), -np.inf if higher else np.inf, found)


def better(
    sets: Sequence[Curves],
    first: str,
    second: str,
    metric: str,
    words: str,
    *,
    higher: bool = False,
    below: float = float("inf"),
    by_the_paper: bool = True,
) -> Claim:
    """Return the claim that one method ends with a better score than another, repeat by repeat.

    Args:
        sets: the curves of each data set.
        first: the better one.
        second: the other one.
        metric: its name.
        words: what is claimed.
        higher: whether a higher score is better.
        below: what the first method's score must be below besides, to be better than anything.
        by_the_paper: as for `Claim`.
    """
    one, other = (ends(sets, label, metric, higher) for label in (first, second))
    so = (one > other if higher else one < other) & (one < below)
    shown = (
        f"{so.sum()} of {len(so)} repeats; medians: {first} {np.median(one):.4g}, {second} {np.median(other):.4g}"
    )
    return Claim(words, float(so.mean()), shown, by_the_paper)


def line(sets: Sequence[Curves], label: str, metric: str, mark: str = "", **more: Any) -> Line:
    """Return the median of a method's mean score over data sets along passes; `mark` is what it is called."""
    means = [numbers(each[label][metric]["mean"]) for each in sets if len(each[label]["passes"]) > 1]
    if not means:
        return Line(mark, [], [], of=label, **more)
    shortest = min(map(len, means))
    middle = np.median([each[:shortest] for each in means], axis=0)
    passes = next(each[label]["passes"] for each in sets if len(each[label]["passes"]) > 1)
    return Line(mark, passes[:shortest], [float(x) for x in middle], of=label, **more)
