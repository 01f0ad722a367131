"""Whether numbers of an accelerator are right, for `accelerators.py`: draws of the same key against
the CPU's, stationary variances against exact ones, gradients against NumPy in float64.
"""

import functools
from collections.abc import Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy.linalg import solve_discrete_lyapunov

import ewsg_jax as ewsg
from benchmarks.cost.accelerator_steps import own_likelihood
from benchmarks.cost.settings import (
    FRICTION,
    LOGISTIC_BATCH,
    LOGISTIC_COLUMNS,
    PRIOR_VARIANCE,
    logistic_data,
)

Z_LIMIT = 4.89
"""Two-sided at a level of 1e-6."""


def draws(quick: bool) -> Iterator[dict[str, Any]]:
    """Yield short runs with the same keys: positions of 4 chains, to be compared."""
    num, steps = (1_000, 20) if quick else (10_000, 100)
    data = jax.tree.map(jnp.asarray, logistic_data(num, 10))
    model = ewsg.models.logistic_regression(prior_scale=1.0)
    kernel_of = {
        "sgld": ewsg.sgld(model, 1e-4, batch_size=50),
        "sghmc": ewsg.sghmc(model, 1e-3, friction=FRICTION, batch_size=50),
        "ewsg": ewsg.ewsg(model, 1e-3, friction=FRICTION, batch_size=50, chain_length=4),
        "ld": ewsg.ld(model, 1e-4),
        "svrg_ld": ewsg.svrg_ld(model, 1e-4, batch_size=50, refresh_every=20),
        "saga_ld": ewsg.saga_ld(model, 1e-4, batch_size=50),
    }
    for name, kernel in kernel_of.items():
        samples = ewsg.sample(
            jax.random.key(5), kernel, jnp.zeros(10), data, steps, num_chains=4, progress=False
        )
        yield {
            "part": "draws",
            "kernel": name,
            "positions": np.asarray(samples.position, np.float64).tolist(),
        }


def compared(
    cpu: Sequence[dict[str, Any]], other: Sequence[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Return how far draws of the same key are apart, in sds of all draws."""
    positions = {row["kernel"]: np.array(row["positions"]) for row in cpu}
    found: list[dict[str, Any]] = []
    for row in other:
        if row["kernel"] in positions:
            on_cpu = positions[row["kernel"]]
            apart = np.abs(np.array(row["positions"]) - on_cpu) / on_cpu.std()
            by_step = apart.max((0, 2))
            found.append(
                {
                    "part": "draws",
                    "kernel": row["kernel"],
                    "steps": len(by_step),
                    "first": float(by_step[0]),
                    "last": float(by_step[-1]),
                    "largest": float(by_step.max()),
                }
            )
    return found


ROWS = np.array([-1.0, 0.3, 0.7, 2.2, 5.0])
PRECISION, H, GAMMA = 3.0, 0.1, 2.0


def exact_variances() -> dict[str, tuple[ewsg.Kernel, float]]:
    """Return linear kernels and their exact stationary variances, one parameter, T = 1.

    The posterior is normal, of precision 3. Langevin steps are an autoregression, and minibatches
    of two rows add noise of variance h²C; the underdamped one solves P = A P Aᵀ + Q.
    """
    model = ewsg.models.gaussian_location(noise_scale=(len(ROWS) / PRECISION) ** 0.5)
    a = 1 - H * PRECISION
    # C = n² s² / b, with s² the variance over the rows of a row's gradient.
    noise = len(ROWS) ** 2 * (ROWS * PRECISION / len(ROWS)).var() / 2
    full = 2 * H / (1 - a**2)
    # θ' = θ + h p', p' = p − h (λ θ + γ p) + √(2 γ h) ξ.
    momentum = np.array([-H * PRECISION, 1 - GAMMA * H])
    matrix = np.array([np.array([1.0, 0.0]) + H * momentum, momentum])
    kick = np.array([H, 1.0])

    def underdamped(extra: float) -> float:
        covariance = np.outer(kick, kick) * (2 * GAMMA * H + H**2 * extra)
        return float(solve_discrete_lyapunov(matrix, covariance)[0, 0])

    options: dict[str, Any] = {"friction": GAMMA, "integrator": "semi_implicit"}
    return {
        "ld": (ewsg.ld(model, H), full),
        "sgld": (ewsg.sgld(model, H, batch_size=2), (2 * H + H**2 * noise) / (1 - a**2)),
        "svrg_ld": (ewsg.svrg_ld(model, H, batch_size=2, refresh_every=5), full),
        "uld": (ewsg.uld(model, H, **options), underdamped(0.0)),
        "sghmc": (ewsg.sghmc(model, H, batch_size=2, **options), underdamped(noise)),
        "uld, BAOAB": (ewsg.uld(model, H, friction=GAMMA, integrator="BAOAB"), 1 / PRECISION),
    }


def laws(quick: bool) -> Iterator[dict[str, Any]]:
    """Yield z-scores of the mean and the variance of the last draws of many chains."""
    chains = 20_000 if quick else 1_000_000
    data = jnp.asarray(ROWS[:, None], jnp.float32)
    for name, (kernel, expected) in exact_variances().items():
        last = ewsg.sample(
            jax.random.key(6),
            kernel,
            jnp.zeros(1),
            data,
            256,
            num_chains=chains,
            burn_in=255,
            progress=False,
        )
        x = np.asarray(last.position, np.float64).ravel()
        off = x - ROWS.mean()
        variance = np.mean(off**2)
        error = np.std(off**2) / len(x) ** 0.5
        z = float((variance - expected) / error), float(off.mean() / (x.std() / len(x) ** 0.5))
        yield {
            "part": "laws",
            "kernel": name,
            "chains": chains,
            "expected": expected,
            "variance": float(variance),
            "z_of_variance": z[0],
            "z_of_mean": z[1],
            "holds": max(map(abs, z)) < Z_LIMIT,
        }


def gradients(quick: bool) -> Iterator[dict[str, Any]]:
    """Yield relative errors of gradients in float32, ‖found − exact‖ / ‖exact‖, against NumPy in
    float64.
    """
    generator, n, d = np.random.default_rng(1), 4_000 if quick else 50_000, LOGISTIC_COLUMNS
    x = generator.standard_normal((n, d)).astype(np.float32)
    places = generator.standard_normal((100, d)).astype(np.float32)
    y = (generator.random(n) < 0.5).astype(np.float32)
    wide, at = x.astype(np.float64), places.astype(np.float64)
    logits = at @ wide.T
    exact = {
        "logistic": (1 / (1 + np.exp(-logits)) - y) @ wide + at / PRIOR_VARIANCE,
        "linear": (logits - y) @ wide + at,
    }
    logistic = ewsg.models.logistic_regression(prior_scale=PRIOR_VARIANCE**0.5)

    cases = {
        "models.logistic_regression": (logistic, "logistic"),
        "models.linear_regression": (ewsg.models.linear_regression(), "linear"),
        "own likelihood, x @ position": (own_likelihood(None), "logistic"),
        "own likelihood, TF32": (own_likelihood("default"), "logistic"),
    }
    data = {"x": jnp.asarray(x), "y": jnp.asarray(y)}

    def error(gradients: Any, reference: np.ndarray) -> float:
        apart = np.asarray(gradients, np.float64) - reference
        return float(np.linalg.norm(apart) / np.linalg.norm(reference))

    batch = np.arange(LOGISTIC_BATCH)
    residuals = 1 / (1 + np.exp(-logits[:, batch])) - y[batch]
    of_batch = residuals @ wide[batch] * (n / LOGISTIC_BATCH)
    for name, (posterior, which) in cases.items():
        gradient = functools.partial(posterior.gradient, data=data)
        errors = {
            "one": error(jax.jit(gradient)(places[0]), exact[which][0]),
            "many": error(jax.jit(jax.vmap(gradient))(places), exact[which]),
        }
        if which == "logistic":
            minibatch = functools.partial(
                posterior.batch_gradient, data=data, batch=jnp.asarray(batch)
            )
            estimates = np.asarray(jax.jit(jax.vmap(minibatch))(places), np.float64)
            errors["minibatch"] = error(estimates, of_batch)
        yield {"part": "gradients", "model": name, "relative_error": errors}
