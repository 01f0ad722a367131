"""Inverse masses C = L Lᵀ, as their factors L.

    z = L⁻¹ θ,   ∇_z V = Lᵀ ∇V:   the step is that of the dynamics in z, and θ' = θ + L (z' − z)

So Langevin dynamics is θ' = θ − h C g + √(2hT) L ξ, and underdamped dynamics has p ~ N(0, T C⁻¹), kept as q = Lᵀp ~
N(0, T I), with θ' = θ + h L q'. Exponential weights are those of Lᵀ g. The target is the same. With its covariance
for C all directions are of unit width, and so is the unit of the step size.
"""

from typing import Any

from ewsg_jax._module import Part, module
from ewsg_jax.factors import Factor, factor_of

InverseMass = Any
"""A number, a tree of numbers like a position, a matrix, or a `LowRank`."""


@module
class Mass(Part):
    """An inverse mass as it was given, and its factor."""

    given: Any
    factor: Factor


def is_one(inverse_mass: Any) -> bool:
    """Return whether an inverse mass is the number 1, of which no factor is worked out."""
    return isinstance(inverse_mass, int | float) and not isinstance(inverse_mass, bool) and inverse_mass == 1


def mass_of(inverse_mass: Any) -> Mass | None:
    """Check an inverse mass and return it with its factor, worked out in float64 where it is known; None for 1.

    Args:
        inverse_mass: C > 0: a number, a tree of numbers like the position, a positive definite matrix (d, d) over
            the position raveled leaf after leaf, or a `LowRank`.

    Raises:
        TypeError, ValueError: it is no inverse mass.

    Example:
        >>> import ewsg_jax as ewsg
        >>> ewsg.dynamics.mass_of(4.0).factor.root
        2.0
    """
    if is_one(inverse_mass):
        return None
    return Mass(given=inverse_mass, factor=factor_of(inverse_mass, "inverse_mass"))
