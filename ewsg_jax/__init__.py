"""Composable stochastic-gradient MCMC kernels for JAX.

A kernel is a dynamics that asks an estimator for a gradient: `kernel(dynamics, estimator)`. Named
methods (`sgld`, `sghmc`, `ewsg`, …: all of `METHODS`) are such pairs; `sample` runs them.

Posterior, models, bounds, bijectors: what is sampled.
METHODS, nuts, kernel, dynamics, gradients, rows: named methods, and parts to make kernels of.
stack, stack_data: many kernels, or many data sets, in one run.
stream, Stream: data that are larger than memory.
sample, moments, resume, load: run, continue one, and read runs from files.
plan: which kernel, from where and how long, and whether a chain is needed.
check: how wrong draws are, and what is right.
halve: how wrong a step size is, from runs at h and h/2 with one noise, and what is right.
learning_coefficient: the local learning coefficient of trained weights, with its errors.
diagnostics: what a run is worth.
find_mode, forecast, cluster, from_sgd: before a run.
datasets: real data.
networks: Bayesian neural networks.
from_numpyro, from_pymc, bridges: models that other packages describe.
numpyro_kernel: a kernel that NumPyro runs.
module, static, hyperparameters, Schedule, method, Need: for parts of your own.
Kernel, KernelState, Info, Randomness: what a kernel is and returns.
Samples, StackedSamples, Stack, StackedData, Moments, Mode, Forecast, Plan, Report, Halved,
    LearningCoefficient, SGDMatch, Method: what functions return, and the record of a method.
"""

from types import ModuleType as _ModuleType

from ewsg_jax.base import startup as startup

# isort: split
from ewsg_jax import bijectors as bijectors
from ewsg_jax import bounds as bounds
from ewsg_jax import bridges as bridges
from ewsg_jax import datasets as datasets
from ewsg_jax import diagnostics as diagnostics
from ewsg_jax import dynamics as dynamics
from ewsg_jax import gradients as gradients
from ewsg_jax import models as models
from ewsg_jax import networks as networks
from ewsg_jax import rows as rows
from ewsg_jax.answers.check.check import check as check
from ewsg_jax.answers.check.report import Report as Report
from ewsg_jax.answers.forecast.forecast import forecast as forecast
from ewsg_jax.answers.forecast.result import Forecast as Forecast
from ewsg_jax.answers.halve.halve import halve as halve
from ewsg_jax.answers.halve.result import Halved as Halved
from ewsg_jax.answers.learning_coefficient.learning_coefficient import (
    learning_coefficient as learning_coefficient,
)
from ewsg_jax.answers.learning_coefficient.result import LearningCoefficient as LearningCoefficient
from ewsg_jax.answers.mode.cluster import cluster as cluster
from ewsg_jax.answers.mode.find_mode import find_mode as find_mode
from ewsg_jax.answers.mode.from_sgd import SGDMatch as SGDMatch
from ewsg_jax.answers.mode.from_sgd import from_sgd as from_sgd
from ewsg_jax.answers.mode.mode import Mode as Mode
from ewsg_jax.answers.plan.plan import plan as plan
from ewsg_jax.answers.plan.result import Plan as Plan
from ewsg_jax.base.modules import module as module
from ewsg_jax.base.modules import static as static
from ewsg_jax.base.needs import Need as Need
from ewsg_jax.bridges._numpyro import from_numpyro as from_numpyro
from ewsg_jax.bridges._numpyro import numpyro_kernel as numpyro_kernel
from ewsg_jax.bridges._pymc import from_pymc as from_pymc
from ewsg_jax.dynamics._protocol import Schedule as Schedule
from ewsg_jax.dynamics._protocol import hyperparameters as hyperparameters
from ewsg_jax.kernels.pair import kernel as kernel
from ewsg_jax.kernels.protocol import Info as Info
from ewsg_jax.kernels.protocol import Kernel as Kernel
from ewsg_jax.kernels.protocol import KernelState as KernelState
from ewsg_jax.kernels.protocol import Randomness as Randomness
from ewsg_jax.kernels.record import method as method
from ewsg_jax.methods import *  # noqa: F403 - every method, so that a new one needs no line here
from ewsg_jax.metropolis.nuts import nuts as nuts
from ewsg_jax.posterior.posterior import Posterior as Posterior
from ewsg_jax.run.loading import load as load
from ewsg_jax.run.moments import Moments as Moments
from ewsg_jax.run.moments import moments as moments
from ewsg_jax.run.sample import resume as resume
from ewsg_jax.run.sample import sample as sample
from ewsg_jax.run.samples import Samples as Samples
from ewsg_jax.run.stacked import StackedSamples as StackedSamples
from ewsg_jax.run.stacks.data import StackedData as StackedData
from ewsg_jax.run.stacks.data import stack_data as stack_data
from ewsg_jax.run.stacks.kernels import Stack as Stack
from ewsg_jax.run.stacks.stack import stack as stack
from ewsg_jax.run.streams.stream import Stream as Stream
from ewsg_jax.run.streams.stream import stream as stream

__version__ = "0.2.0"

_ROOMS = (
    "bijectors",
    "bounds",
    "bridges",
    "datasets",
    "diagnostics",
    "dynamics",
    "gradients",
    "models",
    "networks",
    "rows",
)


def __dir__() -> list[str]:
    """List what is public: these rooms, and what is taken out of the others above."""
    names = [
        name
        for name, value in globals().items()
        if not isinstance(value, _ModuleType) or name in _ROOMS
    ]
    return sorted(name for name in names if not name.startswith("_") or name == "__version__")
