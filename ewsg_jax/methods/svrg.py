"""Gradients anchored at an earlier position (SVRG) under Langevin and underdamped dynamics."""

from typing import Literal

from ewsg_jax import dynamics, gradients
from ewsg_jax.base.rng import NoiseLaw
from ewsg_jax.base.typing import Hyperparameter, P
from ewsg_jax.dynamics._mass import InverseMass
from ewsg_jax.gradients._period import Period
from ewsg_jax.kernels.pair import kernel
from ewsg_jax.kernels.protocol import Kernel
from ewsg_jax.kernels.record import method
from ewsg_jax.posterior.posterior import Posterior
from ewsg_jax.rows._named import Rows


@method(
    title="Langevin with anchored gradients",
    dynamics=("langevin",),
    estimator="svrg",
    bias="h",
    evaluations="2b, and n every K steps",
    memory="2d",
    source="Dubey et al. 2016",
    hazard="far from its anchor worse than no anchor; waits for full gradients",
    example={"batch_size": 2, "refresh_every": 3},
)
def svrg_ld(
    posterior: Posterior[P],
    step_size: Hyperparameter,
    *,
    batch_size: int,
    refresh_every: Period = None,
    option: Literal["I", "II"] = "II",
    replace: bool = True,
    rows: Rows = "random",
    temperature: Hyperparameter = 1.0,
    inverse_mass: InverseMass = 1.0,
    noise: NoiseLaw = "gaussian",
) -> Kernel[P]:
    """Langevin dynamics with anchored gradients (SVRG-LD).

    Update: θ' = θ − h g + √(2hT) ξ, g = ∇V₀(θ) + (n/b) Σ_{i∈I} (∇Vᵢ(θ) − ∇Vᵢ(w)) + Σᵢ ∇Vᵢ(w), the
        anchor w moved every K steps.
    Target: exp(−V/T), with a bias of order h, that of `ld`. Minibatches add order h², because the
        anchor is near.
    Cost: 2b evaluations a step and n every K steps; memory of two positions.
    When: several data passes are affordable. Where a run ends within a pass or two, `sgld` is
        cheaper.
    Source: K. A. Dubey, S. J. Reddi, S. A. Williamson, B. Póczos, A. J. Smola and E. P. Xing,
        Variance reduction in stochastic gradient Langevin dynamics, NIPS 2016.

    Args:
        posterior: the target: an `ewsg_jax.Posterior`, or one of `ewsg_jax.models`.
        step_size: h > 0, multiplies ∇V of the whole sum; a number, a traced scalar or a schedule
            h(step).
        batch_size: b, rows in a batch.
        refresh_every: K, steps from one anchor to the next; an integer or a function of n. Default:
            ⌈n/b⌉.
        option: how the anchor moves, `"II"` (default) or `"I"`, as in `ewsg_jax.gradients.svrg`.
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
            row comes twice.

    Example: for about 1,000 rows of unit scale; with more rows, take shorter steps.
        >>> import ewsg_jax as ewsg
        >>> kernel = ewsg.svrg_ld(ewsg.models.logistic_regression(), 1e-3, batch_size=10)
    """
    return kernel(
        dynamics.langevin(
            step_size, temperature=temperature, noise=noise, inverse_mass=inverse_mass
        ),
        gradients.svrg(
            posterior,
            batch_size=batch_size,
            refresh_every=refresh_every,
            option=option,
            replace=replace,
            rows=rows,
        ),
    )


@method(
    title="Underdamped with anchored gradients",
    dynamics=("semi_implicit",),
    estimator="svrg",
    bias="h",
    evaluations="2b, and n every K steps",
    memory="2d",
    source="Li, Zhang, Cheng, Zhu & Li 2019, Algorithm 1",
    hazard="as `svrg_ld`",
    example={"friction": 2.0, "batch_size": 2, "refresh_every": 3},
)
def svrg_hmc(
    posterior: Posterior[P],
    step_size: Hyperparameter,
    *,
    friction: Hyperparameter,
    batch_size: int,
    refresh_every: Period = None,
    option: Literal["I", "II"] = "II",
    replace: bool = True,
    rows: Rows = "random",
    temperature: Hyperparameter = 1.0,
    inverse_mass: InverseMass = 1.0,
    noise: NoiseLaw = "gaussian",
) -> Kernel[P]:
    """Underdamped Langevin dynamics, semi-implicit, with anchored gradients (SVRG-HMC).

    Update: p' = (1 − hγ) p − h g + √(2hγT) ξ, θ' = θ + h p', where g = ∇V₀(θ) + (n/b) Σ_{i∈I}
        (∇Vᵢ(θ) − ∇Vᵢ(w)) + Σᵢ ∇Vᵢ(w). The anchor w moves every K steps.
    Target: exp(−(V + ‖p‖²/2)/T), with a bias of order h, which on a quadratic falls on the
        momentum.
    Cost: 2b evaluations a step and n every K steps; memory of two positions.
    When: as `svrg_ld`. `svrg2nd_hmc` costs the same and has the smaller bias.
    Source: Z. Li, T. Zhang, S. Cheng, J. Zhu and J. Li, Stochastic gradient Hamiltonian Monte Carlo
        with variance reduction for Bayesian inference, Machine Learning 108, 2019, Algorithm 1.

    Args:
        posterior: the target: an `ewsg_jax.Posterior`, or one of `ewsg_jax.models`.
        step_size: h > 0, time per step; a number, a traced scalar or a schedule h(step).
        friction: γ > 0 per unit of time; a number, a traced scalar or a schedule.
        batch_size: b, rows in a batch.
        refresh_every: K, steps from one anchor to the next; an integer or a function of n. Default:
            ⌈n/b⌉.
        option: `"II"` (default), or `"I"`, with too small variances, as `ewsg_jax.gradients.svrg`
            says.
        replace: draw rows with replacement (default), or (False) a uniform subset.
        rows: `"random"` (default), or another law of `ewsg_jax.gradients.uniform`, which needs
            `replace=True`.
        temperature: T > 0; a number, a traced scalar or a schedule. Default 1: the posterior
            itself.
        inverse_mass: C > 0: number, tree, matrix or `LowRank`, as in
            `ewsg_jax.dynamics.semi_implicit`. Default 1.
        noise: `"gaussian"` (default) or `"rademacher"` (±1: the same weak order).

    Raises:
        TypeError, ValueError: an argument has the wrong type or value; at `init`, b > n where no
            row comes twice.

    Example: for about 1,000 rows of unit scale; with more rows, take shorter steps.
        >>> import ewsg_jax as ewsg
        >>> kernel = ewsg.svrg_hmc(
        ...     ewsg.models.logistic_regression(), 1e-2, friction=1.0, batch_size=10
        ... )
    """
    return kernel(
        dynamics.semi_implicit(
            step_size,
            friction=friction,
            temperature=temperature,
            noise=noise,
            inverse_mass=inverse_mass,
        ),
        gradients.svrg(
            posterior,
            batch_size=batch_size,
            refresh_every=refresh_every,
            option=option,
            replace=replace,
            rows=rows,
        ),
    )


@method(
    title="The splitting with anchored gradients",
    dynamics=("splitting",),
    estimator="svrg",
    bias="h²",
    evaluations="2b, and n every K steps",
    memory="2d",
    source="Li, Zhang, Cheng, Zhu & Li 2019, Algorithm 3",
    hazard="as `svrg_ld`",
    example={"friction": 2.0, "batch_size": 2, "refresh_every": 3},
)
def svrg2nd_hmc(
    posterior: Posterior[P],
    step_size: Hyperparameter,
    *,
    friction: Hyperparameter,
    batch_size: int,
    refresh_every: Period = None,
    option: Literal["I", "II"] = "II",
    replace: bool = True,
    rows: Rows = "random",
    temperature: Hyperparameter = 1.0,
    inverse_mass: InverseMass = 1.0,
) -> Kernel[P]:
    """Underdamped Langevin dynamics, symmetric splitting, with anchored gradients (SVRG2nd-HMC).

    Update: p' = e^{−γh/2}(e^{−γh/2} p − h g + √(2hγT) ξ), θ' = θ + h (p + p')/2, where g is taken
        at x = θ + hp/2: g = ∇V₀(x) + (n/b) Σ_{i∈I} (∇Vᵢ(x) − ∇Vᵢ(w)) + Σᵢ ∇Vᵢ(w). The anchor w
        moves to x every K steps.
    Target: exp(−(V + ‖p‖²/2)/T), with a bias of order h² at fixed K: the distance to the anchor,
        and with it the minibatch's part, shrinks with h too.
    Cost: 2b evaluations a step and n every K steps; memory of two positions.
    When: the first to try where several data passes are affordable.
    Source: Z. Li, T. Zhang, S. Cheng, J. Zhu and J. Li, Stochastic gradient Hamiltonian Monte Carlo
        with variance reduction for Bayesian inference, Machine Learning 108, 2019, Algorithm 3 and
        eqs. 12–18.

    Args:
        posterior: the target: an `ewsg_jax.Posterior`, or one of `ewsg_jax.models`.
        step_size: h > 0, time per step; a number, a traced scalar or a schedule h(step).
        friction: γ > 0 per unit of time; a number, a traced scalar or a schedule.
        batch_size: b, rows in a batch.
        refresh_every: K, steps from one anchor to the next; an integer or a function of n. Default:
            ⌈n/b⌉.
        option: `"II"` (default), or `"I"`, with too small variances, as `ewsg_jax.gradients.svrg`
            says.
        replace: draw rows with replacement (default), or (False) a uniform subset.
        rows: `"random"` (default), or another law of `ewsg_jax.gradients.uniform`, which needs
            `replace=True`.
        temperature: T > 0; a number, a traced scalar or a schedule. Default 1: the posterior
            itself.
        inverse_mass: C > 0: number, tree, matrix or `LowRank`, as in `ewsg_jax.dynamics.splitting`.
            Default 1.

    Raises:
        TypeError, ValueError: an argument has the wrong type or value; at `init`, b > n where no
            row comes twice.

    Example: for about 1,000 rows of unit scale; with more rows, take shorter steps.
        >>> import ewsg_jax as ewsg
        >>> kernel = ewsg.svrg2nd_hmc(
        ...     ewsg.models.logistic_regression(), 1e-2, friction=1.0, batch_size=10
        ... )
    """
    return kernel(
        dynamics.splitting(
            step_size, friction=friction, temperature=temperature, inverse_mass=inverse_mass
        ),
        gradients.svrg(
            posterior,
            batch_size=batch_size,
            refresh_every=refresh_every,
            option=option,
            replace=replace,
            rows=rows,
        ),
    )
