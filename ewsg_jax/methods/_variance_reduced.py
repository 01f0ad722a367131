"""Variance-reduced gradients (anchors, tables, control variates) under Langevin and underdamped dynamics."""

from typing import Literal

from ewsg_jax import dynamics, gradients
from ewsg_jax._kernel import Kernel
from ewsg_jax._random import NoiseLaw
from ewsg_jax._types import Hyperparameter, P, Position
from ewsg_jax.dynamics.mass import InverseMass
from ewsg_jax.gradients._saga import MEMORY_LIMIT
from ewsg_jax.gradients.period import Period
from ewsg_jax.pair import kernel
from ewsg_jax.posterior import Posterior
from ewsg_jax.record import method
from ewsg_jax.rows.named import Rows


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

    Update: θ' = θ − h g + √(2hT) ξ, g = ∇V₀(θ) + (n/b) Σ_{i∈I} (∇Vᵢ(θ) − ∇Vᵢ(w)) + Σᵢ ∇Vᵢ(w), the anchor w moved
        every K steps.
    Target: exp(−V/T), with a bias of order h, that of `ld`. Minibatches add order h², because the anchor is near.
    Cost: 2b evaluations a step and n every K steps; memory of two positions.
    When: several data passes are affordable. Where a run ends within a pass or two, `sgld` is cheaper.
    Source: K. A. Dubey, S. J. Reddi, S. A. Williamson, B. Póczos, A. J. Smola and E. P. Xing, Variance reduction in
        stochastic gradient Langevin dynamics, NIPS 2016.

    Args:
        posterior: the target: an `ewsg_jax.Posterior`, or one of `ewsg_jax.models`.
        step_size: h > 0, multiplies ∇V of the whole sum; a number, a traced scalar or a schedule h(step).
        batch_size: b, rows in a batch.
        refresh_every: K, steps from one anchor to the next; an integer or a function of n. Default: ⌈n/b⌉.
        option: how the anchor moves, `"II"` (default) or `"I"`, as in `ewsg_jax.gradients.svrg`.
        replace: draw rows with replacement (default), or (False) a uniform subset.
        rows: `"random"` (default), or another law of `ewsg_jax.gradients.uniform`, which needs `replace=True`.
        temperature: T > 0; a number, a traced scalar or a schedule. Default 1: the posterior itself.
        inverse_mass: C > 0: number, tree, matrix or `LowRank`, as in `ewsg_jax.dynamics.langevin`. Default 1.
        noise: `"gaussian"` (default) or `"rademacher"` (±1: the same weak order).

    Raises:
        TypeError, ValueError: an argument has the wrong type or value; at `init`, b > n where no row comes twice.

    Example: for about 1,000 rows of unit scale; with more rows, take shorter steps.
        >>> import ewsg_jax as ewsg
        >>> kernel = ewsg.svrg_ld(ewsg.models.logistic_regression(), 1e-3, batch_size=10)
    """
    return kernel(
        dynamics.langevin(step_size, temperature=temperature, noise=noise, inverse_mass=inverse_mass),
        gradients.svrg(
            posterior, batch_size=batch_size, refresh_every=refresh_every, option=option, replace=replace, rows=rows
        ),
    )


@method(
    title="Langevin with a table of gradients",
    dynamics=("langevin",),
    estimator="saga",
    bias="h",
    evaluations="b",
    memory="n per predictor, or nd",
    source="Dubey et al. 2016",
    hazard="the table: n numbers a chain, or nd",
    example={"batch_size": 2},
)
def saga_ld(
    posterior: Posterior[P],
    step_size: Hyperparameter,
    *,
    batch_size: int,
    replace: bool = True,
    rows: Rows = "random",
    memory_limit: int = MEMORY_LIMIT,
    temperature: Hyperparameter = 1.0,
    inverse_mass: InverseMass = 1.0,
    noise: NoiseLaw = "gaussian",
) -> Kernel[P]:
    """Langevin dynamics with a table of gradients (SAGA-LD).

    Update: θ' = θ − h g + √(2hT) ξ, g = ∇V₀(θ) + (n/b) Σ_{i∈I} (∇Vᵢ(θ) − αᵢ) + Σᵢ αᵢ, αᵢ row i's last gradient.
    Target: exp(−V/T), with a bias of order h, that of `ld`. Minibatches add order h², because the table is recent.
    Cost: b evaluations a step and n at the start; memory of n numbers per linear predictor, or of n positions.
    When: linear models, where it costs what `sgld` does. Not networks, whose table is out of reach.
    Source: K. A. Dubey, S. J. Reddi, S. A. Williamson, B. Póczos, A. J. Smola and E. P. Xing, Variance reduction in
        stochastic gradient Langevin dynamics, NIPS 2016.

    Args:
        posterior: the target: an `ewsg_jax.Posterior`, or one of `ewsg_jax.models`.
        step_size: h > 0, multiplies ∇V of the whole sum; a number, a traced scalar or a schedule h(step).
        batch_size: b, rows in a batch.
        replace: draw rows with replacement (default), or (False) a uniform subset.
        rows: `"random"` (default), or another law of `ewsg_jax.gradients.uniform`, which needs `replace=True`.
        memory_limit: bytes that the tables of all chains may take; a run that needs more is refused. Default 4 GiB.
        temperature: T > 0; a number, a traced scalar or a schedule. Default 1: the posterior itself.
        inverse_mass: C > 0: number, tree, matrix or `LowRank`, as in `ewsg_jax.dynamics.langevin`. Default 1.
        noise: `"gaussian"` (default) or `"rademacher"` (±1: the same weak order).

    Raises:
        TypeError, ValueError: an argument has the wrong type or value; at `init`, b > n where no row comes twice,
            or a table larger than `memory_limit`.

    Example: for about 1,000 rows of unit scale; with more rows, take shorter steps.
        >>> import ewsg_jax as ewsg
        >>> kernel = ewsg.saga_ld(ewsg.models.logistic_regression(), 1e-3, batch_size=10)
    """
    return kernel(
        dynamics.langevin(step_size, temperature=temperature, noise=noise, inverse_mass=inverse_mass),
        gradients.saga(posterior, batch_size=batch_size, replace=replace, rows=rows, memory_limit=memory_limit),
    )


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

    Update: θ' = θ − h g + √(2hT) ξ, g = ∇V₀(θ) + (n/b) Σ_{i∈I} (∇Vᵢ(θ) − ∇Vᵢ(c)) + Σᵢ ∇Vᵢ(c), the centre c fixed.
    Target: exp(−V/T), with a bias of order h; batches add h·Cov(g)/2 to T, little if the posterior is narrow at c.
    Cost: 2b evaluations a step, n at the start, and `ewsg_jax.find_mode`; memory of two positions for all chains.
    When: many data and one mode. Not where the posterior is wide or has several modes.
    Source: N. S. Chatterji, N. Flammarion, Y.-A. Ma, P. L. Bartlett and M. I. Jordan, On the theory of variance
        reduction for stochastic gradient Monte Carlo, ICML 2018.

    Args:
        posterior: the target: an `ewsg_jax.Posterior`, or one of `ewsg_jax.models`.
        step_size: h > 0, multiplies ∇V of the whole sum; a number, a traced scalar or a schedule h(step).
        batch_size: b, rows in a batch.
        center: c, a tree like the position. None (default): the position given to `init`, where the chain starts.
        replace: draw rows with replacement (default), or (False) a uniform subset.
        rows: `"random"` (default), or another law of `ewsg_jax.gradients.uniform`, which needs `replace=True`.
        temperature: T > 0; a number, a traced scalar or a schedule. Default 1: the posterior itself.
        inverse_mass: C > 0: number, tree, matrix or `LowRank`, as in `ewsg_jax.dynamics.langevin`. Default 1.
        noise: `"gaussian"` (default) or `"rademacher"` (±1: the same weak order).

    Raises:
        TypeError, ValueError: an argument has the wrong type or value; at `init`, b > n where no row comes twice,
            or a centre that is not shaped like the position.

    Example: for about 1,000 rows of unit scale; with more rows, take shorter steps.
        >>> import ewsg_jax as ewsg
        >>> kernel = ewsg.cv_ld(ewsg.models.logistic_regression(), 1e-3, batch_size=10)
    """
    return kernel(
        dynamics.langevin(step_size, temperature=temperature, noise=noise, inverse_mass=inverse_mass),
        gradients.control_variate(posterior, batch_size=batch_size, center=center, replace=replace, rows=rows),
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

    Update: solves dθ = v dt, dv = −(γv + u g) dt + √(2γuT) dW over a time h with g frozen, where g = ∇V₀(θ) + (n/b)
        Σ_{i∈I} (∇Vᵢ(θ) − ∇Vᵢ(c)) + Σᵢ ∇Vᵢ(c), the centre c fixed.
    Target: exp(−V/T), with a bias of order h; the minibatch's part is small for a posterior narrow around c.
    Cost: 2b evaluations a step, n at the start, and `ewsg_jax.find_mode`; memory of two positions for all chains.
    When: as `cv_ld`, for posteriors of very different scales in different directions.
    Source: N. S. Chatterji, N. Flammarion, Y.-A. Ma, P. L. Bartlett and M. I. Jordan, On the theory of variance
        reduction for stochastic gradient Monte Carlo, ICML 2018, Algorithm 3. Integrator: X. Cheng,
        N. S. Chatterji, P. L. Bartlett and M. I. Jordan, Underdamped Langevin MCMC: a non-asymptotic analysis, COLT
        2018.

    Args:
        posterior: the target: an `ewsg_jax.Posterior`, or one of `ewsg_jax.models`.
        step_size: h > 0, time per step; a number, a traced scalar or a schedule h(step).
        batch_size: b, rows in a batch.
        friction: γ > 0 per unit of time; a number, a traced scalar or a schedule. Default 2, as published.
        inverse_mass: u > 0, as in `ewsg_jax.dynamics.exact`. Default 1; published: 1/L, L the largest curvature.
        center: c, a tree like the position. None (default): the position given to `init`, where the chain starts.
        replace: draw rows with replacement (default), or (False) a uniform subset.
        rows: `"random"` (default), or another law of `ewsg_jax.gradients.uniform`, which needs `replace=True`.
        temperature: T > 0; a number, a traced scalar or a schedule. Default 1: the posterior itself.

    Raises:
        TypeError, ValueError: an argument has the wrong type or value; at `init`, b > n where no row comes twice,
            or a centre that is not shaped like the position.

    Example: for about 1,000 rows of unit scale; with more rows, take shorter steps.
        >>> import ewsg_jax as ewsg
        >>> kernel = ewsg.cv_uld(ewsg.models.logistic_regression(), 1e-1, batch_size=10, inverse_mass=1e-2)
    """
    return kernel(
        dynamics.exact(step_size, friction=friction, inverse_mass=inverse_mass, temperature=temperature),
        gradients.control_variate(posterior, batch_size=batch_size, center=center, replace=replace, rows=rows),
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
    Target: exp(−(V + ‖p‖²/2)/T), with a bias of order h, which on a quadratic falls on the momentum.
    Cost: 2b evaluations a step and n every K steps; memory of two positions.
    When: as `svrg_ld`. `svrg2nd_hmc` costs the same and has the smaller bias.
    Source: Z. Li, T. Zhang, S. Cheng, J. Zhu and J. Li, Stochastic gradient Hamiltonian Monte Carlo with variance
        reduction for Bayesian inference, Machine Learning 108, 2019, Algorithm 1.

    Args:
        posterior: the target: an `ewsg_jax.Posterior`, or one of `ewsg_jax.models`.
        step_size: h > 0, time per step; a number, a traced scalar or a schedule h(step).
        friction: γ > 0 per unit of time; a number, a traced scalar or a schedule.
        batch_size: b, rows in a batch.
        refresh_every: K, steps from one anchor to the next; an integer or a function of n. Default: ⌈n/b⌉.
        option: `"II"` (default), or `"I"`, with too small variances, as `ewsg_jax.gradients.svrg` says.
        replace: draw rows with replacement (default), or (False) a uniform subset.
        rows: `"random"` (default), or another law of `ewsg_jax.gradients.uniform`, which needs `replace=True`.
        temperature: T > 0; a number, a traced scalar or a schedule. Default 1: the posterior itself.
        inverse_mass: C > 0: number, tree, matrix or `LowRank`, as in `ewsg_jax.dynamics.semi_implicit`. Default 1.
        noise: `"gaussian"` (default) or `"rademacher"` (±1: the same weak order).

    Raises:
        TypeError, ValueError: an argument has the wrong type or value; at `init`, b > n where no row comes twice.

    Example: for about 1,000 rows of unit scale; with more rows, take shorter steps.
        >>> import ewsg_jax as ewsg
        >>> kernel = ewsg.svrg_hmc(ewsg.models.logistic_regression(), 1e-2, friction=1.0, batch_size=10)
    """
    return kernel(
        dynamics.semi_implicit(
            step_size, friction=friction, temperature=temperature, noise=noise, inverse_mass=inverse_mass
        ),
        gradients.svrg(
            posterior, batch_size=batch_size, refresh_every=refresh_every, option=option, replace=replace, rows=rows
        ),
    )


@method(
    title="Underdamped with a table of gradients",
    dynamics=("semi_implicit",),
    estimator="saga",
    bias="h",
    evaluations="b",
    memory="n per predictor, or nd",
    source="Li, Zhang, Cheng, Zhu & Li 2019, Algorithm 2",
    hazard="as `saga_ld`",
    example={"friction": 2.0, "batch_size": 2},
)
def saga_hmc(
    posterior: Posterior[P],
    step_size: Hyperparameter,
    *,
    friction: Hyperparameter,
    batch_size: int,
    replace: bool = True,
    rows: Rows = "random",
    memory_limit: int = MEMORY_LIMIT,
    temperature: Hyperparameter = 1.0,
    inverse_mass: InverseMass = 1.0,
    noise: NoiseLaw = "gaussian",
) -> Kernel[P]:
    """Underdamped Langevin dynamics, semi-implicit, with a table of gradients (SAGA-HMC).

    Update: p' = (1 − hγ) p − h g + √(2hγT) ξ, θ' = θ + h p', where g = ∇V₀(θ) + (n/b) Σ_{i∈I} (∇Vᵢ(θ) − αᵢ) + Σᵢ
        αᵢ, αᵢ row i's last gradient.
    Target: exp(−(V + ‖p‖²/2)/T), with a bias of order h, which on a quadratic falls on the momentum.
    Cost: b evaluations a step and n at the start; memory of n numbers per linear predictor, or of n positions.
    When: as `saga_ld`. `saga2nd_hmc` costs the same and has the smaller bias.
    Source: Z. Li, T. Zhang, S. Cheng, J. Zhu and J. Li, Stochastic gradient Hamiltonian Monte Carlo with variance
        reduction for Bayesian inference, Machine Learning 108, 2019, Algorithm 2.

    Args:
        posterior: the target: an `ewsg_jax.Posterior`, or one of `ewsg_jax.models`.
        step_size: h > 0, time per step; a number, a traced scalar or a schedule h(step).
        friction: γ > 0 per unit of time; a number, a traced scalar or a schedule.
        batch_size: b, rows in a batch.
        replace: draw rows with replacement (default), or (False) a uniform subset.
        rows: `"random"` (default), or another law of `ewsg_jax.gradients.uniform`, which needs `replace=True`.
        memory_limit: bytes that the tables of all chains may take; a run that needs more is refused. Default 4 GiB.
        temperature: T > 0; a number, a traced scalar or a schedule. Default 1: the posterior itself.
        inverse_mass: C > 0: number, tree, matrix or `LowRank`, as in `ewsg_jax.dynamics.semi_implicit`. Default 1.
        noise: `"gaussian"` (default) or `"rademacher"` (±1: the same weak order).

    Raises:
        TypeError, ValueError: an argument has the wrong type or value; at `init`, b > n where no row comes twice,
            or a table larger than `memory_limit`.

    Example: for about 1,000 rows of unit scale; with more rows, take shorter steps.
        >>> import ewsg_jax as ewsg
        >>> kernel = ewsg.saga_hmc(ewsg.models.logistic_regression(), 1e-2, friction=1.0, batch_size=10)
    """
    return kernel(
        dynamics.semi_implicit(
            step_size, friction=friction, temperature=temperature, noise=noise, inverse_mass=inverse_mass
        ),
        gradients.saga(posterior, batch_size=batch_size, replace=replace, rows=rows, memory_limit=memory_limit),
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

    Update: p' = e^{−γh/2}(e^{−γh/2} p − h g + √(2hγT) ξ), θ' = θ + h (p + p')/2, where g is taken at x = θ + hp/2:
        g = ∇V₀(x) + (n/b) Σ_{i∈I} (∇Vᵢ(x) − ∇Vᵢ(w)) + Σᵢ ∇Vᵢ(w). The anchor w moves to x every K steps.
    Target: exp(−(V + ‖p‖²/2)/T), with a bias of order h² at fixed K: the distance to the anchor, and with it the
        minibatch's part, shrinks with h too.
    Cost: 2b evaluations a step and n every K steps; memory of two positions.
    When: the first to try where several data passes are affordable.
    Source: Z. Li, T. Zhang, S. Cheng, J. Zhu and J. Li, Stochastic gradient Hamiltonian Monte Carlo with variance
        reduction for Bayesian inference, Machine Learning 108, 2019, Algorithm 3 and eqs. 12–18.

    Args:
        posterior: the target: an `ewsg_jax.Posterior`, or one of `ewsg_jax.models`.
        step_size: h > 0, time per step; a number, a traced scalar or a schedule h(step).
        friction: γ > 0 per unit of time; a number, a traced scalar or a schedule.
        batch_size: b, rows in a batch.
        refresh_every: K, steps from one anchor to the next; an integer or a function of n. Default: ⌈n/b⌉.
        option: `"II"` (default), or `"I"`, with too small variances, as `ewsg_jax.gradients.svrg` says.
        replace: draw rows with replacement (default), or (False) a uniform subset.
        rows: `"random"` (default), or another law of `ewsg_jax.gradients.uniform`, which needs `replace=True`.
        temperature: T > 0; a number, a traced scalar or a schedule. Default 1: the posterior itself.
        inverse_mass: C > 0: number, tree, matrix or `LowRank`, as in `ewsg_jax.dynamics.splitting`. Default 1.

    Raises:
        TypeError, ValueError: an argument has the wrong type or value; at `init`, b > n where no row comes twice.

    Example: for about 1,000 rows of unit scale; with more rows, take shorter steps.
        >>> import ewsg_jax as ewsg
        >>> kernel = ewsg.svrg2nd_hmc(ewsg.models.logistic_regression(), 1e-2, friction=1.0, batch_size=10)
    """
    return kernel(
        dynamics.splitting(step_size, friction=friction, temperature=temperature, inverse_mass=inverse_mass),
        gradients.svrg(
            posterior, batch_size=batch_size, refresh_every=refresh_every, option=option, replace=replace, rows=rows
        ),
    )


@method(
    title="The splitting with a table of gradients",
    dynamics=("splitting",),
    estimator="saga",
    bias="h²",
    evaluations="b",
    memory="n per predictor, or nd",
    source="Li, Zhang, Cheng, Zhu & Li 2019, Algorithm 4",
    hazard="as `saga_ld`",
    example={"friction": 2.0, "batch_size": 2},
)
def saga2nd_hmc(
    posterior: Posterior[P],
    step_size: Hyperparameter,
    *,
    friction: Hyperparameter,
    batch_size: int,
    replace: bool = True,
    rows: Rows = "random",
    memory_limit: int = MEMORY_LIMIT,
    temperature: Hyperparameter = 1.0,
    inverse_mass: InverseMass = 1.0,
) -> Kernel[P]:
    """Underdamped Langevin dynamics, symmetric splitting, with a table of gradients (SAGA2nd-HMC).

    Update: p' = e^{−γh/2}(e^{−γh/2} p − h g + √(2hγT) ξ), θ' = θ + h (p + p')/2, where g is taken at x = θ + hp/2:
        g = ∇V₀(x) + (n/b) Σ_{i∈I} (∇Vᵢ(x) − αᵢ) + Σᵢ αᵢ, αᵢ row i's last gradient.
    Target: exp(−(V + ‖p‖²/2)/T), with a bias of order h² at fixed n/b: the age of the table, and with it the
        minibatch's part, shrinks with h too.
    Cost: b evaluations a step and n at the start; memory of n numbers per linear predictor, or of n positions.
    When: the first to try for linear models.
    Source: Z. Li, T. Zhang, S. Cheng, J. Zhu and J. Li, Stochastic gradient Hamiltonian Monte Carlo with variance
        reduction for Bayesian inference, Machine Learning 108, 2019, Algorithm 4 and eqs. 12–18.

    Args:
        posterior: the target: an `ewsg_jax.Posterior`, or one of `ewsg_jax.models`.
        step_size: h > 0, time per step; a number, a traced scalar or a schedule h(step).
        friction: γ > 0 per unit of time; a number, a traced scalar or a schedule.
        batch_size: b, rows in a batch.
        replace: draw rows with replacement (default), or (False) a uniform subset.
        rows: `"random"` (default), or another law of `ewsg_jax.gradients.uniform`, which needs `replace=True`.
        memory_limit: bytes that the tables of all chains may take; a run that needs more is refused. Default 4 GiB.
        temperature: T > 0; a number, a traced scalar or a schedule. Default 1: the posterior itself.
        inverse_mass: C > 0: number, tree, matrix or `LowRank`, as in `ewsg_jax.dynamics.splitting`. Default 1.

    Raises:
        TypeError, ValueError: an argument has the wrong type or value; at `init`, b > n where no row comes twice,
            or a table larger than `memory_limit`.

    Example: for about 1,000 rows of unit scale; with more rows, take shorter steps.
        >>> import ewsg_jax as ewsg
        >>> kernel = ewsg.saga2nd_hmc(ewsg.models.logistic_regression(), 1e-2, friction=1.0, batch_size=10)
    """
    return kernel(
        dynamics.splitting(step_size, friction=friction, temperature=temperature, inverse_mass=inverse_mass),
        gradients.saga(posterior, batch_size=batch_size, replace=replace, rows=rows, memory_limit=memory_limit),
    )
