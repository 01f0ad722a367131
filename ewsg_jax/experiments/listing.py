"""`python -m ewsg_jax list`: what there is, by name, with a line each."""

import contextlib
import tomllib
from collections.abc import Callable, Iterable
from pathlib import Path

import ewsg_jax as ewsg
from ewsg_jax import datasets
from ewsg_jax.datasets.table import SOURCES
from ewsg_jax.experiments.asked import MODELS
from ewsg_jax.experiments.results import aligned

Named = Iterable[tuple[str, str]]


def configs() -> Named:
    """Yield the files for `run`, of this folder and of the checkout, with their titles."""
    folders = [Path("configs"), Path(ewsg.__file__).resolve().parent.parent / "configs"]
    seen: set[Path] = set()
    for path in (path for folder in folders for path in sorted(folder.glob("*.toml"))):
        if path.resolve() not in seen:
            seen.add(path.resolve())
            with contextlib.suppress(OSError, ValueError):
                yield str(path), str(tomllib.loads(path.read_text("utf-8")).get("title", ""))


def methods() -> Named:
    """Yield the named methods."""
    for name, method in ewsg.METHODS.items():
        yield name, method.title


def data() -> Named:
    """Yield the data sets that have a name, with what they are."""
    for name in datasets.DATASETS:
        about = (
            SOURCES[name].title if name in SOURCES else "Breast cancer, which scikit-learn brings"
        )
        yield name, about


KINDS: dict[str, Callable[[], Named]] = {
    "configs": configs,
    "data": data,
    "methods": methods,
    "models": MODELS.items,
}
"""What can be listed, beside the papers' experiments, and what yields names with a line each."""


def lines(kind: str) -> str:
    """Return the names of a kind, a line each."""
    rows = list(KINDS[kind]()) or [("none here", "")]
    return "\n".join(aligned(rows, num_left=2))
