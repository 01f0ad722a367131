"""Underdamped Langevin by letters (Leimkuhler & Matthews 2013): each part solved exactly, in a
symmetric order.

    A  drift                θ' = θ + t p
    B  kick                 p' = p − t g(θ)
    O  friction and noise   p' = e^{−γt} p + √(T(1 − e^{−2γt})) ξ
    U  A and O together (`exact` without a gradient)

A letter's time t is h over the number of times that it occurs. One gradient a step: kicks at one
position share it, those too that end a step and begin the next. So a step begins at the letter at
which its cycle takes one gradient, at the θ of the letters:

    letters   from state to state   Var θ on V = λθ²/2       stable for
    ABOBA     A B O B A             T/λ                      h²λ < 4
    BAOAB     B B A O A             T/λ                      h²λ < 4
    OBABO     B O O B A             T/λ / (1 − q)            h²λ < 4
    OABAO     A B A O O             T/λ (1 − q)              h²λ < 4
    AOBOA     A O B O A             T/λ c                    h²λ < 4c
    BOAOB     O B B O A             T/λ c / (1 − q/c)        h²λ < 4c
    BUB       B B U                 T/λ (1 + h²λ/12 + …)     h²λ < 2γh coth(γh/2)

with q = h²λ/4 and c = cosh(γh/2); the bias of θ is of order h². The momentum of the state is that
at the start of the second column: BAOAB's has not had its last half kick, and is (h/2) g more than
that of the letters. The θ of all steps are those of the scheme that keeps its gradient.

With minibatches, a last half kick and the next one share a batch. A gradient's variance C adds C
h²/(4λ) coth(γh/2) to the variance of θ (ABOBA; over 1 − q: BAOAB, OBABO). With a new batch for each
half kick of BAOAB it would be half as much, for twice the gradients.

`splitting` is AOBOA with less noise: at the temperature T γh/sinh(γh).
"""

import itertools
from typing import ClassVar

import jax.numpy as jnp

from ewsg_jax.base import checks
from ewsg_jax.base.modules import module, static
from ewsg_jax.base.typing import Hyperparameter, Scalar
from ewsg_jax.dynamics._exact import functions_of
from ewsg_jax.dynamics._letters import cycle_of
from ewsg_jax.dynamics._mass import InverseMass, in_metric
from ewsg_jax.dynamics._protocol import Dynamics
from ewsg_jax.dynamics._two_sums import Coefficients, TwoSums
from ewsg_jax.dynamics._underdamped import Exponent, Scales, checked

Row = dict[str | int, Scalar]
"""Coefficients by the name of what they multiply; a missing one is 0."""


@module
class Palindrome(TwoSums):
    """The dynamics of `splitting_scheme`, printed by its older name `palindrome`."""

    bias_order: ClassVar = 2

    letters: str = static()

    @property
    def num_normals(self) -> int:
        return cycle_of(self.letters).num_normals

    def coefficients(self, scales: Scales) -> Coefficients:
        h, gamma, t = scales.step_size, scales.friction, scales.temperature
        letters, num_normals = cycle_of(self.letters)
        # A letter that comes twice has half of the step each time.
        times = {letter: h / letters.count(letter) for letter in letters}
        drifts = letters[: letters.index("B")].count("A")
        ahead = drifts * times["A"] if drifts else None
        position, momentum = _composed(letters, num_normals, times, gamma, t)
        noise = jnp.sqrt(t) * jnp.sqrt(-jnp.expm1(-2 * gamma * h))
        normals: tuple[Scalar | None, ...] = (None,)
        # Several normals move the position: their sum is a part along the noise of the momentum,
        # and a part across it.
        if num_normals == 2:
            numbers = [part for part in position | momentum if isinstance(part, int)]
            sources = [(position.get(part, 0), momentum.get(part, 0)) for part in numbers]
            across = [(x * q - y * p) ** 2 for (x, p), (y, q) in itertools.combinations(sources, 2)]
            normals = sum(x * p for x, p in sources) / noise, jnp.sqrt(sum(across)) / noise
        moves = tuple(position.get(name) for name in ("old", "gradient", "new"))
        return Coefficients(ahead, (momentum["old"], momentum["gradient"], noise), moves + normals)

    def exponent(self, scales: Scales) -> Exponent:
        # For the noise that moves the momentum, at p' = p and at p' = 0.
        decay, gradient, noise = self.coefficients(scales).momentum
        lost = -jnp.expm1(-scales.friction * scales.step_size)
        return Exponent(-gradient / noise, {"momentum": lost / noise, "rest": -decay / noise})


def splitting_scheme(
    letters: str,
    step_size: Hyperparameter,
    *,
    friction: Hyperparameter,
    temperature: Hyperparameter = 1.0,
    inverse_mass: InverseMass = 1.0,
) -> Dynamics:
    """Drift (A), kick (B), friction with noise (O) in the letters' order; U is A and O together.

    `"BAOAB"` and `"ABOBA"` leave θ unbiased on Gaussians at every stable step. Take the first: it
    evaluates the gradient at θ itself, so the mean of a skewed posterior is unbiased, and on
    exponential tails its sd has an error of 0.3 % at h = 1. ABOBA has one of 7 % there, but
    minibatches inflate its variance less. `"OBABO"`, `"AOBOA"`, `"BOAOB"`, `"OABAO"` and others are
    there to compare; `"BUB"` is the UBU of the literature with θ reported at its gradient's
    position, which halves the bias. The momentum of the state is that of the letters if they begin
    with A, else the momentum before the kicks by the gradient at its θ. Exponential weights are
    those of the noise of the momentum. If a schedule changes h, all kicks by one gradient have the
    h of one step. `palindrome` is an older name of the same function.

    Args:
        letters: a palindrome of A, B and O, or of B and U, that takes one gradient a step.
        step_size: h > 0, time per step; a number, a traced scalar or a schedule.
        friction: γ > 0 per unit of time, of the same kinds.
        temperature: T > 0, of the same kinds; by default 1.
        inverse_mass: C > 0, by default 1: a number; a pytree of numbers like the position; a
            positive definite matrix (d, d) over the position in `ravel_pytree` order; or a
            `LowRank`. The momentum of the state is that of L⁻¹θ, C = L Lᵀ.

    Raises:
        TypeError, ValueError: an argument has the wrong type or value; the letters take more than
            one gradient a step, or add noise to the position before it.

    References:
        B. Leimkuhler and C. Matthews, Rational construction of stochastic numerical methods for
            molecular sampling, Applied Mathematics Research eXpress 2013.
        A. Alamo and J. M. Sanz-Serna, A technique for studying strong and weak local errors of
            splitting stochastic integrators, SIAM Journal on Numerical Analysis 2016 (UBU).

    Example:
        >>> import ewsg_jax as ewsg
        >>> dynamics = ewsg.dynamics.splitting_scheme("BAOAB", step_size=1e-2, friction=1.0)
    """
    checks.instance("letters", letters, str, "a palindrome of A, B and O, or of B and U")
    cycle_of(letters)
    return in_metric(
        Palindrome(**checked(step_size, friction, temperature), letters=letters), inverse_mass
    )


def _composed(
    letters: str, num_normals: int, times: dict[str, Scalar], gamma: Scalar, temperature: Scalar
) -> tuple[Row, Row]:
    """Return θ' − θ and p' from the old momentum, the gradient, and the new momentum or normals."""
    root = jnp.sqrt(temperature)
    position: Row = {}
    momentum: Row = {"old": 1}
    is_new = False
    for number, letter in enumerate(letters):
        t = times[letter]
        if letter == "B":
            _add(momentum, -t, {"gradient": 1})
        elif letter == "A":
            _add(position, t, {"new": 1} if is_new else momentum)
        else:
            decay, f = jnp.exp(-gamma * t), functions_of(gamma * t) if letter == "U" else None
            if f is not None:
                _add(position, t * f.phi1, momentum)
            momentum = {part: decay * coefficient for part, coefficient in momentum.items()}
            if num_normals == 1:
                # Nothing changes the momentum once the position moves on.
                is_new = True
                continue
            momentum[2 * number] = root * jnp.sqrt(-jnp.expm1(-2 * gamma * t))
            if f is not None:
                position[2 * number] = root * t * f.phi1 * jnp.sqrt(f.tanh)
                position[2 * number + 1] = root / gamma * 2 * jnp.sqrt(f.lag)
    return position, momentum


def _add(row: Row, factor: Scalar, other: Row) -> None:
    for part, coefficient in other.items():
        row[part] = row.get(part, 0) + factor * coefficient
