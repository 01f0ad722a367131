"""What a fit of a network knows: predictions, intervals, scores, and what its draws are worth."""

import math
import textwrap
from dataclasses import dataclass

from ewsg_jax.base.optional import student_quantile
from ewsg_jax.base.typing import PyTree
from ewsg_jax.draws.convergence import rhat_in_words
from ewsg_jax.networks._predictions import NetworkPredictions


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
        temperature: θ·∇V/d at draws, the mean, whose expectation is T, 1 under the posterior. NaN
            for a network with a key, and if a gradient over all rows takes a tenth of the run.
        temperature_error: its standard error over chains.
        halved_change: how much the mean of V/d changes when the step is halved, in the last steps.
            NaN if there was no time to measure it.
        halved_error: its standard error over chains.
        seconds: time of the parts: "train", "tune", "sample".
        stopped: why the run ended: "R-hat", "seconds", "an interrupt" or "an error".
        standardised: whether the network reads and returns standardised numbers.
        sampled_temperature: T of the distribution exp(−V/T) that was sampled.
        num_diverged: chains that diverged, whose draws do not count.
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
    standardised: bool = False
    sampled_temperature: float = 1.0
    num_diverged: int = 0

    @property
    def doubts(self) -> list[str]:
        """Reasons not to take the draws for the posterior's, one sentence each."""
        if not self.num_steps:
            return ["chains made no step: the draws are the trained networks, an ensemble"]
        doubts = []
        if self.num_diverged:
            doubts.append(
                f"{self.num_diverged} of {self.num_members} chains diverged: the draws are those "
                "of the others"
            )
        if not self.rhat < 1.1:
            doubts.append(
                f"R-hat of predictions is {rhat_in_words(self.rhat, 2)}: chains do not agree yet, "
                "and the draws are an ensemble around several modes"
            )
        # Beyond three errors of a normal distribution, by Student's t for errors of few chains, and
        # by more than a tenth.
        t = self.sampled_temperature
        freedom = max(1, self.num_members - self.num_diverged - 1)
        errors = float(student_quantile(freedom, 0.99865))
        if math.isnan(self.temperature):
            doubts.append("θ·∇V/d is not known, which would say whether the weights have settled")
        elif not abs(self.temperature - t) < max(0.1 * t, errors * self.temperature_error):
            doubts.append(
                f"θ·∇V/d is {self.temperature:.2f} and not {t:g}: the weights have not settled, or "
                "the step is too long"
            )
        if abs(self.halved_change) > max(0.02 * t, errors * self.halved_error):
            doubts.append(
                f"half the step changes V/d by {self.halved_change:+.3f}: the step has a bias"
            )
        return doubts

    @property
    def _expected(self) -> str:
        t = self.sampled_temperature
        return "1 under the posterior" if t == 1 else f"{t:g} under exp(−V/{t:g})"

    def __str__(self) -> str:
        """Return what was chosen, what the draws are worth, and what is not known."""
        trained = (
            "given"
            if not self.epochs
            else f"{self.epochs} epochs, held-out log score {self.trained_log_score:.3f}"
        )
        times = ", ".join(f"{name} {value:.1f} s" for name, value in self.seconds.items())
        virial = _measured(self.temperature, self.temperature_error, ".2f")
        halved = _measured(self.halved_change, self.halved_error, "+.3f")
        lines = [
            f"{self.num_members} networks: {trained}; of "
            f"{'standardised rows' if self.standardised else 'rows as they are'}",
            f"chains: {self.dynamics}, {self.batch_size:,} rows a step",
            f"{self.num_steps:,} steps, the first {self.burn_in:,} left out; {self.num_draws:,} "
            f"draws; ended by {self.stopped} ({times})",
            f"R-hat of predictions: {rhat_in_words(self.rhat, 3)}",
            f"θ·∇V/d, {self._expected}: {virial}",
            f"V/d at half the step, the change: {halved}",
            *(f"doubt: {text}" for text in self.doubts),
            "not known: modes that no chain has met, and whether likelihood and prior are right: "
            "judge log_score and the coverage of intervals on rows that were not fitted",
        ]
        return "\n".join(textwrap.fill(line, 88, subsequent_indent="  ") for line in lines)


def _measured(value: float, error: float, form: str) -> str:
    """Return a number and its standard error in words."""
    if math.isnan(value):
        return "not measured"
    return f"{value:{form}} ± {error:{form.lstrip('+')}}"


@dataclass(frozen=True, eq=False, repr=False)
class FittedNetwork(NetworkPredictions):
    """A fitted network, as `ewsg_jax.networks.fit` returns it.

    Attributes:
        model: the network with its likelihood and prior.
        samples: the draws of all chains.
        members: the trained networks from which the chains started, positions with a leading axis.
        report: what was chosen, and what the draws are worth.
        row: shapes and dtypes of one row of data["x"].

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

    members: PyTree
    report: FitReport

    def __repr__(self) -> str:
        """Return one line: the model, the draws and R-hat."""
        draws = f"{self.report.num_draws:,} draws of {self.report.num_members} chains"
        agreement = f"R-hat of predictions {rhat_in_words(self.report.rhat, 3)}"
        return f"FittedNetwork({self.model!r}, {draws}, {agreement})"
