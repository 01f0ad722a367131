"""Models whose data enter through linear predictors xᵢᵀW alone, and shapes that must agree."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from ewsg_jax.base import checks, products
from ewsg_jax.base.constants import Split, constant_part, varying_part
from ewsg_jax.base.typing import Array, Data, Position


class LinearPredictor(NamedTuple):
    """How a datum enters through its linear predictor xᵢᵀW alone.

    Attributes:
        inputs: `inputs(datum) -> x`, shape (d,).
        log_likelihood: `log_likelihood(predictor, datum) -> scalar`, the predictor of shape () or
            (k,).
        residual: `residual(predictors, rows)`, the derivative of the log likelihood by the
            predictor for b rows at once: shape (b,) or (b, k).
    """

    inputs: Callable[[Data], Array]
    log_likelihood: Callable[[Array, Data], Array]
    residual: Callable[[Array, Data], Array]

    @property
    def varying(self) -> "LinearPredictor":
        """The same without the constant of the log likelihood."""
        varying = varying_part(self.log_likelihood)
        return self if varying is self.log_likelihood else self._replace(log_likelihood=varying)


@dataclass(frozen=True)
class OfDatum(Split):
    """The log likelihood as a function of the position and one datum."""

    predictor: LinearPredictor

    def __call__(self, position: Array, datum: Data) -> Array:
        """Return the log likelihood of a datum."""
        x = self.predictor.inputs(datum)
        check_predictor(x, position)
        return self.predictor.log_likelihood(products.matmul(x, position), datum)

    @property
    def varying(self) -> "OfDatum":
        varying = self.predictor.varying
        return self if varying is self.predictor else OfDatum(varying)

    def constant(self, *arguments: Any) -> Array | float:
        position, datum = arguments
        predictor = products.matmul(self.predictor.inputs(datum), position)
        return constant_part(self.predictor.log_likelihood, predictor, datum)


@dataclass(frozen=True)
class Residual:
    """The derivative of a log likelihood by its predictor, for b rows, by autodiff."""

    log_likelihood: Callable[[Array, Data], Array]

    def __call__(self, predictors: Array, rows: Data) -> Array:
        """Return the derivatives, shaped like the predictors."""
        return jax.vmap(jax.grad(self.log_likelihood))(predictors, rows)


def check_predictor(x: Any, position: Position) -> None:
    """Check the inputs of one datum, shape (d,), and the position, an array (d,) or (d, k)."""
    if jnp.ndim(x) != 1:
        raise ValueError(
            f"inputs must return an array of shape (d,) for one datum; got {checks.describe(x)}"
        )
    (d,) = jnp.shape(x)
    shapes = checks.shapes(position)
    if not isinstance(shapes, jax.ShapeDtypeStruct) or shapes.shape[:1] != (d,) or shapes.ndim > 2:
        raise ValueError(
            f"position must be one array of shape ({d},) or ({d}, k), for inputs of shape ({d},); "
            f"got {checks.listed('position', shapes)}"
        )


def checked_residual(
    residual: Callable[[Array, Data], Array], predictors: Array, rows: Data
) -> Array:
    """Return `residual(predictors, rows)`, and check that it is shaped like the predictors: another
    shape would broadcast to a wrong gradient.
    """
    takes = (
        f"residual must return an array shaped like the predictors, {predictors.shape} for "
        "these rows"
    )
    try:
        derivatives = residual(predictors, rows)
    except Exception as error:
        raise ValueError(f"{takes}; it failed on them: {checks.reason(error)}") from error
    if jnp.shape(derivatives) != predictors.shape:
        raise ValueError(f"{takes}; it returned {checks.describe(derivatives)}")
    return derivatives
