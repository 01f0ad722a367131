"""Every threshold of a forecast, with its unit, what it decides, and what set it.

They are read when a forecast runs, as `settings.NAME`, so that one place changes them. Sources:

exact: `docs/bias.json`, stationary variances by listing every batch; the tests compare forecasts
    with them to 0.5 % of the excess for linear steps, 5 % for moving anchors and weights.
long runs: `docs/forecast.md`, 104 biases measured in long runs, 98 of them within a half.
by hand: no measurement is known; the sweep of settings judges it.
"""

# ── How far the posterior may be from normal ─────────────────────────────────────────────────────
NORMAL_CURVATURES = (0.5, 2.0)
"""The least and the largest average curvature over the mode's for which a posterior counts as near
normal. Outside of them the table says that it is not, and averages are clipped to them: long runs
are predicted within a half inside; outside, on all columns of Covertype, a forecast was wrong by a
factor of hundreds.
"""

# ── Averages over the target ─────────────────────────────────────────────────────────────────────
TARGET_ROUNDS = 2
"""Rounds in which the covariance of the target and its average curvature are computed in turn. By
hand.
"""
MODE_DISTANCE = 0.05
"""Standard deviations: draws shrunk to this show the curvature at the mode, from the same rows. By
hand.
"""

# ── Noise of batches ─────────────────────────────────────────────────────────────────────────────
MAX_EVALUATIONS = 2**20
"""Gradients of single rows that a round evaluates. By hand."""
MIN_POINTS = 64
"""Points, at least, at which batches are compared, and over which a step that depends on the
position is averaged. By hand.
"""
MAX_LISTED_BATCHES = 64
"""Equally probable batches that are all evaluated instead of drawn. By hand."""
MAX_FULL_WEIGHT_NUMBERS = 2**25
"""Numbers in the gradients of all batches at the fewest points, 256 MiB in float64: full weights of
more batches are refused.
"""
CANDIDATES_PER_PROPOSAL = 8
"""Drawn batches at a point for each batch that an index chain visits. By hand; exact."""
ANCHOR_AGES = 16
"""Ages of anchors that stand for all ages, equally probable. By hand; exact (SVRG, SAGA: 5 %)."""

# ── The stationary distribution ──────────────────────────────────────────────────────────────────
CONVERGED_CHANGE = 0.01
"""Relative change of a variance that ends the rounds: control variates are then exact to 0.5 % of
their excess.
"""
TINY_STEP = 1e-4
"""Part of the step size at which a dynamics has no bias of its own: the target of one whose drift
depends on the position. By hand; exact (sgrld).
"""
