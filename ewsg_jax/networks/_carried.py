"""A kernel of a network whose carried leaves are arguments of its programs, not constants in them.

A compiled program holds what its functions close over, as text: twice the bytes of the leaves, in
each of a run's programs. This kernel has them as leaves of its own, and while a step is traced the
model's functions read these instead.
"""

from typing import Any

from ewsg_jax.base import checks
from ewsg_jax.base.modules import module, static
from ewsg_jax.base.typing import Data, Key, P
from ewsg_jax.gradients import Evaluations
from ewsg_jax.kernels.pair import Pair
from ewsg_jax.kernels.protocol import Info, Kernel, KernelState, Randomness, posterior_of
from ewsg_jax.networks._model import Assembly, NetworkModel


@module
class Carrying(Kernel[P]):
    """The kernel of `carry` of one without a dynamics, or on batches of a stream.

    Attributes:
        kernel: the kernel that makes the steps.
        carried: the leaves that are not sampled.
        assembly: the parts of the model, whose functions read them.
    """

    # None in addition to those of its kernel.
    needs = frozenset()

    kernel: Kernel[Any]
    carried: Any
    assembly: Assembly = static()

    def __getattr__(self, name: str) -> Any:
        # Its dynamics, estimator and numbers; not before there is a kernel.
        if name.startswith("__") or "kernel" not in vars(self):
            raise AttributeError(name)
        return getattr(self.kernel, name)

    def __repr__(self) -> str:
        return f"carry({self.kernel!r}, {len(self.carried)} leaves)"

    def viewed(self, data: Data) -> Data:
        return self.kernel.viewed(data)

    def init(self, key: Key, position: P, data: Data) -> KernelState[P]:
        # First by the model's own arrays, for the model is traced and remembered then.
        self.kernel.check(position, data)
        with self.assembly.reading(self.carried):
            return self.kernel.init(key, position, data)

    def step(self, key: Key, state: KernelState[P], data: Data) -> tuple[KernelState[P], Info]:
        return super().step(key, state, self.viewed(data))

    def draw(self, key: Key, state: KernelState[P], data: Data) -> Randomness:
        return self.kernel.draw(key, state, data)

    def transition(
        self, randomness: Randomness, state: KernelState[P], data: Data
    ) -> tuple[KernelState[P], Info]:
        with self.assembly.reading(self.carried):
            return self.kernel.transition(randomness, state, data)

    def evaluations(self, data: Data) -> Evaluations:
        return self.kernel.evaluations(data)

    def check(self, position: P, data: Data) -> None:
        self.kernel.check(position, data)


@module
class CarryingPair(Pair[P]):
    """The kernel of `carry` of a dynamics with an estimator, which is one itself.

    Attributes:
        carried: the leaves that are not sampled.
        assembly: the parts of the model, whose functions read them.
    """

    carried: Any
    assembly: Assembly = static()

    def __repr__(self) -> str:
        plain = Pair(dynamics=self.dynamics, estimator=self.estimator)
        return f"carry({plain!r}, {len(self.carried)} leaves)"

    def init(self, key: Key, position: P, data: Data) -> KernelState[P]:
        # As above.
        self.check(position, data)
        with self.assembly.reading(self.carried):
            return super().init(key, position, data)

    def transition(
        self, randomness: Randomness, state: KernelState[P], data: Data
    ) -> tuple[KernelState[P], Info]:
        with self.assembly.reading(self.carried):
            return super().transition(randomness, state, data)


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
    if type(kernel) is Pair:
        return CarryingPair(
            dynamics=kernel.dynamics,
            estimator=kernel.estimator,
            carried=model._assembly.constants,
            assembly=model._assembly,
        )
    return Carrying(kernel=kernel, carried=model._assembly.constants, assembly=model._assembly)
