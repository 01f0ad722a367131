"""The bias of a step size, from chains at h and at h/2 with one noise, and moments without it."""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ewsg_jax.answers.check.verdict import Verdict, without_a_part
from ewsg_jax.answers.halve import estimates, settings
from ewsg_jax.answers.halve.coupled import coupled
from ewsg_jax.answers.halve.order import order_of, remainder_share
from ewsg_jax.answers.halve.result import Bias, Estimates, Halved
from ewsg_jax.base import checks, numeric
from ewsg_jax.base.freshness import reads_now
from ewsg_jax.base.typing import Data, Key, P, Position
from ewsg_jax.bijectors import tree
from ewsg_jax.draws.convergence import CONVERGED, rhat_in_words
from ewsg_jax.draws.coordinates import Names, chosen_names
from ewsg_jax.kernels.in_coordinates import InCoordinates
from ewsg_jax.kernels.pair import Pair
from ewsg_jax.kernels.protocol import Kernel
from ewsg_jax.run.sample import raise_if_interrupted, sample
from ewsg_jax.run.samples import Samples
from ewsg_jax.run.stacks.data import StackedData
from ewsg_jax.run.starts import check_starts, is_function
from ewsg_jax.vectors.layout import Layout


@reads_now("kernel")
def halve(
    key: Key,
    kernel: Kernel[P],
    position: P | Callable[[Key], Position],
    data: Data,
    num_steps: int,
    *,
    num_chains: int = 32,
    burn_in: int | None = None,
    tolerance: float = 0.05,
    error_rate: float = 0.02,
    names: Names = None,
    progress: bool = True,
) -> Halved:
    """Measure the bias of a step size h, and extrapolate moments to h = 0 (Richardson).

    Each chain of step h is paired with one that makes two steps of h/2 with the same noise, so that
    their moments differ by little else than the bias. A bias of c h^p at h is 2^p/(2^p − 1) times
    the difference, and (2^p m_{h/2} − m_h)/(2^p − 1) has none of it. Errors include what higher
    orders may leave. A step of a pair takes the gradients of three steps.

    With full gradients p is 1 for `langevin`, `euler` and `exact`, and 2 for `splitting`,
    `palindrome` and the position of `semi_implicit`. With batches p is 1. If the bias is of
    order 2 and batches add next to nothing to it, the reported bias is too large by 50 %.

    Args:
        key: a typed PRNG key.
        kernel: a named method or `ewsg_jax.kernel(dynamics, estimator)` with the step size h. The
            order of its bias has to be known: no anchors, tables, epochs, exponential weights or
            schedules, and no dynamics that adapt. A plan's kernel in other coordinates is taken
            too: h is then in their units, and moments are those of the position.
        position: the start of the chains: a pytree of floating-point arrays, at least float32, or a
            function of a key that returns one, called once per pair.
        data: all n rows, as for `sample`.
        num_steps: steps of h that each pair makes, burn-in included.
        num_chains: pairs of chains, at least 8, whose differences give the errors.
        burn_in: first steps, which are left out; by default a quarter.
        tolerance: the relative error that a standard deviation may have. A mean may be off by twice
            as many standard deviations.
        error_rate: how often a step without a bias may be called wrong.
        names: a name for each coordinate. By default its place in the pytree of the position.
        progress: show a bar if tqdm is installed.

    Returns:
        Means and standard deviations at h and at h/2, their difference, the bias, and what the
        moments are without it.

    Raises:
        TypeError, ValueError: an argument has the wrong type or value, the order of the kernel's
            bias is unknown, or too few pairs of chains stay finite.
        KeyboardInterrupt: the run was interrupted.

    References:
        D. Talay and L. Tubaro, Expansion of the global error for numerical schemes solving
            stochastic differential equations, Stochastic Analysis and Applications 1990.
        A. Durmus, U. Şimşekli, É. Moulines, R. Badeau and G. Richard, Stochastic gradient
            Richardson–Romberg Markov chain Monte Carlo, NIPS 2016.

    Example:
        >>> import jax, jax.numpy as jnp, ewsg_jax as ewsg
        >>> model, data = ewsg.models.gaussian_location(), jnp.linspace(-1.0, 1.0, 40)[:, None]
        >>> kernel = ewsg.sgld(model, 4e-3, batch_size=8)  # the posterior's sd is 0.158
        >>> halved = ewsg.halve(jax.random.key(0), kernel, jnp.zeros(1), data, 4_000)
        >>> halved.outcome, halved.bias.sd_ratio.round(1), halved.extrapolated.sd.round(2)
        ('wrong', array([1.1]), array([0.16]))
    """
    checks.key(key)
    checks.instance("kernel", kernel, Kernel, "ewsg_jax.kernel(…) or a named method")
    checks.on_host("halve", (key, kernel, position, data))
    if isinstance(data, StackedData):
        raise TypeError("data must be one data set; got several, stacked")
    data = numeric.native(data)
    checks.data(data)
    # A plan's kernel may move in other coordinates: the bias has the order of the kernel there.
    inner = kernel.kernel if isinstance(kernel, InCoordinates) else kernel
    order = order_of(inner, data)
    assert isinstance(inner, Pair)
    checks.integer("num_chains", num_chains, minimum=settings.MIN_PAIRS)
    burn_in, num_kept = _checked_lengths(num_steps, burn_in)
    for name, value in {"tolerance": tolerance, "error_rate": error_rate}.items():
        checks.positive(name, value)
        checks.decay(name, value)
    layout = _layout_of_starts(key, position, num_chains)
    names = chosen_names(names, layout.names)

    # Both chains of a pair begin at one point, so their difference begins at 0.
    start: Any = (lambda key: (position(key),) * 2) if is_function(position) else (position,) * 2
    pair = coupled(inner)
    if isinstance(kernel, InCoordinates):
        pair = dataclasses.replace(kernel, kernel=pair, bijector=tree((kernel.bijector,) * 2))

    # The run is made in two parts, whose moments R-hat compares. The noise of a step depends on the
    # key and on the number of the step, so the second part takes the key of the first.
    def run(start: Any, num_steps: int, **options: Any) -> Samples:
        options |= {"keep": None, "moments": estimates.PAIR_MOMENTS, "progress": progress}
        samples = raise_if_interrupted(sample(key, pair, start, data, num_steps, **options))
        _check_enough_pairs(samples, kernel)
        return samples

    end_of_first = burn_in + num_kept // 2
    first = run(start, end_of_first, num_chains=num_chains, burn_in=burn_in)
    second = run(None, num_steps - end_of_first, state=first.state, check_data=False)
    both = first.concatenate(second)

    # Moments are those of the pairs that stayed finite to the end.
    num_lost = num_chains - int(both.is_finite.sum())
    first_half, second_half, pairs = (
        estimates.pairs_of(part.moments, both.is_finite) for part in (first, second, both)
    )
    rhat = estimates.rhat_of_halves(first_half, second_half, num_kept // 2)
    moments = estimates.extrapolated(pairs, order, remainder_share(inner, order))

    # The verdict is on the bias alone, if the chains have converged and no part is cut off.
    step_size = float(inner.step_size(jnp.int32(0)))
    tolerable = estimates.tolerable_step(moments["bias"], step_size, order, tolerance)
    verdict = estimates.judge_step(
        moments["bias"], names, num_chains - num_lost, tolerable, tolerance, error_rate
    )
    if not rhat <= CONVERGED:
        verdict = _not_converged(rhat)
    # As in `check`: a pair that diverged after the burn-in had reached a region in which steps are
    # too large, which the other pairs have not seen; half of the pairs may have as well.
    is_cut = bool((both.diverged_at > burn_in).any() or 2 * num_lost >= num_chains)
    lost = f"{num_lost} of {num_chains} pairs of chains diverged"
    if is_cut:
        verdict = without_a_part(verdict, lost)
    elif num_lost:
        verdict = verdict._replace(text=f"{verdict.text}. {lost}: left out")

    return Halved(
        outcome=verdict.outcome,
        verdict=verdict.text,
        right_step=tolerable,
        gain=estimates.gain_of(moments),
        step_size=step_size,
        order=order,
        num_pairs=num_chains,
        num_lost=num_lost,
        num_steps=num_steps,
        num_kept=num_kept,
        data_passes=both.data_passes,
        rhat=rhat,
        is_cut=is_cut,
        tolerance=float(tolerance),
        error_rate=float(error_rate),
        names=names,
        **{name: _like_position(name, estimate, layout) for name, estimate in moments.items()},
    )


def _checked_lengths(num_steps: int, burn_in: int | None) -> tuple[int, int]:
    """Return the steps of the burn-in, a quarter by default, and those after it.

    Raises:
        TypeError, ValueError: one is not a whole number, or too few steps are left.
    """
    checks.integer("num_steps", num_steps)
    burn_in = num_steps // 4 if burn_in is None else burn_in
    num_kept = num_steps - checks.integer("burn_in", burn_in, minimum=0)
    if num_kept < settings.MIN_KEPT_STEPS:
        raise ValueError(
            f"num_steps must be at least burn_in + {settings.MIN_KEPT_STEPS} = "
            f"{burn_in + settings.MIN_KEPT_STEPS}; got {num_steps}"
        )
    return burn_in, num_kept


def _layout_of_starts(key: Key, position: Any, num_chains: int) -> Layout:
    """Return the layout of one start.

    Raises:
        TypeError, ValueError: the starts are not pytrees of floating-point arrays, or are of less
            than float32.
    """
    shapes = check_starts(key, position, num_chains, stacked=False)
    layout = Layout.of(jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape[1:], x.dtype), shapes))
    if half := [dtype for dtype in layout.dtypes if dtype.itemsize < 4]:
        raise ValueError(
            "position must be at least of float32: what rounding adds to half precision grows as "
            f"the step falls, and is no bias of the step; got {half[0]}"
        )
    return layout


def _check_enough_pairs(samples: Samples, kernel: Kernel) -> None:
    """Check that enough pairs stayed finite; a pair counts with both chains or not at all."""
    num_pairs, num_finite = samples.num_chains, int(samples.is_finite.sum())
    if num_finite < settings.MIN_PAIRS:
        raise ValueError(
            "kernel must have a step size at which chains stay finite; got "
            f"{kernel!r:.120}, of which {num_pairs - num_finite} of {num_pairs} pairs of chains "
            "did not"
        )


def _not_converged(rhat: float) -> Verdict:
    """Return the verdict on chains whose moments do not count yet."""
    words = rhat_in_words(rhat, 2)
    text = f"chains have not converged (R-hat {words}). Burn in longer, and run longer"
    return Verdict("unsure", text)


def _like_position(name: str, estimate: estimates.Estimated, layout: Layout) -> Any:
    """Return estimates of this name as pytrees like the position, in float64."""
    kind = Bias if name.endswith("bias") else Estimates
    return kind(*(layout.tree(x, np.float64) for x in (*estimate.value, *estimate.error)))
