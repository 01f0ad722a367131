"""Wrong calls of Langevin dynamics and the underdamped integrators."""

# The arguments are wrong on purpose.
# pyright: reportArgumentType=false, reportCallIssue=false, reportAttributeAccessIssue=false

from typing import Any

import jax.numpy as jnp
import numpy as np

import ewsg_jax as ewsg
from tests.wrong_calls.table import INF, NAN, POSITIVE, SCHEDULE, T, V, failing, of


def dynamics(name: str, *rows: tuple, **arguments: Any) -> None:
    """Rows `(what, error, argument, got, takes, value)`: one argument of a dynamics replaced by a value."""
    build, good = getattr(ewsg.dynamics, name), {"step_size": 0.1} | arguments
    of(
        f"dynamics.{name}",
        *((*row[:5], lambda name=row[2], value=row[5]: build(**(good | {name: value}))) for row in rows),
    )


dynamics(
    "langevin",
    ("zero", V, "step_size", "0.0 (float)", SCHEDULE, 0.0),
    ("negative", V, "step_size", "-0.1 (float)", POSITIVE, -0.1),
    ("NaN", V, "step_size", "nan (float)", POSITIVE, NAN),
    ("infinite", V, "step_size", "inf (float)", POSITIVE, INF),
    ("complex", T, "step_size", "1j (complex)", POSITIVE, 1j),
    ("text", T, "step_size", "'0.1' (str)", POSITIVE, "0.1"),
    ("bool", T, "step_size", "True (bool)", POSITIVE, True),
    ("negative array", V, "step_size", "that holds -1.0", POSITIVE, jnp.array(-1.0)),
    ("schedule of vectors", V, "step_size", "shape (2,)", "real scalar", lambda step: jnp.ones(2)),
    ("schedule that fails", V, "step_size", "RuntimeError: the disk is full", SCHEDULE, failing),
    ("schedule of nothing", V, "step_size", "takes 0 positional arguments", SCHEDULE, lambda: 0.1),
    (
        "noise",
        V,
        "noise",
        "'gausian' (str) (did you mean 'gaussian'?)",
        "one of 'gaussian', 'rademacher'",
        "gausian",
    ),
)
dynamics(
    "euler",
    ("friction 0", V, "friction", "0 (int)", POSITIVE, 0),
    ("friction a list", T, "friction", "[1.0] (list)", POSITIVE, [1.0]),
    ("temperature", V, "temperature", "-1.0 (float)", POSITIVE, -1.0),
    ("noise", V, "noise", "1 (int)", "one of 'gaussian', 'rademacher'", 1),
    ("complex schedule", V, "step_size", "dtype complex64", "real scalar", lambda step: jnp.complex64(1)),
    ("a huge whole number", V, "step_size", "too large for a float", POSITIVE, 10**400),
    friction=1.0,
)
dynamics(
    "semi_implicit",
    ("vector", V, "step_size", "shape (2,)", "of floating-point dtype", np.ones(2)),
    ("friction None", T, "friction", "None (NoneType)", SCHEDULE, None),
    ("temperature 0", V, "temperature", "0.0 (float)", POSITIVE, 0.0),
    (
        "step of whole numbers",
        V,
        "step_size",
        "dtype uint32 that holds 1",
        "of floating-point dtype",
        jnp.uint32(1),
    ),
    friction=1.0,
)
dynamics(
    "splitting",
    ("fraction", T, "step_size", "Fraction(1, 10)", POSITIVE, __import__("fractions").Fraction(1, 10)),
    ("friction NaN", V, "friction", "nan (float)", POSITIVE, NAN),
    ("schedule of None", V, "friction", "returned None", "real scalar", lambda step: None),
    ("temperature", T, "temperature", "{} (dict)", POSITIVE, {}),
    friction=1.0,
)
dynamics(
    "exact",
    ("inverse mass 0", V, "inverse_mass", "0 (int)", POSITIVE, 0),
    (
        "inverse mass a schedule",
        T,
        "inverse_mass",
        "function",
        "positive number or a scalar array",
        lambda step: 1.0,
    ),
    ("inverse mass a vector", V, "inverse_mass", "shape (2,)", "scalar array", np.ones(2)),
    ("friction", V, "friction", "-2.0 (float)", SCHEDULE, -2.0),
)
