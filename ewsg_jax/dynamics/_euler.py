"""Underdamped Langevin, Euler–Maruyama (EWSG eq. 3; also called SGULD).

    θ' = θ + h p
    p' = p − h (g(θ) + γ p) + σ√h ξ

Both updates use the old values. Targets exp(−(V(θ) + ‖p‖²/2)/T) with a bias of order h whose constant grows
as 1/γ: on V = λθ²/2 it is stable only for hλ < γ. It is here to reproduce the papers; prefer
`semi_implicit`, which costs the same.
"""

from ewsg_jax import _tree
from ewsg_jax._random import NoiseLaw
from ewsg_jax._types import Hyperparameter, Position, PyTree
from ewsg_jax.dynamics._protocol import Dynamics
from ewsg_jax.dynamics._underdamped import Coefficients, UnderdampedState, explicit_weight, kick, underdamped


def euler(
    step_size: Hyperparameter,
    *,
    friction: Hyperparameter,
    temperature: Hyperparameter = 1.0,
    noise: NoiseLaw = "gaussian",
) -> Dynamics:
    """Drift with the old momentum and kick it with the gradient at the old position.

    Args:
        step_size: h > 0, time per step; a number, a traced scalar or a schedule.
        friction: γ > 0 per unit of time, likewise.
        temperature: T > 0, likewise.
        noise: `"gaussian"` or `"rademacher"` (±1: the same weak order; heuristic under exponential weights).

    Raises:
        TypeError, ValueError: an argument is of the wrong kind.

    Example:
        >>> import ewsg_jax as ewsg
        >>> dynamics = ewsg.dynamics.euler(step_size=5e-2, friction=10.0)
    """

    def move(
        c: Coefficients, noise: PyTree, state: UnderdampedState, gradient: Position
    ) -> tuple[Position, PyTree]:
        position = _tree.combine((1, state.position), (c.step_size, state.momentum))
        return position, kick(c, noise, state.momentum, gradient)

    return underdamped(
        step_size,
        friction,
        temperature,
        noise,
        move=move,
        weight=explicit_weight,
        frozen_noise=("momentum", "zero", "one", "rest"),
    )
