"""Whether the gradient is that of the log density: a check by gradients cannot see it otherwise.

    log p(b) − log p(a) = ∫₀¹ ∇log p(a + t (b − a)) · (b − a) dt

A rule of `jax.custom_vjp` with a slip, `stop_gradient` or a jump break it. Chains then sample
another law, and every number that is made of gradients agrees with them.
"""

import jax.numpy as jnp
import numpy as np

from ewsg_jax.answers.check.draws import Draws, draws_of
from ewsg_jax.answers.check.gradient_coordinates import ULPS, coordinates, suspects
from ewsg_jax.base.typing import Data, Position
from ewsg_jax.posterior.posterior import Posterior
from ewsg_jax.rows._spread import Spread
from ewsg_jax.vectors.layout import Layout, vector
from ewsg_jax.vectors.row_subsets import evenly
from ewsg_jax.vectors.some_rows import BLOCK, SomeRows

GRADIENT = "is not that of its values"
"""What is said of one."""
PAIRS = 16
"""Lines between draws along which both are compared."""
PART = 0.25
"""Of the way between two draws: shorter lines suit narrow places, longer ones drown rounding."""
NODES = (8, 7)
"""Of two Gauss–Legendre rules, whose difference is the error of either."""
NODES_AT_ONCE = BLOCK // PAIRS
"""Of these at which gradients along all lines are held together."""
FEWEST_DIGITS = 1e-6
"""Relative rounding above which positions are too coarse."""
TOO_FAR = 0.05
"""Relative difference from which on the gradient is another one."""
ROUGH = 1 / 64
"""Of a line, between values whose second difference is rounding."""
HALVINGS, FEWEST_HALVINGS = 6, 3
"""Of the lines along which they differ most, before it is believed; and how many are enough where
shorter lines drown in rounding.
"""
BY_RULE, BY_ROUNDING = 10.0, 10.0
"""How many times the error of the rule, and that of rounding, the difference must be."""
MOST_OF_NUMBERS, LEAST_OF_NUMBERS = 0.1, 1e-4
"""How far around a position, at most: of its numbers, or of 1 where these are less; and at least,
of that.
"""
MOST_SUSPECTS = 8
"""Coordinates whose own slope is compared along lines too."""


def num_compared(draws: Draws, data: Data) -> int:
    """Return along how many coordinates both are compared: 0 where they are not at all."""
    digits = max(float(jnp.finfo(dtype).eps) for dtype in draws.layout.dtypes)
    if isinstance(data, Spread) or digits > FEWEST_DIGITS:
        return 0
    return len(coordinates(draws.size))


def mistaken(posterior: Posterior, draws: Draws, data: Data) -> str:
    """Return that the gradient is not the log density's, in words; nothing where none is known.

    Args:
        posterior: whose functions are compared.
        draws: between which.
        data: all n rows, of which some are taken; rows on several devices are not.
    """
    if not num_compared(draws, data):
        return ""
    some = SomeRows.of(posterior, draws.layout, data)
    chosen = draws.flat[evenly(len(draws.flat), 2 * PAIRS)]
    half = len(chosen) // 2
    starts = chosen[:half]
    ends = starts + PART * (chosen[half : 2 * half] - starts)
    told = _along_all(some, np.stack([starts, ends], axis=1), np.ones((1, some.size)))
    found = suspects(some, draws, MOST_SUSPECTS)
    names = draws.names or tuple(map(str, range(draws.size)))
    if told:
        most = f", most of all that of {names[found[0].number]}" if found else ""
        return told.format("lines between draws") + most
    for one in found:
        ends = chosen.copy()
        # To both sides, so that a slope is found which is wrong on one.
        ends[:, one.number] += 2 * one.step * np.resize([1, -1], len(chosen))
        lines = np.stack([chosen, ends], axis=1)[evenly(len(chosen), PAIRS)]
        if told := _along_all(some, lines, some.signs(PAIRS)):
            return told.format(names[one.number])
    return ""


def mistaken_at(posterior: Posterior, position: Position, data: Data) -> str:
    """Return the same of places around one position, which no draws are known of.

    Args:
        posterior: whose functions are compared.
        position: where, at least in float32.
        data: all n rows.
    """
    if isinstance(data, Spread):
        return ""
    layout, flat = Layout.of(position), vector(position)
    # A posterior is about as wide as gradients of rows say (Fisher's information), though not
    # where these are wrong; nor is it known to be wider than numbers are large.
    most = MOST_OF_NUMBERS * np.maximum(1.0, np.abs(flat))
    some = SomeRows.of(posterior, layout, data)
    signed = some.gradients(np.resize(flat, (BLOCK, len(flat))), some.signs(BLOCK))[:, 1]
    with np.errstate(divide="ignore"):
        widths = 1 / np.sqrt(some.stands_for * np.mean(signed**2, axis=0))
    # Nor narrower than numbers have digits for.
    least = LEAST_OF_NUMBERS * most
    widths = np.clip(np.where(widths < most, widths, most), least, most)
    places = flat + widths * np.random.default_rng(0).normal(size=(1, 2 * PAIRS, len(flat)))
    return mistaken(posterior, draws_of(layout.tree(places), None, 2 * PAIRS), data)


def _along_all(some: SomeRows, lines: np.ndarray, weights: np.ndarray) -> str:
    """Return which gradient is another one along lines (any number, 2, d), in words, with a field
    for what the lines are; nothing where none is, or where shorter lines see none.

    Rows are summed with weights (any number, R), another one of these for each line.
    """
    lines = np.resize(lines, (PAIRS, *lines.shape[1:])).astype(some.dtype)
    weights, told = np.resize(weights, (PAIRS, some.size)), ""
    for halvings in range(1 + HALVINGS):
        found = _along(some, lines, weights)
        now, off, drowns = _told(found)
        if drowns and halvings > FEWEST_HALVINGS:
            break
        told = now
        if not told:
            break
        # Between two nodes there may be a wall that both rules miss: shorter lines see it.
        chosen = np.argsort(-np.nan_to_num(off, nan=-1.0))[: PAIRS // 2]
        worst, middle = lines[chosen], lines[chosen].mean(1)
        halves = [(worst[:, 0], middle), (middle, worst[:, 1])]
        lines = np.concatenate([np.stack(half, axis=1) for half in halves])
        weights = np.tile(weights[chosen], (2, 1))
    return told


def _told(found: np.ndarray) -> tuple[str, np.ndarray, bool]:
    """Return which gradient is another one, in words, by how much along each line, and whether
    one would be but for rounding.
    """
    drowns = False
    for name, part in (("log_prior", 0), ("log_likelihood", 1)):
        rise, error, slope, other = found[np.isfinite(found[:, part]).all(1), part].T
        off = float(np.linalg.norm(rise - slope))
        whole = float(np.linalg.norm(np.maximum(np.abs(rise), np.abs(slope))))
        rule = BY_RULE * float(np.linalg.norm(slope - other))
        if off <= max(TOO_FAR * whole, rule):
            continue
        if off > BY_ROUNDING * float(np.linalg.norm(error)):
            return (
                f"the gradient of {name} {GRADIENT}: along {{}} they differ by "
                f"{100 * min(off / whole, 1):.0f} %",
                np.abs(found[:, part, 0] - found[:, part, 2]),
                False,
            )
        drowns = True
    return "", np.zeros(len(found)), drowns


def _along(some: SomeRows, lines: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return of each line (2, d) what log prior and log likelihood of the rows rise by, shape
    (lines, 2, 4): by their values, the rounding of that, and by the two rules for their gradients.
    """
    eps, dtype = np.finfo(some.dtype).eps, some.dtype
    start, end = lines[:, 0], lines[:, 1]
    way = end - start
    # Many terms of a row may cancel: what rounding does shows where the position is moved by a few
    # roundings; and, of terms that do not feel these, in how rough values are at both ends: a jump
    # is at one of them.
    off = (1 + ULPS * eps).astype(dtype)
    little = dtype.type(ROUGH) * way
    near = [start, end, start * off, end * off]
    near += [start + little, start + 2 * little, end - little, end - 2 * little]
    values = some.values(np.concatenate(near)).reshape(len(near), len(lines), -1)
    values[..., 1:] *= weights
    with np.errstate(invalid="ignore"):
        before, after, before_too, after_too, *inside = values
        rough = np.minimum(
            *(
                np.abs((first - second) - (second - third))
                for first, second, third in ((before, *inside[:2]), (after, *inside[2:]))
            )
        )
        moved = [before - before_too, after - after_too, rough, *(eps * values)]
        rise = _of_both(after - before)
        error = np.sqrt(_of_both(np.sum(np.square(moved), axis=0)))

    rules = [np.polynomial.legendre.leggauss(count) for count in NODES]
    times = np.concatenate([(1 + x) / 2 for x, _ in rules]).astype(dtype)
    # Some nodes at a time, as many as fill a block: all gradients may be more than memory holds.
    slopes = []
    for some_times in np.split(times, range(NODES_AT_ONCE, len(times), NODES_AT_ONCE)):
        places = (start + some_times[:, None, None] * way).reshape(-1, lines.shape[2])
        found = some.gradients(places, np.tile(weights, (len(some_times), 1)))
        of_times = found.reshape(len(some_times), len(lines), 2, -1)
        slopes.append(np.einsum("tlpd,ld->tlp", of_times, way.astype(np.float64)))
    sums = [
        np.tensordot(share / 2, part, 1)
        for (_, share), part in zip(rules, np.split(np.concatenate(slopes), NODES[:1]), strict=True)
    ]
    return np.stack([rise, error, *sums], axis=2)


def _of_both(values: np.ndarray) -> np.ndarray:
    """Return the part of the prior and the sum over rows, of values (lines, 1 + R)."""
    return np.stack([values[:, 0], values[:, 1:].sum(1)], axis=1)
