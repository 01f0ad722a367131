"""Langevin dynamics whose matrix adapts to the position or the path: pSGLD, SGRLD and HAMCMC."""

import jax
from jax.typing import ArrayLike

from ewsg_jax import dynamics, gradients
from ewsg_jax.base.rng import NoiseKind
from ewsg_jax.base.typing import Hyperparameter, P
from ewsg_jax.dynamics._riemannian import OfPosition
from ewsg_jax.kernels.pair import kernel
from ewsg_jax.kernels.protocol import Kernel
from ewsg_jax.kernels.record import method
from ewsg_jax.methods.langevin import sgld
from ewsg_jax.posterior.posterior import Posterior
from ewsg_jax.rows._named import Rows


@method(
    title="Langevin with a running preconditioner",
    dynamics=("preconditioned",),
    estimator="uniform",
    bias="not removed by h, or h with the correction",
    evaluations="b, or 2b with the correction",
    memory="d or 2d, in the dynamics",
    source="Li, Chen, Carlson & Carin 2016",
    hazard="its target is not the posterior however small h, unless `correction=True`",
    example={"batch_size": 2, "damping": 0.1},
    like=(sgld,),
)
def psgld(
    posterior: Posterior[P],
    step_size: Hyperparameter,
    *,
    batch_size: int,
    decay: float = 0.99,
    damping: float | None = None,
    correction: bool = False,
    bias_correction: bool = False,
    replace: bool = True,
    rows: Rows = "random",
    temperature: Hyperparameter = 1.0,
    noise: NoiseKind = "gaussian",
) -> Kernel[P]:
    """Preconditioned stochastic-gradient Langevin dynamics (pSGLD): a diagonal from a running mean
    of squares.

    Update: θ' = θ − h G g + √(2hTG) ξ with G = 1/(λ + √m), m a running mean of squared mean
        likelihood gradients, and g as in `sgld`. h is half of the paper's ε.
    Target: exp(−V/T), but only with `correction=True`.
    When: coordinates of very different scales, and predictions rather than exact uncertainties. For
        exact uncertainties take the correction and choose `damping`.

    Args:
        step_size: h > 0, half of the paper's ε; a number, a traced scalar or a schedule h(step).
        decay: α in [0, 1), a number or a scalar array: the weight of the old mean in a step.
            Default 0.99.
        damping: λ > 0, a number or a scalar array, in units of (1/n) Σᵢ ∇Vᵢ. Default: 1e-5, the
            paper's; required with the correction, about √(tr S/(bd)), S = Cov(∇Vᵢ): see
            `ewsg_jax.dynamics.preconditioned`.
        correction: make the stationary distribution tend to exp(−V/T) as h → 0, by a derivative
            along a ±1 vector. Default False.
        bias_correction: divide the mean of squares by the weight that its squares have, as Adam
            does. Default False.

    Example: for about 500 rows of unit scale; with more rows, take shorter steps.
        >>> import ewsg_jax as ewsg
        >>> kernel = ewsg.psgld(ewsg.models.logistic_regression(), 1e-5, batch_size=50)
    """
    return kernel(
        dynamics.preconditioned(
            step_size,
            decay=decay,
            damping=damping,
            correction=correction,
            bias_correction=bias_correction,
            temperature=temperature,
            noise=noise,
        ),
        gradients.uniform(posterior, batch_size=batch_size, replace=replace, rows=rows),
    )


@method(
    title="Langevin in a user-defined metric",
    dynamics=("riemannian",),
    estimator="uniform",
    bias="h",
    evaluations="b",
    memory="none",
    source="Patterson & Teh 2013",
    hazard="needs a known metric; its derivatives cost d passes of it",
    example={
        "batch_size": 2,
        "inverse_metric": lambda position, data: jax.tree.map(lambda x: 1 / (1 + x**2), position),
    },
    like=(sgld,),
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
    noise: NoiseKind = "gaussian",
) -> Kernel[P]:
    """Stochastic-gradient Riemannian Langevin dynamics (SGRLD): a user-defined metric.

    Update: θ' = θ − h(G⁻¹ g − Γ) + √(2hT) L ξ with L Lᵀ = G⁻¹, Γ = T∇·G⁻¹ and g as in `sgld`.
        h is half of the paper's ε.
    Target: exp(−V/T).
    Bias: The minibatch adds h·G⁻¹Cov(g)/2 to the temperature.
    When: a metric is known, as for probabilities or scales. A dense one for few dimensions only.

    Args:
        step_size: h > 0, half of the paper's ε; a number, a traced scalar or a schedule h(step).
        inverse_metric: `inverse_metric(position, data)` is G⁻¹, differentiable and positive
            definite: a pytree like θ (diagonal), or an array (d, d) in `ravel_pytree` order. It
            gets all data, which is not counted as evaluations.
        divergence: `divergence(position, data)` is Σⱼ ∂ⱼ(G⁻¹)ᵢⱼ, a pytree like θ. Default: by d
            forward derivatives.

    Raises:
        TypeError, ValueError: an argument has the wrong type or value; at `init`, b > n although
            no row may come twice; in a step, a function fails or returns another shape. A metric
            that is not positive definite gives NaN.

    Example: for about 20 rows of unit scale; with more rows, take shorter steps.
        >>> import ewsg_jax as ewsg
        >>> metric = lambda position, data: 1 + position**2
        >>> kernel = ewsg.sgrld(
        ...     ewsg.models.gaussian_location(), 1e-3, inverse_metric=metric, batch_size=1
        ... )
    """
    return kernel(
        dynamics.riemannian(
            step_size,
            inverse_metric=inverse_metric,
            divergence=divergence,
            temperature=temperature,
            noise=noise,
        ),
        gradients.uniform(posterior, batch_size=batch_size, replace=replace, rows=rows),
    )


@method(
    title="Langevin with a quasi-Newton matrix",
    dynamics=("quasi_newton",),
    estimator="uniform",
    bias="h on a Gaussian",
    evaluations="2b",
    memory="3d per pair, in the dynamics",
    source="Şimşekli et al. 2016",
    hazard="biased off Gaussians (d ≥ 2) however small h; diverges if `trust_region` is small",
    example={"batch_size": 2, "memory_size": 3},
    like=(sgld,),
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
    replace: bool = True,
    rows: Rows = "random",
    temperature: Hyperparameter = 1.0,
    noise: NoiseKind = "gaussian",
) -> Kernel[P]:
    """Stochastic quasi-Newton Langevin Monte Carlo (HAMCMC): an L-BFGS matrix from the last steps.

    Update: θ_t = θ_{t−M} − h H g(θ_{t−M}) + √(2hT) S ξ with S Sᵀ = H; H is the L-BFGS matrix
        of pairs (s, y): s is the difference of two points M steps apart, y the difference of their
        gradients on one batch, plus λ s; g as in `sgld`.
    Target: exp(−V/T) if V is a quadratic (see `ewsg_jax.dynamics.quasi_newton`).
    Bias: The minibatch adds h Sᵀ Cov(g) S/2 to the temperature. On other posteriors a bias remains
        as h → 0.
    Cost: The dynamics keeps 2M − 1 points and the differences of gradients that it needs.
    When: nearly Gaussian posteriors whose scales differ much in directions that no diagonal
        resolves.
    Source: Equation 16.

    Args:
        step_size: h > 0, multiplies H ∇V, ∇V of the whole sum; a number, a traced scalar or a
            schedule h(step), which is read at the first of every M steps.
        memory_size: M ≥ 2: M chains run interleaved, and M − 1 pairs make H. Default 5.
        trust_region: λ > 0, added to the curvature of every pair, of the size of the posterior's
            curvature (1/variance). The default, 1, is for parameters of unit scale.
        initial_scale: γ_H > 0, an inverse curvature: H is γ_H I without pairs, and in directions
            that no pair has. Default 1.
        curvature_threshold: ε > 0: a pair is used if the cosine of the angle between its s and y is
            at least ε. Default 1e-4.

    Example: for about 1,000 rows of unit scale; with more rows, take shorter steps.
        >>> import ewsg_jax as ewsg
        >>> kernel = ewsg.hamcmc(
        ...     ewsg.models.logistic_regression(), 1e-3, batch_size=50, initial_scale=0.1
        ... )
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
        ),
        gradients.uniform(posterior, batch_size=batch_size, replace=replace, rows=rows),
    )
