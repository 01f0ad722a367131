"""The excess temperature of gradient noise: a batch's variance over the intended noise's.

Of h² Cov(g) against 2hT under Langevin dynamics, 2γhT under an underdamped one, whatever the
kernel: single steps from the last states, on many batches with one noise, and on one batch with
many noises.

Single steps do not show it for epochs. Of what random batches would add a share is left there, 0.01
to 0.96 in docs/bias.md, by the time of an epoch beside that in which a direction of the posterior
is forgotten: a step's noise knows neither that time nor the batches before.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from ewsg_jax.base import checks, pytrees
from ewsg_jax.base.freshness import reads_now
from ewsg_jax.base.modules import is_own, made_by
from ewsg_jax.base.typing import Array, Data, Key, PyTree
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

DRAWS, FEWEST = 1024, 16
"""Batches of all chains together, and at least of each chain: 1,024 give a variance to some 5 %."""
MOST_EVALUATIONS = 20_000_000
MOST_CHAINS, MOST_NUMBERS = 64, 1024
"""Chains, and coordinates, evenly spaced, that are taken."""
ALIKE = 0.1
"""Up to which batches and noise move position and momentum alike (`_apart`)."""
TWO_WAYS = "the gradient moves position and momentum in other proportions than the noise does"
MOST_DENSE = 512
"""Coordinates up to which directions are evaluated, too."""


class GradientNoise(NamedTuple):
    """What the noise of batches adds to the temperature, over the temperature.

    Attributes:
        largest: in the direction where it is largest; 1 makes variances there twice too large.
            None: not known.
        median: of the coordinates. None: not known.
        reason: why it is not known, "" where it is.
    """

    largest: float | None
    median: float | None
    reason: str = ""


@reads_now("kernel")
def gradient_noise(key: Key, kernel: Kernel, samples: Samples, data: Data) -> GradientNoise:
    """Return the excess temperature that the noise of batches adds to a run, at its last states.

    It costs some 2,000 steps, of which the chains keep nothing. It is not known of estimators and
    dynamics that allow for that noise (weights, covariances, thermostats), of anchors and epochs,
    whose batches depend on each other, and of schedules of the temperature. Of parts of your own it
    is known where an estimator has no memory that changes, or says that it is `unbiased`, and where
    a dynamics has a field `temperature`, no more in its state than a position, a momentum and the
    step, and a gradient that moves both as the noise does. `ewsg_jax.check` sees a bias of any
    cause, from the draws alone.

    Args:
        key: a typed PRNG key.
        kernel: that of the run; of a stack `stack[i]`.
        samples: what `ewsg_jax.sample` returned; of a stack `runs[i]`.
        data: the run's, all n rows.

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
    # Once on the device, for each draw of a batch reads them.
    data = jax.tree.map(jnp.asarray, data) if checks.data(data) else data
    kernel.check(jax.tree.map(lambda x: jnp.asarray(x)[0], state.position), data)
    if not uses_batches(kernel):
        return GradientNoise(0.0, 0.0)
    # Where noise is made up for, its size says nothing of the temperature.
    reason = _unknown(kernel, samples, data)
    if reason:
        return GradientNoise(None, None, reason)
    assert isinstance(kernel, Pair)  # of others it is not known
    chains = alive[evenly(alive.size, min(alive.size, MOST_CHAINS))]
    per_step = max(1, kernel.evaluations(data).per_step)
    # As many as give a variance to some percent, within a bounded cost.
    count = max(FEWEST, min(DRAWS // len(chains), MOST_EVALUATIONS // (2 * len(chains) * per_step)))
    shared = shares_memory(kernel, state)
    length = sum(x[0].size for x in jax.tree.leaves(state.position))
    places = jnp.asarray(evenly(length, min(length, MOST_NUMBERS)))
    by_momentum = _moves_alike(kernel)
    batch, noise = single_steps(
        key, kernel, state, jnp.asarray(chains), places, data, count, shared, not by_momentum
    )
    batch, noise = (np.asarray(x, np.float64).swapaxes(0, 1) for x in (batch, noise))
    if not by_momentum:
        # The first half of the numbers are those of the position. That there is a temperature was
        # looked at before (`_unknown`).
        scale = float(kernel.dynamics.temperature(0)) ** 0.5  # type: ignore[attr-defined]
        apart = _apart(batch, noise, vector(samples.sd)[places], scale)
        if not apart <= ALIKE:
            return GradientNoise(None, None, TWO_WAYS)
        batch, noise = (x[..., len(places) :] for x in (batch, noise))
    # Below some roundings of its size a coordinate does not move.
    rounding = 4 * float(jnp.finfo(jnp.result_type(*jax.tree.leaves(state.position))).eps)
    least = rounding * np.abs(batch).max((0, 1))
    found = ratios(batch, noise, least)
    if found is None:
        return GradientNoise(None, None, "a step has no noise, or is not finite")
    # What batches and noise add to the momentum, as the position gets it.
    excess = getattr(kernel.dynamics, "position_excess", None)
    of_position = 1.0 if excess is None else float(excess(jnp.max(jnp.asarray(state.step))))
    largest, median = found
    return GradientNoise(largest * of_position, median * of_position)


def _unknown(kernel: Kernel, samples: Samples, data: Data) -> str:
    """Return why the noise of single batches is not what batches add; "" where it is."""
    state = samples.state
    if not isinstance(kernel, Pair):
        return "it is an exact method, whose batches add nothing"
    estimator, dynamics = kernel.estimator, kernel.dynamics
    model = noise_model_of(estimator, data)
    if model.chain_length is not None:
        return "weights choose the batch, and make up for a part of its noise"
    if model.unknown and not schemes_of(estimator):
        return f"the estimator {made_by(estimator)} has no law of rows and no noise_model"
    if needs_covariance(dynamics) or getattr(dynamics, "covariance", None) is not None:
        return "the dynamics allows for the noise of batches"
    if hasattr(state.dynamics, "thermostat"):
        return "a thermostat takes up the noise of batches"
    # Without a model, what a step refreshes now and then may be an anchor.
    is_refreshed = kernel.evaluations(data).per_refresh > 0
    if is_refreshed if model.unknown else model.anchor == "refreshed":
        return "the noise depends on the age of the anchor"
    if is_ordered(kernel):
        return "the batches of an epoch depend on each other"
    if dynamics.extra_gradients:
        return "a step evaluates gradients at several points"
    # The noise of a step is in the memory, and in the estimates of later ones: it adds up.
    if changes_memory(estimator) and not estimator.unbiased:
        return (
            f"the memory of {made_by(estimator)} depends on earlier batches, and it does not say "
            "that its estimates are unbiased all the same (unbiased = True)"
        )
    plain = without_metric(dynamics)[0]
    own = PreconditionedState._fields if isinstance(plain, Preconditioned) else ()
    others = set(state.dynamics._fields) - {"position", "momentum", "step", *own}
    if others:
        return (
            f"the state of {made_by(plain)} has {' and '.join(sorted(others))} beside a position "
            "and a momentum"
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
        return "how wide the posterior is, is not known: the run kept no draws, or they are equal"
    return ""


def _moves_alike(kernel: Pair) -> bool:
    """Return whether batches move the state as the noise does, up to `position_excess`.

    So they do where there is only a position to move, and under the library's own schemes.
    """
    plain, _ = without_metric(kernel.dynamics)
    shape = jax.eval_shape(plain.init, jax.random.key(0), jnp.zeros(1))
    has_momentum = hasattr(shape, "momentum")
    return not has_momentum or (isinstance(plain, Underdamped) and not is_own(type(plain)))


def _sizes(tree: PyTree) -> list[int]:
    return [np.size(leaf) for leaf in jax.tree.leaves(tree)]


def _apart(batch: np.ndarray, noise: np.ndarray, widths: np.ndarray, scale: float) -> float:
    """Return how differently batches and noise move position and momentum together.

    Of each coordinate the covariance of both, in units of their widths and over its trace: 0 where
    one is a multiple of the other, at most √2; on average over coordinates. Values are positions,
    then momenta, shape (draw, chain, 2 d); widths those of the position, (d,), `scale` that of the
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
    """Return noise's input, by batches at one noise and noises at one batch: (chain, draw, d).

    With the position before the momentum, where it is asked for: (chain, draw, 2 d).
    """

    def of_chain(pair: tuple[Key, Array]) -> tuple[Array, Array]:
        key, chain = pair
        memory = states.memory if shared_memory else pytrees.take(states.memory, chain)
        state = states._replace(dynamics=pytrees.take(states.dynamics, chain), memory=memory)
        one, many = jax.random.split(key)
        fixed = kernel.draw(one, state, data)

        def values(randomness: Randomness) -> Array:
            own = kernel.transition(randomness, state, data)[0].dynamics
            moved = [own.position] * with_position + [getattr(own, "momentum", own.position)]
            return jnp.concatenate([ravel_pytree(each)[0][places] for each in moved])

        def both(key: Key) -> tuple[Array, Array]:
            drawn = kernel.draw(key, state, data)
            return values(Randomness(drawn.batch, fixed.noise)), values(
                Randomness(fixed.batch, drawn.noise)
            )

        return jax.lax.map(both, jax.random.split(many, count))

    return jax.lax.map(of_chain, (jax.random.split(key, chains.shape[0]), chains))


def ratios(
    batch: np.ndarray, noise: np.ndarray, least: np.ndarray | float = 0.0
) -> tuple[float, float] | None:
    """Return the largest ratio of two variances over all directions, and the median one of
    coordinates; None without noise.

    Half of the values say where it is largest, and the other half how large it is there: the
    largest of many estimates would be so by chance. Values have shape (draw, chain, d), and the
    mean of each chain has no meaning. Coordinates whose noise is below `least`, shape (d,), are
    left out: it is rounding.
    """
    by_batch, by_noise = (np.mean(np.var(x, axis=0, ddof=1), axis=0) for x in (batch, noise))
    moves = np.sqrt(by_noise) > least
    if not moves.any() or not (np.isfinite(batch).all() and np.isfinite(noise).all()):
        return None
    median = float(np.median(by_batch[moves] / by_noise[moves]))
    # Of the chains where there are some, else of their values.
    axis = 1 if batch.shape[1] > 1 else 0
    parts = (np.array_split(values[..., moves], 2, axis) for values in (batch, noise))
    halves = [tuple(map(_off, both)) for both in zip(*parts, strict=True)]
    found = []
    # One half finds the direction and the other judges it: the largest of many is too large.
    for look, judge in ((0, 1), (1, 0)):
        by_batch, by_noise = halves[look]
        # In units of the noise, coordinates are alike.
        scale = np.sqrt(np.maximum(np.mean(by_noise**2, axis=0), np.finfo(float).tiny))
        relative = by_batch / scale
        places = [np.eye(1, len(scale), int(np.argmax(np.mean(relative**2, axis=0))))[0]]
        if len(scale) <= MOST_DENSE:
            places.append(np.linalg.svd(relative, full_matrices=False)[2][0])
        along = np.stack(places, axis=1) / scale[:, None]
        of_batch, of_noise = (np.mean((rows @ along) ** 2, axis=0) for rows in halves[judge])
        found.append(of_batch / of_noise)
    return float(np.max(np.mean(found, axis=0))), median


def _off(values: np.ndarray) -> np.ndarray:
    """Return values (draw, chain, d) less each chain's mean, of the right variance, stacked."""
    count = len(values)
    return (values - values.mean(0)).reshape(-1, values.shape[2]) * np.sqrt(count / (count - 1))
