"""Langevin dynamics, overdamped and underdamped, with gradients whose variance is reduced."""

from typing import Literal

from ewsg_jax import dynamics, gradients
from ewsg_jax._kernel import Kernel, kernel
from ewsg_jax._random import NoiseLaw
from ewsg_jax._types import Hyperparameter, Position
from ewsg_jax.gradients._period import Period
from ewsg_jax.gradients._saga import MEMORY_LIMIT
from ewsg_jax.posterior import Posterior
from ewsg_jax.rows.named import RowLawName


def svrg_ld(
    posterior: Posterior,
    step_size: Hyperparameter,
    *,
    batch_size: int,
    refresh_every: Period = None,
    option: Literal["I", "II"] = "II",
    replace: bool = True,
    rows: RowLawName = "random",
    temperature: Hyperparameter = 1.0,
    noise: NoiseLaw = "gaussian",
) -> Kernel:
    """Langevin dynamics with anchored gradients (Dubey et al. 2016): θ' = θ − h g + √(2hT) ξ.

    g of `gradients.svrg`. Targets exp(−V/T) with a bias of order h: that of `ld`; the heat of minibatches is
    of order h², for the anchor is near. 2b evaluations a step and n every K steps; memory
    of two positions. For data that several passes can be afforded on; where a run ends within a pass or two,
    `sgld` is cheaper. Arguments as in `dynamics.langevin` and `gradients.svrg`.

    Example:
        >>> import ewsg_jax as ewsg
        >>> kernel = ewsg.svrg_ld(ewsg.models.logistic_regression(), 1e-3, batch_size=10)
    """
    return kernel(
        dynamics.langevin(step_size, temperature=temperature, noise=noise),
        gradients.svrg(
            posterior,
            batch_size=batch_size,
            refresh_every=refresh_every,
            option=option,
            replace=replace,
            rows=rows,
        ),
    )


def saga_ld(
    posterior: Posterior,
    step_size: Hyperparameter,
    *,
    batch_size: int,
    replace: bool = True,
    rows: RowLawName = "random",
    memory_limit: int = MEMORY_LIMIT,
    temperature: Hyperparameter = 1.0,
    noise: NoiseLaw = "gaussian",
) -> Kernel:
    """Langevin dynamics with a table of gradients (Dubey et al. 2016): θ' = θ − h g + √(2hT) ξ.

    g of `gradients.saga`. Targets exp(−V/T) with a bias of order h: that of `ld`; the heat of minibatches is
    of order h², for the table is young. b evaluations a step and n at the start; memory of n
    numbers per linear predictor, or of n positions. For linear models, where it costs what `sgld` does; for
    networks the table is out of reach. Arguments as in `dynamics.langevin` and `gradients.saga`.

    Example:
        >>> import ewsg_jax as ewsg
        >>> kernel = ewsg.saga_ld(ewsg.models.logistic_regression(), 1e-3, batch_size=10)
    """
    return kernel(
        dynamics.langevin(step_size, temperature=temperature, noise=noise),
        gradients.saga(posterior, batch_size=batch_size, replace=replace, rows=rows, memory_limit=memory_limit),
    )


def cv_ld(
    posterior: Posterior,
    step_size: Hyperparameter,
    *,
    batch_size: int,
    center: Position | None = None,
    replace: bool = True,
    rows: RowLawName = "random",
    temperature: Hyperparameter = 1.0,
    noise: NoiseLaw = "gaussian",
) -> Kernel:
    """Langevin dynamics with a control variate (Chatterji et al. 2018): θ' = θ − h g + √(2hT) ξ.

    g of `gradients.control_variate`. Targets exp(−V/T) with a bias of order h: that of `ld`, and the heat
    h·Cov(g)/2 of minibatches, small where the posterior is narrow around the centre. 2b evaluations a step and n
    at the start, beside what it takes to find the centre (`find_mode`); memory of two positions for all chains.
    For many data and one mode; not where the posterior is wide or has several. Arguments as in `dynamics.langevin`
    and `gradients.control_variate`.

    Example:
        >>> import ewsg_jax as ewsg
        >>> kernel = ewsg.cv_ld(ewsg.models.logistic_regression(), 1e-3, batch_size=10)
    """
    return kernel(
        dynamics.langevin(step_size, temperature=temperature, noise=noise),
        gradients.control_variate(posterior, batch_size=batch_size, center=center, replace=replace, rows=rows),
    )


def cv_uld(
    posterior: Posterior,
    step_size: Hyperparameter,
    *,
    batch_size: int,
    friction: Hyperparameter = 2.0,
    inverse_mass: float = 1.0,
    center: Position | None = None,
    replace: bool = True,
    rows: RowLawName = "random",
    temperature: Hyperparameter = 1.0,
) -> Kernel:
    """Underdamped Langevin, the exact step for a frozen gradient, with a control variate (Chatterji et al. 2018).

    Update as in `dynamics.exact`, g of `gradients.control_variate`; published with friction 2 and an inverse mass
    of one over the largest curvature. Targets exp(−V/T) with a bias of order h, a part of it from the minibatch,
    small where the posterior is narrow around the centre. 2b evaluations a step and n at the start, beside what it
    takes to find the centre (`find_mode`); memory of two positions for all chains. When to use it: as `cv_ld`, for
    posteriors of very different scales in different directions. Arguments as in `dynamics.exact` and
    `gradients.control_variate`.

    Example:
        >>> import ewsg_jax as ewsg
        >>> kernel = ewsg.cv_uld(ewsg.models.logistic_regression(), 1e-1, batch_size=10, inverse_mass=1e-2)
    """
    return kernel(
        dynamics.exact(step_size, friction=friction, inverse_mass=inverse_mass, temperature=temperature),
        gradients.control_variate(posterior, batch_size=batch_size, center=center, replace=replace, rows=rows),
    )


def svrg_hmc(
    posterior: Posterior,
    step_size: Hyperparameter,
    *,
    friction: Hyperparameter,
    batch_size: int,
    refresh_every: Period = None,
    option: Literal["I", "II"] = "II",
    replace: bool = True,
    rows: RowLawName = "random",
    temperature: Hyperparameter = 1.0,
    noise: NoiseLaw = "gaussian",
) -> Kernel:
    """Underdamped Langevin, semi-implicit, with anchored gradients (SVRG-HMC, Li et al. 2019, Algorithm 1).

    Update as in `dynamics.semi_implicit`, g of `gradients.svrg`. Targets exp(−(V + ‖p‖²/2)/T) with a bias of order
    h, which on a quadratic falls on the momentum. 2b evaluations a step and n every K steps; memory of two
    positions. When to use it: as `svrg_ld`; `svrg2nd_hmc` costs the same and has the smaller bias. Arguments as in
    `dynamics.semi_implicit` and `gradients.svrg`.

    Example:
        >>> import ewsg_jax as ewsg
        >>> kernel = ewsg.svrg_hmc(ewsg.models.logistic_regression(), 1e-2, friction=1.0, batch_size=10)
    """
    return kernel(
        dynamics.semi_implicit(step_size, friction=friction, temperature=temperature, noise=noise),
        gradients.svrg(
            posterior,
            batch_size=batch_size,
            refresh_every=refresh_every,
            option=option,
            replace=replace,
            rows=rows,
        ),
    )


def saga_hmc(
    posterior: Posterior,
    step_size: Hyperparameter,
    *,
    friction: Hyperparameter,
    batch_size: int,
    replace: bool = True,
    rows: RowLawName = "random",
    memory_limit: int = MEMORY_LIMIT,
    temperature: Hyperparameter = 1.0,
    noise: NoiseLaw = "gaussian",
) -> Kernel:
    """Underdamped Langevin, semi-implicit, with a table of gradients (SAGA-HMC, Li et al. 2019, Algorithm 2).

    Update as in `dynamics.semi_implicit`, g of `gradients.saga`. Targets exp(−(V + ‖p‖²/2)/T) with a bias of order
    h, which on a quadratic falls on the momentum. b evaluations a step and n at the start; memory of n numbers per
    linear predictor, or of n positions. When to use it: as `saga_ld`; `saga2nd_hmc` costs the same and has the
    smaller bias. Arguments as in `dynamics.semi_implicit` and `gradients.saga`.

    Example:
        >>> import ewsg_jax as ewsg
        >>> kernel = ewsg.saga_hmc(ewsg.models.logistic_regression(), 1e-2, friction=1.0, batch_size=10)
    """
    return kernel(
        dynamics.semi_implicit(step_size, friction=friction, temperature=temperature, noise=noise),
        gradients.saga(posterior, batch_size=batch_size, replace=replace, rows=rows, memory_limit=memory_limit),
    )


def svrg2nd_hmc(
    posterior: Posterior,
    step_size: Hyperparameter,
    *,
    friction: Hyperparameter,
    batch_size: int,
    refresh_every: Period = None,
    option: Literal["I", "II"] = "II",
    replace: bool = True,
    rows: RowLawName = "random",
    temperature: Hyperparameter = 1.0,
) -> Kernel:
    """Underdamped Langevin, symmetric splitting, with anchored gradients (SVRG2nd-HMC, Li et al. 2019, eqs. 12–18).

    Update as in `dynamics.splitting`, g of `gradients.svrg`, anchored where the splitting takes its gradient.
    Targets exp(−(V + ‖p‖²/2)/T) with a bias of order h² at fixed K: the distance to the anchor, and with it the
    minibatch's part, shrinks with h too. 2b evaluations a step and n every K steps; memory of two positions. When
    to use it: the first to try where passes over the data can be afforded. Arguments as in `dynamics.splitting` and
    `gradients.svrg`.

    Example:
        >>> import ewsg_jax as ewsg
        >>> kernel = ewsg.svrg2nd_hmc(ewsg.models.logistic_regression(), 1e-2, friction=1.0, batch_size=10)
    """
    return kernel(
        dynamics.splitting(step_size, friction=friction, temperature=temperature),
        gradients.svrg(
            posterior,
            batch_size=batch_size,
            refresh_every=refresh_every,
            option=option,
            replace=replace,
            rows=rows,
        ),
    )


def saga2nd_hmc(
    posterior: Posterior,
    step_size: Hyperparameter,
    *,
    friction: Hyperparameter,
    batch_size: int,
    replace: bool = True,
    rows: RowLawName = "random",
    memory_limit: int = MEMORY_LIMIT,
    temperature: Hyperparameter = 1.0,
) -> Kernel:
    """Underdamped Langevin, symmetric splitting, with a table of gradients (SAGA2nd-HMC, Li et al. 2019).

    Update as in `dynamics.splitting`, g of `gradients.saga`, its table filled where the splitting takes its
    gradient. Targets exp(−(V + ‖p‖²/2)/T) with a bias of order h² at fixed n/b: the age of the table, and with it
    the minibatch's part, shrinks with h too. b evaluations a step and n at the start; memory of n numbers per
    linear predictor, or of n positions. When to use it: the first to try for linear models. Arguments as in
    `dynamics.splitting` and `gradients.saga`.

    Example:
        >>> import ewsg_jax as ewsg
        >>> kernel = ewsg.saga2nd_hmc(ewsg.models.logistic_regression(), 1e-2, friction=1.0, batch_size=10)
    """
    return kernel(
        dynamics.splitting(step_size, friction=friction, temperature=temperature),
        gradients.saga(posterior, batch_size=batch_size, replace=replace, rows=rows, memory_limit=memory_limit),
    )
