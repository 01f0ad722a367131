"""The table of methods, which the tests and the documentation are generated from."""

from collections.abc import Callable
from typing import NamedTuple

from ewsg_jax._kernel import Kernel
from ewsg_jax.methods._adaptive import psgld, sgnht, sgrld
from ewsg_jax.methods._flymc import flymc
from ewsg_jax.methods._metropolis import random_walk_metropolis
from ewsg_jax.methods._noise_corrected import ewsg_vr, nc_sghmc
from ewsg_jax.methods._plain import ld, sghmc, sgld, uld
from ewsg_jax.methods._quasi_newton import hamcmc
from ewsg_jax.methods._stratified import cp_sghmc
from ewsg_jax.methods._underdamped import INTEGRATORS
from ewsg_jax.methods._variance_reduced import (
    cv_ld,
    cv_uld,
    saga2nd_hmc,
    saga_hmc,
    saga_ld,
    svrg2nd_hmc,
    svrg_hmc,
    svrg_ld,
)
from ewsg_jax.methods._weighted import ewsg, ewsg_ld


class Method(NamedTuple):
    """A row of the table of methods.

    Attributes:
        build: `build(posterior, step_size, **options) -> Kernel`.
        title: what it is called.
        dynamics: the names of its dynamics; none for the exact methods, which are kernels of their own.
        estimator: its estimator, or "none".
        bias: the order in the step size of its distance to the target.
        evaluations: of ∇Vᵢ in a step.
        memory: numbers that the estimator keeps.
        source: where it was published.
        integrators: what its option `integrator` takes, where it has one.
    """

    build: Callable[..., Kernel]
    title: str
    dynamics: tuple[str, ...]
    estimator: str
    bias: str
    evaluations: str
    memory: str
    source: str
    integrators: tuple[str, ...] = ()


_EWSG = "Li, Wang, Zha & Tao"
_LI = "Li, Zhang, Cheng, Zhu & Li 2019"
_TABLE = "n per predictor, or nd"

METHODS: dict[str, Method] = {
    "ld": Method(ld, "Langevin dynamics", ("langevin",), "full", "h", "n", "none", "Roberts & Tweedie 1996"),
    "uld": Method(
        uld,
        "Underdamped Langevin dynamics",
        INTEGRATORS,
        "full",
        "h or h²",
        "n",
        "none",
        "Cheng et al. 2018",
        INTEGRATORS,
    ),
    "sgld": Method(
        sgld,
        "Stochastic-gradient Langevin dynamics",
        ("langevin",),
        "uniform",
        "h",
        "b",
        "none",
        "Welling & Teh 2011",
    ),
    "sghmc": Method(
        sghmc,
        "Stochastic-gradient HMC",
        INTEGRATORS,
        "uniform",
        "h",
        "b",
        "none",
        "Chen, Fox & Guestrin 2014",
        INTEGRATORS,
    ),
    "ewsg": Method(
        ewsg,
        "Exponentially weighted stochastic gradients",
        INTEGRATORS,
        "exponentially_weighted(uniform)",
        "h",
        "(M+1) b",
        "none",
        f"{_EWSG}, Algorithm 1",
        INTEGRATORS,
    ),
    "ewsg_ld": Method(
        ewsg_ld,
        "The same on Langevin dynamics",
        ("langevin",),
        "exponentially_weighted(uniform)",
        "h",
        "(M+1) b",
        "none",
        f"{_EWSG}, Appendix E",
    ),
    "ewsg_vr": Method(
        ewsg_vr,
        "EWSG with a friction matrix",
        ("noise_corrected",),
        "exponentially_weighted(covariance_tracking)",
        "h",
        "2 (M+1) b, and n every K steps",
        "d², 2d or (r+2)d",
        f"{_EWSG}, Algorithm 2",
        ("semi_implicit", "euler"),
    ),
    "nc_sghmc": Method(
        nc_sghmc,
        "Stochastic-gradient HMC with a friction matrix",
        ("noise_corrected",),
        "covariance_tracking",
        "h",
        "2b, and n every K steps",
        "d², 2d or (r+2)d",
        f"the friction of {_EWSG}, Algorithm 2, alone",
        ("semi_implicit", "euler"),
    ),
    "sgnht": Method(
        sgnht,
        "Stochastic-gradient HMC with a thermostat",
        ("thermostat",),
        "uniform",
        "h",
        "b",
        "none",
        "Ding et al. 2014",
    ),
    "psgld": Method(
        psgld,
        "Langevin with a running preconditioner",
        ("preconditioned",),
        "uniform",
        "not removed by h, or h with the correction",
        "b, or 2b with the correction",
        "d or 2d, in the dynamics",
        "Li, Chen, Carlson & Carin 2016",
    ),
    "sgrld": Method(
        sgrld,
        "Langevin in a metric of the user's",
        ("riemannian",),
        "uniform",
        "h",
        "b",
        "none",
        "Patterson & Teh 2013",
    ),
    "hamcmc": Method(
        hamcmc,
        "Langevin with a quasi-Newton matrix",
        ("quasi_newton",),
        "uniform",
        "h on a Gaussian",
        "2b",
        "3d per pair, in the dynamics",
        "Şimşekli et al. 2016",
    ),
    "cp_sghmc": Method(
        cp_sghmc,
        "Stochastic-gradient HMC with stratified rows",
        INTEGRATORS,
        "stratified",
        "h",
        "b",
        "n for all chains",
        "Fu & Zhang 2017",
        INTEGRATORS,
    ),
    "svrg_ld": Method(
        svrg_ld,
        "Langevin with anchored gradients",
        ("langevin",),
        "svrg",
        "h",
        "2b, and n every K steps",
        "2d",
        "Dubey et al. 2016",
    ),
    "saga_ld": Method(
        saga_ld,
        "Langevin with a table of gradients",
        ("langevin",),
        "saga",
        "h",
        "b",
        _TABLE,
        "Dubey et al. 2016",
    ),
    "cv_ld": Method(
        cv_ld,
        "Langevin with a control variate",
        ("langevin",),
        "control_variate",
        "h",
        "2b",
        "2d for all chains",
        "Chatterji et al. 2018",
    ),
    "cv_uld": Method(
        cv_uld,
        "Underdamped Langevin with a control variate",
        ("exact",),
        "control_variate",
        "h",
        "2b",
        "2d for all chains",
        "Chatterji et al. 2018",
    ),
    "svrg_hmc": Method(
        svrg_hmc,
        "Underdamped with anchored gradients",
        ("semi_implicit",),
        "svrg",
        "h",
        "2b, and n every K steps",
        "2d",
        f"{_LI}, Algorithm 1",
    ),
    "saga_hmc": Method(
        saga_hmc,
        "Underdamped with a table of gradients",
        ("semi_implicit",),
        "saga",
        "h",
        "b",
        _TABLE,
        f"{_LI}, Algorithm 2",
    ),
    "svrg2nd_hmc": Method(
        svrg2nd_hmc,
        "The splitting with anchored gradients",
        ("splitting",),
        "svrg",
        "h²",
        "2b, and n every K steps",
        "2d",
        f"{_LI}, Algorithm 3",
    ),
    "saga2nd_hmc": Method(
        saga2nd_hmc,
        "The splitting with a table of gradients",
        ("splitting",),
        "saga",
        "h²",
        "b",
        _TABLE,
        f"{_LI}, Algorithm 4",
    ),
    "random_walk_metropolis": Method(
        random_walk_metropolis,
        "Random-walk Metropolis",
        (),
        "none",
        "none",
        "n of Vᵢ",
        "none",
        "Metropolis et al. 1953",
    ),
    "flymc": Method(
        flymc,
        "Firefly Monte Carlo",
        (),
        "none",
        "none",
        "bright data and nq, of Vᵢ",
        "bright data; for all chains 2d and the bound's sums",
        "Maclaurin & Adams 2015",
    ),
}
"""Every named method; the documentation's tables and the contract tests are made from it."""
