"""All hierarchies with normal effects and normal rows: their numbers of groups, sizes and seeds."""

import numpy as np

from benchmarks.hierarchies.groups import intercepts, lines, slopes
from benchmarks.hierarchies.model import Pair
from benchmarks.hierarchies.two_factors import two_factors
from benchmarks.hierarchies.walk import walk


def _sizes(num_groups: int, n: int, seed: int) -> list[int]:
    """Return unlike sizes of at least one row."""
    rng = np.random.default_rng(seed)
    extra = rng.multinomial(n - num_groups, rng.dirichlet(np.full(num_groups, 0.7)))
    return [int(1 + x) for x in extra]


def pairs() -> tuple[Pair, ...]:
    """Return the hierarchies of this file."""
    rng = np.random.default_rng(100)
    return (
        intercepts(
            "many_groups",
            "110 groups of unlike sizes, a small scale",
            _sizes(110, 900, 1),
            tau=0.12,
            s=0.8,
            seed=1,
        ),
        intercepts("few_groups", "5 groups of 12 rows", [12] * 5, tau=0.4, s=1.0, seed=2),
        intercepts(
            "empty_groups",
            "40 groups, every other one without a row",
            [8, 0] * 20,
            tau=0.3,
            s=0.7,
            seed=3,
        ),
        intercepts(
            "one_row",
            "60 groups of one row, noise known",
            [1] * 60,
            tau=0.6,
            se=np.ones(60),
            seed=4,
        ),
        intercepts(
            "schools",
            "10 studies with known errors",
            [1] * 10,
            mu=6.0,
            tau=4.0,
            se=rng.uniform(8, 18, 10),
            mu_width=15.0,
            width=10.0,
            seed=5,
        ),
        intercepts(
            "small_units",
            "50 groups, everything some thousandths",
            _sizes(50, 400, 6),
            mu=0.003,
            tau=0.0008,
            s=0.002,
            mu_width=0.01,
            width=0.002,
            s_width=0.005,
            from_data=True,
            seed=6,
        ),
        intercepts(
            "large_units",
            "50 groups, everything some ten thousands",
            _sizes(50, 400, 7),
            mu=40_000.0,
            tau=3_000.0,
            s=9_000.0,
            mu_width=50_000.0,
            width=10_000.0,
            s_width=10_000.0,
            from_data=True,
            seed=7,
        ),
        slopes("slopes", "70 groups with slopes of their own", 70, 700, 0.15, 8),
        lines("lines", "35 groups with intercepts and slopes", 35, 400, (0.5, 0.15), 9),
        lines(
            "correlated",
            "25 groups, intercepts and slopes correlated",
            25,
            500,
            (0.6, 0.4),
            10,
            0.6,
        ),
        two_factors("crossed", "30 persons crossed with 20 items", (30, 20), 500, (0.4, 0.25), 11),
        two_factors("nested", "40 districts in 8 regions", (8, 40), 400, (0.5, 0.3), 12, True),
        walk("walk", "a random walk of 90 steps", 90, 0.15, 13),
    )
