"""Runs at a step size and half of it, of the same noise: how wrong the step is, what is right."""

from ewsg_jax.halving._halve import halve as halve
from ewsg_jax.halving.result import Estimates as Estimates
from ewsg_jax.halving.result import Halved as Halved
