"""Composable stochastic-gradient MCMC kernels for JAX.

A kernel is a dynamics that asks an estimator for a gradient: `kernel(dynamics, estimator)`. Named methods
(`sgld`, `sghmc`, `ewsg`, …) are such pairs; `sample` runs them.
"""

from ewsg_jax import bijectors as bijectors
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
from ewsg_jax.methods import ewsg as ewsg
from ewsg_jax.methods import ewsg_ld as ewsg_ld
from ewsg_jax.methods import ld as ld
from ewsg_jax.methods import sghmc as sghmc
from ewsg_jax.methods import sgld as sgld
from ewsg_jax.methods import uld as uld
from ewsg_jax.posterior import Posterior as Posterior
from ewsg_jax.sampling import Moments as Moments
from ewsg_jax.sampling import Samples as Samples
from ewsg_jax.sampling import load as load
from ewsg_jax.sampling import moments as moments
from ewsg_jax.sampling import sample as sample

__version__ = "0.1.0"
