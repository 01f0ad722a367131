"""Draws from any sampler as one array: chain, draw, coordinate."""

from hashlib import blake2b
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ewsg_jax.answers.check import settings
from ewsg_jax.answers.check.affine import AffineMap
from ewsg_jax.answers.mode.mode import Mode
from ewsg_jax.base import checks, limits, numeric, pytrees
from ewsg_jax.base.typing import Position, PyTree
from ewsg_jax.draws.coordinates import Names, flattened, named
from ewsg_jax.hierarchy.centring import Centring
from ewsg_jax.model_checks.finding import Finding
from ewsg_jax.run.samples import Samples, diverged_of
from ewsg_jax.vectors.layout import Layout
from ewsg_jax.vectors.row_subsets import evenly

SAMPLES_MUST_BE = (
    "samples must be what ewsg_jax.sample returned, runs[i] of a stack, or a pytree of arrays with "
    "leading axes (chain, draw)"
)


class Draws(NamedTuple):
    """The draws that a check uses.

    Attributes:
        values: the draws, shape (chain, draw, d), float64.
        layout: how d numbers are a position.
        names: names of the coordinates.
        num_lost: the number of chains that were left out because they are not finite.
        num_draws: the number of draws of each chain before some were chosen.
        chains: the numbers of the chains that were chosen, shape (chain,).
        kept: the numbers of the draws that were chosen of each, shape (draw,).
        shared: whether chains share their minibatches, so that only blocks of time are independent.
        num_groups: the number of groups of successive rows of `flat` that are nearly independent of
            each other.
        lost: which chains were left out and when they diverged, in words; empty if none was.
        is_cut: whether a chain diverged after its first draw, or half of all chains or more did at
            any time: a part of the posterior may be cut off (`verdict.without_a_part`).
        centring: the map from the coordinates of `values` to the position; None if these are its
            own.
    """

    values: np.ndarray
    layout: Layout
    names: tuple[str, ...]
    num_lost: int
    num_draws: int
    chains: np.ndarray
    kept: np.ndarray
    shared: bool
    num_groups: int
    lost: str = ""
    is_cut: bool = False
    centring: Centring | None = None

    @classmethod
    def at(cls, values: np.ndarray, layout: Layout) -> "Draws":
        """Return positions that are not those of a run, without names.

        Args:
            values: positions, shape (chain, draw, d).
            layout: how d numbers are a position.
        """
        return cls(
            values=values,
            layout=layout,
            names=(),
            num_lost=0,
            num_draws=values.shape[1],
            chains=np.arange(len(values)),
            kept=np.arange(values.shape[1]),
            shared=False,
            num_groups=settings.ERROR_GROUPS,
        )

    @property
    def flat(self) -> np.ndarray:
        """All draws, by chain, or by time if chains share their minibatches, shape (draws, d)."""
        rows = self.values.swapaxes(0, 1) if self.shared else self.values
        return rows.reshape(-1, self.size)

    def in_chains(self, rows: np.ndarray) -> np.ndarray:
        """Return an array with axes (chain, draw, …) from one with a row for each row of `flat`."""
        chains, draws = self.values.shape[:2]
        if self.shared:
            return rows.reshape(draws, chains, -1).swapaxes(0, 1)
        return rows.reshape(chains, draws, -1)

    @property
    def size(self) -> int:
        """The number of parameters, d."""
        return self.values.shape[-1]

    def kurtosis(self, coordinates: np.ndarray) -> np.ndarray:
        """Return E z⁴ / (E z²)² with z a coordinate less its mean: 3 for a normal distribution.

        Args:
            coordinates: the numbers of the coordinates, shape (k,).
        """
        off = self.flat[:, coordinates] - self.flat[:, coordinates].mean(0)
        # The kurtosis of two values is 1; less is rounding.
        return np.maximum(np.mean((off / off.std(0)) ** 4, axis=0), 1.0)

    def check_chains(self) -> None:
        """Check that no chain is a copy of another: R-hat and errors would count both.

        Errors of chains that share minibatches come from time: copies make no difference.
        """
        numbers: dict[bytes, int] = {}
        for number, chain in zip(self.chains.tolist(), self.values, strict=True):
            first = numbers.setdefault(blake2b(chain.tobytes()).digest(), number)
            if first != number and not self.shared:
                raise ValueError(
                    f"samples must have chains with draws of their own; got chain {number} equal "
                    f"to chain {first}: each needs its own key"
                )

    def check_mode(self, mode: Mode) -> None:
        """Check that a mode is of the same shapes as these positions.

        Raises:
            TypeError, ValueError: it is not a mode, or has other shapes.
        """
        checks.instance("mode", mode, Mode, "made by ewsg_jax.find_mode")
        here = self.position(self.flat[0])
        checks.same_tree("mode must be of these positions", "mode.position", mode.position, here)

    def moved(self, to: AffineMap) -> "Draws":
        """Return the draws, mapped by an affine map."""
        return self._replace(values=to(self.values))

    def position(self, flat: np.ndarray) -> Position:
        """Return d numbers as a position, in its dtypes."""
        return jax.device_put(self.layout.tree(flat))

    def as_position(self, flat: np.ndarray) -> Position:
        """Return d numbers as a pytree like the position, at least in float32."""
        return jax.device_put(
            self.layout.tree(flat, jnp.result_type(jnp.float32, *self.layout.dtypes))
        )

    def numbers(self, flat: np.ndarray) -> PyTree:
        """Return d numbers as a pytree like the position, of NumPy and in float64: float32 may have
        fewer digits than are known.
        """
        return self.layout.tree(np.asarray(flat), np.float64)


def target_temperature(samples: Samples | PyTree, temperature: float | None) -> float:
    """Return the T of the target exp(−V/T): the argument, or that of the run's last draw.

    Raises:
        TypeError, ValueError: the argument is no positive number.
    """
    if temperature is not None:
        checks.positive("temperature", temperature)
        return float(temperature)
    made_at = samples.temperature if isinstance(samples, Samples) else np.ones(1)
    return float(made_at[-1]) if len(made_at) else 1.0


def temperature_findings(samples: Samples | PyTree, temperature: float | None) -> list[Finding]:
    """Return that draws are judged at the temperature of their run, if it is not 1, and that they
    were made at several, if they were.
    """
    made_at = samples.temperature if isinstance(samples, Samples) else np.ones(1)
    if temperature is not None or not np.any(made_at != 1):
        return []
    low, high, last = (f"{t:.3g}" for t in (made_at.min(), made_at.max(), made_at[-1]))
    if low == high:
        text = f"the draws are judged at the temperature of their run, T = {last}"
        return [Finding("temperature", "note", text, "temperature=1 judges them by the posterior")]
    text = (
        f"draws were made at temperatures from {low} to {high}, and are judged at that of the last "
        f"one, T = {last}"
    )
    return [Finding("temperature", "doubt", text, "keep those at one temperature, by burn_in=")]


def tree_of(samples: Samples | PyTree) -> PyTree:
    """Return the draws of a run, or such a pytree itself, with leading axes (chain, draw).

    Raises:
        TypeError, ValueError: samples are neither.
    """
    tree = samples.draws if isinstance(samples, Samples) else numeric.native(samples)
    leaves = jax.tree.leaves(tree)
    if any(map(checks.is_traced, leaves)):
        raise TypeError(
            "samples must be known: call this outside of jit, vmap and grad; got traced ones"
        )
    if not leaves or not all(isinstance(x, jax.Array | np.ndarray) for x in leaves):
        raise TypeError(f"{SAMPLES_MUST_BE}; got {checks.describe(samples)}")
    if min(x.ndim for x in leaves) < 2 or len({x.shape[:2] for x in leaves}) > 1:
        raise ValueError(
            f"{SAMPLES_MUST_BE}, the same of all; got "
            f"{checks.listed('samples', checks.shapes(tree))}"
        )
    return tree


def draws_of(
    samples: Samples | PyTree, names: Names, most: int | None, shared: bool | None = None
) -> Draws:
    """Return draws, evenly spaced, of the chains that are finite.

    Args:
        samples: a run, or a pytree of draws with leading axes (chain, draw).
        names: names of the coordinates; None: their places in the pytree.
        most: the largest number of draws of all chains together; None: all.
        shared: whether chains share their minibatches; None: as the samples say.

    Raises:
        TypeError, ValueError: samples are not draws, or too few.
    """
    tree = _positions_of(samples)
    leaves = jax.tree.leaves(tree)
    num_chains, num_draws = leaves[0].shape[:2]
    kept = np.arange(num_draws)
    if most is not None:
        # The draws that are used become one array, whose size is bounded.
        fewest = settings.MIN_CHAIN_DRAWS
        numbers = pytrees.size(tree, leading_axes=2)
        room = settings.MAX_USED_NUMBERS // max(1, numbers)
        most = min(most, max(fewest * num_chains, room))
        # Evenly spaced, so that they span the whole run.
        kept = evenly(num_draws, min(num_draws, max(fewest, most // num_chains)))
    # On the host: an operation on JAX's arrays is a program for each shape.
    tree = jax.tree.map(np.asarray, tree)
    chosen = jax.tree.map(lambda x: x[:, kept], tree)
    checks.held("samples", chosen)
    values, full_names = flattened(named(chosen, "position"), names)
    finite = np.array(
        [all(np.isfinite(x[c]).all() for x in jax.tree.leaves(tree)) for c in range(num_chains)]
    )
    if isinstance(samples, Samples):
        finite &= samples.is_finite
    if not finite.any():
        raise ValueError("samples must have a chain that stayed finite; got none")
    values = values[finite]
    _check_moves(values, full_names)
    if shared is None:
        shared = isinstance(samples, Samples) and bool(samples.shared_minibatch)
    # In the dtypes that JAX has for them, which may have 32 bits.
    layout = Layout.of(
        jax.tree.map(lambda x: x[0, 0].astype(jax.dtypes.canonicalize_dtype(x.dtype)), chosen)
    )
    lost, is_cut = _lost(samples, tree, finite)
    return Draws(
        values=values,
        layout=layout,
        names=full_names,
        num_lost=int(np.sum(~finite)),
        num_draws=num_draws,
        chains=np.flatnonzero(finite),
        kept=kept,
        shared=shared and len(values) > 1,
        num_groups=settings.ERROR_GROUPS,
        lost=lost,
        is_cut=is_cut,
    )


def _positions_of(samples: Samples | PyTree) -> PyTree:
    """Return the draws of a run, or such a pytree itself, if they are enough draws of positions.

    Raises:
        TypeError, ValueError: samples are not draws of positions, or too few.
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
            f"{SAMPLES_MUST_BE} of floating-point numbers; got "
            f"{checks.listed('samples', checks.shapes(tree))}"
        )
    num_chains, num_draws = leaves[0].shape[:2]
    fewest = settings.MIN_CHAIN_DRAWS
    if num_chains < 1 or num_draws < fewest:
        # A run ends when all of its chains have diverged, before there are draws.
        why = ""
        if isinstance(samples, Samples) and not samples.is_finite.any():
            why = ", for all chains diverged (samples.diverged_at): take a smaller step"
        raise ValueError(
            f"samples must have a chain, and at least {fewest} draws of each; got {num_chains} of "
            f"{num_draws}{why}"
        )
    checks.not_empty("samples", tree)
    return tree


def _check_moves(values: np.ndarray, names: tuple[str, ...]) -> None:
    """Check that draws (chain, draw, d) differ in every coordinate."""
    ranges = np.ptp(values, axis=(0, 1))
    stuck = [name for name, size in zip(names, ranges, strict=True) if size == 0]
    if stuck:
        raise ValueError(
            f"samples must move in every coordinate; got {len(stuck)} that are one number in all "
            f"draws: {', '.join(stuck[:3])}{', …' if len(stuck) > 3 else ''}"
        )


def _lost(samples: Samples | PyTree, tree: PyTree, finite: np.ndarray) -> tuple[str, bool]:
    """Return which chains are left out, in words, and whether a part of the posterior may be.

    It may be if a chain diverged after its first draw, or if half of all chains or more did. On the
    way from a bad start a chain may diverge far from the posterior; a chain that gave draws was
    among the others, as far as is known.

    Args:
        samples: the run, or the pytree of draws.
        tree: its draws as arrays of NumPy, with leading axes (chain, draw).
        finite: whether each chain is finite, shape (chain,).
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
        numbers = ", ".join(map(str, which[: limits.NAMES_SHOWN]))
        more = ", …" if len(which) > limits.NAMES_SHOWN else ""
        words = f"{len(which)} of {len(finite)} chains are not finite ({numbers}{more})"
    first = "its first draw" if len(which) == 1 else "their first draws"
    if np.all(early):
        words += f", before {first}"
    elif not np.any(early):
        words += f", after {first}"
    return words, not np.all(early) or 2 * len(which) >= len(finite)


def like(samples: PyTree, values: np.ndarray, chains: np.ndarray) -> PyTree:
    """Return a copy of a pytree of draws in which some chains have other values.

    Args:
        samples: the pytree, with leading axes (chain, draw).
        values: the other values, shape (chain, draw, d).
        chains: the numbers of these chains, shape (chain,).
    """
    leaves, structure = jax.tree.flatten(samples)
    ends = np.cumsum([int(np.prod(x.shape[2:])) for x in leaves])
    copies = []
    for part, leaf in zip(np.split(values, ends[:-1], axis=2), leaves, strict=True):
        new = np.array(leaf)
        new[chains] = part.reshape(len(chains), *leaf.shape[1:]).astype(leaf.dtype)
        copies.append(new)
    return jax.tree.unflatten(structure, copies)
