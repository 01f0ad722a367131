"""The run: chains, compiled calls, thinning, progress."""

from ewsg_jax.sampling._moments import Moments as Moments
from ewsg_jax.sampling._moments import moments as moments
from ewsg_jax.sampling._sample import resume as resume
from ewsg_jax.sampling._sample import sample as sample
from ewsg_jax.sampling.loading import load as load
from ewsg_jax.sampling.samples import Samples as Samples
from ewsg_jax.sampling.stacked import StackedSamples as StackedSamples
