"""Means with less variance: polynomials' Stein functions as control variates."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ewsg_jax.answers.check import settings as check_settings
from ewsg_jax.answers.check.basis import linear, quadratic
from ewsg_jax.answers.check.crossfit import TINY, CrossFit, averages, fitted
from ewsg_jax.answers.check.function_values import values_at
from ewsg_jax.answers.check.stein import blocks_of
from ewsg_jax.base import checks
from ewsg_jax.base.freshness import reads_now
from ewsg_jax.base.typing import Data, Key, Position, PyTree
from ewsg_jax.diagnostics._kernel_stein import scored
from ewsg_jax.posterior.posterior import Posterior
from ewsg_jax.rows._named import Rows
from ewsg_jax.run.samples import Samples
from ewsg_jax.vectors.layout import vector


@dataclass(frozen=True, eq=False)
class ControlVariates:
    """Means of a function, with and without control variates; trees like what the function returns.

    Attributes:
        mean: with.
        error: its standard error, by blocks.
        plain_mean: the draws' average.
        plain_error: its standard error.
        taken: the share of the function's variance at the draws that the control variates take, at
            most 1; below 0 by chance alone.
        order: of the polynomials.
        num_features: control variates.
        num_draws: draws that were used.
        num_blocks: blocks of successive draws.
        data_passes: what the gradients cost.
    """

    mean: PyTree
    error: PyTree
    plain_mean: PyTree
    plain_error: PyTree
    taken: PyTree
    order: int
    num_features: int
    num_draws: int
    num_blocks: int
    data_passes: float

    def __str__(self) -> str:
        with np.errstate(all="ignore"):
            ratio = vector(self.plain_error) / vector(self.error)
        return (
            f"control variates of order {self.order} ({self.num_features:,}) on {self.num_draws:,} "
            f"draws: errors {np.median(ratio):.3g} times smaller (median; {ratio.min():.3g} to "
            f"{ratio.max():.3g}), {np.median(vector(self.taken)):.2%} of the variance taken, "
            f"{self.data_passes:.3g} data passes"
        )


@reads_now("posterior", "function")
def control_variates(
    key: Key,
    samples: Samples | PyTree,
    posterior: Posterior,
    data: Data,
    *,
    function: Callable[[Position], PyTree] = lambda position: position,
    order: int = 1,
    temperature: float = 1.0,
    max_draws: int = 4_000,
    batch_size: int | None = 1_000,
    rows: Rows | None = None,
    shared_minibatch: bool | None = None,
) -> ControlVariates:
    """Return means of a function of the position with zero-variance control variates.

    Under the target the Stein function Δφ − ∇φ·∇V/T of a polynomial φ has mean zero, so that as
    much of it may be taken from f as leaves the least variance (Mira, Solgi & Imparato 2013).
    Coefficients are those of a regression at the draws. Noise of batches makes them smaller, as it
    should: it would be added to the mean. Of a normal target order 1 leaves nothing of a linear
    function, order 2 nothing of a quadratic one, with all rows. Draws are taken to be the target's:
    `ewsg_jax.check` corrects those that are not, with coefficients that noise does not change.

    Args:
        key: a typed PRNG key, for the batches.
        samples: what `ewsg_jax.sample` returned, or draws of positions, a tree of arrays with the
            leading axes (chain, draw). Chains that are not finite are left out.
        posterior: what should have been sampled.
        data: all n rows.
        function: `function(position) -> tree of arrays`, for one draw. Default: the position.
        order: 1: the d components of the gradient; 2: and all d(d + 1)/2 products of degree two.
        temperature: T of the target exp(−V/T).
        max_draws: draws of all chains together that are used, evenly spaced.
        batch_size: rows for each draw, in two batches; None: all.
        rows: how they are drawn, as in `ewsg_jax.check`.
        shared_minibatch: whether the chains share their batches: blocks are then of time. Default:
            what samples of this library say of themselves, and False of other draws.

    Raises:
        TypeError, ValueError: an argument has the wrong type or value; there are fewer than eight
            draws of a chain, or none that is finite; a coordinate never moves; the gradient is not
            finite at a draw; there are fewer than four draws for each control variate; draws lie at
            a wall where the density is not 0.

    Example:
        >>> import jax, jax.numpy as jnp, ewsg_jax as ewsg
        >>> model, data = ewsg.models.gaussian_location(), jnp.linspace(0.0, 1.0, 40)[:, None]
        >>> kernel = ewsg.uld(model, 0.05, friction=10.0)
        >>> samples = ewsg.sample(
        ...     jax.random.key(0), kernel, jnp.zeros(1), data, 400, num_chains=4, burn_in=100
        ... )
        >>> found = ewsg.diagnostics.control_variates(jax.random.key(1), samples, model, data)
        >>> (
        ...     bool(found.plain_error > 0.005),
        ...     bool(found.error < 1e-6),
        ...     found.mean,
        ... )  # the mean of the data
        (True, True, Array([0.5], dtype=float32))
    """
    checks.function("function", function, "(position) -> tree of arrays")
    checks.integer("order", order, 1, 2)
    given = temperature, max_draws, batch_size, rows, shared_minibatch
    draws, fresh, white = scored(key, samples, posterior, data, None, *given)
    d, count = draws.size, len(draws.flat)
    num_features = d if order == 1 else d + d * (d + 1) // 2
    of_each = check_settings.DRAWS_PER_FUNCTION
    if count < of_each * (1 + num_features):
        raise ValueError(
            f"order must be one that there are draws for, {of_each} for each control "
            f"variate and as many for the mean; got order {order}, {num_features:,} control "
            f"variates, and {count:,} draws"
        )
    values = values_at(draws, function)
    blocks = blocks_of(draws.in_chains(white.u), draws.shared)
    # Where draws are the target's, least squares leave least variance with noise in the features
    # too.
    functions = (linear if order == 1 else quadratic)(white.u, white.mean)
    regression = CrossFit(functions, functions)

    def of(leaf: np.ndarray) -> tuple[np.ndarray, ...]:
        level, size = leaf.mean(0), np.maximum(leaf.std(0), TINY)
        scaled = (leaf - level) / size
        found = fitted(
            scaled, [regression.predicted(regression.coefficients(scaled))], blocks.number
        )
        sure = size / np.sqrt(blocks.share)
        plain = averages(leaf, blocks.number)[1] / np.sqrt(blocks.share)
        return (
            level + size * found.expectation,
            sure * found.error,
            level,
            plain,
            1 - found.residual**2,
        )

    columns = zip(*(of(leaf) for leaf in values.leaves), strict=True)
    mean, error, plain_mean, plain_error, taken = (
        values.as_tree(list(column)) for column in columns
    )
    return ControlVariates(
        mean,
        error,
        plain_mean,
        plain_error,
        taken,
        order,
        num_features,
        count,
        blocks.number,
        fresh.data_passes,
    )
