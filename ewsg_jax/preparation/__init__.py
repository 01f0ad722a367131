"""What is done once before a run, on the host."""

from ewsg_jax.preparation._cluster import cluster as cluster
from ewsg_jax.preparation._find_mode import find_mode as find_mode
from ewsg_jax.preparation._from_sgd import SGDMatch as SGDMatch
from ewsg_jax.preparation._from_sgd import from_sgd as from_sgd
from ewsg_jax.preparation.mode import Mode as Mode
