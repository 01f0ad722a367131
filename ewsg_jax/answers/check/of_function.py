"""One attempt of a check of a function of the position, whatever the position does.

The report is that of the function's numbers instead of coordinates. Only these must mix. If a
posterior has symmetric orbits, such as the units of a network in another order, chains in different
ones agree on whatever does not change along them.

The identities are those of the function itself (`differences`), in a metric C that is constant for
a part of the draws and comes from others: the covariance of all draws if positions agree; that of
each chain if each stays in one place; else a number for each leaf, which rotations and permutations
within leaves leave as it is.

If q = π(1 + ψ) is the distribution of the draws, an identity has the mean −E[∇ψ·C∇f] and f the bias
E[ψf]. With f in sds and D = E[∇f·C∇f] they are as D is to 1 if ψ is like f. If ψ is another
function the identity may show less: for C the covariance of a normal π no less than the bias, and
less by the largest variance in the metric C if C is smaller. By that much what a regression leaves
of f may be off.
"""

import functools
from dataclasses import replace

import jax
import numpy as np

from ewsg_jax.answers.check import settings
from ewsg_jax.answers.check.affine import metric_of, root_of
from ewsg_jax.answers.check.attempt import (
    KEYS_PER_ATTEMPT,
    CheckRequest,
    against_target,
    analyse,
    checked_gradients,
    corrected_moments,
    nothing_known,
    support_findings,
    why_not,
)
from ewsg_jax.answers.check.correction import Correction, TargetMoments
from ewsg_jax.answers.check.crossfit import (
    TINY,
    TwoBatches,
    averages,
    fitted,
    groups,
    halved,
    jackknife,
    mapped,
)
from ewsg_jax.answers.check.differences import (
    Differences,
    Metric,
    OfFunctions,
    differences,
    of_functions,
    shapes_of,
)
from ewsg_jax.answers.check.draws import Draws
from ewsg_jax.answers.check.gradients import FreshGradients
from ewsg_jax.answers.check.mixing import worst_rhat
from ewsg_jax.answers.check.report import Report
from ewsg_jax.answers.check.stein import Scores, scores_of
from ewsg_jax.base import limits
from ewsg_jax.base.typing import Key
from ewsg_jax.draws.convergence import CONVERGED
from ewsg_jax.draws.coordinates import flattened, named
from ewsg_jax.model_checks.finding import Finding, texts
from ewsg_jax.model_checks.gradient import num_compared, wrong_gradient
from ewsg_jax.vectors.layout import Layout
from ewsg_jax.vectors.row_subsets import evenly

Expectation = tuple[np.ndarray, np.ndarray]
"""Expectations of functions, and their standard errors, shape (q,) both."""


def attempt_of_function(request: CheckRequest, number: int, max_draws: int) -> Report:
    """Return the report on a function at no more than `max_draws` draws of all chains together.

    Args:
        request: what is asked, with a function.
        number: how many attempts there were before; each has random keys of its own.
        max_draws: the largest number of draws at which gradients are evaluated.

    Raises:
        ValueError: it is no function of a position, or one that is not finite or does not change.
    """
    assert request.of is not None
    draws, fresh = checked_gradients(request, number, max_draws, None)
    shapes = shapes_of(request.of, draws.layout)
    # Two sets of directions are never the same, nor those of the gradients' minibatches.
    key = jax.random.fold_in(request.key, KEYS_PER_ATTEMPT * (number + 1) - 2)
    identities, values_around, largest = _best_identities(key, request, draws, fresh)
    layout = Layout.of(shapes)
    by_name = named(layout.tree(draws.in_chains(values_around.here), float), "quantity")
    values, names = flattened(by_name, request.names)
    of_draws = draws._replace(values=values, layout=layout, names=names)
    findings = support_findings(request, number, draws)
    findings += wrong_gradient(
        request.posterior, draws.layout, draws.flat, draws.names, request.data
    )
    scores = scores_of(identities, request.error_rate, draws.shared)
    if draws.shared:
        of_draws = of_draws._replace(num_groups=min(draws.num_groups, scores.num_blocks))
    moments = _moments(of_draws, identities, scores.bound, largest)
    explained = _explained(identities)
    if not worst_rhat(draws.values)[0] > CONVERGED:
        correction = analyse(request.error_rate, draws, fresh).correction
        moments = _better(moments, _by_positions(correction, of_draws))
        explained = np.maximum(explained, correction.explained(of_draws.flat))
    findings += _not_known(names, identities.order, explained)
    report = _report(request, of_draws, scores, moments, fresh.data_passes, findings)
    return replace(report, num_compared=num_compared(request.posterior, draws.layout, request.data))


def _explained(identities: OfFunctions) -> np.ndarray:
    """Return the part of each function's variance that its own identity explains, shape (q,)."""
    first, second = identities.values["1"]
    # E g u = 1, so that the correlation is one over the sd; the product has no noise.
    square = np.mean(first * second, axis=(0, 1))
    return np.where(identities.order > 0, 1 / np.maximum(square, 1.0), 0.0)


def _not_known(names: tuple[str, ...], order: np.ndarray, explained: np.ndarray) -> list[Finding]:
    """Return a finding if gradients say nothing, or little, of a function, and none if they do.

    Args:
        names: names of the functions' numbers.
        order: what `OfFunctions.order` is.
        explained: the part of each variance that identities explain, shape (q,).
    """
    flat = [name for name, one in zip(names, order, strict=True) if not one]
    if flat:
        text = (
            f"of is one number within {settings.OF_STEP:g} sds of each draw "
            f"({', '.join(flat[: limits.NAMES_SHOWN])}), so that no gradient says anything of it"
        )
        return [Finding("no_identity", "error", text, "take one that changes with the position")]
    k = int(np.argmin(explained))
    # So much is explained of a normal distribution between two modes, three of its sds from each.
    if explained[k] >= 0.1:
        return []
    text = (
        f"identities of gradients explain {100 * explained[k]:.2g} % of the variance of "
        f"{names[k]}, as of what differs between modes, whose weights no gradient knows"
    )
    cure = "compare with chains from other starts, or take a function that is alike in all modes"
    return [Finding("no_identity", "doubt", text, cure)]


def _metrics(request: CheckRequest, draws: Draws, fresh: FreshGradients) -> list[list[Metric]]:
    """Return scales of directions, each for all parts of the draws, from other draws."""
    chains, count, _ = draws.values.shape
    everything = np.arange(chains * count)
    if request.mode is not None:
        return [[Metric(everything, metric_of(request.mode, request.temperature).root)]]
    # In a standard normal leaf the mean square of the gradient is 1.
    ends = np.cumsum([int(np.prod(shape)) for shape in draws.layout.shapes])
    squares = np.mean(fresh.first * fresh.second, axis=0)
    of_leaves = [np.full(len(leaf), leaf.mean()) for leaf in np.split(squares, ends[:-1])]
    roots = 1 / np.sqrt(np.maximum(np.concatenate(of_leaves), TINY))
    metrics = [[Metric(everything, roots)]]
    # Their numbers in the order of `flat`, as (chain, draw).
    numbers = draws.in_chains(everything[:, None])[..., 0].astype(int)
    center = draws.values.mean(1, keepdims=True)
    within = (draws.values - center) / np.maximum(draws.values.std(1, keepdims=True), TINY)
    if not worst_rhat(draws.values)[0] > CONVERGED:
        halves = np.array_split(numbers, 2, axis=0 if chains > 1 and not draws.shared else 1)
        metrics.append(_of_halves(draws, [half.ravel() for half in halves]))
    elif not worst_rhat(within)[0] > CONVERGED:
        halves = [half for chain in numbers for half in np.array_split(chain, 2)]
        metrics.append(_of_halves(draws, halves))
    return metrics


def _best_identities(
    key: Key, request: CheckRequest, draws: Draws, fresh: FreshGradients
) -> tuple[OfFunctions, Differences, float]:
    """Return the identities of a function whose correlation with it is largest, the function at
    the draws, and the largest variance of a direction in their metric, at least 1.
    """
    assert request.of is not None
    gradients, best, least = (fresh.first, fresh.second), None, np.inf
    metrics = _metrics(request, draws, fresh)
    for metric in metrics:
        around = differences(key, request.of, draws, gradients, metric)
        identities = of_functions(draws, around)
        noise = float(np.sum(np.var(identities.values["1"].mean(0), axis=(0, 1))))
        if noise < least or best is None:
            best, least = (identities, around, metric), noise
    assert best is not None
    return *best[:2], 1.0 if best[2] is metrics[0] else _largest_variance(draws, best[2])


def _largest_variance(draws: Draws, metrics: list[Metric]) -> float:
    """Return the largest variance of a direction in units of diagonal metrics, at least 1."""
    if metrics[0].root.ndim == 2:
        return 1.0
    centred = _in_rows(draws, draws.values - draws.values.mean(1, keepdims=True))
    largest = 1.0
    for rows, root in metrics:
        off = centred[rows[evenly(len(rows), settings.QUANTILE_DRAWS)]] / root
        largest = max(largest, float(np.linalg.norm(off, 2) ** 2 / len(off)))
    return largest


def _of_halves(draws: Draws, halves: list[np.ndarray]) -> list[Metric]:
    """Return each half with the root of the covariance of the other half of the same set.

    Args:
        draws: the draws.
        halves: the numbers of the draws of each half; two of a set follow each other.
    """
    flat, metrics = draws.flat, []
    overall = np.maximum(flat.std(0), TINY)
    fewest = min(map(len, halves))
    # A covariance matrix needs some draws for each parameter, as in `attempt`; by hand.
    is_dense = draws.size <= min(limits.MAX_DENSE_DIMENSION, fewest // 8)
    for k, rows in enumerate(halves):
        off = flat[halves[k ^ 1]]
        off = off - off.mean(0)
        # A half that never moves in a coordinate has sd 0.
        root = np.maximum(off.std(0), overall / settings.MAX_SDS)
        if is_dense:
            covariance = off.T @ off / len(off)
            np.fill_diagonal(covariance, root**2)
            root = root_of(covariance, symmetric=True)
        metrics.append(Metric(rows, root))
    return metrics


def _report(
    request: CheckRequest,
    draws: Draws,
    scores: Scores,
    moments: TargetMoments,
    data_passes: float,
    findings: list[Finding],
) -> Report:
    """Return the report on functions from their identities.

    Args:
        request: what is asked.
        draws: the functions at the draws, in place of coordinates.
        scores: by how much draws violate the functions' identities.
        moments: those of the functions under the target.
        data_passes: the cost of the gradients.
        findings: what is known of the places of the draws, and of the functions.
    """
    overall = draws.flat.mean(0), draws.flat.std(0)
    rhat, worst = worst_rhat(draws.values)
    errors = [one for one in findings if one.severity == "error"]
    unknown = texts(findings, "edge") or texts(errors, "no_identity")
    reason = texts(findings, "support") or unknown
    if not reason and rhat > CONVERGED:
        reason = "chains do not agree, so that shifts and ratios are not known"
        unknown = reason
    reason = reason or why_not(moments, scores.distance, draws.names)
    corrected = None
    if not reason:
        corrected = corrected_moments(draws, moments, "the function's own")
    ratio, shift = against_target(overall, moments)
    if unknown:
        ratio, shift, moments = nothing_known(moments)
    return Report(
        sd_ratio=draws.as_position(ratio.value),
        sd_ratio_error=draws.as_position(ratio.error),
        mean_shift=draws.as_position(shift.value),
        mean_shift_error=draws.as_position(shift.error),
        corrected=corrected,
        not_corrected=reason,
        scores=scores,
        rest=None,
        rhat=rhat,
        apart=draws.names[worst],
        data_passes=data_passes,
        tolerance=request.tolerance,
        draws=draws,
        analyses=(),
        moments=moments,
        findings=tuple(findings),
    )


def _moments(draws: Draws, identities: OfFunctions, bound: float, largest: float) -> TargetMoments:
    """Return moments of functions under the target, by regressions on their own identities.

    Args:
        draws: the functions at the draws.
        identities: those of the functions.
        bound: standard errors beyond which an identity is violated.
        largest: the largest variance of a direction in the metric of the identities.
    """
    rows = functools.partial(_in_rows, draws)
    u = rows(identities.draws)
    of = {name: (rows(pair[0]), rows(pair[1])) for name, pair in identities.values.items()}
    weakest = largest * identities.order

    # Squares of u, of a function with a long tail, are those of a few draws.
    functions = [pair for name, pair in of.items() if name != "u²"]

    def expectation(targets: np.ndarray, identity: TwoBatches, weakest: np.ndarray) -> Expectation:
        fit = fitted(targets, functions, draws.num_groups)
        # A few draws may decide the coefficients too: then errors at these draws are too small.
        parts = groups(len(targets), draws.num_groups)
        monte_carlo = np.maximum(
            fit.error, jackknife(np.stack([_without(part, targets, functions) for part in parts]))
        )
        shown = np.max([_shown(pair, draws.num_groups)[0] for pair in functions], axis=0)
        _, hidden, effect, error = _shown(identity, draws.num_groups)
        distance = np.hypot(shown, bound * hidden / 2)
        left = np.minimum(fit.residual**2 / np.maximum(targets.var(0), TINY), 1.0)
        by_identity = left * weakest * np.hypot(effect, bound * error / 2)
        bias = settings.BIAS_SHARE * np.maximum(distance * fit.residual, by_identity)
        return fit.expectation, np.hypot(monte_carlo, bias)

    mean = expectation(u, of["1"], weakest)
    # u² changes twice as much as u²/2, whose identity it is.
    square = expectation((u - mean[0]) ** 2, of["u"], 2 * weakest)
    return _bounded(draws, mean, square)


def _without(part: slice, targets: np.ndarray, functions: list[TwoBatches]) -> np.ndarray:
    """Return expectations by a regression on all draws but those of one part, shape (q,)."""

    def rest(values: np.ndarray) -> np.ndarray:
        return np.delete(values, part, axis=0)

    return fitted(rest(targets), [mapped(rest, pair) for pair in functions], 2).expectation


def _shown(functions: TwoBatches, num_groups: int) -> tuple[np.ndarray, ...]:
    """Return the mean of Stein functions in their sds, without sign, and its standard error; and
    both as they are, shape (q,) each.
    """
    mean, half = halved(functions)
    effect, error = averages(mean, num_groups)
    noise = 0.0 if half is None else np.mean(half**2, axis=0)
    sd = np.sqrt(np.maximum(mean.var(0) - noise, np.maximum(mean.var(0) / 16, TINY)))
    return np.abs(effect) / sd, error / sd, effect, error


def _by_positions(correction: Correction, draws: Draws) -> TargetMoments:
    """Return the same by regressions on the identities of the coordinates, which must mix."""
    u = (draws.flat - draws.flat.mean(0)) / draws.flat.std(0)
    mean = correction.expectation(u)
    return _bounded(draws, mean, correction.expectation((u - mean[0]) ** 2))


def _bounded(draws: Draws, mean: Expectation, square: Expectation) -> TargetMoments:
    """Return moments of functions, as far as one correction goes.

    Args:
        draws: the functions at the draws.
        mean: expectations of u, the functions in sds of the draws, and their standard errors.
        square: those of the square of u less its expectation.
    """
    center, sd = draws.flat.mean(0), draws.flat.std(0)
    most, least = settings.MAX_MEAN_SHIFT, settings.MIN_ERROR
    shift = np.clip(mean[0], -most, most)
    mean_error = mean[1] + np.abs(mean[0] - shift)
    variance = np.clip(square[0], settings.MIN_VARIANCE_RATIO, settings.MAX_VARIANCE_RATIO)
    error = np.hypot(square[1], mean_error**2) + np.abs(square[0] - variance)
    return TargetMoments(
        mean=center + sd * shift,
        sd=sd * np.sqrt(variance),
        mean_error=sd * np.clip(mean_error, least, settings.MAX_SDS),
        sd_error=np.clip(error / 2 / np.minimum(variance, 1.0), least, settings.MAX_SDS),
        covariance=None,
    )


def _better(one: TargetMoments, other: TargetMoments) -> TargetMoments:
    """Return of each mean, and of each sd, the one with the smaller error."""
    mean, sd = other.mean_error < one.mean_error, other.sd_error < one.sd_error
    return TargetMoments(
        mean=np.where(mean, other.mean, one.mean),
        sd=np.where(sd, other.sd, one.sd),
        mean_error=np.where(mean, other.mean_error, one.mean_error),
        sd_error=np.where(sd, other.sd_error, one.sd_error),
        covariance=None,
    )


def _in_rows(draws: Draws, values: np.ndarray) -> np.ndarray:
    """Return an array (chain, draw, q) in the order of `draws.flat`, shape (draws, q)."""
    return draws._replace(values=values).flat
