"""Wrong calls of the dynamics and the methods made of estimators with a memory."""

# The arguments are wrong on purpose.
# pyright: reportArgumentType=false, reportCallIssue=false

import functools

import numpy as np

import ewsg_jax as ewsg
from tests.wrong_calls.table import (
    DATA,
    FROZEN,
    KEY,
    MODEL,
    NAN,
    POINT,
    T,
    V,
    of,
    row,
)

CORRECTED = ewsg.dynamics.noise_corrected(0.1, friction=1.0)
of(
    "dynamics.noise_corrected",
    row(
        V,
        "integrator | 'splitting' (str) | one of 'semi_implicit', 'euler'",
        lambda: ewsg.dynamics.noise_corrected(0.1, friction=1.0, integrator="splitting"),
    ),
    row(
        V,
        "estimator | one that does not | covariance_tracking",
        lambda: ewsg.kernel(CORRECTED, ewsg.gradients.uniform(MODEL, batch_size=1)),
    ),
)

A_COVARIANCE = "a symmetric matrix (d, d) without negative eigenvalues, its diagonal (d,)"
for name in ("noise_corrected", "noise_reduced"):
    wrong = functools.partial(getattr(ewsg.dynamics, name), 0.1, friction=1.0)
    of(
        f"dynamics.{name}",
        row(T, f"covariance | 'kept' (str) | {A_COVARIANCE}", lambda w=wrong: w(covariance="kept")),
        row(
            V,
            f"covariance | (2, 3) | {A_COVARIANCE}",
            lambda w=wrong: w(covariance=np.ones((2, 3))),
        ),
        row(
            V,
            f"covariance | complex | {A_COVARIANCE}",
            lambda w=wrong: w(covariance=np.ones(2) * 1j),
        ),
        row(
            V,
            f"covariance | not finite | {A_COVARIANCE}",
            lambda w=wrong: w(covariance=np.array([1.0, NAN])),
        ),
        row(
            V,
            f"covariance | not symmetric | {A_COVARIANCE}",
            lambda w=wrong: w(covariance=np.array([[1.0, 0.5], [0.0, 1.0]])),
        ),
        row(
            V,
            f"covariance | the eigenvalue -1 | {A_COVARIANCE}",
            lambda w=wrong: w(covariance=np.diag([1.0, -1.0])),
        ),
        row(
            V,
            "covariance | one over 3 | the d = 2 parameters",
            lambda w=wrong: ewsg.kernel(
                w(covariance=np.ones(3)), ewsg.gradients.uniform(MODEL, batch_size=1)
            ).init(KEY, POINT, DATA),
        ),
    )
of(
    "dynamics.noise_reduced",
    row(
        V,
        "dynamics | noise_reduced( | a weight for an exponentially weighted estimator",
        lambda: ewsg.kernel(
            ewsg.dynamics.noise_reduced(0.1, friction=1.0),
            ewsg.gradients.exponentially_weighted(
                ewsg.gradients.kept_covariance(MODEL, batch_size=1)
            ),
        ),
    ),
)

for name in (
    "svrg_ld",
    "saga_ld",
    "cv_ld",
    "cv_uld",
    "svrg_hmc",
    "saga_hmc",
    "svrg2nd_hmc",
    "saga2nd_hmc",
):
    method = getattr(ewsg, name)
    more = {"friction": 1.0} if name.endswith("hmc") else {}

    def wrongly(method=method, more=more, **changes):
        """Build it with something wrong."""
        step_size = changes.pop("step_size", 0.1)
        return method(MODEL, step_size, **({"batch_size": 2} | more | changes))


of(
    "nc_sghmc",
    row(
        V,
        "covariance | 'given' (str) | one of 'tracked', 'kept'",
        lambda: ewsg.nc_sghmc(MODEL, 0.1, friction=1.0, batch_size=1, covariance="given"),
    ),
    row(
        V,
        "balance | 'both' (str) | one of 'friction', 'noise'",
        lambda: ewsg.nc_sghmc(MODEL, 0.1, friction=1.0, batch_size=1, balance="both"),
    ),
    row(
        V,
        "refresh_every | refresh_every=5 (int) and structure='dense' | left out where covariance",
        lambda: ewsg.nc_sghmc(
            MODEL, 0.1, friction=1.0, batch_size=1, covariance=np.ones(2), refresh_every=5
        ),
    ),
)
of(
    "ewsg_vr",
    row(
        T,
        "chain_length | inf (float) | a whole number",
        lambda: ewsg.ewsg_vr(MODEL, 0.1, friction=1.0, batch_size=1, chain_length=float("inf")),
    ),
    row(
        V,
        f"frozen_noise | 'momenta' (str) | {FROZEN}",
        lambda: ewsg.ewsg_vr(MODEL, 0.1, friction=1.0, batch_size=1, frozen_noise="momenta"),
    ),
)
