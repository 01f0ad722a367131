"""The posterior-predictive density of held-out rows, and for logistic regression their classes.

Both of a whole run, and along it, against passes over the data.
"""

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from ewsg_jax.base import checks, numeric, products
from ewsg_jax.base.freshness import reads_now
from ewsg_jax.base.typing import Array, Data, P
from ewsg_jax.draws.likelihoods import LIKELIHOOD_ROWS, check_density, mean_of_rows, row_chunks
from ewsg_jax.posterior.posterior import Posterior
from ewsg_jax.run.samples import Samples


class Predictive(NamedTuple):
    """Prediction by the mean over draws of the probability p(y | x, θ).

    Attributes:
        log_likelihood: mean over the rows of log p(y | x); natural logarithm.
        accuracy: share of the rows whose own class has a probability above one half.
    """

    log_likelihood: float
    accuracy: float


@reads_now("posterior")
def log_predictive_density(
    samples: Samples[P], posterior: Posterior[P], data: Data, *, chunk_size: int = LIKELIHOOD_ROWS
) -> np.ndarray:
    """Return the log of the posterior-predictive density of each row, averaged over the draws.

    log p(yᵢ) = log mean_θ p(yᵢ | θ); its mean over held-out rows is the usual score, its sum over
    rows the lppd of Gelman, Hwang and Vehtari (2014), eq. 5. Natural logarithm. The built-in
    models have all constants, so it can compare scales and models. Your own log likelihood must be
    a normalised density of the datum: without a constant such as −log σ comparisons are wrong. The
    draws are `samples.finite_draws`, from the chains that did not diverge; if all did, densities
    are NaN.

    Args:
        samples: a run whose `position` is the posterior's.
        posterior: the posterior with the log likelihood of a row.
        data: the rows, a pytree of arrays that share their leading axis n.
        chunk_size: number of rows evaluated at once; the number of draws at once is limited by a
            bounded memory.

    Returns:
        An array of shape (n,).

    Raises:
        TypeError, ValueError: an argument has the wrong type or value, the log likelihood fails on
            this position and these rows, the rows hold what the model does not know (as
            `Posterior.check`), the run kept no draws, or the posterior was made with
            `normalised=False`.
        AttributeError: the run kept something else than positions.

    Example:
        >>> import jax, jax.numpy as jnp, ewsg_jax as ewsg
        >>> posterior, data = ewsg.models.gaussian_location(), jnp.array([[0.9], [1.1]])
        >>> kernel = ewsg.uld(posterior, 0.1, friction=1.0)
        >>> samples = ewsg.sample(
        ...     jax.random.key(0), kernel, jnp.zeros(1), data, 2_000, num_chains=4
        ... )
        >>> density = ewsg.diagnostics.log_predictive_density(
        ...     samples, posterior, jnp.array([[1.0], [4.0], [5.0]])
        ... )
        >>> density.shape, bool(density[0] > density[1] > density[2])
        ((3,), True)
    """
    checks.instance("samples", samples, Samples, "what ewsg_jax.sample returns, runs[i] of a stack")
    check_density(posterior)
    has_finite = bool(samples.is_finite.any())
    draws = samples.position if samples.position is None or not has_finite else samples.finite_draws
    density = mean_of_rows(draws, posterior.log_likelihoods, data, chunk_size)
    # After the densities, whose own errors name what is wrong with a row.
    posterior.check(jax.tree.map(lambda x: jnp.asarray(x[0, 0]), draws), data)
    return density if has_finite else np.full_like(density, np.nan)


def predictive(samples: Samples, data: Data, *, chunk_size: int = LIKELIHOOD_ROWS) -> Predictive:
    """Judge the posterior-predictive mean on held-out rows, over `samples.finite_draws`.

    It is NaN if every chain diverged.

    Args:
        samples: a run of `models.logistic_regression`, whose position is one array (d,).
        data: held-out rows, {"x": (n, d), "y": (n,) of 0 and 1}.
        chunk_size: rows evaluated at once.

    Raises:
        TypeError, ValueError: an argument has the wrong type or value, or the run kept no draws.
        AttributeError: the run kept something else than positions.

    Example:
        >>> import jax, jax.numpy as jnp, ewsg_jax as ewsg
        >>> data = {"x": jnp.array([[1.0], [-1.0]]), "y": jnp.array([1, 0])}
        >>> kernel = ewsg.uld(ewsg.models.logistic_regression(), 0.1, friction=1.0)
        >>> samples = ewsg.sample(
        ...     jax.random.key(0), kernel, jnp.zeros(1), data, 2_000, num_chains=4
        ... )
        >>> ewsg.diagnostics.predictive(samples, data).accuracy
        1.0
    """
    checked_weights(samples, data, chunk_size)
    if not samples.is_finite.any():
        return Predictive(float("nan"), float("nan"))
    of_rows = mean_of_rows(samples.finite_draws, log_likelihoods, _float32(data), chunk_size)
    log_likelihood, accuracy = (
        np.asarray(x, np.float64).mean() for x in (of_rows, hits(jnp.asarray(of_rows)))
    )
    return Predictive(float(log_likelihood), float(accuracy))


@dataclass(frozen=True, eq=False)
class Trajectory:
    """Held-out log likelihood (mean over rows, natural logarithm) and accuracy at each kept draw.

    Attributes:
        data_passes: passes over the training data that one chain had made, shape (draw,).
        ensemble_log_likelihood: log likelihood of the mean prediction of this draw over all chains
            that did not diverge, shape (draw,); NaN if all did.
        ensemble_accuracy: accuracy of that prediction, shape (draw,).
        running_log_likelihood: log likelihood of the mean prediction of all draws so far of these
            chains, shape (draw,).
        running_accuracy: accuracy of that prediction, shape (draw,).
        chain_log_likelihood: log likelihood of this draw of each single chain, also of chains that
            diverged, shape (chain, draw).
        chain_accuracy: accuracy of that prediction, shape (chain, draw).
    """

    data_passes: np.ndarray
    ensemble_log_likelihood: np.ndarray
    ensemble_accuracy: np.ndarray
    running_log_likelihood: np.ndarray
    running_accuracy: np.ndarray
    chain_log_likelihood: np.ndarray
    chain_accuracy: np.ndarray


def trajectory(samples: Samples, data: Data, *, chunk_size: int = LIKELIHOOD_ROWS) -> Trajectory:
    """Judge each kept draw on held-out rows: alone, over chains, and over all draws so far.

    The average over chains at one draw is what the EWSG paper reports ("100 independent samples");
    the running average is what a user of the run would predict with.

    Args:
        samples: a run of `models.logistic_regression`, whose position is one array (d,).
        data: held-out rows, {"x": (n, d), "y": (n,) of 0 and 1}.
        chunk_size: rows evaluated at once.

    Raises:
        TypeError, ValueError: an argument has the wrong type or value, or the run kept no draws.

    Example:
        >>> import jax, jax.numpy as jnp, ewsg_jax as ewsg
        >>> data = {"x": jnp.array([[1.0], [-1.0]]), "y": jnp.array([1, 0])}
        >>> kernel = ewsg.uld(ewsg.models.logistic_regression(), 0.1, friction=1.0)
        >>> samples = ewsg.sample(
        ...     jax.random.key(0), kernel, jnp.zeros(1), data, 2_000, num_chains=4, thin=500
        ... )
        >>> judged = ewsg.diagnostics.trajectory(samples, data)
        >>> judged.data_passes.tolist(), judged.chain_accuracy.shape
        ([500.0, 1000.0, 1500.0, 2000.0], (4, 4))
    """
    weights = jnp.asarray(checked_weights(samples, data, chunk_size))
    finite = jnp.asarray(samples.is_finite)
    # Sums over rows, chunk after chunk, in float64 on the host.
    totals = None
    for chunk, count in row_chunks(data, chunk_size):
        rows = jax.tree.map(jnp.asarray, _float32(chunk))
        counted = jnp.arange(rows["x"].shape[0]) < count
        sums = [np.asarray(x, np.float64) for x in _judge(weights, finite, rows, counted)]
        totals = sums if totals is None else [a + b for a, b in zip(totals, sums, strict=True)]
    assert totals is not None
    means = [total / checks.data(numeric.native(data)) for total in totals]
    return Trajectory(
        data_passes=samples.evaluations / samples.num_data,
        ensemble_log_likelihood=means[0],
        ensemble_accuracy=means[1],
        running_log_likelihood=means[2],
        running_accuracy=means[3],
        chain_log_likelihood=means[4].T,
        chain_accuracy=means[5].T,
    )


@jax.jit
def _judge(weights: Array, finite: Array, rows: Data, counted: Array) -> tuple[Array, ...]:
    """Sums over the rows that count, in the order of `Trajectory`, with the draw first."""
    # No mean of no chain.
    chains = jnp.where(finite.any(), jnp.log(jnp.sum(finite, dtype=jnp.float32)), jnp.nan)

    def judge(total: Array, at_draw: tuple[Array, Array]) -> tuple[Array, tuple[Array, ...]]:
        number, weights_now = at_draw
        single = log_likelihoods(weights_now, rows)
        # Means of probabilities, in logarithms, over chains and over all draws so far.
        together = jax.nn.logsumexp(jnp.where(finite[:, None], single, -jnp.inf), axis=0)
        total = jnp.logaddexp(total, together)
        ensemble, running = together - chains, total - chains - jnp.log(number)

        def add(values: Array) -> Array:
            return jnp.sum(jnp.where(counted, values, 0.0), axis=-1)

        return total, tuple(
            add(of) for values in (ensemble, running, single) for of in (values, hits(values))
        )

    numbers = jnp.arange(1, weights.shape[0] + 1, dtype=jnp.float32)
    _, sums = jax.lax.scan(judge, jnp.full(counted.shape, -jnp.inf), (numbers, weights))
    return sums


def checked_weights(samples: Samples, data: Data, chunk_size: int) -> np.ndarray:
    """Return the draws with shape (draw, chain, d), checked against the data."""
    checks.instance("samples", samples, Samples, "what ewsg_jax.sample returns, runs[i] of a stack")
    checks.integer("chunk_size", chunk_size)
    data = numeric.native(data)
    checks.data(data)
    draws = samples.position
    if not isinstance(data, dict) or set(data) != {"x", "y"} or data["x"].ndim != 2:
        raise TypeError(
            'data must be {"x": (n, d), "y": (n,)}, as models.logistic_regression takes'
        )
    if not isinstance(draws, np.ndarray) or draws.shape[2:] != data["x"].shape[1:]:
        raise ValueError(
            f"samples must be of a position of shape {tuple(data['x'].shape[1:])}, one weight for "
            f"each feature; got leaves of shapes {[x.shape[2:] for x in jax.tree.leaves(draws)]}"
        )
    if not draws.shape[1]:
        raise ValueError("samples must hold draws; the run kept none")
    if data["y"].ndim != 1:
        raise ValueError(
            f"data['y'] must hold one label for each row, shape ({len(data['x'])},); got "
            f"{checks.describe(data['y'])}"
        )
    checks.labels("data['y']", data["y"], 2)
    return np.swapaxes(draws, 0, 1)


def log_likelihoods(weights: Array, rows: Data) -> Array:
    """Return log p(yᵢ | xᵢ, w) for weights (…, d): shape (…, rows)."""
    signs = 2 * rows["y"] - 1
    # No transpose of x, which would be made again for every chunk of draws.
    return -jax.nn.softplus(-signs * products.tensordot(weights, rows["x"], (-1, -1)))


def hits(log_likelihood: Array) -> Array:
    """Return 1 if the row's class has a probability above 1/2, else 0; NaN for a NaN."""
    return jnp.where(jnp.isnan(log_likelihood), jnp.nan, log_likelihood > jnp.log(0.5))


def _float32(data: Data) -> Data:
    return jax.tree.map(lambda x: np.asarray(x, np.float32), data)


class Calibration(NamedTuple):
    """Predicted against observed frequencies, in bins of equal width over [0, 1].

    Attributes:
        expected_calibration_error: Σ over bins of counts/n · |confidence − frequency|, from 0 to 1.
        confidence: mean predicted probability in each bin, shape (bins,), float64; NaN in an empty
            bin.
        frequency: share of the bin's rows in which the predicted event happened; the same shape.
        counts: rows in each bin, shape (bins,), int64.
    """

    expected_calibration_error: float
    confidence: np.ndarray
    frequency: np.ndarray
    counts: np.ndarray


def calibration(probabilities: ArrayLike, labels: ArrayLike, *, num_bins: int = 10) -> Calibration:
    """Compare predicted probabilities with observed frequencies.

    With probabilities of shape (n,), the event is class 1, with that probability (a reliability
    diagram, Naeini, Cooper and Hauskrecht 2015). With shape (n, k), the event is that the most
    probable class, the first of equals, is the row's class, with the largest of the k
    probabilities (Guo et al. 2017, eqs. 2 to 5). Two classes therefore give different numbers
    in the two forms. Bin j of B is (j/B, (j+1)/B], the first with 0.

    Args:
        probabilities: probabilities of class 1, shape (n,), or of k ≥ 2 classes, shape (n, k).
        labels: observed classes, shape (n,): 0 and 1, or 0 … k−1; any number type.
        num_bins: B, the number of bins. Default 10.

    Raises:
        TypeError, ValueError: an argument has the wrong type or shape; a value is not a
            probability, a row does not sum to one, or a label is not a class.

    Example:
        >>> import ewsg_jax as ewsg
        >>> result = ewsg.diagnostics.calibration([0.1, 0.1, 0.9, 0.9], [0, 0, 1, 0], num_bins=2)
        >>> (
        ...     round(result.expected_calibration_error, 6),
        ...     result.frequency.tolist(),
        ...     result.counts.tolist(),
        ... )
        (0.25, [0.0, 0.5], [2, 2])
    """
    takes = "probabilities must be an array (n,) of class 1 or (n, k) of k ≥ 2 classes, n ≥ 1"
    p, dtype = _numbers("probabilities", probabilities, takes)
    # Rounding in float32.
    tolerance = max(1e-3, float(jnp.finfo(dtype).eps))
    if p.ndim not in (1, 2) or p.shape[0] == 0 or (p.ndim == 2 and p.shape[1] < 2):
        raise ValueError(f"{takes}; got {checks.describe(p)}")
    if not ((p >= -tolerance) & (p <= 1 + tolerance)).all():
        raise ValueError(
            f"probabilities must lie between 0 and 1; they range from {p.min()} to {p.max()}"
        )
    if p.ndim == 2 and (distance := np.abs(p.sum(1, dtype=np.float64) - 1).max()) > tolerance:
        raise ValueError(
            f"probabilities must sum to one in each row; a sum is off by {distance:.3g}"
        )
    classes = 2 if p.ndim == 1 else p.shape[1]
    y, _ = _numbers("labels", labels, f"labels must be classes, an array of shape ({p.shape[0]},)")
    if y.shape != p.shape[:1] or not ((y >= 0) & (y < classes) & (y == np.floor(y))).all():
        raise ValueError(
            f"labels must be classes from 0 to {classes - 1}, an array of shape ({p.shape[0]},); "
            f"got {checks.describe(y)}"
        )
    checks.integer("num_bins", num_bins)

    happened = y == (1 if p.ndim == 1 else p.argmax(1))
    confidence = np.clip(p if p.ndim == 1 else p.max(1), 0, 1)
    # Edges are compared in the dtype of the probabilities: a float32 0.7 lies on the edge 0.7.
    edges = (np.arange(1, num_bins) / num_bins).astype(dtype).astype(confidence.dtype)
    bins = np.searchsorted(edges, confidence, side="left")
    count = np.bincount(bins, minlength=num_bins)
    filled = np.where(count, count, np.nan)
    mean = np.bincount(bins, confidence.astype(np.float64), num_bins) / filled
    frequency = np.bincount(bins, happened, num_bins) / filled
    gaps = np.where(count, np.abs(mean - frequency), 0.0)
    return Calibration(float(count @ gaps / count.sum()), mean, frequency, count)


def _numbers(name: str, value: ArrayLike, takes: str) -> tuple[np.ndarray, np.dtype]:
    """Return a value as real numbers, at least float32, and its floating-point dtype."""
    array = np.asarray(value)
    if jnp.issubdtype(array.dtype, np.floating):
        return array.astype(np.promote_types(array.dtype, np.float32)), array.dtype
    if array.dtype.kind not in "biu":
        raise TypeError(f"{takes}; got {checks.describe(value)}")
    return array.astype(np.float64), np.dtype(np.float64)
