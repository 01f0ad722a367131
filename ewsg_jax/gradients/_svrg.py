"""Variance reduction by a snapshot: SVRG (Johnson & Zhang 2013; SVRG-LD, Dubey et al. 2016;
SVRG-HMC, Li et al.).

    g = ∇V₀(θ) + (n/b) Σ_{i∈I} (∇Vᵢ(θ) − ∇Vᵢ(w)) + Σᵢ ∇Vᵢ(w)

with a snapshot w of the position, whose full gradient is kept. Every K steps, the first included, a
new snapshot is taken:

    option II  w ← the point at which the dynamics evaluates its gradient
    option I   w ← the point of ℓ steps ago, ℓ uniform on 0 … K−1, and the chain restarts there

(Option I is as in Johnson & Zhang: the papers on sampling lack these lines; a momentum is kept.
The position then advances by (K + 1)/(2K) of what the momentum makes on average, and as h → 0 the
variance of θ is that share of the right one. Langevin dynamics, which has no momentum, keeps its
stationary distribution.)

Unbiased. The covariance is the plain gradient's with ∇Vᵢ(θ) − ∇Vᵢ(w) in place of ∇Vᵢ(θ): zero at
the snapshot. On a quadratic the remaining noise is of order h²(K − 1) under Langevin, h³(K − 1)(2K
− 1) under underdamped dynamics. 2b evaluations a step and n at each refresh; memory of two
positions (option I: three). Under `vmap` a refresh is one full gradient for all chains, if they are
at the same step.
"""

from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp

from ewsg_jax.base import checks, pytrees, rng
from ewsg_jax.base.modules import module, static
from ewsg_jax.base.typing import Array, Data, Key, P, Position, PyTree
from ewsg_jax.gradients._period import Period, Refreshed, checked_period
from ewsg_jax.gradients._protocol import Estimate, Evaluations, NoiseModel, Weight
from ewsg_jax.gradients._reference_point import SplitEstimator, estimate_from_reference
from ewsg_jax.posterior.posterior import Posterior, check_posterior
from ewsg_jax.rows._named import Rows, sampling_scheme
from ewsg_jax.rows._scheme import Order
from ewsg_jax.rows._view import CHUNK_SIZE, fetched, num_rows


class SVRGMemory(NamedTuple):
    """What is kept between steps.

    Attributes:
        anchor: w, the snapshot, a pytree like the position.
        gradient: Σᵢ ∇Vᵢ(w), shaped like the position, at least in float32; on a part of the data
            the sum over its rows.
        candidate: with option I a uniform choice of the points since the last refresh, else `()`.
    """

    anchor: Position
    gradient: Position
    candidate: PyTree


class SVRGDraw(NamedTuple):
    """Randomness of the batch, and (option I) a word that chooses the next snapshot."""

    batch: PyTree
    word: PyTree


@module
class SVRG(Refreshed[P], SplitEstimator[P]):
    """The estimator of `svrg`."""

    needs = frozenset()

    option: str = static(default="II")
    chunk_size: int = static(default=CHUNK_SIZE)

    @property
    def restarts(self) -> bool:
        """Whether a chain restarts at its new snapshot."""
        return self.option == "I"

    def init(self, key: Key, position: Position, data: Data) -> SVRGMemory:
        # The first step refreshes.
        zero = pytrees.widened(pytrees.zeros_like(position))
        # Copies, because the caller's arrays may be donated.
        candidate = pytrees.copy(position) if self.restarts else ()
        return SVRGMemory(pytrees.copy(position), zero, candidate)

    def draw(self, key: Key, data: Data, order: Order | None = None) -> SVRGDraw:
        if not self.restarts:
            return SVRGDraw(super().draw(key, data, order), ())
        # The word is drawn in every step, so that the randomness has one structure in all of them.
        batch_key, word_key = jax.random.split(key)
        return SVRGDraw(super().draw(batch_key, data, order), rng.index_words(word_key, 1, 1)[:, 0])

    def refresh(
        self, randomness: SVRGDraw, memory: SVRGMemory, step: Array, point: Position, data: Data
    ) -> tuple[SVRGMemory, Position, Array | int]:
        if self.restarts:
            # The points 1 … K since the last refresh: the i-th takes the last one's place with
            # probability 1/i.
            every = self.period(data)
            place = (step - 1) % every + 1
            number, _ = rng.scaled(randomness.word, place.astype(jnp.uint32))
            taken = (step == 0) | (number == 0)
            memory = memory._replace(candidate=pytrees.where(taken, point, memory.candidate))
            point = pytrees.where(step % every == 0, memory.candidate, point)
        # Before the step: after it, option I would restart at a point that the step has left.
        return super().refresh(randomness, memory, step, point, data)

    def renewed(self, memory: SVRGMemory, point: Position, data: Data) -> SVRGMemory:
        gradient = self.posterior.likelihood_gradient(point, data, self.chunk_size, widened=True)
        return memory._replace(anchor=point, gradient=gradient)

    def propose(
        self, randomness: SVRGDraw, memory: SVRGMemory, point: Position, data: Data, weight: Weight
    ) -> tuple[Estimate, tuple[()]]:
        batch = fetched(randomness.batch, data)
        return estimate_from_reference(
            self.posterior, memory.anchor, memory.gradient, batch, point, data
        ), ()

    def batches(self, data: Data) -> SVRGDraw:
        listed = self.law.batches(data)
        # All batches are compared at one point and no candidate is chosen: any word will do.
        words = jnp.zeros((num_rows(listed), 1), jnp.uint32) if self.restarts else ()
        return SVRGDraw(listed, words)

    def evaluations(self, data: Data) -> Evaluations:
        # A batch at the point and at the snapshot; further gradients reuse the snapshot's part.
        return super().evaluations(data)._replace(per_step=2 * self.batch_size)

    def noise_model(self, data: Data) -> NoiseModel:
        if self.restarts:
            return NoiseModel(unknown="option='I', which restarts chains")
        return NoiseModel(self, "refreshed", period=self.period(data))


def svrg(
    posterior: Posterior[P],
    *,
    batch_size: int,
    refresh_every: Period = None,
    option: Literal["I", "II"] = "II",
    replace: bool = True,
    rows: Rows = "random",
    chunk_size: int = CHUNK_SIZE,
) -> SVRG[P]:
    """Estimate ∇V by the full gradient at a recent snapshot plus a difference on b rows.

    Args:
        posterior: the target.
        batch_size: b, the number of rows in a batch.
        refresh_every: K, steps from one snapshot to the next: a whole number, or a function of n
            that returns one. Default: ⌈n/b⌉.
        option: which point becomes the snapshot: `"II"` (default), the point at which the gradient
            is evaluated; `"I"`, the point of ℓ steps ago, ℓ uniform on 0 … K − 1, from which the
            chain then restarts. With a momentum `"I"` does not target the posterior at any step
            size: variances are about (K + 1)/(2K) of the right ones.
        replace: draw rows with replacement (default), or (False) a uniform subset.
        rows: `"random"` (default), or another sampling scheme of `uniform`, with `replace=True`.
        chunk_size: number of rows that a full gradient takes at once, which bounds its memory.

    Raises:
        TypeError, ValueError: an argument has the wrong type or value.

    Example:
        >>> import ewsg_jax as ewsg
        >>> estimator = ewsg.gradients.svrg(ewsg.models.logistic_regression(), batch_size=10)
        >>> svrg_hmc = ewsg.kernel(ewsg.dynamics.semi_implicit(1e-2, friction=1.0), estimator)
    """
    check_posterior(posterior)
    scheme = sampling_scheme(batch_size, replace, rows)
    every = checked_period("refresh_every", refresh_every)
    checks.one_of("option", option, ("I", "II"))
    checks.integer("chunk_size", chunk_size)
    return SVRG(
        posterior=posterior,
        law=scheme,
        refresh_every=every,
        option=option,
        chunk_size=int(chunk_size),
    )
