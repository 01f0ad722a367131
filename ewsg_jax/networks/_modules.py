"""Networks of flax.nnx and Equinox as functions of their parameters."""

from collections.abc import Callable
from typing import Any

import jax

from ewsg_jax.base import checks, optional
from ewsg_jax.base.typing import PyTree

_WRITES = (
    "module must be in evaluation mode, because the rows of a batch are independent; {} was "
    "written while it ran, so call module.eval() first (with_key=True is for dropout that is "
    "meant)"
)


def carrying(apply: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function marked as one that carries statistics of the inputs as they are."""
    apply.carries_statistics = True  # pyright: ignore[reportFunctionMemberAccess]
    return apply


def carries_statistics(apply: Callable[..., Any]) -> bool:
    """Return whether a function of `from_nnx` or `from_equinox` carries statistics of inputs."""
    return getattr(apply, "carries_statistics", False)


def from_nnx(module: Any, *, with_key: bool = False) -> tuple[Callable[..., Any], PyTree]:
    """Return `apply` and the parameters of a module of flax.nnx, as `networks.posterior` takes.

    Its other variables, such as statistics of batch normalisation, are carried as they are. What
    is returned is a copy: later changes of the module do not reach it.

    Args:
        module: a module, called with one row, in evaluation mode (`module.eval()`).
        with_key: whether `apply(params, x, key)` takes a key, from which the module's own random
            streams are seeded, for dropout in training mode. Default: `apply(params, x)`.

    Returns:
        The function, and the `nnx.Param` variables as nested dictionaries.

    Raises:
        ImportError: Flax is not installed.
        TypeError, ValueError: it is no such module; later, it is in training mode.

    Example:
        >>> import jax, jax.numpy as jnp, ewsg_jax as ewsg
        >>> from flax import nnx
        >>> apply, params = ewsg.networks.from_nnx(nnx.Linear(3, 2, rngs=nnx.Rngs(0)))
        >>> sorted(params), apply(params, jnp.ones(3)).shape
        (['bias', 'kernel'], (2,))
    """
    nnx = optional.module("flax.nnx", "networks.from_nnx")
    checks.boolean("with_key", with_key)
    checks.instance("module", module, nnx.Module, "a network of flax.nnx")
    definition, params, others = nnx.split(nnx.clone(module), nnx.Param, ...)

    def merged(values: PyTree, copy: bool) -> Any:
        # A new state of the same variables: the one below is filled in place.
        state = jax.tree.map(lambda x: x, params)
        nnx.replace_by_pure_dict(state, values)
        return nnx.merge(definition, state, others, copy=copy)

    def apply(values: PyTree, x: PyTree) -> Any:
        # Not a copy of the other variables: what writes them is refused by Flax.
        return merged(values, copy=False)(x)

    def apply_with_key(values: PyTree, x: PyTree, key: Any) -> Any:
        network = merged(values, copy=True)
        nnx.reseed(network, default=key)
        # In training mode dropout is meant; statistics of a batch that one row writes are not.
        before = nnx.to_flat_state(nnx.state(network, nnx.BatchStat))
        before = {path: variable.get_value() for path, variable in before}
        output = network(x)
        for path, variable in nnx.to_flat_state(nnx.state(network, nnx.BatchStat)):
            if variable.get_value() is not before[path]:
                raise ValueError(_WRITES.format("/".join(map(str, path))))
        return output

    has_statistics = bool(nnx.to_flat_state(nnx.state(module, nnx.BatchStat)))
    function = apply_with_key if with_key else apply
    return carrying(function) if has_statistics else function, nnx.to_pure_dict(params)


def from_equinox(
    module: Any, *, state: Any = None, with_key: bool = False
) -> tuple[Callable[..., Any], PyTree]:
    """Return `apply` and the parameters of an Equinox module, as `networks.posterior` takes them.

    Args:
        module: a module, called with one row, in inference mode
            (`equinox.nn.inference_mode(module)`).
        state: the `equinox.nn.State` of a module that is called with (x, state), such as one with
            batch normalisation. It is carried as it is. Default: the module is called with (x).
        with_key: whether `apply(params, x, key)` takes a key, by which the module is called with
            `key=key`, for dropout in training mode. Default: `apply(params, x)`.

    Returns:
        The function, and the module with its floating-point arrays alone.

    Raises:
        ImportError: Equinox is not installed.
        TypeError: it is no such module.

    Example:
        >>> import equinox, jax, jax.numpy as jnp, ewsg_jax as ewsg
        >>> network = equinox.nn.MLP(3, 2, 8, depth=1, key=jax.random.key(0))
        >>> apply, params = ewsg.networks.from_equinox(network)
        >>> apply(params, jnp.ones(3)).shape
        (2,)
    """
    equinox = optional.module("equinox", "networks.from_equinox")
    checks.boolean("with_key", with_key)
    checks.instance("module", module, equinox.Module, "a network of Equinox")
    checks.function("module", module, "of one row")
    params, others = equinox.partition(module, equinox.is_inexact_array)

    def apply(values: PyTree, x: PyTree, *key: Any) -> Any:
        network = equinox.combine(values, others)
        named = {"key": key[0]} if with_key else {}
        # The state after the row is that before it, unless the module is in training mode.
        return network(x, **named) if state is None else network(x, state, **named)[0]

    def apply_with_key(values: PyTree, x: PyTree, key: Any) -> Any:
        return apply(values, x, key)

    def apply_without(values: PyTree, x: PyTree) -> Any:
        return apply(values, x)

    function = apply_with_key if with_key else apply_without
    return function if state is None else carrying(function), params
