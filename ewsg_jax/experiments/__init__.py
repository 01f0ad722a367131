"""Experiments from a TOML file: `python -m ewsg_jax run configs/quickstart.toml`."""

from ewsg_jax.experiments.config import ConfigError as ConfigError
from ewsg_jax.experiments.config import Experiment as Experiment
from ewsg_jax.experiments.config import load as load
