"""A posterior's functions over unconstrained u, from those over θ = bijector.forward(u)."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from ewsg_jax.base import checks, products, tracing
from ewsg_jax.base.constants import Split, constant_part, varying_part
from ewsg_jax.base.typing import Array, Data, Position
from ewsg_jax.bijectors._affine import Affine
from ewsg_jax.bijectors._protocol import Bijector, Transform
from ewsg_jax.posterior.linear import LinearPredictor, OfDatum, check_predictor


@dataclass(frozen=True)
class LogLikelihood(Split):
    """The log likelihood as a function of u."""

    log_likelihood: Callable[[Position, Data], Array]
    bijector: Transform

    def __call__(self, position: Position, datum: Data) -> Array:
        """Return the log likelihood of a datum at u."""
        return self.log_likelihood(self.bijector.forward(position), datum)

    @property
    def varying(self) -> "LogLikelihood":
        varying = varying_part(self.log_likelihood)
        return self if varying is self.log_likelihood else LogLikelihood(varying, self.bijector)

    def constant(self, *arguments: object) -> Array | float:
        position, datum = arguments
        return constant_part(self.log_likelihood, self.bijector.forward(position), datum)


@dataclass(frozen=True)
class LogPrior(Split):
    """The log prior as a function of u, with the log determinant."""

    log_prior: Callable[[Position], Array | float]
    bijector: Transform

    def __call__(self, position: Position) -> Array:
        """Return the log prior at u."""
        if not keeps_shapes(self.bijector):
            tracing.scalar(
                "bijector.log_det", "this position", self.bijector.log_det, checks.shapes(position)
            )
        return self.log_prior(self.bijector.forward(position)) + self.bijector.log_det(position)

    @property
    def varying(self) -> "LogPrior":
        varying = varying_part(self.log_prior)
        return self if varying is self.log_prior else LogPrior(varying, self.bijector)

    def constant(self, *arguments: object) -> Array | float:
        (position,) = arguments
        return constant_part(self.log_prior, self.bijector.forward(position))


@dataclass(frozen=True)
class CheckValues:
    """The check of values as a function of u."""

    check_values: Callable[[Position, Data], None]
    bijector: Transform

    def __call__(self, position: Position, data: Data) -> None:
        """Check the values of data at u."""
        self.check_values(self.bijector.forward(position), data)


def keeps_shapes(bijector: Transform) -> bool:
    """Return whether a model that was checked over θ need not be checked over u."""
    return isinstance(bijector, Bijector) and bijector.keeps_shapes


def over_unconstrained(posterior: Any, bijector: Transform) -> dict[str, Any]:
    """Return the arguments of the `Posterior` over u, from a posterior over θ."""
    check, of_batch = posterior.check_values, posterior.batched_log_likelihood
    predictor = posterior.predictor
    if predictor is not None:
        predictor = linear_predictor(predictor, bijector)
    return {
        "log_likelihood": LogLikelihood(posterior.log_likelihood, bijector)
        if predictor is None
        else OfDatum(predictor),
        "log_prior": LogPrior(posterior.log_prior, bijector),
        "predictor": predictor,
        "check_values": None if check is None else CheckValues(check, bijector),
        # It stays concave along an affine map, for which alone there is a predictor.
        "log_concave": posterior.log_concave and predictor is not None,
        # A density of the datum, whatever the position is expressed by.
        "normalised": posterior.normalised,
        "batched_log_likelihood": None if of_batch is None else LogLikelihood(of_batch, bijector),
    }


def linear_predictor(predictor: LinearPredictor, bijector: Transform) -> LinearPredictor | None:
    """Return xᵀ(m + L u) = xᵀm + (Lᵀx)ᵀu as a predictor of u; None if θ is not a vector."""
    if not isinstance(bijector, Affine) or getattr(bijector.shift, "ndim", None) != 1:
        return None
    moved = predictor, bijector
    return LinearPredictor(_Inputs(*moved), _OfPredictor(*moved), _MovedResidual(*moved))


@dataclass(frozen=True)
class _Moved:
    """A function of a linear predictor of θ = m + L u, as one of u."""

    predictor: LinearPredictor
    bijector: Affine

    def offset(self, x: Array) -> Array:
        """Return xᵀm, of one row or of many."""
        check_predictor(x if x.ndim == 1 else x[0], self.bijector.shift)
        return products.matmul(x, self.bijector.shift)


class _Inputs(_Moved):
    def __call__(self, datum: Data) -> Array:
        x = jnp.asarray(self.predictor.inputs(datum))
        # A factor returns the dtype that it gets, and Lᵀx in whole numbers or half precision would
        # be too coarse.
        wide = x.astype(jnp.result_type(x, self.bijector.shift))
        return self.bijector.factor.transposed(wide)


class _OfPredictor(_Moved, Split):
    def __call__(self, predictor: Array, datum: Data) -> Array:
        return self.predictor.log_likelihood(
            predictor + self.offset(self.predictor.inputs(datum)), datum
        )

    @property
    def varying(self) -> "_OfPredictor":
        varying = self.predictor.varying
        return self if varying is self.predictor else _OfPredictor(varying, self.bijector)

    def constant(self, *arguments: object) -> Array | float:
        return constant_part(self.predictor.log_likelihood, *arguments)


class _MovedResidual(_Moved):
    def __call__(self, predictors: Array, rows: Data) -> Array:
        offset = self.offset(jax.vmap(self.predictor.inputs)(rows))
        return self.predictor.residual(predictors + offset, rows)
