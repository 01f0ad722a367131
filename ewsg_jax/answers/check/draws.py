"""Draws from any sampler as one array: chain, draw, coordinate."""

import math
from hashlib import blake2b
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ewsg_jax.answers.check.affine import Affine
from ewsg_jax.answers.check.crossfit import GROUPS
from ewsg_jax.answers.mode.mode import Mode
from ewsg_jax.base import checks
from ewsg_jax.base.typing import Position, PyTree
from ewsg_jax.draws.coordinates import Names, flattened, named
from ewsg_jax.run.samples import MOST_NAMED, Samples, diverged_of
from ewsg_jax.vectors.layout import Layout
from ewsg_jax.vectors.row_subsets import evenly

FEWEST = 8
"""Draws of a chain."""
MOST_NUMBERS = 2**26
"""Numbers of all draws that are used: 512 MiB in float64."""
TAKES = (
    "samples must be what ewsg_jax.sample returned, runs[i] of a stack, or a tree of arrays with "
    "leading axes (chain, draw)"
)


class Draws(NamedTuple):
    """Draws that are used.

    Attributes:
        values: shape (chain, draw, d), float64.
        layout: how d numbers are a position.
        names: of the coordinates.
        num_lost: chains that are left out, for they are not finite.
        num_draws: draws of each chain that there are.
        chains: which of them these are, shape (chain,).
        kept: which draws of each, shape (draw,).
        shared: whether chains share their batches, so that only blocks of time are independent.
        num_groups: groups of successive rows of `flat`, nearly independent of each other.
        lost: in words, which chains are left out, and when they diverged; empty where none is.
        is_cut: whether one of these diverged among its draws, or half of all chains or more did
            anywhere: see `verdict.of`.
    """

    values: np.ndarray
    layout: Layout
    names: tuple[str, ...]
    num_lost: int
    num_draws: int
    chains: np.ndarray
    kept: np.ndarray
    shared: bool
    num_groups: int = GROUPS
    lost: str = ""
    is_cut: bool = False

    @classmethod
    def at(cls, values: np.ndarray, layout: Layout) -> "Draws":
        """Return places of no run, shape (chain, draw, d), of coordinates without names."""
        chains, kept = np.arange(len(values)), np.arange(values.shape[1])
        return cls(values, layout, (), 0, len(kept), chains, kept, shared=False)

    @property
    def flat(self) -> np.ndarray:
        """All draws by chain, or by time where chains share their batches, shape (draws, d)."""
        rows = self.values.swapaxes(0, 1) if self.shared else self.values
        return rows.reshape(-1, self.size)

    def in_chains(self, rows: np.ndarray) -> np.ndarray:
        """Return numbers of the draws, in the order of `flat`, as (chain, draw, …)."""
        chains, draws = self.values.shape[:2]
        if self.shared:
            return rows.reshape(draws, chains, -1).swapaxes(0, 1)
        return rows.reshape(chains, draws, -1)

    @property
    def size(self) -> int:
        """D."""
        return self.values.shape[-1]

    def kurtosis(self, some: np.ndarray) -> np.ndarray:
        """Return E z⁴ / (E z²)² of coordinates of these numbers, z less its mean: 3 of a normal
        law.
        """
        off = self.flat[:, some] - self.flat[:, some].mean(0)
        # Never below 1, that of two values, but for rounding.
        return np.maximum(np.mean((off / off.std(0)) ** 4, axis=0), 1.0)

    def check_chains(self) -> None:
        """Check that chains are no copies: R-hat and errors would count these as others.

        Errors of chains that share batches are from time: copies make no difference.
        """
        seen: dict[bytes, int] = {}
        for number, chain in zip(self.chains.tolist(), self.values, strict=True):
            first = seen.setdefault(blake2b(chain.tobytes()).digest(), number)
            if first != number and not self.shared:
                raise ValueError(
                    f"samples must have chains with draws of their own; got chain {number} equal "
                    f"to chain {first}: each needs its own key"
                )

    def check_mode(self, mode: Mode) -> None:
        """Check that a mode is of these positions.

        Raises:
            TypeError, ValueError: it is not.
        """
        checks.instance("mode", mode, Mode, "made by ewsg_jax.find_mode")
        here = self.position(self.flat[0])
        checks.same_tree("mode must be of these positions", "mode.position", mode.position, here)

    def moved(self, to: Affine) -> "Draws":
        """Return the draws, moved."""
        return self._replace(values=to(self.values))

    def position(self, flat: np.ndarray) -> Position:
        """Return the position of d numbers."""
        return jax.device_put(self.layout.tree(flat))

    def told(self, flat: np.ndarray) -> Position:
        """Return d numbers like the position, at least in float32."""
        return jax.device_put(
            self.layout.tree(flat, jnp.result_type(jnp.float32, *self.layout.dtypes))
        )


def tree_of(samples: Samples | PyTree) -> PyTree:
    """Return the draws of a run, or such arrays themselves: with leading axes (chain, draw).

    Raises:
        TypeError, ValueError: they are none.
    """
    tree = samples.draws if isinstance(samples, Samples) else samples
    leaves = jax.tree.leaves(tree)
    if any(map(checks.is_traced, leaves)):
        raise TypeError(
            "samples must be known: call this outside of jit, vmap and grad; got traced ones"
        )
    if not leaves or not all(isinstance(x, jax.Array | np.ndarray) for x in leaves):
        raise TypeError(f"{TAKES}; got {checks.describe(samples)}")
    if min(x.ndim for x in leaves) < 2 or len({x.shape[:2] for x in leaves}) > 1:
        raise ValueError(
            f"{TAKES}, the same of all; got {checks.listed('samples', checks.shapes(tree))}"
        )
    return tree


def draws_of(
    samples: Samples | PyTree, names: Names, most: int | None, shared: bool | None = None
) -> Draws:
    """Return at most `most` draws of all chains together, evenly spaced; None: all.

    Chains share their batches where the samples say so, or the caller.

    Raises:
        TypeError, ValueError: they are none, or too few.
    """
    if isinstance(samples, Samples) and not samples.keeps_positions:
        raise ValueError(
            "samples must hold positions to be checked; got a run that was asked to keep something "
            "else: leave keep= out, and map draws after the check, as "
            "jax.vmap(jax.vmap(to.forward))(samples.draws)"
        )
    tree = tree_of(samples)
    leaves = jax.tree.leaves(tree)
    if not all(jnp.issubdtype(x.dtype, jnp.floating) for x in leaves):
        raise ValueError(
            f"{TAKES} of floating-point numbers; got "
            f"{checks.listed('samples', checks.shapes(tree))}"
        )
    num_chains, num_draws = leaves[0].shape[:2]
    if num_chains < 1 or num_draws < FEWEST:
        # A run ends when all of its chains have diverged, before there are draws.
        lost = isinstance(samples, Samples) and not samples.is_finite.any()
        why = ", for all chains diverged (samples.diverged_at): take a smaller step" if lost else ""
        raise ValueError(
            f"samples must have a chain, and at least {FEWEST} draws of each; got {num_chains} of "
            f"{num_draws}{why}"
        )
    checks.not_empty("samples", tree)
    kept = np.arange(num_draws)
    if most is not None:
        # Those that are used are one array, whose size is bounded.
        numbers = sum(math.prod(x.shape[2:]) for x in leaves)
        most = min(most, max(FEWEST * num_chains, MOST_NUMBERS // max(1, numbers)))
        # Evenly spaced, so that they span the whole run.
        kept = evenly(num_draws, min(num_draws, max(FEWEST, most // num_chains)))
    # On the host: an operation on JAX's arrays is a program for each shape.
    tree = jax.tree.map(np.asarray, tree)
    chosen = jax.tree.map(lambda x: x[:, kept], tree)
    checks.held("samples", chosen)
    values, own_names = flattened(named(chosen, "position"), names)
    finite = np.array(
        [all(np.isfinite(x[c]).all() for x in jax.tree.leaves(tree)) for c in range(num_chains)]
    )
    if isinstance(samples, Samples):
        finite &= samples.is_finite
    if not finite.any():
        raise ValueError("samples must have a chain that stayed finite; got none")
    values = values[finite]
    stuck = [
        name
        for name, width in zip(own_names, np.ptp(values, axis=(0, 1)), strict=True)
        if width == 0
    ]
    if stuck:
        raise ValueError(
            f"samples must move in every coordinate; got {len(stuck)} that are one number in all "
            f"draws: {', '.join(stuck[:3])}{', …' if len(stuck) > 3 else ''}"
        )
    if shared is None:
        shared = isinstance(samples, Samples) and bool(samples.shared_minibatch)
    # In the dtypes that JAX has for them, which may have 32 bits.
    layout = Layout.of(
        jax.tree.map(lambda x: x[0, 0].astype(jax.dtypes.canonicalize_dtype(x.dtype)), chosen)
    )
    lost, is_cut = _lost(samples, tree, finite)
    return Draws(
        values,
        layout,
        own_names,
        int(np.sum(~finite)),
        num_draws,
        np.flatnonzero(finite),
        kept,
        shared and len(values) > 1,
        lost=lost,
        is_cut=is_cut,
    )


def _lost(samples: Samples | PyTree, tree: PyTree, finite: np.ndarray) -> tuple[str, bool]:
    """Return in words which chains are left out, and whether a part of the posterior may be.

    It may where a chain diverged after its first draw, or half of all or more did. On the way from
    a bad start a chain may diverge far from the posterior; one that gave draws was where the others
    are, as far as is known.
    """
    which = np.flatnonzero(~finite)
    if not len(which):
        return "", False
    early = [not all(np.isfinite(x[c, 0]).all() for x in jax.tree.leaves(tree)) for c in which]
    if isinstance(samples, Samples) and not samples.is_finite[which].any():
        words = diverged_of(samples.diverged_at)
        early = early | (samples.diverged_at[which] < samples.step[0])
    elif len(which) == 1:
        words = f"chain {which[0]} is not finite"
    else:
        some = ", ".join(map(str, which[:MOST_NAMED])) + (", …" if len(which) > MOST_NAMED else "")
        words = f"{len(which)} of {len(finite)} chains are not finite ({some})"
    own = "its first draw" if len(which) == 1 else "their first draws"
    if np.all(early):
        words += f", before {own}"
    elif not np.any(early):
        words += f", after {own}"
    return words, not np.all(early) or 2 * len(which) >= len(finite)


def like(samples: PyTree, values: np.ndarray, chains: np.ndarray) -> PyTree:
    """Return a tree like the draws, of other values (chain, draw, d) for some of the chains."""
    leaves, structure = jax.tree.flatten(samples)
    ends = np.cumsum([int(np.prod(x.shape[2:])) for x in leaves])
    made = []
    for part, leaf in zip(np.split(values, ends[:-1], axis=2), leaves, strict=True):
        new = np.array(leaf)
        new[chains] = part.reshape(len(chains), *leaf.shape[1:]).astype(leaf.dtype)
        made.append(new)
    return jax.tree.unflatten(structure, made)
