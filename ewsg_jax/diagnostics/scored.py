"""Draws and the model's gradients at them, for what is made of both."""

from typing import Any

import jax
import numpy as np

from ewsg_jax import _check
from ewsg_jax._types import Data, Key, PyTree
from ewsg_jax.checking._check import metric_of
from ewsg_jax.checking.affine import root_of
from ewsg_jax.checking.basis import DRAWS_OF_FUNCTION, White
from ewsg_jax.checking.correction import MOST_DENSE
from ewsg_jax.checking.crossfit import TINY
from ewsg_jax.checking.draws import Draws, draws_of
from ewsg_jax.checking.gradients import Fresh, fresh_gradients
from ewsg_jax.posterior import Posterior
from ewsg_jax.preparation import Mode
from ewsg_jax.rows.named import Rows
from ewsg_jax.sampling import Samples


def scored(
    key: Key,
    samples: Samples | PyTree,
    posterior: Posterior,
    data: Data,
    *,
    temperature: Any,
    max_draws: int,
    batch_size: int | None,
    rows: Rows | None,
    shared_minibatch: bool | None,
    mode: Mode | None = None,
) -> tuple[Draws, Fresh]:
    """Check what all of them take; return the draws that are used, and ∇V/T there."""
    _check.key(key)
    _check.instance(
        "posterior", posterior, Posterior, "ewsg_jax.Posterior(…) or one of ewsg_jax.models"
    )
    n = _check.data(data)
    _check.positive("temperature", temperature)
    _check.integer("max_draws", max_draws, minimum=64)
    if batch_size is not None:
        _check.integer("batch_size", batch_size, minimum=2)
    if shared_minibatch is not None:
        _check.boolean("shared_minibatch", shared_minibatch)
    draws = draws_of(samples, None, max_draws, shared_minibatch)
    if mode is not None:
        draws.check_mode(mode)
    data = jax.tree.map(jax.numpy.asarray, data)
    found = fresh_gradients(key, posterior, draws, data, batch_size or n, rows, float(temperature))
    found.check()
    return draws, found


def whitened(draws: Draws, fresh: Fresh, mode: Mode | None, temperature: float) -> White:
    """Return draws and gradients in coordinates in which their, or a mode's, covariance is I.

    Coordinate by coordinate where draws are too few, or coordinates too many, for a matrix.
    """
    flat = draws.flat
    if mode is not None:
        center, root = metric_of(mode, temperature)
    else:
        center = flat.mean(0)
        is_dense = draws.size <= min(MOST_DENSE, len(flat) // DRAWS_OF_FUNCTION - 1)
        off = flat - center
        root = root_of(off.T @ off / len(flat)) if is_dense else np.maximum(flat.std(0), TINY)
    if root.ndim == 1:
        u, first = (flat - center) / root, fresh.first * root
        return White(u, first, first if fresh.first is fresh.second else fresh.second * root)
    first = fresh.first @ root
    again = first if fresh.first is fresh.second else fresh.second @ root
    return White(np.linalg.solve(root, (flat - center).T).T, first, again)
