"""Wrong calls of Langevin dynamics and the underdamped integrators."""

# The arguments are wrong on purpose.
# pyright: reportArgumentType=false, reportCallIssue=false, reportAttributeAccessIssue=false

from typing import Any

import jax.numpy as jnp
import numpy as np

import ewsg_jax as ewsg
from tests.wrong_calls.table import (
    DATA,
    INF,
    KEY,
    MODEL,
    NAN,
    POINT,
    POSITIVE,
    SCHEDULE,
    T,
    V,
    failing,
    of,
)


def dynamics(name: str, *rows: tuple, **arguments: Any) -> None:
    """Rows `(what, error, argument, got, takes, value)`: one argument of a dynamics replaced by a
    value.
    """
    build, good = getattr(ewsg.dynamics, name), {"step_size": 0.1} | arguments
    of(
        f"dynamics.{name}",
        *(
            (*row[:5], lambda name=row[2], value=row[5]: build(**(good | {name: value})))
            for row in rows
        ),
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
    (
        "complex schedule",
        V,
        "step_size",
        "dtype complex64",
        "real scalar",
        lambda step: jnp.complex64(1),
    ),
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
    (
        "fraction",
        T,
        "step_size",
        "Fraction(1, 10)",
        POSITIVE,
        __import__("fractions").Fraction(1, 10),
    ),
    ("friction NaN", V, "friction", "nan (float)", POSITIVE, NAN),
    ("schedule of None", V, "friction", "returned None", "real scalar", lambda step: None),
    ("temperature", T, "temperature", "{} (dict)", POSITIVE, {}),
    friction=1.0,
)
LETTERS, IN_ONE = "a palindrome of A, B and O, or of B and U", "takes one gradient a step"
dynamics(
    "palindrome",
    ("no text", T, "letters", "5 (int)", LETTERS, 5),
    ("a list", T, "letters", "['A', 'B', 'O', 'B', 'A'] (list)", LETTERS, list("ABOBA")),
    ("nothing", V, "letters", "'' (str)", "'ABOBA' or 'BAOAB'", ""),
    ("no palindrome", V, "letters", "'ABO' (str)", LETTERS, "ABO"),
    ("small letters", V, "letters", "'aboba' (str)", LETTERS, "aboba"),
    ("no noise", V, "letters", "'BAB' (str)", LETTERS, "BAB"),
    ("friction twice", V, "letters", "'BAUOUAB' (str)", LETTERS, "BAUOUAB"),
    (
        "two gradients",
        V,
        "letters",
        "'ABOBABOBA' (str), whose kicks are at 2 positions",
        IN_ONE,
        "ABOBABOBA",
    ),
    (
        "three gradients",
        V,
        "letters",
        "'ABABOBABA' (str), whose kicks are at 3 positions",
        IN_ONE,
        "ABABOBABA",
    ),
    (
        "noise first",
        V,
        "letters",
        "'UBU' (str), whose cycle from the gradient on is 'BUUB'",
        IN_ONE,
        "UBU",
    ),
    (
        "noise between",
        V,
        "letters",
        "cycle from the gradient on is 'BAOAAOAB'",
        "before noise moves",
        "AOABAOA",
    ),
    ("friction 0", V, "friction", "0 (int)", POSITIVE, 0),
    ("schedule that fails", V, "temperature", "RuntimeError: the disk is full", SCHEDULE, failing),
    letters="ABOBA",
    friction=1.0,
)
MASS = (
    "a positive number, a tree of positive numbers like the position, a positive definite "
    "matrix (d, d)"
)
SQUARE = np.array([[1.0, 0.9], [0.1, 1.0]])
LOW_RANK = ewsg.dynamics.LowRank
BASIS = np.eye(2)[:, :1]

dynamics(
    "semi_implicit",
    ("mass 0", V, "inverse_mass", "0 (int)", POSITIVE, 0),
    ("mass a word", T, "inverse_mass", "'dense' (str)", POSITIVE, "dense"),
    ("mass None", T, "inverse_mass", "None", MASS, None),
    ("mass negative", V, "inverse_mass", "-1 in it", MASS, np.array([1.0, -1.0])),
    ("mass NaN", V, "inverse_mass", "not finite", MASS, np.array([1.0, NAN])),
    ("mass complex", V, "inverse_mass", "complex64", MASS, np.ones(2) * 1j),
    ("mass of words", T, "inverse_mass", "(dict)", MASS, {"a": "one"}),
    ("mass not symmetric", V, "inverse_mass", "not symmetric", MASS, SQUARE),
    ("mass indefinite", V, "inverse_mass", "the eigenvalue -1", MASS, np.diag([1.0, -1.0])),
    ("mass singular", V, "inverse_mass", "the eigenvalue 0", MASS, np.zeros((2, 2))),
    (
        "low rank of other shapes",
        V,
        "inverse_mass",
        "(2,), (2, 1) and (2,)",
        "(d,), (d, r) and (r,)",
        LOW_RANK(np.ones(2), BASIS, np.ones(2)),
    ),
    (
        "low rank of a skew basis",
        V,
        "inverse_mass",
        "with others",
        "orthonormal columns",
        LOW_RANK(np.ones(2), 2 * BASIS, np.ones(1)),
    ),
    (
        "low rank negative",
        V,
        "inverse_mass",
        "-1 in it",
        MASS,
        LOW_RANK(np.ones(2), BASIS, -np.ones(1)),
    ),
    friction=1.0,
)
of(
    "dynamics.in_metric",
    (
        "a word",
        T,
        "inverse_mass",
        "'dense' (str)",
        POSITIVE,
        lambda: ewsg.dynamics.in_metric(ewsg.dynamics.langevin(0.1), "dense"),
    ),
    (
        "zero",
        V,
        "inverse_mass",
        "the eigenvalue 0",
        MASS,
        lambda: ewsg.dynamics.in_metric(ewsg.dynamics.langevin(0.1), np.zeros((2, 2))),
    ),
)
of(
    "dynamics: an inverse mass that does not fit",
    *(
        (
            what,
            V,
            "inverse_mass",
            got,
            takes,
            lambda given=given: ewsg.ld(MODEL, 0.1, inverse_mass=given).init(KEY, POINT, DATA),
        )
        for what, given, got, takes in (
            ("a matrix", np.eye(3), "one over 3 numbers for a position of 2", MASS),
            ("a diagonal", np.ones(3), "shape (3,)", MASS),
            ("a tree", {"a": np.ones(2)}, "got one without inverse_mass", MASS),
            (
                "a low rank",
                LOW_RANK(np.ones(3), np.eye(3)[:, :1], np.ones(1)),
                "one over 3 numbers",
                MASS,
            ),
        )
    ),
    (
        "a dynamics that has none",
        V,
        "inverse_mass",
        "got 2.0 (float)",
        "1 for preconditioned",
        lambda: ewsg.dynamics.in_metric(ewsg.dynamics.preconditioned(0.1), 2.0),
    ),
    (
        "noise_reduced",
        V,
        "inverse_mass",
        "2.0 (float)",
        "1 with balance='noise'",
        lambda: ewsg.nc_sghmc(
            MODEL, 0.1, friction=1.0, batch_size=1, balance="noise", inverse_mass=2.0
        ),
    ),
)
dynamics(
    "exact",
    ("inverse mass 0", V, "inverse_mass", "0 (int)", POSITIVE, 0),
    (
        "inverse mass a schedule",
        T,
        "inverse_mass",
        "function",
        "a positive number, a tree of positive numbers",
        lambda step: 1.0,
    ),
    (
        "inverse mass a vector",
        V,
        "inverse_mass",
        "-1 in it",
        "positive numbers like the position",
        -np.ones(2),
    ),
    ("friction", V, "friction", "-2.0 (float)", SCHEDULE, -2.0),
)
