"""The dynamics that compensate for gradient noise: what they share, and whose covariance it is.

    p' = p − h (g(θ) + Γ p) + √h Σ ξ,   Σ² + h Cov = 2TΓ
    θ' = θ + h p'  (semi_implicit)  or  θ + h p  (euler)

with Cov the covariance of g at θ, as the estimator reports it or as the user gives it. A gradient
with this covariance adds noise of variance h² Cov to each step: together with the injected h Σ² it
is what the friction Γ balances at temperature T. So the target is exp(−(V(θ) + ‖p‖²/2)/T) with the
bias of the scheme alone, whatever the batch, as if the gradient were exact, the friction Γ and the
noise 2TΓ.
"""

import abc
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ewsg_jax.base import checks, pytrees
from ewsg_jax.base.factors import MOST_ASYMMETRY
from ewsg_jax.base.modules import module, static
from ewsg_jax.base.rng import NoiseKind
from ewsg_jax.base.typing import Array, Hyperparameter, Key, Position, PyTree
from ewsg_jax.dynamics._explicit import SCHEMES, Explicit, Scheme
from ewsg_jax.dynamics._protocol import GradientAt
from ewsg_jax.dynamics._underdamped import UnderdampedState, checked
from ewsg_jax.gradients._covariance import Congruent, Covariance
from ewsg_jax.gradients._protocol import Estimate


@module
class CompensatesGradientNoise(Explicit):
    """An explicit scheme with a force in addition to the gradient. Write `force`.

    Attributes:
        integrator: what Γ is added to.
        covariance: the covariance of the gradient, None for the one that the estimator reports.
    """

    integrator: Scheme = static(default="semi_implicit")
    covariance: Covariance | Congruent | None = None

    @abc.abstractmethod
    def force(self, noise: PyTree, state: UnderdampedState, covariance: object) -> Position:
        """Return the force that is added to the gradient."""

    @property
    def needs_covariance(self) -> bool:
        return self.covariance is None

    def init(self, key: Key, position: Position) -> UnderdampedState:
        numbers = pytrees.size(position)
        if self.covariance is not None and self.covariance.size != numbers:
            raise ValueError(
                f"covariance must be over the d = {numbers} parameters; got one over "
                f"{self.covariance.size}"
            )
        return super().init(key, position)

    def with_force(self, noise: PyTree, state: UnderdampedState, estimate: Estimate) -> Estimate:
        """Return the estimate with the force added to its gradient."""
        covariance = estimate.covariance if self.covariance is None else self.covariance
        force = self.force(noise, state, covariance)
        return estimate._replace(gradient=pytrees.combine((1, estimate.gradient), (1, force)))

    def apply(
        self, noise: PyTree, prepared: UnderdampedState, estimate: Estimate, gradient_at: GradientAt
    ) -> UnderdampedState:
        return super().apply(
            noise, prepared, self.with_force(noise, prepared, estimate), gradient_at
        )


def checked_arguments(
    step_size: Hyperparameter,
    friction: Hyperparameter,
    temperature: Hyperparameter,
    noise: NoiseKind,
    integrator: Scheme,
    covariance: Covariance | Array | None,
) -> dict[str, Any]:
    """Check what such a dynamics is given, and return its fields by name."""
    checks.one_of("integrator", integrator, SCHEMES)
    return {
        **checked(step_size, friction, temperature, noise),
        "noise": noise,
        "integrator": integrator,
        "covariance": None if covariance is None else checked_covariance(covariance),
    }


def checked_covariance(covariance: Covariance | Array) -> Covariance:
    """Return a user's covariance as eigenvalues and vectors, or as its diagonal.

    The eigenvalues are at least 0; one that is negative by rounding is set to it.

    Raises:
        TypeError, ValueError: it is neither a symmetric matrix without negative eigenvalues nor
            the diagonal of one.
    """
    takes = (
        "covariance must be a symmetric matrix (d, d) without negative eigenvalues, its diagonal "
        "(d,), or what ewsg_jax.gradients.covariance_at returns"
    )
    if isinstance(covariance, Covariance):
        return covariance
    if not isinstance(covariance, jax.Array | np.ndarray):
        raise TypeError(f"{takes}; got {checks.describe(covariance)}")
    matrix = jnp.asarray(covariance)
    # There are no eigenvectors in half precision.
    matrix = matrix.astype(pytrees.wide(jnp.result_type(float, matrix.dtype)))
    is_square = matrix.ndim == 2 and matrix.shape[0] == matrix.shape[1]
    is_real = jnp.issubdtype(matrix.dtype, jnp.floating)
    if not (matrix.ndim == 1 or is_square) or not is_real or not matrix.size:
        raise ValueError(f"{takes}; got {checks.describe(covariance)}")
    factored = Covariance(matrix) if matrix.ndim == 1 else Covariance(*jnp.linalg.eigh(matrix))
    # Values that are traced are not known, and not checked.
    if checks.is_traced(matrix):
        return factored
    known = np.asarray(matrix, np.float64)
    if not np.isfinite(known).all():
        raise ValueError(f"{takes}; got one that is not finite")
    if matrix.ndim == 2 and not np.allclose(
        known, known.T, rtol=0, atol=MOST_ASYMMETRY * np.abs(known).max()
    ):
        raise ValueError(f"{takes}; got one that is not symmetric")
    values = np.asarray(factored.matrix, np.float64)
    if values.size and values.min() < -MOST_ASYMMETRY * values.max():
        raise ValueError(f"{takes}; got one with the eigenvalue {values.min():.3g}")
    return factored._replace(matrix=jnp.maximum(factored.matrix, 0))
