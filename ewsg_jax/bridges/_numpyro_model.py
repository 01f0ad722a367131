"""From a NumPyro model to a posterior over unconstrained values, checked against the model.

This module imports NumPyro, and is imported when a bridge is called.
"""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpyro import handlers
from numpyro.infer import Predictive
from numpyro.infer.util import constrain_fn, initialize_model, potential_energy

from ewsg_jax.base import checks
from ewsg_jax.base.compiling import UNOPTIMISED
from ewsg_jax.base.typing import Array, Data, Key, Position
from ewsg_jax.base.warn import warn
from ewsg_jax.bridges._model import BridgedModel, Sites
from ewsg_jax.bridges._numpyro_call import (
    AllForSome,
    ModelCall,
    OneDatum,
    RowDensities,
    SitePrior,
    in_dtypes_of_jax,
)
from ewsg_jax.bridges._numpyro_enumerated import enumerated
from ewsg_jax.bridges._numpyro_handlers import RowHandler, RowSite
from ewsg_jax.bridges._numpyro_sites import (
    Structure,
    check_sites,
    dims_of,
    discrete_sites,
    row_axes,
    row_effects,
    row_plate,
    row_sites,
    structure_of,
)
from ewsg_jax.bridges._rows import ALL, ONE_DATUM, away_from, batches_to_compare, is_close
from ewsg_jax.posterior.posterior import Posterior
from ewsg_jax.vectors.row_subsets import take_rows


def bridged(
    model: Callable[..., Any], rows: str | None, arguments: tuple[Any, ...], keywords: Any
) -> BridgedModel:
    """Return what `ewsg_jax.from_numpyro` does."""
    call = ModelCall(model, *in_dtypes_of_jax((arguments, keywords)))
    structure, missing = _without_missing(structure_of(call))
    check_sites(structure)
    has_factor = any(map(_is_factor, structure.observed.values()))
    if discrete_sites(structure):
        summed = enumerated(call, structure, rows)
        call, rows = dataclasses.replace(call, model=summed), summed.call.plate
        structure, missing = _without_missing(structure_of(call))
        check_sites(structure)
    constants = {
        name: site["value"]
        for name, site in structure.sites.items()
        if site["type"] in ("param", "mutable")
    }
    call = dataclasses.replace(call, constants=constants, missing=missing)
    position = start(call, jax.random.key(0))
    _check_missing(call, position)
    log_prior: SitePrior
    if rows == ALL:
        sites = {name: RowSite(0, 0) for name in structure.observed}
        call = call.as_kind(OneDatum, sites=sites, num_rows=1)
        log_prior = SitePrior(call)
    else:
        call, log_prior = _by_row(call, structure, rows, position)
    posterior = Posterior(
        log_prior=log_prior,
        batched_log_likelihood=RowDensities(call),
        name=f"from_numpyro({getattr(model, '__name__', type(model).__name__)})",
        normalised=None if has_factor else True,
    )
    observed = {
        name: np.asarray(site["value"])
        for name, site in structure.observed.items()
        if not _is_factor(site)
    }
    return BridgedModel(
        posterior,
        position,
        call.data(),
        Constrained(call),
        _Predicted(dataclasses.replace(call, model=model), (*observed, *_deterministic(structure))),
        dims_of(structure),
        {},
        observed,
    )


def _without_missing(structure: Structure) -> tuple[Structure, tuple[str, ...]]:
    """Return a structure without missing observations (`obs_mask`), and their names."""
    missing = tuple(
        name
        for name in structure.latent
        if name.endswith("_unobserved")
        and name.removesuffix("_unobserved") + "_observed" in structure.observed
    )
    latent = {name: site for name, site in structure.latent.items() if name not in missing}
    return structure._replace(latent=latent), missing


def _by_row(
    call: ModelCall, structure: Structure, rows: str | None, position: Position
) -> tuple[ModelCall, SitePrior]:
    """Return the model as functions of a row, checked against the model on all rows."""
    plate, num_rows = row_plate(call, structure, rows)
    sites = row_sites(structure, plate, num_rows)
    call = dataclasses.replace(
        call,
        plate=plate,
        num_rows=num_rows,
        sites=sites,
        effects=row_effects(structure, plate),
        others=tuple(
            name
            for name, site in structure.observed.items()
            if name not in sites and not _is_factor(site)
        ),
    )
    axes = row_axes(call, num_rows)
    # An array may have n numbers and no rows, such as one for each of n columns.
    choices = [axes, *({k: v for k, v in axes.items() if k != name} for name in axes)]
    errors: list[Exception] = []
    for chosen in choices:
        tried = dataclasses.replace(call, axes=chosen)
        try:
            tried = _with_held(tried, structure, position)
            _check_whole_table(tried, structure, position)
            log_prior = _checked_prior(tried, position)
        except (ValueError, NotOnSomeError) as error:
            errors.append(error)
        else:
            return tried, log_prior
    if not isinstance(errors[0], NotOnSomeError):
        raise errors[0]
    warn(f"from_numpyro evaluates all {num_rows:,} rows for each batch, because {errors[0]}")
    call = call.as_kind(AllForSome, effects={})
    return call, SitePrior(call)


class NotOnSomeError(Exception):
    """Why a model cannot be called with some of its rows, and what to do about it."""


def start(call: ModelCall, keys: Key) -> Position:
    """Return unconstrained values that NumPyro starts from, by site; with as many starts as keys.

    Raises:
        ValueError: it finds none.
    """

    @functools.partial(jax.jit, compiler_options=UNOPTIMISED)
    def search(keys: Key) -> tuple[Position, Array]:
        info = initialize_model(
            keys, call.with_whole_plates(), model_args=call.arguments, model_kwargs=call.keywords
        ).param_info
        return info.z, info.potential_energy

    try:
        position, potential = search(keys)
    except Exception as error:
        raise ValueError(
            f"model must have a density and a gradient; it failed: {checks.reason(error)}"
        ) from error
    if not checks.is_traced(potential) and not np.isfinite(potential).all():
        raise ValueError(
            "model must have a start with a finite density and gradient; NumPyro found none in "
            "100 draws: is what is observed in the supports of its sites?"
        )
    return position


def _fails_on_some(error: Exception) -> NotOnSomeError:
    return NotOnSomeError(
        f"the model does not run on some of its rows ({checks.reason(error)}): give it the arrays "
        "of rows as arguments"
    )


def _check_missing(call: ModelCall, position: Position) -> None:
    """Raise ValueError if a density depends on observations that are missing (`obs_mask`)."""

    def total(key: Key) -> Any:
        model = RowHandler(call.with_constants(), {}, missing=call.missing, missing_key=key)
        return potential_energy(model, call.arguments, call.keywords, position)

    if call.missing and not is_close(total(jax.random.key(0)), total(jax.random.key(1))):
        raise ValueError(
            "model must not use observations that are missing, which are integrated out; a "
            f"density depends on {', '.join(map(repr, call.missing))} (obs_mask): give the missing "
            "values a site of their own"
        )


def _with_held(call: ModelCall, structure: Structure, position: Position) -> ModelCall:
    """Return a call with the observed values that the model holds itself, as `condition` does.

    Raises:
        NotOnSomeError: the model does not run on one row, whose values are traced.
    """
    lengths: dict[str, int] = {}

    def of_row(position: Position, rows: Data) -> Array:
        handler = call.evaluated(call.taken(position, rows), rows)
        lengths.update(handler.lengths)
        return handler.of_rows()

    try:
        jax.eval_shape(of_row, position, take_rows(call.data(), np.arange(1)))
    except jax.errors.JAXTypeError as error:
        raise NotOnSomeError(
            "the model reads values of its data while it runs (as numpy.unique, int and boolean "
            "indices do): compute such numbers outside, and give them as arguments"
        ) from error
    except Exception as error:
        raise _fails_on_some(error) from error
    held = {
        name: np.moveaxis(np.asarray(structure.observed[name]["value"]), call.sites[name].place, 0)
        for name, length in lengths.items()
        if length == call.num_rows > 1 and not _is_factor(structure.observed[name])
    }
    return dataclasses.replace(call, held=held)


def _check_whole_table(call: ModelCall, structure: Structure, position: Position) -> None:
    """Raise ValueError if something outside of the rows is observed that depends on their values.

    What depends on their number alone, such as n times a normaliser, is a part of the prior.
    """
    others = {name: RowSite(0, 0) for name in structure.observed if name not in call.sites}
    if not others or not call.axes:
        return
    outside = dataclasses.replace(call, sites=others, effects={}, held={})
    # Others of the rows in their places, and some of them twice.
    numbers = np.random.default_rng(0).integers(0, call.num_rows, call.num_rows)
    here, there = (
        outside.evaluated(position, rows).values
        for rows in (None, take_rows(outside.data(), numbers))
    )
    for name in others:
        if not is_close(here[name], there[name]):
            raise ValueError(
                "model must observe rows that are independent given its sites; the site "
                f"{name!r} stands outside of the plate of rows and depends on their values, as a "
                f"sum over the whole table does: {ONE_DATUM}, or move it into the plate"
            )


def _checked_prior(call: ModelCall, position: Position) -> SitePrior:
    """Return the log prior, which holds one row if it is the same with any, else all.

    Raises:
        ValueError: the densities of rows are not those of the model on all rows: each is evaluated
            by itself, with others, and in another order.
        NotOnSomeError: the model does not run on some rows.
    """
    data, n = call.data(), call.num_rows
    batches = batches_to_compare(n)

    @functools.partial(jax.jit, compiler_options=UNOPTIMISED)
    def of_each(position: Position, batches: list[Data]) -> list[tuple[Array, Array]]:
        # Effects of rows have a prior of their own length.
        return [
            (
                jnp.zeros(()) if call.effects else call.log_prior(position, rows),
                call.log_likelihoods(position, rows),
            )
            for rows in batches
        ]

    try:
        (prior, of_all), *of_batches = jax.device_get(
            of_each(away_from(position), [data, *(take_rows(data, rows) for rows in batches)])
        )
    except Exception as error:
        raise _fails_on_some(error) from error
    is_same = not call.effects
    for numbers, (log_prior, densities) in zip(batches, of_batches, strict=True):
        is_same &= is_close(log_prior, prior)
        if densities.shape != numbers.shape or not is_close(densities, of_all[numbers]):
            raise ValueError(
                "model must observe rows that are independent given its sites, in any order; the "
                f"log densities of rows in {', '.join(map(repr, call.sites))} are others with "
                f"{len(numbers)} rows than with all {n:,} (as in a scan, a Gaussian process or a "
                f"model that centres its data): {ONE_DATUM}"
            )
    return SitePrior(call, take_rows(data, np.arange(1)) if is_same else None)


def _is_factor(site: Any) -> bool:
    return bool(site["infer"].get("is_auxiliary"))


def _deterministic(structure: Structure) -> list[str]:
    return [name for name, site in structure.sites.items() if site["type"] == "deterministic"]


@dataclasses.dataclass(frozen=True, eq=False)
class Constrained:
    """The values of a model's sites at one position."""

    call: ModelCall

    def __call__(self, position: Position) -> Sites:
        call = self.call
        return constrain_fn(
            call.with_whole_plates(),
            call.arguments,
            call.keywords,
            position,
            return_deterministic=True,
        )


@dataclasses.dataclass(frozen=True, eq=False)
class _Predicted:
    """New observations at draws of the sites."""

    call: ModelCall
    names: tuple[str, ...]

    def __call__(self, key: Key, values: Sites, *arguments: Any, **keywords: Any) -> Sites:
        model = self.call.with_whole_plates()
        if not arguments and not keywords:
            # Its own arguments hold what was observed.
            model = handlers.uncondition(model)
            arguments, keywords = self.call.arguments, self.call.keywords
        predictive = Predictive(model, dict(values), return_sites=list(self.names), batch_ndims=2)
        return predictive(key, *arguments, **keywords)
