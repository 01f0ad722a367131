"""An experiment's configuration: `configs/papers/NAME.toml`, at the paper's size or a quick one."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, TypeVar

import ewsg_jax
from ewsg_jax.experiments.tables import ConfigError, build, from_toml, refuse_unknown

Scale = Literal["quick", "full"]
SCALES: tuple[Scale, ...] = ("quick", "full")
RESULT = "result.json"
"""What an experiment's result is called in its folder."""
T = TypeVar("T")


def folder() -> Path:
    """Return where configurations lie: in the package where it was installed, else in the repository.

    Raises:
        FileNotFoundError: they are in neither.
    """
    package = Path(ewsg_jax.__file__).parent
    for found in (package / "configs", package.parent / "configs"):
        if (found / "papers").is_dir():
            return found
    raise FileNotFoundError(
        f"the experiments' configurations are missing: there is no {package.parent}/configs/papers"
    )


def text_of(name: str) -> str:
    """Return the text of an experiment's configuration."""
    return (folder() / "papers" / f"{name}.toml").read_text(encoding="utf-8")


def stored(name: str) -> dict[str, Any] | None:
    """Return the result of an experiment that is stored beside the configurations, None where there is none."""
    path = folder() / "results" / name / RESULT
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else None


def settings_of(kind: type[T], text: str, scale: Scale) -> T:
    """Return what a configuration says for a scale: its table `[full]`, in which `[quick]` replaces some values.

    Args:
        kind: a frozen dataclass of the values; a field `methods` takes the tables `[[methods]]` as they are.
        text: of the file.
        scale: which.

    Raises:
        ConfigError: the text is no TOML, or does not say what it should.
    """
    table = from_toml(text)
    refuse_unknown(table, ["full", "quick", "methods"], "")
    values: dict[str, Any] = {}
    for name in ("full", "quick") if scale == "quick" else ("full",):
        part = table.get(name, {})
        if not isinstance(part, Mapping):
            raise ConfigError(f"{name} must be a table of keys; got {part!r}")
        values |= part
    if "methods" in table:
        values["methods"] = table["methods"]
    return build(kind, values)
