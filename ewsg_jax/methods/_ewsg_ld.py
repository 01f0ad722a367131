"""Langevin dynamics with exponentially weighted minibatches."""

from typing import Literal

from ewsg_jax import dynamics, gradients
from ewsg_jax._kernel import Kernel
from ewsg_jax._random import NoiseLaw
from ewsg_jax._types import Hyperparameter, P, PyTree
from ewsg_jax.dynamics.mass import InverseMass
from ewsg_jax.pair import kernel
from ewsg_jax.posterior import Posterior
from ewsg_jax.record import method
from ewsg_jax.rows.named import Rows


@method(
    title="The same on Langevin dynamics",
    dynamics=("langevin",),
    estimator="exponentially_weighted(uniform)",
    bias="h",
    evaluations="(M+1) b",
    memory="none",
    source="Li, Wang, Zha & Tao, Appendix E",
    hazard="skewed gradients move the mean, by order h",
    example={"batch_size": 2, "chain_length": 2},
)
def ewsg_ld(
    posterior: Posterior[P],
    step_size: Hyperparameter,
    *,
    batch_size: int,
    chain_length: int | float = 1,
    frozen_noise: str | PyTree = "momentum",
    candidates: Literal["together", "one_by_one"] = "together",
    carry_index: bool = False,
    replace: bool = True,
    rows: Rows = "random",
    temperature: Hyperparameter = 1.0,
    inverse_mass: InverseMass = 1.0,
    noise: NoiseLaw = "gaussian",
) -> Kernel[P]:
    """Exponentially weighted stochastic gradients on Langevin dynamics (EWSG, Appendix E; its drift is −h n ∇V_I).

    θ' = θ − h g + √(2hT) ξ, the batch of g chosen as in `ewsg`. Targets exp(−V/T) with a bias of order h. (M+1) b
    evaluations a step, M the chain length.

    Args:
        posterior: what is sampled: an `ewsg_jax.Posterior`, or one of `ewsg_jax.models`.
        step_size: h > 0, multiplies ∇V of the whole sum; a number, a traced scalar or a schedule (a function of the
            step's number).
        batch_size: b, rows in a batch.
        chain_length: M ≥ 0, proposals per step. Default 1. `math.inf` uses the exact weights of all batches instead
            (small n; all n rows for batch_size=1).
        frozen_noise: the x of the weight ½‖x + a‖², a the gradient in units of the noise: `"momentum"` (default)
            and `"zero"`, which are one where there is no momentum; `"one"`, all ones; or a tree shaped like the
            position.
        candidates: `"together"` (default) evaluates the M+1 estimates at once, `"one_by_one"` in a scan that keeps
            two of them in memory; the same draws, equal to rounding.
        carry_index: begin each step's index chain with the batch that the last step accepted (section 4.4 of the
            paper), which each chain then keeps by its row numbers; default False: with a new one (Algorithm 1).
        replace: draw rows with replacement (default), or (False) a uniform subset.
        rows: `"random"` (default): independent rows, or the subset; `"blocks"`: b consecutive rows from a uniform
            start, quick to fetch, for data in random order; or what `ewsg_jax.rows.by_probability` or `leverage`
            returns. With all but the first `replace` must be True. Not `"epochs"` nor those of blocks: the batches
            of a step must be exchangeable.
        temperature: T > 0; a number, a traced scalar or a schedule. Default 1: the posterior itself.
        inverse_mass: C > 0: a number, a tree of numbers like the position, a positive definite matrix (d, d) over
            the position raveled leaf after leaf, or an `ewsg_jax.dynamics.LowRank`. With the covariance of the
            posterior every direction has width 1. Default 1.
        noise: `"gaussian"` (default) or `"rademacher"` (±1: the same weak order; heuristic under exponential
            weights).

    Returns:
        The kernel: give it to `ewsg_jax.sample`, or call its `init` and `step`.

    Raises:
        TypeError, ValueError: an argument is of the wrong kind; a `frozen_noise` that the dynamics does not have;
            at `init`, a batch larger than n where no row comes twice.

    References:
        R. Li, X. Wang, H. Zha and M. Tao, Improving sampling accuracy of stochastic gradient MCMC methods via
            non-uniform subsampling of gradients, Foundations of Data Science.

    Example:
        The numbers are for about 10 rows of unit scale; with more rows steps must be shorter.

        >>> import ewsg_jax as ewsg
        >>> kernel = ewsg.ewsg_ld(ewsg.models.gaussian_location(), 5e-3, batch_size=1)
    """
    return kernel(
        dynamics.langevin(step_size, temperature=temperature, noise=noise, inverse_mass=inverse_mass),
        gradients.exponentially_weighted(
            gradients.uniform(posterior, batch_size=batch_size, replace=replace, rows=rows),
            chain_length=chain_length,
            frozen_noise=frozen_noise,
            candidates=candidates,
            carry_index=carry_index,
        ),
    )
