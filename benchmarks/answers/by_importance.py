"""A logistic posterior with separated columns by importance sampling: no chain, no step size.

A separated column is of two values, and all rows of the rarer one are of one class. Its weight θ is
held by the prior alone on one side and meets a wall on the other: no Gaussian. But rows elsewhere
see it through the intercept alone, and given the other weights its law is that of few rows. So
draws are made of

    the other weights, and a = intercept + Σ (θ's part of every row)
        Gaussian, at the mode of the rows elsewhere
    each θ given these
        on a grid, its rows moved all alike

and weighted by the posterior over the law that they were drawn from.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import ewsg_jax as ewsg

GRID, HALF = 2001, 6.0
"""Points of the grid of a separated weight, and how far it goes: the prior is N(0, 1)."""
AT_ONCE, ROWS_AT_ONCE = 250, 8192


class Reference(NamedTuple):
    """What importance sampling found.

    Attributes:
        mean: shape (d,).
        sd: shape (d,).
        ess: effective number of draws, (Σw)²/Σw².
        separated: which columns are.
        halves: the largest differences between two halves of the draws, of a mean in sd and of log
            sd.
    """

    mean: np.ndarray
    sd: np.ndarray
    ess: float
    separated: list[int]
    halves: tuple[float, float]


def separated_columns(x: np.ndarray, y: np.ndarray) -> list[int]:
    """Return the columns of two values of which the larger, the rarer one, goes with one class
    alone.
    """
    found = []
    for j in range(x.shape[1]):
        low, high = x[:, j].min(), x[:, j].max()
        on = x[:, j] == high
        if (
            low < high
            and np.all(on | (x[:, j] == low))
            and 2 * on.sum() < len(y)
            and len(set(y[on])) == 1
        ):
            found.append(j)
    return found


def reference(x: np.ndarray, y: np.ndarray, num_draws: int, seed: int = 0) -> Reference:
    """Return the moments of the weights: P(y = 1) = 1/(1 + exp(−xᵀθ)), prior N(0, I).

    Args:
        x: the rows, the last column ones.
        y: 0 or 1.
        num_draws: how many, even: each has its mirror image.
        seed: of NumPy's generator.
    """
    rng = np.random.default_rng(seed)
    columns = separated_columns(x, y)
    rest = [j for j in range(x.shape[1]) if j not in columns]
    on = {j: x[:, j] == x[:, j].max() for j in columns}
    away = ~np.any(list(on.values()), axis=0)
    mode = ewsg.find_mode(
        jax.random.key(seed),
        ewsg.models.logistic_regression(),
        jnp.zeros(len(rest)),
        {"x": x[away][:, rest], "y": y[away]},
        progress=False,
    )
    root = np.linalg.cholesky(np.asarray(mode.covariance))
    half = rng.standard_normal((num_draws // 2, len(rest)))
    normal = np.stack([half, -half], axis=1).reshape(num_draws, -1)
    moved = normal @ root.T
    theta = np.zeros((num_draws, x.shape[1]))
    theta[:, rest] = np.asarray(mode.position, np.float64) + moved
    log_drawn = -0.5 * (normal**2).sum(1)
    for j, rows in on.items():
        low, high = float(x[:, j].min()), float(x[:, j].max())
        sign = 1.0 - 2.0 * float(y[rows][0])
        inputs = x[rows][:, rest].astype(np.float64)
        # Their logits are these, and `high − low` times θ more than elsewhere.
        logits = inputs @ np.asarray(mode.position, np.float64)
        drawn, log_density = _walled(rng, logits, sign, high - low, moved @ inputs.mean(0))
        theta[:, j] = drawn
        theta[:, -1] -= low * drawn
        log_drawn += log_density
    log_weight = log_likelihoods(theta, x, y) - 0.5 * (theta**2).sum(1) - log_drawn
    weight = np.exp(log_weight - log_weight.max())
    middle = num_draws // 4 * 2
    (mean, sd), first, second = (
        weighted_moments(theta[part], weight[part])
        for part in (slice(None), slice(middle), slice(middle, None))
    )
    halves = (np.abs(first[0] - second[0]) / sd).max(), np.abs(np.log(first[1] / second[1])).max()
    ess = float(weight.sum() ** 2 / (weight**2).sum())
    return Reference(mean, sd, ess, columns, (float(halves[0]), float(halves[1])))


def weighted_moments(theta: np.ndarray, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return means and standard deviations of draws of shape (draw, d) with these weights."""
    share = weight / weight.sum()
    mean = share @ theta
    return mean, np.sqrt(share @ (theta - mean) ** 2)


def _walled(
    rng: np.random.Generator, logits: np.ndarray, sign: float, jump: float, shift: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Draw θ ∝ N(θ; 0, 1) Π 1/(1 + exp(sign (logitᵢ + jump θ + shift))) for each shift; with its
    log density.
    """
    grid = np.linspace(-HALF, HALF, GRID)
    width = grid[1] - grid[0]
    reach = jump * HALF + np.abs(shift).max()
    at = np.linspace(-reach, reach, 8 * GRID)
    table = np.array([-np.logaddexp(0.0, sign * (logits + a)).sum() for a in at])
    drawn, log_density = np.empty(len(shift)), np.empty(len(shift))
    for i in range(0, len(shift), AT_ONCE):
        log = np.interp(shift[i : i + AT_ONCE, None] + jump * grid, at, table) - 0.5 * grid**2
        density = np.exp(log - log.max(1, keepdims=True))
        cells = (density[:, 1:] + density[:, :-1]) / 2
        upper = np.cumsum(cells, axis=1)
        cell = (rng.random((len(log), 1)) * upper[:, -1:] > upper).sum(1)
        drawn[i : i + AT_ONCE] = grid[cell] + width * rng.random(len(log))
        log_density[i : i + AT_ONCE] = np.log(
            cells[np.arange(len(log)), cell] / upper[:, -1] / width
        )
    return drawn, log_density


@jax.jit
def _of_chunk(theta: jax.Array, x: jax.Array, y: jax.Array) -> jax.Array:
    logits = x @ theta.T
    return (y[:, None] * logits - jax.nn.softplus(logits)).sum(0)


@jax.jit
def _of_linear_chunk(theta: jax.Array, x: jax.Array, y: jax.Array) -> jax.Array:
    return -0.5 * jnp.square(y[:, None] - x @ theta.T).sum(0)


def log_likelihoods(
    theta: np.ndarray, x: np.ndarray, y: np.ndarray, *, is_linear: bool = False
) -> np.ndarray:
    """Return Σ log likelihood of each draw: chunks of rows in float32, their sum in float64.

    Args:
        theta: draws, shape (draw, d).
        x: the rows.
        y: 0 or 1; numbers for a linear regression.
        is_linear: a linear regression with noise 1, not a logistic one.
    """
    of_chunk = _of_linear_chunk if is_linear else _of_chunk
    found = np.zeros(len(theta))
    parts: list[Any] = [
        (
            jnp.asarray(x[i : i + ROWS_AT_ONCE], jnp.float32),
            jnp.asarray(y[i : i + ROWS_AT_ONCE], jnp.float32),
        )
        for i in range(0, len(y), ROWS_AT_ONCE)
    ]
    for i in range(0, len(theta), AT_ONCE):
        some = jnp.asarray(theta[i : i + AT_ONCE], jnp.float32)
        for chunk in parts:
            found[i : i + AT_ONCE] += np.asarray(of_chunk(some, *chunk), np.float64)
    return found
