"""Closed forms of the leading bias of Var θ on V = λθ²/2 in one dimension at T = 1, typed by hand:
constant · hᵏ.

The integrators' own terms are those of their docstrings in `ewsg_jax.dynamics`. The minibatch's:
with S(θ) the variance of the gradient, m₃(θ) its third central moment, x = θ − its mean, and E over
the target,

    plain batches       Langevin h ES/2, underdamped h ES/(2γ): the heat
    exponential weights they tilt the mean of g by (h/σ²)(S(γp + V′) + m₃/2), σ² = 2γ
                        (Langevin: p = 0, h/2). The friction among it balances the heat S; what is
                        left is a force. By first-order perturbation:
                        Langevin −(h/2) E[xS′] − (h/4) E[x m₃],
                        underdamped −(h/2γ)(λE[x²S] + E[x m₃]/2)
    matrix friction     balances the heat: nothing of order h; with exponential weights once more:
                        −h ES/(2γ)
"""

import itertools
from typing import Any

import numpy as np

from ewsg_jax.kernels.record import Method

FRICTION = 2.0
OWN = {
    "langevin": ("hλ/2", lambda lam: lam / 2, 1),
    "euler": ("hλ/γ", lambda lam: lam / FRICTION, 1),
    "semi_implicit": ("h²λ/4", lambda lam: lam / 4, 2),
    "splitting": ("−h²γ²/24", lambda lam: -(FRICTION**2) / 24, 2),
    "exact": ("hλ/2γ", lambda lam: lam / (2 * FRICTION), 1),
    "ABOBA": ("0", lambda lam: 0.0, 2),
    "BAOAB": ("0", lambda lam: 0.0, 2),
}
"""Text, constant by λ, and order of each integrator's own bias."""


def noise_moments(model: Any, b: int, kind: str) -> dict[str, float]:
    """Return ES, E[xS′], λE[x²S] and E[x m₃] under the target N(mean, 1/λ); S and m₃ of b rows with
    replacement.
    """
    lam, mean = model.precision.item(), model.mean.item()
    slopes, offsets = model.slopes.ravel(), model.offsets.ravel()
    nodes, weights = np.polynomial.hermite_e.hermegauss(12)
    x, weights = nodes[:, None] / lam**0.5, weights / weights.sum()
    gradients = slopes * x if kind == "control_variate" else slopes * (mean + x) - offsets
    n = len(slopes)
    if kind == "stratified":
        # One row of each half, each standing for n/2: the rows' gradients are those of n.
        halves = gradients[:, : n // 2], gradients[:, n // 2 :]
        heat = np.sum([half.var(axis=1) / 4 for half in halves], axis=0)
        return {"S": float(weights @ heat)}
    off = gradients - gradients.mean(1, keepdims=True)
    heat, third = (off**2).mean(1) / b, (off**3).mean(1) / b**2
    by_slope = (2 * off * (slopes - slopes.mean())).mean(1) / b
    x = x.ravel()
    moments = {"S": heat, "xS'": x * by_slope, "x2S": lam * x**2 * heat, "xm3": x * third}
    return {name: float(weights @ values) for name, values in moments.items()}


def quasi_newton(model: Any, b: int) -> float:
    """Return E[H²]/E[H] of H = 1/(the batch's curvature + 1), what one pair makes in
    one dimension.
    """
    prior = model.precision.item() - model.slopes.mean()
    curvatures = np.array(
        [np.mean(rows) for rows in itertools.product(model.slopes.ravel(), repeat=b)]
    )
    made = 1 / (prior + curvatures + 1)
    return float(np.mean(made**2) / np.mean(made))


def leading(
    method: Method, integrator: str, model: Any, b: int, is_reset: bool
) -> tuple[str, float, int] | None:
    """Return the leading term as text, its constant and its order; None where there is no closed
    form.
    """
    lam = model.precision.item()
    dynamics = integrator or method.dynamics[0]
    kind = method.estimator
    if method.dynamics == ("quasi_newton",):
        return (
            "h (λ + ES) E[H²]/2E[H]",
            (lam + noise_moments(model, b, kind)["S"]) * quasi_newton(model, b) / 2,
            1,
        )
    if dynamics not in OWN:
        return None
    text, own, order = OWN[dynamics][0], OWN[dynamics][1](lam), OWN[dynamics][2]
    if kind in ("full", "svrg", "saga"):
        return (text, own, order) if own else None
    first = own if order == 1 else 0.0
    of_own = f"{text} + " if order == 1 else ""
    is_langevin = dynamics == "langevin"
    moments = noise_moments(model, b, kind)
    if kind == "covariance_tracking":
        known = is_reset and (order == 1 or np.ptp(model.slopes) == 0)
        return (text, own, order) if known else None
    if kind.startswith("exponentially_weighted") and is_langevin:
        tilt = -moments["xS'"] / 2 - moments["xm3"] / 4
        return f"{of_own}h(−E[xS′]/2 − E[xm₃]/4)", first + tilt, 1
    if kind.startswith("exponentially_weighted"):
        tilt = -(moments["x2S"] + moments["xm3"] / 2) / (2 * FRICTION)
        if "covariance_tracking" not in kind:
            return f"{of_own}−h(λE[x²S] + E[xm₃]/2)/2γ".replace("+ −", "− "), first + tilt, 1
        if not is_reset:
            return None
        text = f"{of_own}−h(λE[x²S] + E[xm₃]/2 + ES)/2γ".replace("+ −", "− ")
        return text, first + tilt - moments["S"] / (2 * FRICTION), 1
    heat = moments["S"] / (2 if is_langevin else 2 * FRICTION)
    return f"{of_own}h ES/{'2' if is_langevin else '2γ'}", first + heat, 1
