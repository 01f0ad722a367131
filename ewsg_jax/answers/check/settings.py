"""Every threshold of a check, with its unit, what it decides, and what set it.

They are read when a check runs, as `settings.NAME`, so that one place changes them. Guards against
rounding (1e-8 and 1e-12 of a largest eigenvalue) stand in the code. Sources:

coverage: `docs/check_errors.md` (`benchmarks/answers/check_errors.py`), 128 cells of targets,
    dimensions and biases; the worst has 0.5 % of coordinates beyond three reported errors.
alarms: `docs/check_measured.md` (`benchmarks/pages/checks.py`) and `test_alarms.py`; of 200 right
    sets of draws none is called wrong, of 200 with an sd that is 10 % too wide 189 are.
by hand: no measurement is known; the sweep of settings judges it.
memory, time: it changes no result, but for the order of sums.
"""

import math
import sys

from ewsg_jax.base import limits

# ── The verdict ──────────────────────────────────────────────────────────────────────────────────
MIN_ESS_TO_JUDGE = 50
"""Effective draws below which nothing is decided, unless identities show a bias. By hand."""
ERRORS_ALLOWED = 2.0
"""Standard errors by which a number may be off: it is within tolerance, or beyond it, if it still
is with that much added. The usual 95 %.
"""
LARGE_EXCESS = 4.0
"""E[g u] − 1 above which steps and minibatches hardly explain draws that are too wide, and the
verdict names other data, another prior or another gradient. By hand.
"""

# ── Which draws are used ─────────────────────────────────────────────────────────────────────────
DRAWS_TO_USE = (4_000, 16_000)
"""Draws of all chains at which gradients are evaluated, and how many if the first number cannot
decide. By hand: three of seven right runs needed the second.
"""
MIN_CHAIN_DRAWS = 8
"""Draws that each chain must have. By hand."""
MAX_USED_NUMBERS = 16 * limits.NUMBERS_AT_ONCE
"""Numbers in all draws that are used: 512 MiB in float64; memory."""
MAX_FUNCTIONS_BYTES = 16 * limits.BYTES_AT_ONCE
"""Bytes of Stein functions at the draws above which no second, larger set is used; memory."""

# ── Gradients at draws ───────────────────────────────────────────────────────────────────────────
FULL_DATA_BATCHES = 4
"""Minibatches in the data up to which all rows are taken; time: in order they are read faster."""

# ── Stein's identities and their standard errors ─────────────────────────────────────────────────
ESS_PER_BLOCK = 5
"""Effective draws of a block, at least, for means of blocks to be nearly independent. Alarms."""
NOTHING_KNOWN_SDS = 3.0
"""Sds of uncertainty from which on nothing is known: of a Stein function's mean, that bias may be
missed; of a corrected mean or a ratio of sds, its number is not printed. Coverage.
"""
MAX_SDS = 1e6
"""Sds from which on a distance or an error is only known to be larger. By hand. If identities say
nothing the distance is this: only moments of which a regression leaves less than a millionth are
then corrected. A coordinate that hardly moves in one half of the draws is taken to have the sd of
all draws over this, so that no draw is farther.
"""
MAX_SQUARABLE = math.cbrt(sys.float_info.max)
"""A number whose square and cube do not overflow in float64: if a gradient is larger, draws are
nowhere near the target, and a Stein function whose sd is below its inverse is left out.
"""
COLUMNS_AT_ONCE = 64
"""Coordinates or directions that are worked out together: they fit in a processor's cache; time."""

# ── Mixing: R-hat and effective draws ────────────────────────────────────────────────────────────
MAX_RHAT_COORDINATES = 256
"""Evenly spaced coordinates among which the largest R-hat is looked for: it is computed for a few
of them, by differences of chains' means and of their distances from the median. Time;
`test_cost.py` compares with R-hat of all coordinates.
"""
MAX_ESS_DIRECTIONS = 128
"""Directions whose effective draws are computed, a quarter of them those whose means, and a quarter
those whose variances, differ most between pieces of the draws. Time; `test_cost.py` compares with
the effective draws of all directions.
"""
QUANTILE_DRAWS = 512
"""Draws from which medians and quartiles are computed; time."""
MAX_MEDIAN_DISTANCES = 4.0
"""Median distances from the median, to which draws are clipped before chains' means are compared:
no outlier hides what the others show. By hand.
"""

# ── Excursions of chains ─────────────────────────────────────────────────────────────────────────
EXCURSION_SDS = (4.0, 10.0)
"""Robust sds from the median at which an excursion begins and ends, and that it must reach; by
hand.
"""
EXCURSION_RATIO = 4.0
"""How many times longer the way back is than the way out; and how many excursions there must be for
each that is one backwards in time. By hand.
"""
EXCURSION_MOVES, EXCURSION_MOVE_RATIO = 8.0, 2.0
"""The largest move outwards, in robust sds of a move, and over the largest move back. By hand,
judged by chains of heavy tails (`test_excursions.py`).
"""

# ── Corrected moments ────────────────────────────────────────────────────────────────────────────
DRAWS_PER_FUNCTION = 4
"""Draws for each Stein function of degree two, at least: else linear ones are taken alone.
Coverage.
"""
ERROR_GROUPS = 32
"""Groups of successive draws, nearly independent of each other, from which standard errors of
corrected moments come. Coverage.
"""
FOLDS = 8
"""Parts of the draws, each of which has regression coefficients from the others. Coverage."""
DRAWS_PER_COEFFICIENT = 1.1
"""Draws of the other folds for each coefficient, at least: with fewer a regression predicts
nothing. Coverage.
"""
NOISE_ERRORS = 10.0
"""Standard errors, by the noise of minibatches, that the size of a Stein function must be for it to
be used. Coverage.
"""
MIN_VARIANCE_RATIO, MAX_VARIANCE_RATIO, MAX_MEAN_SHIFT = 0.04, 4.0, 2.0
"""How far one correction goes: variances over those of the draws in any direction, and the mean in
sds of the draws. Coverage. A plan gives up a normal approximation, or a warm-up's metric, that is
farther off (`tests/answers/plan/test_warm_up.py`).
"""
MIN_ERROR = 1e-4
"""The smallest error that is reported, of a mean in sds or an sd relatively: float32 rounds so."""
BIAS_SHARE = 0.5
"""The standard error of a corrected moment over the largest bias that the distance from the target
allows: two such errors are the bound. Coverage.
"""
UNMOVED_ERROR_SHARE = 0.75
"""The part of the error of the original draws that stays when draws are moved: their shape stays,
and may differ in what no evaluated identity shows. Coverage.
"""
CHAINS_APART = 0.25
"""Sds between chains' corrected means, from which on no correction explains why chains disagree,
and none is given. By hand: with two against six chains in two modes a corrected mean was 6 of its
errors off.
"""
MAX_CORRECTED_ERROR = 0.5
"""Error of a corrected mean in sds, or of an sd relatively, above which there is no correction.
Coverage.
"""

# ── Moving draws that are far off ────────────────────────────────────────────────────────────────
NEAR_TARGET = 0.1
"""Distance from the target, in sds of a Stein function, up to which draws are corrected as they
are; above it they are moved first, and no plan takes its posterior for nearly normal. By hand;
coverage holds with it.
"""
MAX_MOVES = 4
"""How often draws are moved; each move costs as much as the check itself. By hand."""
NEARER_SHARE = 0.7
"""The part of their distance that moved draws may keep, to be taken instead of the original ones:
less is a better fit by itself. Coverage.
"""

# ── Functions of the position ────────────────────────────────────────────────────────────────────
OF_STEP = 0.25
"""How far around draws a function is evaluated, in sds. Any will do: a longer step averages the
function more, a shorter one has more noise from jumps and rounding. By hand.
"""

# ── Hierarchies ──────────────────────────────────────────────────────────────────────────────────
SDS_BEYOND, MOVED_DRAWS, MAX_SCALES = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0), 2, 4
"""Sds beyond all draws of a scale at which gradients are evaluated; at how many draws of each
group; and up to how many scales: each takes some 800 gradients. By hand.
"""
SDS_FOLLOWED = 3.0
"""Sds of a scale over which other coordinates follow it beyond the draws, as their regression on it
says. By hand: if the noise is unknown too, the sd of a scale was at most 2.6 errors off with 3, and
6.6 without.
"""
OUTSIDE_DOUBT, BEYOND_SHARE = 0.5, 0.5
"""The error of a moment over the part of the variance that lies beyond all draws, and the part of
that error which stays if gradients are evaluated there. By hand: such a tail is as long as it
seems, or half as long, or half as long again.
"""

# ── A normal prior ───────────────────────────────────────────────────────────────────────────────
SAME_CURVATURE = 1e-3
"""Relative difference of two Hessians that is rounding of float32: the prior is normal."""

# ── The kinetic temperature ──────────────────────────────────────────────────────────────────────
MOMENTUM_READS = 256
"""Times at which momenta are read, evenly spaced. By hand."""
STEPS_PER_EXTRA_STEP = 10
"""Steps of the run for each step that it continues to measure momenta. By hand: a tenth."""
MAX_COMPARED_COORDINATES, MAX_SVD_DIRECTIONS = 1_024, 512
"""Coordinates of momenta, or of gradient noise, that are used, evenly spaced; and up to how many
directions are found by a singular value decomposition: above, the coordinates are the directions.
Time.
"""


def max_measured_ratio() -> float:
    """Return the sd ratio from which on only that it is larger is known: one correction's range."""
    return float(MIN_VARIANCE_RATIO**-0.5)


def max_measured_shift() -> float:
    """Return the shift of a mean, in sds of the target, from which on only that it is larger is
    known: one correction's range.
    """
    return MAX_MEAN_SHIFT * max_measured_ratio()
