"""Lower bounds of a likelihood whose sum over all data costs nothing, for FlyMC.

bohning: the bound of softmax regression.
jaakkola_jordan: the bound of logistic regression.
normal_taylor: the bound of normal data.
Bound: the base class of your own bounds.
"""

from ewsg_jax.bounds._bohning import bohning as bohning
from ewsg_jax.bounds._jaakkola_jordan import jaakkola_jordan as jaakkola_jordan
from ewsg_jax.bounds._normal_taylor import normal_taylor as normal_taylor
from ewsg_jax.bounds._protocol import Bound as Bound
