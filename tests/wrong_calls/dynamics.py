"""Wrong calls of Langevin dynamics and the underdamped integrators."""

# The arguments are wrong on purpose.
# pyright: reportArgumentType=false, reportCallIssue=false, reportAttributeAccessIssue=false

import functools
from typing import Any

import jax.numpy as jnp
import numpy as np

import ewsg_jax as ewsg
from tests.wrong_calls.standard import Kind, refuses
from tests.wrong_calls.table import (
    DATA,
    KEY,
    MODEL,
    NAN,
    POINT,
    POSITIVE,
    SCHEDULE,
    WRONG,
    V,
)


def dynamics(name: str, values: dict[str, Any], **arguments: Any) -> None:
    """Add calls with a value in the place of one argument of a dynamics."""
    build = functools.partial(getattr(ewsg.dynamics, name), **({"step_size": 0.1} | arguments))
    WRONG[f"dynamics.{name}"] |= {
        said: functools.partial(build, **{said.split()[1]: value}) for said, value in values.items()
    }


dynamics(
    "langevin",
    {
        f"V step_size | that holds -1.0 | {POSITIVE}": jnp.array(-1.0),
        f"V step_size | takes 0 positional arguments | {SCHEDULE}": lambda: 0.1,
    },
)
dynamics(
    "euler",
    {
        "V step_size | dtype complex64 | real scalar": lambda step: jnp.complex64(1),
        f"V step_size | too large for a float | {POSITIVE}": 10**400,
    },
    friction=1.0,
)
dynamics(
    "semi_implicit",
    {
        "V step_size | dtype uint32 that holds 1 | of floating-point dtype": jnp.uint32(1),
    },
    friction=1.0,
)
dynamics(
    "splitting",
    {
        f"T step_size | Fraction(1, 10) | {POSITIVE}": __import__("fractions").Fraction(1, 10),
        "V friction | returned None | real scalar": lambda step: None,
        f"T temperature | {{}} (dict) | {POSITIVE}": {},
    },
    friction=1.0,
)
LETTERS, IN_ONE = "a palindrome of A, B and O, or of B and U", "takes one gradient a step"
dynamics(
    "splitting_scheme",
    {
        f"T letters | 5 (int) | {LETTERS}": 5,
        f"T letters | ['A', 'B', 'O', 'B', 'A'] (list) | {LETTERS}": list("ABOBA"),
        "V letters | '' (str) | 'ABOBA' or 'BAOAB'": "",
        f"V letters | 'ABO' (str) | {LETTERS}": "ABO",
        f"V letters | 'aboba' (str) | {LETTERS}": "aboba",
        f"V letters | 'BAB' (str) | {LETTERS}": "BAB",
        f"V letters | 'BAUOUAB' (str) | {LETTERS}": "BAUOUAB",
        f"V letters | 'ABOBABOBA' (str), whose kicks are at 2 positions | {IN_ONE}": "ABOBABOBA",
        f"V letters | 'ABABOBABA' (str), whose kicks are at 3 positions | {IN_ONE}": "ABABOBABA",
        f"V letters | 'UBU' (str), whose cycle from the gradient on is 'BUUB' | {IN_ONE}": "UBU",
        "V letters | cycle from the gradient on is 'BAOAAOAB' | before noise moves": "AOABAOA",
    },
    letters="ABOBA",
    friction=1.0,
)
MASS = (
    "a positive number, a pytree of positive numbers like the position, a positive definite "
    "matrix (d, d)"
)
SQUARE = np.array([[1.0, 0.9], [0.1, 1.0]])
LOW_RANK = ewsg.dynamics.LowRank
BASIS = np.eye(2)[:, :1]

dynamics(
    "semi_implicit",
    {
        f"T inverse_mass | None | {MASS}": None,
        f"V inverse_mass | -1 in it | {MASS}": np.array([1.0, -1.0]),
        "V inverse_mass | -1 in it | or a LowRank": LOW_RANK(np.ones(2), BASIS, -np.ones(1)),
        "T inverse_mass | diagonal=[1.0, 1.0] | whose parts are arrays": LOW_RANK(
            [1.0, 1.0], [[1.0], [0.0]], [2.0]
        ),
        f"V inverse_mass | not finite | {MASS}": np.array([1.0, NAN]),
        f"V inverse_mass | complex64 | {MASS}": np.ones(2) * 1j,
        f"T inverse_mass | (dict) | {MASS}": {"a": "one"},
        f"V inverse_mass | not symmetric | {MASS}": SQUARE,
        f"V inverse_mass | the eigenvalue -1 | {MASS}": np.diag([1.0, -1.0]),
        f"V inverse_mass | the eigenvalue 0 | {MASS}": np.zeros((2, 2)),
        f"V inverse_mass | a matrix of shape (0, 0) | {MASS}": np.zeros((0, 0)),
        "V inverse_mass | (2,), (2, 1) and (2,) | (d,), (d, r) and (r,)": LOW_RANK(
            np.ones(2), BASIS, np.ones(2)
        ),
        "V inverse_mass | with others | orthonormal columns": LOW_RANK(
            np.ones(2), 2 * BASIS, np.ones(1)
        ),
    },
    friction=1.0,
)


@ewsg.module
class Falling(ewsg.Schedule):
    """A schedule of one's own."""

    function: Any = ewsg.static(default=None)
    first: Any

    def __call__(self, step: Any) -> Any:
        return self.first / (1.0 + step)


dynamics(
    "langevin",
    {
        f"V step_size | an array of shape (2,) and dtype float32 | {SCHEDULE}": Falling(
            first=jnp.ones(2)
        ),
        f"V temperature | TypeError: unsupported operand | {SCHEDULE}": Falling(first=None),
    },
)
dynamics(
    "noise_corrected",
    {"V covariance | shape (0, 0) | a symmetric matrix (d, d)": np.zeros((0, 0))},
    friction=1.0,
)
WRONG["dynamics.in_metric"] |= {
    f"T inverse_mass | 'dense' (str) | {POSITIVE}": lambda: ewsg.dynamics.in_metric(
        ewsg.dynamics.langevin(0.1), "dense"
    ),
    f"V inverse_mass | the eigenvalue 0 | {MASS}": lambda: ewsg.dynamics.in_metric(
        ewsg.dynamics.langevin(0.1), np.zeros((2, 2))
    ),
}
WRONG["dynamics: an inverse mass that does not fit"] |= {
    **{
        f"V inverse_mass | {got} | {MASS}": lambda given=given: ewsg.ld(
            MODEL, 0.1, inverse_mass=given
        ).init(KEY, POINT, DATA)
        for given, got in (
            (np.eye(3), "one over 3 numbers for a position of 2"),
            (np.ones(3), "shape (3,)"),
            ({"a": np.ones(2)}, "got one without inverse_mass"),
            (LOW_RANK(np.ones(3), np.eye(3)[:, :1], np.ones(1)), "one over 3 numbers"),
        )
    },
    "V inverse_mass | got 2.0 (float) | 1 for preconditioned": lambda: ewsg.dynamics.in_metric(
        ewsg.dynamics.preconditioned(0.1), 2.0
    ),
    "V inverse_mass | 2.0 (float) | 1 with balance='noise'": lambda: ewsg.nc_sghmc(
        MODEL, 0.1, friction=1.0, batch_size=1, balance="noise", inverse_mass=2.0
    ),
}
PLAIN = "langevin or an underdamped scheme without an inverse mass of its own"
WRONG["dynamics.adaptive_mass"] |= {
    f"V dynamics | got {said} | {PLAIN}": lambda inner=inner: ewsg.dynamics.adaptive_mass(
        inner, burn_in=10
    )
    for said, inner in (
        ("preconditioned(", ewsg.dynamics.preconditioned(0.1)),
        ("thermostat(", ewsg.dynamics.thermostat(0.1, friction=1.0)),
        ("noise_reduced(", ewsg.dynamics.noise_reduced(0.1, friction=1.0)),
        (
            "langevin(step_size=0.1, temperature=1.0, inverse_mass=2.0)",
            ewsg.dynamics.langevin(0.1, inverse_mass=2.0),
        ),
    )
} | {
    "T dynamics | 0.1 (float) | one of ewsg_jax.dynamics": lambda: ewsg.dynamics.adaptive_mass(
        0.1, burn_in=10
    ),
}
CYCLES = {
    "T period | 10.0 (float) | a whole number, at least 2": {"period": 10.0},
    "V period | got 1 | a whole number, at least 2": {"period": 1},
    "V exploration | got 1.0 | above 0 and below 1": {"exploration": 1.0},
    "V exploration | got 0.95 | must leave a step of 10 to sample": {"exploration": 0.95},
    "T snapshots | 1.5 (float) | from 1 to 2": {"snapshots": 1.5},
    "V snapshots | got 3 | from 1 to 2": {"snapshots": 3},
}
WRONG["dynamics.cyclical"] |= {
    said: lambda wrong=wrong: ewsg.dynamics.cyclical(**({"step_size": 0.1, "period": 10} | wrong))
    for said, wrong in CYCLES.items()
}
WRONG["dynamics.microcanonical"] |= {
    "V position | got 1 | at least 2 numbers for microcanonical": lambda: ewsg.kernel(
        ewsg.dynamics.microcanonical(0.1, inverse_mass=2.0), ewsg.gradients.full(MODEL)
    ).init(KEY, jnp.zeros(1), DATA),
}
dynamics(
    "exact",
    {
        "T inverse_mass | function | a pytree of positive numbers": lambda step: 1.0,
        "V inverse_mass | -1 in it | positive numbers like the position": -np.ones(2),
    },
)
for integrator in ("splitting", "exact", "BAOAB"):
    for name, batches in (("uld", {}), ("sghmc", {"batch_size": 1}), ("ewsg", {"batch_size": 1})):
        method = functools.partial(getattr(ewsg, name), MODEL, 0.1, friction=1.0, **batches)
        refuses(
            f"{name}: {integrator}",
            functools.partial(method, integrator=integrator),
            noise=Kind(
                f"must be 'gaussian' for integrator={integrator!r}",
                ((V, "rademacher", "got 'rademacher'"),),
            ),
        )
