"""The largest ratio of two variances, estimated without taking the largest of many estimates."""

import numpy as np

MOST_DENSE = 512
"""Coordinates up to which directions are looked at, too."""


def largest(batch: np.ndarray, noise: np.ndarray, least: np.ndarray | float = 0.0) -> float | None:
    """Return the largest ratio of two variances over coordinates and directions, None where there is no noise.

    Half of the values say where it is largest, and the other half how large it is there: the largest of many
    estimates would be so by chance.

    Args:
        batch: values (draw, chain, d), the mean of each chain of no meaning.
        noise: likewise.
        least: standard deviation of noise, shape (d,), below which it is rounding, and the coordinate left out.
    """
    spread = np.sqrt(np.mean(np.var(noise, axis=0, ddof=1), axis=0))
    moves = spread > least
    if not moves.any() or not (np.isfinite(batch).all() and np.isfinite(noise).all()):
        return None
    # Of the chains where there are some, else of their values.
    axis = 1 if batch.shape[1] > 1 else 0
    parts = (np.array_split(values[..., moves], 2, axis) for values in (batch, noise))
    halves = [(_off(by_batch), _off(by_noise)) for by_batch, by_noise in zip(*parts, strict=True)]
    found = []
    for look, judge in ((0, 1), (1, 0)):
        by_batch, by_noise = halves[look]
        scale = np.sqrt(np.maximum(np.mean(by_noise**2, axis=0), np.finfo(float).tiny))
        relative = by_batch / scale
        places = [np.eye(1, len(scale), int(np.argmax(np.mean(relative**2, axis=0))))[0]]
        if len(scale) <= MOST_DENSE:
            places.append(np.linalg.svd(relative, full_matrices=False)[2][0])
        along = np.stack(places, axis=1) / scale[:, None]
        of_batch, of_noise = (np.mean((rows @ along) ** 2, axis=0) for rows in halves[judge])
        found.append(of_batch / of_noise)
    return float(np.max(np.mean(found, axis=0)))


def each(batch: np.ndarray, noise: np.ndarray, least: np.ndarray | float = 0.0) -> np.ndarray | None:
    """Return the ratio of the variances of each coordinate that moves; arguments and None as of `largest`."""
    by_batch, by_noise = (np.mean(np.var(values, axis=0, ddof=1), axis=0) for values in (batch, noise))
    moves = np.sqrt(by_noise) > least
    if not moves.any() or not (np.isfinite(by_batch).all() and np.isfinite(by_noise).all()):
        return None
    return by_batch[moves] / by_noise[moves]


def _off(values: np.ndarray) -> np.ndarray:
    """Return values (draw, chain, d) less each chain's mean, of the right variance, one below the other."""
    count = len(values)
    return (values - values.mean(0)).reshape(-1, values.shape[2]) * np.sqrt(count / (count - 1))
