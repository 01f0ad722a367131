"""How far an error that all directions have moves what they share, as the scale of a hierarchy.

A scheme or a minibatch that adds ε M⁻¹ to the covariance of what moves fast, M⁻¹ the metric, gives
what moves slowly another density: E over the fast ones of ∇V is off by ½ ∇tr(M⁻¹∇²V) ε, so that the
density is multiplied by exp(−(ε/2) tr(M⁻¹∇²V(θ))). Each of J effects of a scale adds a term to the
trace: for the semi-implicit scheme, with ε = h²/4, the factor is that of ∏ⱼ(1 − h²λⱼ/4)^½ to first
order. Draws weighted with it have their means moved by −(ε/2) Cov(θ, tr), and their variances by
−(ε/2) Cov((θ − mean)², tr).
"""

from typing import NamedTuple

import numpy as np

from ewsg_jax.answers.forecast import stability
from ewsg_jax.answers.plan import settings
from ewsg_jax.answers.plan.whitening import Whitening
from ewsg_jax.base.typing import Data
from ewsg_jax.dynamics._mass import Mass
from ewsg_jax.posterior.posterior import Posterior
from ewsg_jax.rows._view import CHUNK_SIZE, num_rows
from ewsg_jax.vectors.potential import PotentialSpec
from ewsg_jax.vectors.some_rows import VECTORISED_POSITIONS


class SharedShift(NamedTuple):
    """What an error ε of every variance, in units of the metric, does to the worst coordinate.

    Attributes:
        mean: the error of its mean over ε, in sds.
        sd: the relative error of its standard deviation over ε, its own error left out.
    """

    mean: float
    sd: float


def measure_shared_shift(
    posterior: Posterior, whitening: Whitening, places: np.ndarray, data: Data
) -> SharedShift:
    """Return how far errors of all directions move what they share, to first order in the error.

    Args:
        posterior: the target.
        whitening: its covariance is the metric.
        places: draws less the center, shape (places, d).
        data: all n rows.
    """
    allowed = settings.TRACED_ROWS / num_rows(data)
    count = int(np.clip(allowed, settings.NUM_CURVATURE_PLACES, len(places)))
    together = VECTORISED_POSITIONS
    few = places[:: max(1, len(places) // count)][:count]
    few = few[: max(1, len(few) // together) * together]
    potential = PotentialSpec(posterior, whitening.layout, CHUNK_SIZE, False)
    mass = Mass(given=whitening.inverse_mass, factor=whitening.factor)
    traces = np.concatenate(
        [
            stability.traces(potential, mass, whitening.center, few[k : k + together], data)
            for k in range(0, len(few), together)
        ]
    )
    standardised = (few - few.mean(0)) / whitening.sd
    off = traces - traces.mean()
    of_means = np.abs(off @ standardised) / len(few) / 2
    of_sds = np.abs(off @ (standardised**2 - (standardised**2).mean(0))) / len(few) / 4
    return SharedShift(float(of_means.max()), float(of_sds.max()))
