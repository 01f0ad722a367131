"""What an experiment is: parts that give numbers, claims that are read off them, and a figure.

The rules that judge what a paper claims stand before the numbers that they judge.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from benchmarks.papers.figures import Panel

HOLDS, IN_PART, FAILS = "holds", "holds in part", "does not hold"
MOST, FEW = 0.9, 0.1
"""Shares of the repeats in which something is so, from which on it holds, and up to which it does
not.
"""


@dataclass(frozen=True)
class Claim:
    """A claim, judged.

    Attributes:
        words: what is claimed.
        share: in what part of the repeats it was so, from 0 to 1.
        shown: the numbers that it was read off, in words.
        by_the_paper: whether the paper makes it; else it is said beside those that it makes.
    """

    words: str
    share: float
    shown: str
    by_the_paper: bool = True

    @property
    def verdict(self) -> str:
        """What becomes of it."""
        return HOLDS if self.share >= MOST else FAILS if self.share <= FEW else IN_PART


def verdict_of(claims: Sequence[Claim]) -> str:
    """Return the verdict on all that the paper claims: where these differ, it holds in part.

    Example:
        >>> verdict_of(
        ...     [
        ...         Claim("a is less than b", 1.0, "1, 2"),
        ...         Claim("b is least", 0.0, "2", by_the_paper=False),
        ...     ]
        ... )
        'holds'
    """
    found = {claim.verdict for claim in claims if claim.by_the_paper}
    return found.pop() if len(found) == 1 else IN_PART


Settings = TypeVar("Settings")
Numbers = dict[str, Any]
"""What a part gives, as JSON has it: texts, numbers, lists and dictionaries by text."""
Parts = Mapping[str, Numbers]


@dataclass(frozen=True)
class Experiment(Generic[Settings]):
    """A figure or a table of a paper, to be made again.

    Attributes:
        name: on the command line; of its configuration, `configs/papers/NAME.toml`, and of its
            results.
        source: where the paper has it.
        question: what it shows there, in words.
        settings: what its configuration says, a frozen dataclass.
        parts: what is to be computed, by name and in order, each from those before it; a part is
            kept as soon as it is there. Its `"evaluations"` are how many ∇Vᵢ it took.
        claims: judges the parts' numbers; the rule, which knows nothing else.
        draw: the panels of a figure of the parts' numbers.
    """

    name: str
    source: str
    question: str
    settings: type[Settings]
    parts: Callable[[Settings], Mapping[str, Callable[[Parts], Numbers]]]
    claims: Callable[[Parts], list[Claim]]
    draw: Callable[[Parts], Sequence[Panel]]
