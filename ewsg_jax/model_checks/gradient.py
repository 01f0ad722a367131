"""Whether the gradient is that of the log density: a check by gradients cannot see it otherwise.

    log p(b) − log p(a) = ∫₀¹ ∇log p(a + t (b − a)) · (b − a) dt

A rule of `jax.custom_vjp` with a slip, `stop_gradient` or a jump break it. Chains then sample
another distribution, and every number that is made of gradients agrees with them.

Both sides are compared along lines between draws, and then along lines in the direction of single
coordinates, those that `coordinate_gradients` suspects.
"""

import jax.numpy as jnp
import numpy as np

from ewsg_jax.base.typing import Data, Position
from ewsg_jax.model_checks.coordinate_gradients import ULPS, coordinates, suspects
from ewsg_jax.model_checks.finding import Finding
from ewsg_jax.posterior.posterior import Posterior
from ewsg_jax.posterior.random import known
from ewsg_jax.rows._spread import Spread
from ewsg_jax.vectors.layout import Layout, vector
from ewsg_jax.vectors.row_subsets import evenly
from ewsg_jax.vectors.some_rows import PADDED_POSITIONS, SomeRows

GRADIENT_CURE = (
    "see to custom_vjp, custom_jvp, stop_gradient, rounding and comparisons, and compare with "
    "jax.test_util.check_grads"
)
"""What to do if a gradient is not that of the values."""
NUM_LINES = 16
"""Lines between draws along which both are compared: with the 15 nodes of the rules 240 gradients
on at most 1,024 rows; set by hand."""
NODES = (8, 7)
"""Nodes of two Gauss–Legendre rules, whose difference is the error of either."""
NODES_TOGETHER = PADDED_POSITIONS // NUM_LINES
"""Nodes at which gradients along all lines are held in memory together."""
LINE_DIFFERENCE = 0.05
"""Relative difference from which on the gradient is another one: an sd that is wrong by the default
tolerance of 5 % is a gradient that is wrong by 10 %."""
MAX_HALVINGS, MIN_HALVINGS = 6, 3
"""How often lines on which both differ are halved before the difference is believed; and how many
halvings are enough if shorter lines drown in rounding. A jump is within 1/64 of a line then."""
TIMES_ERROR = 10.0
"""How many times the error of the rule, and that of rounding, a difference must be."""


def num_compared(posterior: Posterior, layout: Layout, data: Data) -> int:
    """Return along how many coordinates gradients are compared with values: all, or 512 if there
    are more; 0 if they are not compared, as with rows on several devices, in half precision or of
    a random potential.
    """
    digits = max(float(jnp.finfo(dtype).eps) for dtype in layout.dtypes)
    # float32 has 1.2e-7, bfloat16 8e-3.
    if isinstance(data, Spread) or digits > 1e-6 or known(posterior) is None:
        return 0
    return len(coordinates(layout.size))


def wrong_gradient(
    posterior: Posterior, layout: Layout, flat: np.ndarray, names: tuple[str, ...], data: Data
) -> list[Finding]:
    """Return one finding if the gradient is not that of the log density, and none if it is or if
    that is not known.

    Args:
        posterior: the model, whose two functions are compared with their gradients.
        layout: how d numbers are a position.
        flat: draws, shape (draws, d), float64.
        names: a name for each coordinate; empty for its number.
        data: all n rows, of which some are used; rows on several devices are not compared.
    """
    if not num_compared(posterior, layout, data):
        return []
    subset = SomeRows.of(posterior, layout, data)
    chosen = flat[evenly(len(flat), 2 * NUM_LINES)]
    half = len(chosen) // 2
    starts = chosen[:half]
    # Shorter lines suit narrow posteriors, longer ones drown rounding.
    ends = starts + 0.25 * (chosen[half : 2 * half] - starts)
    text = _differing(subset, np.stack([starts, ends], axis=1), np.ones((1, subset.size)))
    # Each costs as much as all coordinates together.
    suspected = suspects(subset, flat, 8)
    names = names or tuple(map(str, range(layout.size)))
    if text:
        most = f", most of all that of {names[suspected[0].number]}" if suspected else ""
        return _finding(text.format("lines between draws") + most)
    for suspect in suspected:
        ends = chosen.copy()
        # To both sides, so that a gradient is found which is wrong on one.
        ends[:, suspect.number] += 2 * suspect.step * np.resize([1, -1], len(chosen))
        lines = np.stack([chosen, ends], axis=1)[evenly(len(chosen), NUM_LINES)]
        if text := _differing(subset, lines, subset.signs(NUM_LINES)):
            return _finding(text.format(names[suspect.number]))
    return []


def _finding(text: str) -> list[Finding]:
    return [Finding("gradient", "error", text, GRADIENT_CURE)]


def wrong_gradient_at(posterior: Posterior, position: Position, data: Data) -> list[Finding]:
    """Return the same for a position without draws, at random points around it.

    Args:
        posterior: the model.
        position: a position, at least in float32.
        data: all n rows.
    """
    if isinstance(data, Spread):
        return []
    layout, flat = Layout.of(position), vector(position)
    # A posterior is about as wide as gradients of rows say (Fisher's information), but not if
    # these are wrong; nor is it known to be wider than numbers are large.
    # The sd that is assumed around a position without draws is at most this part of its numbers.
    most = 0.1 * np.maximum(1.0, np.abs(flat))
    subset = SomeRows.of(posterior, layout, data)
    signed = subset.gradients(
        np.resize(flat, (PADDED_POSITIONS, len(flat))), subset.signs(PADDED_POSITIONS)
    )[:, 1]
    with np.errstate(divide="ignore"):
        sds = 1 / np.sqrt(subset.stands_for * np.mean(signed**2, axis=0))
    # Nor narrower than numbers have digits for.
    least = 1e-4 * most
    sds = np.clip(np.where(sds < most, sds, most), least, most)
    normals = np.random.default_rng(0).normal(size=(2 * NUM_LINES, len(flat)))
    # As the position's dtypes hold them.
    around = np.stack([layout.rounded(x) for x in flat + sds * normals])
    return wrong_gradient(posterior, layout, around, layout.names, data)


def _differing(subset: SomeRows, lines: np.ndarray, weights: np.ndarray) -> str:
    """Return which function has another gradient along lines, in words, with a field for what the
    lines are; an empty string if none has, or if it is not seen on shorter lines.

    Args:
        subset: the rows on which both are evaluated.
        lines: starts and ends, shape (any number, 2, d).
        weights: the weights of the rows in their sum, for each line, shape (any number, R).
    """
    lines = np.resize(lines, (NUM_LINES, *lines.shape[1:])).astype(subset.dtype)
    weights, text = np.resize(weights, (NUM_LINES, subset.size)), ""
    for halvings in range(1 + MAX_HALVINGS):
        now, differences, drowns = _largest(_along(subset, lines, weights))
        if drowns and halvings > MIN_HALVINGS:
            break
        text = now
        if not text:
            break
        # Between two nodes there may be a steep edge that both rules miss: shorter lines see it.
        chosen = np.argsort(-np.nan_to_num(differences, nan=-1.0))[: NUM_LINES // 2]
        worst, middle = lines[chosen], lines[chosen].mean(1)
        halves = [(worst[:, 0], middle), (middle, worst[:, 1])]
        lines = np.concatenate([np.stack(half, axis=1) for half in halves])
        weights = np.tile(weights[chosen], (2, 1))
    return text


def _largest(rises: np.ndarray) -> tuple[str, np.ndarray, bool]:
    """Return which gradient is another one, in words, by how much along each line, and whether one
    would be but for rounding; `rises` as `_along` returns them.
    """
    drowns = False
    for part, name in enumerate(("log_prior", "log_likelihood")):
        rise, error, by_gradient, other_rule = rises[np.isfinite(rises[:, part]).all(1), part].T
        difference = float(np.linalg.norm(rise - by_gradient))
        size = float(np.linalg.norm(np.maximum(np.abs(rise), np.abs(by_gradient))))
        rule = TIMES_ERROR * float(np.linalg.norm(by_gradient - other_rule))
        if difference <= max(LINE_DIFFERENCE * size, rule):
            continue
        if difference > TIMES_ERROR * float(np.linalg.norm(error)):
            return (
                f"the gradient of {name} is not that of its values: along {{}} they differ by "
                f"{100 * min(difference / size, 1):.0f} %",
                np.abs(rises[:, part, 0] - rises[:, part, 2]),
                False,
            )
        drowns = True
    return "", np.zeros(len(rises)), drowns


def _along(subset: SomeRows, lines: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return by how much log prior and log likelihood of the rows rise along each line (2, d): by
    their values, the rounding of that, and by the two rules for their gradients; shape
    (lines, 2, 4).
    """
    eps, dtype = np.finfo(subset.dtype).eps, subset.dtype
    start, end = lines[:, 0], lines[:, 1]
    way = end - start
    # Many terms of a row may cancel: what rounding does shows if the position is moved by a few
    # roundings; and, of terms that do not feel these, in how rough values are at both ends: a jump
    # is at one of them.
    nudge = (1 + ULPS * eps).astype(dtype)
    # Three values at an end, so near to each other that their second difference is rounding.
    little = dtype.type(1 / 64) * way
    points = [start, end, start * nudge, end * nudge]
    points += [start + little, start + 2 * little, end - little, end - 2 * little]
    values = subset.values(np.concatenate(points)).reshape(len(points), len(lines), -1)
    values[..., 1:] *= weights
    with np.errstate(invalid="ignore"):
        at_start, at_end, start_nudged, end_nudged, *inside = values
        rough = np.minimum(
            *(
                np.abs((first - second) - (second - third))
                for first, second, third in ((at_start, *inside[:2]), (at_end, *inside[2:]))
            )
        )
        errors = [at_start - start_nudged, at_end - end_nudged, rough, *(eps * values)]
        rise = _of_both(at_end - at_start)
        error = np.sqrt(_of_both(np.sum(np.square(errors), axis=0)))

    rules = [np.polynomial.legendre.leggauss(count) for count in NODES]
    times = np.concatenate([(1 + x) / 2 for x, _ in rules]).astype(dtype)
    # Some nodes at a time, as many as fill a block: all gradients may be more than memory holds.
    rates = []
    for some_times in np.split(times, range(NODES_TOGETHER, len(times), NODES_TOGETHER)):
        places = (start + some_times[:, None, None] * way).reshape(-1, lines.shape[2])
        gradients = subset.gradients(places, np.tile(weights, (len(some_times), 1)))
        at_times = gradients.reshape(len(some_times), len(lines), 2, -1)
        rates.append(np.einsum("tlpd,ld->tlp", at_times, way.astype(np.float64)))
    sums = [
        np.tensordot(share / 2, part, 1)
        for (_, share), part in zip(rules, np.split(np.concatenate(rates), NODES[:1]), strict=True)
    ]
    return np.stack([rise, error, *sums], axis=2)


def _of_both(values: np.ndarray) -> np.ndarray:
    """Return the part of the prior and the sum over rows, of values (lines, 1 + R)."""
    return np.stack([values[:, 0], values[:, 1:].sum(1)], axis=1)
