"""One record for whatever is wrong with a model or with draws of it.

A question about a model returns a list of findings, which is empty if nothing is wrong or if the
question cannot be answered. `sample` warns of them, a plan and a report carry them.
"""

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any, Literal

Kind = Literal[
    "support",  # positions at which the density is 0 or NaN
    "edge",  # the density ends among the draws, and is not 0 where it ends
    "gradient",  # the gradient is not that of the log density's values
    "no_identity",  # gradients say nothing, or little, of a function that is judged
    "unread",  # no function of the model reads an array of the position
    "unread_data",  # the likelihood does not read most arrays of the data
    "no_effect",  # the likelihood reads an array of the position, with a derivative of 0
    "undrawn",  # rows with a gradient have the probability 0
    "all_rows",  # the likelihood of one row is that of all rows
    "precision",  # the likelihood is NaN in float32 and finite in float64
    "spacing",  # numbers of the dtype are far apart for the posterior, or chains never move
    "size",  # the likelihood is many times too large or too small, such as a mean over rows
    "correlation",  # two coordinates of the posterior are nearly one
    "prior",  # draws are wider than the prior, as wide, or far from it
    "improper",  # the density does not fall along a coordinate
    "heavy_tail",  # the density falls so slowly that there is no standard deviation
    "other_mode",  # there is another mode
    "blown_up",  # chains went far away and stayed finite
    "temperature",  # draws are judged at another temperature than 1, or were made at several
    "excursions",  # chains were thrown out of a narrow part, and came back
    "divergence",  # why chains diverged
    "mode",  # the search for a mode did not end at one
    "warm_up",  # chains of a warm-up did not settle
    "pilot_run",  # a pilot run of the planned kernel is biased, or cannot be judged
    "plan",  # the plan of the kernel that made draws is not trusted
]
Severity = Literal["error", "doubt", "note"]


@dataclasses.dataclass(frozen=True)
class Finding:
    """One thing that is wrong with a model or with draws of it.

    Attributes:
        kind: the question that was asked, a fixed word.
        severity: "error" if draws cannot be those of the posterior, "doubt" if they may not be,
            "note" if they can be trusted all the same.
        text: one sentence that says what was seen, without a full stop.
        cure: what the user can do about it; empty if unknown.
    """

    kind: Kind
    severity: Severity
    text: str
    cure: str = ""

    def __str__(self) -> str:
        # A clause has one colon.
        joined = "; " if ": " in self.text.rsplit("; ", 1)[-1] else ": "
        return self.text + joined * bool(self.cure) + self.cure


def as_dictionaries(findings: Iterable[Finding]) -> list[dict[str, str]]:
    """Return findings as JSON holds them."""
    return [dataclasses.asdict(finding) for finding in findings]


def from_dictionaries(written: Iterable[Mapping[str, Any]]) -> tuple[Finding, ...]:
    """Return findings that were written as dictionaries.

    Raises:
        TypeError: they are something else.
    """
    return tuple(Finding(**finding) for finding in written)


def of_kinds(findings: Iterable[Finding], *kinds: Kind) -> list[Finding]:
    """Return the findings of these kinds, in their order; all of them if no kind is named."""
    return [finding for finding in findings if not kinds or finding.kind in kinds]


def texts(findings: Iterable[Finding], *kinds: Kind) -> str:
    """Return the texts of findings of these kinds, or of all if no kind is named, without their
    cures; an empty string if there are none.
    """
    return "; ".join(finding.text for finding in of_kinds(findings, *kinds))
