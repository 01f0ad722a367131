"""Strata of rows by k-means, for `gradients.stratified` (as CP-SGHMC, Fu & Zhang 2017)."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from ewsg_jax.base import checks, numeric, optional
from ewsg_jax.base.typing import Array, Data


def cluster(
    data: Data,
    k: int,
    *,
    features: str | Callable[[Data], Array] | None = None,
    seed: int = 0,
    check_data: bool = True,
) -> Array:
    """Return a stratum for each row, by scikit-learn's k-means on features (the extra `data`).

    Features are taken as they are: standardise them if their scales differ. More than 50,000
    rows are clustered by k-means on minibatches.

    Args:
        data: a pytree of arrays that share their leading axis, the n rows.
        k: the number of clusters, at most n.
        features: the features, shape (n, …): a key if the data are a dictionary, or a function of
            the data; None for data that are one array, or for the key `"x"`.
        seed: the seed of the first centres.
        check_data: refuse features that are NaN or infinite; False: each counts as the mean of its
            column, over the rows that have it.

    Returns:
        Whole numbers from 0 to k − 1, int32, shape (n,).

    Raises:
        TypeError, ValueError: an argument has the wrong type or value.
        ImportError: scikit-learn is not installed.

    Example:
        >>> import jax.numpy as jnp, ewsg_jax as ewsg
        >>> labels = ewsg.cluster({"x": jnp.array([[0.0], [0.1], [9.0]])}, 2)
        >>> bool(labels[0] == labels[1]), bool(labels[0] == labels[2])
        (True, False)
    """
    data = numeric.native(data)
    n = checks.data(data)
    checks.integer("k", k)
    checks.integer("seed", seed, minimum=0)
    if k > n:
        raise ValueError(f"k must be at most n = {n}; got {k}")
    x = np.asarray(_features(data, features))
    if x.shape[:1] != (n,) or not np.issubdtype(x.dtype, np.number):
        raise ValueError(f"features must be numbers, shape ({n}, …); got {checks.describe(x)}")
    if checks.boolean("check_data", check_data):
        checks.finite("features", x)
    x = x.reshape(n, -1)
    clusters = optional.module("sklearn.cluster", "cluster")
    # More rows go over in minibatches.
    if n <= 50_000:
        means = clusters.KMeans(k, random_state=seed)
    else:
        means = clusters.MiniBatchKMeans(k, batch_size=4_096, random_state=seed)
    return jnp.asarray(means.fit_predict(x if check_data else _filled(x)), jnp.int32)


def _filled(x: np.ndarray) -> np.ndarray:
    """Return features (n, d) with column means for what is not finite; 0 if a column has none."""
    known = np.isfinite(x)
    total, count = np.where(known, x, 0.0).sum(0), known.sum(0)
    return np.where(known, x, total / np.maximum(count, 1)).astype(x.dtype)


def _features(data: Data, features: str | Callable[[Data], Array] | None) -> Array:
    if callable(features):
        return features(data)
    if features is None and not isinstance(data, dict) and len(jax.tree.leaves(data)) == 1:
        return jax.tree.leaves(data)[0]
    name = "x" if features is None else features
    if not isinstance(name, str):
        raise TypeError(
            f"features must be a key of the data or a function of them; got {checks.describe(name)}"
        )
    if not isinstance(data, dict) or name not in data:
        what = f"the keys {list(data)}" if isinstance(data, dict) else checks.describe(data)
        raise ValueError(
            f"features must be a key of data that are a dictionary; got {name!r} for {what}"
        )
    return data[name]
