"""Underdamped Langevin dynamics with weighted minibatches and a friction that takes up their heat."""

from typing import Literal

from ewsg_jax import _check, dynamics, gradients
from ewsg_jax._kernel import Kernel, kernel
from ewsg_jax._random import NoiseLaw
from ewsg_jax._types import Hyperparameter, PyTree
from ewsg_jax.gradients._covariance import Structure
from ewsg_jax.gradients._period import Period, epoch
from ewsg_jax.methods._method import method
from ewsg_jax.posterior import Posterior


@method(
    title="EWSG with a friction matrix",
    dynamics=("noise_corrected",),
    estimator="exponentially_weighted(covariance_tracking)",
    bias="h",
    evaluations="2 (M+1) b, and n every K steps",
    memory="d², 2d or (r+2)d",
    source="Li, Wang, Zha & Tao, Algorithm 2",
    hazard="counts the friction twice: too narrow; diverges where hΓ ≥ 2",
    integrators=("semi_implicit", "euler"),
    example={"friction": 2.0, "batch_size": 2, "chain_length": 2, "refresh_every": 3},
)
def ewsg_vr(
    posterior: Posterior,
    step_size: Hyperparameter,
    *,
    friction: Hyperparameter,
    batch_size: int,
    chain_length: int = 1,
    refresh_every: Period = None,
    structure: Structure = "dense",
    rank: int = 10,
    frozen_noise: str | PyTree = "momentum",
    integrator: Literal["semi_implicit", "euler"] = "semi_implicit",
    replace: bool = True,
    temperature: Hyperparameter = 1.0,
    noise: NoiseLaw = "gaussian",
) -> Kernel:
    """EWSG with a friction matrix from a tracked covariance (EWSG-VR: Li, Wang, Zha & Tao, Algorithm 2, mended).

    Update as in `dynamics.noise_corrected`, which the paper adds to `integrator="euler"`; g of
    `gradients.exponentially_weighted` around `gradients.covariance_tracking`, reset every ⌈n/(b(M+1))⌉ steps, the
    paper's L = 1. Targets exp(−(V + ‖p‖²/2)/T) with a bias of order h: the weights and the friction both damp the
    minibatch's heat, so it is taken away twice and the chain is too cold; `nc_sghmc` takes it away once. 2b(M+1)
    evaluations a step and n at each reset; memory as `nc_sghmc`. When to use it: to reproduce the paper. Arguments
    as in `dynamics.noise_corrected`, `gradients.covariance_tracking` and `gradients.exponentially_weighted`.

    Example:
        >>> import ewsg_jax as ewsg
        >>> kernel = ewsg.ewsg_vr(ewsg.models.gaussian_location(), 1e-2, friction=10.0, batch_size=1)
    """
    _check.integer("batch_size", batch_size)
    _check.integer("chain_length", chain_length, minimum=0)
    every = epoch(batch_size * (chain_length + 1)) if refresh_every is None else refresh_every
    return kernel(
        dynamics.noise_corrected(
            step_size, friction=friction, temperature=temperature, noise=noise, integrator=integrator
        ),
        gradients.exponentially_weighted(
            gradients.covariance_tracking(
                posterior,
                batch_size=batch_size,
                refresh_every=every,
                structure=structure,
                rank=rank,
                replace=replace,
            ),
            chain_length=chain_length,
            frozen_noise=frozen_noise,
        ),
    )
