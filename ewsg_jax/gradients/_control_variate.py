"""Variance reduction around a fixed centre (SGLD-CV, Baker et al. 2019; CV-LD and CV-ULD, Chatterji et al. 2018).

    g = ∇V₀(θ) + (n/b) Σ_{i∈I} (∇Vᵢ(θ) − ∇Vᵢ(c)) + Σᵢ ∇Vᵢ(c)

with c near the mode, found beforehand (`ewsg_jax.find_mode`). Unbiased wherever c is; the covariance is that of the
plain gradient with ∇Vᵢ(θ) − ∇Vᵢ(c) in the place of ∇Vᵢ(θ): none at the centre, and small only where the posterior
is narrow around it. However small the step, the heat that it leaves stays of the plain gradient's order, h.
2b evaluations a step and n at the start; the memory, two positions, is shared by all chains.
"""

from typing import NamedTuple

from ewsg_jax import _center, _check
from ewsg_jax._rows import CHUNK_SIZE, num_rows
from ewsg_jax._tags import saved_as
from ewsg_jax._types import Data, Key, Position, PyTree
from ewsg_jax.gradients._anchored import anchored_estimate, probe_anchored
from ewsg_jax.gradients._protocol import Estimate, Evaluations, GradientEstimator, Weight
from ewsg_jax.gradients._row_laws import RowLawName, row_law
from ewsg_jax.posterior import Posterior


@saved_as("control_variate_memory")
class ControlVariateMemory(NamedTuple):
    """The centre c, Σᵢ ∇Vᵢ(c), and the memory of the row law."""

    center: Position
    gradient: Position
    rows: PyTree


def control_variate(
    posterior: Posterior,
    *,
    batch_size: int,
    center: Position | None = None,
    replace: bool = True,
    rows: RowLawName = "random",
    chunk_size: int = CHUNK_SIZE,
) -> GradientEstimator:
    """Estimate ∇V by its difference to that at a centre.

    Args:
        posterior: what is sampled.
        batch_size: b, rows per step.
        center: c, a tree like the position; None: the position given to `init`, where the chain starts.
        replace: as in `uniform`.
        rows: as in `uniform`.
        chunk_size: rows that the full gradient takes at once.

    Raises:
        TypeError, ValueError: an argument is of the wrong kind; at `init`, a centre that is not shaped like the
            position.

    Example:
        >>> import ewsg_jax as ewsg
        >>> estimator = ewsg.gradients.control_variate(ewsg.models.logistic_regression(), batch_size=10)
        >>> cv_ld = ewsg.kernel(ewsg.dynamics.langevin(1e-3), estimator)
    """
    _check.instance("posterior", posterior, Posterior, "ewsg_jax.Posterior(…) or one of ewsg_jax.models")
    law = row_law(batch_size, replace, rows)
    _check.integer("chunk_size", chunk_size)
    center = _center.given(center)

    def check(position: Position, data: Data) -> None:
        posterior.check(position, data)
        law.check(data)
        _center.check_fits(center, position)

    def init(key: Key, position: Position, data: Data) -> ControlVariateMemory:
        chosen = _center.or_start(center, position)
        return ControlVariateMemory(chosen, posterior.likelihood_gradient(chosen, data, chunk_size), law.init(key))

    def propose(
        randomness: PyTree, memory: ControlVariateMemory, point: Position, data: Data, weight: Weight
    ) -> tuple[Estimate, PyTree]:
        batch = law.batch(randomness, memory.rows, data)
        estimate = anchored_estimate(posterior, memory.center, memory.gradient, batch, point, data)
        return estimate, law.advance(memory.rows, data)

    def probe(estimate: Estimate, position: Position, data: Data) -> Position:
        return probe_anchored(posterior, estimate, position, data)

    def commit(receipt: PyTree, memory: ControlVariateMemory) -> ControlVariateMemory:
        return memory._replace(rows=receipt)

    def evaluations(data: Data) -> Evaluations:
        return Evaluations(2 * batch_size, batch_size, at_init=num_rows(data))

    return GradientEstimator(
        law.draw,
        propose,
        probe,
        posterior.prior_gradient,
        evaluations,
        check,
        law.gather,
        init,
        commit=commit,
        batches=law.batches,
        exchangeable=law.exchangeable,
        memory_of="chain" if rows == "epochs" else "start" if center is None else "data",
    )
