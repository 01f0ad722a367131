"""A kernel of a network whose carried leaves are arguments of its programs, not constants in them.

A compiled program holds what its functions close over, as text: twice the bytes of the leaves, in
each of a run's programs. This kernel has them as leaves of its own, and while a step is traced the
model's functions read these instead.
"""

import dataclasses
import functools
from typing import Any, ClassVar, cast

from ewsg_jax.base import checks
from ewsg_jax.base.modules import module, static
from ewsg_jax.base.typing import Data, Key, P
from ewsg_jax.kernels.protocol import Info, Kernel, KernelState, Randomness, posterior_of
from ewsg_jax.networks._model import Assembly, NetworkModel


@module
class Carrying(Kernel[P]):
    """What a kernel of `carry` adds to the class of the kernel it is made from, its other base.

    Attributes:
        kind: the class of the kernel without what is carried.
        carried: the leaves that are not sampled.
        assembly: the parts of the model, whose functions read them.
    """

    kind: ClassVar[type[Kernel]]

    carried: Any
    assembly: Assembly = static()

    def __repr__(self) -> str:
        return f"carry({self.kind(**_fields(self, self.kind))!r}, {len(self.carried)} leaves)"

    def init(self, key: Key, position: P, data: Data) -> KernelState[P]:
        # First by the model's own arrays, for the model is traced and remembered then.
        self.check(position, data)
        with self.assembly.reading(self.carried):
            return super().init(key, position, data)

    def transition(
        self, randomness: Randomness, state: KernelState[P], data: Data
    ) -> tuple[KernelState[P], Info]:
        with self.assembly.reading(self.carried):
            return super().transition(randomness, state, data)


@functools.cache
def _carrying(kind: type[Kernel]) -> Any:
    """Return the class of kernels of a kind that carry: `isinstance(kernel, kind)` holds."""
    members = {"__module__": __name__, "kind": kind}
    return module(type(f"Carrying{kind.__name__}", (Carrying, kind), members))


def _fields(kernel: Kernel, kind: type[Kernel]) -> dict[str, Any]:
    """Return the fields that a kernel has as one of a kind."""
    names = (field.name for field in dataclasses.fields(cast(Any, kind)))
    return {name: getattr(kernel, name) for name in names}


def carry(kernel: Kernel[P], model: NetworkModel) -> Kernel[P]:
    """Return a kernel of a network whose leaves that are not sampled are arguments of its programs.

    For a last layer or adapters of a large network. Without it the programs of a run hold these
    leaves as constants, which take time to compile and memory: with 80 MB of them each program has
    160 MB of text. The draws are the same, and so are the answers of `forecast` and `halve`.

    Args:
        kernel: a kernel of `model.posterior`.
        model: the model, some leaves of which are not sampled.

    Raises:
        TypeError: an argument has the wrong type.
        ValueError: the kernel is of another posterior.

    Example:
        >>> import jax, jax.numpy as jnp, ewsg_jax as ewsg
        >>> def apply(params, x):
        ...     return jnp.tanh(x @ params["base"]) @ params["last"]
        >>> params = {"base": jnp.ones((2, 50)), "last": jnp.ones((50, 2))}
        >>> data = {"x": jnp.arange(12.0).reshape(6, 2), "y": jnp.arange(6.0)}
        >>> model = ewsg.networks.posterior(
        ...     apply, params, data, likelihood="normal", sampled="last"
        ... )
        >>> kernel = ewsg.sghmc(model.posterior, 1e-3, friction=1.0, batch_size=2)
        >>> kernel = ewsg.networks.carry(kernel, model)
        >>> samples = ewsg.sample(jax.random.key(0), kernel, model.position, data, 100)
        >>> samples.draws["last"].shape
        (1, 100, 50, 2)
    """
    checks.instance("kernel", kernel, Kernel, "one of ewsg_jax's methods")
    checks.instance("model", model, NetworkModel, "what ewsg_jax.networks.posterior returns")
    if posterior_of(kernel) != model.posterior:
        raise ValueError(
            f"kernel must be of model.posterior; got {kernel!r}, which is of another posterior"
        )
    if isinstance(kernel, Carrying):
        return kernel
    return _carrying(type(kernel))(
        **_fields(kernel, type(kernel)),
        carried=model._assembly.constants,
        assembly=model._assembly,
    )
