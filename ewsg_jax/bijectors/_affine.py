"""θ = m + L u: if θ is approximately N(m, L Lᵀ), u is approximately N(0, I)."""

from typing import Any

from ewsg_jax.base import checks, pytrees
from ewsg_jax.base.factors import Factor, factor_of
from ewsg_jax.base.modules import made_by, module, written
from ewsg_jax.base.typing import Array, Position
from ewsg_jax.bijectors._protocol import Bijector


@module
class Affine(Bijector):
    """The bijector of `affine`."""

    shift: Position
    covariance: Any
    factor: Factor

    def __repr__(self) -> str:
        return written(made_by(self), {"shift": self.shift, "covariance": self.covariance})

    def forward(self, position: Position, /) -> Position:
        position = self._checked(position)
        shift = pytrees.in_dtypes_of(position, self.shift)
        return pytrees.combine((1, shift), (1, self.factor.times(position)))

    def inverse(self, position: Position, /) -> Position:
        position = self._checked(position)
        shift = pytrees.in_dtypes_of(position, self.shift)
        return self.factor.solved(pytrees.combine((1, position), (-1, shift)))

    def log_det(self, position: Position, /) -> Array:
        return self.factor.log_det(self._checked(position))

    def _checked(self, position: Position) -> Position:
        takes = "position must be a pytree like the shift of the bijector"
        position = checks.position(position)
        checks.same_tree(takes, "position", position, self.shift, dtypes=False)
        self.factor.check("covariance", position)
        return position


def affine(shift: Position, covariance: object = 1.0) -> Bijector:
    """Return the map θ = m + L u with L Lᵀ = C: if θ is about N(m, C), u is about N(0, I).

    The position of `model.transformed(affine(mode.position, mode.covariance))` is u: steps are in
    units of posterior sds. A `Posterior.linear` whose position is one vector stays linear, with
    inputs Lᵀx: its gradients are still two matrix products.

    Args:
        shift: m, a pytree of floating-point arrays like the position.
        covariance: C > 0: a number, a pytree of numbers like the position, a positive definite
            matrix (d, d) over the position in `ravel_pytree` order, or an
            `ewsg_jax.dynamics.LowRank`. L is its Cholesky factor, or its root. Default 1.

    Raises:
        TypeError, ValueError: an argument has the wrong type or value; when used, that the position
            is not like the shift, or that the covariance does not fit it.

    Example:
        >>> import jax.numpy as jnp, ewsg_jax as ewsg
        >>> whitened = ewsg.bijectors.affine(
        ...     jnp.array([1.0, 2.0]), jnp.array([[4.0, 0.0], [0.0, 9.0]])
        ... )
        >>> whitened.forward(jnp.ones(2)), whitened.inverse(jnp.array([3.0, 5.0]))
        (Array([3., 5.], dtype=float32), Array([1., 1.], dtype=float32))
    """
    shift = checks.position(shift, "shift")
    checks.finite("shift", shift)
    return Affine(shift=shift, covariance=covariance, factor=factor_of(covariance, "covariance"))
