"""What methods are run on, to be judged by what they predict, and how long."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ewsg_jax._types import Data, Key, Position
from ewsg_jax.experiments.tables import above_zero, at_least
from ewsg_jax.posterior import Posterior
from ewsg_jax.reproduction.metrics import Metric


@dataclass(frozen=True, eq=False)
class Problem:
    """What is sampled, and what it is judged by.

    Attributes:
        posterior: of the training rows.
        train: rows to train on.
        test: rows to judge by.
        start: where chains start, as `ewsg_jax.sample` takes it.
        metrics: by name; functions of predictions, such as those of `metrics`.
    """

    posterior: Posterior
    train: Data
    test: Data
    start: Position | Callable[[Key], Position]
    metrics: Mapping[str, Metric]


@dataclass(frozen=True)
class Budget:
    """How long all methods run, and what is kept.

    Attributes:
        data_passes: over the training rows, of each chain; all that is evaluated counts, at the start too.
        num_repeats: independent repeats.
        ensemble: chains of each, which predict together.
        num_draws: draws along the passes, at least; the last one is at the end.
        burn_in_passes: passes that no draw is kept of.
        running: whether predictions are those of all draws so far, and not of this draw alone.
    """

    data_passes: float
    num_repeats: int
    ensemble: int = 1
    num_draws: int = 20
    burn_in_passes: float = 0.0
    running: bool = False

    def __post_init__(self) -> None:
        above_zero("budget.data_passes", self.data_passes)
        at_least("budget", self, num_repeats=1, ensemble=1, num_draws=1, burn_in_passes=0)

    @property
    def num_chains(self) -> int:
        """All chains: of repeat r those from r · ensemble on."""
        return self.num_repeats * self.ensemble
