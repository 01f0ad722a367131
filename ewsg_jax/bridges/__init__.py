"""Models that other packages describe.

from_numpyro: a NumPyro model.
numpyro_kernel: a kernel that its MCMC runs.
from_pymc: a PyMC model.
BridgedModel: what a bridge returns: a posterior, a start, data, and draws in the model's own names.
"""

from ewsg_jax.bridges._model import BridgedModel as BridgedModel
from ewsg_jax.bridges._numpyro import from_numpyro as from_numpyro
from ewsg_jax.bridges._numpyro import numpyro_kernel as numpyro_kernel
from ewsg_jax.bridges._pymc import from_pymc as from_pymc
