"""Langevin dynamics in a metric of the user's."""

import jax

from ewsg_jax import dynamics, gradients
from ewsg_jax._kernel import Kernel
from ewsg_jax._random import NoiseLaw
from ewsg_jax._types import Hyperparameter, P
from ewsg_jax.dynamics._riemannian import OfPosition
from ewsg_jax.pair import kernel
from ewsg_jax.posterior import Posterior
from ewsg_jax.record import method
from ewsg_jax.rows.named import Rows


@method(
    title="Langevin in a metric of the user's",
    dynamics=("riemannian",),
    estimator="uniform",
    bias="h",
    evaluations="b",
    memory="none",
    source="Patterson & Teh 2013",
    hazard="a metric must be known; its derivatives cost d passes of it",
    example={
        "batch_size": 2,
        "inverse_metric": lambda position, data: jax.tree.map(lambda x: 1 / (1 + x**2), position),
    },
)
def sgrld(
    posterior: Posterior[P],
    step_size: Hyperparameter,
    *,
    inverse_metric: OfPosition,
    batch_size: int,
    divergence: OfPosition | None = None,
    replace: bool = True,
    rows: Rows = "random",
    temperature: Hyperparameter = 1.0,
    noise: NoiseLaw = "gaussian",
) -> Kernel[P]:
    """Stochastic-gradient Riemannian Langevin dynamics (SGRLD, Patterson & Teh 2013).

    θ' = θ − h(G⁻¹ g − Γ) + √(2hT) L ξ with L Lᵀ = G⁻¹ and Γ = T∇·G⁻¹; h is half of the paper's ε. Targets exp(−V/T)
    with a bias of order h, h·G⁻¹Cov(g)/2 of it from the minibatch. b evaluations a step, and what `inverse_metric`
    and its d derivatives cost; no memory. When to use it: where a metric is known, as for probabilities or scales;
    a dense one for few dimensions only.

    Args:
        posterior: what is sampled: an `ewsg_jax.Posterior`, or one of `ewsg_jax.models`.
        step_size: h > 0, half of the paper's ε; a number, a traced scalar or a schedule (a function of the step's
            number).
        inverse_metric: `inverse_metric(position, data)` is G⁻¹, differentiable and positive definite: a tree like
            the position, for a diagonal metric; or an array (d, d), over the d numbers of the position leaf after
            leaf. It sees all data, and what it evaluates of them is not counted.
        batch_size: b, rows in a batch.
        divergence: `divergence(position, data)` is Σⱼ ∂ⱼ(G⁻¹)ᵢⱼ, a tree like the position. By default automatic: d
            forward derivatives of `inverse_metric` at once, of d² numbers or, dense, of d³.
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
            twice; in a step, that a function fails or returns something of another shape. A metric that is not
            positive definite makes the state NaN.

    References:
        S. Patterson and Y. W. Teh, Stochastic gradient Riemannian Langevin dynamics on the probability simplex,
            NIPS 2013.

    Example:
        The numbers are for about 20 rows of unit scale; with more rows steps must be shorter.

        >>> import ewsg_jax as ewsg
        >>> kernel = ewsg.sgrld(
        ...     ewsg.models.gaussian_location(),
        ...     1e-3,
        ...     inverse_metric=lambda position, data: 1 + position**2,
        ...     batch_size=1,
        ... )
    """
    return kernel(
        dynamics.riemannian(
            step_size, inverse_metric=inverse_metric, divergence=divergence, temperature=temperature, noise=noise
        ),
        gradients.uniform(posterior, batch_size=batch_size, replace=replace, rows=rows),
    )
