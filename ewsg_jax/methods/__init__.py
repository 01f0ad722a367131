"""Every named method: a dynamics and an estimator, with its record, a family a file.

All are called as `method(posterior, step_size, **options)` and return the kernel: give it to
`ewsg_jax.sample`, or call its `init` and `step`.
"""

from ewsg_jax.kernels.record import METHODS as METHODS
from ewsg_jax.kernels.record import Method as Method
from ewsg_jax.methods.adaptive import hamcmc as hamcmc
from ewsg_jax.methods.adaptive import psgld as psgld
from ewsg_jax.methods.adaptive import sgrld as sgrld
from ewsg_jax.methods.control_variate import cv_ld as cv_ld
from ewsg_jax.methods.control_variate import cv_uld as cv_uld
from ewsg_jax.methods.langevin import ld as ld
from ewsg_jax.methods.langevin import sgld as sgld
from ewsg_jax.methods.saga import saga2nd_hmc as saga2nd_hmc
from ewsg_jax.methods.saga import saga_hmc as saga_hmc
from ewsg_jax.methods.saga import saga_ld as saga_ld
from ewsg_jax.methods.svrg import svrg2nd_hmc as svrg2nd_hmc
from ewsg_jax.methods.svrg import svrg_hmc as svrg_hmc
from ewsg_jax.methods.svrg import svrg_ld as svrg_ld
from ewsg_jax.methods.underdamped import cp_sghmc as cp_sghmc
from ewsg_jax.methods.underdamped import sghmc as sghmc
from ewsg_jax.methods.underdamped import sgnht as sgnht
from ewsg_jax.methods.underdamped import uld as uld
from ewsg_jax.methods.weighted import ewsg as ewsg
from ewsg_jax.methods.weighted import ewsg_ld as ewsg_ld
from ewsg_jax.methods.weighted import ewsg_vr as ewsg_vr
from ewsg_jax.methods.weighted import nc_sghmc as nc_sghmc
from ewsg_jax.metropolis.flymc import flymc as flymc
from ewsg_jax.metropolis.random_walk_metropolis import (
    random_walk_metropolis as random_walk_metropolis,
)

# Behind the first two, the order of `METHODS` and so of the tables in the documents: from the plain
# ones to those that build on them.
__all__ = [  # noqa: RUF022 - the order of the tables
    "METHODS",
    "Method",
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
for _name in __all__[2:]:
    METHODS[_name] = METHODS.pop(_name)
