"""How wrong draws are, from the model's own gradients at them and no reference.

Under the target, and under no other distribution, E ∇V = 0 and E[∇V (θ − m)ᵀ] = T·I, and so on for
every function (Stein's identities). By how much draws violate them, beyond Monte Carlo error, is a
bias of the run; and from it the moments follow that the draws should have.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypedDict, Unpack, overload

import jax
import numpy as np
from jax.sharding import Mesh

from ewsg_jax.answers.check import settings
from ewsg_jax.answers.check.attempt import KEYS_PER_ATTEMPT, CheckRequest
from ewsg_jax.answers.check.attempt import attempt as attempt_of_positions
from ewsg_jax.answers.check.basis import most_functions
from ewsg_jax.answers.check.draws import target_temperature, temperature_findings
from ewsg_jax.answers.check.kinetic import check_kernel, kinetic, why_unknown
from ewsg_jax.answers.check.of_function import attempt_of_function
from ewsg_jax.answers.check.of_run import knows_posterior
from ewsg_jax.answers.check.report import Report
from ewsg_jax.answers.mode.mode import Mode
from ewsg_jax.base import checks, numeric
from ewsg_jax.base.freshness import reads_now
from ewsg_jax.base.typing import Data, Key, PyTree
from ewsg_jax.draws.coordinates import Names
from ewsg_jax.kernels.protocol import Kernel
from ewsg_jax.model_checks.correlation import high_correlations
from ewsg_jax.model_checks.finding import Finding
from ewsg_jax.model_checks.gradient import num_compared, wrong_gradient
from ewsg_jax.model_checks.likelihood_size import odd_size
from ewsg_jax.model_checks.spacing import coarse_numbers
from ewsg_jax.posterior.posterior import Posterior, check_posterior
from ewsg_jax.posterior.random import known
from ewsg_jax.rows import _spread as spread
from ewsg_jax.rows._named import Rows
from ewsg_jax.run.samples import Samples


class CheckOptions(TypedDict, total=False):
    """The keyword arguments of `check`, for a reader of types."""

    of: Callable[[Any], PyTree] | None
    mode: Mode | None
    kernel: Kernel | None
    temperature: float | None
    tolerance: float
    error_rate: float
    max_draws: int | None
    batch_size: int
    rows: Rows | None
    names: Names
    shared_minibatch: bool | None
    mesh: Mesh | None


@overload
def check(
    key: Key,
    samples: Samples | PyTree,
    posterior: Posterior,
    data: Data,
    **options: Unpack[CheckOptions],
) -> Report: ...


@overload
def check(key: Key, samples: Samples, data: Data, **options: Unpack[CheckOptions]) -> Report: ...


@knows_posterior
@reads_now("posterior", "kernel", "of")
def check(
    key: Key,
    samples: Samples | PyTree,
    posterior: Posterior,
    data: Data,
    *,
    of: Callable[[Any], PyTree] | None = None,
    mode: Mode | None = None,
    kernel: Kernel | None = None,
    temperature: float | None = None,
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
    target is. Each draw costs two fresh minibatches.

    Args:
        key: a typed PRNG key, for the minibatches.
        samples: what `ewsg_jax.sample` returned, or draws of positions, a pytree of arrays with
            the leading axes (chain, draw); several chains, or one of them.
        posterior: the posterior that should have been sampled. It may be left out, `check(key,
            samples, data)`, for samples of this library: it is then `samples.posterior`. Draws from
            elsewhere, and samples that were loaded without their kernel, have none.
        data: all n rows.
        of: the quantity that is judged: `of(position)`, for one position, returns a scalar or a
            small array (64 numbers at most), such as a prediction, a loss, the difference of two
            groups, or a comparison. It may have kinks and jumps. The report is then that of its
            numbers: `outcome`, `sd_ratio`, `mean_shift`, `corrected` and R-hat. The coordinates
            need not mix, as with the weights of a network. It is evaluated some 70 times around
            each draw. Default: the coordinates are judged.
        mode: what `find_mode` returned for this posterior; its covariance gives the directions in
            which draws are tested. Default: each half of the draws gives those of the other half.
        kernel: the kernel that made the samples, if its dynamics have a momentum. The run then
            continues for a tenth of its steps, and `report.kinetic` has the kinetic temperature by
            direction. A custom dynamics says by `gaussian_momentum = True` that its kinetic energy
            is ‖p‖²/2; without that, and by default, it is not measured.
        temperature: T of the target exp(−V/T). Default: that of the run, `samples.temperature`, at
            its last draw; 1 for draws from elsewhere.
        tolerance: the largest relative error allowed of a standard deviation; a mean may be off by
            twice as many sds.
        error_rate: the probability that a right run is called wrong.
        max_draws: the number of draws, over all chains and evenly spaced, at which gradients are
            evaluated. Default: 4,000, or 16,000 if these cannot decide.
        batch_size: the number of rows for the gradients at each draw, in two minibatches; all rows
            are taken if there are no more.
        rows: the sampling scheme of these minibatches, as `gradients.uniform` takes it. Default: by
            the rows' norms in the draws' own metric if data enter through linear predictors, else
            uniform.
        names: names of the coordinates. Default: their places in the pytree of the position.
        shared_minibatch: whether the chains share their minibatches; standard errors then come from
            blocks of time of all chains together. Default: as samples of this library say, and
            False for other draws.
        mesh: several devices, as `ewsg_jax.sample` takes them, whether or not the samples were made
            on them. Along `"data"` each device has a part of the rows, and its share of every
            minibatch, drawn uniformly.

    Returns:
        The outcome with its reason, errors of every mean and standard deviation, and moments of the
        target.

    Raises:
        TypeError, ValueError: an argument has the wrong type or value; there are fewer than eight
            draws of a chain, or none that is finite; a coordinate never moves; the gradient is not
            finite at a draw; `of` is not finite around one, or one number at all draws.
        KeyboardInterrupt: with `kernel=`, the run that continues was interrupted.

    Example:
        >>> import jax, jax.numpy as jnp, ewsg_jax as ewsg
        >>> model, data = ewsg.models.gaussian_location(), jnp.linspace(-1.0, 1.0, 40)[:, None]
        >>> kernel = ewsg.sgld(model, 0.02, batch_size=4)  # the posterior's sd is 0.156
        >>> samples = ewsg.sample(
        ...     jax.random.key(0), kernel, jnp.zeros(1), data, 8_000, num_chains=8, burn_in=100
        ... )
        >>> report = ewsg.check(jax.random.key(1), samples, data)
        >>> report.outcome, report.sd_ratio.round(1), report.corrected.sd.round(2)
        ('wrong', Array([2.], dtype=float32), array([0.16]))
    """
    # All arguments first: what follows may take minutes.
    checks.key(key)
    check_posterior(posterior)
    data = numeric.native(data)
    checks.data(data)
    judged_at = target_temperature(samples, temperature)
    for name, value in {"tolerance": tolerance, "error_rate": error_rate}.items():
        checks.positive(name, value)
    checks.decay("tolerance", tolerance)
    checks.decay("error_rate", error_rate)
    if max_draws is not None:
        checks.integer("max_draws", max_draws, minimum=64)
    checks.integer("batch_size", batch_size, minimum=2)
    if of is not None:
        checks.function("of", of, "(position) -> a scalar or a small array")
    if names is not None:
        checks.texts("names", names)
    if shared_minibatch is not None:
        checks.boolean("shared_minibatch", shared_minibatch)
    if kernel is not None:
        check_kernel(kernel, samples)
    # Data that lie over devices stay there; others go to the device once.
    placed = spread.over(mesh, data)
    if not isinstance(placed, spread.Spread):
        placed = jax.device_put(placed)
    elif rows not in (None, "random"):
        raise ValueError(
            f"rows must be None or 'random' with mesh, which cuts the data; got {rows!r}"
        )
    request = CheckRequest(
        key=key,
        samples=samples,
        posterior=posterior,
        data=placed,
        mode=mode,
        temperature=judged_at,
        tolerance=float(tolerance),
        error_rate=float(error_rate),
        batch_size=batch_size,
        rows=rows,
        names=names,
        shared_minibatch=shared_minibatch,
        of=of,
    )
    report = _attempts(request, max_draws)
    report = replace(
        report,
        findings=(
            *(samples.findings if isinstance(samples, Samples) else ()),
            *temperature_findings(samples, temperature),
            *report.findings,
            *(_model_findings(request, report) if of is None else ()),
        ),
        num_compared=report.num_compared or num_compared(posterior, report.draws.layout, placed),
        num_steps=int(np.ptp(samples.step)) if isinstance(samples, Samples) else 0,
    )
    if kernel is None:
        return report
    # Momenta are not kept by a run; their distribution is known if the kernel says so.
    if why := why_unknown(kernel):
        return replace(report, no_kinetic=why)
    # A key that no attempt has.
    own_key = jax.random.fold_in(key, KEYS_PER_ATTEMPT * len(settings.DRAWS_TO_USE))
    host_data = placed if mesh is None else data
    temperatures, passes = kinetic(own_key, kernel, samples, host_data, judged_at, mesh)
    return replace(report, kinetic=temperatures, data_passes=report.data_passes + passes)


def _attempts(request: CheckRequest, max_draws: int | None) -> Report:
    """Return the report from as many draws as decide, or from as many as there may be.

    Args:
        request: what is asked.
        max_draws: the number of draws that the caller asked for, and then there is one attempt;
            None: 4,000, and 16,000 if these decide nothing.
    """
    attempt = attempt_of_positions if request.of is None else attempt_of_function
    if max_draws is not None:
        return attempt(request, 0, max_draws)
    report, passes = attempt(request, 0, settings.DRAWS_TO_USE[0]), 0.0
    for number, most in enumerate(settings.DRAWS_TO_USE[1:], 1):
        num_bytes = 16 * most * most_functions(most, report.draws.size)
        if not report.needs_more or num_bytes > settings.MAX_FUNCTIONS_BYTES:
            break
        passes += report.data_passes
        report = attempt(request, number, most)
    return replace(report, data_passes=passes + report.data_passes)


def _model_findings(request: CheckRequest, report: Report) -> list[Finding]:
    """Return what is wrong with the model by its values at the draws, and at the corrected mean."""
    draws, corrected = report.draws, report.moments
    findings = coarse_numbers(draws.layout, corrected.mean, corrected.sd, draws.names)
    if known(request.posterior) is None:
        return findings  # the others ask for its values
    mean, covariance = corrected.mean, corrected.covariance
    # Also if draws lack a part of the target, of which nothing is said here.
    is_known = np.max(corrected.mean_error / corrected.sd) <= settings.MAX_CORRECTED_ERROR
    if is_known and covariance is not None:
        tempered = covariance / request.temperature
        findings += odd_size(request.posterior, draws.layout, mean, tempered, request.data)
        findings += high_correlations(covariance, draws.names)
    return findings + wrong_gradient(
        request.posterior, draws.layout, draws.flat, draws.names, request.data
    )
