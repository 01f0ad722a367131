"""Experiments from a TOML file: `python -m ewsg_jax run configs/quickstart.toml`.

load, Experiment, ConfigError: a configuration, and what is wrong with it.
Method, method_of: a `[[methods]]` table.
build, from_toml, refuse_unknown, at_least, at_most, above_zero: tables into dataclasses of your own.
steps_of_passes: passes over the data, turned into steps.
Folder, plain: results, written whole or not at all.
versions, device: what runs.
COLOURS, blank, png, require_matplotlib: figures.
"""

from ewsg_jax.experiments.config import Experiment as Experiment
from ewsg_jax.experiments.config import Method as Method
from ewsg_jax.experiments.config import load as load
from ewsg_jax.experiments.config import method_of as method_of
from ewsg_jax.experiments.counted import steps_of_passes as steps_of_passes
from ewsg_jax.experiments.figures import require_matplotlib as require_matplotlib
from ewsg_jax.experiments.files import Folder as Folder
from ewsg_jax.experiments.files import plain as plain
from ewsg_jax.experiments.metrics import device as device
from ewsg_jax.experiments.metrics import versions as versions
from ewsg_jax.experiments.tables import ConfigError as ConfigError
from ewsg_jax.experiments.tables import above_zero as above_zero
from ewsg_jax.experiments.tables import at_least as at_least
from ewsg_jax.experiments.tables import at_most as at_most
from ewsg_jax.experiments.tables import build as build
from ewsg_jax.experiments.tables import from_toml as from_toml
from ewsg_jax.experiments.tables import refuse_unknown as refuse_unknown
from ewsg_jax.pictures import COLOURS as COLOURS
from ewsg_jax.pictures import blank as blank
from ewsg_jax.pictures import png as png
