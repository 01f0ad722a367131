"""`[plan]`: what `python -m ewsg_jax plan` is asked for, as a table of a configuration."""

import dataclasses
from dataclasses import dataclass
from typing import Annotated, Literal

from ewsg_jax.cli.config import (
    BETWEEN_0_AND_1,
    FINITE,
    POSITIVE,
    Count,
    Positive,
    Seed,
)


@dataclass(frozen=True)
class Prior:
    """A table of `[plan.priors]`: a normal prior, in the units of the file; of the scale of groups
    a half-normal one, without a mean.
    """

    scale: Positive
    mean: Annotated[float, FINITE] = 0.0


@dataclass(frozen=True, kw_only=True)
class Reading:
    """What is asked of a file's columns.

    `every_column` says that no column of a table is left out by itself.
    """

    response: str = ""
    drop: tuple[str, ...] = ()
    keep: tuple[str, ...] = ()
    categorical: tuple[str, ...] = ()
    reference: tuple[str, ...] = ()
    group: str = ""
    exposure: str = ""
    missing: Literal["", "drop", "indicator"] = ""
    na: tuple[str, ...] = ()
    decimal: Literal["", "point", "comma"] = ""
    encoding: str = ""
    intercept: bool = True
    every_column: bool = False


@dataclass(frozen=True)
class PlanArguments(Reading):
    """`[plan]`: the arguments of `python -m ewsg_jax plan`, which `HELP` explains.

    `checksum` is that of the rows; in a folder of results `data` is the name of the file alone.
    """

    data: str
    model: Literal["logistic", "softmax", "linear", "poisson", "negative_binomial"]
    prior_scale: Positive = 1.0
    priors: dict[str, Prior] = dataclasses.field(default_factory=dict)
    noise_scale: Annotated[float, POSITIVE, FINITE] | None = None
    dispersion: Annotated[float, POSITIVE, FINITE] | None = None
    standardise: bool = True
    tolerance: Annotated[float, BETWEEN_0_AND_1] = 0.05
    num_chains: Count = 8
    ess: Annotated[float, POSITIVE, FINITE] | None = None
    max_passes: Annotated[float, POSITIVE, FINITE] | None = None
    seconds: Annotated[float, POSITIVE, FINITE] | None = None
    seed: Seed = 0
    checksum: str = ""
