"""How to sample a posterior, found before a run: which kernel, from where, how long."""

from ewsg_jax.planning._plan import plan as plan
from ewsg_jax.planning.gaussian import Gaussian as Gaussian
from ewsg_jax.planning.result import Plan as Plan
