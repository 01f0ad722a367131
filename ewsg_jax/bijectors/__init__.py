"""Maps from unconstrained positions to constrained ones, for `Posterior.transformed`."""

from ewsg_jax.bijectors._identity import identity as identity
from ewsg_jax.bijectors._interval import interval as interval
from ewsg_jax.bijectors._ordered import ordered as ordered
from ewsg_jax.bijectors._positive import positive as positive
from ewsg_jax.bijectors._simplex import simplex as simplex
from ewsg_jax.bijectors._tree import tree as tree
from ewsg_jax.bijectors.protocol import Bijector as Bijector
from ewsg_jax.bijectors.protocol import Transform as Transform
