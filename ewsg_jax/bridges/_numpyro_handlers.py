"""How a NumPyro model is evaluated on some of its rows: one handler, around `potential_energy`.

The model runs once for a whole batch. Its arguments hold the batch's rows, the plate of the rows
has the batch's length, and sites that observe a row each give their log densities unsummed, which
the handler collects and leaves out of NumPyro's own sum: that is then the log prior, with NumPyro's
transforms and their Jacobians.

This module imports NumPyro, and is imported when a bridge is called.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from numpyro.primitives import Messenger

from ewsg_jax.base.typing import Array, Key


class RowSite(NamedTuple):
    """A site that observes something in each row.

    Attributes:
        axis: which axis of its log density counts rows, from the end: −1 for the last one.
        place: the same axis from the beginning, which is that of its values.
    """

    axis: int
    place: int


class RowHandler(Messenger):
    """Evaluates a model on all of its rows, or on some.

    Plates are taken whole, whatever their `subsample_size`, but for that of the rows.

    Attributes:
        values: after a call, the log density of each row at each of the sites, by name, with the
            site's own batch axes.
        lengths: after a call, how many values each of the sites observes along the axis of rows.
    """

    def __init__(
        self,
        model: Any,
        sites: dict[str, RowSite],
        plate: str | None = None,
        numbers: Array | None = None,
        held: dict[str, Array] | None = None,
        missing: tuple[str, ...] = (),
        missing_key: Key | None = None,
    ) -> None:
        """Wrap a model.

        Args:
            model: the NumPyro model.
            sites: the sites that observe rows; {} for none, whose densities are all summed.
            plate: the name of the plate of rows.
            numbers: what the plate of rows yields, one number for each row of the batch; None for
                all of its numbers.
            held: observed values of the batch's rows by site, for values that are no arguments, as
                of `handlers.condition`.
            missing: sites of missing observations (`obs_mask`), which are integrated out.
            missing_key: the key of their values, on which nothing depends. Default: of seed 0.
        """
        super().__init__(model)
        self.sites, self.plate, self.numbers = sites, plate, numbers
        self.held = {} if held is None else held
        self.missing = missing
        self.missing_key = missing_key
        self.values: dict[str, Array] = {}
        self.lengths: dict[str, int] = {}
        self._sizes: dict[str, int] = {}
        self._densities: dict[str, Any] = {}

    def process_message(self, msg: Any) -> None:
        kind, name = msg["type"], msg.get("name")
        if kind == "plate":
            size = msg["args"][0]
            if name == self.plate and self.numbers is not None:
                numbers = self.numbers
            else:
                # Known in a trace too: a model may index arrays of NumPy by them.
                with jax.ensure_compile_time_eval():
                    numbers = jnp.arange(size)
            msg["value"], msg["args"] = numbers, (size, numbers.shape[0])
            self._sizes[name] = size
        elif kind == "subsample":
            # The arguments hold the batch's rows alone, and other plates are whole.
            msg["kwargs"]["event_dim"] = None
        elif kind == "prng_key" and msg["value"] is None:
            msg["value"] = jax.random.key(0)  # as NumPyro's own kernels do
        elif kind == "sample" and name in self.missing:
            # Any value will do: nothing depends on it, and its density integrates to 1.
            key = jax.random.key(0) if self.missing_key is None else self.missing_key
            msg["value"], msg["is_observed"] = msg["fn"].sample(key), True
            msg["fn"] = msg["fn"].mask(False)
        elif kind == "sample" and name in self.sites:
            self._densities[name] = msg["fn"]
            msg["fn"] = msg["fn"].mask(False)
            if name in self.held:
                msg["value"] = self.held[name]
            shape, place = jnp.shape(msg["value"]), self.sites[name].place
            self.lengths[name] = shape[place] if place < len(shape) else 1

    def postprocess_message(self, msg: Any) -> None:
        if msg["type"] == "sample" and msg["name"] in self._densities:
            density = self._densities.pop(msg["name"]).log_prob(msg["value"])
            scale = self._scale(msg)
            self.values[msg["name"]] = density if scale is None else scale * density

    def of_rows(self) -> Array:
        """Return the log density of each row over all sites, shape (b,)."""
        totals = []
        for name, site in self.sites.items():
            values = jnp.moveaxis(self.values[name], site.axis, 0)
            totals.append(jnp.sum(values, axis=tuple(range(1, values.ndim))))
        return sum(totals[1:], start=totals[0])

    def _scale(self, msg: Any) -> Any:
        """Return what a site's log density is multiplied by, without the share of the batch."""
        scale, frames = msg["scale"], msg["cond_indep_stack"]
        shares = [self._sizes[one.name] / one.size for one in frames if one.name == self.plate]
        if scale is None or not shares:
            return scale
        share = shares[0]
        if share == 1:
            return scale
        return None if isinstance(scale, float) and scale == share else scale / share
