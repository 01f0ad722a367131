"""Underdamped Langevin dynamics with a thermostat."""

from ewsg_jax import dynamics, gradients
from ewsg_jax._kernel import Kernel
from ewsg_jax._random import NoiseLaw
from ewsg_jax._types import Hyperparameter, P
from ewsg_jax.dynamics.mass import InverseMass
from ewsg_jax.pair import kernel
from ewsg_jax.posterior import Posterior
from ewsg_jax.record import method
from ewsg_jax.rows.named import Rows


@method(
    title="Stochastic-gradient HMC with a thermostat",
    dynamics=("thermostat",),
    estimator="uniform",
    bias="h",
    evaluations="b",
    memory="none",
    source="Ding et al. 2014",
    hazard="θ too cold by order h at any batch; takes up noise on average over directions only",
    example={"friction": 2.0, "batch_size": 2},
)
def sgnht(
    posterior: Posterior[P],
    step_size: Hyperparameter,
    *,
    friction: Hyperparameter,
    batch_size: int,
    replace: bool = True,
    rows: Rows = "random",
    temperature: Hyperparameter = 1.0,
    inverse_mass: InverseMass = 1.0,
    noise: NoiseLaw = "gaussian",
) -> Kernel[P]:
    """Stochastic-gradient Nosé–Hoover thermostat (SGNHT, Ding et al. 2014): `sghmc` whose friction adapts.

    p' = (1 − hζ) p − h g + √(2hγT) ξ, θ' = θ + h p', ζ' = ζ + h(‖p'‖²/d − T), from ζ = γ. Targets exp(−V/T) with a
    bias of order h; the heat of a minibatch whose covariance is the same at every θ and in every direction is no
    part of it, for ζ takes it up. b evaluations a step; the dynamics keeps a momentum and one number. When to use
    it: minibatch noise of unknown size in many like directions, as with networks. Not where a few directions have
    far more noise than the others, which then come out too cold; nor for an exact gradient, where `uld` has the
    smaller bias.

    Args:
        posterior: what is sampled: an `ewsg_jax.Posterior`, or one of `ewsg_jax.models`.
        step_size: h > 0, time per step; a number, a traced scalar or a schedule (a function of the step's number).
        friction: γ > 0 per unit of time; a number, a traced scalar or a schedule: the thermostat's start, and its
            mean without gradient noise.
        batch_size: b, rows in a batch.
        replace: draw rows with replacement (default), or (False) a uniform subset.
        rows: `"random"` (default): independent rows, or the subset; `"blocks"`: b consecutive rows from a uniform
            start, quick to fetch, for data in random order; `"epochs"`: every row once in each n, in a new order
            each time; `"block_epochs"`: each of ⌊n/b⌋ such blocks once, in a new order each time;
            `"block_sweeps"`: each such order forward, then backwards; or what `ewsg_jax.rows.by_probability` or
            `leverage` returns. With all but the first `replace` must be True.
        temperature: T > 0; a number, a traced scalar or a schedule. Default 1: the posterior itself.
        inverse_mass: C > 0: a number, a tree of numbers like the position, a positive definite matrix (d, d) over
            the position raveled leaf after leaf, or an `ewsg_jax.dynamics.LowRank`. With the covariance of the
            posterior every direction has width 1. Default 1.
        noise: `"gaussian"` (default) or `"rademacher"` (±1: the same weak order; heuristic under exponential
            weights).

    Returns:
        The kernel: give it to `ewsg_jax.sample`, or call its `init` and `step`.

    Raises:
        TypeError, ValueError: an argument is of the wrong kind; at `init`, a batch larger than n where no row comes
            twice.

    References:
        N. Ding, Y. Fang, R. Babbush, C. Chen, R. D. Skeel and H. Neven, Bayesian sampling using stochastic gradient
            thermostats, NIPS 2014.

    Example:
        The numbers are for about 1,000 rows of unit scale; with more rows steps must be shorter.

        >>> import ewsg_jax as ewsg
        >>> kernel = ewsg.sgnht(ewsg.models.logistic_regression(), 1e-3, friction=10.0, batch_size=50)
    """
    return kernel(
        dynamics.thermostat(
            step_size, friction=friction, temperature=temperature, noise=noise, inverse_mass=inverse_mass
        ),
        gradients.uniform(posterior, batch_size=batch_size, replace=replace, rows=rows),
    )
