"""Langevin dynamics with a control variate."""

from ewsg_jax import dynamics, gradients
from ewsg_jax._kernel import Kernel
from ewsg_jax._random import NoiseLaw
from ewsg_jax._types import Hyperparameter, P, Position
from ewsg_jax.dynamics.mass import InverseMass
from ewsg_jax.pair import kernel
from ewsg_jax.posterior import Posterior
from ewsg_jax.record import method
from ewsg_jax.rows.named import Rows


@method(
    title="Langevin with a control variate",
    dynamics=("langevin",),
    estimator="control_variate",
    bias="h",
    evaluations="2b",
    memory="2d for all chains",
    source="Chatterji et al. 2018",
    hazard="worse than no centre where the posterior is wide or has several modes",
    example={"batch_size": 2},
)
def cv_ld(
    posterior: Posterior[P],
    step_size: Hyperparameter,
    *,
    batch_size: int,
    center: Position | None = None,
    replace: bool = True,
    rows: Rows = "random",
    temperature: Hyperparameter = 1.0,
    inverse_mass: InverseMass = 1.0,
    noise: NoiseLaw = "gaussian",
) -> Kernel[P]:
    """Langevin dynamics with a control variate (Chatterji et al. 2018): θ' = θ − h g + √(2hT) ξ.

    g = ∇V₀(θ) + (n/b) Σ_{i∈I} (∇Vᵢ(θ) − ∇Vᵢ(c)) + Σᵢ ∇Vᵢ(c), the centre c fixed. Targets exp(−V/T) with a bias of
    order h: that of `ld`, and the heat h·Cov(g)/2 of minibatches, small where the posterior is narrow around the
    centre. 2b evaluations a step and n at the start, beside what it takes to find the centre
    (`ewsg_jax.find_mode`); memory of two positions for all chains. For many data and one mode; not where the
    posterior is wide or has several.

    Args:
        posterior: what is sampled: an `ewsg_jax.Posterior`, or one of `ewsg_jax.models`.
        step_size: h > 0, multiplies ∇V of the whole sum; a number, a traced scalar or a schedule (a function of the
            step's number).
        batch_size: b, rows in a batch.
        center: c, a tree like the position. None (default): the position given to `init`, where the chain starts.
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
            twice, or a centre that is not shaped like the position.

    References:
        N. S. Chatterji, N. Flammarion, Y.-A. Ma, P. L. Bartlett and M. I. Jordan, On the theory of variance
            reduction for stochastic gradient Monte Carlo, ICML 2018.

    Example:
        The numbers are for about 1,000 rows of unit scale; with more rows steps must be shorter.

        >>> import ewsg_jax as ewsg
        >>> kernel = ewsg.cv_ld(ewsg.models.logistic_regression(), 1e-3, batch_size=10)
    """
    return kernel(
        dynamics.langevin(step_size, temperature=temperature, noise=noise, inverse_mass=inverse_mass),
        gradients.control_variate(posterior, batch_size=batch_size, center=center, replace=replace, rows=rows),
    )
