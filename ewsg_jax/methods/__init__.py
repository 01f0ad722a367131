"""Every named system: a dynamics and an estimator, and one table of them all."""

from ewsg_jax.methods._adaptive import psgld as psgld
from ewsg_jax.methods._adaptive import sgnht as sgnht
from ewsg_jax.methods._adaptive import sgrld as sgrld
from ewsg_jax.methods._flymc import flymc as flymc
from ewsg_jax.methods._metropolis import random_walk_metropolis as random_walk_metropolis
from ewsg_jax.methods._noise_corrected import ewsg_vr as ewsg_vr
from ewsg_jax.methods._noise_corrected import nc_sghmc as nc_sghmc
from ewsg_jax.methods._plain import ld as ld
from ewsg_jax.methods._plain import sghmc as sghmc
from ewsg_jax.methods._plain import sgld as sgld
from ewsg_jax.methods._plain import uld as uld
from ewsg_jax.methods._quasi_newton import hamcmc as hamcmc
from ewsg_jax.methods._stratified import cp_sghmc as cp_sghmc
from ewsg_jax.methods._table import METHODS as METHODS
from ewsg_jax.methods._table import Method as Method
from ewsg_jax.methods._variance_reduced import cv_ld as cv_ld
from ewsg_jax.methods._variance_reduced import cv_uld as cv_uld
from ewsg_jax.methods._variance_reduced import saga2nd_hmc as saga2nd_hmc
from ewsg_jax.methods._variance_reduced import saga_hmc as saga_hmc
from ewsg_jax.methods._variance_reduced import saga_ld as saga_ld
from ewsg_jax.methods._variance_reduced import svrg2nd_hmc as svrg2nd_hmc
from ewsg_jax.methods._variance_reduced import svrg_hmc as svrg_hmc
from ewsg_jax.methods._variance_reduced import svrg_ld as svrg_ld
from ewsg_jax.methods._weighted import ewsg as ewsg
from ewsg_jax.methods._weighted import ewsg_ld as ewsg_ld
