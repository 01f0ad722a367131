"""Underdamped Langevin dynamics with the full gradient."""

from ewsg_jax import gradients
from ewsg_jax._kernel import Kernel
from ewsg_jax._random import NoiseLaw
from ewsg_jax._types import Hyperparameter, P
from ewsg_jax.dynamics.mass import InverseMass
from ewsg_jax.methods.underdamped import INTEGRATORS, Integrator, underdamped
from ewsg_jax.pair import kernel
from ewsg_jax.posterior import Posterior
from ewsg_jax.record import method
from ewsg_jax.rows.gathering import CHUNK_SIZE


@method(
    title="Underdamped Langevin dynamics",
    dynamics=INTEGRATORS,
    estimator="full",
    bias="h or h²",
    evaluations="n",
    memory="none",
    source="Cheng et al. 2018",
    hazard="a pass buys one step",
    integrators=INTEGRATORS,
    example={"friction": 2.0},
)
def uld(
    posterior: Posterior[P],
    step_size: Hyperparameter,
    *,
    friction: Hyperparameter,
    integrator: Integrator = "semi_implicit",
    temperature: Hyperparameter = 1.0,
    noise: NoiseLaw = "gaussian",
    inverse_mass: InverseMass = 1.0,
    chunk_size: int = CHUNK_SIZE,
) -> Kernel[P]:
    """Underdamped Langevin dynamics with the full gradient.

    Integrates dθ = p dt, dp = −(∇V(θ) + γp) dt + √(2γT) dW; with the first integrator p' = (1 − hγ) p − h ∇V(θ) +
    √(2hγT) ξ, θ' = θ + h p'. Targets exp(−V/T) with a bias of order h, or h² with `integrator="splitting"`,
    `"ABOBA"` and `"BAOAB"`. n evaluations a step. The reference for `sghmc` and `ewsg`.

    Args:
        posterior: what is sampled: an `ewsg_jax.Posterior`, or one of `ewsg_jax.models`.
        step_size: h > 0, time per step; a number, a traced scalar or a schedule (a function of the step's number).
        friction: γ > 0 per unit of time; a number, a traced scalar or a schedule.
        integrator: the scheme of `ewsg_jax.dynamics`: `"semi_implicit"` (default); `"euler"`, the papers';
            `"splitting"`, of order h² with an exact gradient; `"ABOBA"` or `"BAOAB"` (`palindrome`), then
            without any on Gaussians; or `"exact"`, exact for a frozen one.
        temperature: T > 0; a number, a traced scalar or a schedule. Default 1: the posterior itself.
        noise: `"gaussian"` (default) or `"rademacher"` (±1: the same weak order; heuristic under exponential
            weights); the second with `"semi_implicit"` and `"euler"` only.
        inverse_mass: C > 0: a number, a tree of numbers like the position, a positive definite matrix (d, d) over
            the position raveled leaf after leaf, or an `ewsg_jax.dynamics.LowRank`. With the covariance of the
            posterior every direction has width 1. Default 1.
        chunk_size: rows that a sum over all data takes at once, which bounds its memory. Default 4,096.

    Returns:
        The kernel: give it to `ewsg_jax.sample`, or call its `init` and `step`.

    Raises:
        TypeError, ValueError: an argument is of the wrong kind, or one that the integrator does not have.

    References:
        X. Cheng, N. S. Chatterji, P. L. Bartlett and M. I. Jordan, Underdamped Langevin MCMC: a non-asymptotic
            analysis, COLT 2018.

    Example:
        The numbers are for about 1,000 rows of unit scale; with more rows steps must be shorter.

        >>> import ewsg_jax as ewsg
        >>> kernel = ewsg.uld(ewsg.models.logistic_regression(), 1e-2, friction=1.0, integrator="splitting")
    """
    return kernel(
        underdamped(integrator, step_size, friction, temperature, noise, inverse_mass),
        gradients.full(posterior, chunk_size=chunk_size),
    )
