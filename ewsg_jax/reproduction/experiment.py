"""What an experiment is: parts that give numbers, claims that are read off them, and a figure."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from ewsg_jax.reproduction.claim import Claim
from ewsg_jax.reproduction.figures import Panel

Settings = TypeVar("Settings")
Numbers = dict[str, Any]
"""What a part gives, as JSON has it: texts, numbers, lists and dictionaries by text."""
Parts = Mapping[str, Numbers]


@dataclass(frozen=True)
class Experiment(Generic[Settings]):
    """A figure or a table of a paper, to be made again.

    Attributes:
        name: on the command line; of its configuration, `configs/papers/NAME.toml`, and of its results.
        source: where the paper has it.
        question: what it shows there, in words.
        settings: what its configuration says, a frozen dataclass.
        parts: what is to be computed, by name and in order, each from those before it; a part is kept as soon as it
            is there. Its `"evaluations"` are how many ∇Vᵢ it took.
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
