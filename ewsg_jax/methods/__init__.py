"""Every named system: a dynamics and an estimator, each in a file of its own with its record.

The order of these lines is that of `METHODS` and of the documentation's tables.
"""

from ewsg_jax.record import METHODS as METHODS
from ewsg_jax.record import Method as Method
from ewsg_jax.methods._ld import ld as ld
from ewsg_jax.methods._uld import uld as uld
from ewsg_jax.methods._sgld import sgld as sgld
from ewsg_jax.methods._sghmc import sghmc as sghmc
from ewsg_jax.methods._ewsg import ewsg as ewsg
from ewsg_jax.methods._ewsg_ld import ewsg_ld as ewsg_ld
from ewsg_jax.methods._ewsg_vr import ewsg_vr as ewsg_vr
from ewsg_jax.methods._nc_sghmc import nc_sghmc as nc_sghmc
from ewsg_jax.methods._sgnht import sgnht as sgnht
from ewsg_jax.methods._psgld import psgld as psgld
from ewsg_jax.methods._sgrld import sgrld as sgrld
from ewsg_jax.methods._hamcmc import hamcmc as hamcmc
from ewsg_jax.methods._cp_sghmc import cp_sghmc as cp_sghmc
from ewsg_jax.methods._svrg_ld import svrg_ld as svrg_ld
from ewsg_jax.methods._saga_ld import saga_ld as saga_ld
from ewsg_jax.methods._cv_ld import cv_ld as cv_ld
from ewsg_jax.methods._cv_uld import cv_uld as cv_uld
from ewsg_jax.methods._svrg_hmc import svrg_hmc as svrg_hmc
from ewsg_jax.methods._saga_hmc import saga_hmc as saga_hmc
from ewsg_jax.methods._svrg2nd_hmc import svrg2nd_hmc as svrg2nd_hmc
from ewsg_jax.methods._saga2nd_hmc import saga2nd_hmc as saga2nd_hmc
from ewsg_jax.exact._random_walk_metropolis import random_walk_metropolis as random_walk_metropolis
from ewsg_jax.exact._flymc import flymc as flymc
