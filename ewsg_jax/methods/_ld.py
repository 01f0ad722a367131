"""Langevin dynamics with the full gradient."""

from ewsg_jax import dynamics, gradients
from ewsg_jax._kernel import Kernel
from ewsg_jax._random import NoiseLaw
from ewsg_jax._types import Hyperparameter, P
from ewsg_jax.dynamics.mass import InverseMass
from ewsg_jax.pair import kernel
from ewsg_jax.posterior import Posterior
from ewsg_jax.record import method
from ewsg_jax.rows.gathering import CHUNK_SIZE


@method(
    title="Langevin dynamics",
    dynamics=("langevin",),
    estimator="full",
    bias="h",
    evaluations="n",
    memory="none",
    source="Roberts & Tweedie 1996",
    hazard="a pass buys one step",
)
def ld(
    posterior: Posterior[P],
    step_size: Hyperparameter,
    *,
    temperature: Hyperparameter = 1.0,
    inverse_mass: InverseMass = 1.0,
    noise: NoiseLaw = "gaussian",
    chunk_size: int = CHUNK_SIZE,
) -> Kernel[P]:
    """Langevin dynamics with the full gradient: θ' = θ − h ∇V(θ) + √(2hT) ξ.

    Targets exp(−V/T) with a bias of order h. n evaluations a step, no memory. For small data, and as the reference
    of `sgld`; with large data a pass buys one step.

    Args:
        posterior: what is sampled: an `ewsg_jax.Posterior`, or one of `ewsg_jax.models`.
        step_size: h > 0, multiplies ∇V of the whole sum; a number, a traced scalar or a schedule (a function of the
            step's number).
        temperature: T > 0; a number, a traced scalar or a schedule. Default 1: the posterior itself.
        inverse_mass: C > 0: a number, a tree of numbers like the position, a positive definite matrix (d, d) over
            the position raveled leaf after leaf, or an `ewsg_jax.dynamics.LowRank`. With the covariance of the
            posterior every direction has width 1. Default 1.
        noise: `"gaussian"` (default) or `"rademacher"` (±1: the same weak order; heuristic under exponential
            weights).
        chunk_size: rows that a sum over all data takes at once, which bounds its memory. Default 4,096.

    Returns:
        The kernel: give it to `ewsg_jax.sample`, or call its `init` and `step`.

    Raises:
        TypeError, ValueError: an argument is of the wrong kind.

    References:
        G. O. Roberts and R. L. Tweedie, Exponential convergence of Langevin distributions and their discrete
            approximations, Bernoulli 2, 1996.

    Example:
        The numbers are for about 1,000 rows of unit scale; with more rows steps must be shorter.

        >>> import ewsg_jax as ewsg
        >>> kernel = ewsg.ld(ewsg.models.logistic_regression(), step_size=1e-3)
    """
    return kernel(
        dynamics.langevin(step_size, temperature=temperature, noise=noise, inverse_mass=inverse_mass),
        gradients.full(posterior, chunk_size=chunk_size),
    )
