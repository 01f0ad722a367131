"""Langevin dynamics with a quasi-Newton matrix."""

from typing import Literal

from jax.typing import ArrayLike

from ewsg_jax import dynamics, gradients
from ewsg_jax._kernel import Kernel
from ewsg_jax._random import NoiseLaw
from ewsg_jax._types import Hyperparameter, P
from ewsg_jax.pair import kernel
from ewsg_jax.posterior import Posterior
from ewsg_jax.record import method
from ewsg_jax.rows.named import Rows


@method(
    title="Langevin with a quasi-Newton matrix",
    dynamics=("quasi_newton",),
    estimator="uniform",
    bias="h on a Gaussian",
    evaluations="2b",
    memory="3d per pair, in the dynamics",
    source="Şimşekli et al. 2016",
    hazard="biased off Gaussians (d ≥ 2) however small h; diverges where `trust_region` is small",
    example={"batch_size": 2, "memory_size": 3},
)
def hamcmc(
    posterior: Posterior[P],
    step_size: Hyperparameter,
    *,
    batch_size: int,
    memory_size: int = 5,
    trust_region: ArrayLike = 1.0,
    initial_scale: ArrayLike = 1.0,
    curvature_threshold: ArrayLike = 1e-4,
    blocks: Literal["whole", "leaves"] = "whole",
    replace: bool = True,
    rows: Rows = "random",
    temperature: Hyperparameter = 1.0,
    noise: NoiseLaw = "gaussian",
) -> Kernel[P]:
    """Stochastic quasi-Newton Langevin Monte Carlo (HAMCMC, Şimşekli et al. 2016).

    θ_t = θ_{t−M} − h H g(θ_{t−M}) + √(2hT) S ξ with S Sᵀ = H, the L-BFGS matrix of the last steps: of pairs s, the
    difference of two points M steps apart, and y, that of their gradients on one batch plus λ s. Targets exp(−V/T)
    with a bias of order h where V is a quadratic, h Sᵀ Cov(g) S/2 of it heat of the minibatch; elsewhere a bias
    stays as h → 0 (see `dynamics.quasi_newton`). 2b evaluations a step; the dynamics keeps 2M − 1 points, M =
    `memory_size`, and as many differences of gradients as it needs. For nearly Gaussian posteriors of very
    different scales in directions that no diagonal tells apart.

    Args:
        posterior: what is sampled: an `ewsg_jax.Posterior`, or one of `ewsg_jax.models`.
        step_size: h > 0, multiplies H ∇V, ∇V of the whole sum; a number, a traced scalar or a schedule (a function
            of the step's number), which is read at the first step of every M.
        batch_size: b, rows in a batch.
        memory_size: M ≥ 2: so many chains run interleaved, and M − 1 pairs make H. Default 5.
        trust_region: λ > 0, added to the curvature of every pair; a curvature of V (1/variance of the position), of
            the size of the posterior's. The default, 1, goes with parameters of unit scale.
        initial_scale: γ_H > 0, an inverse curvature: H is γ_H I before there are pairs, and where they say nothing.
            Default 1.
        curvature_threshold: ε > 0, the least cosine of the angle between the s and the y of a pair that is used.
            Default 1e-4.
        blocks: `"whole"` (default): one matrix H for the position; or `"leaves"`: one for each leaf of its tree,
            from that leaf's part of every pair, as where blocks are moved in parallel.
        replace: draw rows with replacement (default), or (False) a uniform subset.
        rows: `"random"` (default): independent rows, or the subset; `"blocks"`: b consecutive rows from a uniform
            start, quick to fetch, for data in random order; `"epochs"`: every row once in each n, in a new order
            each time; `"block_epochs"`: each of ⌊n/b⌋ such blocks once, in a new order each time;
            `"block_sweeps"`: each such order forward, then backwards; or what `ewsg_jax.rows.by_probability` or
            `leverage` returns. With all but the first `replace` must be True.
        temperature: T > 0; a number, a traced scalar or a schedule. Default 1: the posterior itself.
        noise: `"gaussian"` (default) or `"rademacher"` (±1: the same weak order; heuristic under exponential
            weights).

    Returns:
        The kernel: give it to `ewsg_jax.sample`, or call its `init` and `step`.

    Raises:
        TypeError, ValueError: an argument is of the wrong kind; at `init`, a batch larger than n where no row comes
            twice.

    References:
        U. Şimşekli, R. Badeau, A. T. Cemgil and G. Richard, Stochastic quasi-Newton Langevin Monte Carlo, ICML
            2016.

    Example:
        The numbers are for about 1,000 rows of unit scale; with more rows steps must be shorter.

        >>> import ewsg_jax as ewsg
        >>> kernel = ewsg.hamcmc(ewsg.models.logistic_regression(), 1e-3, batch_size=50, initial_scale=0.1)
    """
    return kernel(
        dynamics.quasi_newton(
            step_size,
            memory_size=memory_size,
            trust_region=trust_region,
            initial_scale=initial_scale,
            curvature_threshold=curvature_threshold,
            temperature=temperature,
            noise=noise,
            blocks=blocks,
        ),
        gradients.uniform(posterior, batch_size=batch_size, replace=replace, rows=rows),
    )
