"""What an experiment is: the tables of its TOML file.

[data]       which rows, how split and scaled
[model]      the prior, and the coordinates that are sampled
[run]        chains, passes over the data, where chains start
[reference]  a long run with the full gradient to compare with; may be left out
[[methods]]  one table for each method: its `name` and the arguments of that function
"""

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from ewsg_jax import _check
from ewsg_jax.experiments.tables import (
    ConfigError,
    above_zero,
    at_least,
    at_most,
    build,
    finite,
    from_toml,
    refuse_unknown,
)
from ewsg_jax.methods import METHODS

RESERVED = ("reference", "names", "file", "allow_pickle")
"""Names that draws.npz needs for itself."""
MOST_SEED = 2**32 - 1
"""jax takes the last 32 bits of a seed: two seeds that agree in them would be one."""
MOST_STEPS = 2**31 - 1
"""Steps are counted in 32 bits."""


@dataclass(frozen=True)
class Data:
    """`[data]`: a name of `ewsg_jax.datasets`, the share and seed of the split, how features are made."""

    name: Literal["breast_cancer", "covertype", "heart", "pima"]
    test_fraction: float = 0.2
    split_seed: int = 0
    features: Literal["standardised", "whitened"] = "standardised"
    intercept: bool = True
    drop_columns: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        at_least("data", self, split_seed=0)
        at_most("data", self, split_seed=MOST_SEED)
        if not 0 < self.test_fraction < 1:
            raise ConfigError(f"data.test_fraction must be above 0 and below 1; got {self.test_fraction}")


@dataclass(frozen=True)
class Model:
    """`[model]`: logistic regression with the prior N(0, prior_scale² I) on the weights of the features.

    `coordinates` are those that the chains move in: the weights themselves (`"features"`), or weights in units
    of the posterior's standard deviations at its mode (`"curvature"`): the same posterior, without narrow
    directions. Draws are reported as weights in both cases.
    """

    prior_scale: float = 1.0
    coordinates: Literal["features", "curvature"] = "features"

    def __post_init__(self) -> None:
        above_zero("model.prior_scale", self.prior_scale)


@dataclass(frozen=True)
class Run:
    """`[run]`: what all methods share, above all the number of passes over the data.

    Passes count all that is evaluated, at the start and at refreshes too: the burn-in ends with the step that
    reaches its own. A method whose steps cost what they turn out to (`flymc`) is run twice, first without draws to
    count them.

    Chains start at zero, or around the mode with `start_spread` times the standard deviations of the normal
    approximation there.
    """

    num_chains: int
    data_passes: float
    burn_in_passes: float = 0.0
    num_draws: int = 1000
    seed: int = 0
    start: Literal["zero", "mode"] = "zero"
    start_spread: float = 2.0
    shared_minibatch: bool = False

    def __post_init__(self) -> None:
        at_least("run", self, num_chains=1, num_draws=1, burn_in_passes=0, seed=0)
        at_most("run", self, seed=MOST_SEED)
        finite("run", self, "burn_in_passes", "start_spread")
        above_zero("run.data_passes", self.data_passes)
        above_zero("run.start_spread", self.start_spread)


@dataclass(frozen=True)
class Reference:
    """`[reference]`: underdamped Langevin with the full gradient, symmetric splitting, started as the methods."""

    step_size: float
    friction: float
    num_steps: int
    burn_in: int = 0
    num_draws: int = 1000
    num_chains: int = 8

    def __post_init__(self) -> None:
        at_most("reference", self, num_steps=MOST_STEPS)
        at_least("reference", self, num_steps=1, burn_in=0, num_draws=1, num_chains=1)


@dataclass(frozen=True)
class Published:
    """`published`: numbers to print beside the method's own; accuracy in per cent."""

    accuracy: float
    log_likelihood: float
    accuracy_sd: float = 0.0
    log_likelihood_sd: float = 0.0


@dataclass(frozen=True)
class Method:
    """A `[[methods]]` table: a name of `ewsg_jax.METHODS`, its options, and how it is called in the report."""

    name: str
    label: str
    options: Mapping[str, Any]
    published: Published | None = None


@dataclass(frozen=True)
class Experiment:
    """A whole file."""

    title: str
    data: Data
    model: Model
    run: Run
    methods: tuple[Method, ...]
    reference: Reference | None = None
    note: str = ""


@dataclass(frozen=True)
class _Tables:
    """A whole file before its methods are looked up."""

    title: str
    data: Data
    run: Run
    methods: list
    model: Model = field(default_factory=Model)
    reference: Reference | None = None
    note: str = ""


def load(path: Path | str) -> tuple[Experiment, str]:
    """Read an experiment and the text of its file.

    Raises:
        ConfigError: the file is no TOML, or says something that cannot be run.
        OSError: the file cannot be read.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ConfigError(f"not valid TOML, which is text in UTF-8: {error}") from None
    return parse(text), text


def parse(text: str) -> Experiment:
    """Build an experiment from TOML text.

    Raises:
        ConfigError: the text is no TOML, or says something that cannot be run.
    """
    tables = build(_Tables, from_toml(text))
    if not tables.methods:
        raise ConfigError("missing table [[methods]]: name at least one method")
    methods = tuple(method_of(table, number) for number, table in enumerate(tables.methods, 1))
    labels = [method.label for method in methods]
    for label in labels:
        if label in RESERVED:
            raise ConfigError(f"no run can be called {label!r}: give that method another 'label'")
        if labels.count(label) > 1:
            raise ConfigError(f"two runs are called {label!r}: give one of the methods another 'label'")
    return Experiment(tables.title, tables.data, tables.model, tables.run, methods, tables.reference, tables.note)


def method_of(table: Any, number: int) -> Method:
    """Return one method, its options checked against the signature of its function.

    Raises:
        ConfigError: the table is of no method, or of options that it has not.
    """
    path = f"methods[{number}]"
    if not isinstance(table, Mapping):
        raise ConfigError(f"{path} must be a table of keys; got {_check.describe(table)}")
    if "name" not in table:
        raise ConfigError(f"missing key '{path}.name': one of {', '.join(METHODS)}")
    name = table["name"]
    try:
        _check.one_of(f"{path}.name", name, METHODS)
    except ValueError as error:
        raise ConfigError(str(error)) from None
    path = f"{path} ({name})"
    parameters = dict(inspect.signature(METHODS[name].build).parameters)
    del parameters["posterior"]
    refuse_unknown(table, ["name", "label", "published", *parameters], path)
    for key, parameter in parameters.items():
        if parameter.default is inspect.Parameter.empty and key not in table:
            raise ConfigError(f"missing key '{path}.{key}'")
    label = table.get("label", name)
    if not isinstance(label, str) or not label:
        raise ConfigError(f"{path}.label must be a text; got {_check.describe(label)}")
    published = build(Published, table["published"], f"{path}.published") if "published" in table else None
    return Method(name, label, {key: table[key] for key in parameters if key in table}, published)
