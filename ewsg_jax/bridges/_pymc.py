"""PyMC: its models as posteriors."""

import os
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jax

from ewsg_jax.base import checks, optional
from ewsg_jax.bridges._model import BridgedModel

TAKEN = "6"
"""The major version of PyMC."""
_FLAGS = "XLA_FLAGS"


def from_pymc(model: Any, *, rows: str | None = None) -> BridgedModel:
    """Take a PyMC model, with the data that it holds.

    The potential is PyMC's own, over its unconstrained values, by the graph that
    `pm.sample(nuts_sampler="numpyro")` evaluates. A batch of rows is one evaluation of the
    likelihood's graph, in which arrays of rows (what is observed, `pm.Data`, arrays of NumPy with
    their length) have the batch's rows. Positions have PyMC's names of unconstrained values, such
    as `sigma_log__`: `model.initial_point()` is a position.

    - `pm.Data` have the values that they have now.
    - Of `pm.Minibatch` the whole arrays are taken. `total_size` scales as it does in PyMC: all
      rows together count as that number.
    - A potential with one value for each row belongs to the rows.
    - Missing observations that PyMC samples are refused, unless all data are one datum.

    Whether rows are independent is tried: some are evaluated together, in another order and by
    themselves, and must have the densities that they have among all rows.

    PyMC has float64 (`pytensor.config.floatX`). The posterior has the floats of JAX: float32 unless
    `jax.config.update("jax_enable_x64", True)` comes first. Importing `pymc.sampling.jax` switches
    64 bits on and sets XLA_FLAGS to 100 host devices; both are set back.

    Args:
        model: a `pymc.Model`.
        rows: the name of a dimension of what is observed, or of an observed variable or a potential
            whose elements are the rows. Default: the leading axis of what is observed. `"all"`
            takes all data as one datum, as for a time series or a Gaussian process.

    Raises:
        ImportError: PyMC is not installed, or not of version 6, which needs Python 3.12.
        TypeError, ValueError: an argument has the wrong type or value; the model observes nothing,
            or has a discrete variable, an improper prior, missing values, a density of 0 at its
            initial point, or an operation that JAX does not have; what is observed has several
            lengths; a potential sums over rows; rows are not independent.

    Example:
        >>> import numpy as np, pymc as pm, ewsg_jax as ewsg
        >>> x = np.linspace(-1.0, 1.0, 100)
        >>> with pm.Model() as model:
        ...     w = pm.Normal("w", 0, 1)
        ...     sigma = pm.HalfNormal("sigma", 1)
        ...     y = pm.Normal("y", w * x, sigma, observed=0.5 * x)
        >>> bridged = ewsg.from_pymc(model)
        >>> bridged
        BridgedModel(w, sigma_log__; 100 rows)
        >>> sorted(bridged.constrain(bridged.position))
        ['sigma', 'w']
    """
    pymc = _imported("from_pymc")
    checks.instance("model", model, pymc.Model, "a pymc.Model, what `with pymc.Model() as` names")
    from ewsg_jax.bridges._pymc_model import bridged

    return bridged(model, rows)


def _imported(needed_by: str) -> Any:
    """Import PyMC and what it has for JAX, and set back what that sets for the whole process.

    Raises:
        ImportError: it is not there, or of another version.
    """
    # On an earlier Python the extra is empty.
    pymc = optional.module("pymc", f"{needed_by}, on Python 3.12 or later,")
    version = pymc.__version__
    if version.split(".")[0] != TAKEN:
        python = ".".join(map(str, sys.version_info[:2]))
        raise ImportError(
            f"{needed_by} takes PyMC {TAKEN}, on Python 3.12 or later; got PyMC {version} on "
            f"Python {python}: pip install 'ewsg_jax[pymc]' there"
        )
    # Who imports it wants what it sets.
    if "pymc.sampling.jax" in sys.modules:
        return pymc
    flags = os.environ.get(_FLAGS)
    # Another thread has no context of this one, such as `with jax.enable_x64():`.
    with ThreadPoolExecutor(1) as thread:
        has_x64 = thread.submit(jax.config.read, "jax_enable_x64").result()
    try:
        optional.module("pymc.sampling.jax", needed_by)
    finally:
        jax.config.update("jax_enable_x64", has_x64)
        if flags is None:
            os.environ.pop(_FLAGS, None)
        else:
            os.environ[_FLAGS] = flags
    return pymc
