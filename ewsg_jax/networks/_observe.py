"""What a chain is like at one moment of a run: its potential, gradient and temperatures."""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ewsg_jax.base import checks, pytrees
from ewsg_jax.base.freshness import as_of_now
from ewsg_jax.base.typing import Array, Data, Position
from ewsg_jax.kernels.protocol import Kernel, KernelState, posterior_of
from ewsg_jax.posterior.posterior import Posterior


class Observed(NamedTuple):
    """What chains are like after a step, NumPy arrays of shape (chain,).

    Attributes:
        step: the number of steps made.
        potential: V of all rows, the prior included.
        gradient_norm: ‖∇V‖ over all rows.
        kinetic_temperature: ‖p‖²/d of the momentum, T on average under the target; None for a
            dynamics without a momentum that is N(0, T I).
        configurational_temperature: θ·∇V/d, T on average under the target.
    """

    step: np.ndarray
    potential: np.ndarray
    gradient_norm: np.ndarray
    kinetic_temperature: np.ndarray | None
    configurational_temperature: np.ndarray


def observe(kernel: Kernel, state: KernelState, data: Data) -> Observed:
    """Return potential, gradient norm and temperatures of chains, from all rows.

    To follow a run, make it in pieces and call this after each:
    `samples = ewsg_jax.sample(key, kernel, None, data, 100, state=samples.state)`. The pieces make
    the draws of one run. It costs one pass over the data for each chain.

    Args:
        kernel: the kernel of the run.
        state: `samples.state`, of all chains.
        data: the data of the run.

    Raises:
        TypeError: an argument has the wrong type.
        ValueError: the values of the kernel's potential are not known, as those of a random
            likelihood are not.

    Example:
        >>> import jax, jax.numpy as jnp, ewsg_jax as ewsg
        >>> data = jnp.arange(6.0)[:, None]
        >>> model = ewsg.models.gaussian_location()
        >>> kernel = ewsg.sghmc(model, 1e-2, friction=1.0, batch_size=2)
        >>> samples = ewsg.sample(jax.random.key(0), kernel, jnp.zeros(1), data, 100, num_chains=3)
        >>> observed = ewsg.networks.observe(kernel, samples.state, data)
        >>> observed.potential.shape, observed.kinetic_temperature.shape
        ((3,), (3,))
    """
    checks.instance("kernel", kernel, Kernel, "one of ewsg_jax's methods")
    checks.instance("state", state, KernelState, "samples.state of a run")
    posterior: Any = posterior_of(kernel)
    # What the posterior's functions read now, not when they were compiled.
    with as_of_now(posterior):
        potential, norm, product = _of_chains(posterior, state.position, data)
    count = pytrees.size(state.position, leading_axes=1)
    dynamics = getattr(kernel, "dynamics", None)
    kinetic = None
    if getattr(dynamics, "gaussian_momentum", False):
        squares = jax.vmap(pytrees.squared_norm)(state.dynamics.momentum)
        # The `exact` dynamics has a velocity, of variance u T.
        kinetic = np.asarray(squares) / (count * float(getattr(dynamics, "inverse_mass", 1.0)))
    return Observed(
        np.asarray(state.step),
        np.asarray(potential),
        np.asarray(norm),
        kinetic,
        np.asarray(product) / count,
    )


@functools.partial(jax.jit, static_argnums=0)
def _of_chains(posterior: Posterior, positions: Position, data: Data) -> tuple[Array, Array, Array]:
    """Return V, ‖∇V‖ and θ·∇V of each chain."""

    def of_chain(position: Position) -> tuple[Array, Array, Array]:
        gradient = posterior.gradient(position, data)
        norm = jnp.sqrt(pytrees.squared_norm(gradient))
        return posterior.potential(position, data), norm, pytrees.inner(position, gradient)

    # One chain after the other: all at once would take the memory of all their gradients.
    return jax.lax.map(of_chain, positions)
