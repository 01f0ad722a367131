"""Experiments from a TOML file: `python -m ewsg_jax run configs/quickstart.toml`, and what others
are made of.

from_toml, build, refuse_unknown, ConfigError: TOML tables into dataclasses of your own.
Allowed, at_least, at_most, Count, Positive, NOT_EMPTY: which values a field of one takes.
MethodConfig, method_of, methods_of: `[[methods]]` tables.
steps_of_passes: the steps within a number of passes over the data, and those of a burn-in.
Folder, plain, aligned, spelled, versions, device: results, written whole or not at all.
Parser: of a command's arguments, whose help ends with examples.
"""

from ewsg_jax._base.progress import spelled as spelled
from ewsg_jax.experiments.config import NOT_EMPTY as NOT_EMPTY
from ewsg_jax.experiments.config import Allowed as Allowed
from ewsg_jax.experiments.config import ConfigError as ConfigError
from ewsg_jax.experiments.config import Count as Count
from ewsg_jax.experiments.config import MethodConfig as MethodConfig
from ewsg_jax.experiments.config import Positive as Positive
from ewsg_jax.experiments.config import at_least as at_least
from ewsg_jax.experiments.config import at_most as at_most
from ewsg_jax.experiments.config import build as build
from ewsg_jax.experiments.config import from_toml as from_toml
from ewsg_jax.experiments.config import method_of as method_of
from ewsg_jax.experiments.config import methods_of as methods_of
from ewsg_jax.experiments.config import refuse_unknown as refuse_unknown
from ewsg_jax.experiments.console import Parser as Parser
from ewsg_jax.experiments.plan import steps_of_passes as steps_of_passes
from ewsg_jax.experiments.results import Folder as Folder
from ewsg_jax.experiments.results import aligned as aligned
from ewsg_jax.experiments.results import device as device
from ewsg_jax.experiments.results import plain as plain
from ewsg_jax.experiments.results import versions as versions
