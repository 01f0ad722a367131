"""Underdamped Langevin, semi-implicit (symplectic) Euler: SGHMC as in SVRG-HMC (Li et al.), eqs. 1–2.

    p' = (1 − γh) p − h g(θ) + σ√h ξ
    θ' = θ + h p'

Targets exp(−(V(θ) + ‖p‖²/2)/T) with a bias of order h, which on V = λθ²/2 falls on the momentum: the variance
of θ is T/λ (1 + h²λ/4 + O(h³)), that of p is T (1 + γh/2 + O(h²)). The gradient is taken at the old position
and the position moves with the *new* momentum, which keeps the symplectic order: it is stable for
h²λ < 4 − 2γh, however small the friction. A stochastic gradient adds h·Cov(g)/(2γ) to the temperature.
"""

from ewsg_jax import _tree
from ewsg_jax._random import NoiseLaw
from ewsg_jax._types import Hyperparameter, Position, PyTree
from ewsg_jax.dynamics._protocol import Dynamics
from ewsg_jax.dynamics._underdamped import Coefficients, UnderdampedState, explicit_weight, kick, underdamped


def semi_implicit(
    step_size: Hyperparameter,
    *,
    friction: Hyperparameter,
    temperature: Hyperparameter = 1.0,
    noise: NoiseLaw = "gaussian",
) -> Dynamics:
    """Kick the momentum, then drift with the new momentum.

    Args:
        step_size: h > 0, time per step; a number, a traced scalar or a schedule.
        friction: γ > 0 per unit of time, likewise.
        temperature: T > 0, likewise.
        noise: `"gaussian"` or `"rademacher"` (±1: the same weak order; heuristic under exponential weights).

    Raises:
        TypeError, ValueError: an argument is of the wrong kind.

    Example:
        >>> import ewsg_jax as ewsg
        >>> dynamics = ewsg.dynamics.semi_implicit(step_size=1e-2, friction=1.0)
    """

    def move(
        c: Coefficients, noise: PyTree, state: UnderdampedState, gradient: Position
    ) -> tuple[Position, PyTree]:
        momentum = kick(c, noise, state.momentum, gradient)
        return _tree.combine((1, state.position), (c.step_size, momentum)), momentum

    return underdamped(
        step_size,
        friction,
        temperature,
        noise,
        move=move,
        weight=explicit_weight,
        frozen_noise=("momentum", "zero", "one", "rest"),
    )
