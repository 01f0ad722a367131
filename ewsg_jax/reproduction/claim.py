"""What a paper claims, and what becomes of it: rules that stand before the numbers they judge."""

from collections.abc import Sequence
from dataclasses import dataclass

HOLDS, IN_PART, FAILS = "holds", "holds in part", "does not hold"
MOST, FEW = 0.9, 0.1
"""Shares of the repeats in which something is so, from which on it holds, and up to which it does not."""


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
        >>> verdict_of([Claim("a is less than b", 1.0, "1, 2"), Claim("b is least", 0.0, "2", by_the_paper=False)])
        'holds'
    """
    found = {claim.verdict for claim in claims if claim.by_the_paper}
    return found.pop() if len(found) == 1 else IN_PART
