"""What estimators that report a covariance share: their structure and their resets."""

from typing import Any

from ewsg_jax.base import checks
from ewsg_jax.base.modules import module, static
from ewsg_jax.base.needs import Need
from ewsg_jax.base.typing import Data, P
from ewsg_jax.gradients._covariance import STRUCTURES, Structure
from ewsg_jax.gradients._period import Period, Refreshed, checked_period
from ewsg_jax.gradients._protocol import NoiseModel
from ewsg_jax.gradients._uniform import Uniform
from ewsg_jax.posterior.posterior import Posterior, check_posterior
from ewsg_jax.rows._epochs import Epochs
from ewsg_jax.rows._independent import Subset
from ewsg_jax.rows._named import Rows, sampling_scheme
from ewsg_jax.rows._view import CHUNK_SIZE


@module
class WithCovariance(Refreshed[P]):
    """An estimator whose covariance is exact every K steps, the first included.

    Attributes:
        structure: form of the covariance: "dense", "diagonal" or "low_rank".
        rank: r, the rank with "low_rank".
        chunk_size: number of rows that a reset takes at once.
    """

    needs = frozenset({Need.ONE_N, Need.ALL_ROWS})
    reports_covariance = True
    unbiased = True  # the gradient is that of `uniform`, whatever the covariance

    structure: Structure = static(default="dense")
    rank: int = static(default=10)
    chunk_size: int = static(default=CHUNK_SIZE)

    @property
    def passes(self) -> int:
        """How many passes over the data a reset takes."""
        # A low rank needs a further pass to turn its basis.
        return 2 if self.structure == "low_rank" else 1

    def noise_model(self, data: Data) -> NoiseModel:
        # The gradient is a uniform one: what is tracked changes a dynamics' friction, not its
        # noise.
        plain = Uniform(posterior=self.posterior, law=self.law)
        return plain.noise_model(data)._replace(structure=self.structure)


def checked(
    posterior: Posterior,
    batch_size: int,
    refresh_every: Period,
    structure: Structure,
    rank: int,
    replace: bool,
    rows: Rows,
    chunk_size: int,
) -> dict[str, Any]:
    """Check the arguments of such an estimator, and return its fields by name."""
    check_posterior(posterior)
    scheme = sampling_scheme(batch_size, replace, rows)
    # The moments of single rows do not give the covariance of neighbouring, weighted or otherwise
    # dependent rows.
    if scheme.weighted or not (scheme.independent or isinstance(scheme, Subset | Epochs)):
        raise ValueError(
            "rows must be 'random' or 'epochs', or a scheme with independent = True and without "
            f"weights: the covariance of other batches is not tracked; got {rows!r}"
        )
    every = checked_period("refresh_every", refresh_every)
    checks.one_of("structure", structure, STRUCTURES)
    return {
        "posterior": posterior,
        "law": scheme,
        "refresh_every": every,
        "structure": structure,
        "rank": checks.integer("rank", rank),
        "chunk_size": checks.integer("chunk_size", chunk_size),
    }
