"""Whether densities that a step compares are lost to rounding in float32.

A Metropolis step knows V/T as well as its rows, their sum and what cancels within a row let it. Few
rows are enough: a Poisson log likelihood of counts of 10⁶ is the difference of numbers of 10⁷, of
which float32 knows 1.
"""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ewsg_jax.base import limits, pytrees, rng
from ewsg_jax.base.compiling import in_float64
from ewsg_jax.base.typing import Data, Position
from ewsg_jax.metropolis.energy import is_lost
from ewsg_jax.metropolis.flymc import FireflyMonteCarlo
from ewsg_jax.metropolis.nuts import Nuts
from ewsg_jax.metropolis.random_walk_metropolis import RandomWalkMetropolis
from ewsg_jax.model_checks.finding import Finding
from ewsg_jax.model_checks.precision import ENABLE_X64, widened
from ewsg_jax.rows._view import num_rows, view

COMPARES = (Nuts, RandomWalkMetropolis, FireflyMonteCarlo)
"""Kernels that accept by differences of densities."""


def lost_differences(kernel: Any, position: Position, data: Data) -> list[Finding]:
    """Return a finding if float32 makes differences of V/T too inaccurate for acceptance.

    V is compared with its value in float64 at proposals around a position. None is returned if the
    position has 64 bits, if the kernel compares no densities, or if that cannot be evaluated; large
    data, of which a copy in float64 would take much memory, are not asked.

    Args:
        kernel: the kernel.
        position: that of a chain which has settled: far from there V, and its rounding, may be
            larger.
        data: all n rows, on one device.
    """
    numbers = pytrees.size(view(data).tree)
    is_narrow = jnp.result_type(*pytrees.dtypes(position)) != jnp.float64
    if not (isinstance(kernel, COMPARES) and is_narrow) or 8 * numbers > limits.BYTES_AT_ONCE:
        return []
    if isinstance(kernel, Nuts) and kernel.measures_rounding(data):
        return []  # It has, before its first step.
    step = jnp.int32(0)
    temperature = float(kernel.temperature(step))
    # An sd of 16 numbers is known to a fifth.
    like = jax.tree.map(lambda x: jnp.zeros((16, *x.shape), x.dtype), position)
    moves = rng.noise(jax.random.key(0), like)
    if isinstance(kernel, Nuts):
        moves = jax.vmap(kernel.mass.factor.times)(moves)
    size = kernel.step_size(step)
    points = jax.vmap(lambda move: pytrees.combine((1, position), (size, move)))(moves)
    try:
        narrow = _potentials(kernel, points, position, data)
        with in_float64():
            wide = _potentials(kernel, *jax.tree.map(widened, (points, position, view(data).tree)))
    except Exception:
        return []  # What cannot be evaluated by itself is not judged.
    # A proposal where the density is 0 is refused whatever the rounding.
    known = np.isfinite(narrow) & np.isfinite(wide)
    noise = float(np.std(narrow[known] - wide[known])) if known.any() else 0.0
    if not is_lost(noise, temperature):
        return []
    relative = "" if temperature == 1 else f" at a temperature of {temperature:.3g}"
    text = (
        f"float32 knows the potential of these {num_rows(data):,} rows to {noise:.2g} only"
        f"{relative}, so that which proposals are accepted is decided by rounding and draws have "
        "another spread than the posterior"
    )
    cure = f"{ENABLE_X64}, or take a constant, or what cancels, out of log_likelihood"
    return [Finding("precision", "error", text, cure)]


def _potentials(kernel: Any, points: Position, start: Position, data: Data) -> np.ndarray:
    """Return V, up to a constant, at positions with a leading axis, float64."""
    potential = _compared(kernel, points, start, data)
    return np.asarray(potential.value, np.float64) + np.asarray(potential.error, np.float64)


@jax.jit
def _compared(kernel: Any, points: Position, start: Position, data: Data) -> Any:
    return jax.lax.map(functools.partial(kernel.compared, start=start, data=data), points)
