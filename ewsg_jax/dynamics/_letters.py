"""At which letter a step begins: A drift, B kick, O friction and noise, U is A and O together."""

import functools
from typing import NamedTuple

from ewsg_jax.base import checks

DRIFTS, NOISES = "AU", "OU"
LETTERS_TAKE = (
    "letters must be a palindrome of A, B and O, or of B and U, that takes one gradient a step"
)


class Cycle(NamedTuple):
    """The letters from a state to the next, and how many normals a coordinate takes."""

    letters: str
    num_normals: int


@functools.cache
def cycle_of(letters: str) -> Cycle:
    """Return the cycle of a palindrome, started at a letter at which its one gradient is known
    before any noise is added.

    Raises:
        ValueError: it is not a palindrome, or it has no such letter.
    """
    got = f"got {checks.describe(letters)}"
    # A palindrome is time-reversible, which the order of its bias rests on.
    if set(letters) not in (set("ABO"), set("BU")) or letters != letters[::-1]:
        raise ValueError(f"{LETTERS_TAKE}, such as 'ABOBA' or 'BAOAB'; {got}")
    # Kicks that no drift separates are at one position, over the end of the cycle too.
    places = letters.replace("O", "")
    gradients = sum(
        there == "B" != before for before, there in zip(places[-1] + places, places, strict=False)
    )
    if gradients > 1:
        raise ValueError(f"{LETTERS_TAKE}; {got}, whose kicks are at {gradients} positions")
    # A step may begin at any letter: the distribution there differs, the chain is the same.
    starts = []
    for place in range(len(letters)):
        ends = letters[:place], letters[place:]
        # θ is that of the letters: nothing moves it between their end and the state.
        if not all(set(DRIFTS) & set(end) for end in ends) and (
            normals := _normals(ends[1] + ends[0])
        ):
            starts.append((normals, place > 0, -place, ends[1] + ends[0]))
    if not starts:
        # The user is shown the cycle from its gradient on: it has noise in between.
        half = len(letters) // 2
        turned = letters[half:] + letters[: len(letters) - half]
        raise ValueError(
            f"{LETTERS_TAKE}, before noise moves the position; {got}, whose cycle from the "
            f"gradient on is {turned!r}"
        )
    # The fewest normals; then the start that is nearest to the letters as they were given.
    normals, _, _, cycle = min(starts)
    return Cycle(cycle, normals)


def _normals(cycle: str) -> int:
    """Return how many normals a coordinate takes; 0 if its kicks need more than one gradient."""
    first, last = cycle.index("B"), cycle.rindex("B")
    # Letters before the first kick that move nothing do not matter.
    to_move = cycle[:first].rstrip("BO")
    if set(NOISES) & set(to_move) or set(DRIFTS) & set(cycle[first:last]):
        return 0
    groups = [group for group in cycle.replace("B", "").split("A") if group]
    return 1 if len(groups) == 1 and "U" not in cycle else 2
