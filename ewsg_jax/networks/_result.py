"""What a fit of a network knows: predictions, intervals, scores, and what its draws are worth."""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ewsg_jax.base import checks
from ewsg_jax.base.typing import Key, PyTree
from ewsg_jax.draws.convergence import rhat_in_words
from ewsg_jax.networks._model import NetworkModel
from ewsg_jax.run.samples import Samples


class NewObservations(NamedTuple):
    """What the posterior says of new observations at b rows of inputs.

    Attributes:
        mean: their means, shape (b, …); None if the likelihood knows no mean.
        sd: their standard deviations: the noise of an observation and what is not known of its
            mean; None if the likelihood knows no standard deviation.
        mean_sd: the standard deviation of the mean over draws, the part that more rows would
            lower; None as `mean`.
        probabilities: those of the classes, shape (b, classes); None without classes.
    """

    mean: np.ndarray | None
    sd: np.ndarray | None
    mean_sd: np.ndarray | None
    probabilities: np.ndarray | None


@dataclass(frozen=True)
class FitReport:
    """What a fit chose, and what its draws are worth.

    Attributes:
        dynamics: what moved the chains, with its numbers, as it is written in a call.
        batch_size: rows in a step's gradient; n for all.
        num_members: networks that were trained, and chains.
        epochs: passes over the rows in the training of each network; 0 if trained ones were given.
        trained_log_score: the mean log density of held-out rows at the end of training, the mean
            over networks; NaN if trained ones were given.
        num_steps: steps of each chain, burn-in included.
        burn_in: steps that are left out, at the beginning.
        num_draws: draws of all chains that are kept.
        rhat: the largest R-hat of predictions at some rows; NaN for too few draws.
        temperature: θ·∇V/d at draws, the mean, whose expectation is 1 under the posterior.
        temperature_error: its standard error over chains.
        halved_change: how much the mean of V/d changes when the step is halved, in the last steps.
            NaN if there was no time to measure it.
        halved_error: its standard error over chains.
        seconds: time of the parts: "train", "tune", "sample".
        stopped: why the run ended: "R-hat", "seconds" or "interrupted".
    """

    dynamics: str
    batch_size: int
    num_members: int
    epochs: int
    trained_log_score: float
    num_steps: int
    burn_in: int
    num_draws: int
    rhat: float
    temperature: float
    temperature_error: float
    halved_change: float
    halved_error: float
    seconds: dict[str, float]
    stopped: str

    @property
    def doubts(self) -> list[str]:
        """Reasons not to take the draws for the posterior's, one sentence each."""
        doubts = []
        if not self.rhat < 1.1:
            doubts.append(
                f"R-hat of predictions is {rhat_in_words(self.rhat, 2)}: chains do not agree yet, "
                "and the draws are an ensemble around several modes"
            )
        # Beyond its error, and by more than a tenth.
        if not abs(self.temperature - 1) < max(0.1, 3 * self.temperature_error):
            doubts.append(
                f"θ·∇V/d is {self.temperature:.2f} and not 1: the weights have not settled, or the "
                "step is too long"
            )
        if abs(self.halved_change) > max(0.02, 3 * self.halved_error):
            doubts.append(
                f"half the step changes V/d by {self.halved_change:+.3f}: the step has a bias"
            )
        return doubts

    def __str__(self) -> str:
        """Return what was chosen, what the draws are worth, and what is not known."""
        trained = (
            "given"
            if not self.epochs
            else f"{self.epochs} epochs, held-out log score {self.trained_log_score:.3f}"
        )
        times = ", ".join(f"{name} {value:.1f} s" for name, value in self.seconds.items())
        halved = (
            "not measured"
            if math.isnan(self.halved_change)
            else f"{self.halved_change:+.3f} ± {self.halved_error:.3f}"
        )
        lines = [
            f"{self.num_members} networks: {trained}",
            f"chains: {self.dynamics}, {self.batch_size:,} rows a step",
            f"{self.num_steps:,} steps, the first {self.burn_in:,} left out; {self.num_draws:,} "
            f"draws; ended by {self.stopped} ({times})",
            f"R-hat of predictions: {rhat_in_words(self.rhat, 3)}",
            f"θ·∇V/d, 1 under the posterior: {self.temperature:.2f} ± {self.temperature_error:.2f}",
            f"V/d at half the step, the change: {halved}",
            *(f"doubt: {text}" for text in self.doubts),
            "not known: modes that no chain has met, and whether likelihood and prior are right: "
            "judge log_score and the coverage of intervals on rows that were not fitted",
        ]
        return "\n".join(lines)


@dataclass(frozen=True, eq=False, repr=False)
class FittedNetwork:
    """A fitted network, as `ewsg_jax.networks.fit` returns it.

    Attributes:
        model: the network with its likelihood and prior.
        samples: the draws of all chains.
        members: the trained networks from which the chains started, positions with a leading axis.
        report: what was chosen, and what the draws are worth.
        row: shapes and dtypes of one row of data["x"].
    """

    model: NetworkModel
    samples: Samples
    members: PyTree
    report: FitReport
    row: PyTree

    def __repr__(self) -> str:
        """Return one line: the model, the draws and R-hat."""
        draws = f"{self.report.num_draws:,} draws of {self.report.num_members} chains"
        agreement = f"R-hat of predictions {rhat_in_words(self.report.rhat, 3)}"
        return f"FittedNetwork({self.model!r}, {draws}, {agreement})"

    def predict(self, x: PyTree) -> NewObservations:
        """Return means, standard deviations and class probabilities of new observations.

        Args:
            x: inputs like data["x"], leading axis b.

        Raises:
            TypeError, ValueError: x is not like data["x"].

        Example:
            >>> import jax, jax.numpy as jnp, ewsg_jax as ewsg
            >>> data = {"x": jnp.arange(8.0)[:, None], "y": jnp.arange(8.0)}
            >>> fit = ewsg.networks.fit(
            ...     jax.random.key(0),
            ...     lambda params, x: x @ params,
            ...     jnp.ones(1),
            ...     data,
            ...     likelihood=ewsg.networks.normal(scale=1.0),
            ...     seconds=5.0,
            ... )
            >>> fit.predict(jnp.array([[2.0]])).mean.round(0)
            array([2.], dtype=float32)
        """
        self._check(x)

        averages = self._over_draws(self._moments, x)
        mean, square, variance = (averages.get(name) for name in ("mean", "square", "variance"))
        between = None if mean is None else np.maximum(square - mean**2, 0)
        return NewObservations(
            mean=mean,
            sd=None if variance is None else np.sqrt(variance + between),
            mean_sd=None if between is None else np.sqrt(between),
            probabilities=averages.get("probabilities"),
        )

    def quantiles(self, x: PyTree, probabilities: Any, *, key: Key | None = None) -> np.ndarray:
        """Return quantiles of new observations, which are drawn, shape (quantile, b, …).

        Args:
            x: inputs like data["x"], leading axis b.
            probabilities: numbers between 0 and 1, shape (quantile,).
            key: a typed PRNG key, of the new observations. Default: the same at each call.

        Raises:
            TypeError, ValueError: an argument has the wrong type or value, or the likelihood knows
                no new observations or has classes, whose probabilities `predict` has.
        """
        self._check(x)
        chosen = np.atleast_1d(np.asarray(probabilities, np.float64))
        if chosen.ndim != 1 or not ((chosen >= 0) & (chosen <= 1)).all():
            raise ValueError(
                "probabilities must be numbers between 0 and 1, shape (quantile,); got "
                f"{checks.describe(probabilities)}"
            )
        if self.model.likelihood.probabilities is not None:
            raise ValueError(
                f"likelihood={self.model.likelihood.name!r} has classes, without quantiles: take "
                "predict(x).probabilities"
            )
        key = jax.random.key(0) if key is None else key
        drawn = self.samples.predict(self._observations, x, key=key, keep_draws=True)
        return np.quantile(drawn.astype(np.float64), chosen, axis=(0, 1, 2))

    def interval(self, x: PyTree, probability: float = 0.9) -> tuple[np.ndarray, np.ndarray]:
        """Return the ends of intervals that hold a new observation with a probability.

        As much lies below an interval as above it.

        Args:
            x: inputs like data["x"], leading axis b.
            probability: between 0 and 1.

        Raises:
            TypeError, ValueError: as `quantiles`.
        """
        checks.fraction("probability", probability)
        low, high = self.quantiles(x, [(1 - probability) / 2, (1 + probability) / 2])
        return low, high

    def log_scores(self, x: PyTree, y: Any) -> np.ndarray:
        """Return the log posterior-predictive density of each row, log mean_θ p(y | x, θ),
        shape (b,).

        Args:
            x: inputs like data["x"], leading axis b.
            y: observations like data["y"], leading axis b.

        Raises:
            TypeError, ValueError: an argument is not like that of the data.
        """
        self._check(x)
        rows = {"x": x, "y": jnp.asarray(y)}
        count = jax.tree.leaves(x)[0].shape[0]
        if rows["y"].shape[:1] != (count,):
            raise ValueError(
                f"y must have an observation for each of {count} rows of x; got "
                f"{checks.describe(y)}"
            )
        if self.model.posterior.check_values is not None:
            self.model.posterior.check_values(self.model.position, rows)

        return self._over_draws(self._densities, rows, log=True)

    def log_score(self, x: PyTree, y: Any) -> float:
        """Return the mean of `log_scores` over rows: higher is better, and its negative is the NLL.

        Args:
            x: inputs like data["x"], leading axis b.
            y: observations like data["y"], leading axis b.

        Raises:
            TypeError, ValueError: an argument is not like that of the data.
        """
        return float(np.mean(self.log_scores(x, y), dtype=np.float64))

    # Methods, not functions made in a call, so that each is compiled once.

    def _moments(self, position: PyTree, x: PyTree, key: Key | None = None) -> dict[str, Any]:
        one = self.model.predict(position, x, key)
        known = {"mean": one.mean, "probabilities": one.probabilities}
        if one.mean is not None:
            known["square"] = one.mean**2
            known["variance"] = None if one.sd is None else one.sd**2
        return {name: value for name, value in known.items() if value is not None}

    def _observations(self, position: PyTree, x: PyTree, key: Key) -> Any:
        # Some thousand in all: their quantiles have an error of some percent of an sd.
        repeats = math.ceil(4_000 / max(1, self.samples.num_chains * self.samples.num_draws))
        keys = jax.random.split(key, repeats)
        return jax.vmap(lambda key: self.model.draw(key, position, x))(keys)

    def _densities(self, position: PyTree, rows: PyTree, key: Key | None = None) -> Any:
        return self.model.log_density(position, rows, key)

    def _over_draws(self, function: Any, inputs: PyTree, log: bool = False) -> Any:
        """Return the mean over draws of a function (position, inputs, key)."""
        key = jax.random.key(0) if self.model._assembly.keyed else None
        return self.samples.predict(function, inputs, key=key, log=log)

    def _check(self, x: PyTree) -> None:
        """Check inputs against those of the data."""
        expected = self.row
        got = jax.tree.map(lambda leaf: np.shape(leaf)[1:], x)
        wanted = jax.tree.map(lambda leaf: leaf.shape, expected)
        if jax.tree.structure(x) != jax.tree.structure(expected) or got != wanted:
            raise ValueError(
                f"x must be like data['x'], a leading axis of rows and then {wanted}; got "
                f"{checks.listed('x', x)}"
            )
