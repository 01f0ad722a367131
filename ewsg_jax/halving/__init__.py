"""Runs at a step size and at half of it, whose noise is the same: how wrong the step is, and what
is right.
"""

from ewsg_jax.halving._halve import halve as halve
from ewsg_jax.halving.result import Estimates as Estimates
from ewsg_jax.halving.result import Halved as Halved
