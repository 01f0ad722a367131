"""The result: the coefficient, its errors and its losses."""

import os
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ewsg_jax.answers.learning_coefficient.chains import error_of_mean
from ewsg_jax.base import pictures
from ewsg_jax.draws.convergence import rhat_in_words
from ewsg_jax.model_checks.finding import Finding


@dataclass(frozen=True, eq=False, repr=False)
class LearningCoefficient:
    """The local learning coefficient λ̂ = nβ(E L(w) − L(w*)) with its errors.

    Attributes:
        value: λ̂, the mean over chains of step h/2.
        error: its Monte Carlo standard error, from how chains differ and from effective draws.
        bias: by how much the step and the minibatches make it too large, from the difference of
            chains at h and at h/2; NaN if it is not known.
        bias_error: the standard error of the bias; NaN if it is not known.
        corrected_error: the standard error of `corrected`, with what higher orders of h may leave
            in it; NaN if the bias is not known.
        bias_unknown: why the bias is not known; empty if it is.
        draws: nβ(L(w) − L(w*)) at each draw that counts, array (chain, draw), step h/2; with
            batches of b rows an estimate from 10 b random rows, others for each draw.
        losses: the mean loss at each of these draws by name: "data", then the observables; arrays
            (chain, draw), estimated like `draws`.
        losses_at_weights: the mean loss at w* by the same names.
        num_parameters: d, the number of parameters that are sampled.
        num_data: n.
        localization: γ.
        temperature: T = 1/β.
        step_size: h, in time of exp(−V/T) with V = nL + Tγ/2‖w − w*‖².
        batch_size: rows of a gradient, n for full gradients.
        rhat: the largest split R-hat of the loss.
        num_steps: steps of h that each chain made, other settings and burn-in included.
        data_passes: passes over the data of each pair of chains.
        seconds: the time of all, compiling included.
        ended: why the run ended before the tolerance was met, in words; empty if it was met.
        interrupted: whether an interrupt ended it.
        findings: what is wrong with the weights, the likelihood or the run.
    """

    value: float
    error: float
    bias: float
    bias_error: float
    corrected_error: float
    bias_unknown: str
    draws: np.ndarray = field(repr=False)
    losses: dict[str, np.ndarray] = field(repr=False)
    losses_at_weights: dict[str, float]
    num_parameters: int
    num_data: int
    localization: float
    temperature: float
    step_size: float
    batch_size: int
    rhat: float
    num_steps: int
    data_passes: float
    seconds: float
    ended: str
    interrupted: bool
    findings: tuple[Finding, ...] = ()

    @property
    def corrected(self) -> float:
        """The value without the bias; NaN if the bias is not known."""
        return self.value - self.bias

    @property
    def num_chains(self) -> int:
        """The number of pairs of chains."""
        return len(self.draws)

    @property
    def observables(self) -> dict[str, tuple[float, float]]:
        """The mean over draws of each other loss, less that at w*, with its standard error."""
        return {
            name: (float(np.mean(x)) - self.losses_at_weights[name], error_of_mean(x))
            for name, x in self.losses.items()
            if name != "data"
        }

    def __repr__(self) -> str:
        bias = (
            f"bias not known: {self.bias_unknown}"
            if self.bias_unknown
            else f"bias {self.bias:+.2g} ± {self.bias_error:.1g}"
        )
        rows = f"{self.num_data:,} rows"
        if self.batch_size < self.num_data:
            rows = f"batches of {self.batch_size:,} of {rows}"
        pairs = f"{self.num_chains} pair{'s' if self.num_chains > 1 else ''} of chains"
        lines = [
            f"Learning coefficient {_with_error(self.value, self.error)}, {bias}",
            f"{self.num_parameters:,} parameters, {rows}, localization {self.localization:g}, "
            f"temperature {self.temperature:.4g}",
            f"{pairs} of steps {self.step_size:.3g} and half of it, "
            f"{self.num_steps:,} steps, {self.data_passes:,.0f} passes; R-hat "
            f"{rhat_in_words(self.rhat, 3)}; {self.seconds:.1f} s",
        ]
        lines += [
            f"loss on {name}: {_with_error(change, error)} above {self.losses_at_weights[name]:.4g}"
            for name, (change, error) in self.observables.items()
        ]
        if self.ended:
            lines.append(f"Ended before the error was within tolerance: {self.ended}")
        return "\n".join([*lines, *(f"{one.severity}: {one}" for one in self.findings)])

    def plot(self, path: str | os.PathLike[str] | None = None) -> Any:
        """Draw the chains' λ̂ along the draws, and its running mean; return the figure.

        Args:
            path: a file to write it to.

        Raises:
            ImportError: matplotlib is not installed.
            TypeError: the path is not a file path.
        """
        figure = pictures.blank(9.0, 3.6, path)
        traces, running = figure.subplots(1, 2)
        number = np.arange(1, self.draws.shape[1] + 1)
        running_means = np.cumsum(self.draws, axis=1) / number
        traces.plot(number, self.draws.T, linewidth=0.5)
        traces.set_ylabel("nβ(L(w) − L(w*))")
        running.plot(number, running_means.T, linewidth=0.6, color="0.6")
        running.plot(number, running_means.mean(0), color="C0")
        running.axhspan(
            self.value - 2 * self.error, self.value + 2 * self.error, color="C0", alpha=0.2
        )
        if not self.bias_unknown:
            running.axhline(self.corrected, color="C1", linestyle="--", linewidth=1)
        running.set_ylabel("mean so far (dashed: without the bias)")
        for axes in (traces, running):
            axes.set_xlabel("draw")
        return pictures.keep(figure, path)


def _with_error(value: float, error: float) -> str:
    """Return a number with two digits of its error."""
    if not (np.isfinite(error) and error > 0):
        return f"{value:.4g} ± {error:.2g}"
    digits = max(0, 1 - int(np.floor(np.log10(error))))
    return f"{value:.{digits}f} ± {error:.{digits}f}"
