"""Theorems 4.1 and 4.2 of Li, Wang, Zha & Tao, and the mechanism of exponential weights, by
enumeration.

Theorem 4.1: the unbiased law of rows of the least variance has at most d + 1 rows. Theorem 4.2:
over random rows weights lessen the variance, E Δ < 0; to first order Δ = (h/2σ²) Cov(‖γr + g‖²,
‖δ‖²), of either sign. What they do to a step is averaged over the target of §5.1's Gaussian, θ ~
N(c̄, I/n) and r ~ N(0, I), by quadrature: how much energy a step adds, how much stiffer the force
becomes, and how far it is pushed.

All gradients gᵢ = n ∇Vᵢ(θ) of n rows are listed. With batches of one row the weight of row i is
wᵢ = exp(h ‖γ r + gᵢ‖²/2σ²), σ² = 2γT and T = 1.
"""

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.papers.experiment import Claim, Experiment, Numbers, Parts
from benchmarks.papers.figures import Line, Panel
from benchmarks.papers.gaussian import NUM_ROWS, rows_of
from benchmarks.papers.least_variance import least_variance_law
from benchmarks.papers.predicting import short
from ewsg_jax import datasets, find_mode, models
from ewsg_jax.cli.config import Count, Positive, at_least

UNIFORM, ONE, EXACT = "uniform rows", "M = 1", "M = ∞"


class Change(NamedTuple):
    """What a law of rows makes of the gradient, and of the square of the momentum after a step of
    Euler's scheme.

    Attributes:
        drift: the mean estimate less the gradient, shape (…, d).
        trace: the trace of the estimate's covariance, shape (…).
    """

    drift: np.ndarray
    trace: np.ndarray


def log_weights(
    gradients: np.ndarray, momentum: np.ndarray, h: float, friction: float
) -> np.ndarray:
    """Return log wᵢ of rows, shape (…, n), of gradients (…, n, d) at momenta (…, d)."""
    return h / (4 * friction) * np.sum((friction * momentum[..., None, :] + gradients) ** 2, -1)


def law_of(name: str, logs: np.ndarray) -> np.ndarray:
    """Return the probability of each row, shape (…, n), by a name: uniform, after one proposal, or
    in the limit.
    """
    n = logs.shape[-1]
    if name == UNIFORM:
        return np.full(logs.shape, 1 / n)
    if name == EXACT:
        weights = np.exp(logs - logs.max(-1, keepdims=True))
        return weights / weights.sum(-1, keepdims=True)
    # From a uniform row to another one, proposed uniformly.
    taken = np.exp(np.minimum(logs[..., None, :] - logs[..., :, None], 0))
    return (taken.sum(-2) + (1 - taken).sum(-1)) / n**2


def change(gradients: np.ndarray, law: np.ndarray) -> Change:
    """Return what a law (…, n) of rows makes of their gradients (…, n, d)."""
    mean = np.einsum("...n,...nd->...d", law, gradients)
    off = gradients - mean[..., None, :]
    return Change(mean - gradients.mean(-2), np.einsum("...n,...nd,...nd->...", law, off, off))


def first_order(
    gradients: np.ndarray, momentum: np.ndarray, h: float, friction: float
) -> tuple[np.ndarray, ...]:
    """Return the drift to first order in h, in three parts: of the momentum, of the force, of the
    skewness.

    (h/σ²) [S γ r + S ∇V + ½ E ‖δ‖² δ], δ = g − ∇V and S its covariance under uniform rows.
    """
    mean = gradients.mean(-2)
    off = gradients - mean[..., None, :]
    spread = np.einsum("...ni,...nj->...ij", off, off) / gradients.shape[-2]
    skew = (np.sum(off**2, -1, keepdims=True) * off).mean(-2) / 2
    scale = h / (2 * friction)
    return (
        scale * np.einsum("...ij,...j->...i", spread, friction * momentum),
        scale * np.einsum("...ij,...j->...i", spread, mean),
        scale * skew,
    )


def variance_change(
    gradients: np.ndarray, momentum: np.ndarray, h: float, friction: float
) -> np.ndarray:
    """Return Theorem 4.2's Δ: the trace of the covariance under weights less that of
    uniform rows.
    """
    logs = log_weights(gradients, momentum, h, friction)
    return (
        change(gradients, law_of(EXACT, logs)).trace
        - change(gradients, law_of(UNIFORM, logs)).trace
    )


def first_variance_change(
    gradients: np.ndarray, momentum: np.ndarray, h: float, friction: float
) -> np.ndarray:
    """Return Δ to first order in h: (h/2σ²) Cov(‖γr + g‖², ‖δ‖²)."""
    sizes = np.sum((friction * momentum[..., None, :] + gradients) ** 2, -1)
    squares = np.sum((gradients - gradients.mean(-2, keepdims=True)) ** 2, -1)
    both = ((sizes - sizes.mean(-1, keepdims=True)) * squares).mean(-1)
    return h / (4 * friction) * both


VR, MATRIX = "EWSG-VR", "matrix friction, uniform rows"
POINTS = ("at rest in the mode", "at rest at 0", "drawn from the target")
PRIOR_SCALE, PIMA = 10.0**0.5, "pima"


@dataclass(frozen=True)
class Settings:
    """Data sets for each theorem, the friction, steps, nodes of quadrature in a coordinate,
    positions on Pima.
    """

    num_data_sets: Annotated[int, at_least(2)]
    mechanism_data_sets: Count
    friction: Positive
    step_sizes: tuple[float, ...]
    nodes: Annotated[int, at_least(2)]
    positions: Count


def gaussian_gradients(rows: np.ndarray, position: np.ndarray) -> np.ndarray:
    """Return n ∇Vᵢ = n(θ − cᵢ), shape (…, n, d)."""
    return len(rows) * (position[..., None, :] - rows)


def pima_gradients(count: int) -> np.ndarray:
    """Return n ∇Vᵢ with the prior's share at draws of the normal approximation, shape (position, n,
    d).
    """
    whole = datasets.pima()
    rows = datasets.standardise(whole, whole)[0].with_intercept().rows()
    model = models.logistic_regression(prior_scale=PRIOR_SCALE)
    data = jax.tree.map(jnp.asarray, rows)
    mode = find_mode(
        jax.random.key(0),
        model,
        jnp.zeros(data["x"].shape[1]),
        data,
        tolerance=1e-6,
        progress=False,
    )
    # H⁻¹ = root rootᵀ.
    root = np.linalg.inv(np.linalg.cholesky(np.linalg.inv(np.asarray(mode.covariance, float)))).T
    positions = (
        np.asarray(mode.position)
        + np.random.default_rng(0).standard_normal((count, len(root))) @ root.T
    )

    def of(position: Any) -> np.ndarray:
        own = model.flat_row_gradients(jnp.asarray(position, jnp.float32), data)
        return len(rows["y"]) * np.asarray(own, float) + position / PRIOR_SCALE**2

    return np.stack([of(position) for position in positions])


def sparsity(settings: Settings) -> Numbers:
    """Return of Theorem 4.1 the rows that the optimal law has, and its variance over that of
    uniform rows.
    """
    found: Numbers = {}
    gaussian = np.stack(
        [np.asarray(rows_of(seed), float) for seed in range(settings.mechanism_data_sets)]
    )
    sets = {
        f"gaussian, n = {NUM_ROWS}": -NUM_ROWS * gaussian,
        PIMA: pima_gradients(settings.positions),
    }
    for name, each in sets.items():
        off = each - each.mean(1, keepdims=True)
        laws = least_variance_law(off)
        squares = np.sum(off**2, -1)
        found[name] = {
            "d": each.shape[-1],
            "rows": [int(x) for x in (laws > 0).sum(1)],
            "variance_ratio": short((laws * squares).sum(1) / squares.mean(1)),
            "off": short(np.abs(np.einsum("kn,knd->kd", laws, off)).max() / np.abs(off).max()),
        }
    return found


def signs(settings: Settings) -> Numbers:
    """Return of Theorem 4.2 Δ over the uniform trace: its mean over data sets, point by point and
    step by step.
    """
    rng, gamma = np.random.default_rng(1), settings.friction
    rows = rng.standard_normal((settings.num_data_sets, NUM_ROWS, 2))
    mean = rows.mean(1)
    position = {
        POINTS[0]: (mean, np.zeros_like(mean)),
        POINTS[1]: (np.zeros_like(mean), np.zeros_like(mean)),
        POINTS[2]: (
            mean + rng.standard_normal(mean.shape) / NUM_ROWS**0.5,
            rng.standard_normal(mean.shape),
        ),
    }
    found: Numbers = {"steps": settings.step_sizes, "points": {}}
    for name, (theta, momentum) in position.items():
        gradients = NUM_ROWS * (theta[:, None] - rows)
        trace = change(gradients, np.full(rows.shape[:2], 1 / NUM_ROWS)).trace.mean()
        told = []
        for h in settings.step_sizes:
            delta = variance_change(gradients, momentum, h, gamma)
            first = first_variance_change(gradients, momentum, h, gamma)
            error = delta.std() / len(delta) ** 0.5
            of = {"mean": delta.mean(), "error": error, "first_order": first.mean()}
            told.append(
                {key: short(x / trace) for key, x in of.items()}
                | {"negative": short((delta < 0).mean())}
            )
        found["points"][name] = told
    each = pima_gradients(settings.positions)
    momentum = rng.standard_normal(each[:, 0].shape)
    trace = change(each, np.full(each.shape[:2], 1 / each.shape[1])).trace
    found[PIMA] = [
        short((variance_change(each, momentum, h, gamma) / trace).mean())
        for h in settings.step_sizes
    ]
    return found


def mechanism(seed: int, settings: Settings) -> Numbers:
    """Return what a step of Euler's scheme does on one data set, on average over the target, law by
    law.

    `heat`: what a step adds to E ‖r‖² beyond one with the full gradient, over h² tr S, which
    uniform rows add. `stiffening`: E[drift · (θ − c̄)] over h tr S/2γ. `push`: the mean force in
    the direction of the skewness, over what first order says of it.
    """
    rows, gamma = np.asarray(rows_of(seed), float), settings.friction
    nodes, shares = np.polynomial.hermite_e.hermegauss(settings.nodes)
    grid = np.array(list(itertools.product(nodes, repeat=4)))
    weight = np.array([np.prod(x) for x in itertools.product(shares / shares.sum(), repeat=4)])
    theta, momentum = rows.mean(0) + grid[:, :2] / NUM_ROWS**0.5, grid[:, 2:]
    gradients = gaussian_gradients(rows, theta)
    force = gradients.mean(1)
    off = rows - rows.mean(0)
    spread = NUM_ROWS**2 * off.T @ off / NUM_ROWS
    found: dict[str, list[dict[str, float]]] = {
        name: [] for name in (UNIFORM, ONE, EXACT, VR, MATRIX)
    }
    for h in settings.step_sizes:
        logs = log_weights(gradients, momentum, h, gamma)
        skew = first_order(gradients, momentum, h, gamma)[2][0]
        for name, told in found.items():
            law = {VR: ONE, MATRIX: UNIFORM}.get(name, name)
            drift, trace = change(gradients, law_of(law, logs))
            own = gamma * momentum
            if name in (VR, MATRIX):
                own = own + h / 2 * momentum @ spread
            after = np.sum((momentum - h * (force + drift + own)) ** 2, -1) + h**2 * trace
            plain = np.sum((momentum - h * (force + gamma * momentum)) ** 2, -1)
            stiff = weight @ np.sum(drift * (theta - rows.mean(0)), -1)
            told.append(
                {
                    "heat": short(weight @ (after - plain) / (h**2 * np.trace(spread))),
                    "stiffening": short(stiff / (h * np.trace(spread) / (2 * gamma))),
                    "push": short(weight @ drift @ skew / (skew @ skew)),
                }
            )
    return {"steps": settings.step_sizes, "laws": found, "trace": short(np.trace(spread))}


def parts(settings: Settings) -> dict[str, Callable[[Parts], Numbers]]:
    """Return what is computed: both theorems, and the mechanism on each data set."""
    of_data = {
        f"mechanism {seed}": lambda _, seed=seed: mechanism(seed, settings)
        for seed in range(settings.mechanism_data_sets)
    }
    return {"sparsity": lambda _: sparsity(settings), "signs": lambda _: signs(settings)} | of_data


NEAR = 0.1
"""How far from its limit a number may be at the least step."""
SURE = 3.0
"""Standard errors by which a mean is below 0."""
ROWS = 1e-12
"""How far the optimal law may be from being unbiased, relative to the largest deviation."""


def runs(parts: Parts) -> list[Any]:
    """Return the mechanism's numbers on each data set."""
    return [part for name, part in parts.items() if name.startswith("mechanism")]


def is_sparse(parts: Parts) -> Claim:
    """Return Theorem 4.1."""
    each = {name: of for name, of in parts["sparsity"].items() if isinstance(of, dict)}
    is_so = [
        rows <= of["d"] + 1 and of["off"] < ROWS for of in each.values() for rows in of["rows"]
    ]
    shown = "; ".join(
        f"{name}: {max(of['rows'])} rows for d + 1 = {of['d'] + 1}, variance "
        f"{np.median(of['variance_ratio']):.2g} of that of uniform rows"
        for name, of in each.items()
    )
    return Claim(
        "the unbiased law of least variance has at most d + 1 rows", float(np.mean(is_so)), shown
    )


def lessens(parts: Parts) -> Claim:
    """Return Theorem 4.2: E Δ < 0 at every point and step."""
    signs = parts["signs"]
    is_so, shown = [], []
    for name, told in signs["points"].items():
        is_so += [each["mean"] + SURE * each["error"] < 0 for each in told]
        listed = ", ".join(f"{each['mean']:+.2g}" for each in told)
        shown.append(f"{name} {listed}")
    steps = ", ".join(f"{h:g}" for h in signs["steps"])
    return Claim(
        "weights lessen the variance on average over data, E Δ < 0, at every point and step",
        float(np.mean(is_so)),
        f"E Δ over the uniform trace at h = {steps}: {'; '.join(shown)}",
    )


def first_order_claim(parts: Parts) -> Claim:
    """Return beside it what first order says of Δ."""
    ratios = [
        told[0]["first_order"] / told[0]["mean"] for told in parts["signs"]["points"].values()
    ]
    return Claim(
        "Δ is (h/2σ²) Cov(‖γr + g‖², ‖δ‖²) to first order, which is positive here",
        float(
            np.mean(
                [abs(x - 1) <= NEAR and told[0]["mean"] > 0 for x, told in _with(parts, ratios)]
            )
        ),
        "typed over enumerated at the least step: " + ", ".join(f"{x:.4f}" for x in ratios),
        by_the_paper=False,
    )


def _with(parts: Parts, ratios: list[float]) -> list[tuple[float, Any]]:
    return list(zip(ratios, parts["signs"]["points"].values(), strict=True))


def limit(parts: Parts, words: str, name: str, of: str, value: float) -> Claim:
    """Return the claim that a number is near a limit at the least step."""
    ends = [run["laws"][name][0][of] for run in runs(parts)]
    is_so = [abs(x - value) <= NEAR for x in ends]
    shown = f"{min(ends):.4f} to {max(ends):.4f}, limit {value:g}"
    return Claim(words, float(np.mean(is_so)), shown, by_the_paper=False)


def claims(parts: Parts) -> list[Claim]:
    """Judge both theorems, and what the mechanism says."""
    return [
        is_sparse(parts),
        lessens(parts),
        first_order_claim(parts),
        limit(parts, "uniform rows add h² tr S to the energy of a step", UNIFORM, "heat", 1.0),
        limit(parts, "M = 1 damps all of it to first order", ONE, "heat", 0.0),
        limit(parts, "longer index chains add nothing to that: M = ∞", EXACT, "heat", 0.0),
        limit(parts, "EWSG-VR takes it away twice", VR, "heat", -1.0),
        limit(parts, "matrix friction over uniform rows takes it away once", MATRIX, "heat", 0.0),
        limit(parts, "M = 1 stiffens the force by 1 + hS/2γT", ONE, "stiffening", 1.0),
        limit(parts, "M = 1 pushes along the skewness by (h/2σ²) E‖δ‖²δ", ONE, "push", 1.0),
        limit(
            parts, "matrix friction over uniform rows does not stiffen", MATRIX, "stiffening", 0.0
        ),
    ]


def draw(parts: Parts) -> list[Panel]:
    """Draw the energy of a step, stiffening and push of M = 1, and E Δ, against the step."""
    every = runs(parts)
    steps = every[0]["steps"]

    def middle(name: str, of: str) -> list[float]:
        return [
            float(np.median([run["laws"][name][i][of] for run in every])) for i in range(len(steps))
        ]

    heat = [Line(name, steps, middle(name, "heat")) for name in every[0]["laws"]]
    kinds = [(of, name) for of in ("stiffening", "push") for name in (ONE, EXACT)]
    rest = [Line(f"{of}, {name}", steps, middle(name, of)) for of, name in kinds]
    signs = parts["signs"]
    change = [
        Line(name, steps, [each["mean"] for each in told]) for name, told in signs["points"].items()
    ]
    change.append(Line("Pima, at draws", steps, signs[PIMA]))
    zero = Line("0", [steps[0], steps[-1]], [0.0, 0.0], is_guide=True)
    one = Line("first order", [steps[0], steps[-1]], [1.0, 1.0], is_guide=True)
    return [
        Panel("energy added by a step / h² tr S", "h", "", [*heat, zero], (True, False)),
        Panel("stiffening and push / first order", "h", "", [*rest, one], (True, False)),
        Panel("E Δ / tr S (Theorem 4.2)", "h", "", [*change, zero], (True, False)),
    ]


EXPERIMENT = Experiment(
    "ewsg-theorems",
    "Li, Wang, Zha & Tao, Theorems 4.1 and 4.2",
    "what the best law of rows is, and what exponential weights do",
    Settings,
    parts,
    claims,
    draw,
)
