"""The underdamped dynamics by their names."""

from typing import Literal

from ewsg_jax import _check, dynamics
from ewsg_jax._random import NoiseLaw
from ewsg_jax._types import Hyperparameter
from ewsg_jax.dynamics.mass import InverseMass

Integrator = Literal["semi_implicit", "euler", "splitting", "exact", "ABOBA", "BAOAB"]
INTEGRATORS = ("semi_implicit", "euler", "splitting", "exact", "ABOBA", "BAOAB")


def underdamped(
    integrator: Integrator,
    step_size: Hyperparameter,
    friction: Hyperparameter,
    temperature: Hyperparameter = 1.0,
    noise: NoiseLaw = "gaussian",
    inverse_mass: InverseMass = 1.0,
) -> dynamics.Dynamics:
    """Return the underdamped dynamics of that name; what a scheme does not have is refused."""
    _check.one_of("integrator", integrator, INTEGRATORS)
    shared = {"friction": friction, "temperature": temperature, "inverse_mass": inverse_mass}
    if integrator in ("semi_implicit", "euler"):
        build = dynamics.euler if integrator == "euler" else dynamics.semi_implicit
        return build(step_size, noise=noise, **shared)
    if noise != "gaussian":
        raise ValueError(
            f"noise must be 'gaussian' for integrator={integrator!r}, whose order or exact law ±1 noise would "
            f"cost; got {_check.describe(noise)}"
        )
    if integrator == "exact":
        return dynamics.exact(step_size, **shared)
    if integrator == "splitting":
        return dynamics.splitting(step_size, **shared)
    return dynamics.palindrome(integrator, step_size, **shared)
