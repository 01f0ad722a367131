"""The kinetic temperature of a run: E p² of the momentum, over its value under the target.

The noise of minibatches enters the momentum first: it adds h C/(2γ) in the direction in which
minibatches differ most. A scheme's own bias may be there too (as for `semi_implicit`). A run keeps
no momenta: it is resumed for a tenth of its steps.
"""

from typing import Any, NamedTuple

import jax
import numpy as np
from jax.sharding import Mesh

from ewsg_jax.answers.check import settings
from ewsg_jax.answers.check.stein import block_means, blocks_of
from ewsg_jax.base import checks
from ewsg_jax.base.modules import made_by
from ewsg_jax.base.typing import Data, Key
from ewsg_jax.dynamics._mass import without_metric
from ewsg_jax.kernels.in_coordinates import target_of
from ewsg_jax.kernels.protocol import Kernel
from ewsg_jax.run.sample import inner_run
from ewsg_jax.run.samples import Samples
from ewsg_jax.vectors.row_subsets import evenly


class MomentumTemperature(NamedTuple):
    """E p² over the temperature.

    Attributes:
        value: the ratio.
        error: its standard error.
    """

    value: float
    error: float

    def __str__(self) -> str:
        return f"{self.value:.3f} ± {self.error:.3f}"


class Kinetic(NamedTuple):
    """The kinetic temperature, over that of the target.

    Attributes:
        mean: the average over all directions.
        hottest: the direction in which it is largest by one half of the momenta, measured by the
            other half.
        coldest: the same of the direction in which it is smallest.
        coordinates: each coordinate of the momentum (at most 1,024, evenly spaced), shape (d,).
        errors: their standard errors, shape (d,).
    """

    mean: MomentumTemperature
    hottest: MomentumTemperature
    coldest: MomentumTemperature
    coordinates: np.ndarray
    errors: np.ndarray

    def __str__(self) -> str:
        return (
            f"kinetic temperature: the target's times {self.mean} on average, {self.hottest} at "
            f"most and {self.coldest} at least over directions of the momentum"
        )


def check_kernel(kernel: Any, samples: Any) -> None:
    """Check that samples are a run of this kernel, and that it has a momentum.

    Raises:
        TypeError, ValueError: it is not a kernel, its dynamics have no momentum, or the samples are
            not a run.
    """
    takes = (
        "the kernel of these samples, of a dynamics with a momentum (an underdamped one), or None"
    )
    checks.instance("kernel", kernel, Kernel, takes)
    checks.instance(
        "samples", samples, Samples, "what ewsg_jax.sample returned, if kernel is given"
    )
    if target_of(kernel) is None or not hasattr(samples.state.dynamics, "momentum"):
        raise ValueError(f"kernel must be {takes}; got {kernel!r}")


def why_unknown(kernel: Kernel) -> str:
    """Return why the distribution of a kernel's momenta is unknown; "" if it is known."""
    dynamics = getattr(kernel, "dynamics", None)
    if dynamics is None or dynamics.gaussian_momentum:
        return ""
    name = made_by(without_metric(dynamics)[0])
    return (
        f"kinetic temperature: not known, for {name} does not say that its kinetic energy is "
        "‖p‖²/2 (gaussian_momentum = True)"
    )


def kinetic(
    key: Key,
    kernel: Kernel,
    samples: Samples,
    data: Data,
    temperature: float,
    mesh: Mesh | None = None,
) -> tuple[Kinetic, float]:
    """Return the kinetic temperature over the target's, and its cost in passes over the data.

    Args:
        key: a typed PRNG key.
        kernel: the kernel of the run.
        samples: the run that is resumed.
        data: all n rows.
        temperature: T of the target exp(−V/T).
        mesh: the devices of the run if its rows were cut; None: one device.
    """
    num_reads = settings.MOMENTUM_READS
    steps = max(1, samples.num_steps // (settings.STEPS_PER_EXTRA_STEP * num_reads))
    reads, passes = [], 0.0
    for read_key in jax.random.split(key, num_reads):
        samples = inner_run(
            read_key,
            kernel,
            None,
            data,
            steps,
            keep=None,
            state=samples.state,
            shared_minibatch=bool(samples.shared_minibatch),
            mesh=mesh,
        )
        passes += samples.data_passes * samples.num_chains
        reads.append(_last_momenta(samples))
    momenta = np.stack(reads, axis=1)
    alive = np.isfinite(momenta).all((1, 2))
    # The `exact` dynamics has a velocity, of variance u T.
    scale = float(np.asarray(getattr(getattr(kernel, "dynamics", None), "inverse_mass", 1.0)))
    unit = np.sqrt(scale * temperature)
    return from_momenta(momenta[alive] / unit, bool(samples.shared_minibatch)), passes


def from_momenta(momenta: np.ndarray, shared: bool) -> Kinetic:
    """Return the kinetic temperature by momenta.

    Args:
        momenta: momenta in units of the root of the temperature, shape (chain, draw, d).
        shared: whether chains share their minibatches.
    """
    coordinates, errors = _mean(momenta**2, momenta, shared)
    axis = 0 if len(momenta) > 1 and not shared else 1
    first, second = np.array_split(momenta, 2, axis=axis)
    # The largest of many directions is large by Monte Carlo error too: one half of the momenta
    # finds it, the other measures it.
    extremes = np.concatenate(
        [
            measured @ _extreme_directions(searched.reshape(-1, searched.shape[-1]))
            for searched, measured in ((first, second), (second, first))
        ],
        axis=axis,
    )
    ends, end_errors = _mean(extremes**2, extremes, shared)
    average, average_error = _mean(np.mean(momenta**2, axis=2, keepdims=True), momenta, shared)
    return Kinetic(
        MomentumTemperature(float(average[0]), float(average_error[0])),
        MomentumTemperature(float(ends[0]), float(end_errors[0])),
        MomentumTemperature(float(ends[1]), float(end_errors[1])),
        coordinates,
        errors,
    )


def _extreme_directions(momenta: np.ndarray) -> np.ndarray:
    """Return the directions in which momenta (draw, d) are largest and smallest, shape (d, 2)."""
    size = momenta.shape[1]
    if size > settings.MAX_SVD_DIRECTIONS:
        order = np.argsort(-np.mean(momenta**2, axis=0))
        return np.eye(size)[:, order[[0, -1]]]
    return np.linalg.svd(momenta, full_matrices=False)[2][[0, -1]].T


def _mean(values: np.ndarray, momenta: np.ndarray, shared: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return means and their standard errors, shape (k,) both.

    Args:
        values: functions of the momenta, shape (chain, draw, k).
        momenta: the momenta, whose autocorrelation gives the length of a block.
        shared: whether chains share their minibatches.
    """
    _, count, share = blocks_of(momenta, shared)
    rows = values.mean(0) if shared else values.reshape(-1, values.shape[-1])
    return rows.mean(0), block_means(rows, count).std(0, ddof=1) / np.sqrt(count * share)


def _last_momenta(samples: Samples) -> np.ndarray:
    """Return momenta of the last states, shape (chain, d); NaN for chains that diverged."""
    leaves = jax.tree.leaves(samples.state.dynamics.momentum)
    flat = np.concatenate(
        [np.asarray(x, np.float64).reshape(samples.num_chains, -1) for x in leaves], axis=1
    )
    chosen = evenly(flat.shape[1], settings.MAX_COMPARED_COORDINATES)
    return np.where(samples.is_finite[:, None], flat[:, chosen], np.nan)
