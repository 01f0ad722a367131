"""Every named method: a dynamics and an estimator, with its record, a family a file.

All are called as `method(posterior, step_size, **options)` and return the kernel: give it to
`ewsg_jax.sample`, or call its `init` and `step`.
"""

from ewsg_jax.exact._flymc import flymc as flymc
from ewsg_jax.exact._random_walk_metropolis import random_walk_metropolis as random_walk_metropolis
from ewsg_jax.kernels.record import METHODS as METHODS
from ewsg_jax.kernels.record import Method as Method
from ewsg_jax.methods._adaptive import hamcmc as hamcmc
from ewsg_jax.methods._adaptive import psgld as psgld
from ewsg_jax.methods._adaptive import sgrld as sgrld
from ewsg_jax.methods._control_variate import cv_ld as cv_ld
from ewsg_jax.methods._control_variate import cv_uld as cv_uld
from ewsg_jax.methods._langevin import ld as ld
from ewsg_jax.methods._langevin import sgld as sgld
from ewsg_jax.methods._saga import saga2nd_hmc as saga2nd_hmc
from ewsg_jax.methods._saga import saga_hmc as saga_hmc
from ewsg_jax.methods._saga import saga_ld as saga_ld
from ewsg_jax.methods._svrg import svrg2nd_hmc as svrg2nd_hmc
from ewsg_jax.methods._svrg import svrg_hmc as svrg_hmc
from ewsg_jax.methods._svrg import svrg_ld as svrg_ld
from ewsg_jax.methods._underdamped import cp_sghmc as cp_sghmc
from ewsg_jax.methods._underdamped import sghmc as sghmc
from ewsg_jax.methods._underdamped import sgnht as sgnht
from ewsg_jax.methods._underdamped import uld as uld
from ewsg_jax.methods._weighted import ewsg as ewsg
from ewsg_jax.methods._weighted import ewsg_ld as ewsg_ld
from ewsg_jax.methods._weighted import ewsg_vr as ewsg_vr
from ewsg_jax.methods._weighted import nc_sghmc as nc_sghmc

# The order of `METHODS`, and so of the documents' tables: from the plain ones to those that build
# on them.
_ORDER = [
    "ld",
    "uld",
    "sgld",
    "sghmc",
    "ewsg",
    "ewsg_ld",
    "ewsg_vr",
    "nc_sghmc",
    "sgnht",
    "psgld",
    "sgrld",
    "hamcmc",
    "cp_sghmc",
    "svrg_ld",
    "saga_ld",
    "cv_ld",
    "cv_uld",
    "svrg_hmc",
    "saga_hmc",
    "svrg2nd_hmc",
    "saga2nd_hmc",
    "random_walk_metropolis",
    "flymc",
]
for _name in _ORDER:
    METHODS[_name] = METHODS.pop(_name)
