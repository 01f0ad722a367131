"""The excess temperature of gradient noise: a batch's variance over the intended noise's.

Under Langevin dynamics this is h² Cov(g) over 2hT, under underdamped dynamics over 2γhT. It is
measured for any kernel by single steps from the last states: many batches with one noise, and one
batch with many noises.

For epochs single steps do not show it: a share of the excess of random batches remains (0.01 to
0.96 in docs/bias.md), which depends on the time of an epoch relative to the autocorrelation time of
a direction of the posterior, and on the batches before the step.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from ewsg_jax.answers.check import settings as check_settings
from ewsg_jax.base import checks, numeric, pytrees
from ewsg_jax.base.freshness import reads_now
from ewsg_jax.base.modules import is_own, made_by
from ewsg_jax.base.typing import Array, Data, Key, PyTree
from ewsg_jax.dynamics._adaptive_mass import AdaptiveMass, AdaptiveMassState
from ewsg_jax.dynamics._mass import without_metric
from ewsg_jax.dynamics._preconditioned import Preconditioned, PreconditionedState
from ewsg_jax.dynamics._protocol import Constant, needs_covariance
from ewsg_jax.dynamics._underdamped import Underdamped
from ewsg_jax.gradients._protocol import changes_memory, noise_model_of, uses_batches
from ewsg_jax.kernels.pair import Pair
from ewsg_jax.kernels.protocol import Kernel, KernelState, Randomness
from ewsg_jax.rows._scheme import is_ordered, schemes_of
from ewsg_jax.run.samples import Samples
from ewsg_jax.run.stacks.kernels import Stack
from ewsg_jax.run.starts import shares_memory
from ewsg_jax.vectors.layout import vector
from ewsg_jax.vectors.row_subsets import evenly

TWO_WAYS = "the gradient moves position and momentum in other proportions than the noise does"


class GradientNoise(NamedTuple):
    """The excess temperature by the noise of batches, relative to the temperature.

    Attributes:
        largest: excess in the direction with the largest one; 1 makes variances twice too large in
            it. None: not known.
        median: median excess over the coordinates. None: not known.
        reason: why it is not known; "" if it is.
    """

    largest: float | None
    median: float | None
    reason: str = ""


@reads_now("kernel")
def gradient_noise(key: Key, kernel: Kernel, samples: Samples, data: Data) -> GradientNoise:
    """Return the excess temperature that the noise of batches adds to a run, at its last states.

    It costs some 2,000 steps and leaves the chains unchanged. It is unknown for estimators and
    dynamics that compensate this noise (weights, covariances, thermostats), for SVRG snapshots and
    epochs, whose batches depend on each other, and for schedules of the temperature. Your own
    estimator must have no memory that changes, or set `unbiased`; your own dynamics must have a
    field `temperature`, no state but a position, a momentum and the step, and a gradient that moves
    both as the noise does. `ewsg_jax.check` finds a bias of any cause, from the draws alone.

    Args:
        key: a typed PRNG key.
        kernel: the kernel of the run; `stack[i]` for a stack.
        samples: what `ewsg_jax.sample` returned; `runs[i]` for a stack.
        data: the data of the run, all n rows.

    Raises:
        TypeError, ValueError: an argument has the wrong type or value; or no chain stayed finite.

    Example:
        >>> import jax, jax.numpy as jnp, ewsg_jax as ewsg
        >>> data = jax.random.normal(jax.random.key(0), (1_000, 1))
        >>> kernel = ewsg.sgld(ewsg.models.gaussian_location(), 1e-5, batch_size=5)
        >>> run = ewsg.sample(jax.random.key(1), kernel, jnp.zeros(1), data, 100, progress=False)
        >>> noise = ewsg.diagnostics.gradient_noise(jax.random.key(2), kernel, run, data)
        >>> 0.8 < noise.largest < 1.2  # h Cov(g)/2 = 1e-5 · 1000² / 5 / 2
        True
    """
    checks.key(key)
    checks.instance("kernel", kernel, Kernel, "ewsg_jax.kernel(…) or a named method")
    if isinstance(kernel, Stack):
        raise TypeError("kernel must be one kernel, stack[i] with runs[i]; got a stack")
    checks.instance("samples", samples, Samples, "what ewsg_jax.sample returns, runs[i] of a stack")
    state, alive = samples.state, np.flatnonzero(samples.is_finite)
    if not alive.size:
        raise ValueError("samples must have a chain that stayed finite; got none")
    # Moved to the device once: each batch reads them.
    data = numeric.native(data)
    data = jax.tree.map(jnp.asarray, data) if checks.data(data) else data
    kernel.check(jax.tree.map(lambda x: jnp.asarray(x)[0], state.position), data)
    if not uses_batches(kernel):
        return GradientNoise(0.0, 0.0)
    # If noise is compensated, its size does not show in the temperature.
    reason = _unknown(kernel, samples, data)
    if reason:
        return GradientNoise(None, None, reason)
    assert isinstance(kernel, Pair)  # for others it is unknown
    chains = alive[evenly(alive.size, min(alive.size, 64))]
    per_step = max(1, kernel.evaluations(data).per_step)
    # Enough batches for a variance to some percent, within a bounded cost.
    # Some seconds on a CPU.
    affordable = 20_000_000 // (2 * len(chains) * per_step)
    # The standard error of a variance is then √(2/1024), 4 %.
    count = max(16, min(1024 // len(chains), affordable))
    shared = shares_memory(kernel, state)
    length = pytrees.size(state.position, leading_axes=1)
    places = jnp.asarray(evenly(length, min(length, check_settings.MAX_COMPARED_COORDINATES)))
    by_momentum = _moves_alike(kernel)
    batch, noise = single_steps(
        key, kernel, state, jnp.asarray(chains), places, data, count, shared, not by_momentum
    )
    batch, noise = (np.asarray(x, np.float64).swapaxes(0, 1) for x in (batch, noise))
    if not by_momentum:
        # The first half of the numbers is the position's. `_unknown` has checked that there is a
        # temperature.
        scale = float(kernel.dynamics.temperature(0)) ** 0.5  # type: ignore[attr-defined]
        difference = _shape_difference(batch, noise, vector(samples.sd)[places], scale)
        # Up to it batches and noise move position and momentum in the same proportions.
        if not difference <= 0.1:
            return GradientNoise(None, None, TWO_WAYS)
        batch, noise = (x[..., len(places) :] for x in (batch, noise))
    # A coordinate that moves by less than some roundings of its size does not move.
    rounding = 4 * float(jnp.finfo(jnp.result_type(*jax.tree.leaves(state.position))).eps)
    least = rounding * np.abs(batch).max((0, 1))
    excesses = ratios(batch, noise, least)
    if excesses is None:
        return GradientNoise(None, None, "a step has no noise, or is not finite")
    # From the excess of the momentum to that of the position.
    excess = getattr(kernel.dynamics, "position_excess", None)
    of_position = 1.0 if excess is None else float(excess(jnp.max(jnp.asarray(state.step))))
    largest, median = excesses
    return GradientNoise(largest * of_position, median * of_position)


def _unknown(kernel: Kernel, samples: Samples, data: Data) -> str:
    """Return why single batches do not show the excess temperature; "" if they do."""
    state = samples.state
    if not isinstance(kernel, Pair):
        return "it is an exact method, whose batches add no noise"
    estimator, dynamics = kernel.estimator, kernel.dynamics
    model = noise_model_of(estimator, data)
    if model.chain_length is not None:
        return "weights choose the batch, and compensate a part of its noise"
    if model.unknown and not schemes_of(estimator):
        return f"the estimator {made_by(estimator)} has no sampling scheme and no noise_model"
    if needs_covariance(dynamics) or getattr(dynamics, "covariance", None) is not None:
        return "the dynamics compensates the noise of batches"
    if hasattr(state.dynamics, "thermostat"):
        return "a thermostat compensates the noise of batches"
    # Without a noise model, a memory that is refreshed may be a snapshot.
    is_refreshed = kernel.evaluations(data).per_refresh > 0
    if is_refreshed if model.unknown else model.anchor == "refreshed":
        return "the noise depends on the age of the snapshot"
    if is_ordered(kernel):
        return "the batches of an epoch depend on each other"
    if dynamics.extra_gradients:
        return "a step evaluates gradients at several points"
    # The noise of a step enters the memory, and by it the estimates of later steps: it adds up.
    if changes_memory(estimator) and not estimator.unbiased:
        return (
            f"the memory of {made_by(estimator)} depends on earlier batches, and it does not say "
            "that its estimates are unbiased nevertheless (unbiased = True)"
        )
    plain = without_metric(dynamics)[0]
    known = PreconditionedState._fields if isinstance(plain, Preconditioned) else ()
    # Once learned, a mass is a constant; one without a momentum has none to compare.
    if isinstance(plain, AdaptiveMass) and jax.tree.leaves(state.dynamics.momentum):
        known = AdaptiveMassState._fields
    others = set(state.dynamics._fields) - {"position", "momentum", "step", *known}
    if others:
        return (
            f"the state of {made_by(plain)} has {' and '.join(sorted(others))} in addition to "
            "a position and a momentum"
        )
    momentum = getattr(state.dynamics, "momentum", state.position)
    if _sizes(momentum) != _sizes(state.position):
        return f"the momentum of {made_by(plain)} is not shaped like the position"
    temperature = getattr(dynamics, "temperature", None)
    if temperature is None:
        return f"the dynamics {made_by(plain)} has no field named temperature"
    if not isinstance(temperature, Constant):
        return "the temperature is a schedule"
    if not _moves_alike(kernel) and (samples.draws is None or not vector(samples.sd).all()):
        return "the posterior sds are not known: the run kept no draws, or they are equal"
    return ""


def _moves_alike(kernel: Pair) -> bool:
    """Return whether batches move the state as the noise does, up to `position_excess`.

    They do if there is only a position to move, and under the library's own schemes.
    """
    plain, _ = without_metric(kernel.dynamics)
    plain = plain.dynamics if isinstance(plain, AdaptiveMass) else plain
    shape = jax.eval_shape(plain.init, jax.random.key(0), jnp.zeros(1))
    has_momentum = hasattr(shape, "momentum")
    return not has_momentum or (isinstance(plain, Underdamped) and not is_own(type(plain)))


def _sizes(tree: PyTree) -> list[int]:
    return [np.size(leaf) for leaf in jax.tree.leaves(tree)]


def _shape_difference(
    batch: np.ndarray, noise: np.ndarray, widths: np.ndarray, scale: float
) -> float:
    """Return how much batches and noise differ in the proportions in which they move position and
    momentum.

    The covariances of position and momentum are compared for each coordinate, in units of their
    sds and divided by their traces: the norm of the difference is 0 if one is a multiple of the
    other, at most √2; the mean over coordinates is returned. Values are positions, then momenta,
    shape (draw, chain, 2 d); `widths` are the sds of the position, (d,), `scale` the sd of the
    momentum.
    """

    def shares(values: np.ndarray) -> np.ndarray:
        position, momentum = np.split(values - values.mean(0), 2, axis=-1)
        both = np.stack([position / widths, momentum / scale], axis=-1)
        covariance = np.einsum("kcdi,kcdj->dij", both, both)
        return covariance / np.trace(covariance, axis1=1, axis2=2)[:, None, None]

    with np.errstate(all="ignore"):
        return float(np.mean(np.linalg.norm(shares(batch) - shares(noise), axis=(1, 2))))


@jax.jit(static_argnums=(6, 7, 8))
def single_steps(
    key: Key,
    kernel: Kernel,
    states: KernelState,
    chains: Array,
    places: Array,
    data: Data,
    count: int,
    shared_memory: bool,
    with_position: bool = False,
) -> tuple[Array, Array]:
    """Return new momenta for many batches with one noise, and for many noises with one batch.

    Both have shape (chain, draw, d); `with_position` puts the position before the momentum, shape
    (chain, draw, 2 d). Without a momentum it is the position.
    """

    def of_chain(pair: tuple[Key, Array]) -> tuple[Array, Array]:
        key, chain = pair
        memory = states.memory if shared_memory else pytrees.take(states.memory, chain)
        state = states._replace(dynamics=pytrees.take(states.dynamics, chain), memory=memory)
        fixed_key, draws_key = jax.random.split(key)
        fixed = kernel.draw(fixed_key, state, data)

        def values(randomness: Randomness) -> Array:
            new = kernel.transition(randomness, state, data)[0].dynamics
            parts = [new.position] * with_position + [getattr(new, "momentum", new.position)]
            return jnp.concatenate([ravel_pytree(part)[0][places] for part in parts])

        def both(key: Key) -> tuple[Array, Array]:
            drawn = kernel.draw(key, state, data)
            return values(Randomness(drawn.batch, fixed.noise)), values(
                Randomness(fixed.batch, drawn.noise)
            )

        return jax.lax.map(both, jax.random.split(draws_key, count))

    return jax.lax.map(of_chain, (jax.random.split(key, chains.shape[0]), chains))


def ratios(
    batch: np.ndarray, noise: np.ndarray, least: np.ndarray | float = 0.0
) -> tuple[float, float] | None:
    """Return the largest ratio of two variances over all directions, and the median over
    coordinates; None without noise.

    One half of the values finds the direction and the other half estimates the ratio in it, because
    the largest of many estimates is too large. Values have shape (draw, chain, d); the mean of each
    chain is subtracted. Coordinates whose noise is below `least`, shape (d,), are left out: it is
    rounding.
    """
    by_batch, by_noise = (np.mean(np.var(x, axis=0, ddof=1), axis=0) for x in (batch, noise))
    moves = np.sqrt(by_noise) > least
    if not moves.any() or not (np.isfinite(batch).all() and np.isfinite(noise).all()):
        return None
    median = float(np.median(by_batch[moves] / by_noise[moves]))
    # Halves of the chains if there are several, else of their draws.
    axis = 1 if batch.shape[1] > 1 else 0
    parts = (np.array_split(values[..., moves], 2, axis) for values in (batch, noise))
    halves = [tuple(map(_centred, both)) for both in zip(*parts, strict=True)]
    estimates = []
    for search, judge in ((0, 1), (1, 0)):
        by_batch, by_noise = halves[search]
        # In units of the noise.
        scale = np.sqrt(np.maximum(np.mean(by_noise**2, axis=0), np.finfo(float).tiny))
        relative = by_batch / scale
        places = [np.eye(1, len(scale), int(np.argmax(np.mean(relative**2, axis=0))))[0]]
        if len(scale) <= check_settings.MAX_SVD_DIRECTIONS:
            places.append(np.linalg.svd(relative, full_matrices=False)[2][0])
        along = np.stack(places, axis=1) / scale[:, None]
        of_batch, of_noise = (np.mean((rows @ along) ** 2, axis=0) for rows in halves[judge])
        estimates.append(of_batch / of_noise)
    return float(np.max(np.mean(estimates, axis=0))), median


def _centred(values: np.ndarray) -> np.ndarray:
    """Return values (draw, chain, d) less each chain's mean, of the right variance, stacked."""
    count = len(values)
    return (values - values.mean(0)).reshape(-1, values.shape[2]) * np.sqrt(count / (count - 1))
