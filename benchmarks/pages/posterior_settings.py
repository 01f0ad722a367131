"""How every method is run on a real posterior."""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

import ewsg_jax as ewsg
from benchmarks.pages.posterior_problems import Problem

NUM_STRATA = 4
FRICTION = 2.0
METHODS: dict[str, Callable[..., ewsg.Kernel]] = {
    **{name: method.build for name, method in ewsg.METHODS.items()},
    "psgld_corrected": functools.partial(ewsg.psgld, correction=True),
}
"""What is measured: every named method, and one that names its published form's mend."""


class Setting(NamedTuple):
    """How a method is run on a problem.

    Attributes:
        step_size: h.
        memory: steps over which a chain forgets: the sum of its autocorrelations, as of a normal
            posterior.
        options: further arguments, `batch_size` among them.
    """

    step_size: float
    memory: float
    options: dict[str, Any]


def settings(made: Problem) -> dict[str, Setting]:
    """Return a row for each of `METHODS`; a method that cannot run on the problem has the value
    None there.

    The parameters have unit scale, so Langevin dynamics forgets in 1/h steps; underdamped dynamics
    of friction 2 in 2/h; random-walk Metropolis at its best step in 1.4 d (its acceptance then
    being a quarter).
    """
    d, n = made.center.shape[0], made.num_rows
    batch: dict[str, Any] = {"batch_size": made.batch_size}
    friction: dict[str, Any] = {"friction": FRICTION}
    matrix: dict[str, Any] = {"structure": "diagonal"}
    center: dict[str, Any] = {"center": made.center}
    walk = 2.4 / np.sqrt(d)
    slope = float(np.sqrt(n / made.batch_size) / n)

    def langevin(h: float, options: dict[str, Any]) -> Setting:
        return Setting(h, 1 / h, options)

    def underdamped(h: float, options: dict[str, Any]) -> Setting:
        return Setting(h, 2 / h, options | friction)

    rows: dict[str, Setting | None] = {
        "ld": langevin(0.05, {}),
        "uld": underdamped(0.1, {}),
        "sgld": langevin(0.015, batch),
        "sghmc": underdamped(0.03, batch),
        "ewsg": underdamped(0.03, batch),
        "ewsg_ld": langevin(0.015, batch),
        "ewsg_vr": underdamped(0.025, batch | matrix),
        "nc_sghmc": underdamped(0.05, batch | matrix),
        "cp_sghmc": underdamped(0.03, batch | {"labels": "stratum", "num_strata": NUM_STRATA}),
        "svrg_ld": langevin(0.05, batch),
        "saga_ld": langevin(0.05, batch),
        "cv_ld": langevin(0.025, batch | center),
        "cv_uld": underdamped(0.05, batch | center),
        "svrg_hmc": underdamped(0.1, batch),
        "saga_hmc": underdamped(0.1, batch),
        "svrg2nd_hmc": underdamped(0.15, batch),
        "saga2nd_hmc": underdamped(0.15, batch),
        "sgnht": underdamped(0.03, batch),
        # G is about the inverse of a mean gradient's size; half of that where the damping is of
        # that size.
        "psgld": Setting(0.015 * slope, 1 / 0.015, batch),
        "psgld_corrected": Setting(0.03 * slope, 1 / 0.015, batch | {"damping": slope}),
        # A metric between 1/2 and 3/2, so that Γ counts.
        "sgrld": Setting(
            0.012,
            1.2 / 0.012,
            batch | {"inverse_metric": lambda u, data: 1 + 0.5 * jnp.sin(u - made.center)},
        ),
        # Three chains in one, of which each moves at every third step; H is about 1/(1 + trust
        # region).
        "hamcmc": Setting(
            0.03, 2 / 0.015, batch | {"memory_size": 3, "trust_region": 1.0, "initial_scale": 0.5}
        ),
        "random_walk_metropolis": Setting(walk, 1.4 * d, {}),
        "flymc": None
        if made.bound is None
        else Setting(
            walk,
            4.0 * d,
            center | {"bound": made.bound, "capacity": n // 2, "resample_probability": 0.2},
        ),
    }
    return rows  # pyright: ignore[reportReturnType]
