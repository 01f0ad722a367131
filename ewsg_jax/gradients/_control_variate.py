"""Variance reduction around a fixed reference point (SGLD-CV, Baker et al. 2019; CV-LD and CV-ULD,
Chatterji et al. 2018).

    g = ∇V₀(θ) + (n/b) Σ_{i∈I} (∇Vᵢ(θ) − ∇Vᵢ(c)) + Σᵢ ∇Vᵢ(c)

with c near the mode, found beforehand (`ewsg_jax.find_mode`). Unbiased for any c. The covariance is
the plain gradient's with ∇Vᵢ(θ) − ∇Vᵢ(c) in place of ∇Vᵢ(θ): zero at c, and small only if the
posterior is narrow around c. The remaining noise is of order h, as the plain gradient's, however
small the step. 2b evaluations a step and n at the start; the memory, two positions, is shared by
all chains.
"""

from typing import NamedTuple

from ewsg_jax.base import checks
from ewsg_jax.base.modules import module, static
from ewsg_jax.base.typing import Data, Key, P, Position, PyTree
from ewsg_jax.gradients import _center as centers
from ewsg_jax.gradients._protocol import Estimate, Evaluations, NoiseModel, Sharing, Weight
from ewsg_jax.gradients._reference_point import SplitEstimator, estimate_from_reference
from ewsg_jax.posterior.posterior import Posterior, check_posterior
from ewsg_jax.rows._named import Rows, sampling_scheme
from ewsg_jax.rows._view import CHUNK_SIZE, all_rows, fetched


class ControlVariateMemory(NamedTuple):
    """The reference point c, and Σᵢ ∇Vᵢ(c) at least in float32."""

    center: Position
    gradient: Position


@module
class ControlVariate(SplitEstimator[P]):
    """The estimator of `control_variate`."""

    needs = frozenset()

    center: Position | None = None
    chunk_size: int = static(default=CHUNK_SIZE)

    @property
    def sharing(self) -> Sharing:
        """Whose the memory is."""
        # With a fixed `center` the memory is a function of the data, which all chains share.
        return Sharing("start" if self.center is None else "data")

    def check(self, position: Position, data: Data) -> None:
        super().check(position, data)
        centers.check_fits(self.center, position)

    def init(self, key: Key, position: Position, data: Data) -> ControlVariateMemory:
        chosen = centers.center_or_start(self.center, position)
        # Summed once, and added to sums of differences: rounded to half precision it would bias
        # them all.
        gradient = self.posterior.likelihood_gradient(chosen, data, self.chunk_size, widened=True)
        return ControlVariateMemory(chosen, gradient)

    def propose(
        self,
        randomness: PyTree,
        memory: ControlVariateMemory,
        point: Position,
        data: Data,
        weight: Weight,
    ) -> tuple[Estimate, tuple[()]]:
        batch = fetched(randomness, data)
        return estimate_from_reference(
            self.posterior, memory.center, memory.gradient, batch, point, data
        ), ()

    def evaluations(self, data: Data) -> Evaluations:
        return Evaluations(2 * self.batch_size, self.batch_size, at_init=all_rows(data))

    def noise_model(self, data: Data) -> NoiseModel:
        return NoiseModel(self, "fixed", order=self.order_of_errors(data))


def control_variate(
    posterior: Posterior[P],
    *,
    batch_size: int,
    center: Position | None = None,
    replace: bool = True,
    rows: Rows = "random",
    chunk_size: int = CHUNK_SIZE,
) -> ControlVariate[P]:
    """Estimate ∇V by the full gradient at a fixed reference point plus a difference on b rows.

    Args:
        posterior: the target.
        batch_size: b, the number of rows in a batch.
        center: c, the reference point, a pytree like the position. Default None: the position
            given to `init`, at which the chain starts.
        replace: as in `uniform`.
        rows: as in `uniform`.
        chunk_size: rows that the full gradient takes at once.

    Raises:
        TypeError, ValueError: an argument has the wrong type or value; at `init`, a `center` that
            is not shaped like the position.

    Example:
        >>> import ewsg_jax as ewsg
        >>> estimator = ewsg.gradients.control_variate(
        ...     ewsg.models.logistic_regression(), batch_size=10
        ... )
        >>> cv_ld = ewsg.kernel(ewsg.dynamics.langevin(1e-3), estimator)
    """
    check_posterior(posterior)
    scheme = sampling_scheme(batch_size, replace, rows)
    checks.integer("chunk_size", chunk_size)
    return ControlVariate(
        posterior=posterior,
        law=scheme,
        center=centers.checked_center(center),
        chunk_size=int(chunk_size),
    )
