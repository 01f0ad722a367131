"""Langevin dynamics with a running preconditioner."""

from ewsg_jax import dynamics, gradients
from ewsg_jax._kernel import Kernel
from ewsg_jax._random import NoiseLaw
from ewsg_jax._types import Hyperparameter, P
from ewsg_jax.pair import kernel
from ewsg_jax.posterior import Posterior
from ewsg_jax.record import method
from ewsg_jax.rows.named import Rows


@method(
    title="Langevin with a running preconditioner",
    dynamics=("preconditioned",),
    estimator="uniform",
    bias="not removed by h, or h with the correction",
    evaluations="b, or 2b with the correction",
    memory="d or 2d, in the dynamics",
    source="Li, Chen, Carlson & Carin 2016",
    hazard="its law is not the posterior however small h, unless `correction=True`",
    example={"batch_size": 2, "damping": 0.1},
)
def psgld(
    posterior: Posterior[P],
    step_size: Hyperparameter,
    *,
    batch_size: int,
    decay: float = 0.99,
    damping: float | None = None,
    correction: bool = False,
    replace: bool = True,
    rows: Rows = "random",
    temperature: Hyperparameter = 1.0,
    noise: NoiseLaw = "gaussian",
) -> Kernel[P]:
    """Preconditioned stochastic-gradient Langevin dynamics (pSGLD, Li, Chen, Carlson & Carin 2016).

    θ' = θ − h G g + √(2hTG) ξ, G = 1/(λ + √m), m a running mean of squared mean likelihood gradients; h is half of
    the paper's ε. Targets exp(−V/T) only with `correction=True`, then with a bias of order h; without it the law is
    another, however small h. b evaluations a step, 2b with the correction; the dynamics keeps d numbers, or 2d.
    When to use it: coordinates of very different scales, and predictions rather than exact uncertainties; with the
    correction, and a `damping` of its own, those too.

    Args:
        posterior: what is sampled: an `ewsg_jax.Posterior`, or one of `ewsg_jax.models`.
        step_size: h > 0, half of the paper's ε; a number, a traced scalar or a schedule (a function of the step's
            number).
        batch_size: b, rows in a batch.
        decay: α, in [0, 1), a number or a scalar array: how much of the mean a step keeps. Default 0.99.
        damping: λ > 0, a number or a scalar array, in units of (1/n) Σᵢ ∇Vᵢ. Default: 1e-5, as in the paper; to be
            given with the correction, of the size that this mean over a batch's b rows has near the mode: with S =
            Cov(∇Vᵢ) about √(tr S/(bd)).
        correction: whether the law tends to exp(−V/T) as h → 0. It costs the derivative of a gradient along a ±1
            vector and the memory of a position. Default False.
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
        C. Li, C. Chen, D. Carlson and L. Carin, Preconditioned stochastic gradient Langevin dynamics for deep
            neural networks, AAAI 2016.

    Example:
        The numbers are for about 500 rows of unit scale; with more rows steps must be shorter.

        >>> import ewsg_jax as ewsg
        >>> kernel = ewsg.psgld(ewsg.models.logistic_regression(), 1e-5, batch_size=50)
    """
    return kernel(
        dynamics.preconditioned(
            step_size, decay=decay, damping=damping, correction=correction, temperature=temperature, noise=noise
        ),
        gradients.uniform(posterior, batch_size=batch_size, replace=replace, rows=rows),
    )
