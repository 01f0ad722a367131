"""Maps from unconstrained positions to constrained ones, for `Posterior.transformed`.

affine: a shift and a scale, such as a mode and its widths.
identity: leave a part as it is.
interval: between two numbers.
ordered: increasing numbers.
positive: above zero.
simplex: positive numbers that sum to one.
tree: one of these for each part of a position.
Bijector: the class that they are made of.
Transform: what `Posterior.transformed` asks for, of any object.
"""

from ewsg_jax.bijectors._affine import affine as affine
from ewsg_jax.bijectors._identity import identity as identity
from ewsg_jax.bijectors._interval import interval as interval
from ewsg_jax.bijectors._ordered import ordered as ordered
from ewsg_jax.bijectors._positive import positive as positive
from ewsg_jax.bijectors._protocol import Bijector as Bijector
from ewsg_jax.bijectors._protocol import Transform as Transform
from ewsg_jax.bijectors._simplex import simplex as simplex
from ewsg_jax.bijectors._tree import tree as tree
