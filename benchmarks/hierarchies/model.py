"""What a hierarchy of this benchmark is: one posterior in two forms, and exact draws of it."""

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np

import ewsg_jax as ewsg

NUM_CHAINS = 8
"""Chains of exact draws: independent draws in all of them."""
Draws = dict[str, np.ndarray]
"""Float64 draws of a position, a leaf each, draws along the first axis."""
Form = Literal["centred", "non_centred"]


@dataclass(frozen=True)
class Pair:
    """One hierarchy, as people write it in either form.

    Attributes:
        name, title: what it is called, and what it is.
        data: its rows.
        centred, non_centred: the posterior in each form, and where a run starts.
        draw: exact draws by a generator and their number, in the centred form.
        to_non_centred: maps such draws to the other form.
        effects: leaves of the centred form whose prior sd is another coordinate.
        scales: leaves with the logarithms of these sds, of the numbers one each; the first is the
            one whose draws `wrong.py` makes wrong.
        precision: of draws, the conditional precision of each effect given all other coordinates.
        how: how exact draws are made.
    """

    name: str
    title: str
    data: Any
    centred: tuple[ewsg.Posterior, Any]
    non_centred: tuple[ewsg.Posterior, Any]
    draw: Callable[[np.random.Generator, int], Draws]
    to_non_centred: Callable[[Draws], Draws]
    effects: tuple[str, ...]
    scales: tuple[str, ...]
    precision: Callable[[Draws], Draws]
    how: str


@dataclass(frozen=True)
class HierarchyModel:
    """A hierarchy in one form.

    Attributes:
        name, pair, form: its own name, that of both forms, and which of them it is.
        posterior, data, start: what `ewsg.plan` takes.
        scales: leaves with logarithms of scales.
        of_pair: what both forms share.
    """

    name: str
    pair: str
    form: Form
    posterior: ewsg.Posterior
    data: Any
    start: Any
    scales: tuple[str, ...]
    of_pair: Pair

    def exact(self, seed: int, n: int) -> Any:
        """Return n exact draws in all, a pytree with the leading axes (8, n / 8), float64."""
        draws = self.of_pair.draw(np.random.default_rng([seed, 1]), n)
        return self.in_chains(self.in_form(draws))

    def in_form(self, draws: Draws) -> Draws:
        """Return draws of the centred form in this form."""
        return draws if self.form == "centred" else self.of_pair.to_non_centred(draws)

    def in_chains(self, draws: Draws) -> Draws:
        """Return draws with an axis of chains before theirs."""
        return {
            name: np.reshape(leaf, (NUM_CHAINS, -1, *leaf.shape[1:]))
            for name, leaf in draws.items()
        }

    @functools.cached_property
    def reference(self) -> dict[str, dict[str, np.ndarray]]:
        """Mean and sd of each coordinate, of each scale itself as `exp(name)`, and the standard
        errors of both: `reference[leaf]["mean" | "sd" | "mean_error" | "sd_error"]`.
        """
        from benchmarks.hierarchies.references import of_model

        return of_model(self.name)

    def log_density(self, position: Any, data: Any) -> jax.Array:
        """Return log π, for NUTS."""
        rows = jax.vmap(self.posterior.log_likelihood, (None, 0))(position, data)
        return self.posterior.log_prior(position) + jnp.sum(rows)


def replaced(draws: Draws, *old: str, **new: np.ndarray) -> Draws:
    """Return draws without some leaves and with others."""
    return {name: x for name, x in draws.items() if name not in old} | new


def sum_of_squares(x: Any) -> jax.Array:
    """Return Σ x², over all axes."""
    return jnp.sum(x**2)


def with_scales(draws: Mapping[str, Any], scales: tuple[str, ...]) -> Draws:
    """Return draws with the scales themselves added, as leaves `exp(name)`."""
    known = {name: np.asarray(leaf, np.float64) for name, leaf in draws.items()}
    return known | {f"exp({name})": np.exp(known[name]) for name in scales}


def both(pair: Pair) -> tuple[HierarchyModel, HierarchyModel]:
    """Return both forms of a hierarchy."""

    def made(form: Form, posterior: ewsg.Posterior, start: Any) -> HierarchyModel:
        name = f"{pair.name}_{form[0]}"
        return HierarchyModel(name, pair.name, form, posterior, pair.data, start, pair.scales, pair)

    return made("centred", *pair.centred), made("non_centred", *pair.non_centred)
