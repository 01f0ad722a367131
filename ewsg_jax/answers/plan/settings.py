"""The numbers by which `ewsg.plan` decides, each with its unit and its origin.

They are read when they are used, as `settings.NAME`, so that a test or a sweep can replace one
here. The grid of step sizes and frictions, which a compiled program holds, needs a new process.

What set a number is one of: a derivation, a benchmark, a test or a model (by its name), a cost
that was measured on two cores of a CPU, or "set by hand": of other values no measurement is on
record.
"""

import numpy as np

# Which runs count as long enough.

ESS_STANDARD_ERRORS = 3.3
"""Standard errors of a posterior sd that fit into half of the tolerance: decides how many effective
draws a run has. The worst of some hundred independent sds stays within 3.3 (P ≈ 0.1 that one of 100
does not).
"""
BURN_IN_TIMES = 8
"""Autocorrelation times of burn-in: of a start that is forgotten as exp(−t/τ), 3e-4 is left."""
MIN_RUN_STEPS = 16
"""Steps of each chain that a run keeps at least; set by hand."""
KEPT_PER_EFFECTIVE_DRAW = 5.0
"""Draws of a planned run that are kept for an effective one. Derived: of an autoregression whose
effective draw takes τ steps, every (τ/5)-th has 98.7 % of the effective draws of all; every τ-th
has 76 %.
"""
NUM_PILOT_CHAINS = 8
"""Chains of a warm-up and of a pilot run, and groups into which the draws of the normal
approximation are divided, so that `check` can compare them; set by hand.
"""

# The search for a mode, and what a plan may spend.

NEWTON_MODE_STEPS = 60
"""Steps of Newton's method from the start, each as many passes over the data as there are
parameters. Seven models with a mode (`benchmarks/answers/models.py`) took up to 29; towards a scale
of 0, which is no mode, it takes hundreds.
"""
MODE_STEPS = 500
"""Steps of the search for a mode by other methods; set by hand."""
PASSES_PER_PILOT_CHAIN = 2_000.0
"""Passes over the data that each chain of a pilot run may take if `max_passes` is not given; set by
hand.
"""
ROWS_PER_PILOT_CHAIN = 4e7
"""Evaluations of a row that such a chain may take, if that is more: few rows are cheap, and the
plan's seconds bound them. Set by hand; with a tenth of it pilot runs of 2,000 rows of item response
(`benchmarks/cost/plan_time.py`) were too short to judge.
"""
PLAN_SECONDS = 90.0
"""Seconds that a plan may take if `seconds` is not given; set by hand."""
PLAN_NUMBERS = 2e6
"""Rows times parameters up to which it has these seconds; above in proportion. 5,000 rows and 400
parameters; set by hand.
"""
SECONDS_SHARE = 0.5
"""Part of the seconds that are left which a pilot run may take, and of all which windows may: what
follows has as many. Set by hand.
"""

# The normal approximation at the mode.

ROWS_PER_DRAW = 1_000
"""Rows of the gradient at a draw, as in `check` by default: one compiled program serves both. Half
of them are the minibatch whose noise is measured, as `check` takes two batches.
"""
TRUSTED_CORRECTION = 4.0
"""Errors of a corrected covariance, in multiples of the tolerance, above which the mode's own
covariance is taken for the coordinates; set by hand.
"""

# What a candidate costs, and which are compared.

STEP_COST_ROWS = 64
"""Rows that a step costs in addition to its own, for each chain, on a CPU; set by hand.
`benchmarks/answers/plan_against_grid.py` shows the plans with and without it.
"""
PREDICTED_BIAS_SHARE = 0.5
"""Part of the tolerance that a predicted bias may take; Monte Carlo error takes the rest. An equal
division; set by hand.
"""
PILOT_BIAS_SHARE = 0.25
"""Part of that for a posterior far from normal, whose bias may be larger than what is predicted for
a normal one; its square root for means. Set by hand, judged by pilot runs.
"""
CHEAP_ROWS = 10**9
"""Evaluations of a row by a whole run with full gradients up to which no minibatches are compared:
about a second, less than compiling what compares them (item response,
`benchmarks/answers/models.py`).
"""
UNIFORM_NOISE_RATIO = 1 / 8
"""Noise of control variates over the number of rows, up to which plain minibatches are not
measured: in regressions, counts, softmaxes and hierarchies their noise is 1.2 to 1.9 times that
number (`benchmarks/answers/models.py`).
"""
NUM_NOISE_PLACES = 512
"""Positions at which minibatch noise is measured: the variance of a coordinate is known within 6 %
(its relative standard error, √(2/512)).
"""
MEASURED_COST_RATIO = 20
"""With `by="seconds"`, costs up to this multiple of the least are measured: rows read in order are
many times quicker than those at random.
"""
UNBIASED = 1e-6
"""Error of a variance, relatively, up to which a scheme counts as exact: rounding in its forecast.
Nothing is measured then of what such an error moves.
"""
NOISE_FLOOR = 1e-3
"""Least value of 1 − κs²/b, and of gradients' variance over the noise of its estimate: below it a
candidate is far out of tolerance whatever the value.
"""
TRACED_ROWS = 3e7
"""Rows of all positions together at which the trace of the curvature is estimated; set by hand."""
FEW_ROWS_CURVATURE = 1e3
"""Curvature over the posterior's from which a few rows make most of the noise, so that rows are not
drawn uniformly: all columns of Covertype, whose rare rows a uniform sample lacked.
"""

# Step sizes.

STEP_GRID = 2.0 ** np.arange(0.5, -10.25, -0.5)
"""Step sizes that are compared, in units in which the posterior has sd 1: a factor √2 apart."""
FRICTION_GRID = (0.7, 1.0, 1.5, 2.0)
"""Frictions that are compared, in the same units; 2 is critical damping."""
STABLE_STEP_SHARE = 0.7
"""Part of the largest stable step that is taken; its square for Langevin dynamics. Set by hand."""
STIFF_WIDTH = 2.0
"""Posterior sds, in multiples, out to which high curvature is looked for; and the speed, in
multiples of its sd, with which a step is followed. Two sds hold 95 % of each coordinate.
"""
NUM_ROW_CURVATURE_PLACES = 64
"""Positions, of draws and around the center each, at which each row's own curvature is evaluated
for models of linear predictors; set by hand.
"""
NUM_CURVATURE_PLACES = 32
"""Positions at which the largest curvature is evaluated, and to which a step is followed; set by
hand.
"""
STEEPER_RATIO = 1.5
"""Ratio of curvatures above which a step counts as leading to a stiffer place. Without it one plan
of four for separated labels had an sd 1.44 times too large
(`tests/answers/plan/test_stiff_directions.py`).
"""
STIFF_CURVATURE = 4.0
"""Curvature over the posterior's from which a direction is named as stiff; set by hand."""
STIFF_CORRELATION = 0.5
"""Correlation with a stiff direction from which a coordinate is named; set by hand."""

# The metric and the coordinates.

METRIC_RANK = 32
"""Directions of the metric in more than 1,000 dimensions, in addition to its diagonal; set by hand.
"""
METRIC_SHRINKAGE = 0.3
"""Share of the identity (of the metric before) that is mixed in with as many draws as parameters,
less with more draws; set by hand, judged by `tests/answers/plan/test_warm_up.py`.
"""

# The warm-up.

WINDOW_LENGTHS = (1, 1, 2, 3, 4, 6, 8, 12, 16, 24)
"""Lengths of the windows, in multiples of the first; set by hand, growing as Stan's do."""
FEWEST_WINDOW_DRAWS = 32
"""Draws of a chain that a window keeps at least; set by hand."""
LOW_RANK_WINDOW_DRAWS = 64
"""The same for a metric of low rank: 16 draws of all chains for each of its directions. A million
rows in 5,000 groups settled with them.
"""
MAX_FULL_BATCH_ROWS = 100_000
"""Rows up to which a warm-up, a kernel without a forecast and NUTS take all of them in a step; set
by hand.
"""
MAX_ROWS_WITHOUT_MODE = 1_000_000
"""Rows up to which chains may warm up away from the mode; with more, minibatches are centered
there. Set by hand.
"""
WINDOW_NOISE_SHARE = 0.1
"""What minibatch noise may add to a variance in a window, relatively. In groups of 50,000 rows the
metric is off by a factor of 1.13 at most, for 2.8 with 1,000 rows a step.
"""
MIN_BATCHES_IN_DATA = 16
"""Minibatches in the data from which a window takes them: rows that are fetched cost more than rows
in order. Set by hand.
"""
WARM_UP_FRICTION = 1.0
"""Friction, in units of the metric, if nothing is forecast: half of critical damping."""
WARM_UP_LARGEST_STEP = 0.5
"""Largest step of a window, in units of the metric; set by hand."""
WARM_UP_STABLE_SHARE = 0.5
"""Part of the largest stable step that a window takes: its metric may be off by a factor of four in
a variance, two in a width.
"""
WINDOW_STEP_CUT = 0.5
"""Factor of the step if some chains diverged in a window, its square if all did; set by hand."""
WINDOW_STEP_GROWTH = 1.5
"""Factor by which a step that was cut grows again after a window without diverged chains; set by
hand.
"""
FIRST_WINDOW_WIDTH = 0.3
"""Sd of the chains around a start without a scale, in units of the parameters; set by hand."""

# Pilot runs.

MOST_PILOT_RUNS = 6
"""Pilot runs, each at half the step of the last; set by hand."""
PILOT_ESS = 300.0
"""Effective draws of all chains together for which a pilot run has steps; set by hand."""
FEWEST_PILOT_ESS = 100.0
"""Effective draws that are needed to judge a pilot run; set by hand."""
PILOT_LENGTHENING = 3
"""Factor of the steps by which a pilot run that is too short is continued; set by hand."""
NUM_DENSITY_DRAWS = 256
"""Draws of a pilot run at which densities are evaluated: of a share of 2 % outside the support, 5
are seen on average.
"""
SLOW_PILOT_RATIO = 8.0
"""Steps of an effective draw over the prediction, above which the covariance of the pilot run's
draws gives the coordinates of the next, once. All columns of Covertype: trusted after it, not
before.
"""
SLOW_PASSES = 40.0
"""Passes over the data of an effective draw, above which NUTS is tried as well; set by hand."""
NUTS_SECONDS = 10.0
"""Seconds that compiling and trying NUTS takes: what takes no longer is not given up for it. 9 to
15 of processor time (`benchmarks/cost/plan_time.py`).
"""
NUTS_RUN_RATIO = 4.0
"""How many times as long the whole run must take for NUTS to be tried in the place of a kernel that
nothing is against; set by hand.
"""

# NUTS.

NUTS_ACCEPTANCE = 0.8
"""Mean acceptance to which the step size is adapted, as in Stan, NumPyro and BlackJAX."""
NUTS_MAX_DEPTH = 8
"""Doublings of a trajectory: up to 255 gradients a step; set by hand (BlackJAX and Stan: 10)."""

# Other modes.

OTHER_MODE_WIDTHS = (3.0, 10.0, 30.0, 100.0)
"""Posterior sds of the points at which searches for another mode begin; set by hand."""
SEARCHES_OF_A_KIND = 6
"""Searches for each of these widths, from exchanged neighbours, and from changed signs; set by
hand.
"""
MOST_EXCHANGES = 400
"""Exchanges of parameters that are tried, with two densities each; set by hand."""
MOST_FLIPS = 3
"""Scalars whose sign is changed by turns with each exchange, such as a log odds; set by hand."""
OTHER_MODE_DISTANCE = 1.0
"""Distance from the first mode, in posterior sds, from which a mode is another one. Two normals six
widths apart in one of 20 coordinates were missed by √d + 3.
"""
OTHER_MODE_DEPTH = 12.0
"""Difference of log densities up to which another mode, or a level tail, matters: e⁻¹² = 6e-6 of
the height.
"""
MOST_OTHER_MODES = 4
"""Ends of searches from which Newton's method starts, the highest first; set by hand."""

# Tails.

TAIL_DISTANCES = (100.0, 1_000.0)
"""Distances from the center, in posterior sds, at which the density is compared: that of a Cauchy
distribution is e⁻⁹ and e⁻¹⁴ of its height there.
"""
TAIL_POWER = 2.0
"""The power of a distance that must have a mean, for a variance: in d dimensions the density must
fall faster than |θ|^−(d + 2).
"""
TAIL_ROUNDING = 0.05
"""Difference of log densities that is rounding of float32 sums; set by hand (2 degrees of freedom
are seen, 2.2 are not doubted: `tests/answers/plan/test_tails.py`).
"""
TAIL_DEPTH = 25.0
"""Difference of log densities per dimension beyond which a slowly falling tail holds too little to
matter; set by hand.
"""
NUM_TAIL_RAYS = 8
"""Random directions in which the tails are compared; set by hand."""
RIDGE_SDS = (10.0, 100.0, 1_000.0, 10_000.0)
"""Distances, in sds of a coordinate, at which marginal densities are compared, a factor of ten
apart: what tends to a power as 1/t is within 0.02 of it between the last two
(`tests/answers/plan/test_ridges.py`).
"""
MOST_RIDGE_PASSES = 2_000
"""Passes over the data after which ridges are given up: as many as a pilot chain may take."""
MOST_RIDGE_ROWS = 2 * 10**8
"""Evaluations of a row after which no other line is started: some tenths of a second; set by hand.
"""
RIDGE_POWER_CHANGE = 0.1
"""How much the power of a tail may grow over a factor of ten: that of a lognormal tail of variance
σ² (of the logarithm) grows by 2.3/σ²; set by hand (Neal's funnel in
`tests/answers/plan/test_ridges.py`).
"""
RIDGE_ROUNDING = 0.1
"""Difference of log densities by which a power may be missed between two distances, 0.04 of the
power; set by hand (`tests/answers/plan/test_ridges.py`).
"""

# Compiling, measuring and printing.

MOST_COMPILE_NUMBERS = 2**26
"""Rows times parameters above which nothing is compiled ahead, as one run then takes longer than
compiling; set by hand.
"""
TIMED_SECONDS = 0.05
"""Seconds of sampling that the measurement of a step lasts at least; set by hand."""
