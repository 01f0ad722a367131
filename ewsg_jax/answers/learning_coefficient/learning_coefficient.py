"""The local learning coefficient of a model at its trained weights, with its errors."""

import time
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ewsg_jax.answers.learning_coefficient.at_draws import (
    AtWeights,
    at_weights,
    gradient_length,
    total_loss,
)
from ewsg_jax.answers.learning_coefficient.chains import (
    CoefficientEstimate,
    CoefficientRequest,
    PairedChains,
)
from ewsg_jax.answers.learning_coefficient.result import LearningCoefficient
from ewsg_jax.answers.learning_coefficient.search import SearchOutcome, run
from ewsg_jax.answers.learning_coefficient.target import LocalTarget, flat, target_of
from ewsg_jax.base import checks, numeric, tracing
from ewsg_jax.base.freshness import reads_now
from ewsg_jax.base.leaves import Filter
from ewsg_jax.base.typing import Array, Data, Key, PyTree
from ewsg_jax.draws.convergence import CONVERGED, rhat_in_words
from ewsg_jax.gradients._random import check_arguments
from ewsg_jax.model_checks.finding import Finding
from ewsg_jax.model_checks.ignored_arrays import unread
from ewsg_jax.posterior.posterior import Posterior
from ewsg_jax.rows._view import CHUNK_SIZE, num_rows
from ewsg_jax.vectors.layout import Layout
from ewsg_jax.vectors.row_subsets import evenly, take_rows

LogLikelihood = Callable[[Any, Any], Array]
TAKES_NO_KEY = (
    "(weights, row) -> scalar without a key, because losses at two weights are compared row by "
    "row: take its mean over keys, or a network in evaluation mode"
)
TAKES_NO_DROPOUT = "take a network in evaluation mode, without dropout"


@reads_now("log_likelihood", "batched_log_likelihood")
def learning_coefficient(
    key: Key,
    log_likelihood: LogLikelihood | Posterior | None,
    weights: PyTree,
    data: Data,
    *,
    localization: float = 1.0,
    temperature: float | None = None,
    sampled: Filter | None = None,
    observables: Mapping[str, Data] | None = None,
    batched_log_likelihood: LogLikelihood | None = None,
    num_chains: int = 8,
    tolerance: float = 0.03,
    num_steps: int = 20_000,
    seconds: float | None = None,
    step_size: float | None = None,
    batch_size: int | None = None,
    check_data: bool = True,
    progress: bool = True,
) -> LearningCoefficient:
    """Estimate the local learning coefficient of trained weights (LLC, RLCT).

    λ̂ = nβ(E L(w) − L(w*)), with L the mean negative log likelihood of n rows, w* the weights, β =
    1/log n, and the expectation over exp(−nβL(w) − γ/2‖w − w*‖²). For a regular model of d
    parameters it is d/2 as n grows, for a degenerate one less.

    Chains run in pairs of a step h and half of it, with the same noise. The value is that of h/2;
    the difference within pairs shows its bias, that of the scheme and of minibatches together.
    `check` of the loss is not asked: it knows the bias of regular models, and of degenerate ones
    too little. The step is 0.8/√curvature, found by power iteration at w* and again at draws, and
    is halved while the bias is beyond the tolerance. Up to 4,096 rows gradients are full; with more
    rows they are batches around w* (a control variate), as large as the noise measured at draws
    asks for.

    Args:
        key: a typed PRNG key.
        log_likelihood: `log_likelihood(weights, row) -> scalar`, the log density of one row: −loss
            of the row, neither divided by n nor summed over rows. Or a `Posterior`, whose
            likelihood is taken; its prior is not used.
        weights: w*, a minimum of the loss, as training leaves it: a pytree of floating-point
            arrays. Half precision is sampled in float32.
        data: a pytree of arrays that share their leading axis, the n rows, 3 at least.
        localization: γ, the inverse variance of the prior that keeps w near w*. It is a part of
            the definition: a smaller one gives a larger neighbourhood, and longer runs.
        temperature: T = 1/β. Default: log n.
        sampled: the leaves that are sampled, the others being fixed at w*: the restricted
            coefficient. A name, pattern or subtree such as `"layers/0"`, a list of these, or a
            function `(name, leaf) -> bool`, as `networks.posterior` takes them. Default: all.
        observables: other data by name; their losses at the draws are in `result.losses`.
        batched_log_likelihood: as in `ewsg_jax.Posterior`: the log likelihoods of b rows at once,
            in the place of `log_likelihood`, which is then None.
        num_chains: pairs of chains.
        tolerance: the run ends when the standard error is at most this part of the value.
        num_steps: the most steps of h of each chain, with those of the search for a step.
        seconds: the most seconds of sampling. Default: no bound.
        step_size: h, to choose it by hand. Default: found as above.
        batch_size: the rows of a batch, n or more for full gradients. Default: found as above.
        check_data: look for NaN and infinity in the data and the observables.
        progress: show how far the run is, if standard error is a terminal.

    Returns:
        The value, its standard error over chains, the bias of the sampler, and losses at draws. An
        interrupt (Ctrl-C) ends the run early and keeps what there is.

    Raises:
        TypeError, ValueError: an argument has the wrong type or value, no leaf is chosen, or the
            likelihood has a minimum at the weights, as a loss has that lacks its minus sign.

    References:
        Watanabe, A widely applicable Bayesian information criterion, JMLR 2013.

        Lau, Furman, Wang, Murfet and Wei, The local learning coefficient: a singularity-aware
        complexity measure, AISTATS 2025.

    Example:
        >>> import jax, jax.numpy as jnp, ewsg_jax as ewsg
        >>> x = jax.random.normal(jax.random.key(0), (500, 2))
        >>> y = jax.random.normal(jax.random.key(1), (500,))
        >>> result = ewsg.learning_coefficient(
        ...     jax.random.key(2),
        ...     lambda w, row: -0.5 * (row["y"] - row["x"] @ w) ** 2,
        ...     jnp.linalg.lstsq(x, y)[0],
        ...     {"x": x, "y": y},
        ... )
        >>> abs(result.value - 0.99) < 3 * result.error
        True
    """
    began = time.perf_counter()
    checks.key(key)
    posterior = _posterior(log_likelihood, batched_log_likelihood)
    checks.on_host("learning_coefficient", (key, weights, data))
    weights, data = checks.position(weights, "weights"), numeric.native(data)
    checks.not_empty("weights", weights)
    checks.finite("weights", weights)
    n = checks.data(data)
    if n < 3:
        raise ValueError(
            f"data must have at least 3 rows, since the temperature is log n; got {n} rows"
        )
    if checks.boolean("check_data", check_data):
        checks.finite("data", data)
    # Numbers as Python's floats, of which programs are made.
    localization = _positive("localization", localization)
    temperature = float(np.log(n)) if temperature is None else _positive("temperature", temperature)
    seconds = None if seconds is None else _positive("seconds", seconds)
    step_size = None if step_size is None else _positive("step_size", step_size)
    tolerance = _positive("tolerance", tolerance)
    checks.integer("num_chains", num_chains)
    checks.integer("num_steps", num_steps, minimum=1_000)
    if batch_size is not None:
        checks.integer("batch_size", batch_size)
    checks.boolean("progress", progress)

    target = target_of(posterior, weights, sampled, localization * temperature)
    target.posterior.check(target.center, data)
    target.posterior.check_gradient(target.center, data)
    arguments = target.center, checks.datum(data)
    tracing.check_same(
        "log_likelihood", target.posterior.log_likelihood, *arguments, key=TAKES_NO_DROPOUT
    )
    request = CoefficientRequest(
        key=key,
        target=target,
        data=jax.tree.map(jnp.asarray, data),
        observables=_observables(target, data, observables, check_data),
        localization=localization,
        temperature=temperature,
        num_chains=num_chains,
        tolerance=tolerance,
        num_steps=num_steps,
        seconds=seconds,
        step_size=step_size,
        batch_size=batch_size,
        progress=progress,
    )
    curvature, findings = _at_weights(request)
    outcome = run(request, curvature)
    return _result(request, outcome, findings, began)


def _positive(name: str, value: float) -> float:
    """Return a positive number as a float."""
    checks.positive(name, value)
    return float(value)


def _posterior(
    log_likelihood: LogLikelihood | Posterior | None, batched: LogLikelihood | None
) -> Posterior:
    """Return a posterior of the likelihood, whose prior is replaced."""
    if isinstance(log_likelihood, Posterior):
        if batched is not None:
            raise ValueError(
                "batched_log_likelihood must be None with a Posterior, which has its own; got "
                f"{checks.describe(batched)}"
            )
        return log_likelihood
    if log_likelihood is None and batched is None:
        raise TypeError(
            "log_likelihood must be a function (weights, row) -> scalar, or None with a "
            "batched_log_likelihood; got None without one"
        )
    options: dict[str, Any] = {}
    if log_likelihood is not None:
        checks.function("log_likelihood", log_likelihood, "(weights, row) -> scalar")
        check_arguments(log_likelihood, 2, TAKES_NO_KEY, "log_likelihood")
        options["log_likelihood"] = log_likelihood
    return Posterior(**options, log_prior=flat, batched_log_likelihood=batched)


def _observables(
    target: LocalTarget, data: Data, observables: Mapping[str, Data] | None, check_data: bool
) -> dict[str, Data]:
    """Return the other data by name, checked, as arrays of JAX.

    Raises:
        TypeError, ValueError: they are no data by name, or a row is not like one of `data`.
    """
    if observables is None:
        return {}
    if not isinstance(observables, Mapping) or not all(isinstance(x, str) for x in observables):
        raise TypeError(
            "observables must be a dictionary of data by name, {'held_out': data}; got "
            f"{checks.describe(observables)}"
        )
    # By these names the losses on `data` itself are kept.
    for name in ("data", ""):
        if name in observables:
            raise ValueError(
                f"observables must not have the name {name!r}, which is that of data itself"
            )
    # Their rows must be like those of `data`, for the same likelihood reads them.
    tables = {}
    for name, other in observables.items():
        try:
            checks.data(numeric.native(other))
            checks.same_tree(
                "observables must hold data whose rows are like those of data",
                f"observables[{name!r}]",
                checks.shapes(jax.tree.map(lambda x: x[:1], numeric.native(other))),
                checks.shapes(jax.tree.map(lambda x: x[:1], data)),
            )
        except (TypeError, ValueError) as error:
            # The checks speak of `data`.
            text = str(error).replace("data must be", f"observables[{name!r}] must be", 1)
            text = text.replace(" data[", f" observables[{name!r}][")
            raise type(error)(text) from None
        if check_data:
            checks.finite(f"observables[{name!r}]", numeric.native(other))
        tables[name] = jax.tree.map(jnp.asarray, numeric.native(other))
        target.posterior.check(target.center, tables[name])
    return tables


def _at_weights(request: CoefficientRequest) -> tuple[float, list[Finding]]:
    """Return the curvature of nL at w*, and what is wrong there.

    Raises:
        ValueError: the likelihood is not finite at w*, or has a minimum there.
    """
    posterior, center, prior_curvature = request.target
    # The curvature of some rows stands for that of all; the gradient is of all.
    n = request.num_data
    count = min(n, CHUNK_SIZE)
    rows = take_rows(request.data, evenly(n, count)) if count < n else request.data
    values = at_weights(AtWeights(posterior, n / count), center, rows, request.key)
    curvature, squared_gradient = (
        float(values[name]) for name in ("curvature", "squared_gradient")
    )
    gradient = float(gradient_length(posterior, center, request.data))
    if not np.isfinite([curvature, gradient]).all():
        raise ValueError(
            "log_likelihood must have finite derivatives at weights; its gradient there has the "
            f"length {gradient:.3g}, its largest curvature is {curvature:.3g}"
        )
    # Rounding alone does not make it more negative than the prior's curvature.
    if curvature < -prior_curvature:
        raise ValueError(
            "log_likelihood must have a maximum at weights; along its steepest direction it has a "
            f"minimum there (curvature {-curvature:.3g}), as a loss has: return the log density of "
            "a row, −loss and not the loss"
        )
    findings = []
    for one in unread(posterior, center, rows):
        names = one.text.split(": the density")[0].split(" reads ")[1].split(", ")
        names = ", ".join(f"weights{name.removeprefix('position')}" for name in names)
        findings.append(
            Finding(
                "unread",
                "note",
                f"log_likelihood does not read {names}, which adds nothing to λ̂",
                "leave them out by sampled=, or see why no row reaches them",
            )
        )
    # A step of gradient descent, 1/curvature long, lowers nL by about ‖∇nL‖²/(2·curvature).
    is_curved = curvature > prior_curvature
    if is_curved and (decrease := gradient**2 / (2 * curvature) / request.temperature) > 1:
        findings.append(
            Finding(
                "mode",
                "doubt",
                "weights are not at a minimum of the loss: one step of gradient descent lowers "
                f"nβ L by some {decrease:.2g}, which λ̂ lacks",
                "train longer, with a smaller learning rate or without weight decay, or take a "
                "larger localization",
            )
        )
    # By Bartlett's second identity in that direction it is about 1, for a mean over rows 1/n.
    ratio = n * squared_gradient / curvature if curvature > prior_curvature / 100 else np.nan
    if n >= 100 and 1 / 4 < n * ratio < 4:
        findings.append(
            Finding(
                "size",
                "doubt",
                f"gradients of rows vary by {ratio:.1g} times what the likelihood is curved, in a "
                "right model about once",
                f"is log_likelihood divided by n (1/n is {1 / n:.1g})? It has to be that of one "
                "row; if it is, the rows lie far nearer to the model than its noise says",
            )
        )
    return curvature, findings


def _result(
    request: CoefficientRequest, outcome: SearchOutcome, findings: list[Finding], began: float
) -> LearningCoefficient:
    """Return the result of a run that has draws.

    Raises:
        ValueError: it has none.
    """
    chains, estimate = outcome.chains, outcome.estimate
    if estimate is None:
        takes = "num_steps and seconds must be enough for some draws"
        if chains.diverged and request.step_size is not None:
            takes = "step_size must be so small that chains stay finite"
        raise ValueError(
            f"{takes}; with a step of {chains.setting.step_size:.2g} there is none: "
            f"{outcome.reason}"
        )
    # Losses at the draws of step h/2 that count.
    at_weights = _losses_at_weights(request)
    changes = chains.changes
    count = max(1, int(request.used_share * changes[""].shape[1]))
    used = {name or "data": x[:, -count:, 1] for name, x in changes.items()}
    # The bias is known if chains agree and none is missing.
    unknown = ""
    if not estimate.rhat <= CONVERGED:
        unknown = (
            f"chains do not agree (R-hat of the loss {rhat_in_words(estimate.rhat, 2)}), so that "
            "neither the value nor its bias is known; take more num_steps or a larger localization"
        )
    elif chains.diverged:
        unknown = "a chain diverged, so that others may lack what it met; take a smaller step_size"
    measured = estimate.bias, estimate.bias_error, estimate.corrected_error
    bias, bias_error, corrected_error = (np.nan,) * 3 if unknown else measured
    findings = findings + _run_findings(request, chains, estimate, unknown)
    return LearningCoefficient(
        value=estimate.value,
        error=estimate.error,
        bias=bias,
        bias_error=bias_error,
        corrected_error=corrected_error,
        bias_unknown=unknown,
        draws=chains.coefficients(used["data"]),
        losses={name: x + at_weights[name] for name, x in used.items()},
        losses_at_weights=at_weights,
        num_parameters=Layout.of(request.target.center).size,
        num_data=request.num_data,
        localization=request.localization,
        temperature=request.temperature,
        step_size=chains.setting.step_size,
        batch_size=chains.setting.batch_size,
        rhat=estimate.rhat,
        num_steps=outcome.num_steps,
        data_passes=outcome.data_passes,
        seconds=time.perf_counter() - began,
        ended=outcome.reason,
        interrupted=outcome.interrupted,
        findings=tuple(findings),
    )


def _run_findings(
    request: CoefficientRequest, chains: PairedChains, estimate: CoefficientEstimate, unknown: str
) -> list[Finding]:
    """Return what draws show to be wrong; `unknown` says why the bias is not known, "" if it is."""
    findings = [*chains.spacing]
    if estimate.value < -2 * estimate.error:
        text = (
            f"λ̂ is negative: draws have a lower loss than weights, in the mean by "
            f"{-estimate.value:.2g}/(nβ), so that weights are not at a minimum of the loss"
        )
        cure = "train longer (on these rows, without weight decay), or take a larger localization"
        findings.append(Finding("mode", "error", text, cure))
    if unknown:
        return findings
    if abs(estimate.bias) > max(request.tolerance * abs(estimate.value), 2 * estimate.bias_error):
        text = f"the bias is {100 * estimate.bias / estimate.value:.2g} % of the value"
        cure = "take result.corrected, a smaller step_size or a larger batch_size"
        findings.append(Finding("pilot_run", "doubt", text, cure))
    return findings


def _losses_at_weights(request: CoefficientRequest) -> dict[str, float]:
    """Return the mean loss at w* of each data set by name."""
    posterior, center, _ = request.target
    tables = {"data": request.data} | request.observables
    return {
        name: float(total_loss(posterior, center, table)) / num_rows(table)
        for name, table in tables.items()
    }
