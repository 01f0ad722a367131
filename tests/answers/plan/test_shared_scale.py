"""What the error of a scheme does to a scale that many effects share, against exact draws."""

import functools
from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
import pytest

import ewsg_jax as ewsg
from ewsg_jax.answers.mode.mode import Mode
from ewsg_jax.answers.plan.candidate_table import CandidateTable
from ewsg_jax.answers.plan.candidates import Candidate, candidates_for
from ewsg_jax.answers.plan.run_requirements import RunRequirements
from ewsg_jax.answers.plan.scheme_errors import SchemeForecast, scheme_forecasts
from ewsg_jax.answers.plan.whitening import Whitening

J = 85
"""Groups."""
SEMI_IMPLICIT = Candidate("semi_implicit", "full", "all")


class Hierarchy(NamedTuple):
    """y ~ N(a of its group, 1), a ~ N(mu, τ²), written centred, with exact draws.

    Attributes:
        posterior: the target; positions are mu, log τ and the effects.
        rows: its rows.
        draws: exact draws as vectors in the order of the leaves (a, lt, mu), shape (draws, d).
        log_weight: a function of h: ½ log det(1 − h²/4 M ∇²V) over effects, at each draw.
        whitening: coordinates by the covariance M of the draws.
    """

    posterior: ewsg.Posterior
    rows: dict
    draws: np.ndarray
    log_weight: Callable[[float], np.ndarray]
    whitening: Whitening


@functools.cache
def hierarchy() -> Hierarchy:
    rng = np.random.default_rng(5)
    sizes = rng.integers(1, 16, J)
    group = np.repeat(np.arange(J), sizes)
    y = 0.35 * rng.normal(size=J)[group] + rng.normal(size=len(group))
    means = np.bincount(group, y) / sizes
    # log τ on a grid, the effects and mu integrated out; τ is half-normal, mu ~ N(0, 1).
    grid = np.linspace(-4, 1, 2_001)
    precision = 1 / (np.exp(2 * grid)[:, None] + 1 / sizes)
    total, weighted = precision.sum(1) + 1, (precision * means).sum(1)
    log_density = (
        0.5 * np.log(precision).sum(1)
        - 0.5 * (precision * means**2).sum(1)
        + 0.5 * weighted**2 / total
        - 0.5 * np.log(total)
        - 0.5 * np.exp(2 * grid)
        + grid
    )
    density = np.exp(log_density - log_density.max())
    at = rng.choice(len(grid), 40_000, p=density / density.sum())
    mu = weighted[at] / total[at] + rng.normal(size=len(at)) / total[at] ** 0.5
    of_prior = np.exp(-2 * grid[at])[:, None]
    effects = (of_prior * mu[:, None] + sizes * means) / (of_prior + sizes)
    effects += rng.normal(size=effects.shape) / np.sqrt(of_prior + sizes)
    draws = np.concatenate([effects, grid[at][:, None], mu[:, None]], axis=1)
    covariance = np.cov(draws.T)
    metric = covariance[:J, :J]

    def log_weight(h: float) -> np.ndarray:
        few = np.unique(at)
        hessians = np.exp(-2 * grid[few])[:, None] + sizes
        matrices = np.eye(J) - h**2 / 4 * metric[None] * hessians[:, None, :]
        on_grid = np.zeros(len(grid))
        on_grid[few] = 0.5 * np.linalg.slogdet(matrices)[1]
        return on_grid[at]

    def log_prior(p):
        effects = -0.5 * jnp.sum((p["a"] - p["mu"]) ** 2) * jnp.exp(-2 * p["lt"]) - J * p["lt"]
        return effects - 0.5 * p["mu"] ** 2 - 0.5 * jnp.exp(2 * p["lt"]) + p["lt"]

    posterior = ewsg.Posterior(lambda p, r: -0.5 * (r["y"] - p["a"][r["g"]]) ** 2, log_prior)
    rows = {"g": jnp.asarray(group, jnp.int32), "y": jnp.asarray(y, jnp.float32)}
    center = {
        "a": jnp.asarray(effects.mean(0), jnp.float32),
        "lt": jnp.float32(grid[at].mean()),
        "mu": jnp.float32(mu.mean()),
    }
    mode = Mode(center, False, 0.0, 0.0, 0.0, 0, 0.0)
    whitening = Whitening.from_chains(mode, center, covariance)
    return Hierarchy(posterior, rows, draws, log_weight, whitening)


def table(candidates: list[Candidate], tolerance: float = 0.05) -> CandidateTable:
    model = hierarchy()
    places = model.draws[::40] - model.draws.mean(0)
    requirements = RunRequirements(tolerance, 8_712.0, 8, None, 2**30, bias_share=0.25)
    return CandidateTable(
        model.posterior,
        model.whitening,
        model.rows,
        places.astype(np.float32),
        candidates,
        4.0,
        requirements,
    )


def shift_of_weights(step_size: float) -> tuple[float, float]:
    """The error of the mean of log τ in sds, and of its sd, of exact draws that are weighted by the
    product over all effects.
    """
    model = hierarchy()
    scale = model.draws[:, J]
    log_weight = model.log_weight(step_size)
    weight = np.exp(log_weight - log_weight.max())
    mean = np.average(scale, weights=weight)
    sd = np.average((scale - mean) ** 2, weights=weight) ** 0.5
    return abs(mean - scale.mean()) / scale.std(), abs(sd / scale.std() - 1)


def scheme_at(step_size: float) -> SchemeForecast:
    found = scheme_forecasts("semi_implicit", 1.0)
    return min(found, key=lambda each: abs(each.step_size / step_size - 1) + each.friction)


@pytest.mark.parametrize("step_size", [0.044, 0.125])
def test_a_shared_scale_is_off_by_the_product_over_its_effects(step_size):
    """At a step at which an effect's sd is off by 2e-4 and 2e-3, to first order in that."""
    scheme = scheme_at(step_size)
    assert scheme.sd_error < 0.0025
    mean, sd = shift_of_weights(scheme.step_size)
    assert mean > 20 * scheme.sd_error
    found = table([])._forecast(SEMI_IMPLICIT, len(hierarchy().rows["y"]), scheme, None)
    np.testing.assert_allclose(found.mean_error, mean, rtol=0.2)
    assert found.sd_error > 0.8 * sd


def test_no_scheme_with_such_an_error_is_taken_unless_it_is_named():
    """BAOAB is exact on normal effects of any curvature."""
    model = hierarchy()
    default = table(candidates_for(model.posterior, None))
    assert default.best is not None
    assert {each.candidate.dynamics for each in default.forecasts} == {"BAOAB"}
    assert default.best.mean_error == 0.0


def test_a_named_method_has_a_step_at_which_the_scale_is_within_tolerance():
    """And its error is said."""
    best = table([SEMI_IMPLICIT]).best
    assert best is not None
    mean, sd = shift_of_weights(best.step_size)
    assert 0.001 < best.mean_error <= 0.025
    assert mean < 1.2 * best.mean_error
    assert sd < 0.0125
    # By its own error alone it would have several times this step.
    alone = [each for each in scheme_forecasts("semi_implicit", 4.0) if each.sd_error < 0.00625]
    assert max(each.step_size for each in alone) > 2 * best.step_size
