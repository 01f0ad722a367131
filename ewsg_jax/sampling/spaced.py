"""Some of many, evenly spaced."""

from ewsg_jax.support import evenly as evenly
