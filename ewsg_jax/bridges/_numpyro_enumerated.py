"""Discrete sites that each row has by itself, such as its label in a mixture, are summed out.

The model runs once for each of their values, the same in all rows of a batch, and each row sums its
densities over the runs: log Σ_z p(z) p(y | z). What comes out is a NumPyro model without discrete
sites, whose rows stand in a factor.

This module imports NumPyro, and is imported when a bridge is called.
"""

import dataclasses
import itertools
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
from numpyro import handlers

from ewsg_jax.bridges._numpyro_call import ModelCall
from ewsg_jax.bridges._numpyro_handlers import RowHandler
from ewsg_jax.bridges._numpyro_sites import Structure, discrete_sites, kind, row_plate, row_sites
from ewsg_jax.bridges._rows import ALL

SHARED = ("plate", "subsample", "prng_key")
"""Messages by which a batch's rows come into runs whose sites nobody else sees."""


class _Assigned(RowHandler):
    """Evaluates a model with discrete sites at one of their values, the same in each row.

    Attributes:
        assigned: the number of the value of each discrete site, by name.
    """

    assigned: dict[str, int]

    def process_message(self, msg: Any) -> None:
        number = self.assigned.get(msg.get("name")) if msg["type"] == "sample" else None
        if number is not None:
            density = msg["fn"]
            value = density.enumerate_support(expand=False)[number]
            shape = density.batch_shape + density.event_shape
            msg["value"], msg["is_observed"] = jnp.broadcast_to(value, shape), True
        super().process_message(msg)


@dataclasses.dataclass(frozen=True, eq=False)
class Enumerated:
    """A NumPyro model whose discrete sites are summed out in each row.

    Attributes:
        call: the model with them, its plate, and its sites of rows, the discrete ones included.
        sizes: how many values each discrete site has, by name.
        hidden: deterministic sites that depend on them.
    """

    call: ModelCall
    sizes: dict[str, int]
    hidden: tuple[str, ...] = ()

    @property
    def __name__(self) -> str:
        return getattr(self.call.model, "__name__", type(self.call.model).__name__)

    def __call__(self, *arguments: Any, **keywords: Any) -> None:
        """Run the model."""
        known: dict[str, Any] = {}
        densities = []
        for numbers in itertools.product(*map(range, self.sizes.values())):
            run = self.assigned(numbers, known)
            seen = handlers.trace(run)
            # The first run shows its sites; the others take the values that it had.
            hide = self._hides if not known else lambda msg: msg["type"] not in SHARED
            handlers.block(seen, hide_fn=hide)(*arguments, **keywords)
            known = known or {
                name: site["value"]
                for name, site in seen.trace.items()
                if site["type"] in ("sample", "param", "mutable") and name not in self.sizes
            }
            densities.append(run.of_rows())
        of_rows = jax.nn.logsumexp(jnp.stack(densities), axis=0)
        name, plate = f"summed over {', '.join(self.sizes)}", self.call.plate
        if plate is None:
            numpyro.factor(name, of_rows)
        else:
            with numpyro.plate(plate, self.call.num_rows, dim=-1):
                numpyro.factor(name, of_rows)

    def assigned(self, numbers: tuple[int, ...], known: dict[str, Any]) -> _Assigned:
        """Return the model at values of its discrete sites, and of others if they are known."""
        run = _Assigned(
            handlers.substitute(self.call.model, data=known), self.call.sites, self.call.plate
        )
        run.assigned = dict(zip(self.sizes, numbers, strict=True))
        return run

    def _hides(self, msg: Any) -> bool:
        return msg.get("name") in (*self.sizes, *self.hidden)


def enumerated(call: ModelCall, structure: Structure, rows: str | None) -> Enumerated:
    """Return a model with its discrete sites summed out.

    Raises:
        ValueError: they are not of one row each, or have no list of values.
    """
    discrete = discrete_sites(structure)
    sizes = {name: _number_of_values(site) for name, site in discrete.items()}
    plate, num_rows = row_plate(call, structure, None if rows == ALL else rows)
    both = structure._replace(observed=structure.observed | discrete)
    sites = row_sites(both, plate, num_rows)
    for name, site in discrete.items():
        if rows == ALL or name not in sites or math.prod(site["fn"].batch_shape) != num_rows:
            raise ValueError(refusal(name, site, "it is not one of each row"))
    call = dataclasses.replace(call, plate=plate, num_rows=num_rows, sites=sites)
    summed = Enumerated(call, sizes)
    known = {name: site["value"] for name, site in structure.latent.items() if name not in sizes}
    # Those that depend on a discrete site have no value once it is summed out.
    first, last = (
        handlers.trace(handlers.seed(summed.assigned(numbers, known), jax.random.key(0))).get_trace(
            *call.arguments, **call.keywords
        )
        for numbers in ((0,) * len(sizes), tuple(size - 1 for size in sizes.values()))
    )
    changed = [
        name
        for name, site in first.items()
        if site["type"] == "deterministic"
        and not np.array_equal(site["value"], last[name]["value"], equal_nan=True)
    ]
    return dataclasses.replace(summed, hidden=tuple(changed))


def refusal(name: str, site: Any, why: str) -> str:
    """Return why a model with a discrete site is refused, and what to do."""
    return (
        "model must have continuous sites, or discrete ones that each row has by itself, which are "
        f"summed out; got the discrete site {name!r} ({kind(site)}), and {why}: sum it out, such "
        "as by dist.MixtureSameFamily for a mixture, or give its values by handlers.condition"
    )


def _number_of_values(site: Any) -> int:
    try:
        return len(site["fn"].enumerate_support(expand=False))
    except Exception as error:
        raise ValueError(refusal(site["name"], site, "its values cannot be listed")) from error
