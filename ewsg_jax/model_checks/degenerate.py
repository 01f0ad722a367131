"""Parameters that a likelihood reads and does not depend on: a layer over a batch makes a constant
of one row.

A likelihood is of one datum. Batch normalisation subtracts from it its own mean: the network's
output is a constant, whatever its input, all weights before are moved by the prior alone, and
nothing fails. The sign of it is a derivative by a whole array of the position that is 0, exactly,
on all rows, though the function reads the array.

A likelihood of all rows is found too: one that closes over the data, and reads nothing of its row.
So is an array of the position that neither the likelihood nor the prior reads.

Not signs of it, and asked for therefore: an array that is only in the prior (it is not read);
networks that begin at 0 and units that are saturated (two other positions); columns that are 0 in
these data (other data).
"""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ewsg_jax.base import checks, jaxprs
from ewsg_jax.base.compiling import UNOPTIMISED
from ewsg_jax.base.typing import Array, Data, Position, PyTree
from ewsg_jax.posterior.posterior import Posterior
from ewsg_jax.vectors.row_subsets import evenly, take_rows

FEW, MANY = 32, 2048
"""Rows that are taken first, and where they say that there may be something."""
MANY_ROWS = 8
"""From which on an array of as many rows as the data is no coincidence."""


def advice(posterior: Posterior, position: Position, data: Data) -> str | None:
    """Return what to say of arrays of a start that a likelihood reads and does not depend on; None
    of none.
    """
    if posterior.predictor is not None or posterior.check_values is not None:
        return None
    of_all = _of_all_rows(posterior, position, data)
    if of_all:
        return of_all
    paths = jax.tree_util.tree_leaves_with_path(position)
    rng = np.random.default_rng(0)
    near = _moved(position, rng, 0.1)
    few = take_rows(data, evenly(jax.tree.leaves(data)[0].shape[0], FEW))
    is_dead = _dead(posterior, near, few, rng)
    if not is_dead.any():
        return None
    is_read, by_data = _are_read(_program(posterior, position, data), position, data)
    if not by_data.any() or not np.any(_values(posterior, near, few)):
        # A likelihood that reads no row, or is 0 of every row, is so on purpose: the prior alone.
        return None
    is_dead &= is_read
    # An array of no numbers has no derivative; half precision may have lost it.
    is_dead &= np.array([np.size(x) > 0 for _, x in paths])
    is_dead &= np.array([jnp.finfo(jnp.result_type(x)).bits >= 32 for _, x in paths])
    if not is_dead.any():
        return None
    many = take_rows(data, evenly(jax.tree.leaves(data)[0].shape[0], MANY))
    small = jax.tree.map(
        lambda x: (np.where(x < 0, -1, 1) * 0.1 * np.abs(_normals(x, rng))).astype(x.dtype), near
    )
    for at, rows in ((near, many), (small, many), (near, _moved(many, rng, 1.0))):
        is_dead &= _dead(posterior, at, rows, rng)
    if not is_dead.any():
        return None
    shown = _names(position, is_dead)
    rows = jax.tree.leaves(many)[0].shape[0]
    named = _by_data(posterior, near, many, by_data)
    return (
        f"log_likelihood reads {shown}, but its derivative by it{named} is 0 on each of {rows} "
        "rows: only the prior moves it. log_likelihood is of one row: a layer over a batch (batch "
        "normalisation in training mode) makes a constant of one, so give it running statistics "
        "that are fixed; a threshold has no derivative, so smooth it (check_data=False does not "
        "look)"
    )


def unread(posterior: Posterior, position: Position, data: Data) -> str | None:
    """Return which arrays of the position no function of the posterior reads, in words; None of
    none. Along these the density is flat, without an end.

    Args:
        posterior: what is sampled.
        position: a start, of which shapes alone are asked.
        data: the rows, of which shapes alone are asked.
    """
    is_read, _ = _are_read(_program(posterior, position, data), position, data)
    has_numbers = np.array([np.size(x) > 0 for x in jax.tree.leaves(position)])
    if not np.any(has_numbers & ~is_read):
        return None
    prior = jax.make_jaxpr(lambda p: jnp.asarray(posterior.log_prior(p)))(checks.shapes(position))
    is_unread = has_numbers & ~is_read & ~_among(jaxprs.computed_from(prior), len(is_read))
    if not is_unread.any():
        return None
    return (
        f"neither log_likelihood nor log_prior reads {_names(position, is_unread)}: the density is "
        "the same whatever it is, so it has no posterior; give it a prior, or leave it out of the "
        "position"
    )


def _names(position: Position, chosen: np.ndarray) -> str:
    """Return names of arrays of a position as the user knows them, at most three."""
    paths = jax.tree_util.tree_leaves_with_path(position)
    names = [
        f"position{jax.tree_util.keystr(path)}"
        for (path, _), is_one in zip(paths, chosen, strict=True)
        if is_one
    ]
    return ", ".join(names[:3]) + (", …" if len(names) > 3 else "")


def _of_all_rows(posterior: Posterior, position: Position, data: Data) -> str:
    """Return that a likelihood of all rows counts once for each, in words; nothing if of one.

    It reads nothing of its row, and something with as many rows as the data have.
    """
    n = jax.tree.leaves(data)[0].shape[0]
    # Read off the program, which is traced for shapes and not run.
    program = _program(posterior, position, data)
    is_read, by_data = _are_read(program, position, data)
    lengths = {np.shape(x)[:1] for x in jaxprs.constants(program)}
    # Reading no row is a mistake only if an array as long as the data is read instead.
    if n < MANY_ROWS or not is_read.any() or by_data.any() or (n,) not in lengths:
        return ""
    return (
        "log_likelihood reads nothing of the row that it is given, and an array of "
        f"{n:,} rows from elsewhere: what it returns is summed over rows, and so counts {n:,} "
        "times. It must be the log density of one row, from its second argument"
    )


def _by_data(posterior: Posterior, position: Position, rows: Data, is_read: np.ndarray) -> str:
    """Return the names of floating-point arrays of the data of which that is true, too."""
    paths, structure = jax.tree_util.tree_flatten_with_path(rows)
    leaves = [leaf for _, leaf in paths]
    floats = [
        i
        for i, leaf in enumerate(leaves)
        if is_read[i] and jnp.issubdtype(leaf.dtype, jnp.floating)
    ]

    # All at once: one program for whatever arrays are asked of.
    @jax.jit
    def derivatives(some: list[Array], position: Position, leaves: list[Array]) -> list[Array]:
        def total(some: list[Array]) -> Array:
            given = dict(zip(floats, some, strict=True))
            rows = structure.unflatten([given.get(i, leaf) for i, leaf in enumerate(leaves)])
            return jnp.sum(posterior.log_likelihoods(position, rows))

        return jax.grad(total)(some)

    found = derivatives([jnp.asarray(leaves[i]) for i in floats], position, leaves)
    dead = [
        f"data{jax.tree_util.keystr(paths[i][0])}"
        for i, x in zip(floats, found, strict=True)
        if not np.any(x)
    ]
    return f", and by {', '.join(dead)}," if dead else ""


def _dead(
    posterior: Posterior, position: Position, rows: Data, rng: np.random.Generator
) -> np.ndarray:
    """Return which arrays have derivatives 0 or NaN in a sum over rows with random weights."""
    # Random weights, so that derivatives of rows do not cancel by chance.
    weights = rng.uniform(1, 2, jax.tree.leaves(rows)[0].shape[0]).astype(np.float32)
    return np.array(_zeros(posterior, position, rows, weights))


@functools.partial(jax.jit, static_argnums=0, compiler_options=UNOPTIMISED)
def _zeros(posterior: Posterior, position: Position, rows: Data, weights: Array) -> Array:
    def total(position: Position) -> Array:
        return jnp.sum(weights * posterior.log_likelihoods(position, rows))

    return jnp.stack([~jnp.any(jnp.abs(x) > 0) for x in jax.tree.leaves(jax.grad(total)(position))])


@functools.partial(jax.jit, static_argnums=0, compiler_options=UNOPTIMISED)
def _values(posterior: Posterior, position: Position, rows: Data) -> Array:
    return posterior.log_likelihoods(position, rows)


def _moved(tree: PyTree, rng: np.random.Generator, share: float) -> PyTree:
    """Return a tree with floating-point numbers moved by a share of their size, zeros of a unit."""

    def moved(x: object) -> np.ndarray:
        x = np.asarray(x)
        if not jnp.issubdtype(x.dtype, jnp.floating):
            return x
        size = np.where(x == 0, 1.0, np.abs(np.asarray(x, np.float64)))
        # At most three quarters of its size for a share of 1, so that signs stay.
        return (x + share * size * np.clip(_normals(x, rng), -3, 3) / 4).astype(x.dtype)

    return jax.tree.map(moved, tree)


def _normals(x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return rng.standard_normal(np.shape(x))


def reads_data(function: Callable[..., PyTree], position: Position, data: Data) -> bool:
    """Return whether what a function of a position and all rows returns depends on the rows."""
    shapes = checks.shapes(position), checks.shapes(data)
    try:
        program = jax.make_jaxpr(lambda *a: jax.tree.map(jnp.asarray, function(*a)))(*shapes)
    except Exception:
        return False  # Whoever calls it is told why it fails.
    return max(jaxprs.computed_from(program), default=-1) >= len(jax.tree.leaves(position))


def _are_read(program: Any, position: Position, data: Data) -> tuple[np.ndarray, np.ndarray]:
    """Return which arrays of position and data the results of a program are computed from."""
    count, of_data = (len(jax.tree.leaves(tree)) for tree in (position, data))
    is_read = _among(jaxprs.computed_from(program), count + of_data)
    return is_read[:count], is_read[count:]


def _among(numbers: frozenset[int], count: int) -> np.ndarray:
    """Return which of 0, …, count − 1 are among these numbers."""
    return np.isin(np.arange(count), list(numbers))


def _program(posterior: Posterior, position: Position, data: Data) -> Any:
    """Return the program of the log likelihood of one row."""
    return jax.make_jaxpr(lambda p, row: posterior.log_likelihood(p, row))(
        checks.shapes(position), checks.datum(data)
    )
