"""The draws of a run as one array, with names of its coordinates."""

import numpy as np

from ewsg_jax.base import checks
from ewsg_jax.draws.coordinates import Names, flattened, named
from ewsg_jax.run.samples import Samples


def coordinates(samples: Samples, names: Names = None) -> tuple[np.ndarray, tuple[str, ...]]:
    """Return the draws that count as float64, (chain, draw, coordinate), and coordinates' names.

    Chains that diverged are left out; if all did, the first axis has length 0.

    Args:
        samples: what `ewsg_jax.sample` returned.
        names: a name for each coordinate. Default: its path in the pytree, such as `w[3]`.

    Raises:
        TypeError: `samples` is not what `ewsg_jax.sample` returns.
        ValueError: there is another number of names than of coordinates.
    """
    checks.instance("samples", samples, Samples, "what ewsg_jax.sample returns, runs[i] of a stack")
    single = "position" if samples.keeps_positions else "draws"
    return flattened(named(samples.finite_draws, single), names)
