"""Exact baselines: kernels of their own, without an estimator of the gradient."""

from ewsg_jax.exact._flymc import flymc as flymc
from ewsg_jax.exact._nuts import nuts as nuts
from ewsg_jax.exact._random_walk_metropolis import random_walk_metropolis as random_walk_metropolis
