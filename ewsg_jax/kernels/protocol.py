"""What a kernel is: all that is random in a step is drawn first, the rest is deterministic.

init(key, position, data)             -> state
draw(key, state, data)                -> randomness      row numbers, uniforms, normals
fetch(randomness, data)               -> randomness      with its rows of the data, maybe ahead
transition(randomness, state, data)   -> (state, info)   deterministic
step(key, state, data)                =  transition(draw(key, state, data), state, data)
"""

import abc
import dataclasses
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any, Generic, NamedTuple

import jax
import numpy as np

from ewsg_jax.base import checks, numeric
from ewsg_jax.base.modules import Part, module
from ewsg_jax.base.needs import EVERYTHING, parts_of
from ewsg_jax.base.typing import Array, Data, Key, P, Position, PyTree, Scalar
from ewsg_jax.dynamics._protocol import Constant
from ewsg_jax.gradients import Evaluations
from ewsg_jax.posterior.posterior import Posterior
from ewsg_jax.rows._view import all_rows, fetch

Signature = tuple[Hashable, ...]
"""Structures, shapes and dtypes of a kernel, a key, a state and data."""


@jax.tree_util.register_static
class Origin(NamedTuple):
    """What the sums in a state are made of, as digests; None for what is not known.

    Attributes:
        rows: the rows, in their order.
        likelihood: the log likelihood, with what it reads.
    """

    rows: str | None = None
    likelihood: str | None = None


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class Checked:
    """What `init` checked: in the state's structure, so that a step compares it while tracing.

    Attributes:
        num_rows: n.
        signature: structures, shapes and dtypes that were checked; None if they are not known.
            Equality and copies leave it out: states of different kernels, or of another process,
            keep one structure.
        origin: what stands for the rows and the likelihood of the run that the state is the last
            one of; unknown of a state after a `step`. Equality leaves it out.
    """

    num_rows: int
    signature: Signature | None = dataclasses.field(default=None, compare=False, repr=False)
    origin: Origin = dataclasses.field(default=Origin(), compare=False, repr=False)

    def __reduce__(self) -> tuple[type["Checked"], tuple[Any, ...]]:
        return Checked, (self.num_rows, None, self.origin)


class KernelState(NamedTuple, Generic[P]):
    """The state of the dynamics and the estimator's memory: with a key, all there is to a chain.

    Attributes:
        dynamics: the position, the step number and what else the dynamics carries.
        memory: what the estimator keeps between steps, `()` if it keeps nothing.
        rows: how many rows `init` saw and what it checked, None if that is not known. A step on
            other data would take its batch for all rows.
        order: the seed of the chain's permutations of the rows, uint32, shape (4,); `()` for a
            kernel that draws its batches at random.
    """

    dynamics: Any
    memory: PyTree
    rows: Checked | None = None
    order: Any = ()

    @property
    def position(self) -> P:
        """The position θ, a pytree like the one that `init` got."""
        return self.dynamics.position

    @property
    def step(self) -> Array:
        """The number of steps made, int32."""
        return self.dynamics.step

    def at_step(self, step: Array) -> "KernelState[P]":
        """Return the state with another step number, for drawing randomness ahead."""
        return self._replace(dynamics=self.dynamics._replace(step=step))


def chain_axes(shared_memory: bool) -> KernelState:
    """Return the chain axis of each part of a state, for `vmap`: a shared memory has none."""
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
        index_acceptance: share of the index chain's proposals accepted; 1 without an index chain.
        acceptance: share of Metropolis proposals accepted; 1 for a kernel without them.
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
    """A Markov kernel: the pure functions `init(key, position, data)` and `step(key, state, data)`.

    `kernel(dynamics, estimator)` joins two parts; the exact methods are kernels themselves. Kernels
    are values: they can be compared, stored and pickled. They are pytrees with numbers as leaves:
    `jax.vmap` over a kernel whose leaves have a leading axis is a grid, in one program.
    """

    # A kernel that does not say otherwise may read all data in a step.
    needs = EVERYTHING

    @abc.abstractmethod
    def init(self, key: Key, position: P, data: Data) -> KernelState[P]:
        """Return the first state of a chain.

        Args:
            key: a typed PRNG key, consumed.
            position: the start, a pytree of floating-point arrays, all finite.
            data: a pytree of arrays that share their leading axis n.

        Raises:
            TypeError, ValueError: an argument has the wrong type or value.
        """

    @abc.abstractmethod
    def draw(self, key: Key, state: KernelState[P], data: Data) -> Randomness:
        """Return everything random in a step, from shapes and the step number alone.

        Args:
            key: a typed PRNG key, consumed.
            state: the state before the step; of its values only `step` and `order` may be read,
                because the randomness of many steps is drawn ahead.
            data: the data, for their shapes.
        """

    @abc.abstractmethod
    def transition(
        self, randomness: Randomness, state: KernelState[P], data: Data
    ) -> tuple[KernelState[P], Info]:
        """Return the next state and what the step reports, a deterministic function.

        Args:
            randomness: what `draw` returned, or `fetch`, which adds the rows.
            state: the state before the step.
            data: the data, for rows that `randomness` has not.
        """

    if TYPE_CHECKING:  # a method of one kernel, a field of another

        @property
        def step_size(self) -> Callable[[Array], Scalar]:
            """The step size used at step number `step`."""
            ...

    @abc.abstractmethod
    def evaluations(self, data: Data) -> Evaluations:
        """Return how many ∇Vᵢ are evaluated, per step and by `init`, for data of these shapes."""

    @abc.abstractmethod
    def check(self, position: P, data: Data) -> None:
        """Raise what is wrong with a position and data, by type, shape and dtype.

        Raises:
            TypeError, ValueError: the kernel does not take them.
        """

    def viewed(self, data: Data) -> Data:
        """Return the data as steps see them, which is another view if a batch stands for all."""
        return data

    def fetch(self, randomness: Randomness, data: Data) -> Randomness:
        """Return the randomness of any number of steps and chains with its rows of the data."""
        return fetch(randomness, data)

    def step(self, key: Key, state: KernelState[P], data: Data) -> tuple[KernelState[P], Info]:
        """Make one step: draw everything random, then move.

        Args:
            key: a typed PRNG key, consumed.
            state: what `init` or the last step returned.
            data: a pytree of arrays that share their leading axis n.

        Returns:
            The next state, and what the step reports.

        Raises:
            TypeError, ValueError: the key is not a PRNG key, the state is not one of this kernel,
                or the data do not fit it. The checks are made while tracing, and cost nothing in
                compiled code.
        """
        state = _checked(self, key, state, data)
        return self.transition(self.draw(key, state, data), state, data)

    def bind(self, data: Data) -> BoundKernel[P]:
        """Return `init(position, rng_key)` and `step(rng_key, state)` on fixed data, as BlackJAX's
        loops take.

        The data become constants of whatever compiles the step: fine for small data; for large data
        pass them to `step` as an argument.

        Raises:
            TypeError, ValueError: the data are not a pytree of arrays of one length.

        Example:
            >>> import jax, jax.numpy as jnp, ewsg_jax as ewsg
            >>> kernel = ewsg.sgld(ewsg.models.gaussian_location(), 1e-3, batch_size=2)
            >>> algorithm = kernel.bind(jnp.ones((5, 1)))
            >>> state = algorithm.init(jnp.zeros(1), jax.random.key(0))
            >>> state, info = algorithm.step(jax.random.key(1), state)
            >>> int(state.step), int(info.gradient_evaluations)
            (1, 2)
        """
        data = numeric.native(data)
        checks.data(data)

        # BlackJAX gives positions first, and its loops may leave the key out.
        def init(position: P, rng_key: Key | None = None) -> KernelState[P]:
            key = jax.random.key(0) if rng_key is None else checks.key(rng_key, "rng_key")
            return self.init(key, position, data)

        def step(rng_key: Key, state: KernelState[P]) -> tuple[KernelState[P], Info]:
            return self.step(checks.key(rng_key, "rng_key"), state, data)

        return BoundKernel(init, step)


def temperature_of(kernel: Kernel) -> Callable[[Array], Scalar]:
    """Return T of the target exp(−V/T) as a function of the step, 1 for a kernel without one."""
    return getattr(kernel, "temperature", Constant(value=1.0))


def posterior_of(kernel: Kernel[P]) -> Posterior[P] | None:
    """Return the posterior that a kernel, or the first of its parts to have one, holds; or None."""
    posteriors = (getattr(part, "posterior", None) for part in parts_of(kernel))
    return next((one for one in posteriors if one is not None), None)


def first_state(
    kernel: Kernel,
    key: Key,
    dynamics: Any,
    memory: PyTree,
    data: Data,
    order: Array | tuple[()] = (),
) -> KernelState:
    """Return a chain's first state, for an `init` that has checked its arguments.

    Args:
        kernel: the kernel that `init` was called on.
        key: the key that `init` got, or any other of its kind.
        dynamics: the first state of the dynamics.
        memory: the first memory of the estimator.
        data: the data that `init` got.
        order: the seed of the chain's permutations of the rows.
    """
    state = KernelState(dynamics, memory, Checked(all_rows(data)), order)
    return (
        state if _batched(kernel) else _with_signature(state, _signature(kernel, key, state, data))
    )


def check_numbers(kernel: Kernel) -> None:
    """Raise if a kernel's leaves are batched, as those of kernels made under `vmap` are."""
    if hasattr(kernel, "differs"):
        return  # a stack: its leaves are those of several kernels
    for name, value in _batched(kernel).items():
        raise ValueError(
            f"kernel must be of one {name}, or a stack, ewsg_jax.stack(kernel); got one made "
            f"under vmap, with {name} of shape {np.shape(value)}"
        )


def check_rows(state: KernelState, data: Data) -> None:
    """Check that data have as many rows as those that the state was made on."""
    checks.data(data)
    n = all_rows(data)
    if state.rows is not None and state.rows.num_rows != n:
        raise ValueError(
            f"data must be all {state.rows.num_rows} rows that init saw; got {n}: the kernel draws "
            "its batches of batch_size rows from them itself, so give it no minibatches; to "
            "continue with other data, start again from state.position, with init or sample"
        )


def check_origin(kernel: Kernel, state: KernelState, origin: Origin) -> None:
    """Check that a state was made on rows and by a likelihood, as far as is known.

    Args:
        kernel: the kernel that continues.
        state: the state.
        origin: the rows and the likelihood that its memory must be of.
    """
    if state.rows is None:
        return
    again = (
        "positions start again by sample(key, kernel, state.position, rows, …, stacked=True), that "
        "of one chain by kernel.init(key, state.position, rows)"
    )
    if are_others(state.rows.origin.rows, origin.rows):
        raise ValueError(
            f"data must be the {state.rows.num_rows} rows of the run whose state it is, in their "
            f"order: it may hold sums over these; got others: {again}"
        )
    # A state without a memory is a position and a momentum, which any likelihood may move on.
    remembers = bool(jax.tree.leaves(state.memory)) or not hasattr(kernel, "estimator")
    if remembers and are_others(state.rows.origin.likelihood, origin.likelihood):
        raise ValueError(
            "kernel must have the log_likelihood of the run whose state it is, which must read the "
            f"same values: the state holds sums of it; got another: {again}"
        )


def are_others(digest: str | None, other: str | None) -> bool:
    """Return whether digests are known, of one kind, and differ."""
    if digest is None or other is None or digest.split()[0] != other.split()[0]:
        return False
    return digest != other


def _checked(kernel: Kernel, key: Key, state: KernelState, data: Data) -> KernelState:
    """Return a state that goes with a kernel, a key and data, by their shapes; else raise.

    What has the signature that `init` recorded was checked there. Anything else, such as a state
    from a file or of a kernel with another schedule, is checked in full, and recorded.
    """
    if isinstance(state, KernelState) and state.rows is not None:
        signature = _signature(kernel, key, state, data)
        if signature is not None and signature == state.rows.signature:
            # The origin of a run's last state is that of its rows, which these may not be.
            is_known = state.rows.origin == Origin()
            return state if is_known else _with_signature(state, signature)
    _check_step(kernel, key, state, data)
    return _with_signature(state, _signature(kernel, key, state, data))


def _signature(kernel: Kernel, key: Key, state: KernelState, data: Data) -> Signature | None:
    """Return what the checks of a step depend on; None if a leaf is not an array of JAX."""
    numbers, of_kernel = jax.tree.flatten(kernel)
    # Not the record itself, which the signature becomes a part of.
    arrays, structure = jax.tree.flatten((key, state.dynamics, state.memory, state.order, data))
    if not all(isinstance(x, jax.Array) for x in arrays):
        return None
    return (
        of_kernel,
        structure,
        *((np.shape(x), getattr(x, "dtype", type(x))) for x in numbers),
        *((x.shape, x.dtype) for x in arrays),
        bool(jax.config.read("jax_enable_x64")),
    )


def _with_signature(state: KernelState, signature: Signature | None) -> KernelState:
    if state.rows is None:
        return state
    # Without its origin, which a program that is compiled once would give to states on other rows.
    return state._replace(rows=Checked(state.rows.num_rows, signature))


def _batched(kernel: Kernel) -> dict[str, Any]:
    """Return the numbers of a kernel that have axes, by their names."""
    parts = jax.tree_util.tree_leaves_with_path(
        kernel, is_leaf=lambda part: isinstance(part, Constant)
    )
    return {
        jax.tree_util.keystr(path[-1:], simple=True): part.value
        for path, part in parts
        if isinstance(part, Constant) and np.ndim(part.value)
    }


@jax.jit
def _start(kernel: Kernel, key: Key, position: Position, data: Data) -> KernelState:
    """The first state: asked for its shapes only, which are traced once for all equal kernels."""
    return kernel.init(key, position, data)


def _check_step(kernel: Kernel, key: Key, state: KernelState, data: Data) -> None:
    """Check a key, that the data fit the position, and that the state is as `init` makes it."""
    check_numbers(kernel)
    checks.key(key)
    made_by = "what init or step of this kernel returned"
    checks.instance("state", state, KernelState, made_by)
    if not hasattr(state.dynamics, "position"):
        raise TypeError(
            f"state must be a KernelState ({made_by}); got one whose dynamics is "
            f"{checks.describe(state.dynamics)}"
        )
    check_rows(state, data)
    # Values were checked by `init`: to check them in each step would take a pass over the data.
    shapes = checks.shapes(data)
    # Not by the `init` that is traced below, whose errors would come out of JAX.
    kernel.check(state.position, shapes)
    expected = _start.eval_shape(kernel, jax.random.key(0), checks.shapes(state.position), shapes)
    checks.same_tree(f"state must be {made_by} on such data", "state", state, expected)
