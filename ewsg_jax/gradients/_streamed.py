"""The stochastic gradient on batches that the caller draws: g(θ; I) = ∇V₀(θ) + (N/b) Σᵢ ∇Vᵢ(θ).

A loader draws the batches I, one a step. What the estimates are follows from how it does:

- Shuffled epochs (each row once, in a new order each time) whose last, short batch is left out:
  every batch is a uniform subset of b rows. Estimates are unbiased, and those of one epoch are
  dependent, as with `rows="epochs"`; each epoch leaves N mod b other rows out.
- The same with the short last batch of b' rows: it is a uniform subset too, and scaled by N/b', so
  that it is unbiased. Its covariance is larger, about b/b' times.
- Rows in a fixed order, K batches an epoch: on average a row has the weight N/(K b), and one of the
  short batch N/(K b'). The target is exp(−(V₀ + Σ wᵢ Vᵢ)/T) with these weights, another one. If the
  short batch is left out its rows have no weight. Shuffle, or take a b that divides N.
- Rows drawn with replacement: independent batches, as `uniform` draws them.

b evaluations a step, no memory.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ewsg_jax.base import checks, numeric
from ewsg_jax.base.modules import module, static
from ewsg_jax.base.typing import Array, Data, Key, Memory, P, PyTree
from ewsg_jax.gradients._protocol import (
    Estimate,
    Evaluations,
    GradientEstimator,
    NoiseModel,
    Weight,
)
from ewsg_jax.posterior.posterior import Posterior, check_posterior
from ewsg_jax.rows._given import Given
from ewsg_jax.rows._scheme import Order
from ewsg_jax.rows._view import Batch, Block, Rows, fetched, num_rows


@module
class Streamed(GradientEstimator[P]):
    """The estimator of `streamed`.

    Attributes:
        num_data: N, the rows of the data set.
        unpack: makes the data of what a loader yields; None if that is the data.
    """

    needs = frozenset()

    num_data: int = static()
    unpack: Callable[[Any], Data] | None = static(default=None)

    def viewed(self, data: Data) -> Given:
        """Return a batch of the caller's as one that stands for all rows."""
        if isinstance(data, Given):
            return data
        if isinstance(data, Rows):
            raise ValueError(f"data must be a batch of the caller's; got {checks.describe(data)}")
        rows = self.arrays(data)
        count = checks.data(rows)
        check_fits(count, self.num_data)
        return Given(rows=rows, batch_size=count, total=self.num_data)

    def arrays(self, batch: Any) -> Data:
        """Return the data in what a loader yields, with arrays as leaves.

        Raises:
            ValueError: `unpack` fails on it, or it holds tensors that NumPy does not read.
        """
        if self.unpack is not None:
            try:
                batch = self.unpack(batch)
            except Exception as error:
                raise ValueError(
                    "unpack must be a function of what a loader yields that returns a pytree of "
                    f"arrays; it failed on {checks.describe(batch)}: {checks.reason(error)}"
                ) from error
        return numeric.native(jax.tree.map(_as_array, batch))

    def check(self, position: P, data: Data) -> None:
        rows = self.viewed(data).tree
        self.posterior.check(position, rows)
        self.posterior.check_gradient(position, rows)

    def draw(self, key: Key, data: Data, order: Order | None = None) -> Block | tuple[()]:
        batches = self.viewed(data)
        if batches.first is None or num_rows(batches) == batches.batch_size:
            return ()
        assert order is not None
        # Randomness is drawn for whole blocks of steps, of which the last may be beyond the rows.
        last = num_rows(batches) - batches.batch_size
        start = (order.step - batches.first[0]) * batches.batch_size
        start = jnp.clip(start, 0, last).astype(jnp.int32)
        return Block(start=start, size=batches.batch_size, around=False)

    def refresh(
        self, randomness: PyTree, memory: Memory, step: Array, point: P, data: Data
    ) -> tuple[Memory, P, Array | int]:
        # An array: a run adds up what steps evaluate, for a last batch may be short.
        return memory, point, jnp.int32(0)

    def propose(
        self, randomness: Block | tuple[()], memory: Memory, point: P, data: Data, weight: Weight
    ) -> tuple[Estimate, tuple[()]]:
        batches = self.viewed(data)
        if isinstance(randomness, Batch | Block):
            batch = fetched(randomness, batches)
        else:
            batch = Batch(jnp.arange(batches.batch_size, dtype=jnp.int32), batches.tree)
        return Estimate(self.posterior.gradient_on(point, batches, batch), batch), ()

    def gradient_at(self, estimate: Estimate, position: P, data: Data) -> P:
        return self.posterior.gradient_on(position, self.viewed(data), estimate.batch)

    def evaluations(self, data: Data) -> Evaluations:
        count = self.viewed(data).batch_size
        return Evaluations(count, count, counted=True, expected=float(count))

    def noise_model(self, data: Data) -> NoiseModel:
        return NoiseModel(unknown="batches that the caller draws, whose distribution is not known")


def streamed(
    posterior: Posterior[P],
    *,
    num_data: int,
    unpack: Callable[[Any], Data] | None = None,
) -> Streamed[P]:
    """Estimate ∇V from the batch that each step is given: of a loader, or of a loop of your own.

    `kernel.step(key, state, batch)` takes a batch in the place of the data, a pytree of arrays with
    a leading axis of b rows; its sum is scaled by N/b. `sample(…, batches=loader)` runs chains over
    a loader. Shuffle the rows: in a fixed order those of a short last batch count for more.

    Args:
        posterior: the target.
        num_data: N, the number of rows of the whole data set. A wrong one tempers the likelihood.
        unpack: `unpack(batch)` returns the data of what a loader yields, such as `lambda batch:
            {"x": batch[0], "y": batch[1]}`. Default: a batch is the data.

    Raises:
        TypeError, ValueError: an argument has the wrong type or value; at a step, a batch that is
            no pytree of arrays of one length, or has more than N rows.

    Example:
        >>> import jax, jax.numpy as jnp, numpy as np, ewsg_jax as ewsg
        >>> data = np.arange(12.0)[:, None] % 5
        >>> estimator = ewsg.gradients.streamed(ewsg.models.gaussian_location(), num_data=12)
        >>> kernel = ewsg.kernel(ewsg.dynamics.langevin(1e-3), estimator)
        >>> state = kernel.init(jax.random.key(0), jnp.zeros(1), data[:4])
        >>> for number, key in enumerate(jax.random.split(jax.random.key(1), 3)):
        ...     batch = jnp.asarray(data[4 * number : 4 * number + 4])
        ...     state, info = jax.jit(kernel.step)(key, state, batch)
        >>> int(state.step), int(info.gradient_evaluations)
        (3, 4)
    """
    check_posterior(posterior)
    checks.integer("num_data", num_data)
    if unpack is not None:
        checks.function("unpack", unpack, "(batch) -> pytree of arrays, or None")
    return Streamed(posterior=posterior, num_data=int(num_data), unpack=unpack)


def check_fits(count: int, num_data: int) -> None:
    """Raise ValueError if a batch has more rows than the data set."""
    if count > num_data:
        raise ValueError(
            f"num_data must be the rows of the whole data set, at least those of a batch, {count}; "
            f"got {num_data}"
        )


def _as_array(leaf: Any) -> Any:
    """Return a tensor of another library as an array of NumPy."""
    if isinstance(leaf, jax.Array | np.ndarray | jax.ShapeDtypeStruct):
        return leaf
    if not hasattr(leaf, "__array__"):
        return leaf
    try:
        return np.asarray(leaf)
    except Exception as error:
        raise ValueError(
            "a batch must hold arrays, or tensors that NumPy reads, which unpack may make of "
            f"others; got {type(leaf).__name__}: {checks.reason(error)}"
        ) from error
