"""A run's draws as one array, and names of its coordinates."""

import itertools
import math
from collections.abc import Sequence

import numpy as np

from ewsg_jax._base import _check
from ewsg_jax.sampling.samples import Samples, named

Names = Sequence[str] | None


def coordinates(samples: Samples, names: Names = None) -> tuple[np.ndarray, tuple[str, ...]]:
    """Return the draws that count as float64, (chain, draw, coordinate), and coordinates' names.

    Chains that diverged are left out; where all did, the first axis has the length 0.

    Args:
        samples: what `ewsg_jax.sample` returned.
        names: a name for each coordinate. Default: its place in the tree, such as `w[3]`.

    Raises:
        TypeError: `samples` is none.
        ValueError: there is another number of names than of coordinates.
    """
    _check.instance("samples", samples, Samples, "what ewsg_jax.sample returns, runs[i] of a stack")
    single = "position" if samples.keeps_positions else "draws"
    return flattened(named(samples.finite_draws, single), names)


def flattened(
    leaves: dict[str, np.ndarray], names: Names = None
) -> tuple[np.ndarray, tuple[str, ...]]:
    """Return the same of named arrays (chain, draw, …).

    Raises:
        ValueError: as `coordinates`.
    """
    parts, own = [], []
    for leaf_name, leaf in leaves.items():
        shape = leaf.shape[2:]
        parts.append(np.asarray(leaf, np.float64).reshape(*leaf.shape[:2], math.prod(shape)))
        places = itertools.product(*map(range, shape))
        own += [
            f"{leaf_name}[{','.join(map(str, place))}]" if shape else leaf_name for place in places
        ]
    if names is not None and len(names) != len(own):
        raise ValueError(f"names must be {len(own)}, one for each coordinate; got {len(names)}")
    return np.concatenate(parts, axis=2), tuple(own if names is None else names)


def with_digits(value: float | np.ndarray, sd: float | np.ndarray) -> str:
    """Return a number in four digits, or enough to see a tenth of its standard deviation."""
    with np.errstate(all="ignore"):
        wanted = np.ceil(np.log10(np.abs(np.float64(value)) / np.float64(sd))) + 2
    return f"{value:.{int(np.clip(wanted, 4, 12)) if np.isfinite(wanted) else 4}g}"


CONVERGED = 1.1
"""R-hat above which chains are not of one law."""
