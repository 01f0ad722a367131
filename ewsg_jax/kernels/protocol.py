"""What a kernel is: all that is random in a step is drawn first, the rest is deterministic.

init(key, position, data)             -> state
draw(key, state, data)                -> randomness      row numbers, uniforms, normals
fetch(randomness, data)               -> randomness      with its rows of the data, maybe ahead
transition(randomness, state, data)   -> (state, info)   deterministic
step(key, state, data)                =  transition(draw(key, state, data), state, data)
"""

import abc
import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, NamedTuple

import jax
import numpy as np

from ewsg_jax.base import checks
from ewsg_jax.base.modules import Part, module
from ewsg_jax.base.needs import EVERYTHING
from ewsg_jax.base.typing import Array, Data, Key, P, Position, PyTree, Scalar
from ewsg_jax.dynamics._protocol import Constant
from ewsg_jax.gradients import Evaluations
from ewsg_jax.rows._view import all_rows, fetch


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class RowsSeen:
    """How many rows `init` saw: in the state's structure, so that a step knows it while tracing."""

    count: int


class KernelState(NamedTuple, Generic[P]):
    """The state of the dynamics and the estimator's memory: with a key, all there is to a chain.

    Attributes:
        dynamics: the position, the step number and what else the dynamics carries.
        memory: what the estimator keeps between steps, `()` where it keeps nothing.
        rows: how many rows there are, where it is known: a step on other data would take its batch
            for all of them.
        order: what the chain's order of the rows is made from, uint32, shape (4,); `()` for a
            kernel without one.
    """

    dynamics: Any
    memory: PyTree
    rows: RowsSeen | None = None
    order: Any = ()

    @property
    def position(self) -> P:
        """The position θ, the tree that was given to `init`."""
        return self.dynamics.position

    @property
    def step(self) -> Array:
        """The number of steps made, int32."""
        return self.dynamics.step

    def at_step(self, step: Array) -> "KernelState[P]":
        """Return the state with another step number, for drawing randomness ahead."""
        return self._replace(dynamics=self.dynamics._replace(step=step))


def chain_axes(shared_memory: bool) -> KernelState:
    """Return where a state has its chain axis, for `vmap`: a memory that chains share has none."""
    chain: Any = 0
    return KernelState(chain, None if shared_memory else chain, order=chain)


class Randomness(NamedTuple):
    """Everything random in one step: what chooses the batch, and the noise of the dynamics."""

    batch: PyTree
    noise: PyTree


class Info(NamedTuple):
    """What a step reports, all scalars.

    Attributes:
        gradient_evaluations: how many ∇Vᵢ the step evaluated, int32; n of them are a data pass. The
            exact methods, which need no gradient, evaluate Vᵢ instead.
        is_finite: whether the new state holds neither NaN nor infinity.
        step_size: the h of this step.
        index_acceptance: share of the index chain's proposals accepted; 1 where there is no chain.
        acceptance: share of Metropolis' proposals accepted; 1 where none is made.
        overflow: whether a bounded set could not hold what it should, and so was not moved.
    """

    gradient_evaluations: Array | np.int32
    is_finite: Array
    step_size: Array
    index_acceptance: Array | np.float32 = np.float32(1.0)
    acceptance: Array | np.float32 = np.float32(1.0)
    overflow: Array | np.bool_ = np.bool_(False)


class BoundKernel(NamedTuple, Generic[P]):
    """A kernel with its data, in BlackJAX's form: `init(position, rng_key)`, `step(rng_key,
    state)`.
    """

    init: Callable[..., KernelState[P]]
    step: Callable[[Key, KernelState[P]], tuple[KernelState[P], Info]]


@module
class Kernel(Part, abc.ABC, Generic[P]):
    """A Markov kernel: pure functions of a state and of data, always an argument. It is a value.

    `kernel(dynamics, estimator)` makes one of two parts; the exact methods are kernels of their
    own. Numbers are leaves: `jax.vmap` over a kernel whose leaves have a leading axis is a grid, in
    one program.
    """

    # A kernel that does not say otherwise may look at all data in a step.
    needs = EVERYTHING

    @abc.abstractmethod
    def init(self, key: Key, position: P, data: Data) -> KernelState[P]:
        """Return the first state of a chain."""

    @abc.abstractmethod
    def draw(self, key: Key, state: KernelState[P], data: Data) -> Randomness:
        """Return everything random in a step, from shapes and the step counter alone."""

    @abc.abstractmethod
    def transition(
        self, randomness: Randomness, state: KernelState[P], data: Data
    ) -> tuple[KernelState[P], Info]:
        """Return the next state and what the step reports: deterministic, of what `draw` or `fetch`
        returned.
        """

    if TYPE_CHECKING:  # a method of one kernel, a field of another

        @property
        def step_size(self) -> Callable[[Array], Scalar]:
            """The step size used at step number `step`."""
            ...

    @abc.abstractmethod
    def evaluations(self, data: Data) -> Evaluations:
        """Return how many ∇Vᵢ are evaluated, per step and at init."""

    @abc.abstractmethod
    def check(self, position: P, data: Data) -> None:
        """Raise what is wrong with a position and data, by type, shape and dtype."""

    def fetch(self, randomness: Randomness, data: Data) -> Randomness:
        """Return the randomness of any number of steps and chains with its rows of the data."""
        return fetch(randomness, data)

    def step(self, key: Key, state: KernelState[P], data: Data) -> tuple[KernelState[P], Info]:
        """Make one step: draw everything random, then move.

        Args:
            key: a typed PRNG key, consumed.
            state: what `init` or the last step returned.
            data: a tree of arrays that share their leading axis n.

        Raises:
            TypeError, ValueError: the key is not a PRNG key, the state is not one of this kernel,
                or the data do not go with it. The checks are made while tracing, and cost nothing
                in compiled code.
        """
        _check_step(self, key, state, data)
        return self.transition(self.draw(key, state, data), state, data)

    def bind(self, data: Data) -> BoundKernel[P]:
        """Return `init(position, rng_key)` and `step(rng_key, state)` on fixed data, as BlackJAX's
        loops take.

        The data become constants of whatever compiles the step: fine for small data; for large data
        pass them to `step` as an argument.

        Raises:
            TypeError, ValueError: the data are no tree of arrays of one length.

        Example:
            >>> import jax, jax.numpy as jnp, ewsg_jax as ewsg
            >>> kernel = ewsg.sgld(ewsg.models.gaussian_location(), 1e-3, batch_size=2)
            >>> algorithm = kernel.bind(jnp.ones((5, 1)))
            >>> state = algorithm.init(jnp.zeros(1), jax.random.key(0))
            >>> state, info = algorithm.step(jax.random.key(1), state)
            >>> int(state.step), int(info.gradient_evaluations)
            (1, 2)
        """
        checks.data(data)

        # BlackJAX gives positions first, and its loops may leave the key out.
        def init(position: P, rng_key: Key | None = None) -> KernelState[P]:
            key = jax.random.key(0) if rng_key is None else checks.key(rng_key, "rng_key")
            return self.init(key, position, data)

        def step(rng_key: Key, state: KernelState[P]) -> tuple[KernelState[P], Info]:
            return self.step(checks.key(rng_key, "rng_key"), state, data)

        return BoundKernel(init, step)


@jax.jit
def _start(kernel: Kernel, key: Key, position: Position, data: Data) -> KernelState:
    """The first state: asked for its shapes only, which are traced once for all equal kernels."""
    return kernel.init(key, position, data)


def check_numbers(kernel: Kernel) -> None:
    """Raise if a kernel's leaves are batched, as those of kernels made under `vmap` are."""
    if hasattr(kernel, "differs"):
        return  # a stack: its leaves are those of several kernels
    parts = jax.tree_util.tree_leaves_with_path(
        kernel, is_leaf=lambda part: isinstance(part, Constant)
    )
    for path, part in parts:
        if isinstance(part, Constant) and np.ndim(part.value):
            name = jax.tree_util.keystr(path[-1:], simple=True)
            raise ValueError(
                f"kernel must be of one {name}, or a stack, ewsg_jax.stack(kernel); got one made "
                f"under vmap, with {name} of shape {np.shape(part.value)}"
            )


def check_rows(state: KernelState, data: Data) -> None:
    """Check that data have as many rows as those that the state was made on."""
    checks.data(data)
    n = all_rows(data)
    if state.rows is not None and state.rows.count != n:
        raise ValueError(
            f"data must be all {state.rows.count} rows that init saw; got {n}: the kernel draws "
            "its batches of batch_size rows from them itself, so give it no minibatches; to "
            "continue with other data, start again from state.position, with init or sample"
        )


def _check_step(kernel: Kernel, key: Key, state: KernelState, data: Data) -> None:
    """Check a key, that the data go with the position, and that the state is as `init` makes it."""
    check_numbers(kernel)
    checks.key(key)
    made_by = "what init or step of this kernel returned"
    checks.instance("state", state, KernelState, made_by)
    if not hasattr(state.dynamics, "position"):
        found = checks.describe(state.dynamics)
        raise TypeError(
            f"state must be a KernelState ({made_by}); got one whose dynamics is {found}"
        )
    check_rows(state, data)
    # Values were looked at by `init`: to look again in each step would take a pass over the data.
    shapes = checks.shapes(data)
    # Not by the `init` that is traced below, whose errors would come out of JAX.
    kernel.check(state.position, shapes)
    expected = _start.eval_shape(kernel, jax.random.key(0), checks.shapes(state.position), shapes)
    checks.same_tree(f"state must be {made_by} on such data", "state", state, expected)
