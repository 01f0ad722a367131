"""Make one kernel of many, or of one for many data sets."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp

from ewsg_jax.base import checks
from ewsg_jax.base.typing import Data, P
from ewsg_jax.kernels.protocol import Kernel
from ewsg_jax.run.stacks.data import StackedData
from ewsg_jax.run.stacks.kernels import STACK_TAKES, Stack, joined


def stack(kernels: Sequence[Kernel[P]] | Kernel[P]) -> Stack[P]:
    """Join kernels that differ by numbers into one: step sizes, frictions, masses, centers.

    `ewsg_jax.sample` runs them in one program. A member that diverges is frozen and marked; the
    others continue.

    Args:
        kernels: one after the other; or one kernel whose leaves have a leading axis of members,
            such as `jax.vmap` of a function that makes a kernel returns.

    Returns:
        A kernel of positions with a leading axis of members: `len(stack)`, `stack[i]`, and
        `stack.values`, the numbers by which they differ.

    Raises:
        TypeError, ValueError: they are no kernels, or differ by more than numbers: by parts,
            functions or batch sizes.

    Example:
        >>> import jax, jax.numpy as jnp, ewsg_jax as ewsg
        >>> model = ewsg.models.gaussian_location()
        >>> grid = ewsg.stack([ewsg.sgld(model, h, batch_size=2) for h in (0.1, 0.01, 0.001)])
        >>> runs = ewsg.sample(
        ...     jax.random.key(0), grid, jnp.zeros(1), jnp.ones((6, 1)), 10, num_chains=4
        ... )
        >>> runs.values["step_size"].tolist(), runs[2].position.shape
        ([0.1, 0.01, 0.001], (4, 10, 1))
    """
    if isinstance(kernels, Kernel):
        checks.instance("kernels", kernels, Kernel, "some kernels, or one made under vmap")
        if isinstance(kernels, Stack):
            raise TypeError(f"{STACK_TAKES}; got a stack")
        leaves, structure = jax.tree.flatten(kernels)
        lengths = {jnp.shape(leaf)[0] if jnp.ndim(leaf) else 0 for leaf in leaves}
        if len(lengths) != 1 or 0 in lengths:
            raise ValueError(
                f"{STACK_TAKES}, each of whose leaves has an axis of members; got {kernels!r}"
            )
        (size,) = lengths
        return _of([structure.unflatten([leaf[i] for leaf in leaves]) for i in range(size)])
    if not isinstance(kernels, Sequence) or not kernels:
        raise TypeError(f"{STACK_TAKES}; got {checks.describe(kernels)}")
    for number, kernel in enumerate(kernels):
        if not isinstance(kernel, Kernel) or isinstance(kernel, Stack):
            raise TypeError(f"{STACK_TAKES}; got {checks.describe(kernel)} as number {number}")
        if jax.tree.structure(kernel) != jax.tree.structure(kernels[0]):
            raise ValueError(
                f"{STACK_TAKES}; got {kernels[0]!r} and, as number {number}, {kernel!r}"
            )
    return _of(kernels)


def over(kernel: Kernel, data: Any) -> tuple[Kernel, Data]:
    """Return a kernel over some data sets and their rows, as one; over other data as they are."""
    if not isinstance(data, StackedData):
        return kernel, data
    checks.instance("kernel", kernel, Kernel, "ewsg_jax.kernel(…) or a named method")
    members = kernel if isinstance(kernel, Stack) else _of([kernel] * len(data))
    if members.size != len(data):
        raise ValueError(
            f"kernel must be one, or a stack of one for each of {len(data)} data sets; got "
            f"{kernel!r}"
        )
    return dataclasses.replace(members, of_data=True), data.rows


def _of(kernels: Sequence[Kernel]) -> Stack:
    kernel, differs = joined(kernels)
    return Stack(kernel=kernel, size=len(kernels), differs=differs)
