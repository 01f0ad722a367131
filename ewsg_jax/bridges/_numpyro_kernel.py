"""A kernel of this library as one that NumPyro's `MCMC` runs.

This module imports NumPyro, and is imported when a bridge is called.
"""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpyro.infer.mcmc import MCMCKernel

from ewsg_jax.base import checks
from ewsg_jax.base.typing import Array, Data, Key, Position
from ewsg_jax.bridges._numpyro_call import ModelCall, RowDensities, SitePrior, in_dtypes_of_jax
from ewsg_jax.bridges._numpyro_model import Constrained, start
from ewsg_jax.kernels.protocol import Kernel, KernelState, posterior_of


class NumpyroState(NamedTuple):
    """The state of a chain, or of several, under NumPyro's `MCMC`.

    Attributes:
        z: the unconstrained values by site.
        kernel_state: the state of the kernel.
        rng_key: the key of the next step.
    """

    z: Position
    kernel_state: KernelState
    rng_key: Key


class NumpyroKernel(MCMCKernel):
    """What `ewsg_jax.numpyro_kernel` returns."""

    def __init__(self, kernel: Kernel) -> None:
        """Take a kernel whose posterior `from_numpyro` made."""
        checks.instance("kernel", kernel, Kernel, "such as ewsg_jax.sgld(bridged.posterior, …)")
        posterior = posterior_of(kernel)
        of_rows = _inside(posterior and posterior.batched_log_likelihood, RowDensities)
        log_prior = _inside(posterior and posterior.log_prior, SitePrior)
        if of_rows is None or log_prior is None:
            raise ValueError(
                "kernel must be of a posterior that ewsg_jax.from_numpyro made; got "
                f"{checks.describe(kernel)}"
            )
        self.kernel, self.call, self._prior = kernel, of_rows.call, log_prior

    @property
    def model(self) -> Callable[..., Any]:
        """The NumPyro model."""
        return self.call.model

    @property
    def sample_field(self) -> str:
        """The field of the state that holds the values of sites."""
        return "z"

    def init(
        self,
        rng_key: Key,
        num_warmup: int,
        init_params: Any,
        model_args: tuple[Any, ...],
        model_kwargs: dict[str, Any] | None,
    ) -> NumpyroState:
        """Return the first state of a chain, or of as many as there are keys."""
        call = self._called(model_args, model_kwargs)
        data, keys = self._data(call), _typed(rng_key)
        if init_params is None:
            init_params = start(call, keys)
        first, later = jnp.moveaxis(jax.vmap(jax.random.split)(jnp.atleast_1d(keys)), 1, 0)

        def of_chain(key: Key, position: Position) -> KernelState:
            return self.kernel.init(key, position, data)

        if keys.ndim:
            state = jax.vmap(of_chain)(first, init_params)
        else:
            state, later = of_chain(first[0], init_params), later[0]
        return NumpyroState(state.position, state, later)

    def sample(
        self,
        state: NumpyroState,
        model_args: tuple[Any, ...],
        model_kwargs: dict[str, Any] | None,
    ) -> NumpyroState:
        """Return the state after one step, of each chain."""
        data = self._data(self._called(model_args, model_kwargs))

        def step(key: Key, kernel_state: KernelState) -> tuple[KernelState, Key]:
            now, later = jax.random.split(key)
            return self.kernel.step(now, kernel_state, data)[0], later

        keys = _typed(state.rng_key)
        moved = jax.vmap(step) if keys.ndim else step
        kernel_state, later = moved(keys, state.kernel_state)
        return NumpyroState(kernel_state.position, kernel_state, later)

    def postprocess_fn(
        self, model_args: tuple[Any, ...], model_kwargs: dict[str, Any] | None
    ) -> Callable[..., dict[str, Array]]:
        """Return the function from unconstrained values to values of all sites."""
        return Constrained(self._called(model_args, model_kwargs))

    def _data(self, call: ModelCall) -> Data:
        return jax.tree.map(jnp.asarray, call.data())

    def _called(self, arguments: tuple[Any, ...], keywords: dict[str, Any] | None) -> ModelCall:
        """Return the model's call with other data.

        Raises:
            ValueError: other arguments than rows differ from those that the posterior was made
                with, or the prior depends on the data.
        """
        if not arguments and not keywords:
            return self.call
        arguments, keywords = in_dtypes_of_jax((arguments, keywords or {}))
        call = dataclasses.replace(self.call, arguments=arguments, keywords=keywords)
        known = self.call.leaves()
        fixed = known if self._prior.rows is None else known.keys() - self.call.axes.keys()
        changed = [name for name, leaf in call.leaves().items() if name not in known] + [
            name for name in fixed if not _is_same(known[name], call.leaves().get(name))
        ]
        if changed:
            raise ValueError(
                "MCMC.run must be given the arguments that the model was bridged with, other rows "
                f"apart; got another {', '.join(sorted(set(changed)))}: make the posterior and the "
                "kernel again, ewsg_jax.from_numpyro(model, …)"
            )
        return call


def _inside(function: Any, kind: type) -> Any:
    """Return the function of a kind that others wrap; None if there is none."""
    while function is not None and not isinstance(function, kind):
        names = ("function", "log_likelihood", "log_prior")
        function = next((getattr(function, k) for k in names if hasattr(function, k)), None)
    return function


def _is_same(known: Any, value: Any) -> bool:
    if known is value:
        return True
    if value is None or checks.is_traced(value):
        return False
    return bool(np.array_equal(np.asarray(known), np.asarray(value)))


def _typed(key: Any) -> Key:
    """Return keys as typed ones."""
    is_typed = jnp.issubdtype(key.dtype, jax.dtypes.prng_key)
    return key if is_typed else jax.random.wrap_key_data(key)
