"""The real posteriors in parameters of unit scale, which every method is run on."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

import ewsg_jax as ewsg
from benchmarks.pages.posterior_data import LETTERS, PREPARE, Prepared

BATCH_SHARE, SMALLEST_BATCH = 0.25, 4
"""Rows of a batch: a quarter of the data."""
PRIORS: dict[str, Callable[[Any], Any]] = {
    "kidiq": lambda p: -jnp.log1p((p["sigma"] / 2.5) ** 2),
    "mesquite": lambda p: jnp.zeros_like(p["sigma"]),
    "sblrc": lambda p: -0.5 * (jnp.sum(p["beta"] ** 2) + p["sigma"] ** 2) / 100,
}
"""Log priors of posteriordb's linear models, β and σ > 0."""


class Problem(NamedTuple):
    """A posterior of parameters u in which its normal approximation is N(center, I).

    Attributes:
        posterior: of u, an array (d,).
        data: its data, float32.
        center: the mode.
        shifted: `shifted(u)`: the model's own parameters, flat, less `origin`, so that float32
            holds their spread.
        origin: the model's own parameters at the mode.
        names: their names.
        bound: a lower bound of the likelihood, where there is one.
    """

    posterior: ewsg.Posterior
    data: dict[str, jax.Array]
    center: jax.Array
    shifted: Callable[[jax.Array], jax.Array]
    origin: np.ndarray
    names: tuple[str, ...]
    bound: Any = None

    @property
    def num_rows(self) -> int:
        """The number of rows, n."""
        return self.data["x"].shape[0]

    @property
    def batch_size(self) -> int:
        """The rows of a batch."""
        return max(SMALLEST_BATCH, round(BATCH_SHARE * self.num_rows))


class Unwhiten(NamedTuple):
    """θ = map(c + L u): what `Posterior.transformed` takes; `map` is None for the identity."""

    inner: Any
    unravel: Callable[[jax.Array], Any]
    center: jax.Array
    factor: jax.Array

    def forward(self, position: jax.Array) -> Any:
        """Return θ of u."""
        return self.inner.forward(self.unravel(self.center + self.factor @ position))

    def log_det(self, position: jax.Array) -> jax.Array:
        """Return log |∂θ/∂u| up to a constant."""
        return self.inner.log_det(self.unravel(self.center + self.factor @ position))


def normal_approximation(
    posterior: ewsg.Posterior, start: np.ndarray, data: dict[str, np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """Return the mode and the Cholesky factor of the inverse curvature there: damped Newton steps
    in float64.
    """
    with jax.enable_x64(True):
        wide = {k: jnp.asarray(v) for k, v in data.items()}
        value, gradient, hessian = (
            jax.jit(of(lambda u, wide: posterior.potential(u, wide)))
            for of in (lambda f: f, jax.grad, jax.hessian)
        )
        u = jnp.asarray(start, jnp.float64)
        for _ in range(100):
            step = -jnp.linalg.solve(hessian(u, wide), gradient(u, wide))
            scale = 1.0
            while not value(u + scale * step, wide) <= value(u, wide) and scale > 1e-9:
                scale /= 2
            u = u + scale * step
            if jnp.linalg.norm(step) < 1e-10 * (1 + jnp.linalg.norm(u)):
                break
        return np.array(u), np.array(jnp.linalg.cholesky(jnp.linalg.inv(hessian(u, wide))))


def whitened(
    posterior: ewsg.Posterior, inner: Any, start: np.ndarray, unravel: Any, prepared: Prepared
) -> Problem:
    """Return the problem of a posterior of θ = inner(c + L u)."""
    data = {"x": prepared.x, "y": prepared.y}
    identity = Unwhiten(inner, unravel, jnp.zeros(start.size), jnp.eye(start.size))
    mode, factor = normal_approximation(posterior.transformed(identity), start, data)
    to_theta = Unwhiten(
        inner, unravel, jnp.asarray(mode, jnp.float32), jnp.asarray(factor, jnp.float32)
    )

    def flat(u: jax.Array) -> jax.Array:
        return ravel_pytree(to_theta.forward(u))[0]

    origin = flat(jnp.zeros(start.size))
    return Problem(
        posterior.transformed(to_theta),
        {k: jnp.asarray(v, jnp.float32) for k, v in data.items()},
        jnp.zeros(start.size),
        lambda u: flat(u) - origin,
        np.asarray(origin, np.float64),
        prepared.names,
    )


def linear_problem(name: str, prepared: Prepared) -> Problem:
    """Return a linear model of posteriordb, σ by `bijectors.positive`."""

    def log_likelihood(p: Any, row: Any) -> jax.Array:
        return -jnp.log(p["sigma"]) - 0.5 * ((row["y"] - row["x"] @ p["beta"]) / p["sigma"]) ** 2

    least_squares, *_ = np.linalg.lstsq(prepared.x, prepared.y)
    sigma = np.std(prepared.y - prepared.x @ least_squares)
    inner = ewsg.bijectors.tree(
        {"beta": ewsg.bijectors.identity(), "sigma": ewsg.bijectors.positive()}
    )
    start = np.append(least_squares, sigma + np.log(-np.expm1(-sigma)))
    posterior = ewsg.Posterior(log_likelihood, PRIORS[name])
    return whitened(posterior, inner, start, lambda v: {"beta": v[:-1], "sigma": v[-1]}, prepared)


def logistic_problem(prepared: Prepared) -> Problem:
    """Return logistic regression with prior N(0, I) and weights w = L u, still a linear predictor:
    x' = Lᵀx.
    """
    model = ewsg.models.logistic_regression(prior_scale=1.0)
    size = prepared.x.shape[1]
    mode, factor = normal_approximation(model, np.zeros(size), {"x": prepared.x, "y": prepared.y})
    narrow = jnp.asarray(factor, jnp.float32)
    center = jnp.asarray(np.linalg.solve(factor, mode), jnp.float32)
    predictor = model.predictor
    assert predictor is not None
    posterior = ewsg.Posterior.linear(
        predictor.log_likelihood,
        lambda u: model.log_prior(narrow @ u),
        inputs=predictor.inputs,
        residual=predictor.residual,
    )
    data = {
        "x": jnp.asarray(prepared.x @ factor, jnp.float32),
        "y": jnp.asarray(prepared.y, jnp.float32),
    }
    return Problem(
        posterior, data, center, lambda u: narrow @ (u - center), mode, prepared.names, model.bound
    )


def softmax_problem(prepared: Prepared) -> Problem:
    """Return softmax regression with prior N(0, I)."""
    shape = (prepared.x.shape[1], len(LETTERS))
    model = ewsg.models.softmax_regression(prior_scale=1.0)
    posterior = ewsg.Posterior(
        lambda w, row: model.log_likelihood(w, row | {"y": row["y"].astype(jnp.int32)}),
        model.log_prior,
    )
    size = shape[0] * shape[1]
    return whitened(
        posterior, ewsg.bijectors.identity(), np.zeros(size), lambda v: v.reshape(shape), prepared
    )


def problem(name: str) -> Problem:
    """Return the problem of that name."""
    prepared = PREPARE[name]()
    if name in PRIORS:
        return linear_problem(name, prepared)
    return softmax_problem(prepared) if name == "letter" else logistic_problem(prepared)
