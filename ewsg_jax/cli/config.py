"""Configurations: tables of TOML into frozen dataclasses, whose annotations say what each key
takes.

A field is a key: its name, its type, its default and, by `Annotated`, which values are allowed. A
key that is unknown or missing, and a value that does not fit, is refused with its full path.
`Config` is the file of `python -m ewsg_jax run`:

[data]       which rows, how split and scaled
[model]      the prior, and the coordinates that are sampled
[run]        chains, passes over the data, starting points
[reference]  a long run with the full gradient to compare with; optional
[[methods]]  one table for each method: its `name` and the arguments of that function
"""

import contextlib
import dataclasses
import inspect
import json
import math
import re
import sys
import tomllib
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, TypeVar

from ewsg_jax.base import checks, limits
from ewsg_jax.kernels.record import METHODS

T = TypeVar("T")
TYPES = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "a string",
    list: "a list",
}
REFERENCE = "reference"
RESERVED = (REFERENCE, "names", "unscaled names", "file", "allow_pickle")
"""Names that draws.npz needs for itself."""
PASSES, UNSCALED = ".data_passes", ".unscaled"
"""What ends the names of other arrays of a run that stand there."""
SEED_LINE = re.compile(r"^[ \t]*seed[ \t]*=[ \t]*(?P<seed>[^\s#]+)", re.M)
RUN_LINE = re.compile(r"^[ \t]*\[[ \t]*run[ \t]*\][ \t]*(?:#.*)?$", re.M)
"""Lines of a configuration that may say its seed, or begin the table that takes one."""


class ConfigError(ValueError):
    """A configuration that cannot be run; the message names the key and what it takes."""


# Which values a key takes.


class Allowed(NamedTuple):
    """A condition on a value in addition to its type, for `Annotated`: what it is called, and
    whether a value meets it.
    """

    words: str
    holds: Callable[[Any], bool]


def at_least(least: float) -> Allowed:
    """Allow numbers from `least` on."""
    return Allowed(f"at least {least}", lambda value: value >= least)


def at_most(most: float) -> Allowed:
    """Allow numbers up to `most`."""
    return Allowed(f"at most {most}", lambda value: value <= most)


POSITIVE = Allowed("above 0", lambda value: value > 0)
FINITE = Allowed("a finite number", math.isfinite)
BETWEEN_0_AND_1 = Allowed("above 0 and below 1", lambda value: 0 < value < 1)
NOT_EMPTY = Allowed("not empty", bool)

Count = Annotated[int, at_least(1)]
Positive = Annotated[float, POSITIVE]
# jax takes the last 32 bits of a seed: two seeds that agree in them would be one.
Seed = Annotated[int, at_least(0), at_most(2**32 - 1)]


# The tables of a file.


@dataclass(frozen=True)
class Data:
    """`[data]`: a name of `ewsg_jax.datasets`, the fraction and seed of the split, which features.

    Features are standardised by the mean and standard deviation of the training rows.
    """

    name: Literal["breast_cancer", "covertype", "heart", "pima"]
    test_fraction: Annotated[float, BETWEEN_0_AND_1] = 0.2
    split_seed: Seed = 0
    intercept: bool = True
    drop_columns: tuple[str, ...] = ()


@dataclass(frozen=True)
class Model:
    """`[model]`: logistic regression with the prior N(0, prior_scale² I) on the weights of the
    features.

    `coordinates` are those that a step is made in: the weights themselves (`"features"`), or
    weights in units of the posterior's standard deviations at its mode (`"curvature"`), by the mass
    of each method: the same posterior, without narrow directions.
    """

    prior_scale: Positive = 1.0
    coordinates: Literal["features", "curvature"] = "features"


@dataclass(frozen=True)
class Run:
    """`[run]`: what all methods share, above all the number of passes over the data.

    Passes count all that is evaluated, at the start and at refreshes too: the burn-in ends with the
    step that reaches its own. Steps of a random cost (`flymc`) count with the most that they may
    cost.

    Chains start at zero, or around the mode with `start_spread` times the standard deviations of
    the normal approximation there.
    """

    num_chains: Count
    data_passes: Positive
    burn_in_passes: Annotated[float, at_least(0), FINITE] = 0.0
    num_draws: Count = 1000
    seed: Seed = 0
    start: Literal["zero", "mode"] = "zero"
    start_spread: Annotated[float, POSITIVE, FINITE] = 2.0
    shared_minibatch: bool = False


@dataclass(frozen=True)
class Reference:
    """`[reference]`: underdamped Langevin with the full gradient, symmetric splitting, started as
    the methods.
    """

    step_size: float
    friction: float
    num_steps: Annotated[int, at_least(1), at_most(limits.INT32_MAX)]
    burn_in: Annotated[int, at_least(0)] = 0
    num_draws: Count = 1000
    num_chains: Count = 8


@dataclass(frozen=True)
class MethodConfig:
    """A `[[methods]]` table: a name of `ewsg_jax.METHODS`, how it is called in the report, and its
    options.
    """

    name: str
    label: str
    options: Mapping[str, Any]


@dataclass(frozen=True)
class Config:
    """A whole file."""

    title: str
    data: Data
    run: Run
    methods: Annotated[list, NOT_EMPTY]
    model: Model = Model()
    reference: Reference | None = None
    note: str = ""

    def __post_init__(self) -> None:
        runs = [REFERENCE, *self.named]
        beside = {f"{label}{end}" for label in runs for end in (PASSES, UNSCALED)}
        for label in self.named:
            if label in RESERVED or label in beside:
                raise ConfigError(
                    f"no run can be called {label!r}: give that method another 'label'"
                )

    @property
    def named(self) -> dict[str, MethodConfig]:
        """The methods by their labels."""
        return methods_of(self.methods)


# Reading.


def load(path: Path | str, seed: int | None = None) -> tuple[Config, str]:
    """Read and check a configuration; return it with the text of its file.

    A seed replaces `run.seed`, in the text too.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ConfigError(f"not valid TOML, which is text in UTF-8: {error}") from None
    config = build(Config, from_toml(text))
    if seed is None:
        return config, text
    # What is written beside the draws must make the same run again.
    text = with_seed(text, seed)
    return build(Config, from_toml(text)), text


def with_seed(text: str, seed: int) -> str:
    """Return the text of a configuration with another `run.seed` and no other change.

    Raises:
        ConfigError: there is no line `seed = …` or `[run]` to write it to.
    """
    table = from_toml(text)
    table["run"]["seed"] = seed
    wanted = _compared(table)
    places = [(line.span("seed"), str(seed)) for line in SEED_LINE.finditer(text)]
    places += [((line.end(),) * 2, f"\nseed = {seed}") for line in RUN_LINE.finditer(text)]
    for (start, end), words in places:
        changed = text[:start] + words + text[end:]
        # A line of another table, or of a string of several lines, is not the one.
        with contextlib.suppress(ConfigError):
            if _compared(from_toml(changed)) == wanted:
                return changed
    raise ConfigError("run.seed must have a line of its own below [run], which --seed replaces")


def is_same(text: str | None, other: str) -> bool:
    """Return whether texts of configurations have equal tables, whatever is said in comments."""
    try:
        return text is not None and _compared(from_toml(text)) == _compared(from_toml(other))
    except ConfigError:
        return False


def _compared(table: dict[str, Any]) -> str:
    """Return a text that is the same for equal tables, whatever their order; NaN equals NaN."""
    return json.dumps(table, sort_keys=True, default=str)


def from_toml(text: str) -> dict[str, Any]:
    """Return the tables of TOML text.

    Raises:
        ConfigError: it is not TOML.
    """
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"not valid TOML: {error}") from None


def build(kind: type[T], table: Any, path: str = "") -> T:
    """Build a dataclass from a table.

    Args:
        kind: a dataclass whose fields are bool, int, float, str, list, a choice (`Literal`), a
            tuple of one type, a dictionary of one, another dataclass, one of these with a condition
            (`Annotated`), or one of these or None.
        table: what tomllib returned.
        path: the place of the table in the file, for messages.

    Raises:
        ConfigError: a key is unknown (the nearest right one is named) or missing, or a value is not
            allowed.

    Example:
        >>> @dataclass(frozen=True)
        ... class Run:
        ...     num_chains: Count
        ...     spread: float = 2.0
        >>> build(Run, {"num_chains": 4, "spread": 3}, "run")
        Run(num_chains=4, spread=3.0)
    """
    assert dataclasses.is_dataclass(kind)
    fields = {field.name: field for field in dataclasses.fields(kind)}
    refuse_unknown(table, fields, path)
    hints, values = typing.get_type_hints(kind, include_extras=True), {}
    for name, field in fields.items():
        where = f"{path}.{name}" if path else name
        if name in table:
            values[name] = value_of(hints[name], table[name], where)
        elif field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            raise ConfigError(f"missing key {where!r}")
    return typing.cast(T, kind(**values))


def refuse_unknown(table: Any, known: Iterable[str], path: str) -> None:
    """Refuse what is not a table, and a key that is not known: the nearest that is
    known is named.
    """
    if not isinstance(table, Mapping):
        raise ConfigError(f"{path} must be a table of keys; got {checks.describe(table)}")
    known = list(known)
    for key in table:
        if key not in known:
            hint = checks.nearest(key, known) or f"; known are {', '.join(known)}"
            raise ConfigError(f"unknown key '{f'{path}.' if path else ''}{key}'{hint}")


def value_of(hint: Any, value: Any, path: str) -> Any:
    """Return a value as its annotation says, or raise ConfigError that it does not fit."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is Annotated:
        value = value_of(arguments[0], value, path)
        for allowed in arguments[1:]:
            if not allowed.holds(value):
                raise ConfigError(f"{path} must be {allowed.words}; got {value}")
        return value
    if origin in (types.UnionType, typing.Union):
        return value_of(arguments[0], value, path)
    if origin is Literal:
        return one_of(path, value, arguments)
    if origin is dict:
        refuse_unknown(value, value if isinstance(value, Mapping) else (), path)
        return {key: value_of(arguments[1], item, f"{path}.{key}") for key, item in value.items()}
    if origin is tuple:
        items = value_of(list, value, path)
        return tuple(
            value_of(arguments[0], item, f"{path}[{i}]") for i, item in enumerate(items, 1)
        )
    if dataclasses.is_dataclass(hint):
        return build(typing.cast(type, hint), value, path)
    if hint is float and type(value) is int:
        if abs(value) > sys.float_info.max:
            raise ConfigError(f"{path} must be a number; got a whole number too large for one")
        return float(value)
    if not isinstance(value, hint) or (isinstance(value, bool) and hint is not bool):
        raise ConfigError(f"{path} must be {TYPES[hint]}; got {checks.describe(value)}")
    return value


def one_of(path: str, value: Any, options: Iterable[str]) -> Any:
    """Return a value that is one of some names, or raise ConfigError."""
    try:
        checks.one_of(path, value, options)
    except ValueError as error:
        raise ConfigError(str(error)) from None
    return value


def methods_of(tables: Iterable[Any], **defaults: Any) -> dict[str, MethodConfig]:
    """Return the methods of tables by their labels; the arguments are those of `method_of`.

    Raises:
        ConfigError: as `method_of`, or two have one label.
    """
    methods = {}
    for number, table in enumerate(tables, 1):
        method = method_of(table, number, **defaults)
        if method.label in methods:
            raise ConfigError(
                f"two runs are called {method.label!r}: give one of the methods another 'label'"
            )
        methods[method.label] = method
    return methods


def method_of(table: Any, number: int, **defaults: Any) -> MethodConfig:
    """Return a method, its options checked against the arguments of its function.

    Args:
        table: a `[[methods]]` table.
        number: which one it is, for messages.
        defaults: options that the table need not give; a method that does not have them goes
            without.

    Raises:
        ConfigError: there is no such method, or it has no such option, or not all that it needs.
    """
    path = f"methods[{number}]"
    if not isinstance(table, Mapping):
        raise ConfigError(f"{path} must be a table of keys; got {checks.describe(table)}")
    if "name" not in table:
        raise ConfigError(f"missing key '{path}.name': one of {', '.join(METHODS)}")
    name = one_of(f"{path}.name", table["name"], METHODS)
    path = f"{path} ({name})"
    parameters = dict(inspect.signature(METHODS[name].build).parameters)
    del parameters["posterior"]
    refuse_unknown(table, ["name", "label", *parameters], path)
    values = {**defaults, **table}
    for key, parameter in parameters.items():
        if parameter.default is inspect.Parameter.empty and key not in values:
            raise ConfigError(f"missing key '{path}.{key}'")
    label = value_of(Annotated[str, NOT_EMPTY], table.get("label", name), f"{path}.label")
    return MethodConfig(name, label, {key: values[key] for key in parameters if key in values})
