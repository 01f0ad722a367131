"""NumPyro: its models as posteriors, and kernels that its MCMC runs."""

from collections.abc import Callable
from typing import Any

from ewsg_jax.base import checks, optional
from ewsg_jax.bridges._model import BridgedModel
from ewsg_jax.kernels.protocol import Kernel


def from_numpyro(
    model: Callable[..., Any], *args: Any, rows: str | None = None, **kwargs: Any
) -> BridgedModel:
    """Take a NumPyro model, called as `MCMC.run` calls it, with the data among its arguments.

    The potential is NumPyro's own, over its unconstrained values. A batch of rows is evaluated by
    one run of the model on the rows of its arguments: those whose leading axis has the length of
    the plate, or else one other axis. Other arguments, all other plates and their `subsample_size`
    stay whole. A model may have effects of groups, sites with one value for each row, several
    observed sites, factors, masks, scales, conditions and reparametrisations. Discrete sites with
    one value for each row, such as the labels of a mixture, are summed out.

    Whether rows are independent is tried: some are evaluated by themselves, together and in
    another order, and must have the densities that they have among all rows.

    Args:
        model: a NumPyro model.
        args: its arguments.
        rows: the name of the plate of the observations. Default: the one that is as long as the
            leading axis of an argument; without plates, the leading axis of what is observed.
            `"all"` takes all data as one datum, as for a time series or a Gaussian process.
        kwargs: its keyword arguments.

    Raises:
        ImportError: NumPyro is not installed, or older than 0.20.
        TypeError, ValueError: an argument has the wrong type or value; the model fails, observes
            nothing, or NaN, or has an improper site, or a discrete one that is not of one row; it
            is not clear which plate the rows are; rows are not independent, or the model reads
            their values while it runs.

    Example:
        >>> import jax, jax.numpy as jnp, numpyro, numpyro.distributions as dist
        >>> import ewsg_jax as ewsg
        >>> def model(x, y=None):
        ...     weight = numpyro.sample("weight", dist.Normal(0.0, 1.0))
        ...     sigma = numpyro.sample("sigma", dist.HalfNormal(1.0))
        ...     with numpyro.plate("rows", len(x)):
        ...         numpyro.sample("y", dist.Normal(weight * x, sigma), obs=y)
        >>> x = jnp.linspace(-1.0, 1.0, 100)
        >>> bridged = ewsg.from_numpyro(model, x, y=0.5 * x)
        >>> bridged
        BridgedModel(sigma, weight; 100 rows)
        >>> sorted(bridged.constrain(bridged.position))
        ['sigma', 'weight']
    """
    checks.function("model", model, "with NumPyro's sites")
    _check_version("from_numpyro")
    from ewsg_jax.bridges._numpyro_model import bridged

    return bridged(model, rows, args, kwargs)


def numpyro_kernel(kernel: Kernel) -> Any:
    """Return a kernel as one that NumPyro's `MCMC` runs, with its bar, samples and methods.

    A step of `MCMC` is one step of the kernel, `num_warmup` its burn-in. Chains start at values
    that NumPyro finds, or at `init_params`. All chain methods work, `"vectorized"` too.

    Args:
        kernel: a kernel whose posterior `from_numpyro` made, such as `plan.kernel`.

    Returns:
        A `numpyro.infer.mcmc.MCMCKernel`. `MCMC.run` is given the arguments that the model was
        bridged with, other rows of the same arguments, or none.

    Raises:
        ImportError: NumPyro is not installed, or older than 0.20.
        TypeError, ValueError: it is no kernel, or not of such a posterior.

    Example:
        >>> import jax, jax.numpy as jnp, numpyro, numpyro.distributions as dist
        >>> import ewsg_jax as ewsg
        >>> def model(y):
        ...     mean = numpyro.sample("mean", dist.Normal(0.0, 1.0))
        ...     with numpyro.plate("rows", len(y)):
        ...         numpyro.sample("y", dist.Normal(mean, 1.0), obs=y)
        >>> y = jnp.linspace(0.0, 1.0, 50)
        >>> bridged = ewsg.from_numpyro(model, y)
        >>> kernel = ewsg.sgld(bridged.posterior, 1e-3, batch_size=10)
        >>> mcmc = numpyro.infer.MCMC(
        ...     ewsg.numpyro_kernel(kernel),
        ...     num_warmup=100,
        ...     num_samples=200,
        ...     num_chains=4,
        ...     chain_method="vectorized",
        ...     progress_bar=False,
        ... )
        >>> mcmc.run(jax.random.key(0), y)
        >>> mcmc.get_samples(group_by_chain=True)["mean"].shape
        (4, 200)
    """
    _check_version("numpyro_kernel")
    from ewsg_jax.bridges._numpyro_kernel import NumpyroKernel

    return NumpyroKernel(kernel)


def _check_version(needed_by: str) -> None:
    """Raise ImportError if NumPyro is not there, or too old."""
    numpyro = optional.module("numpyro", needed_by)
    version = tuple(int(part) for part in numpyro.__version__.split(".")[:2])
    if version < (0, 20):
        raise ImportError(
            f"{needed_by} needs NumPyro 0.20 or later; got {numpyro.__version__}: "
            "pip install -U numpyro"
        )
