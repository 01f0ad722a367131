"""How far a run is from a reference, in units of the reference's standard deviations."""

from dataclasses import dataclass

import numpy as np

from ewsg_jax import _check
from ewsg_jax.diagnostics._summary import Summary


@dataclass(frozen=True, eq=False)
class Distance:
    """Means and standard deviations of a run against a reference, coordinate by coordinate.

    Attributes:
        mean: (mean − reference mean) / reference sd, shape (coordinate,).
        sd_ratio: sd / reference sd, shape (coordinate,).
        monte_carlo: the root mean square of `mean` that the Monte Carlo errors of both runs alone would give;
            NaN where they are unknown.
    """

    mean: np.ndarray
    sd_ratio: np.ndarray
    monte_carlo: float

    @property
    def largest(self) -> float:
        """The largest absolute standardised difference of means."""
        return float(np.max(np.abs(self.mean)))

    @property
    def root_mean_square(self) -> float:
        """The root mean square of the standardised differences of means."""
        return float(np.sqrt(np.mean(np.square(self.mean))))

    def __str__(self) -> str:
        low, middle, high = np.quantile(self.sd_ratio, [0, 0.5, 1])
        return (
            f"means off by {self.root_mean_square:.3f} sd (root mean square, Monte Carlo error alone: "
            f"{self.monte_carlo:.3f}), at most {self.largest:.3f} sd; ratio of sds {middle:.3f} (median), "
            f"{low:.3f} to {high:.3f}"
        )


def distance(run: Summary, reference: Summary) -> Distance:
    """Compare the summary of a run with that of a reference run of the same posterior.

    Args:
        run: what `summary` gave for the run.
        reference: what `summary` gave for the reference.

    Raises:
        TypeError: an argument is no summary.
        ValueError: the two do not have the same coordinates.

    Example:
        >>> import jax, jax.numpy as jnp, ewsg_jax as ewsg
        >>> data = jax.random.normal(jax.random.key(0), (50, 2))
        >>> def run(seed):
        ...     kernel = ewsg.uld(ewsg.models.gaussian_location(), 5e-2, friction=10.0)
        ...     return ewsg.sample(jax.random.key(seed), kernel, jnp.zeros(2), data, 4_000, num_chains=4)
        >>> one, other = (ewsg.diagnostics.summary(run(seed)) for seed in (1, 2))
        >>> bool(ewsg.diagnostics.distance(one, other).largest < 0.2)
        True
    """
    _check.instance("run", run, Summary, "what ewsg_jax.diagnostics.summary returns")
    _check.instance("reference", reference, Summary, "what ewsg_jax.diagnostics.summary returns")
    if run.names != reference.names:
        raise ValueError(
            f"run and reference must have the same coordinates; got {len(run.names)} and {len(reference.names)}, "
            f"beginning with {run.names[0]!r} and {reference.names[0]!r}"
        )
    with np.errstate(all="ignore"):
        error = np.sqrt(np.mean((np.square(run.mcse) + np.square(reference.mcse)) / np.square(reference.sd)))
        return Distance((run.mean - reference.mean) / reference.sd, run.sd / reference.sd, float(error))
