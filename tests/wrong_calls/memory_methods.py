"""Wrong calls of the dynamics and the methods made of estimators with a memory."""

# The arguments are wrong on purpose.
# pyright: reportArgumentType=false, reportCallIssue=false

import functools

import numpy as np

import ewsg_jax as ewsg
from tests.wrong_calls.table import (
    DATA,
    FROZEN,
    INTEGRATORS,
    KEY,
    MODEL,
    NAN,
    POINT,
    POSITIVE,
    ROW_LAWS,
    STRATA,
    WHOLE,
    T,
    V,
    of,
)

CORRECTED = ewsg.dynamics.noise_corrected(0.1, friction=1.0)
of(
    "dynamics.noise_corrected",
    (
        "step size",
        V,
        "step_size",
        "got 0",
        POSITIVE,
        lambda: ewsg.dynamics.noise_corrected(0, friction=1.0),
    ),
    (
        "friction",
        V,
        "friction",
        "got -1",
        POSITIVE,
        lambda: ewsg.dynamics.noise_corrected(0.1, friction=-1.0),
    ),
    (
        "integrator",
        V,
        "integrator",
        "'splitting' (str)",
        "one of 'semi_implicit', 'euler'",
        lambda: ewsg.dynamics.noise_corrected(0.1, friction=1.0, integrator="splitting"),
    ),
    (
        "no covariance",
        V,
        "estimator",
        "one that does not",
        "covariance_tracking",
        lambda: ewsg.kernel(CORRECTED, ewsg.gradients.uniform(MODEL, batch_size=1)),
    ),
)

A_COVARIANCE = "a symmetric matrix (d, d) without negative eigenvalues, its diagonal (d,)"
for name in ("noise_corrected", "noise_reduced"):
    wrong = functools.partial(getattr(ewsg.dynamics, name), 0.1, friction=1.0)
    of(
        f"dynamics.{name}",
        (
            "a name",
            T,
            "covariance",
            "'kept' (str)",
            A_COVARIANCE,
            lambda w=wrong: w(covariance="kept"),
        ),
        (
            "no square",
            V,
            "covariance",
            "(2, 3)",
            A_COVARIANCE,
            lambda w=wrong: w(covariance=np.ones((2, 3))),
        ),
        (
            "complex",
            V,
            "covariance",
            "complex",
            A_COVARIANCE,
            lambda w=wrong: w(covariance=np.ones(2) * 1j),
        ),
        (
            "NaN",
            V,
            "covariance",
            "not finite",
            A_COVARIANCE,
            lambda w=wrong: w(covariance=np.array([1.0, NAN])),
        ),
        (
            "not symmetric",
            V,
            "covariance",
            "not symmetric",
            A_COVARIANCE,
            lambda w=wrong: w(covariance=np.array([[1.0, 0.5], [0.0, 1.0]])),
        ),
        (
            "negative",
            V,
            "covariance",
            "the eigenvalue -1",
            A_COVARIANCE,
            lambda w=wrong: w(covariance=np.diag([1.0, -1.0])),
        ),
        (
            "another size",
            V,
            "covariance",
            "one over 3",
            "the d = 2 parameters",
            lambda w=wrong: ewsg.kernel(
                w(covariance=np.ones(3)), ewsg.gradients.uniform(MODEL, batch_size=1)
            ).init(KEY, POINT, DATA),
        ),
    )
of(
    "dynamics.noise_reduced",
    (
        "step size",
        V,
        "step_size",
        "got 0",
        POSITIVE,
        lambda: ewsg.dynamics.noise_reduced(0, friction=1.0),
    ),
    (
        "weights",
        V,
        "dynamics",
        "noise_reduced(",
        "a weight for an exponentially weighted estimator",
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
        name,
        (
            "step size",
            V,
            "step_size",
            "got -0.1",
            POSITIVE,
            lambda wrongly=wrongly: wrongly(step_size=-0.1),
        ),
        (
            "batch",
            T,
            "batch_size",
            "'2' (str)",
            WHOLE,
            lambda wrongly=wrongly: wrongly(batch_size="2"),
        ),
        (
            "temperature",
            V,
            "temperature",
            "got 0",
            POSITIVE,
            lambda wrongly=wrongly: wrongly(temperature=0),
        ),
        ("rows", V, "rows", "'all' (str)", ROW_LAWS, lambda wrongly=wrongly: wrongly(rows="all")),
    )
of(
    "cp_sghmc",
    (
        "integrator",
        V,
        "integrator",
        "'leapfrog' (str)",
        INTEGRATORS,
        lambda: ewsg.cp_sghmc(
            MODEL, 0.1, friction=1.0, labels="c", integrator="leapfrog", **STRATA
        ),
    ),
    (
        "friction",
        V,
        "friction",
        "got 0",
        POSITIVE,
        lambda: ewsg.cp_sghmc(MODEL, 0.1, friction=0, labels="c", **STRATA),
    ),
)
of(
    "nc_sghmc",
    (
        "batch",
        V,
        "batch_size",
        "got 0",
        WHOLE,
        lambda: ewsg.nc_sghmc(MODEL, 0.1, friction=1.0, batch_size=0),
    ),
    (
        "friction",
        T,
        "friction",
        "None",
        POSITIVE,
        lambda: ewsg.nc_sghmc(MODEL, 0.1, friction=None, batch_size=1),
    ),
    (
        "covariance",
        V,
        "covariance",
        "'given' (str)",
        "one of 'tracked', 'kept'",
        lambda: ewsg.nc_sghmc(MODEL, 0.1, friction=1.0, batch_size=1, covariance="given"),
    ),
    (
        "balance",
        V,
        "balance",
        "'both' (str)",
        "one of 'friction', 'noise'",
        lambda: ewsg.nc_sghmc(MODEL, 0.1, friction=1.0, batch_size=1, balance="both"),
    ),
    (
        "resets of what is given",
        V,
        "refresh_every",
        "refresh_every=5 (int) and structure='dense'",
        "left out where covariance is given",
        lambda: ewsg.nc_sghmc(
            MODEL, 0.1, friction=1.0, batch_size=1, covariance=np.ones(2), refresh_every=5
        ),
    ),
)
of(
    "ewsg_vr",
    (
        "batch",
        V,
        "batch_size",
        "got 0",
        WHOLE,
        lambda: ewsg.ewsg_vr(MODEL, 0.1, friction=1.0, batch_size=0),
    ),
    (
        "visits",
        T,
        "chain_length",
        "inf (float)",
        "a whole number",
        lambda: ewsg.ewsg_vr(MODEL, 0.1, friction=1.0, batch_size=1, chain_length=float("inf")),
    ),
    (
        "x",
        V,
        "frozen_noise",
        "'momenta' (str)",
        FROZEN,
        lambda: ewsg.ewsg_vr(MODEL, 0.1, friction=1.0, batch_size=1, frozen_noise="momenta"),
    ),
)
