"""What an output of a network says of an observation: named likelihoods, and one's own.

All are densities with every constant: a log score is that of the observation.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal, NoReturn, cast

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import gammaln

from ewsg_jax.base import checks, pytrees
from ewsg_jax.base.typing import Array, Data, Key

NAMES = ("normal", "categorical", "bernoulli", "poisson")
TAKES_LIKELIHOOD = (
    f"one of {', '.join(map(repr, NAMES))}, a Likelihood, or a function (output, row) -> scalar"
)


@dataclass(frozen=True)
class Likelihood:
    """The distribution of a row's observation, given the output of the network for that row.

    Args:
        log_density: `log_density(output, row) -> scalar`, the log density of row["y"] with all
            constants.
        mean: `mean(output)`, the observation's mean. Default None: not known.
        sd: `sd(output)`, its standard deviation, shaped like the mean. Default None: not known.
        probabilities: `probabilities(output)`, those of the classes, shape (classes,). Default
            None: there are no classes.
        draw: `draw(key, output)`, a new observation. Default None: not known.
        check: `check(output, data)` raises what is wrong with the rows for such an output (its
            shape and dtype). Default None: nothing is checked.
        normalised: whether `log_density` has all constants. Default None: not known.
        name: what it is printed as.
        raw_sd: the number behind a learned standard deviation, a parameter in addition to the
            network's and appended to its output. Default None: there is none.
        raw_sd_prior: the prior of that number, as the argument `prior` of `networks.posterior`
            takes one. Default: N(0, 1).

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from ewsg_jax import networks
        >>> laplace = networks.Likelihood(
        ...     lambda output, row: -jnp.log(2.0) - jnp.abs(row["y"] - output),
        ...     mean=lambda output: output,
        ... )
        >>> round(float(laplace.log_density(jnp.array(1.0), {"y": jnp.array(1.0)})), 4)
        -0.6931
    """

    log_density: Callable[[Array, Data], Array]
    mean: Callable[[Array], Array] | None = None
    sd: Callable[[Array], Array] | None = None
    probabilities: Callable[[Array], Array] | None = None
    draw: Callable[[Key, Array], Array] | None = None
    check: Callable[[Any, Data], None] | None = None
    normalised: bool | None = None
    name: str = "a function"
    raw_sd: float | None = None
    raw_sd_prior: Any = 1.0


def _observed(data: Data) -> Any:
    return data["y"]


@dataclass(frozen=True)
class _Normal:
    """Densities and moments of a normal observation.

    Attributes:
        scale: its standard deviation, in units of y; None if the second half of the output says it.
        floor: the least standard deviation, in units of the output.
        origin: what the output 0 stands for, in units of y: a number for all, or for each.
        unit: what the output 1 is more than that, in units of y, of the same kind.
    """

    scale: float | None
    floor: float
    origin: tuple[float, ...] = (0.0,)
    unit: tuple[float, ...] = (1.0,)

    def _mean_and_sd(self, output: Array) -> tuple[Array, Array]:
        """Return means and standard deviations in units of the output, flat."""
        flat = jnp.ravel(output)
        if self.scale is not None:
            return flat, jnp.full_like(flat, self.scale) / self._origin_and_unit(flat)[1]
        # Means, and then as many raw standard deviations.
        half = flat.shape[0] // 2
        return flat[:half], jax.nn.softplus(flat[half:]) + self.floor

    def _origin_and_unit(self, like: Array) -> tuple[Array, Array]:
        """Return the origin and the unit as arrays of the dtype of another one."""
        return jnp.asarray(self.origin, like.dtype), jnp.asarray(self.unit, like.dtype)

    def log_density(self, output: Array, row: Data) -> Array:
        mean, sd = self._mean_and_sd(output)
        origin, unit = self._origin_and_unit(mean)
        z = ((jnp.ravel(_observed(row)) - origin) / unit - mean) / sd
        return jnp.sum(-0.5 * z**2 - jnp.log(sd) - jnp.log(unit) - 0.5 * math.log(2 * math.pi))

    def mean(self, output: Array) -> Array:
        mean, _ = self._mean_and_sd(output)
        origin, unit = self._origin_and_unit(mean)
        return self._shaped(origin + unit * mean)

    def sd(self, output: Array) -> Array:
        _, sd = self._mean_and_sd(output)
        return self._shaped(self._origin_and_unit(sd)[1] * sd)

    def draw(self, key: Key, output: Array) -> Array:
        mean, sd = self._mean_and_sd(output)
        origin, unit = self._origin_and_unit(mean)
        drawn = mean + sd * jax.random.normal(key, mean.shape, mean.dtype)
        return self._shaped(origin + unit * drawn)

    def check(self, output: Any, data: Data) -> None:
        y, per_y = _observed(data), 1 if self.scale is not None else 2
        size = math.prod(y.shape[1:])
        if pytrees.size(output) != per_y * size:
            if per_y == 1:
                takes = f"{size}, a mean for each number"
            else:
                takes = f"{2 * size}, means and then raw standard deviations, or {size}, means"
            _wrong_output("normal", takes, output, y)
        if jnp.issubdtype(y.dtype, jnp.complexfloating):
            raise TypeError(f"data['y'] must hold real numbers; got {checks.describe(y)}")

    @staticmethod
    def _shaped(flat: Array) -> Array:
        # One mean is a number, as one observation of a table is.
        return flat[0] if flat.shape == (1,) else flat


def _wrong_output(name: str, takes: str, output: Any, y: Any) -> NoReturn:
    """Raise what a network must return for a likelihood, and what it returned."""
    raise ValueError(
        f"apply must return for likelihood={name!r} and data['y'] of shape {tuple(y.shape)} "
        f"{takes}; it returned {checks.describe(output)} for one row"
    )


def normal(
    scale: float | Literal["learned"] | None = None,
    *,
    floor: float = 1e-6,
    scale_prior: Any = 1.0,
) -> Likelihood:
    """Return the likelihood of a normal observation by the mean, and maybe the standard deviation,
    that the network returns.

    With k numbers in an observation the network returns 2k: k means, then k raw standard
    deviations s, each standing for softplus(s) + `floor`. Or it returns k means: the standard
    deviation is then `scale`, or one unknown softplus(s) + `floor` for all, where s is a parameter
    that is sampled with the network's.

    Args:
        scale: the standard deviation, in units of y, or `"learned"`. Default: by what the network
            returns, from it if there are 2k numbers, learned if there are k.
        floor: the least standard deviation, in units of what the network returns.
            Default 1e-6.
        scale_prior: the prior of s, a standard deviation around 0 or a distribution. Default:
            N(0, 1).

    Raises:
        TypeError, ValueError: an argument has the wrong type or value.

    Example:
        >>> import jax.numpy as jnp
        >>> from ewsg_jax import networks
        >>> networks.normal(scale=2.0).log_density(jnp.array(1.0), {"y": jnp.array(1.0)}).round(4)
        Array(-1.6121, dtype=float32)
    """
    checks.positive("floor", floor)
    is_learned = scale == "learned"
    if scale is not None and not is_learned:
        if isinstance(scale, str):
            raise ValueError(
                f"scale must be a positive number, 'learned' or None; got {checks.describe(scale)}"
            )
        checks.positive("scale", scale)
    return _normal_likelihood(
        _Normal(None if is_learned else scale, floor), is_learned, scale_prior
    )


def _normal_likelihood(parts: _Normal, is_learned: bool, scale_prior: Any) -> Likelihood:
    """Return a normal likelihood, whose standard deviation may be a parameter with a prior."""
    return Likelihood(
        parts.log_density,
        parts.mean,
        parts.sd,
        draw=parts.draw,
        check=parts.check,
        normalised=True,
        name="normal",
        raw_sd=0.0 if is_learned else None,
        raw_sd_prior=scale_prior,
    )


def _categorical_density(logits: Array, row: Data) -> Array:
    return jax.nn.log_softmax(logits)[jnp.asarray(_observed(row), jnp.int32)]


def _categorical_check(logits: Any, data: Data) -> None:
    y = _observed(data)
    if len(logits.shape) != 1 or logits.shape[0] < 2:
        _wrong_output("categorical", "logits of shape (classes,)", logits, y)
    if y.ndim != 1:
        is_one_hot = y.ndim == 2 and y.shape[1] == logits.shape[0]
        way = "data['y'].argmax(axis=1)" if is_one_hot else "data['y'].reshape(-1)"
        raise ValueError(
            "data['y'] must hold one label for each row for likelihood='categorical', shape "
            f"({y.shape[0]},); got {checks.describe(y)}: give {way}"
        )
    if checks.are_known(y):
        checks.labels("data['y']", y, logits.shape[0])


def _bernoulli_density(logits: Array, row: Data) -> Array:
    logits, y = jnp.ravel(logits), jnp.ravel(_observed(row)).astype(bool)
    return jnp.sum(jax.nn.log_sigmoid(jnp.where(y, logits, -logits)))


def _per_number(function: Callable[[Array], Array]) -> Callable[[Array], Array]:
    """Return a function that is applied to each number of an output; to one of shape (1,) as to a
    scalar.
    """

    def applied(output: Array) -> Array:
        return function(jnp.reshape(output, ()) if output.shape == (1,) else output)

    return applied


def _checked_observations(name: str, what: str, output: Any, data: Data) -> Any:
    """Return the observations, for each number of which the output must have one.

    Args:
        name: the likelihood's name.
        what: what a number of the output is, in words.
        output: shape and dtype of an output.
        data: the rows.

    Raises:
        ValueError: the output has more or fewer numbers.
    """
    y = _observed(data)
    if pytrees.size(output) != math.prod(y.shape[1:]):
        _wrong_output(name, f"{math.prod(y.shape[1:])}, {what} for each number", output, y)
    return y


def _bernoulli_check(output: Any, data: Data) -> None:
    y = _checked_observations("bernoulli", "a logit", output, data)
    if checks.are_known(y):
        numbers = np.asarray(y).reshape(len(y), -1)
        # One of each row, a wrong one if there is one: the message names the row.
        first_wrong = np.argmax((numbers != 0) & (numbers != 1), axis=1)
        checks.labels("data['y']", numbers[np.arange(len(y)), first_wrong], 2)


def _poisson_density(log_rate: Array, row: Data) -> Array:
    log_rate = jnp.ravel(log_rate)
    y = jnp.ravel(_observed(row)).astype(log_rate.dtype)
    of_few = y * log_rate - jnp.exp(log_rate) - gammaln(y + 1)

    # Each of these terms is large for large counts, and rounds to units. None is in terms of
    # z = log(λ/y) and by Stirling's series of log y!: −y (eᶻ − 1 − z) − log(2πy)/2 − 1/(12y) + …
    # From 100 on the first term that is left out, 1/(1260y⁵), is below 1e-13.
    many = jnp.maximum(y, 100)
    z = log_rate - jnp.log(many)
    series = (1 / 12 - 1 / (360 * many**2)) / many
    of_many = many * (z - jnp.expm1(z)) - 0.5 * jnp.log(2 * math.pi * many) - series
    return jnp.sum(jnp.where(y < many, of_few, of_many))


def _poisson_check(output: Any, data: Data) -> None:
    y = _checked_observations("poisson", "a log rate", output, data)
    if not checks.are_known(y):
        return
    numbers = np.asarray(y)
    wrong = ~((numbers >= 0) & (numbers == np.floor(numbers)))
    if wrong.any():
        raise ValueError(
            "data['y'] must hold counts, whole numbers from 0 on; got "
            f"{numbers[wrong][0]} in row {np.argwhere(wrong)[0][0]}"
        )


def _named(name: str) -> Likelihood:
    """Return the likelihood of one of `NAMES`."""
    if name == "normal":
        return normal()
    if name == "categorical":
        return Likelihood(
            _categorical_density,
            probabilities=jax.nn.softmax,
            draw=jax.random.categorical,
            check=_categorical_check,
            normalised=True,
            name=name,
        )
    if name == "bernoulli":
        probability = _per_number(jax.nn.sigmoid)
        return Likelihood(
            _bernoulli_density,
            probability,
            _per_number(lambda logit: jnp.sqrt(jax.nn.sigmoid(logit) * jax.nn.sigmoid(-logit))),
            draw=lambda key, output: jax.random.bernoulli(key, probability(output)).astype(int),
            check=_bernoulli_check,
            normalised=True,
            name=name,
        )
    return Likelihood(
        _poisson_density,
        _per_number(jnp.exp),
        _per_number(lambda log_rate: jnp.exp(log_rate / 2)),
        draw=lambda key, output: jax.random.poisson(key, _per_number(jnp.exp)(output)),
        check=_poisson_check,
        normalised=True,
        name=name,
    )


def likelihood_of(value: object) -> Likelihood:
    """Check the argument `likelihood`, and return what it stands for."""
    if isinstance(value, Likelihood):
        return value
    if isinstance(value, str):
        checks.one_of("likelihood", value, NAMES)
        return _named(value)
    if not callable(value):
        raise TypeError(f"likelihood must be {TAKES_LIKELIHOOD}; got {checks.describe(value)}")
    return Likelihood(cast(Any, value))


def for_output(likelihood: Likelihood, output: Any, data: Data) -> Likelihood:
    """Return a likelihood for a network with such an output: a normal one that leaves the scale
    open learns it if the network returns means alone.
    """
    parts = normal_parts(likelihood)
    if parts is None or parts.scale is not None or likelihood.raw_sd is not None:
        return likelihood
    if pytrees.size(output) == math.prod(_observed(data).shape[1:]):
        return _normal_likelihood(parts, True, likelihood.raw_sd_prior)
    return likelihood


def check_predicts(likelihood: Likelihood) -> None:
    """Raise ValueError for a likelihood that says nothing of which draws could be averaged."""
    if likelihood.mean is None and likelihood.probabilities is None:
        raise ValueError(
            "likelihood must say a mean or class probabilities, which are averaged; got "
            f"{likelihood.name}: give networks.Likelihood(log_density, mean=…)"
        )


def checked_draw(likelihood: Likelihood) -> Callable[[Key, Array], Array]:
    """Return how a likelihood draws new observations.

    Raises:
        ValueError: it does not know how.
    """
    if likelihood.draw is None:
        raise ValueError(
            "likelihood must have a draw(key, output) for new observations; got "
            f"{likelihood.name}: give networks.Likelihood(log_density, draw=…)"
        )
    return likelihood.draw


def normal_parts(likelihood: Likelihood) -> _Normal | None:
    """Return what a likelihood of `normal` is made of; None for another one."""
    parts = getattr(likelihood.log_density, "__self__", None)
    return parts if isinstance(parts, _Normal) else None


def in_units(
    likelihood: Likelihood, origin: np.ndarray, unit: np.ndarray, shape: tuple[int, ...]
) -> Likelihood:
    """Return a normal likelihood whose output is in other units than y.

    Args:
        likelihood: one of `normal`.
        origin: what the output 0 stands for, in units of y, a number or one for each of the shape.
        unit: what the output 1 is more than that, in units of y, like the origin.
        shape: the shape of one observation.
    """
    parts = normal_parts(likelihood)
    assert parts is not None
    origins, units = (tuple(np.broadcast_to(x, shape).ravel().tolist()) for x in (origin, unit))
    parts = replace(parts, origin=origins, unit=units)
    return _normal_likelihood(parts, likelihood.raw_sd is not None, likelihood.raw_sd_prior)
