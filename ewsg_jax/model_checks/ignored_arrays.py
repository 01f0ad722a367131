"""Arrays of a position that a model ignores: a layer over a batch makes a constant of one row.

A likelihood is of one datum. Batch normalisation subtracts from it its own mean: the network's
output is a constant, whatever its input, all weights before are moved by the prior alone, and
nothing fails. The sign of it is a derivative by an entire array of the position that is 0, exactly,
on all rows, though the function reads the array.

A likelihood of all rows is found too: one that closes over the data, and reads nothing of its row.
So is an array of the position that neither the likelihood nor the prior reads, and a likelihood
that leaves most arrays of the data unread, as one of a row does with a list of rows.

No signs of it, and therefore excluded: an array that is only in the prior (the likelihood does not
read it, or adds and subtracts a term of it that no row enters, as a bridge to another library
does); networks that begin at 0 and units that are saturated (two other positions); columns that are
0 in these data (other data).
"""

import functools
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ewsg_jax.base import checks, jaxprs
from ewsg_jax.base.compiling import UNOPTIMISED
from ewsg_jax.base.typing import Array, Data, Position, PyTree
from ewsg_jax.model_checks.finding import Finding
from ewsg_jax.model_checks.precision import lost_to_rounding
from ewsg_jax.posterior.posterior import Posterior
from ewsg_jax.rows._view import num_rows
from ewsg_jax.vectors.row_subsets import evenly, take_rows

MANY_ARRAYS = 8
"""Arrays of data above which it is said that most are unread, unless they are in a list. By hand.
"""


class _Reads(NamedTuple):
    """Which arrays the log likelihood of one row is computed from.

    Attributes:
        position: for each leaf of the position, shape (leaves,).
        data: for each leaf of the data.
        with_data: for each leaf of the position, whether the row enters what is computed from it,
            and not only a sum with it.
        lengths: leading axes of the constants that it holds.
    """

    position: np.ndarray
    data: np.ndarray
    with_data: np.ndarray
    lengths: set[tuple[int, ...]]


def ignored_arrays(posterior: Posterior, position: Position, data: Data) -> list[Finding]:
    """Return a finding of arrays that nothing reads, and one of those that the likelihood reads
    and does not depend on; none of what cannot be traced.

    Args:
        posterior: the model.
        position: a start.
        data: the rows.
    """
    findings = []
    for question in (unread, unread_data, without_effect):
        try:
            findings += question(posterior, position, data)
        except Exception:
            continue  # What cannot be taken apart is not judged.
    return findings


def without_effect(posterior: Posterior, position: Position, data: Data) -> list[Finding]:
    """Return one finding of arrays of a start that the likelihood reads and does not depend on, or
    of a likelihood of all rows; none if there is no such array.
    """
    if posterior.predictor is not None or posterior.check_values is not None:
        return []
    reads = _reads(posterior, position, data)
    n = jax.tree.leaves(data)[0].shape[0]
    if of_all_rows := _of_all_rows(reads, n):
        return of_all_rows
    leaves = jax.tree.leaves(position)
    rng = np.random.default_rng(0)
    near = _moved(position, rng, 0.1)
    # A few rows cost every run some milliseconds.
    few = take_rows(data, evenly(n, 32))
    is_dead = _dead(posterior, near, few, rng)
    if not is_dead.any():
        return []
    values = np.asarray(_values(posterior, near, few))
    if np.isnan(values).all() and (rounded := lost_to_rounding(posterior, position, data)):
        return rounded
    if not reads.data.any() or not np.any(values):
        # A likelihood that reads no row, or is 0 for every row, is so on purpose: the prior alone.
        return []
    is_dead &= reads.with_data
    # An array of no numbers has no derivative; half precision may have lost it.
    is_dead &= np.array([np.size(x) > 0 for x in leaves])
    is_dead &= np.array([jnp.finfo(jnp.result_type(x)).bits >= 32 for x in leaves])
    if not is_dead.any():
        return []
    # More rows confirm a derivative of 0.
    many = take_rows(data, evenly(n, 2048))
    small = jax.tree.map(
        lambda x: (np.where(x < 0, -1, 1) * 0.1 * np.abs(_normals(x, rng))).astype(x.dtype), near
    )
    for at, rows in ((near, many), (small, many), (near, _moved(many, rng, 1.0))):
        is_dead &= _dead(posterior, at, rows, rng)
    if not is_dead.any():
        return []
    by_data = _dead_data(posterior, near, many, reads.data)
    text = (
        f"log_likelihood reads {_names(position, is_dead)}, but its derivative by it{by_data} is 0 "
        f"on each of {jax.tree.leaves(many)[0].shape[0]} rows: only the prior moves it. "
        "log_likelihood is of one row: a layer over a batch (batch normalisation in training mode) "
        "makes a constant of one, so give it running statistics that are fixed; a threshold has no "
        "derivative, so smooth it (check_data=False does not look)"
    )
    return [Finding("no_effect", "error", text)]


def unread(posterior: Posterior, position: Position, data: Data) -> list[Finding]:
    """Return one finding of arrays of the position that no function of the posterior reads, along
    which the density is the same everywhere; none if there are none.

    Args:
        posterior: the model.
        position: a start, of which shapes alone are used.
        data: the rows, of which shapes alone are used.
    """
    is_read = _reads(posterior, position, data).position
    has_numbers = np.array([np.size(x) > 0 for x in jax.tree.leaves(position)])
    if not np.any(has_numbers & ~is_read):
        return []
    prior = jax.make_jaxpr(lambda p: jnp.asarray(posterior.log_prior(p)))(checks.shapes(position))
    is_unread = has_numbers & ~is_read & ~_among(jaxprs.computed_from(prior), len(is_read))
    if not is_unread.any():
        return []
    text = (
        f"neither log_likelihood nor log_prior reads {_names(position, is_unread)}: the density is "
        "the same whatever it is, so it has no posterior"
    )
    return [Finding("unread", "error", text, "give it a prior, or leave it out of the position")]


def unread_data(posterior: Posterior, position: Position, data: Data) -> list[Finding]:
    """Return one finding if most arrays of the data are not read, and none if they are.

    Args:
        posterior: the model.
        position: a start, of which shapes alone are used.
        data: the rows, of which shapes alone are used.
    """
    is_read, findings = _reads(posterior, position, data).data, []
    for (path, leaf), leaf_is_read in zip(
        jax.tree_util.tree_leaves_with_path(data), is_read, strict=True
    ):
        n, *width = leaf.shape
        if not (leaf_is_read and len(width) == 1 and width[0] > n):
            continue
        num_read = int(np.sum(_read_numbers(posterior, position, data, leaf)))
        if 0 < 2 * num_read < width[0]:
            where = f"data{jax.tree_util.keystr(path)}"
            text = (
                f"log_likelihood reads {num_read} of the {width[0]} numbers of each row of {where}"
            )
            text += f", which has {n} rows"
            findings.append(
                Finding("unread_data", "note", text, f"are its rows columns, {where}.T?")
            )
    # A few columns of a dictionary may be there for other models.
    least = 2 if type(data) in (list, tuple) else MANY_ARRAYS
    if len(is_read) <= least or 2 * np.sum(is_read) >= len(is_read) or not is_read.any():
        return findings
    text = (
        f"log_likelihood reads {np.sum(is_read)} of the {len(is_read)} arrays of data, "
        f"{_names(data, is_read, 'data')}, each of which is a column of {num_rows(data):,} rows"
    )
    cure = (
        "if each array is a row, stack them (numpy.stack), and if it is a batch, concatenate them; "
        "if they are columns of other models, leave them out"
    )
    return [*findings, Finding("unread_data", "note", text, cure)]


def _read_numbers(
    posterior: Posterior, position: Position, data: Data, leaf: np.ndarray
) -> np.ndarray:
    """Return which numbers of a floating-point array's rows the log likelihood depends on."""
    if not jnp.issubdtype(leaf.dtype, jnp.floating):
        return np.ones(leaf.shape[1:], bool)
    leaves, structure = jax.tree.flatten(data)
    place = next(i for i, x in enumerate(leaves) if x is leaf)
    near = _moved(position, np.random.default_rng(0), 0.1)

    @jax.jit
    def derivative(rows: Array, leaves: list[Array]) -> Array:
        replaced = structure.unflatten([*leaves[:place], rows, *leaves[place + 1 :]])
        return jnp.sum(posterior.log_likelihoods(near, replaced))

    return np.any(np.asarray(jax.grad(derivative)(jnp.asarray(leaf), leaves)) != 0, axis=0)


def _names(tree: PyTree, chosen: np.ndarray, name: str = "position") -> str:
    """Return names of arrays of a pytree as the user knows them, at most three."""
    paths = jax.tree_util.tree_leaves_with_path(tree)
    names = [
        f"{name}{jax.tree_util.keystr(path)}"
        for (path, _), is_chosen in zip(paths, chosen, strict=True)
        if is_chosen
    ]
    return ", ".join(names[:3]) + (", …" if len(names) > 3 else "")


def _of_all_rows(reads: _Reads, n: int) -> list[Finding]:
    """Return one finding if a likelihood of all rows counts once for each, or none.

    It reads nothing of its row, and instead an array with as many rows as the data have.
    """
    is_of_all = reads.position.any() and not reads.data.any() and (n,) in reads.lengths
    # With fewer rows an array of as many may be a coincidence.
    if n < 8 or not is_of_all:
        return []
    text = (
        "log_likelihood reads nothing of the row that it is given, and an array of "
        f"{n:,} rows from elsewhere: what it returns is summed over rows, and so counts {n:,} "
        "times. It must be the log density of one row, from its second argument"
    )
    return [Finding("all_rows", "error", text)]


def _dead_data(posterior: Posterior, position: Position, rows: Data, is_read: np.ndarray) -> str:
    """Return the names of floating-point arrays of the data by which the derivative is 0 too."""
    paths, structure = jax.tree_util.tree_flatten_with_path(rows)
    leaves = [leaf for _, leaf in paths]
    floats = [
        i
        for i, leaf in enumerate(leaves)
        if is_read[i] and jnp.issubdtype(leaf.dtype, jnp.floating)
    ]

    # All at once: one program, whatever arrays are asked about.
    @jax.jit
    def derivatives(arrays: list[Array], position: Position, leaves: list[Array]) -> list[Array]:
        def total(arrays: list[Array]) -> Array:
            replaced = dict(zip(floats, arrays, strict=True))
            rows = structure.unflatten([replaced.get(i, leaf) for i, leaf in enumerate(leaves)])
            return jnp.sum(posterior.log_likelihoods(position, rows))

        return jax.grad(total)(arrays)

    by_data = derivatives([jnp.asarray(leaves[i]) for i in floats], position, leaves)
    dead = [
        f"data{jax.tree_util.keystr(paths[i][0])}"
        for i, x in zip(floats, by_data, strict=True)
        if not np.any(x)
    ]
    return f", and by {', '.join(dead)}," if dead else ""


def _dead(
    posterior: Posterior, position: Position, rows: Data, rng: np.random.Generator
) -> np.ndarray:
    """Return which arrays have derivatives 0 or NaN in a sum over rows with random weights."""
    # Random weights, so that derivatives of rows do not cancel.
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
    """Return a pytree with floating-point numbers moved by a share of their size, or of 1 if they
    are 0.
    """

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
        return False  # Whoever calls it gets the error.
    return max(jaxprs.computed_from(program), default=-1) >= len(jax.tree.leaves(position))


def _reads(posterior: Posterior, position: Position, data: Data) -> _Reads:
    """Return what the log likelihood of one row reads; it is traced for shapes and not run."""
    program = jax.make_jaxpr(lambda p, row: posterior.log_likelihood(p, row))(
        checks.shapes(position), checks.datum(data)
    )
    count, of_data = (len(jax.tree.leaves(tree)) for tree in (position, data))
    is_read = _among(jaxprs.computed_from(program), count + of_data)
    lengths = {np.shape(x)[:1] for x in jaxprs.constants(program)}
    with_data = _among(jaxprs.multiplied_with(program, count), count)
    return _Reads(is_read[:count], is_read[count:], with_data, lengths)


def _among(numbers: frozenset[int], count: int) -> np.ndarray:
    """Return which of 0, …, count − 1 are among these numbers."""
    return np.isin(np.arange(count), list(numbers))
