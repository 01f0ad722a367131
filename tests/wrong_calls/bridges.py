"""Wrong calls of bridges; `tests/bridges` has the models that they refuse."""

# The arguments are wrong on purpose.
# pyright: reportArgumentType=false, reportCallIssue=false

import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist

import ewsg_jax as ewsg
from tests.wrong_calls.table import KERNEL, NAN, WRONG, failing


def model(x, y=None):
    mean = numpyro.sample("mean", dist.Normal(0.0, 1.0))
    with numpyro.plate("rows", len(x)):
        numpyro.sample("y", dist.Normal(mean * x, 1.0), obs=y)


X = jnp.ones(6)
WRONG["from_numpyro"] |= {
    "T model | 3 (int) | must be a function with NumPyro's sites": lambda: ewsg.from_numpyro(3),
    "T rows | 3 (int) | must be the name of a plate, or None": lambda: ewsg.from_numpyro(
        model, X, X, rows=3
    ),
    "V rows | got 'columns' | 'rows' (6)": lambda: ewsg.from_numpyro(model, X, X, rows="columns"),
    "V model | the disk is full | must run on its arguments": lambda: ewsg.from_numpyro(failing),
    "V model | sites 'mean', 'y' | must observe something": lambda: ewsg.from_numpyro(model, X),
    "V model | 'y' observes NaN at [2] | must observe numbers": lambda: ewsg.from_numpyro(
        model, X, X.at[2].set(NAN)
    ),
}
WRONG["numpyro_kernel"] |= {
    "T kernel | 3 (int) | must be a Kernel": lambda: ewsg.numpyro_kernel(3),
    "V kernel | got kernel( | must be of a posterior that ewsg_jax.from_numpyro made": lambda: (
        ewsg.numpyro_kernel(KERNEL)
    ),
}
