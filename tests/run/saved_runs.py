"""Runs whose states, positions and draws are of every kind."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

import equinox as eqx
import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
from flax.core import freeze

import ewsg_jax as ewsg

KEY = jax.random.key(5)
STEPS = 9
NUMBERS = np.arange(24, dtype=np.float32).reshape(12, 2)
ROWS = np.cos(NUMBERS**2)
LABELLED = {"x": ROWS, "y": (ROWS[:, 0] > 0).astype(np.float32)}


class Parameters(NamedTuple):
    """A position that the library knows nothing of."""

    mean: jax.Array
    shift: jax.Array


GAUSSIAN = ewsg.models.gaussian_location()
LOGISTIC = ewsg.models.logistic_regression()


def mean_of(function):
    """A Gaussian location whose mean is a function of the position."""
    return ewsg.Posterior(
        lambda p, x: -0.5 * jnp.sum((x - function(p)) ** 2),
        lambda p: -0.5 * sum(jnp.sum(leaf.astype(jnp.float32) ** 2) for leaf in jax.tree.leaves(p)),
    )


def classes(data):
    """The strata."""
    return data["y"].astype(jnp.int32)


NESTED = {
    "a": np.zeros(2, np.float32),
    "b": {3: [np.ones((), np.float32), (None, np.zeros(1, np.float32))]},
}
HALF = np.zeros(2, jnp.bfloat16)
NAMED = Parameters(np.zeros(2, np.float32), np.ones((), np.float32))
BATCH = {"friction": 1.0, "batch_size": 2}


class Run(NamedTuple):
    """A run: its kernel, where it starts, on what data, and how it is kept."""

    kernel: ewsg.Kernel
    position: object = np.zeros(2, np.float32)
    data: object = ROWS
    options: Mapping = MappingProxyType({})
    needs_position: bool = False


def weighted(mean, position, needs_position=False, **options):
    """EWSG of a mean that is a function of the position, with running moments."""
    kernel = ewsg.ewsg(mean_of(mean), 1e-2, **BATCH)
    return Run(kernel, position, ROWS, {"moments": ewsg.moments()} | options, needs_position)


MLP, STATIC = eqx.partition(eqx.nn.MLP(2, 2, 3, 1, key=KEY), eqx.is_inexact_array)
DENSE = nn.Dense(2)
PARAMETERS = DENSE.init(KEY, jnp.ones(2))
ODD_NAMES = {
    "a/b": np.zeros(2, np.float32),
    "a'b": np.ones(1, np.float32),
    "ü\n\x00": np.ones((), np.float32),
    "": np.zeros((1, 1), np.float32),
    "position": np.ones(1, np.float32),
}
NAMES_THAT_MEET = {"a.b": 1, "a": {"b": 2, "b'": 3}}


def network(weights):
    """The outputs of a network of equinox."""
    return eqx.combine(weights, STATIC)(jnp.ones(2))


def dense(parameters):
    """The outputs of a layer of flax."""
    return DENSE.apply(parameters, jnp.ones(2))


def under_names_that_meet(position):
    """Arrays whose paths differ by where a dot or a quote stands."""
    return jax.tree.map(lambda x: x * jnp.ones(2), NAMES_THAT_MEET)


RUNS = {
    "bfloat16": weighted(lambda p: p.astype(jnp.float32), HALF),
    "dictionary": weighted(lambda p: p["a"] * p["b"][3][0], NESTED),
    "named_tuple": weighted(lambda p: p.mean + p.shift, NAMED, needs_position=True),
    "odd_names": weighted(lambda p: p["a/b"], ODD_NAMES),
    "names_that_meet": weighted(lambda p: p, np.zeros(2, np.float32), keep=under_names_that_meet),
    "functions": weighted(lambda p: p, np.zeros(2, np.float32), keep=lambda p: (p, jnp.sum(p))),
    "flax_frozen": weighted(dense, freeze(PARAMETERS), needs_position=True),
    "network": weighted(network, MLP, needs_position=True),
    "sgld_nothing_kept": Run(ewsg.sgld(GAUSSIAN, 1e-2, batch_size=2), options={"keep": None}),
    "sgrld": Run(
        ewsg.sgrld(
            GAUSSIAN,
            1e-2,
            inverse_metric=lambda position, data: 1 / (1 + position**2),
            batch_size=2,
        ),
        options={"moments": ewsg.moments(covariance="none", weights="step_size")},
    ),
    "svrg_ld_epochs": Run(
        ewsg.svrg_ld(GAUSSIAN, 1e-2, batch_size=2, refresh_every=3, option="I", rows="epochs"),
        options={"burn_in": 1, "thin": 2},
    ),
    "saga_ld": Run(ewsg.saga_ld(LOGISTIC, 1e-2, batch_size=2), data=LABELLED),
    "cp_sghmc": Run(
        ewsg.cp_sghmc(LOGISTIC, 1e-2, **BATCH, labels=classes, num_strata=2), data=LABELLED
    ),
    "nc_sghmc_low_rank": Run(
        ewsg.nc_sghmc(GAUSSIAN, 1e-2, **BATCH, structure="low_rank", rank=1),
        options={"moments": ewsg.moments(covariance="dense")},
    ),
    "flymc": Run(
        ewsg.flymc(LOGISTIC, 0.3, capacity=12, proposal_capacity=12, resample_probability=0.3),
        data=LABELLED,
    ),
}


def make(name, num_steps=STEPS, **options):
    """Run one of them."""
    run = RUNS[name]
    start = {"position": run.position} if "state" not in options else {"position": None}
    return ewsg.sample(
        KEY, run.kernel, data=run.data, num_steps=num_steps, **start, **run.options, **options
    )
