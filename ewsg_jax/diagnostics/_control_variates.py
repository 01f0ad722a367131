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
    """Means of a function, with and without control variates; pytrees like its return value.

    Attributes:
        mean: mean of the function with control variates.
        error: standard error of `mean`, by blocks.
        plain_mean: average over the draws.
        plain_error: standard error of `plain_mean`.
        taken: share of the function's variance that the control variates remove, at most 1; it can
            be below 0 only by Monte Carlo error.
        order: degree of the polynomials, 1 or 2.
        num_features: number of control variates.
        num_draws: number of draws that were used.
        num_blocks: number of blocks of successive draws.
        data_passes: cost of the gradients, in passes over the data.
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
    temperature: float | None = None,
    max_draws: int = 4_000,
    batch_size: int | None = 1_000,
    rows: Rows | None = None,
    shared_minibatch: bool | None = None,
) -> ControlVariates:
    """Return means of a function of the position with zero-variance control variates.

    Under the target the Stein function Δφ − ∇φ·∇V/T of a polynomial φ has mean zero, so φ may be
    chosen such that f minus its Stein function has the least variance (Mira, Solgi & Imparato
    2013). The coefficients come from a regression at the draws. Noise of batches makes them
    smaller, as it should: it would be added to the mean. With all rows and a normal target, order 1
    removes all variance of a linear function, order 2 of a quadratic one. Draws are assumed to be
    the target's: `ewsg_jax.check` corrects draws that are not, with coefficients that noise does
    not change.

    Args:
        key: a typed PRNG key, for the batches.
        samples: what `ewsg_jax.sample` returned, or draws of positions, a pytree of arrays with the
            leading axes (chain, draw). Chains that are not finite are left out.
        posterior: the target.
        data: all n rows, a pytree of arrays.
        function: `function(position) -> pytree of arrays`, for one draw. Default: the position.
        order: 1: the d components of the gradient; 2: and all d(d + 1)/2 products of degree two.
        temperature: T of the target exp(−V/T). Default: as in `ewsg_jax.check`.
        max_draws: largest number of draws of all chains together that are used, evenly spaced.
            Default 4,000.
        batch_size: number of rows per draw, in two batches; None: all rows. Default 1,000.
        rows: sampling scheme of these rows, as in `ewsg_jax.check`.
        shared_minibatch: whether the chains share their batches; a block is then a range of time in
            all chains. Default None: as recorded in samples of this library, False for other draws.

    Raises:
        TypeError, ValueError: an argument has the wrong type or value; there are fewer than eight
            draws of a chain, or none that is finite; a coordinate never moves; the gradient is not
            finite at a draw; there are fewer than four draws for each control variate; draws lie at
            an edge at which the density is not 0.

    Example:
        >>> import jax, jax.numpy as jnp, ewsg_jax as ewsg
        >>> model, data = ewsg.models.gaussian_location(), jnp.linspace(0.0, 1.0, 40)[:, None]
        >>> kernel = ewsg.uld(model, 0.05, friction=10.0)
        >>> samples = ewsg.sample(
        ...     jax.random.key(0), kernel, jnp.zeros(1), data, 400, num_chains=4, burn_in=100
        ... )
        >>> means = ewsg.diagnostics.control_variates(jax.random.key(1), samples, model, data)
        >>> (
        ...     bool(means.plain_error > 0.005),
        ...     bool(means.error < 1e-6),
        ...     means.mean.round(3),
        ... )  # the mean of the data
        (True, True, array([0.5]))
    """
    checks.function("function", function, "(position) -> pytree of arrays")
    checks.integer("order", order, 1, 2)
    options = temperature, max_draws, batch_size, rows, shared_minibatch
    draws, fresh, white = scored(key, samples, posterior, data, None, *options)
    d, count = draws.size, len(draws.flat)
    num_features = d if order == 1 else d + d * (d + 1) // 2
    per_variate = check_settings.DRAWS_PER_FUNCTION
    if count < per_variate * (1 + num_features):
        raise ValueError(
            f"order must be one that there are draws for, {per_variate} for each control "
            f"variate and as many for the mean; got order {order}, {num_features:,} control "
            f"variates, and {count:,} draws"
        )
    values = values_at(draws, function)
    blocks = blocks_of(draws.in_chains(white.u), draws.shared)
    # If the draws are the target's, least squares minimises the variance even with noise in the
    # features.
    functions = (linear if order == 1 else quadratic)(white.u, white.mean)
    regression = CrossFit(functions, functions)

    def of(leaf: np.ndarray) -> tuple[np.ndarray, ...]:
        level, size = leaf.mean(0), np.maximum(leaf.std(0), TINY)
        scaled = (leaf - level) / size
        fit = fitted(scaled, [regression.predicted(regression.coefficients(scaled))], blocks.number)
        unit = size / np.sqrt(blocks.share)
        plain = averages(leaf, blocks.number)[1] / np.sqrt(blocks.share)
        return (
            level + size * fit.expectation,
            unit * fit.error,
            level,
            plain,
            1 - fit.residual**2,
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
