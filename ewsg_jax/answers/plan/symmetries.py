"""Exchanges of parameters, with changes of sign, under which a posterior may be the same.

Components of a mixture may be exchanged: their means, widths and weights together, wherever these
stand, as rows or columns of arrays, as arrays of their own, or in one vector. Factors and their
loadings may have the other sign. If the density is the same under such a map, and the mode is
elsewhere, there is another mode, as high as the first.
"""

import itertools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from ewsg_jax.answers.plan import settings
from ewsg_jax.vectors.layout import Layout
from ewsg_jax.vectors.some_rows import SomeRows

Shapes = tuple[tuple[int, ...], ...]
AXES = slice(1), slice(-1, None), slice(None)
"""Which axes of one length: the first, the last, or all, as those of a matrix of transitions."""


class SignedExchange(NamedTuple):
    """A map of vectors of d numbers, (Mθ)ᵢ = sᵢ θ_p(i), that is its own inverse.

    Attributes:
        order: the numbers p(i), shape (d,).
        sign: the sᵢ, 1 or −1, shape (d,).
    """

    order: np.ndarray
    sign: np.ndarray

    def __call__(self, vectors: np.ndarray) -> np.ndarray:
        """Return the images of vectors, shape (…, d); of gradients at images, those of the map."""
        return self.sign * vectors[..., self.order]


def exact_symmetries(
    subset: SomeRows, layout: Layout, places: np.ndarray
) -> list[tuple[SignedExchange, str]]:
    """Return the exchanges, with names, under which the density is the same at some places.

    Args:
        subset: rows that stand for all.
        layout: the layout of positions.
        places: two positions as vectors, of no symmetry of their own, shape (2, d).
    """
    candidates = list(itertools.islice(exchanges(layout), settings.MOST_EXCHANGES))
    at = _densities(subset, places)
    for place, (value, rounding) in zip(places, at, strict=True):
        if not candidates or not np.isfinite(value):
            return []
        images = np.stack([candidate(place) for candidate, _ in candidates])
        candidates = [
            candidate
            for candidate, (image, _) in zip(candidates, _densities(subset, images), strict=True)
            if abs(image - value) <= rounding
        ]
    return candidates


def exchanges(layout: Layout) -> Iterator[tuple[SignedExchange, str]]:
    """Yield exchanges that may leave a density as it is, and their names, the most plausible first;
    each only once.
    """
    known, names = set(), layout.names
    for pairs, negative in _proposals(layout.shapes):
        order, sign = np.arange(layout.size), np.ones(layout.size)
        for one, other in pairs:
            order[one], order[other] = other, one
        sign[list(negative)] = -1
        if (key := (order.tobytes(), sign.tobytes())) not in known:
            known.add(key)
            yield SignedExchange(order, sign), _in_words(pairs, negative, names)


def _in_words(
    pairs: Sequence[tuple[np.ndarray, np.ndarray]], negative: Sequence[int], names: Sequence[str]
) -> str:
    first = [f"{names[one[0]]} and {names[other[0]]}" for one, other in pairs[:2]]
    exchanged = ", ".join(first) + (", …" if len(pairs) > 2 else "") + " exchanged"
    signs = ", ".join(names[i] for i in negative[:2]) + (", …" if len(negative) > 2 else "")
    parts = [exchanged] * bool(pairs) + [f"{signs} of the other sign"] * bool(negative)
    return " and ".join(parts)


def _proposals(
    shapes: Shapes,
) -> Iterator[tuple[list[tuple[np.ndarray, np.ndarray]], list[int]]]:
    """Yield pairs of arrays of numbers that are exchanged, and numbers that change their sign."""
    ends = np.cumsum([0, *(int(np.prod(shape)) for shape in shapes)])
    leaves = [
        np.arange(a, b).reshape(shape)
        for a, b, shape in zip(ends[:-1], ends[1:], shapes, strict=True)
    ]
    # The numbers that may change their sign when components are exchanged: a log odds.
    scalars = [leaf.ravel()[0] for leaf in leaves if leaf.size == 1]
    flips = [[], *([x] for x in scalars[: settings.MOST_FLIPS])]
    lengths = sorted({length for shape in shapes for length in shape if length > 1})
    for length, flip, axes in itertools.product(lengths, flips, AXES):
        for first in range(min(length - 1, settings.SEARCHES_OF_A_KIND)):
            pairs = [_slices(leaf, length, first, axes) for leaf in leaves if length in leaf.shape]
            yield pairs, flip
    for leaf in leaves:
        yield [], leaf.ravel().tolist()
    for one, other in itertools.combinations(leaves, 2):
        yield [], np.concatenate([one.ravel(), other.ravel()]).tolist()
    # Leaves of one shape, or the numbers of one vector, as parts of components.
    for shape in sorted(set(shapes)):
        same = [leaf.ravel() for leaf in leaves if leaf.shape == shape]
        yield from _among([part for part in same if part.size], scalars)
    for leaf in leaves:
        if leaf.ndim == 1 and leaf.size > 1:
            yield from _among(list(leaf[:, None]), scalars)


def _slices(
    leaf: np.ndarray, length: int, first: int, axes: slice
) -> tuple[np.ndarray, np.ndarray]:
    """Return the numbers of a leaf that change places if entries `first` and the next are exchanged
    along its axes of this length, those in `axes`; before and after.
    """
    exchanged = leaf
    order = np.arange(length)
    order[[first, first + 1]] = first + 1, first
    for axis in [axis for axis, size in enumerate(leaf.shape) if size == length][axes]:
        exchanged = np.take(exchanged, order, axis)
    moved = leaf < exchanged
    return leaf[moved], exchanged[moved]


def _among(
    parts: list[np.ndarray], scalars: list[int]
) -> Iterator[tuple[list[tuple[np.ndarray, np.ndarray]], list[int]]]:
    """Yield exchanges of two components whose parts stand in a row: part by part, or component by
    component; then all ways to exchange a few of them. One other scalar may change its sign.

    Args:
        parts: numbers of the coordinates of each part, such as a mean, a width or a weight.
        scalars: numbers of the scalars, of which one may change its sign.
    """
    count = len(parts)
    # Some parts in a row may be two to four components of equally many parts each: all means before
    # all widths ("by part"), or one whole component before the next. The first two are exchanged.
    for num_components, num_parts in itertools.product(range(2, 5), range(1, count // 2 + 1)):
        block = num_components * num_parts
        for start, by_part in itertools.product(range(count - block + 1), (True, False)):
            numbers = np.arange(start, start + block)
            by_component = (
                numbers.reshape(num_parts, num_components)
                if by_part
                else numbers.reshape(num_components, num_parts).T
            )
            pairs = [(int(a), int(b)) for a, b in by_component[:, :2]]
            yield from _with_flips(parts, pairs, scalars)
    # If they are few, any set of pairs is tried: six parts have 75.
    if count <= 6:
        for pairs in _matchings(list(range(count))):
            yield from _with_flips(parts, pairs, scalars)


def _with_flips(
    parts: list[np.ndarray], pairs: list[tuple[int, int]], scalars: list[int]
) -> Iterator[tuple[list[tuple[np.ndarray, np.ndarray]], list[int]]]:
    """Yield the exchange of these pairs of parts, as it is, then with one other scalar of the other
    sign: another part that is one number, or one of `scalars`.
    """
    exchanged = [(parts[a], parts[b]) for a, b in pairs]
    moved = {a for pair in pairs for a in pair}
    of_parts = [int(part[0]) for i, part in enumerate(parts) if i not in moved and part.size == 1]
    taken = {int(i) for pair in exchanged for part in pair for i in part}
    others = dict.fromkeys([*of_parts, *(x for x in scalars if int(x) not in taken)])
    yield exchanged, []
    for scalar in list(others)[: settings.MOST_FLIPS]:
        yield exchanged, [scalar]


def _matchings(items: list[int]) -> Iterator[list[tuple[int, int]]]:
    """Yield all sets of disjoint pairs of these items but the empty one."""
    if len(items) < 2:
        return
    first, rest = items[0], items[1:]
    for i, other in enumerate(rest):
        yield [(first, other)]
        for pairs in _matchings(rest[:i] + rest[i + 1 :]):
            yield [(first, other), *pairs]
    yield from _matchings(rest)


def _densities(subset: SomeRows, places: np.ndarray) -> list[tuple[float, float]]:
    """Return log densities from some rows, and by how much rounding may change them."""
    values = subset.values(places)
    values[:, 1:] *= subset.stands_for
    eps = float(np.finfo(subset.dtype).eps)
    with np.errstate(invalid="ignore"):
        return [(float(x.sum()), 4 * eps * np.abs(x).sum()) for x in values]
