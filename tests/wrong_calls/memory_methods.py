"""Wrong calls of the dynamics and the methods made of estimators with a memory."""

# The arguments are wrong on purpose.
# pyright: reportArgumentType=false, reportCallIssue=false

import functools

import numpy as np

import ewsg_jax as ewsg
from tests.wrong_calls.standard import Kind, refuses
from tests.wrong_calls.table import DATA, FROZEN, INF, KEY, MODEL, NAN, POINT, WRONG, T, V

CORRECTED = ewsg.dynamics.noise_corrected(0.1, friction=1.0)
WRONG["dynamics.noise_corrected"] |= {
    "V estimator | one that does not | covariance_tracking": lambda: ewsg.kernel(
        CORRECTED, ewsg.gradients.uniform(MODEL, batch_size=1)
    ),
}

A_COVARIANCE = Kind(
    "a symmetric matrix (d, d) without negative eigenvalues, its diagonal (d,)",
    (
        (T, "kept", "'kept' (str)"),
        (V, np.ones((2, 3)), "(2, 3)"),
        (V, np.ones(2) * 1j, "complex"),
        (V, np.array([1.0, NAN]), "not finite"),
        (V, np.array([[1.0, 0.5], [0.0, 1.0]]), "not symmetric"),
        (V, np.diag([1.0, -1.0]), "the eigenvalue -1"),
    ),
)
for build in (ewsg.dynamics.noise_corrected, ewsg.dynamics.noise_reduced):
    wrong = functools.partial(build, 0.1, friction=1.0)
    refuses(f"dynamics.{build.__name__}", wrong, covariance=A_COVARIANCE)
    WRONG[f"dynamics.{build.__name__}"] |= {
        "V covariance | one over 3 | the d = 2 parameters": lambda w=wrong: ewsg.kernel(
            w(covariance=np.ones(3)), ewsg.gradients.uniform(MODEL, batch_size=1)
        ).init(KEY, POINT, DATA),
    }
WRONG["dynamics.noise_reduced"] |= {
    "V dynamics | noise_reduced( | a weight for an exponentially weighted estimator": lambda: (
        ewsg.kernel(
            ewsg.dynamics.noise_reduced(0.1, friction=1.0),
            ewsg.gradients.exponentially_weighted(
                ewsg.gradients.kept_covariance(MODEL, batch_size=1)
            ),
        )
    ),
}


def corrected(**changes):
    """The noise-corrected method with something wrong."""
    return ewsg.nc_sghmc(MODEL, 0.1, friction=1.0, batch_size=1, **changes)


WRONG["nc_sghmc"] |= {
    "V covariance | 'given' (str) | one of 'tracked', 'periodic', 'kept'": lambda: corrected(
        covariance="given"
    ),
    "V balance | 'both' (str) | one of 'friction', 'noise'": lambda: corrected(balance="both"),
    "V refresh_every | refresh_every=5 (int) and structure='dense' | left out if": lambda: (
        corrected(covariance=np.ones(2), refresh_every=5)
    ),
}
WRONG["ewsg_vr"] |= {
    "T chain_length | inf (float) | a whole number": lambda: ewsg.ewsg_vr(
        MODEL, 0.1, friction=1.0, batch_size=1, chain_length=float("inf")
    ),
    "V num_proposals | num_proposals=1 (int) and chain_length=1 (int) | its other name": lambda: (
        ewsg.ewsg_vr(MODEL, 0.1, friction=1.0, batch_size=1, num_proposals=1, chain_length=1)
    ),
    f"V frozen_noise | 'momenta' (str) | {FROZEN}": lambda: ewsg.ewsg_vr(
        MODEL, 0.1, friction=1.0, batch_size=1, frozen_noise="momenta"
    ),
}


def exactly_weighted(batch_size):
    """Begin a chain of EWSG whose every batch is weighed."""
    kernel = ewsg.ewsg(MODEL, 0.1, friction=1.0, batch_size=batch_size, chain_length=INF)
    return kernel.init(KEY, POINT, DATA)


refuses(
    "ewsg",
    exactly_weighted,
    batch_size=Kind(
        "at most 100,000 are listed", ((V, 9, "batch_size = 9"), (V, 10_000, "about 10^7782"))
    ),
)
