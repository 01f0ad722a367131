"""The posterior of rows that are ready: its model, its prior and its groups."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

import ewsg_jax as ewsg
from ewsg_jax.base import checks, limits
from ewsg_jax.cli.arguments import PlanArguments, Prior
from ewsg_jax.cli.config import ConfigError
from ewsg_jax.cli.counts import count_regression, overdispersion
from ewsg_jax.cli.data_file import FileRows
from ewsg_jax.cli.delimited import shown
from ewsg_jax.cli.design import Groups
from ewsg_jax.cli.weights import WeightPrior, with_prior
from ewsg_jax.datasets import Dataset, Standardisation

OWN_NAME = ("logistic", "softmax", "linear")
"""Models of `ewsg_jax.models`; those of counts are in `cli/counts.py`."""


class Units(NamedTuple):
    """How weights of the rows that are sampled become those of the file.

    Attributes:
        scaling: the map of the features.
        shift: what was subtracted from the response.
        scale: what it was then divided by.
        intercept: whether there is a column of ones.
        num_classes: classes with weights each; 0 if there is one weight for a feature.
    """

    scaling: Standardisation
    shift: float
    scale: float
    intercept: bool
    num_classes: int


def model_of(
    arguments: PlanArguments,
    file_rows: FileRows,
    data: Dataset,
    units: Units,
    classes: Sequence[str],
) -> tuple[ewsg.Posterior, list[str], np.ndarray]:
    """Return the posterior, what it is in words, and a start.

    Args:
        arguments: the model, the priors and the noise that were asked for.
        file_rows: the rows of the file, with its groups and its exposure.
        data: the rows that are sampled: scaled, with a column of ones last if there is an
            intercept.
        units: how their weights become those of the file.
        classes: the classes with weights each, the reference first; none for a model with one
            weight for a feature.

    Returns:
        The posterior; lines in words; and a start, shape (d,), or (d, class) with classes. With
        groups the logarithm of their scale and an effect for each group come below the weights.

    Raises:
        ConfigError: there are too many groups or levels, a prior names no weight, or least squares
            leave no residuals that say the noise scale.
    """
    groups, kind = file_rows.groups, arguments.model
    num_groups = 0 if groups is None else len(groups.names)
    per_weight = [len(classes)] * bool(classes)
    shape = (data.x.shape[1], *per_weight)
    num_weights = int(np.prod(shape))
    num_below = (num_groups + 1 if groups else 0) * max(1, len(classes))
    _check_size(arguments, num_weights, num_below, num_groups)

    prior = f"prior N(0, {arguments.prior_scale:.4g}² I)"
    if arguments.prior_scale == math.inf:
        prior = "flat prior"
    words = f"{kind.replace('_', ' ')} regression, {prior} on {num_weights} weights"
    more = []
    mean, scale = np.zeros(shape), np.full(shape, arguments.prior_scale)
    start = np.zeros(shape)
    # Counts may be of any size: around a log rate of 0 the prior would move their intercept.
    if kind not in OWN_NAME and arguments.intercept:
        start[-1] = mean[-1] = math.log(_rate(data, file_rows))
        of = "overall rate" if file_rows.exposure else "mean count"
        words += f", of the intercept around the log of the {of}"
    of_scale = 1.0
    if arguments.priors:
        weights = _weights_by_name(data.feature_names, classes)
        of_scale = _set_priors(arguments, file_rows, units, weights, mean, scale)
        more = [
            f"prior of {name}: N({p.mean:g}, {p.scale:g}²)" for name, p in arguments.priors.items()
        ]

    posterior, said = _regression(arguments, file_rows, data, units)
    words += said
    # The library's own posterior has this prior already.
    if groups is None and not arguments.priors and kind in OWN_NAME:
        return posterior, [words], start
    if groups is not None:
        scale_words = f"N(0, {of_scale * units.scale:.4g}²)"
        more.append(
            f"an intercept for each of {num_groups:,} groups of {groups.name}, whose sd has the "
            f"prior |{scale_words}|"
        )
        start = np.concatenate([start, np.zeros((num_groups + 1, *per_weight))])
    # 0 for a flat prior.
    precision = np.where(np.isinf(scale), 0.0, np.square(scale) ** -1.0)
    listed = tuple(mean.ravel().tolist()), tuple(precision.ravel().tolist())
    weight_prior = WeightPrior(*listed, num_groups, of_scale**-2.0)
    is_linear = groups is None or _surely_differ(data, file_rows, len(classes))
    posterior = with_prior(posterior, weight_prior, f"{kind}_regression(…)", is_linear)
    return posterior, [words, *more], start


def _check_size(
    arguments: PlanArguments, num_weights: int, num_below: int, num_groups: int
) -> None:
    """Raise ConfigError if a posterior that needs dense matrices has too many numbers.

    Args:
        arguments: the model that was asked for.
        num_weights: the number of weights of features.
        num_below: the numbers of groups: the logarithms of scales, and effects.
        num_groups: the number of groups.
    """
    size = num_weights + num_below
    if size > limits.MAX_DENSE_DIMENSION and (num_groups or arguments.model not in OWN_NAME):
        raise ConfigError(
            f"{arguments.data} must have fewer groups or levels: {size:,} weights, "
            f"{num_groups:,} of them of groups, are more than the "
            f"{limits.MAX_DENSE_DIMENSION:,} that are sampled together"
        )


def _weights_by_name(features: Sequence[str], classes: Sequence[str]) -> dict[str, tuple]:
    """Return the place of weights in a position, by the names that `[plan.priors]` may use.

    A feature is the weights of all classes, `feature[class]` the weight of one.
    """
    places: dict[str, tuple] = {name: (i, ...) for i, name in enumerate(features)}
    places |= {
        f"{name}[{of}]": (i, j) for i, name in enumerate(features) for j, of in enumerate(classes)
    }
    return places


def _regression(
    arguments: PlanArguments, file_rows: FileRows, data: Dataset, units: Units
) -> tuple[ewsg.Posterior, str]:
    """Return the posterior of the model that was asked for, without groups, and the words about
    its noise; one of counts has a flat prior.
    """
    kind = arguments.model
    if kind == "linear":
        if arguments.noise_scale is None:
            noise = _residual_scale(data, file_rows.groups)
            origin = "that of the residuals of least squares"
        else:
            noise, origin = arguments.noise_scale / units.scale, "as given"
        posterior = ewsg.models.linear_regression(
            noise_scale=noise, prior_scale=arguments.prior_scale
        )
        return posterior, f"; noise scale {noise * units.scale:.4g}, {origin}"
    if kind in OWN_NAME:
        model = getattr(ewsg.models, f"{kind}_regression")
        return model(prior_scale=arguments.prior_scale), ""
    alpha, said = 0.0, ""
    if kind == "negative_binomial":
        alpha, said = _overdispersion(arguments, data, file_rows)
    return count_regression(alpha), said


def _rate(data: Dataset, file_rows: FileRows) -> float:
    """Return the mean count, or the count per one of the exposure."""
    exposure = file_rows.exposure
    return float(data.y.mean() / (exposure.numbers.mean() if exposure else 1.0))


def _surely_differ(data: Dataset, file_rows: FileRows, num_classes: int) -> bool:
    """Return whether groups differ so much that no draw has them equal, by least squares.

    The sum of squares between the groups, in variances within them, is that of χ² with a degree of
    freedom for each group if they are equal. Beyond five times that and 50, e⁻²⁵ is left of the
    posterior there.
    """
    y, groups, exposure = data.y.astype(float), file_rows.groups, file_rows.exposure
    assert groups is not None
    if exposure:
        y = y - _rate(data, file_rows) * exposure.numbers
    responses = [y == k for k in range(num_classes)] if num_classes else [y]
    size = np.bincount(groups.numbers)
    for response in responses:
        weights = np.linalg.lstsq(data.x, response, rcond=None)[0]
        left = response - data.x @ weights
        between = np.sum(np.bincount(groups.numbers, left) ** 2 / size)
        if between < (5 * len(size) + 50) * left.var():
            return False
    return True


def _set_priors(
    arguments: PlanArguments,
    file_rows: FileRows,
    units: Units,
    names: dict[str, tuple],
    mean: np.ndarray,
    scale: np.ndarray,
) -> float:
    """Write the priors of `[plan.priors]` to those of the weights, and return that of the groups'
    scale.

    A name is that of a weight, or of a column with all its levels; the intercept's is the prior of
    a row of average features.
    """
    factor = np.append(units.scaling.factor, 1.0) * units.scale
    of_scale = 1.0
    by_column: dict[str, list[int]] = {}
    for i, feature in enumerate(file_rows.features):
        by_column.setdefault(feature.column, []).append(i)
    groups = f"sd of {file_rows.groups.name}" if file_rows.groups else None

    def narrowness(item: tuple[str, Prior]) -> int:
        """Return 0 for a column of levels, 1 for a feature, 2 for the weight of one class."""
        place = names.get(item[0])
        return 0 if place is None else 1 + (place[-1] is not ...)

    # Wide ones first, so that a level, or a class, of a column may have its own.
    for name, prior in sorted(arguments.priors.items(), key=narrowness):
        if name == groups:
            of_scale = prior.scale / units.scale
            continue
        if name in names:
            places = [names[name]]
        elif name in by_column:
            places = [(i, ...) for i in by_column[name]]
        else:
            known = [*names, *by_column, *([groups] if groups else [])]
            hint = checks.nearest(name, known) or f"; known are {shown(known)}"
            raise ConfigError(f"plan.priors must name columns or weights; got {name!r}{hint}")
        for place in places:
            at = place[0]
            if not factor[at]:
                raise ConfigError(
                    f"plan.priors must name columns that vary; {name!r} is constant, so that its "
                    "scaled numbers are 0: leave the column out, or give --no-standardise"
                )
            is_intercept = arguments.intercept and at == len(mean) - 1
            mean[place] = (prior.mean - units.shift * is_intercept) / factor[at]
            scale[place] = prior.scale / factor[at]
    return of_scale


def _overdispersion(
    arguments: PlanArguments, data: Dataset, file_rows: FileRows
) -> tuple[float, str]:
    """Return the overdispersion of counts, and where it is from."""
    if arguments.dispersion is not None:
        return arguments.dispersion, f"; overdispersion {arguments.dispersion:.4g}, as given"
    x, groups, exposure = data.x, file_rows.groups, file_rows.exposure
    if groups is not None:
        x = np.column_stack([x, np.eye(len(groups.names))[groups.numbers]])
    scale = min(arguments.prior_scale, 1e3)
    offset = np.log(_rate(data, file_rows) * exposure.numbers) if exposure else 0.0
    alpha = overdispersion(x.astype(float), data.y.astype(float), scale**-2.0, offset)
    if not alpha:
        return 0.0, "; no overdispersion, by maximum likelihood: counts vary as Poisson's"
    return (
        alpha,
        f"; overdispersion {alpha:.4g}, by maximum likelihood (variance μ + {alpha:.4g} μ²)",
    )


def _residual_scale(data: Dataset, groups: Groups | None = None) -> float:
    """Return the standard deviation of the residuals of least squares; raise if there are none."""
    x, y = data.x.astype(float), data.y.astype(float)
    num_groups = 0
    if groups is not None:
        # Each group has its own mean.
        num_groups = len(groups.names)
        size = np.bincount(groups.numbers)
        means = [np.bincount(groups.numbers, column) / size for column in (y, *x.T)]
        y = y - means[0][groups.numbers]
        x = x - np.stack(means[1:], axis=1)[groups.numbers]
    weights, _, rank, _ = np.linalg.lstsq(x, y, rcond=None)
    freedom = data.num_rows - int(rank) - num_groups
    left = float(np.sum((y - x @ weights) ** 2))
    # A line that fits exactly: a noise scale of rounding errors would follow.
    if freedom < 1 or left <= 1e-12 * float(np.sum(data.y**2)):
        raise ConfigError(
            f"--noise-scale is missing: least squares leave no residuals of {data.num_rows} rows "
            f"and {data.x.shape[1]} weights that could say it"
        )
    return math.sqrt(left / freedom)
