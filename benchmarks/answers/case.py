"""What `answers.py` compares answers on: rows, a posterior of them, and what is compared."""

import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import ewsg_jax as ewsg

Rows = dict[str, np.ndarray]
Data = dict[str, jax.Array]
Density = Callable[[Any, Any], jax.Array]


def flat(draws: Any) -> np.ndarray:
    """Return all numbers of draws with two leading axes, shape (…, …, numbers)."""
    leaves = [np.asarray(x, np.float64) for x in jax.tree.leaves(draws)]
    return np.concatenate([x.reshape(*x.shape[:2], -1) for x in leaves], axis=-1)


@dataclass(frozen=True)
class Case:
    """Data and model.

    Attributes:
        name: on the command line and in results.
        title: in tables.
        load: gives the rows.
        posterior: of them.
        log_density: the same posterior at all rows at once, up to a constant, as one writes it for
            NUTS.
        start: where the search for a mode begins, and NUTS; None: at zero, a number for each column
            of x.
        summary: of draws with two leading axes, what is compared, shape (…, …, numbers).
        twin: the name of the same model in another form, whose summaries have the same law.
    """

    name: str
    title: str
    load: Callable[[], Any]
    posterior: ewsg.Posterior
    log_density: Density
    start: Any = None
    summary: Callable[[Any], np.ndarray] = flat
    twin: str | None = None

    def starts(self, data: Any) -> Any:
        """Return where a search begins."""
        return jnp.zeros(data["x"].shape[1]) if self.start is None else self.start


@dataclass(frozen=True)
class Regression(Case):
    """A regression with the prior N(0, I), whose position is its weights.

    Attributes:
        is_linear: a linear regression with noise 1, else a logistic one.
        has_outliers: rows beyond some ten sds are walls, and without them the posterior is nearly
            normal.
    """

    is_linear: bool = False
    has_outliers: bool = False


@dataclass(frozen=True)
class Grouped(Case):
    """A logistic regression with effects of groups, each beside its mean and scale, and five
    slopes.

    Attributes:
        num_groups: effects.
        effects: of a position, the effects themselves.
        is_reduced: its reference is of sums for each group, for gradients of all rows would take
            too long.
        pilot: the name of a case with fewer rows, whose number of gradients stands for this one's.
    """

    num_groups: int = 0
    effects: Callable[[Any], Any] = operator.itemgetter("e")
    is_reduced: bool = False
    pilot: str | None = None
