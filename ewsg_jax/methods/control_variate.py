"""Gradients with a fixed control variate under Langevin and underdamped dynamics."""

from ewsg_jax import dynamics, gradients
from ewsg_jax.base.rng import NoiseLaw
from ewsg_jax.base.typing import Hyperparameter, P, Position
from ewsg_jax.dynamics._mass import InverseMass
from ewsg_jax.kernels.pair import kernel
from ewsg_jax.kernels.protocol import Kernel
from ewsg_jax.kernels.record import method
from ewsg_jax.posterior.posterior import Posterior
from ewsg_jax.rows._named import Rows


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
    """Langevin dynamics with a control variate (CV-LD).

    Update: θ' = θ − h g + √(2hT) ξ, g = ∇V₀(θ) + (n/b) Σ_{i∈I} (∇Vᵢ(θ) − ∇Vᵢ(c)) + Σᵢ ∇Vᵢ(c), the
        centre c fixed.
    Target: exp(−V/T), with a bias of order h; batches add h·Cov(g)/2 to T, little if the posterior
        is narrow at c.
    Cost: 2b evaluations a step, n at the start, and `ewsg_jax.find_mode`; memory of two positions
        for all chains.
    When: many data and one mode. Not where the posterior is wide or has several modes.
    Source: N. S. Chatterji, N. Flammarion, Y.-A. Ma, P. L. Bartlett and M. I. Jordan, On the theory
        of variance reduction for stochastic gradient Monte Carlo, ICML 2018.

    Args:
        posterior: the target: an `ewsg_jax.Posterior`, or one of `ewsg_jax.models`.
        step_size: h > 0, multiplies ∇V of the whole sum; a number, a traced scalar or a schedule
            h(step).
        batch_size: b, rows in a batch.
        center: c, a tree like the position. None (default): the position given to `init`, where the
            chain starts.
        replace: draw rows with replacement (default), or (False) a uniform subset.
        rows: `"random"` (default), or another law of `ewsg_jax.gradients.uniform`, which needs
            `replace=True`.
        temperature: T > 0; a number, a traced scalar or a schedule. Default 1: the posterior
            itself.
        inverse_mass: C > 0: number, tree, matrix or `LowRank`, as in `ewsg_jax.dynamics.langevin`.
            Default 1.
        noise: `"gaussian"` (default) or `"rademacher"` (±1: the same weak order).

    Raises:
        TypeError, ValueError: an argument has the wrong type or value; at `init`, b > n where no
            row comes twice, or a centre that is not shaped like the position.

    Example: for about 1,000 rows of unit scale; with more rows, take shorter steps.
        >>> import ewsg_jax as ewsg
        >>> kernel = ewsg.cv_ld(ewsg.models.logistic_regression(), 1e-3, batch_size=10)
    """
    return kernel(
        dynamics.langevin(
            step_size, temperature=temperature, noise=noise, inverse_mass=inverse_mass
        ),
        gradients.control_variate(
            posterior, batch_size=batch_size, center=center, replace=replace, rows=rows
        ),
    )


@method(
    title="Underdamped Langevin with a control variate",
    dynamics=("exact",),
    estimator="control_variate",
    bias="h",
    evaluations="2b",
    memory="2d for all chains",
    source="Chatterji et al. 2018",
    hazard="as `cv_ld`",
    example={"friction": 2.0, "batch_size": 2},
)
def cv_uld(
    posterior: Posterior[P],
    step_size: Hyperparameter,
    *,
    batch_size: int,
    friction: Hyperparameter = 2.0,
    inverse_mass: InverseMass = 1.0,
    center: Position | None = None,
    replace: bool = True,
    rows: Rows = "random",
    temperature: Hyperparameter = 1.0,
) -> Kernel[P]:
    """Underdamped Langevin dynamics, exact for a frozen gradient, with a control variate (CV-ULD).

    Update: solves dθ = v dt, dv = −(γv + u g) dt + √(2γuT) dW over a time h with g frozen, where g
        = ∇V₀(θ) + (n/b) Σ_{i∈I} (∇Vᵢ(θ) − ∇Vᵢ(c)) + Σᵢ ∇Vᵢ(c), the centre c fixed.
    Target: exp(−V/T), with a bias of order h; the minibatch's part is small for a posterior narrow
        around c.
    Cost: 2b evaluations a step, n at the start, and `ewsg_jax.find_mode`; memory of two positions
        for all chains.
    When: as `cv_ld`, for posteriors of very different scales in different directions.
    Source: N. S. Chatterji, N. Flammarion, Y.-A. Ma, P. L. Bartlett and M. I. Jordan, On the theory
        of variance reduction for stochastic gradient Monte Carlo, ICML 2018, Algorithm 3.
        Integrator: X. Cheng, N. S. Chatterji, P. L. Bartlett and M. I. Jordan, Underdamped Langevin
        MCMC: a non-asymptotic analysis, COLT 2018.

    Args:
        posterior: the target: an `ewsg_jax.Posterior`, or one of `ewsg_jax.models`.
        step_size: h > 0, time per step; a number, a traced scalar or a schedule h(step).
        batch_size: b, rows in a batch.
        friction: γ > 0 per unit of time; a number, a traced scalar or a schedule. Default 2, as
            published.
        inverse_mass: u > 0, as in `ewsg_jax.dynamics.exact`. Default 1; published: 1/L, L the
            largest curvature.
        center: c, a tree like the position. None (default): the position given to `init`, where the
            chain starts.
        replace: draw rows with replacement (default), or (False) a uniform subset.
        rows: `"random"` (default), or another law of `ewsg_jax.gradients.uniform`, which needs
            `replace=True`.
        temperature: T > 0; a number, a traced scalar or a schedule. Default 1: the posterior
            itself.

    Raises:
        TypeError, ValueError: an argument has the wrong type or value; at `init`, b > n where no
            row comes twice, or a centre that is not shaped like the position.

    Example: for about 1,000 rows of unit scale; with more rows, take shorter steps.
        >>> import ewsg_jax as ewsg
        >>> kernel = ewsg.cv_uld(
        ...     ewsg.models.logistic_regression(), 1e-1, batch_size=10, inverse_mass=1e-2
        ... )
    """
    return kernel(
        dynamics.exact(
            step_size, friction=friction, inverse_mass=inverse_mass, temperature=temperature
        ),
        gradients.control_variate(
            posterior, batch_size=batch_size, center=center, replace=replace, rows=rows
        ),
    )
