"""What a NumPyro model consists of: its sites and plates, and which of them are rows.

This module imports NumPyro, and is imported when a bridge is called.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from numpyro import handlers
from numpyro.infer.initialization import init_to_uniform

from ewsg_jax.base import checks
from ewsg_jax.bridges._numpyro_call import ModelCall
from ewsg_jax.bridges._numpyro_handlers import RowHandler, RowSite
from ewsg_jax.bridges._rows import ALL


class Structure(NamedTuple):
    """A model's sites, as NumPyro traced them on all rows.

    Attributes:
        sites: NumPyro's records, by name.
        plates: the size of each plate, by name.
        observed: the records of sites that observe something, factors included.
        latent: the records of sites to sample.
    """

    sites: dict[str, Any]
    plates: dict[str, int]
    observed: dict[str, Any]
    latent: dict[str, Any]


def structure_of(call: ModelCall) -> Structure:
    """Trace a model on all rows.

    Raises:
        ValueError: it fails, or is no model that can be sampled; the message names the site.
    """
    plates: dict[str, int] = {}

    class Sizes(RowHandler):
        def process_message(self, msg: Any) -> None:
            super().process_message(msg)
            if msg["type"] == "plate":
                plates[msg["name"]] = msg["args"][0]

    seeded = handlers.seed(Sizes(call.model, {}), jax.random.key(0))
    started = handlers.substitute(seeded, substitute_fn=init_to_uniform())
    try:
        sites = handlers.trace(started).get_trace(*call.arguments, **call.keywords)
    except Exception as error:
        _check_lengths(call, plates, error)
        raise ValueError(
            f"model must run on its arguments; it failed: {checks.reason(error)}"
        ) from error
    samples = {name: site for name, site in sites.items() if site["type"] == "sample"}
    observed = {name: site for name, site in samples.items() if site["is_observed"]}
    latent = {name: site for name, site in samples.items() if not site["is_observed"]}
    return Structure(sites, plates, observed, latent)


def check_sites(structure: Structure) -> None:
    """Raise ValueError for a site that cannot be sampled or observed, by its name."""
    if not structure.latent:
        raise ValueError(
            "model must have a site to sample; got one whose sites are all observed: "
            f"{_listed(structure.observed)}"
        )
    if not structure.observed:
        raise ValueError(
            "model must observe something (obs=…, numpyro.factor or handlers.condition); got one "
            f"that only has the sites {_listed(structure.latent)}: call from_numpyro(model, …) "
            "with the observed values, as MCMC.run is"
        )
    for name, site in structure.latent.items():
        density = site["fn"]
        if any(isinstance(part, dist.ImproperUniform) for part in _parts(density)):
            raise ValueError(
                f"model must have proper priors; got the improper site {name!r} "
                "(ImproperUniform): give it a wide density, such as dist.Normal(0, 100), or one "
                "on its support"
            )
        if isinstance(density, dist.Delta):
            raise ValueError(
                f"model must have sites with densities; got the site {name!r} with a Delta: write "
                "numpyro.deterministic"
            )
    for name, site in structure.observed.items():
        _check_values(name, site)


def discrete_sites(structure: Structure) -> dict[str, Any]:
    """Return the latent sites with whole numbers."""
    latent = structure.latent.items()
    return {name: site for name, site in latent if site["fn"].support.is_discrete}


def row_plate(call: ModelCall, structure: Structure, rows: str | None) -> tuple[str | None, int]:
    """Return the plate of rows and how many there are; None for the plate if only an axis of the
    data counts them.

    Raises:
        TypeError, ValueError: there is no plate of that name, or it is not clear which it is.
    """
    plates = structure.plates
    if rows is not None and not isinstance(rows, str):
        raise TypeError(f"rows must be the name of a plate, or None; got {checks.describe(rows)}")
    if rows is not None:
        if rows not in plates:
            raise ValueError(
                f"rows must be the name of a plate of the model, {_listed_plates(plates)}, or "
                f"{ALL!r} for data that are one datum; got {rows!r}"
            )
        return rows, plates[rows]
    lengths = {leaf.shape[0] for leaf in call.leaves().values()}
    around = dict.fromkeys(
        frame.name for site in structure.observed.values() for frame in site["cond_indep_stack"]
    )
    fitting = [name for name in around if plates.get(name) in lengths]
    if not lengths and len(around) == 1:
        fitting = list(around)
    if len(fitting) == 1:
        return fitting[0], plates[fitting[0]]
    if around:
        raise ValueError(
            "rows must name the plate of the observations, because it is not clear which has the "
            f"length of the data's leading axis, {_numbers(lengths)}; the plates around what is "
            f"observed are {_listed_plates({name: plates[name] for name in around})}"
        )
    axes = {site["fn"].batch_shape[0] for site in structure.observed.values() if _axes(site)}
    counts = axes & lengths if lengths else axes
    if len(counts) != 1:
        raise ValueError(
            f"model must observe rows, one for each element of the data's leading axis, "
            f"{_numbers(lengths)}; {_shapes(structure)}: write the rows as a numpyro.plate, or "
            f"give rows={ALL!r} for data that are one datum"
        )
    return None, counts.pop()


def row_sites(structure: Structure, plate: str | None, num_rows: int) -> dict[str, RowSite]:
    """Return the sites that observe rows."""
    sites = {}
    for name, site in structure.observed.items():
        ndim = len(site["fn"].batch_shape)
        dims = [frame.dim for frame in site["cond_indep_stack"] if frame.name == plate]
        if plate is not None and dims:
            sites[name] = RowSite(dims[0], ndim + dims[0])
        elif plate is None or not site["cond_indep_stack"]:
            places = [k for k, size in enumerate(site["fn"].batch_shape) if size == num_rows]
            if places:
                sites[name] = RowSite(places[0] - ndim, places[0])
    if not sites:
        raise ValueError(
            f"rows must be a plate around what is observed; got {plate!r}, and none of the sites "
            f"{_listed(structure.observed)} is in it"
        )
    return sites


def row_effects(structure: Structure, plate: str | None) -> dict[str, int]:
    """Return the latent sites with one value for each row, and the axis that counts them."""
    return {
        name: len(site["fn"].batch_shape) + frame.dim
        for name, site in structure.latent.items()
        for frame in site["cond_indep_stack"]
        if frame.name == plate and plate is not None
    }


def row_axes(call: ModelCall, num_rows: int) -> dict[str, int]:
    """Return the arguments that hold rows: those with n on the leading axis, or on one other."""
    axes = {}
    for name, leaf in call.leaves().items():
        places = [k for k, size in enumerate(leaf.shape) if size == num_rows]
        if places and (places[0] == 0 or len(places) == 1):
            axes[name] = places[0]
    return axes


def dims_of(structure: Structure) -> dict[str, list[str]]:
    """Return the names of each site's axes: its plates', and ArviZ's defaults for others."""
    names = {}
    for name, site in structure.sites.items():
        if site["type"] not in ("sample", "deterministic"):
            continue
        shape = jnp.shape(site["value"])
        axes = [f"{name}_dim_{k}" for k in range(len(shape))]
        events = len(site["fn"].event_shape) if site["type"] == "sample" else 0
        for frame in site["cond_indep_stack"]:
            place = len(shape) - events + frame.dim
            if 0 <= place < len(shape) and shape[place] == structure.plates.get(frame.name):
                axes[place] = frame.name
        names[name] = axes
    return names


def _axes(site: Any) -> bool:
    return len(site["fn"].batch_shape) > 0


def _parts(density: Any) -> Any:
    """Yield a distribution and those that it is made of."""
    while density is not None:
        yield density
        density = getattr(density, "base_dist", None)


def kind(site: Any) -> str:
    """Return the name of a site's distribution."""
    return type(list(_parts(site["fn"]))[-1]).__name__


def _check_values(name: str, site: Any) -> None:
    """Raise ValueError if what is observed is not a number, or impossible."""
    value = site["value"]
    if checks.is_traced(value) or site["infer"].get("is_auxiliary"):
        return
    missing = (
        np.isnan(np.asarray(value)) if jnp.issubdtype(jnp.result_type(value), np.inexact) else None
    )
    mask = getattr(site["fn"], "_mask", True)
    if missing is None or not missing.any() or mask is False:
        return
    events = tuple(range(missing.ndim - len(site["fn"].event_shape), missing.ndim))
    where = missing.any(axis=events) if events else missing
    if not np.logical_and(where, np.asarray(mask)).any() and not checks.is_traced(mask):
        return
    first = np.argwhere(where)[0].tolist() if where.ndim else []
    raise ValueError(
        f"model must observe numbers; the site {name!r} observes NaN at {first} "
        f"({np.count_nonzero(where):,} of {where.size:,}): leave these rows out, or mask them "
        "(handlers.mask) and put a number in their place"
    )


def _check_lengths(call: ModelCall, plates: dict[str, int], error: Exception) -> None:
    """Raise ValueError if the model failed because data have another length than their plate."""
    lengths = {name: leaf.shape[0] for name, leaf in call.leaves().items()}
    others = {name: size for name, size in plates.items() if size not in lengths.values()}
    if others and lengths:
        shown = ", ".join(f"{name}: {length}" for name, length in lengths.items())
        raise ValueError(
            "model must have data as long as their plate; got arguments whose leading axes are "
            f"{shown}, and the plates {_listed_plates(others)} (NumPyro says: "
            f"{checks.reason(error)})"
        ) from error


def _listed(names: Any) -> str:
    return ", ".join(map(repr, names))


def _listed_plates(plates: dict[str, int]) -> str:
    return ", ".join(f"{name!r} ({size:,})" for name, size in plates.items()) or "(it has none)"


def _numbers(lengths: set[int]) -> str:
    return " or ".join(f"{length:,}" for length in sorted(lengths)) or "of which there is none"


def _shapes(structure: Structure) -> str:
    return ", ".join(
        f"{name!r} has the batch shape {site['fn'].batch_shape}"
        for name, site in structure.observed.items()
    )
