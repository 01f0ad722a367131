"""A prior for each leaf of a network's parameters, from what a user gives."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ewsg_jax.base import checks, pytrees
from ewsg_jax.base.leaves import matches, shown
from ewsg_jax.base.typing import Array, PyTree

Prior = Any
"""A standard deviation, a distribution, "fan_in" or "learned", a dict of these by leaf, or a
function."""
FAN_IN, LEARNED = "fan_in", "learned"
TAKES_PRIOR = (
    "a positive standard deviation, a distribution with log_prob, 'fan_in' or 'learned', a dict of "
    "these by names of leaves, or a function (name, shape) that returns one of these"
)


@dataclass(frozen=True, eq=False)
class LeafPrior:
    """The prior of one leaf.

    Attributes:
        log_density: `log_density(leaf) -> scalar`, normalised.
        variance: the prior's variance, shaped like the leaf.
        of_training: the log density by which networks are trained, if the mode of the other is at
            weights that are all 0. Default: the same.
    """

    log_density: Callable[[Array], Array]
    variance: Array
    of_training: Callable[[Array], Array] | None = None


def fan_in(name: str, shape: tuple[int, ...]) -> float:
    """Return 1/√fan-in, by which a sum of that many inputs has unit variance; 1 for vectors.

    The fan-in of a leaf of two or more axes is the product of all axes but the last, as in Flax's
    kernels (in, out) and (height, width, in, out); of one whose last key is "weight", of all but
    the first, as in Equinox's (out, in) and (out, in, height, width). Vectors, scalars and leaves
    whose last key is "bias" have 1.

    Args:
        name: the keys to the leaf, joined by "/".
        shape: its shape.

    Raises:
        TypeError: the shape is no tuple.

    Example:
        >>> from ewsg_jax import networks
        >>> networks.fan_in("Conv_0/kernel", (3, 3, 4, 16)) == 1 / 6
        True
        >>> networks.fan_in("layers/0/weight", (16, 4)), networks.fan_in("Dense_0/bias", (16,))
        (0.5, 1.0)
    """
    if not isinstance(shape, tuple):
        raise TypeError(f"shape must be a tuple of whole numbers; got {checks.describe(shape)}")
    keys = [key for key in name.replace(".", "/").split("/") if key not in ("", "value")]
    last = keys[-1] if keys else ""
    if len(shape) < 2 or last == "bias":
        return 1.0
    inputs = math.prod(shape[1:] if last == "weight" else shape[:-1])
    return 1 / math.sqrt(max(1, inputs))


def priors_of(prior: Prior, named: list[tuple[str, Any]]) -> list[LeafPrior]:
    """Return the prior of each leaf.

    Args:
        prior: what the user gave.
        named: the leaves by name.

    Raises:
        TypeError, ValueError: it is no prior of these leaves; the message names a leaf.
    """
    if isinstance(prior, Mapping):
        return _by_name(prior, named)
    return [_of_leaf(prior, name, leaf) for name, leaf in named]


def _by_name(prior: Mapping[Any, Any], named: list[tuple[str, Any]]) -> list[LeafPrior]:
    names = [name for name, _ in named]
    for pattern in prior:
        if not isinstance(pattern, str):
            raise TypeError(
                "prior must be a dict by names of leaves, or patterns of them; got the key "
                f"{checks.describe(pattern)}"
            )
    # The first pattern that matches a leaf is its prior's.
    taken, priors = set(), []
    for name, leaf in named:
        pattern = next((p for p in prior if matches(p, name)), None)
        if pattern is None:
            raise ValueError(
                f"prior must have a key for each sampled leaf, which are {shown(names)}; got none "
                f"that matches {name!r}: add it, or '*' as the last key"
            )
        taken.add(pattern)
        priors.append(_of_leaf(prior[pattern], name, leaf))
    # One that no leaf was left for is a slip of the pen, or stands too late.
    for pattern in prior:
        if pattern not in taken:
            is_late = any(matches(pattern, name) for name in names)
            why = "which comes after keys that match the same leaves" if is_late else "none"
            raise ValueError(
                f"prior must have keys that match sampled leaves, which are {shown(names)}; got "
                f"{pattern!r}, {why if is_late else 'which matches none'}"
                f"{'' if is_late else checks.nearest(pattern, names)}"
            )
    return priors


def _of_leaf(prior: Prior, name: str, leaf: Array) -> LeafPrior:
    # Words for a prior whose width the shape says, or the numbers themselves.
    if isinstance(prior, str):
        checks.one_of("prior", prior, (FAN_IN, LEARNED))
        if prior == LEARNED:
            return _of_learned_scale(fan_in(name, leaf.shape), leaf)
        prior = fan_in(name, leaf.shape)
    if hasattr(prior, "log_prob"):
        return _of_distribution(prior, name, leaf)
    if callable(prior):
        try:
            returned = prior(name, leaf.shape)
        except Exception as error:
            raise ValueError(
                f"prior must be {TAKES_PRIOR}; the function failed for {name!r} and {leaf.shape}: "
                f"{checks.reason(error)}"
            ) from error
        if callable(returned) and not hasattr(returned, "log_prob"):
            raise TypeError(f"prior must be {TAKES_PRIOR}; for {name!r} it returned a function")
        return _of_leaf(returned, name, leaf)
    # What is left are standard deviations, one or an array of them.
    is_number = isinstance(prior, int | float | np.number | np.ndarray | jax.Array)
    if not is_number or isinstance(prior, bool):
        raise TypeError(f"prior must be {TAKES_PRIOR}; got {checks.describe(prior)} for {name!r}")
    sds = np.asarray(prior, np.float64)
    if not (np.isfinite(sds).all() and (sds > 0).all()):
        raise ValueError(f"prior must be {TAKES_PRIOR}; got {checks.describe(prior)} for {name!r}")
    if np.broadcast_shapes(sds.shape, leaf.shape) != leaf.shape:
        raise ValueError(
            f"prior must be one standard deviation, or as many as {name!r} of shape {leaf.shape} "
            f"has numbers; got {checks.describe(prior)}"
        )
    return _normal(sds, leaf)


def _normal(sds: np.ndarray, leaf: Array) -> LeafPrior:
    of_numbers = np.broadcast_to(sds, leaf.shape)
    constant = float(np.sum(np.log(of_numbers))) + 0.5 * math.log(2 * math.pi) * leaf.size
    dtype = pytrees.wide(leaf.dtype)
    sd = float(sds) if sds.ndim == 0 else jnp.asarray(sds, dtype)

    def log_density(x: Array) -> Array:
        return -0.5 * jnp.sum((x.astype(dtype) / sd) ** 2) - constant

    return LeafPrior(log_density, jnp.asarray(of_numbers**2, leaf.dtype))


def _of_learned_scale(unit: float, leaf: Array) -> LeafPrior:
    """Return the prior of normal numbers of one unknown standard deviation s, integrated over it.

    With (unit/s)² ~ χ²₁ the numbers have a multivariate Cauchy distribution: the integral is exact,
    and there is no s to sample. At weights w it pulls as N(0, s²) does with
    s² = (unit² + ‖w‖²)/(d + 1), which their own size says.
    """
    d, dtype = leaf.size, pytrees.wide(leaf.dtype)
    constant = math.lgamma((d + 1) / 2) - math.lgamma(1 / 2) - d / 2 * math.log(math.pi)
    constant -= d * math.log(unit)

    def log_density(x: Array) -> Array:
        squares = jnp.sum((x.astype(dtype) / unit) ** 2)
        return constant - (d + 1) / 2 * jnp.log1p(squares)

    # At the mode of the integral all numbers are 0, where few draws are.
    normal = _normal(np.asarray(unit), leaf)
    return LeafPrior(log_density, normal.variance, normal.log_density)


def _of_distribution(distribution: Any, name: str, leaf: Array) -> LeafPrior:
    takes = f"prior must be a distribution over leaves such as {name!r}, of shape {leaf.shape}"
    try:
        shape = jax.eval_shape(lambda x: jnp.asarray(distribution.log_prob(x)), leaf)
    except Exception as error:
        raise ValueError(f"{takes}; its log_prob failed: {checks.reason(error)}") from error
    events = len(getattr(distribution, "event_shape", ()))
    if shape.shape != leaf.shape[: leaf.ndim - events] or events > leaf.ndim:
        raise ValueError(
            f"{takes}; its log_prob returned {checks.describe(shape)} for it, which counts "
            "numbers more than once"
        )
    _check_support(distribution, takes, leaf)

    def log_density(x: Array) -> Array:
        return jnp.sum(distribution.log_prob(x))

    return LeafPrior(log_density, _variance(distribution, leaf))


def _check_support(distribution: Any, takes: str, leaf: Array) -> None:
    """Raise ValueError unless a distribution has a density for all real numbers."""
    support, largest = getattr(distribution, "support", None), float(jnp.finfo(leaf.dtype).max)
    for value in (-1.0, 1.0, -largest, largest):
        values = jnp.full(leaf.shape, value, leaf.dtype)
        try:
            inside = True if support is None else bool(jnp.all(support(values)))
        except Exception:
            inside = True  # A support of another kind than NumPyro's.
        # Far away the logarithm of a density may be beyond all numbers: the support alone counts.
        is_near = abs(value) == 1
        if not inside or (is_near and not jnp.isfinite(distribution.log_prob(values)).all()):
            raise ValueError(
                f"{takes}, with a density for all real numbers, because weights are not bounded; "
                f"got {checks.describe(distribution)}, which has none at {value:g}"
            )


def _variance(distribution: Any, leaf: Array) -> Array:
    """Return a distribution's variance, or the square of its scale, or 1, shaped like the leaf."""
    variance = getattr(distribution, "variance", None)
    scale = getattr(distribution, "scale", 1.0)
    for value in (variance, scale):
        try:
            number = jnp.asarray(value() if callable(value) else value)
            number = number if value is variance else number**2
            variances = jnp.broadcast_to(number, leaf.shape)
        except Exception:
            continue
        if bool(jnp.all(jnp.isfinite(variances) & (variances > 0))):
            return jnp.asarray(variances, leaf.dtype)
    return jnp.ones_like(leaf)


def log_prior_of(priors: list[LeafPrior]) -> Callable[[PyTree], Array]:
    """Return the log density of a position whose leaves have these priors, in their order."""

    def log_prior(position: PyTree) -> Array:
        leaves = jax.tree.leaves(position)
        values = [prior.log_density(x) for prior, x in zip(priors, leaves, strict=True)]
        return sum(values[1:], values[0])

    return log_prior
