"""The thresholds of `halve`: each with its unit, what it decides, and what set it.

They are read when they are used (`settings.NAME`).
"""

MIN_PAIRS = 8
"""Pairs of chains, at least: the independent values of the jackknife (7 degrees of freedom).
Decides which `num_chains` are refused, and when too many pairs are lost. Set by hand."""

MIN_KEPT_STEPS = 16
"""Steps of h after the burn-in, at least: 8 for each half of the run, which R-hat compares. Decides
which `num_steps` are refused. Set by hand."""

REMAINDER_SHARE = 0.2
"""Part of the difference of two moments that extrapolation may leave, for a dynamics and batches of
order 1. Widens the errors of the bias and of extrapolated moments. For langevin, exact and euler on
normal posteriors at most 0.07 is left beyond 2 D²/v (tests/answers/halve/test_order.py)."""
