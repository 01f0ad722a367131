"""What is done once before a run, on the host."""

from ewsg_jax.preparation._cluster import cluster as cluster
from ewsg_jax.preparation._find_mode import Mode as Mode
from ewsg_jax.preparation._find_mode import find_mode as find_mode
