"""The sampler whose step is a step of stochastic gradient descent plus noise."""

import math
from dataclasses import dataclass

import numpy as np

from ewsg_jax.base import checks


@dataclass(frozen=True)
class SGDMatch:
    """The numbers with which a kernel moves as an optimiser does.

    Attributes:
        step_size: h.
        friction: γ per unit of time; None without momentum: the match is then Langevin dynamics.
        prior_scale: σ, the standard deviation of a normal prior on each weight; infinity without
            weight decay.
    """

    step_size: float
    friction: float | None
    prior_scale: float


def from_sgd(
    learning_rate: float,
    momentum: float = 0.0,
    weight_decay: float = 0.0,
    *,
    n: int,
    loss_factor: float = 1.0,
) -> SGDMatch:
    """Return step size, friction and prior scale of the sampler that moves as SGD does.

    A posterior needs the size of the loss, an optimiser does not: c (`loss_factor`) times the mean
    loss L̄ must be the mean negative log likelihood, up to a constant.

    - c = 1 if the loss of a row is its negative log likelihood, as cross entropy is.
    - c = 1/(2s²) if it is (y − f)² and y has noise of standard deviation s; 1/s² if it is
      half of that (`optax.l2_loss`).
    - c = K/(2s²) if it is the mean of K such squares, one for each output.

    With V = n c L̄ + ‖θ‖²/(2σ²), the optimiser's step

        v ← μ v − ℓ (∇L̄ + λ θ),   θ ← θ + v

    is with v = h p, h = √(ℓ/(nc)), γ = (1 − μ)/h and σ = 1/√(ncλ) the step p ← (1 − γh) p − h ∇V,
    θ ← θ + h p of `sghmc` and `uld` (`integrator="semi_implicit"`, their default) without its
    noise. Without momentum it is that of `sgld` and `ld` with h = ℓ/(nc). What the sampler adds is
    noise of temperature 1: weights that an optimiser kept at a minimum move to the bulk of the
    posterior.

    Adam and its like have no equivalent: they divide by the gradient's own size, which changes what
    is sampled (`psgld` has a correction for that). A rate of theirs is no rate of SGD. Decoupled
    weight decay (AdamW) is no prior of one width either. Its λθ is not divided by √s, the root of
    the mean squared gradient of a batch, so its stationary point has ∇L̄ = −λ√s θ. That is a prior
    of width 1/√(ncλ√s), another one for each weight, which depends on the size of the batch (with s
    fixed: Loshchilov and Hutter, Decoupled weight decay regularization, ICLR 2019, proposition 3).

    Args:
        learning_rate: ℓ > 0, the rate for the mean loss over a batch.
        momentum: μ, in [0, 1), without dampening. Default 0.
        weight_decay: λ ≥ 0, whose λθ is added to the gradient of the mean loss. Default 0: a flat
            prior.
        n: the number of rows of all data, not of a batch.
        loss_factor: c > 0, the mean negative log likelihood over the mean loss, as above.
            Default 1.

    Returns:
        The three numbers.

    Raises:
        TypeError, ValueError: an argument has the wrong type or value or out of its range.

    Example:
        >>> import ewsg_jax as ewsg
        >>> match = ewsg.from_sgd(learning_rate=0.1, momentum=0.9, weight_decay=1e-4, n=40_000)
        >>> print(f"{match.step_size:.3g} {match.friction:.3g} {match.prior_scale:.3g}")
        0.00158 63.2 0.5
        >>> posterior = ewsg.models.logistic_regression(prior_scale=match.prior_scale)
        >>> kernel = ewsg.sghmc(posterior, match.step_size, friction=match.friction, batch_size=100)
        >>> langevin = ewsg.from_sgd(0.1, n=40_000)
        >>> langevin.step_size, langevin.friction, langevin.prior_scale
        (2.5e-06, None, inf)
        >>> squares = ewsg.from_sgd(1e-3, 0.9, 1e-4, n=4_000, loss_factor=1 / (2 * 0.2**2))
        >>> print(f"{squares.prior_scale:.3g}")  # and not the 1.58 of c = 1
        0.447
    """
    _number("learning_rate", learning_rate, "a positive number", least=math.ulp(0.0))
    _number("momentum", momentum, "a number in [0, 1)", least=0.0, below=1.0)
    _number("weight_decay", weight_decay, "a positive number or 0", least=0.0)
    _number("loss_factor", loss_factor, "a positive number", least=math.ulp(0.0))
    checks.integer("n", n)
    size = n * loss_factor
    prior_scale = 1 / math.sqrt(size * weight_decay) if weight_decay else math.inf
    if not momentum:
        return SGDMatch(learning_rate / size, None, prior_scale)
    step_size = math.sqrt(learning_rate / size)
    return SGDMatch(step_size, (1 - momentum) / step_size, prior_scale)


def _number(name: str, value: object, kind: str, least: float, below: float = math.inf) -> None:
    """Check that a number is finite, at least `least` and below `below`."""
    takes = f"{name} must be {kind}"
    if isinstance(value, bool) or not isinstance(value, int | float | np.floating):
        raise TypeError(f"{takes}; got {checks.describe(value)}")
    if not least <= value < below:
        raise ValueError(f"{takes}; got {value}")
