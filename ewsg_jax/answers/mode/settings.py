"""Every threshold of the search for a mode, with its unit, what it decides, and what set it.

They are read when a search runs, as `settings.NAME`, so that one place changes them. Sources:

rounding: follows from the digits of float32 or float64.
tests: `tests/answers/mode` has potentials on both sides of it (exp(−w), w⁴, kinks, ridges, steep
    edges, scales from 1e-6 to 1e6).
by hand: no measurement is known; the sweep of settings judges it.
"""

# ── Curvature ────────────────────────────────────────────────────────────────────────────────────
CURVATURE_ROUNDING = {True: 1e-14, False: 1e-6}
"""Relative curvature for each dimension, in float64 or not, below which it is rounding: a direction
with less is flat. Rounding.
"""
DIFFERENCE_ROUNDING = {True: 1e-9, False: 1e-5}
"""The same for curvatures that are differences of gradients. Rounding."""
MIN_STEP_CURVATURE = 1e-8
"""Relative curvature by which a step divides at least, if some is not positive. By hand."""

# ── Which method, and in which form ──────────────────────────────────────────────────────────────
NEWTON_DIMENSION = 32
"""Dimension up to which Newton's method begins at the start, without L-BFGS before it. By hand."""
NEWTON_DIMENSION_LINEAR = 256
"""The same for models through linear predictors, whose Hessians cost less. By hand."""

# ── Newton's method ──────────────────────────────────────────────────────────────────────────────
MAX_STEP_LENGTHS = 40
"""Lengths of one step that are tried, in Newton's method and a line search of L-BFGS. By hand."""
STEADY_GRADIENT = 0.3
"""Part of the gradient that is left after a step, from which a longer step is tried: after one of
Newton's steps exp(−w), which has no minimum, keeps 0.37, and w⁴, which has one, 0.30.
"""
GRADIENT_CHECK_DISTANCE = {True: 1e-4, False: 0.1}
"""Standard deviations over which changes of the gradient are larger than rounding, in float64 or
not: over these the potential near a mode is compared with a parabola. Rounding.
"""
RIDGE_DISTANCES = (1e-4, 1e-2)
"""Standard deviations in the direction of least curvature, over one of which a potential at a mode
is a parabola. By hand; tests.
"""
KINK_FACTOR = 10.0
"""Times what gradient and curvature predict, by which the gradient or the value changes at a kink;
and times the predicted decrease, by which a point without a density counts as higher, so that a
line search turns back. By hand; tests.
"""

# ── The edge of the support ──────────────────────────────────────────────────────────────────────
EDGE_SHARE = 0.3
"""Part of points a tenth of an sd around a mode that have density 0, from which the mode lies on
the edge: a plane edge through it takes a half. By hand.
"""

# ── Products of the Hessian with vectors ─────────────────────────────────────────────────────────
SOLUTION_RESIDUAL = 1e-4
"""Relative residual at which a solution is precise enough: its distance is then known to as much.
"""
