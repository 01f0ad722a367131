"""Densities that exact methods compare, and that float32 does not know."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ewsg_jax as ewsg
from ewsg_jax.model_checks import rounding

KEY = jax.random.key(0)
ROWS = jnp.asarray(np.random.default_rng(0).normal(size=300), jnp.float32)


def raised(height):
    """Return a model of which each row has a log likelihood of this height."""
    return ewsg.Posterior(lambda p, x: height - 0.5 * (x - p) ** 2, lambda p: 0.0)


def counts(rate):
    """Return a Poisson model, and rows: differences of numbers much larger than themselves."""
    rows = jnp.asarray(np.random.default_rng(1).poisson(rate, 300), jnp.float32)
    model = ewsg.Posterior(
        lambda u, y: y * u - jnp.exp(u) - jax.scipy.special.gammaln(y + 1), lambda u: 0.0
    )
    return model, rows, float(jnp.log(rows.mean())), float(1 / np.sqrt(300 * rate))


def lost(kernel, position, data):
    return rounding.lost_differences(kernel, jnp.float32(position), data)


@pytest.mark.parametrize("make", [ewsg.nuts, ewsg.random_walk_metropolis])
def test_few_rows_of_large_values_are_named(make):
    assert lost(make(raised(1e7), 0.06), 0.0, ROWS)
    assert not lost(make(raised(1e2), 0.06), 0.0, ROWS)
    # What is lost is judged by the temperature.
    assert not lost(make(raised(1e7), 0.06, temperature=1e3), 0.0, ROWS)


@pytest.mark.parametrize(("rate", "is_lost"), [(1e6, True), (10.0, False)])
def test_what_cancels_within_a_row_is_named(rate, is_lost):
    model, rows, mode, sd = counts(rate)
    found = lost(ewsg.nuts(model, 0.7 * sd), mode, rows)
    assert bool(found) == is_lost
    if found:
        assert "of these 300 rows to" in found[0].text
        assert "jax_enable_x64" in found[0].cure


def test_a_density_without_a_gradient_is_not_taken_for_rounding():
    steps = ewsg.Posterior(lambda p, x: -jnp.abs(jnp.round(10 * (x - p))), lambda p: 0.0)
    assert not lost(ewsg.random_walk_metropolis(steps, 0.05), 0.0, ROWS)


def test_other_kernels_compare_no_densities():
    assert not lost(ewsg.sgld(raised(1e7), 0.01, batch_size=10), 0.0, ROWS)


def test_positions_of_float64_are_not_asked(x64):
    assert not rounding.lost_differences(
        ewsg.nuts(raised(1e7), 0.06), jnp.zeros((), jnp.float64), ROWS
    )


def test_proposals_outside_of_the_support_are_not_counted():
    inside = ewsg.Posterior(
        lambda p, x: 1e7 - 0.5 * (x - p) ** 2, lambda p: jnp.where(p > 0, 0.0, -jnp.inf)
    )
    assert lost(ewsg.random_walk_metropolis(inside, 0.06), 0.01, ROWS)


def test_a_run_warns_at_its_end_once():
    model, rows, mode, sd = counts(1e6)
    kernel = ewsg.random_walk_metropolis(model, 2.4 * sd)
    with pytest.warns(RuntimeWarning, match="float32 knows the potential of these 300 rows"):
        ewsg.sample(KEY, kernel, jnp.float32(mode), rows, 20, num_chains=2, progress=False)
    ewsg.sample(KEY, kernel, jnp.float32(mode), rows, 20, num_chains=2, progress=False)


@pytest.mark.full
def test_members_of_a_stack_are_asked_too():
    model, rows, mode, sd = counts(1e6)
    stack = ewsg.stack([ewsg.random_walk_metropolis(model, k * sd) for k in (1.0, 2.4)])
    with pytest.warns(RuntimeWarning, match="float32 knows the potential of these 300 rows"):
        ewsg.sample(KEY, stack, jnp.float32(mode), rows, 20, num_chains=2, progress=False)


@pytest.mark.parametrize(
    ("log_likelihood", "rows", "position", "sd"),
    [
        # A square that is written out, of numbers around 10⁴.
        (lambda p, x: -0.5 * (x * x - 2 * x * p + p * p), ROWS + 1e4, 1e4, 0.06),
        # Twenty binomial counts of 10⁷ trials.
        (
            lambda p, y: y * jax.nn.log_sigmoid(p) + (1e7 - y) * jax.nn.log_sigmoid(-p),
            jnp.full(20, 3e6),
            -0.847,
            2e-4,
        ),
    ],
    ids=["a square written out", "binomial counts"],
)
def test_other_ways_to_lose_digits(log_likelihood, rows, position, sd):
    model = ewsg.Posterior(log_likelihood, lambda p: 0.0)
    assert lost(ewsg.random_walk_metropolis(model, 2.4 * sd), position, rows)


def test_a_constant_of_the_prior_loses_the_digits_of_all_rows():
    model = ewsg.Posterior(lambda p, x: -0.5 * (x - p) ** 2, lambda p: -1e8 + 0.0 * p)
    assert lost(ewsg.random_walk_metropolis(model, 0.14), 0.0, ROWS)
