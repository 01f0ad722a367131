"""Langevin dynamics: with all data, and with uniform minibatches."""

from ewsg_jax import dynamics, gradients
from ewsg_jax.base.rng import NoiseKind
from ewsg_jax.base.typing import Hyperparameter, P
from ewsg_jax.dynamics._mass import InverseMass
from ewsg_jax.kernels.pair import kernel
from ewsg_jax.kernels.protocol import Kernel
from ewsg_jax.kernels.record import method
from ewsg_jax.posterior.posterior import Posterior
from ewsg_jax.rows._named import Rows
from ewsg_jax.rows._view import CHUNK_SIZE


@method(
    title="Langevin dynamics",
    dynamics=("langevin",),
    estimator="full",
    bias="h",
    evaluations="n",
    memory="none",
    source="Roberts & Tweedie 1996",
    hazard="a pass buys one step",
    like=(),
)
def ld(
    posterior: Posterior[P],
    step_size: Hyperparameter,
    *,
    temperature: Hyperparameter = 1.0,
    inverse_mass: InverseMass = 1.0,
    noise: NoiseKind = "gaussian",
    chunk_size: int = CHUNK_SIZE,
) -> Kernel[P]:
    """Langevin dynamics with the full gradient (LD).

    Update: θ' = θ − h ∇V(θ) + √(2hT) ξ.
    Target: exp(−V/T).
    When: small data, and as the reference for `sgld`.

    Args:
        posterior: the target: an `ewsg_jax.Posterior`, or one of `ewsg_jax.models`.
        step_size: h > 0, multiplies ∇V of the whole sum; a number, a traced scalar or a schedule
            h(step).
        temperature: T > 0; a number, a traced scalar or a schedule. Default 1: the posterior
            itself.
        inverse_mass: C > 0: number, pytree, matrix or `LowRank`, as in
            `ewsg_jax.dynamics.langevin`. Default 1.
        noise: `"gaussian"` (default) or, cheaper, `"moment_matched"` (256 values, seven moments of
            a Gaussian) or `"rademacher"` (±1), of the same weak order.
        chunk_size: rows that a sum over all data takes at once, which bounds its memory. Default
            4,096.

    Raises:
        TypeError, ValueError: an argument has the wrong type or value.

    Example: for about 1,000 rows of unit scale; with more rows, take shorter steps.
        >>> import ewsg_jax as ewsg
        >>> kernel = ewsg.ld(ewsg.models.logistic_regression(), step_size=1e-3)
    """
    return kernel(
        dynamics.langevin(
            step_size, temperature=temperature, noise=noise, inverse_mass=inverse_mass
        ),
        gradients.full(posterior, chunk_size=chunk_size),
    )


@method(
    title="Stochastic-gradient Langevin dynamics",
    dynamics=("langevin",),
    estimator="uniform",
    bias="h",
    evaluations="b",
    memory="none",
    source="Welling & Teh 2011",
    hazard="gradient noise h·Cov/2: far too wide on tall data at usual steps",
    example={"batch_size": 2},
    like=(ld,),
)
def sgld(
    posterior: Posterior[P],
    step_size: Hyperparameter,
    *,
    batch_size: int,
    replace: bool = True,
    rows: Rows = "random",
    temperature: Hyperparameter = 1.0,
    inverse_mass: InverseMass = 1.0,
    noise: NoiseKind = "gaussian",
) -> Kernel[P]:
    """Stochastic-gradient Langevin dynamics (SGLD): `ld` with b uniform rows a step.

    Update: θ' = θ − h g + √(2hT) ξ with g = ∇V₀(θ) + (n/b) Σ_{i∈I} ∇Vᵢ(θ).
    Target: exp(−V/T).
    Bias: The minibatch adds h·Cov(g)/2 to the temperature.
    When: a run of few data passes, and as a baseline. On tall data, take shorter steps or an
        estimator of less variance (`cv_ld`, `svrg_ld`, `saga_ld`).
    Source: Equation 4.

    Args:
        batch_size: b, the number of rows in a batch.
        replace: draw rows with replacement (default), or (False) a uniform subset.
        rows: `"random"` (default), or another sampling scheme of `ewsg_jax.gradients.uniform`,
            which needs `replace=True`.

    Raises:
        TypeError, ValueError: an argument has the wrong type or value; at `init`, b > n although
            no row may come twice.

    Example: for about 1,000 rows of unit scale; with more rows, take shorter steps.
        >>> import ewsg_jax as ewsg
        >>> kernel = ewsg.sgld(ewsg.models.logistic_regression(), 1e-5, batch_size=50)
    """
    return kernel(
        dynamics.langevin(
            step_size, temperature=temperature, noise=noise, inverse_mass=inverse_mass
        ),
        gradients.uniform(posterior, batch_size=batch_size, replace=replace, rows=rows),
    )
