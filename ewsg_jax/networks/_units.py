"""Inputs and observations in standard units: what a network of `networks.fit` reads and returns.

With the means m and standard deviations s of the rows the network reads (x − m)/s, and of a normal
observation it says (y − m)/s. Everything else is in the units of the data, densities included.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ewsg_jax.base.typing import Array, PyTree
from ewsg_jax.networks._likelihoods import Likelihood, in_units, normal_parts


def standardised(
    apply: Callable[..., Any], takes_key: bool, likelihood: Likelihood, rows: PyTree
) -> tuple[Callable[..., Any], Likelihood]:
    """Return the network of inputs, and the likelihood of its output, in the units of the rows.

    Args:
        apply: `apply(params, x)`, or `apply(params, x, key)`.
        takes_key: whether it takes a key.
        likelihood: the likelihood; one that is not normal stays as it is.
        rows: the rows {"x": inputs, "y": observations}.
    """
    leaves, structure = jax.tree.flatten(rows["x"])
    # By the rows alone: those of a prediction may be whole numbers where these are not, such as
    # years, or the other way round.
    units = [_unit_of(leaf) for leaf in leaves]

    def scaled(x: PyTree) -> PyTree:
        pairs = zip(jax.tree.leaves(x), units, strict=True)
        return structure.unflatten(
            [leaf if unit is None else unit.scaled(leaf) for leaf, unit in pairs]
        )

    def without_key(params: PyTree, x: PyTree) -> Any:
        return apply(params, scaled(x))

    def with_key(params: PyTree, x: PyTree, key: Any) -> Any:
        return apply(params, scaled(x), key)

    # Labels and counts have no units.
    if normal_parts(likelihood) is not None:
        y = np.asarray(rows["y"])
        likelihood = in_units(likelihood, *_mean_and_sd(y), y.shape[1:])
    return with_key if takes_key else without_key, likelihood


class _Unit(NamedTuple):
    """The unit of a leaf of inputs.

    Attributes:
        mean: m, a number, or one for each column.
        sd: s, like the mean.
        dtype: the floating-point dtype of the rows.
    """

    mean: np.ndarray
    sd: np.ndarray
    dtype: np.dtype

    def scaled(self, leaf: Array) -> Array:
        """Return (x − m)/s, in the dtype of the inputs, or of the rows for whole numbers."""
        is_float = jnp.issubdtype(leaf.dtype, jnp.floating)
        leaf = jnp.asarray(leaf, leaf.dtype if is_float else self.dtype)
        return (leaf - jnp.asarray(self.mean, leaf.dtype)) / jnp.asarray(self.sd, leaf.dtype)


def _unit_of(leaf: Array | np.ndarray) -> _Unit | None:
    """Return the unit of a leaf; None for whole numbers, which stay as they are."""
    if not jnp.issubdtype(leaf.dtype, jnp.floating):
        return None
    return _Unit(*_mean_and_sd(np.asarray(leaf)), jnp.result_type(leaf))


def _mean_and_sd(leaf: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the mean and sd of each column of a table, shape (columns,), or of all numbers of
    images or sequences, scalars; in float64.

    Numbers that are all alike have the sd 1.
    """
    is_float = jnp.issubdtype(leaf.dtype, jnp.floating)
    wide, axes = leaf.astype(np.float64) if is_float else leaf, 0 if leaf.ndim <= 2 else None
    mean, sd = wide.mean(axes), wide.std(axes)
    rounding = float(jnp.finfo(leaf.dtype).eps) if is_float else 0.0
    return mean, np.where(sd > rounding * np.abs(mean), sd, 1.0)
