"""Packages that only some functions need."""

import importlib
from typing import Any

EXTRAS = {
    "arviz": ("ArviZ", "diagnostics"),
    "pandas": ("pandas", "diagnostics"),
    "matplotlib": ("matplotlib", "plots"),
    "sklearn": ("scikit-learn", "data"),
    "pyarrow": ("pyarrow", "parquet"),
    "flax": ("flax", "networks"),
    "blackjax": ("BlackJAX", "nuts"),
}
"""What each is called, and the extra that brings it. (tqdm, of the extra progress, is used where it
is there.)
"""


def module(name: str, needed_by: str, extra: str | None = None) -> Any:
    """Return a module, by its dotted name, of a package that may not be installed.

    Where it is not, the error says what needs it, and which extra brings it: the smallest, or
    another.
    """
    try:
        return importlib.import_module(name)
    except ImportError as error:
        package, smallest = EXTRAS[name.split(".")[0]]
        raise ImportError(
            f"{needed_by} needs {package}: pip install 'ewsg_jax[{extra or smallest}]'"
        ) from error
