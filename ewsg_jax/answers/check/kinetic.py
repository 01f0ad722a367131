"""The kinetic temperature of a run: E p² of the momentum, over what it should be.

The noise of batches goes into the momentum first, where it is h C/(2γ) of the direction in which
batches differ most; a scheme's own bias may be there too (that of `semi_implicit` is). Momenta are
not kept by a run: it is resumed for as long as a tenth of its steps.
"""

from typing import Any, NamedTuple

import jax
import numpy as np
from jax.sharding import Mesh

from ewsg_jax.answers.check.stein import blocks_of, of_blocks
from ewsg_jax.base import checks
from ewsg_jax.base.modules import made_by
from ewsg_jax.base.typing import Data, Key
from ewsg_jax.dynamics._mass import without_metric
from ewsg_jax.kernels.pair import Pair
from ewsg_jax.kernels.protocol import Kernel
from ewsg_jax.run.internal_run import inner_run
from ewsg_jax.run.samples import Samples
from ewsg_jax.vectors.row_subsets import evenly

LOOKS = 256
"""Times at which momenta are read, evenly spaced."""
PART = 10
"""The part of the run's steps that is made again: one in ten."""
MOST_NUMBERS, MOST_DENSE = 1024, 256
"""Coordinates, evenly spaced, that are used; and up to which directions are, too."""


class Heat(NamedTuple):
    """E p² over the temperature, with its standard error."""

    value: float
    error: float

    def __str__(self) -> str:
        return f"{self.value:.3f} ± {self.error:.3f}"


class Kinetic(NamedTuple):
    """The kinetic temperature, over the target's.

    Attributes:
        mean: on average over all directions.
        hottest: of the direction where it is largest by one half of the momenta, as the other half
            has it.
        coldest: of the direction where it is least.
        coordinates: of each coordinate of the momentum (at most 1,024, evenly spaced), shape (d,).
        errors: their standard errors, shape (d,).
    """

    mean: Heat
    hottest: Heat
    coldest: Heat
    coordinates: np.ndarray
    errors: np.ndarray

    def __str__(self) -> str:
        return (
            f"kinetic temperature: the target's times {self.mean} on average, {self.hottest} at "
            f"most and {self.coldest} at least over directions of the momentum"
        )


def check_kernel(kernel: Any, samples: Any) -> None:
    """Check that a run of this kernel has a momentum.

    Raises:
        TypeError, ValueError: it is no kernel, its dynamics have no momentum, or samples are of no
            run.
    """
    takes = (
        "the kernel of these samples, of a dynamics with a momentum (an underdamped one), or None"
    )
    checks.instance("kernel", kernel, Kernel, takes)
    checks.instance(
        "samples", samples, Samples, "what ewsg_jax.sample returned, where kernel is given"
    )
    if not isinstance(kernel, Pair) or not hasattr(samples.state.dynamics, "momentum"):
        raise ValueError(f"kernel must be {takes}; got {kernel!r}")


def unknown_law(kernel: Kernel) -> str:
    """Return why momenta of a kernel have no law to compare them with; "" where they have."""
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
    """Return the kinetic temperature over the target's, and passes over the data that it took.

    Args:
        key: a typed PRNG key.
        kernel: of the run.
        samples: of it.
        data: all n rows.
        temperature: of the target.
        mesh: the devices, those of the run where its rows were cut.
    """
    steps = max(1, samples.num_steps // (PART * LOOKS))
    found, passes = [], 0.0
    for own in jax.random.split(key, LOOKS):
        samples = inner_run(
            own,
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
        found.append(_some_of(samples))
    momenta = np.stack(found, axis=1)
    alive = np.isfinite(momenta).all((1, 2))
    # The `exact` dynamics has a velocity, of variance u T.
    scale = float(np.asarray(getattr(getattr(kernel, "dynamics", None), "inverse_mass", 1.0)))
    return told(
        momenta[alive] / np.sqrt(scale * temperature), bool(samples.shared_minibatch)
    ), passes


def told(momenta: np.ndarray, shared: bool) -> Kinetic:
    """Return what momenta (chain, draw, d) in units of the temperature's root say."""
    coordinates, errors = _mean(momenta**2, momenta, shared)
    axis = 0 if len(momenta) > 1 and not shared else 1
    halves = np.array_split(momenta, 2, axis=axis)
    # What is hottest among many would be so by chance: one half says where, the other how hot it is
    # there.
    both = [
        judge @ _ends(look.reshape(-1, look.shape[-1])) for look, judge in (halves, halves[::-1])
    ]
    ends = np.concatenate(both, axis=axis)
    heats, their_errors = _mean(ends**2, ends, shared)
    average, its_error = _mean(np.mean(momenta**2, axis=2, keepdims=True), momenta, shared)
    return Kinetic(
        Heat(float(average[0]), float(its_error[0])),
        Heat(float(heats[0]), float(their_errors[0])),
        Heat(float(heats[1]), float(their_errors[1])),
        coordinates,
        errors,
    )


def _ends(momenta: np.ndarray) -> np.ndarray:
    """Return the directions in which momenta (draw, d) are largest and smallest, shape (d, 2)."""
    size = momenta.shape[1]
    if size > MOST_DENSE:
        order = np.argsort(-np.mean(momenta**2, axis=0))
        return np.eye(size)[:, order[[0, -1]]]
    return np.linalg.svd(momenta, full_matrices=False)[2][[0, -1]].T


def _mean(values: np.ndarray, momenta: np.ndarray, shared: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return the mean of values (chain, draw, k) and its error, from blocks of momentum memory."""
    _, count, share = blocks_of(momenta, shared)
    rows = values.mean(0) if shared else values.reshape(-1, values.shape[-1])
    return rows.mean(0), of_blocks(rows, count).std(0, ddof=1) / np.sqrt(count * share)


def _some_of(samples: Samples) -> np.ndarray:
    """Return momenta of the last states, shape (chain, d), of chains that are lost NaN."""
    leaves = jax.tree.leaves(samples.state.dynamics.momentum)
    flat = np.concatenate(
        [np.asarray(x, np.float64).reshape(samples.num_chains, -1) for x in leaves], axis=1
    )
    some = evenly(flat.shape[1], MOST_NUMBERS)
    return np.where(samples.is_finite[:, None], flat[:, some], np.nan)
