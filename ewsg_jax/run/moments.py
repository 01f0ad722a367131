"""Running moments of a chain: mean and covariance in a memory that does not grow with the run.

Weighted updates after Welford (1962) and merges after Chan, Golub & LeVeque (1983). Each compiled
call starts its own sums and merges them at its end, so that rounding grows with the number of
calls, not of steps.
"""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from ewsg_jax.base import checks, pytrees
from ewsg_jax.base.modules import text
from ewsg_jax.base.typing import Array, Position, PyTree

COVARIANCES = ("none", "diagonal", "dense")
MOMENT_WEIGHTS = ("equal", "step_size", "next_step_size")
MOMENT_STEPS = ("kept", "all")


def positions(position: Position) -> Position:
    """Keep the position itself."""
    return position


class Sums(NamedTuple):
    """Sums over the steps of one chain: total weight, mean, and weighted squared deviations."""

    weight: Array
    mean: PyTree
    spread: PyTree


@dataclass(frozen=True)
class MomentPlan:
    """Which running moments are kept; made by `moments`."""

    of: Callable[[Position], PyTree]
    covariance: str
    weights: str
    steps: str

    @property
    def words(self) -> str:
        """The arguments that make it, in words, by which a run that resumes knows it."""
        words = [text(self.of), self.covariance, self.weights]
        # A checkpoint of an older version says nothing of the kept steps.
        return ", ".join(words if self.steps == "kept" else [*words, self.steps])

    def start(self, position: Position) -> Sums:
        """Return empty sums for one chain."""
        zero = jax.tree.map(
            lambda x: jnp.zeros(x.shape, x.dtype), jax.eval_shape(self._value, position)
        )
        return Sums(jnp.float32(0.0), zero, self._products(zero, zero))

    def add(self, sums: Sums, weight: Array, position: Position) -> Sums:
        """Add a position of one chain; a weight of 0 changes nothing."""
        value = self._value(position)
        total = sums.weight + weight
        # Before and after the mean has moved: their product keeps its digits (Welford 1962).
        before = pytrees.combine((1, value), (-1, sums.mean))
        mean = pytrees.combine((1, sums.mean), (_share(weight, total), before))
        now = pytrees.combine((1, value), (-1, mean))
        spread = pytrees.combine((1, sums.spread), (weight, self._products(before, now)))
        return Sums(total, mean, spread)

    def merge(self, first: Sums, second: Sums) -> Sums:
        """Return the sums over both, with the same leading axes, as of chains."""
        if np.ndim(first.weight):
            return jax.vmap(self.merge)(first, second)
        total = first.weight + second.weight
        apart = pytrees.combine((1, second.mean), (-1, first.mean))
        share = _share(second.weight, total)
        mean = pytrees.combine((1, first.mean), (share, apart))
        between = (first.weight * share, self._products(apart, apart))
        return Sums(total, mean, pytrees.combine((1, first.spread), (1, second.spread), between))

    def _value(self, position: Position) -> PyTree:
        # Sums of many small numbers need at least 32 bits.
        return pytrees.widened(jax.tree.map(jnp.asarray, self.of(position)))

    def _products(self, a: PyTree, b: PyTree) -> PyTree:
        if self.covariance == "none":
            return ()
        if self.covariance == "diagonal":
            return jax.tree.map(jnp.multiply, a, b)
        return jnp.outer(ravel_pytree(a)[0], ravel_pytree(b)[0])


@dataclass(frozen=True, eq=False)
class Moments:
    """Running moments over the kept steps, or all, NumPy arrays with a leading chain axis.

    Attributes:
        weight: the total weight, shape (chain,): the number of steps, or the sum of their step
            sizes; 0 of a chain that diverged.
        mean: the weighted mean, a pytree.
        variance: the weighted variance of each number, a pytree like the mean; None unless
            "diagonal".
        covariance: shape (chain, d, d) in the order of `jax.flatten_util.ravel_pytree`; None unless
            "dense".
    """

    weight: np.ndarray
    mean: PyTree
    variance: PyTree | None = None
    covariance: np.ndarray | None = None

    def of_chains(self, those: np.ndarray) -> "Moments":
        """Return the moments with no weight for all but these chains, or chains of members."""
        those = those.reshape(those.shape + (1,) * (self.weight.ndim - those.ndim))
        return dataclasses.replace(
            self, weight=np.where(those, self.weight, np.zeros_like(self.weight))
        )

    def pooled(self) -> "Moments":
        """Return the moments of all chains' draws together; chains without weight drop.

        Chains that diverged have no weight. If no chain has any, the moments are NaN.
        """
        weight = np.asarray(self.weight, np.float64)
        shares = weight / max(weight.sum(), np.finfo(np.float64).tiny)

        def mix(x: np.ndarray) -> np.ndarray:
            if not (shares > 0).any():
                return np.full(np.shape(x)[1:], np.nan)
            # A chain without weight may hold NaN.
            return np.tensordot(shares[shares > 0], np.asarray(x, np.float64)[shares > 0], 1)

        mean = jax.tree.map(mix, self.mean)
        variance = covariance = None
        if self.variance is not None:
            variance = jax.tree.map(
                lambda v, m, pooled: mix(v) + mix((np.asarray(m, np.float64) - pooled) ** 2),
                self.variance,
                self.mean,
                mean,
            )
        if self.covariance is not None:
            flat = np.asarray(jax.vmap(lambda mean: ravel_pytree(mean)[0])(self.mean))
            centred = flat - mix(flat)
            covariance = mix(self.covariance) + mix(centred[:, :, None] * centred[:, None, :])
        return Moments(np.asarray(weight.sum()), mean, variance, covariance)


def moments(
    of: Callable[[Position], PyTree] = positions,
    *,
    covariance: Literal["none", "diagonal", "dense"] = "diagonal",
    weights: Literal["equal", "step_size", "next_step_size"] = "equal",
    steps: Literal["kept", "all"] = "kept",
) -> MomentPlan:
    """Ask `sample` for running moments instead of draws, or in addition to them.

    Args:
        of: the function of the position whose moments are kept. Default: the position.
        covariance: `"none"` keeps the mean alone, `"diagonal"` variances, `"dense"` a d × d matrix
            for each chain.
        weights: `"equal"`; or, as averages under decreasing step sizes must, `"step_size"`: each
            position counts with the step size of the step that made it (Şimşekli et al. 2016,
            supplement, eq. 12), or `"next_step_size"`: with that of the step that leaves it
            (Welling & Teh 2011, eq. 11).
        steps: `"kept"`, the steps that `burn_in`, `thin` and `keep_when` leave; or `"all"` after
            the burn-in: a run that is thinned to few draws has the moments of all steps.

    Raises:
        TypeError, ValueError: an argument has the wrong type or value.

    Example:
        >>> import jax, jax.numpy as jnp, ewsg_jax as ewsg
        >>> data = jnp.arange(6.0)[:, None]
        >>> kernel = ewsg.sgld(ewsg.models.gaussian_location(), 1e-2, batch_size=2)
        >>> samples = ewsg.sample(
        ...     jax.random.key(0),
        ...     kernel,
        ...     jnp.zeros(1),
        ...     data,
        ...     1_000,
        ...     num_chains=3,
        ...     burn_in=100,
        ...     keep=None,
        ...     moments=ewsg.moments(),
        ... )
        >>> samples.moments.mean.shape, samples.moments.pooled().variance.shape
        ((3, 1), (1,))
    """
    checks.function("of", of, "(position) -> pytree of arrays")
    checks.one_of("covariance", covariance, COVARIANCES)
    checks.one_of("weights", weights, MOMENT_WEIGHTS)
    checks.one_of("steps", steps, MOMENT_STEPS)
    return MomentPlan(of, covariance, weights, steps)


def written(plan: MomentPlan | None) -> dict[str, str] | None:
    """Return the options of running moments of positions, as JSON holds them; None of anything
    else, whose function a file does not hold.
    """
    if plan is None or plan.of is not positions:
        return None
    return {"covariance": plan.covariance, "weights": plan.weights, "steps": plan.steps}


def from_written(options: dict[str, str] | None) -> MomentPlan | None:
    """Return the running moments whose options were written."""
    return None if options is None else MomentPlan(positions, **options)


def finish(plan: MomentPlan, sums: Sums) -> Moments:
    """Return the moments of sums with a leading chain axis, and one of members in a stack."""
    weight = np.asarray(sums.weight)
    total = np.maximum(weight, np.finfo(np.float32).tiny)

    def divided(x: Any) -> np.ndarray:
        return np.asarray(x) / _along(total, x)

    spread = jax.tree.map(divided, sums.spread)
    return Moments(
        weight,
        jax.tree.map(np.asarray, sums.mean),
        spread if plan.covariance == "diagonal" else None,
        spread if plan.covariance == "dense" else None,
    )


def joined(first: Moments, second: Moments) -> Moments:
    """Return the moments over both, of chains that have them of the same kind."""
    kind = (
        "dense"
        if first.covariance is not None
        else "none"
        if first.variance is None
        else "diagonal"
    )
    plan = MomentPlan(positions, kind, "equal", "kept")

    def sums(moments: Moments) -> Sums:
        spread = {"dense": moments.covariance, "diagonal": moments.variance, "none": ()}[kind]
        weight = np.asarray(moments.weight)
        spread = jax.tree.map(lambda x: x * _along(weight, x), spread)
        return Sums(weight, moments.mean, spread)  # pyright: ignore[reportArgumentType]

    return finish(plan, plan.merge(sums(first), sums(second)))


def _along(weight: np.ndarray, x: Any) -> np.ndarray:
    """Return weights with as many axes as what they weigh, in its dtype."""
    return weight.reshape(*weight.shape, *(1,) * (x.ndim - weight.ndim)).astype(x.dtype)


def _share(part: Array, total: Array) -> Array:
    """Part/total, 0 where there is nothing yet."""
    return jnp.where(total > 0, part / jnp.where(total > 0, total, 1.0), 0.0)
