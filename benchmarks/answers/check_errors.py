"""Whether the errors that `ewsg.check` states cover: draws whose bias is known, of targets off
normal.

    python -m benchmarks.answers.check_errors [--targets t5,hierarchical]
        [--dimensions 10,86] [--seeds 20]

Exact independent draws of eight chains, as they are, widened by 10 %, shifted by 0.15 sd in every
coordinate, or pulled towards a normal law of the same means and sds. What the check says of
standard deviations and means is compared with the truth, in units of its errors. Cells are kept in
`benchmarks/results/check_errors.json` as they are made; those that are there with as many seeds are
not made again.
"""

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import ewsg_jax as ewsg

RESULT = Path(__file__).parents[1] / "results" / "check_errors.json"
DIMENSIONS, SIZES, NUM_CHAINS = (10, 86, 200, 300), (304, 1_000), 8
"""Numbers of a position; independent draws of all chains together; chains."""
KINDS = ("none", "wide", "shift", "shape")
WIDER, SHIFT, KEPT = 1.1, 0.15, 0.8
SD_OF_LOG_SCALE = 0.3


class Target(NamedTuple):
    """A target whose moments are known.

    Attributes:
        log_density: of a position, shape (d,), and the parameters.
        parameters: of the target.
        draw: so many exact draws by a NumPy generator, shape (draws, d).
        mean, sd: shape (d,).
    """

    log_density: Callable[[jax.Array, Any], jax.Array]
    parameters: Any
    draw: Callable[[np.random.Generator, int], np.ndarray]
    mean: np.ndarray
    sd: np.ndarray


class Law(NamedTuple):
    """A law of one number."""

    log_density: Callable[[jax.Array], jax.Array]
    draw: Callable[[np.random.Generator, tuple[int, int]], np.ndarray]
    mean: float
    variance: float


LAWS = {
    "normal": Law(lambda z: -(z**2) / 2, lambda rng, size: rng.standard_normal(size), 0.0, 1.0),
    "logistic": Law(
        lambda z: -z - 2 * jnp.log1p(jnp.exp(-z)),
        lambda rng, size: rng.logistic(size=size),
        0.0,
        np.pi**2 / 3,
    ),
    "t5": Law(
        lambda z: -3 * jnp.log1p(z**2 / 5), lambda rng, size: rng.standard_t(5, size), 0.0, 5 / 3
    ),
    "gumbel": Law(
        lambda z: -z - jnp.exp(-z),
        lambda rng, size: rng.gumbel(size=size),
        float(np.euler_gamma),
        np.pi**2 / 6,
    ),
}
TARGETS = (*LAWS, "hierarchical")


def mixed(name: str, d: int) -> Target:
    """Return independent numbers of a law, mixed by a matrix whose condition number is some
    hundreds.
    """
    law, rng = LAWS[name], np.random.default_rng(d)
    matrix = rng.normal(size=(d, d)) / np.sqrt(d) + np.eye(d)
    return Target(
        lambda position, inverse: jnp.sum(law.log_density(inverse @ position)),
        jnp.asarray(np.linalg.inv(matrix)),
        lambda rng, count: law.draw(rng, (count, d)) @ matrix.T,
        law.mean * matrix.sum(1),
        np.sqrt(law.variance * np.sum(matrix**2, axis=1)),
    )


def hierarchical(d: int) -> Target:
    """Return d − 1 effects whose common scale is unknown, its logarithm first."""
    s = SD_OF_LOG_SCALE

    def log_density(position: jax.Array, _: Any) -> jax.Array:
        scale, effects = position[0], position[1:]
        return (
            -(scale**2) / (2 * s * s)
            - jnp.sum(effects**2) * jnp.exp(-2 * scale) / 2
            - (d - 1) * scale
        )

    def draw(rng: np.random.Generator, count: int) -> np.ndarray:
        scale = s * rng.standard_normal((count, 1))
        return np.concatenate([scale, np.exp(scale) * rng.standard_normal((count, d - 1))], axis=1)

    return Target(
        log_density, jnp.zeros(1), draw, np.zeros(d), np.append(s, np.full(d - 1, np.exp(s * s)))
    )


def bent(kind: str, draws: np.ndarray, target: Target, rng: np.random.Generator) -> np.ndarray:
    """Return draws with a bias of a kind."""
    if kind == "wide":
        return target.mean + WIDER * (draws - target.mean)
    if kind == "shift":
        return draws + SHIFT * target.sd * np.sign(rng.standard_normal(draws.shape[1]))
    if kind == "shape":
        normal = rng.standard_normal(draws.shape)
        return (
            target.mean + KEPT * (draws - target.mean) + np.sqrt(1 - KEPT**2) * target.sd * normal
        )
    return draws


def cell(name: str, d: int, size: int, kind: str, num_seeds: int) -> dict[str, Any]:
    """Return what the check says of draws of seeds 0, 1, …, beside what is true."""
    target = hierarchical(d) if name == "hierarchical" else mixed(name, d)
    parameters = target.parameters
    posterior = ewsg.Posterior(
        lambda position, row: 0.0 * row[0] + 0.0 * position[0],
        lambda position: target.log_density(position, parameters),
    )
    rows = jnp.zeros((4, 1))
    outcomes = []
    of_sd = []
    of_mean = []
    errors = []
    off = []
    corrected = 0
    began = time.perf_counter()
    for seed in range(num_seeds):
        rng = np.random.default_rng([seed, d, size, KINDS.index(kind)])
        flat = bent(kind, target.draw(rng, size), target, rng)
        draws = jnp.asarray(flat.reshape(NUM_CHAINS, -1, d))
        report = ewsg.check(jax.random.key(seed), draws, posterior, rows)
        outcomes.append(report.outcome)
        corrected += report.corrected is not None
        ratio, shift = flat.std(0) / target.sd, (flat.mean(0) - target.mean) / target.sd
        of_sd.append(
            np.abs(np.asarray(report.sd_ratio) - ratio) / np.asarray(report.sd_ratio_error)
        )
        of_mean.append(
            np.abs(np.asarray(report.mean_shift) - shift) / np.asarray(report.mean_shift_error)
        )
        errors.append([np.median(report.sd_ratio_error), np.median(report.mean_shift_error)])
        off.append(np.mean(np.log(np.asarray(report.sd_ratio) / ratio)))
    sds, means = np.array(of_sd), np.array(of_mean)
    return {
        "target": name,
        "d": d,
        "draws": size,
        "kind": kind,
        "seeds": num_seeds,
        "beyond_three": [float(np.mean(z > 3)) for z in (sds, means)],
        "worst": [float(z.max()) for z in (sds, means)],
        "root_mean_square": [float(np.sqrt(np.mean(z**2))) for z in (sds, means)],
        "error": np.median(errors, axis=0).tolist(),
        "sd_off": float(np.mean(off)),
        **{outcome: outcomes.count(outcome) for outcome in ("right", "wrong", "unsure")},
        "corrected": corrected,
        "seconds": (time.perf_counter() - began) / num_seeds,
    }


def stored() -> list[dict[str, Any]]:
    """Return the cells that are there."""
    return json.loads(RESULT.read_text())["cells"] if RESULT.exists() else []


def main() -> None:
    """Make what is asked for."""
    parser = argparse.ArgumentParser(description="Whether the errors of the check cover.")
    parser.add_argument("--targets", default=",".join(TARGETS))
    parser.add_argument("--dimensions", default=",".join(map(str, DIMENSIONS)))
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--draws", default=",".join(map(str, SIZES)))
    parser.add_argument("--seeds", type=int, default=20)
    asked = parser.parse_args()
    jax.config.update("jax_enable_x64", True)
    for name in asked.targets.split(","):
        for d in map(int, asked.dimensions.split(",")):
            for size in map(int, asked.draws.split(",")):
                for kind in asked.kinds.split(","):
                    where = {"target": name, "d": d, "draws": size, "kind": kind}
                    same = [each for each in stored() if where.items() <= each.items()]
                    if same and same[0]["seeds"] >= asked.seeds:
                        continue
                    found = cell(name, d, size, kind, asked.seeds)
                    print(json.dumps(found), flush=True)
                    others = [each for each in stored() if not where.items() <= each.items()]
                    part = RESULT.with_suffix(".part")
                    part.write_text(json.dumps({"cells": [*others, found]}, indent=1) + "\n")
                    part.replace(RESULT)
                    jax.clear_caches()


if __name__ == "__main__":
    main()
