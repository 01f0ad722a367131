"""The run: chains, compiled calls, thinning, progress."""

from ewsg_jax.sampling._sample import sample as sample
from ewsg_jax.sampling.samples import Samples as Samples
