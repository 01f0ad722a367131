"""How wrong a step size is, from chains at h and at h/2 that have one noise; and what is right."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ewsg_jax.answers.check.verdict import Verdict, without_a_part
from ewsg_jax.answers.halve import estimates
from ewsg_jax.answers.halve.coupled import coupled
from ewsg_jax.answers.halve.order import check_normal, order_of, share_beyond
from ewsg_jax.answers.halve.result import Bias, Estimates, Halved
from ewsg_jax.base import checks
from ewsg_jax.base.freshness import reads_now
from ewsg_jax.base.typing import Data, Key, P, Position
from ewsg_jax.draws.convergence import rhat_in_words
from ewsg_jax.draws.coordinates import CONVERGED, Names, flattened, named
from ewsg_jax.kernels.pair import Pair
from ewsg_jax.kernels.protocol import Kernel
from ewsg_jax.run.internal_run import whole
from ewsg_jax.run.sample import sample
from ewsg_jax.run.stacks.data import StackedData
from ewsg_jax.run.starts import check_starts, is_function
from ewsg_jax.vectors.layout import Layout

FEWEST_PAIRS, FEWEST_STEPS = 8, 16
"""Pairs of chains whose moments say how well they are known, and steps of each that are kept."""
FEWEST_BITS = 32
"""Of a number of the position."""


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

    Beside each chain of step h runs one that makes two steps of h/2 with the same noise, so that
    means and variances differ by little else than the bias. Where that is c h^p, at h it is
    2^p/(2^p − 1) times the difference, and (2^p m_{h/2} − m_h)/(2^p − 1) is without it. Errors
    include what higher orders may leave. A step takes the gradients of three.

    With full gradients p is 1 for `langevin`, `euler` and `exact`, and 2 for the position of
    `semi_implicit`, `splitting` and `palindrome`. With batches it is 1: where these add next to
    nothing to a bias of order 2, that is reported half as large again as it is.

    Args:
        key: a typed PRNG key.
        kernel: a named method or `ewsg_jax.kernel(dynamics, estimator)` with the step h, whose bias
            is of known order: not of anchors, tables, epochs, weights, schedules, or of dynamics
            that adapt.
        position: where the chains start: a tree of floating-point arrays, or a function of a key
            that returns one, called once per pair; at least of float32.
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
    checks.key(key)
    checks.instance("kernel", kernel, Kernel, "ewsg_jax.kernel(…) or a named method")
    checks.on_host("halve", (key, kernel, position, data))
    if isinstance(data, StackedData):
        raise TypeError("data must be one data set; got several, stacked")
    checks.data(data)
    order = order_of(kernel, data)
    assert isinstance(kernel, Pair)
    checks.integer("num_chains", num_chains, minimum=FEWEST_PAIRS)
    # A quarter is burnt in where nothing is said.
    burn_in = checks.integer("num_steps", num_steps) // 4 if burn_in is None else burn_in
    num_kept = num_steps - checks.integer("burn_in", burn_in, minimum=0)
    if num_kept < FEWEST_STEPS:
        least = burn_in + FEWEST_STEPS
        raise ValueError(
            f"num_steps must be at least burn_in + {FEWEST_STEPS} = {least}; got {num_steps}"
        )
    for name, value in {"tolerance": tolerance, "error_rate": error_rate}.items():
        checks.positive(name, value)
        checks.decay(name, value)
    if names is not None:
        checks.texts("names", names)
    # Names are checked against one position: an error after the run would cost it.
    shapes = check_starts(key, position, num_chains, stacked=False)
    for leaf in jax.tree.leaves(shapes):
        # Rounding adds the more noise the smaller the steps are: no order of a bias.
        if jnp.finfo(leaf.dtype).bits < FEWEST_BITS:
            raise ValueError(
                f"position must be at least of float32: what rounding adds to half precision grows "
                f"as the step falls, and is no bias of the step; got {leaf.dtype}"
            )
    one = jax.tree.map(lambda x: np.zeros(x.shape[1:], x.dtype), shapes)
    _, names = flattened(named(jax.tree.map(lambda x: x[None, None], one), "position"), names)
    check_normal(kernel, jax.tree.map(jnp.asarray, one))

    # Both chains of a pair begin at one point, so their difference begins at 0.
    start: Any = (lambda key: (position(key),) * 2) if is_function(position) else (position,) * 2
    pair, done = coupled(kernel), burn_in + num_kept // 2
    options: dict[str, Any] = {"keep": None, "moments": estimates.PLAN, "progress": progress}
    # Two halves, whose moments are compared: do they still change, chains have not settled.
    first = whole(
        sample(key, pair, start, data, done, num_chains=num_chains, burn_in=burn_in, **options)
    )
    _check_left(kernel, first.is_finite)
    options |= {"state": first.state, "check_data": False}
    second = whole(sample(key, pair, None, data, num_steps - done, **options))
    both = first.concatenate(second)
    # A pair counts with both chains or not at all.
    num_lost = _check_left(kernel, both.is_finite)

    halves = [estimates.pairs_of(samples.moments, both.is_finite) for samples in (first, second)]
    most, changes = estimates.rhat(*halves), estimates.drifts(*halves)
    pairs = estimates.pairs_of(both.moments, both.is_finite)
    found = estimates.laws_of(pairs, order, share_beyond(kernel, order))
    step_size = float(kernel.step_size(jnp.int32(0)))
    right = estimates.right_step(found["bias"], step_size, order, tolerance)
    if most > CONVERGED or changes:
        why = "moments change over the steps that are kept"
        if most > CONVERGED:
            why = f"R-hat {rhat_in_words(most, 2)}"
        text = f"chains have not settled ({why}). Burn in longer, and run longer"
        judged = Verdict("unsure", text)
    else:
        judged = estimates.verdict_of(
            found["bias"], names, num_chains - num_lost, right, tolerance, error_rate
        )
    # As in `checking`: a pair that diverged after the burn-in was where steps are too large, and so
    # may half of them be; the others are those that have not been there.
    is_cut = bool((both.diverged_at > burn_in).any() or 2 * num_lost >= num_chains)
    lost = f"{num_lost} of {num_chains} pairs of chains diverged"
    if is_cut:
        judged = without_a_part(judged, lost)
    elif num_lost:
        judged = judged._replace(text=f"{judged.text}. {lost}: left out")

    def trees(name: str) -> Any:
        kind, law = Bias if name.endswith("bias") else Estimates, found[name]
        layout = Layout.of(one)
        return kind(*(layout.tree(x, np.float64) for x in (*law.value, *law.error)))

    return Halved(
        outcome=judged.outcome,
        verdict=judged.text,
        right_step=right,
        gain=estimates.gain_of(found),
        step_size=step_size,
        order=order,
        num_pairs=num_chains,
        num_lost=num_lost,
        num_steps=num_steps,
        num_kept=num_kept,
        data_passes=both.data_passes,
        rhat=most,
        drifts=changes,
        is_cut=is_cut,
        tolerance=float(tolerance),
        error_rate=float(error_rate),
        names=names,
        **{name: trees(name) for name in found},
    )


def _check_left(kernel: Kernel, is_finite: np.ndarray) -> int:
    """Return how many pairs of chains are lost; check that enough are left."""
    num_lost = int(np.sum(~is_finite))
    if len(is_finite) - num_lost < FEWEST_PAIRS:
        raise ValueError(
            f"kernel must have a step size at which chains stay finite; got {kernel!r:.120}, of "
            f"which {num_lost} of {len(is_finite)} pairs of chains did not"
        )
    return num_lost
