"""What the configuration of `linear_gaussian` says."""

from dataclasses import dataclass, field
from typing import Any

from ewsg_jax.experiments.config import Method, method_of
from ewsg_jax.experiments.tables import ConfigError, at_least


@dataclass(frozen=True)
class Settings:
    """Chains of each method in each dimension on the data of each seed, and factors of the step that are tried.

    `spread` is how many times wider aₙ is in its widest direction than in its narrowest; of each method
    `first_steps` are its a_ε in these dimensions. `curved` is for the law off Gaussians, see `curved`.
    """

    dimensions: tuple[int, ...]
    num_rows: int
    batch_size: int
    noise_variance: float
    spread: float
    num_iterations: int
    num_chains: int
    data_seeds: tuple[int, ...]
    factors: tuple[float, ...]
    curved_chains: int
    curved_steps: tuple[float, ...]
    curved_time: float
    curved_seeds: tuple[int, ...]
    methods: list = field(default_factory=list)

    def __post_init__(self) -> None:
        at_least("full", self, num_rows=2, batch_size=1, num_iterations=100, num_chains=8, curved_chains=100)
        if 1.0 not in self.factors:
            raise ConfigError(f"factors must hold 1, the paper's step; got {list(self.factors)}")

    def named(self, place: int) -> dict[str, Method]:
        """The methods by their labels, in the dimension at a place."""
        found = [self._method(table, number, place) for number, table in enumerate(self.methods, 1)]
        return {each.label: each for each in found}

    def _method(self, table: Any, number: int, place: int) -> Method:
        own = dict(table)
        firsts = own.pop("first_steps", None)
        if not isinstance(firsts, list) or len(firsts) != len(self.dimensions):
            raise ConfigError(
                f"methods[{number}].first_steps must be {len(self.dimensions)} numbers; got {firsts!r}"
            )
        own |= {"step_size": float(firsts[place]), "batch_size": self.batch_size}
        if own.get("name") == "sgrld":
            own["inverse_metric"] = None  # Of the data: see `runs`.
        return method_of(own, number)
