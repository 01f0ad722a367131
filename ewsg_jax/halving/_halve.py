"""How wrong a step size is, from chains at h and at h/2 that have one noise; and what is right."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ewsg_jax import _check
from ewsg_jax._kernel import Kernel, check_numbers
from ewsg_jax._types import Data, Key, P, Position
from ewsg_jax.freshness import reads_now
from ewsg_jax.halving.coupled import coupled, doubled
from ewsg_jax.halving.moments import Pairs, drifts, extrapolated, position_and_difference, rhat
from ewsg_jax.halving.order import order_of, share_beyond, text_of
from ewsg_jax.halving.result import Halved
from ewsg_jax.pair import Pair
from ewsg_jax.preparation.programs import Layout
from ewsg_jax.sampling import Samples, moments, sample
from ewsg_jax.sampling.coordinates import Names, flattened
from ewsg_jax.sampling.samples import named, whole
from ewsg_jax.sampling.starts import check_starts, is_function
from ewsg_jax.stacking.data import StackedData

FEWEST_PAIRS, FEWEST_STEPS = 8, 16
"""Pairs of chains whose moments say how well they are known, and steps of each that are kept."""
PLAN = moments(position_and_difference)


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
    """Report how wrong a step is, from chains at h and h/2; extrapolate to 0 (Richardson).

    Beside each chain of step h runs one that makes two steps of h/2 with the same noise: the first
    takes the sum of the other's normals, and the first of its two batches. Each chain has the law
    that it would have alone, and means and variances differ by little else than the bias. Where
    that is c h^p the difference gives c: at h the bias is 2^p/(2^p − 1) times the difference, and
    (2^p m_{h/2} − m_h)/(2^p − 1) is without it. What is of a higher order stays, and counts where
    the bias is large: the errors of the extrapolated values and of the bias include what it may be.

    With full gradients p is 1 for `langevin`, `euler` and `exact`, and 2 for the position of
    `semi_implicit`, `splitting` and `palindrome`; with batches, whose noise is of order h, it is 1.
    Where these add next to nothing to a bias of order 2, that is reported half as large again as it
    is. A step takes the gradients of three.

    Args:
        key: a typed PRNG key.
        kernel: a named method or `ewsg_jax.kernel(dynamics, estimator)` with the step h, whose bias
            is of known order: not of anchors, tables, epochs, weights, schedules, or of dynamics
            that adapt.
        position: where the chains start: a tree of floating-point arrays, or a function of a key
            that returns one, called once per pair.
        data: all n rows, as for `sample`.
        num_steps: steps of h that each pair makes, burn-in included.
        num_chains: pairs of chains, at least 8, whose differences give the errors.
        burn_in: first steps that do not count; default a quarter. Chains that start together must
            have come apart.
        tolerance: how far off, relatively, a standard deviation may be; a mean twice as many of
            them.
        error_rate: how often a step without a bias is called wrong.
        names: a name for each coordinate. Default: its place in the tree of the position.
        progress: show a bar where tqdm is installed.

    Returns:
        Means and standard deviations at h and h/2, their difference, what it says of the bias, and
        what is right.

    Raises:
        TypeError, ValueError: an argument has the wrong type or value, the order of the kernel's
            bias is not known, or too few pairs of chains stay finite.
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
    _check.key(key)
    _check.instance("kernel", kernel, Kernel, "ewsg_jax.kernel(…) or a named method")
    if any(map(_check.is_traced, jax.tree.leaves((key, kernel, position, data)))):
        raise TypeError(
            "halve must be called on the host, not under jit, vmap or grad; got a traced argument"
        )
    if isinstance(data, StackedData):
        raise TypeError("data must be one data set; got several, stacked")
    _check.data(data)
    # Before anything runs: a kernel without a known order cannot be extrapolated.
    order = order_of(kernel, data)
    assert isinstance(kernel, Pair)
    check_numbers(kernel)
    _check.integer("num_chains", num_chains, minimum=FEWEST_PAIRS)
    # A quarter is burnt in where nothing is said.
    burn_in = _check.integer("num_steps", num_steps) // 4 if burn_in is None else burn_in
    num_kept = num_steps - _check.integer("burn_in", burn_in, minimum=0)
    if num_kept < FEWEST_STEPS:
        least = burn_in + FEWEST_STEPS
        raise ValueError(
            f"num_steps must be at least burn_in + {FEWEST_STEPS} = {least}; got {num_steps}"
        )
    for name, value in {"tolerance": tolerance, "error_rate": error_rate}.items():
        _check.positive(name, value)
        _check.decay(name, value)
    if names is not None:
        _check.texts("names", names)
    # Names are checked against one position: an error after the run would cost it.
    shapes = check_starts(key, position, num_chains, stacked=False)
    one = jax.tree.map(lambda x: np.zeros(x.shape[1:], x.dtype), shapes)
    _, names = flattened(named(jax.tree.map(lambda x: x[None, None], one), "position"), names)

    # Both chains of a pair begin at one point, so their difference begins at 0.
    start = _paired(position) if is_function(position) else doubled(_check.position(position))
    pair, done = coupled(kernel), burn_in + num_kept // 2
    options: dict[str, Any] = {"keep": None, "moments": PLAN, "progress": progress}
    # Two halves, whose moments are compared: do they still change, chains have not settled.
    first = whole(
        sample(key, pair, start, data, done, num_chains=num_chains, burn_in=burn_in, **options)
    )
    second = whole(
        sample(
            key, pair, None, data, num_steps - done, state=first.state, check_data=False, **options
        )
        if first.is_finite.any()
        else first
    )
    # A pair counts with both chains or not at all.
    finite = first.is_finite & second.is_finite
    if finite.sum() < FEWEST_PAIRS:
        raise ValueError(
            f"kernel must have a step size at which chains stay finite; got {text_of(kernel)}, of "
            f"which {np.sum(~finite)} of {num_chains} pairs of chains did not"
        )
    parts = [
        Pairs.of(samples.moments, finite)
        for samples in (first, second)
        if samples.moments is not None
    ]
    return Halved(
        step_size=float(kernel.step_size(jnp.int32(0))),
        order=order,
        num_pairs=num_chains,
        num_lost=int(np.sum(~finite)),
        num_steps=num_steps,
        num_kept=num_kept,
        data_passes=first.data_passes + second.data_passes,
        rhat=rhat(*parts),
        drifts=drifts(*parts),
        tolerance=float(tolerance),
        error_rate=float(error_rate),
        names=names,
        layout=Layout.of(one),
        is_cut=_is_cut(first, second, burn_in),
        found=extrapolated(parts[0].joined(parts[1]), order, share_beyond(kernel, order)),
    )


def _is_cut(first: Samples, second: Samples, burn_in: int) -> bool:
    """Return whether a pair diverged after the burn-in, or half of them or more did anywhere.

    As in `checking`: the others are then those that have not been where the steps are too large.
    """
    late = (first.diverged_at > burn_in) | (first.is_finite & ~second.is_finite)
    lost = ~(first.is_finite & second.is_finite)
    return bool(late.any() or 2 * lost.sum() >= len(lost))


def _paired(position: Callable[[Key], Position]) -> Callable[[Key], Position]:
    """Return a function of a key that starts both chains of a pair at one point."""

    def both(key: Key) -> Position:
        return doubled(position(key))

    of_keys = getattr(position, "of_keys", None)
    if of_keys is not None:
        # What the library makes for starts is a program of its own.
        both.of_keys = lambda keys: doubled(of_keys(keys), axis=1)  # pyright: ignore[reportFunctionMemberAccess]
    return both
