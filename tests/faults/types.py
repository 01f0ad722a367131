"""Planted faults of what a type checker sees; nothing of them shows when the code is run."""

from tests.faults.mutant import Mutant

PYRIGHT = "tests/test_types.py::test_pyright_agrees"

MUTANTS = [
    Mutant(
        "a mode forgets what a position is",
        "ewsg_jax/preparation/_find_mode.py",
        ") -> Mode[P]:",
        ") -> Mode:",
        PYRIGHT,
        sweep=True,
    ),
    Mutant(
        "a method forgets what a position is",
        "ewsg_jax/methods/_sgld.py",
        ") -> Kernel[P]:",
        ") -> Kernel:",
        PYRIGHT,
        sweep=True,
    ),
    Mutant(
        "a chain may start at any position",
        "ewsg_jax/_kernel.py",
        "def init(self, key: Key, position: P, data: Data)",
        "def init(self, key: Key, position: Position, data: Data)",
        PYRIGHT,
        sweep=True,
    ),
    Mutant(
        "a run may go on from any state",
        "ewsg_jax/sampling/_sample.py",
        "state: KernelState[P] | None = None",
        "state: KernelState | None = None",
        PYRIGHT,
        sweep=True,
    ),
    Mutant(
        "lambdas of a position are refused",
        "ewsg_jax/_types.py",
        "bound=Any, default=Any",
        "default=Any",
        PYRIGHT,
        sweep=True,
    ),
]
