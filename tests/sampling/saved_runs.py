"""Runs whose states are of every kind, and what samples hold, in bytes."""

import dataclasses
from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

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


RUNS = {
    "sgld_bfloat16": Run(
        ewsg.sgld(mean_of(lambda p: p.astype(jnp.float32)), 1e-2, batch_size=2), HALF
    ),
    "sgld_nothing_kept": Run(ewsg.sgld(GAUSSIAN, 1e-2, batch_size=2), options={"keep": None}),
    "sghmc_named_tuple": Run(ewsg.sghmc(mean_of(lambda p: p.mean + p.shift), 1e-2, **BATCH), NAMED),
    "ewsg_dictionary": Run(
        ewsg.ewsg(mean_of(lambda p: p["a"] * p["b"][3][0]), 1e-2, **BATCH), NESTED
    ),
    "sgnht": Run(ewsg.sgnht(GAUSSIAN, 1e-2, **BATCH)),
    "psgld_corrected": Run(ewsg.psgld(GAUSSIAN, 1e-2, batch_size=2, damping=0.1, correction=True)),
    "sgrld": Run(
        ewsg.sgrld(
            GAUSSIAN,
            1e-2,
            inverse_metric=lambda position, data: 1 / (1 + position**2),
            batch_size=2,
        ),
        options={"moments": ewsg.moments(covariance="none", weights="step_size")},
    ),
    "hamcmc": Run(ewsg.hamcmc(GAUSSIAN, 1e-2, batch_size=2, memory_size=3)),
    "svrg_ld_epochs": Run(
        ewsg.svrg_ld(GAUSSIAN, 1e-2, batch_size=2, refresh_every=3, option="I", rows="epochs"),
        options={"burn_in": 1, "thin": 2},
    ),
    "saga_ld": Run(ewsg.saga_ld(LOGISTIC, 1e-2, batch_size=2), data=LABELLED),
    "cv_uld": Run(ewsg.cv_uld(GAUSSIAN, 1e-2, **BATCH), options={"moments": ewsg.moments()}),
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
    "random_walk_metropolis": Run(ewsg.random_walk_metropolis(GAUSSIAN, 0.5)),
}


def make(name, num_steps=STEPS, **options):
    """Run one of them."""
    run = RUNS[name]
    start = {"position": run.position} if "state" not in options else {"position": None}
    return ewsg.sample(
        KEY,
        run.kernel,
        data=run.data,
        num_steps=num_steps,
        progress=False,
        **start,
        **run.options,
        **options,
    )


def contents(value, path=""):
    """Return `[path, kind, …]` of every value in a tree: dtype, shape and bytes of arrays, others
    as they are.
    """
    names = getattr(value, "_fields", None)
    if dataclasses.is_dataclass(value):
        names = [field.name for field in dataclasses.fields(value)]
    if names is not None:
        parts = {f".{name}": getattr(value, name) for name in names}
        return [[path, "fields", *names], *_each(parts, path)]
    if isinstance(value, dict):
        return [
            [path, "dict", *value],
            *_each({f"[{key!r}]": item for key, item in value.items()}, path),
        ]
    if isinstance(value, list | tuple):
        kind = type(value).__name__
        return [
            [path, kind, len(value)],
            *_each({f"[{k}]": item for k, item in enumerate(value)}, path),
        ]
    if isinstance(value, np.ndarray | jax.Array):
        array = np.asarray(value)
        whose = "jax" if isinstance(value, jax.Array) else "numpy"
        return [[path, whose, str(array.dtype), list(array.shape), array.tobytes().hex()]]
    return [[path, type(value).__name__, value]]


def _each(parts, path):
    return [line for name, part in parts.items() for line in contents(part, path + name)]
