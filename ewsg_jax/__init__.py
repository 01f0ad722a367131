"""Composable stochastic-gradient MCMC kernels for JAX.

A kernel is a dynamics that asks an estimator for a gradient: `kernel(dynamics, estimator)`. Named methods
(`sgld`, `sghmc`, `ewsg`, …) are such pairs; `sample` runs them.
"""

from ewsg_jax import bijectors as bijectors
from ewsg_jax import bounds as bounds
from ewsg_jax import datasets as datasets
from ewsg_jax import diagnostics as diagnostics
from ewsg_jax import dynamics as dynamics
from ewsg_jax import gradients as gradients
from ewsg_jax import models as models
from ewsg_jax._kernel import Info as Info
from ewsg_jax._kernel import Kernel as Kernel
from ewsg_jax._kernel import KernelState as KernelState
from ewsg_jax._kernel import Randomness as Randomness
from ewsg_jax._kernel import kernel as kernel
from ewsg_jax.methods import METHODS as METHODS
from ewsg_jax.methods import cp_sghmc as cp_sghmc
from ewsg_jax.methods import cv_ld as cv_ld
from ewsg_jax.methods import cv_uld as cv_uld
from ewsg_jax.methods import ewsg as ewsg
from ewsg_jax.methods import ewsg_ld as ewsg_ld
from ewsg_jax.methods import ewsg_vr as ewsg_vr
from ewsg_jax.methods import flymc as flymc
from ewsg_jax.methods import hamcmc as hamcmc
from ewsg_jax.methods import ld as ld
from ewsg_jax.methods import nc_sghmc as nc_sghmc
from ewsg_jax.methods import psgld as psgld
from ewsg_jax.methods import random_walk_metropolis as random_walk_metropolis
from ewsg_jax.methods import saga2nd_hmc as saga2nd_hmc
from ewsg_jax.methods import saga_hmc as saga_hmc
from ewsg_jax.methods import saga_ld as saga_ld
from ewsg_jax.methods import sghmc as sghmc
from ewsg_jax.methods import sgld as sgld
from ewsg_jax.methods import sgnht as sgnht
from ewsg_jax.methods import sgrld as sgrld
from ewsg_jax.methods import svrg2nd_hmc as svrg2nd_hmc
from ewsg_jax.methods import svrg_hmc as svrg_hmc
from ewsg_jax.methods import svrg_ld as svrg_ld
from ewsg_jax.methods import uld as uld
from ewsg_jax.posterior import Posterior as Posterior
from ewsg_jax.preparation import Mode as Mode
from ewsg_jax.preparation import cluster as cluster
from ewsg_jax.preparation import find_mode as find_mode
from ewsg_jax.sampling import Moments as Moments
from ewsg_jax.sampling import Samples as Samples
from ewsg_jax.sampling import load as load
from ewsg_jax.sampling import moments as moments
from ewsg_jax.sampling import sample as sample

__version__ = "0.1.0"
