"""How wrong draws are, from the model's own gradients at them and no reference.

For the target, and for no other law, E ∇V = 0 and E[∇V (θ − m)ᵀ] = T·I, and so on for every
function (Stein's identities). What draws lack of them is a bias of the run, once it is more than
chance; and with it the moments that the draws should have are found.
"""

import dataclasses
from collections.abc import Callable

import jax
import numpy as np
from jax.sharding import Mesh

from ewsg_jax.answers.check import stein
from ewsg_jax.answers.check.affine import root_of
from ewsg_jax.answers.check.basis import most_functions
from ewsg_jax.answers.check.brascamp_lieb import as_wide, far_out, prior_moments, too_wide
from ewsg_jax.answers.check.correction import MOST_DENSE, Correction, Moments
from ewsg_jax.answers.check.correlated_pairs import correlated
from ewsg_jax.answers.check.crossfit import TINY
from ewsg_jax.answers.check.draws import Draws, draws_of
from ewsg_jax.answers.check.edges import cut_off
from ewsg_jax.answers.check.gradient_check import mistaken, num_compared
from ewsg_jax.answers.check.gradients import Fresh, fresh_gradients
from ewsg_jax.answers.check.kinetic import check_kernel, kinetic, unknown_law
from ewsg_jax.answers.check.likelihood_size import odd_size
from ewsg_jax.answers.check.mixing import worst_rhat
from ewsg_jax.answers.check.moved_draws import Reckoning, nearer
from ewsg_jax.answers.check.report import MOST_USED, UNKNOWN, Corrected, Report
from ewsg_jax.answers.mode.mode import Mode
from ewsg_jax.base import checks
from ewsg_jax.base.freshness import reads_now
from ewsg_jax.base.typing import Data, Key, PyTree
from ewsg_jax.draws.coordinates import CONVERGED, Names
from ewsg_jax.kernels.protocol import Kernel
from ewsg_jax.model_checks.support import NONE, Outside, outside_by_batches
from ewsg_jax.model_checks.support_ends import can_end
from ewsg_jax.posterior.posterior import Posterior, check_posterior
from ewsg_jax.rows import _spread as spread
from ewsg_jax.rows._named import Rows
from ewsg_jax.run.samples import Samples, mean_of, sd_of
from ewsg_jax.vectors.layout import vector

NEAR = 0.1
"""The distance from the target, beyond chance, above which draws are moved and corrected again."""
MOST_ERROR = 0.5
"""Of a corrected mean, in sds, or of an sd, relatively: with larger ones there is no correction."""
MOST_DISTANCE = 100
"""Of a distance from the target, in sds: beyond it only that it is larger is known."""
APART = 0.25
"""Of corrected chains' means, in sds: farther apart no correction explains why they disagree."""
LARGEST_RATIO, LARGEST_SHIFT = 5.0, 10.0
"""Of an sd, and of a mean in sds: of draws that cannot be corrected no larger one is measured."""
LOOKS = (4_000, MOST_USED)
"""Draws that are used, and how many where these cannot decide."""
MOST_BYTES = 2**30
"""Of Stein functions at the draws, above which no more draws are used."""
MOST_NUMBERS = 16
"""Numbers of gradients of a look, each with a key of its own."""


@reads_now("posterior", "kernel")
def check(
    key: Key,
    samples: Samples | PyTree,
    posterior: Posterior,
    data: Data,
    *,
    mode: Mode | None = None,
    kernel: Kernel | None = None,
    temperature: float = 1.0,
    tolerance: float = 0.05,
    error_rate: float = 0.02,
    max_draws: int | None = None,
    batch_size: int = 1_000,
    rows: Rows | None = None,
    names: Names = None,
    shared_minibatch: bool | None = None,
    mesh: Mesh | None = None,
) -> Report:
    """Report how far draws are from the posterior, with errors, and correct them.

    It works on draws from any sampler: a run of this library or another, a Laplace approximation,
    variational inference. It needs no reference: the model's gradients at the draws show what the
    target is. Each draw costs two fresh batches.

    Args:
        key: a typed PRNG key, for the batches.
        samples: what `ewsg_jax.sample` returned, or draws of positions, a tree of arrays with the
            leading axes (chain, draw); several chains, or one of them.
        posterior: what should have been sampled.
        data: all n rows.
        mode: what `find_mode` returned for it, whose covariance gives the directions that are used;
            None: each half of the draws gives those of the other half.
        kernel: of the run that made the samples, of a dynamics with a momentum: it continues for a
            tenth of its steps to measure the kinetic temperature, by direction (`report.kinetic`).
            A dynamics of your own says by `gaussian_momentum = True` that its kinetic energy is
            ‖p‖²/2; without, and for None, it is not measured.
        temperature: T of the target exp(−V/T).
        tolerance: how far off, relatively, a standard deviation may be; a mean twice as many of
            them.
        error_rate: how often a right run is called wrong.
        max_draws: draws of all chains together that are used, evenly spaced. Default: 4,000, or
            16,000 where these cannot decide.
        batch_size: rows for each draw, in two batches; all rows where there are no more.
        rows: how they are drawn, as `gradients.uniform` takes it. Default: by their norms in the
            draws' own metric where data enter through linear predictors, else uniformly.
        names: a name for each coordinate. Default: its place in the tree of the position.
        shared_minibatch: whether the chains share their batches: errors then come from blocks of
            time of all chains together. Default: what samples of this library say of themselves,
            and False of other draws.
        mesh: several devices, as of `ewsg_jax.sample`, by which the samples may have been made or
            not: along `"data"` each has a part of the rows, and its share of every batch, drawn
            uniformly.

    Raises:
        TypeError, ValueError: an argument has the wrong type or value; there are fewer than eight
            draws of a chain, or none that is finite; a coordinate never moves; the gradient is not
            finite at a draw.
        KeyboardInterrupt: with `kernel=`, the run that continues was interrupted.

    Example:
        >>> import jax, jax.numpy as jnp, ewsg_jax as ewsg
        >>> model, data = ewsg.models.gaussian_location(), jnp.linspace(-1.0, 1.0, 40)[:, None]
        >>> kernel = ewsg.sgld(model, 0.02, batch_size=4)  # the posterior's sd is 0.156
        >>> samples = ewsg.sample(
        ...     jax.random.key(0), kernel, jnp.zeros(1), data, 8_000, num_chains=8, burn_in=100
        ... )
        >>> report = ewsg.check(jax.random.key(1), samples, model, data)
        >>> report.outcome, report.sd_ratio.round(1), report.corrected.sd.round(2)
        ('wrong', Array([2.], dtype=float32), Array([0.16], dtype=float32))
    """
    # Arguments first, all of them: what follows may take minutes.
    checks.key(key)
    check_posterior(posterior)
    checks.data(data)
    for name, value in {
        "temperature": temperature,
        "tolerance": tolerance,
        "error_rate": error_rate,
    }.items():
        checks.positive(name, value)
    checks.decay("tolerance", tolerance)
    checks.decay("error_rate", error_rate)
    if max_draws is not None:
        checks.integer("max_draws", max_draws, minimum=64)
    checks.integer("batch_size", batch_size, minimum=2)
    if names is not None:
        checks.texts("names", names)
    if shared_minibatch is not None:
        checks.boolean("shared_minibatch", shared_minibatch)
    if kernel is not None:
        check_kernel(kernel, samples)
    # Data that lie over devices stay there; others go to the device once.
    given, data = data, spread.over(mesh, data)
    if not isinstance(data, spread.Spread):
        data = jax.device_put(data)
    elif rows not in (None, "random"):
        raise ValueError(
            f"rows must be None or 'random' with mesh, which cuts the data; got {rows!r}"
        )

    def looked(look: int, most: int) -> Report:
        draws = draws_of(samples, names, most, shared_minibatch)
        draws.check_chains()
        if mode is not None:
            draws.check_mode(mode)

        # A key for each set of gradients, so that no noise is used twice.
        def gradients(number: int, draws: Draws) -> Fresh:
            own = jax.random.fold_in(key, MOST_NUMBERS * look + number)
            return fresh_gradients(
                own, posterior, draws, data, batch_size, rows, float(temperature)
            )

        # Of all draws; gradients are taken at some of them.
        tree = samples.draws if isinstance(samples, Samples) else samples
        mean = mean_of(tree, draws.chains)
        whole = vector(mean), vector(sd_of(tree, draws.chains, mean))
        first = gradients(0, draws)
        if not first.is_finite and not isinstance(data, spread.Spread):
            # Where the data are why they are named.
            checks.finite("data", data)
        first.check()
        # With a mode directions are known beforehand; without one half of the draws finds them.
        metric = None if mode is None else metric_of(mode, float(temperature))
        prior = prior_moments(posterior, draws, float(temperature))
        bounds = prior.widths if prior and posterior.log_concave else None
        for_rows = jax.random.fold_in(key, MOST_NUMBERS * look + MOST_NUMBERS - 1)
        beyond, edge = NONE, ""
        # Where no density can end by its structure, what overflows shows in the gradient.
        ends = can_end(posterior, draws.layout.tree(draws.flat[0]), data)
        if any(ends):
            beyond = outside_by_batches(
                for_rows, posterior, draws.layout, draws.flat, data, batch_size
            )
            edge = "" if beyond else cut_off(posterior, draws, data, ends, float(tolerance))
        report = _judged(
            draws,
            whole,
            first,
            gradients,
            metric,
            bounds,
            beyond,
            edge,
            float(tolerance),
            float(error_rate),
        )
        # What identities cannot see: a coordinate far beyond the prior, or as wide as it.
        notes = [far_out(whole[0], prior, draws.names)]
        if report.outcome != "wrong" and report.corrected is not None:
            # Of a wrong run, or one far from its target, the width says nothing of the data.
            notes.append(as_wide(whole[1], prior, draws.names))
        return dataclasses.replace(report, note="; ".join(filter(None, notes)))

    # More draws only where fewer could not decide, and where there are more to be had.
    report, passes = looked(0, max_draws or LOOKS[0]), 0.0
    for look, most in enumerate(LOOKS[1:], 1):
        if max_draws is not None or not report.needs_more:
            break
        if 16 * most * most_functions(most, report.draws.size) > MOST_BYTES:
            break
        passes += report.data_passes
        report = looked(look, most)
    notes, draws = [report.note], report.draws
    center, covariance = report.moments.mean, report.moments.covariance
    if report.corrected is not None and covariance is not None:
        own = covariance / float(temperature)
        notes.append(odd_size(posterior, draws.layout, center, own, data))
        notes.append(correlated(covariance, draws.names))
    report = dataclasses.replace(
        report,
        note="; ".join(filter(None, notes)),
        data_passes=passes + report.data_passes,
        mistaken=mistaken(posterior, draws, data),
        num_compared=num_compared(draws, data),
        num_steps=int(np.ptp(samples.step)) if isinstance(samples, Samples) else 0,
    )
    # The momenta say more where the kernel is known: their temperature has a law of its own.
    if kernel is None:
        return report
    if unknown := unknown_law(kernel):
        return dataclasses.replace(report, no_kinetic=unknown)
    own = jax.random.fold_in(key, MOST_NUMBERS * len(LOOKS))
    heat, passes = kinetic(
        own, kernel, samples, data if mesh is None else given, float(temperature), mesh
    )
    return dataclasses.replace(report, kinetic=heat, data_passes=report.data_passes + passes)


def _judged(
    draws: Draws,
    whole: tuple[np.ndarray, np.ndarray],
    first: Fresh,
    gradients: Callable[[int, Draws], Fresh],
    metric: tuple[np.ndarray, np.ndarray] | None,
    bounds: np.ndarray | None,
    beyond: Outside,
    edge: str,
    tolerance: float,
    error_rate: float,
) -> Report:
    """Judge draws and find what is right; `whole` are mean and sd of all, unused ones too."""

    def reckoned(
        own: Draws, fresh: Fresh, metric: tuple[np.ndarray, np.ndarray] | None = None
    ) -> Reckoning:
        scores = _scores(own, fresh, metric, error_rate)
        if own.shared:
            # Chains that share batches are not independent, so groups are cut in time.
            own = own._replace(num_groups=min(own.num_groups, scores.num_blocks))
        distance = float(np.hypot(scores.distance, scores.hidden))
        correction = Correction(own.flat, fresh.first, fresh.second, distance, own.num_groups)
        return Reckoning(own, scores, correction)

    here = reckoned(draws, first, metric)
    mean, sd = whole[0], np.maximum(whole[1], TINY)
    rhat, least = worst_rhat(draws.values)
    apart = np.zeros((2, draws.size))
    if rhat > CONVERGED:
        # Groups of one chain's draws are not independent then: chains are.
        apart = here.correction.apart(draws.in_chains)
    # Far from the target a correction errs: draws are moved first, and corrected from there. Of
    # draws at a wall, and of chains that are apart when they are corrected, nothing is told.
    if edge or np.max(apart) > APART:
        end, passes = here, 0.0
    else:
        end, passes = nearer(here, gradients, reckoned, NEAR)
    found = end.correction.moments
    if end is not here:
        # What is right must not depend on where it is looked for.
        found = found.beside(here.correction.moments)
    if rhat > CONVERGED:
        found = found.of_chains(apart, len(draws.values))
    # Impossible draws first: then no number that follows means anything.
    reason = str(beyond) or edge
    if not reason and np.max(apart) > APART:
        reason = (
            f"their means are {np.max(apart):.2g} sd apart when they are corrected too, as in "
            "several modes"
        )
    reason = reason or _why_not(found, here.scores.distance, draws.names)
    corrected = Corrected(
        mean=draws.told(found.mean),
        sd=draws.told(found.sd),
        mean_error=draws.told(found.mean_error),
        sd_error=draws.told(found.sd * found.sd_error),
        covariance=found.covariance,
        by=end.correction.by,
    )
    ratio, shift = sd / found.sd, (mean - found.mean) / found.sd
    ratio_error, shift_error = ratio * found.sd_error, found.mean_error / found.sd
    if edge or (reason and rhat > CONVERGED):
        # Errors are from how groups of draws differ: of chains that have not met they say nothing.
        if rhat > CONVERGED:
            reason = f"chains do not agree, so that shifts and ratios are not known; {reason}"
        ratio, shift, ratio_error, shift_error = np.full((4, draws.size), np.nan)
        unknown = np.full(draws.size, np.nan)
        found = found._replace(mean_error=unknown, sd_error=unknown)
    elif reason:
        ratio_error = beyond_measure(ratio, ratio_error, LARGEST_RATIO)
        shift_error = beyond_measure(np.abs(shift), shift_error, LARGEST_SHIFT)
    return Report(
        sd_ratio=draws.told(ratio),
        sd_ratio_error=draws.told(ratio_error),
        mean_shift=draws.told(shift),
        mean_shift_error=draws.told(shift_error),
        corrected=None if reason else corrected,
        not_corrected=reason,
        scores=here.scores,
        rest=None if end is here else end.scores,
        outside=str(beyond),
        cut_off=edge,
        impossible=too_wide(draws, bounds, tolerance, error_rate),
        rhat=rhat,
        apart=draws.names[least],
        num_chains=len(draws.values) + draws.num_lost,
        num_lost=draws.num_lost,
        num_draws=draws.num_draws,
        num_used=len(draws.flat),
        data_passes=first.data_passes + passes,
        tolerance=tolerance,
        names=draws.names,
        reckonings=(here,) if end is here else (here, end),
        moments=found,
        lost=draws.lost,
        is_cut=draws.is_cut,
    )


def beyond_measure(sizes: np.ndarray, errors: np.ndarray, largest: float) -> np.ndarray:
    """Return the errors, infinite where a size seems to be known and is not measured so large.

    Draws are moved so far at most: that they are farther from the target is all that is known.
    """
    return np.where((sizes >= largest) & (errors < UNKNOWN), np.inf, errors)


def _why_not(found: Moments, distance: float, names: tuple[str, ...]) -> str:
    """Return in words why moments are not known well enough to be taken; nothing where they are."""
    errors = np.maximum(found.mean_error / found.sd, found.sd_error)
    # The least known number decides: one of many that is wrong is a wrong report.
    k = int(np.argmax(errors))
    if errors[k] <= MOST_ERROR:
        return ""
    size = f"up to {errors[k]:.2g}" if errors[k] < 10 else "beyond 10"
    size_of = (
        f"at least {distance:.2g}" if distance < MOST_DISTANCE else f"more than {MOST_DISTANCE}"
    )
    far = f"the draws are {size_of} sd from a target that is not normal"
    why = far if distance > NEAR else "too few draws, or gradients too noisy"
    return f"corrected moments have errors {size} sd ({names[k]}): {why}"


def metric_of(mode: Mode, temperature: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the mode and a root of its covariance, flat.

    Raises:
        ValueError: it has no matrix.
    """
    center = vector(mode.position)
    covariance = mode.covariance
    if not isinstance(covariance, np.ndarray):
        raise ValueError(
            f"mode must be of at most {MOST_DENSE:,} numbers; got one of {len(center):,}"
        )
    return center, root_of(temperature * covariance, symmetric=True)


def _scores(
    draws: Draws, fresh: Fresh, metric: tuple[np.ndarray, np.ndarray] | None, error_rate: float
) -> stein.Scores:
    slopes = draws.in_chains(fresh.mean)
    apart = (
        None if fresh.first is fresh.second else draws.in_chains((fresh.first - fresh.second) / 2)
    )
    if metric is not None:
        # By a mode, or by the draws' own halves, dense where there are eight draws a number.
        directions = stein.by_root(draws.values, slopes, apart, *metric)
    else:
        is_dense = draws.size <= min(MOST_DENSE, len(draws.flat) // 8)
        directions = stein.by_halves(draws.values, slopes, apart, is_dense, draws.shared)
    return stein.scores_of(directions, error_rate, draws.shared)
