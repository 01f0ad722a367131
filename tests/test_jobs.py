"""What people bring, by the documents alone: each job is right in silence, or is answered with what
is wrong.

Each says who, what they gave, and what must come of it. Those that must be answered ran in silence
once, or with an answer that led elsewhere.
"""

import re
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
import xarray

import ewsg_jax as ewsg

KEY = jax.random.key(0)
RNG = np.random.default_rng(5)
N = 120
Y = RNG.normal(size=N)


def fit(mean, y, sd=1.0):
    return -0.5 * ((y - mean) / sd) ** 2


def flat(p):
    return 0.0


def sampled(
    log_likelihood,
    log_prior,
    start,
    data,
    step_size=1e-4,
    num_steps=300,
    kernel=ewsg.sgld,
    **options,
):
    made = kernel(ewsg.Posterior(log_likelihood, log_prior), step_size, batch_size=20)
    return ewsg.sample(KEY, made, start, data, num_steps, num_chains=2, **options)


def a_survey_in_a_data_frame():
    frame = pd.DataFrame({"y": Y, "region": pd.Categorical(RNG.choice(["north", "south"], N))})
    sampled(
        lambda p, r: fit(p[r["region"]], r["y"]),
        flat,
        jnp.zeros(2),
        {name: frame[name] for name in frame},
    )


def a_climate_field_of_xarray():
    field = xarray.DataArray(Y, dims="time")
    ewsg.find_mode(KEY, ewsg.Posterior(fit, flat), 0.0, {"y": field})


def a_scale_whose_prior_says_that_it_is_positive():
    """The likelihood has σ², which does not mind the sign."""

    def log_likelihood(p, y):
        return fit(p[0], y, p[1]) - 0.5 * jnp.log(p[1] ** 2 + 1e-3)

    def log_prior(p):
        return jnp.where(p[1] > 0, -0.5 * jnp.sum(p**2), -jnp.inf)

    sampled(log_likelihood, log_prior, jnp.array([0.0, -1.0]), Y, 1e-6)


def shares_that_add_up_to_less_than_one():
    def log_prior(p):
        return jnp.where(jnp.all(p > 0) & (jnp.sum(p) < 1), 0.0, -jnp.inf)

    sampled(lambda p, y: fit(p[0] + p[1], y + 2), log_prior, jnp.array([0.3, 0.3]), Y, 1e-3)


def times_to_failure_above_a_threshold():
    """Shifted exponential: no row may be below the shift, whose gradient is 1 in each."""
    t = 1 + RNG.exponential(size=N)
    sampled(lambda p, x: jnp.where(x > p, -(x - p), -jnp.inf), lambda p: -(p**2) / 50, 0.9, t, 1e-3)


def stations_at_no_distance():
    """A root of a squared distance has no gradient at 0: stations are where chains start."""
    places = np.r_[RNG.normal(size=(N - 30, 2)), np.zeros((30, 2))].astype(np.float32)

    def log_likelihood(p, row):
        return fit(jnp.sqrt(jnp.sum((row - p) ** 2)), 1.0)

    sampled(log_likelihood, flat, jnp.zeros(2), places)


def counts_with_a_bad_first_rate():
    sampled(lambda p, y: y * p - jnp.exp(p), lambda p: -0.5 * p**2, 90.0, RNG.poisson(3.0, N))


def a_network_of_one_feature_normalised():
    """Layer normalisation over one feature is batch normalisation of one row: a constant."""

    def log_likelihood(p, row):
        h = (row["x"] * p["w"] + p["b"])[None]
        h = (h - h.mean()) / jnp.sqrt(h.var() + 1e-6)
        return fit(h[0] * p["s"] + p["o"], row["y"])

    start = {name: jnp.float32(0.5) for name in "wbso"}
    sampled(log_likelihood, lambda p: -sum(x**2 for x in p.values()), start, {"x": Y**2, "y": Y})


def a_step_function_of_age():
    """A threshold of which nothing but comparisons is made: no gradient method sees it."""

    def log_likelihood(p, row):
        return fit(jnp.where(row["age"] > p["cut"], p["high"], p["low"]), row["y"])

    start = {"cut": jnp.float32(50.0), "high": jnp.float32(1.0), "low": jnp.float32(0.0)}
    ages = RNG.uniform(20, 90, N)
    sampled(
        log_likelihood,
        lambda p: -0.5 * (p["high"] ** 2 + p["low"] ** 2),
        start,
        {"age": ages, "y": Y},
    )


ANSWERED = {
    a_survey_in_a_data_frame: r"data\['region'\] is .*codes|data\['region'\] is .*return_inverse",
    a_climate_field_of_xarray: r"data\['y'\] is .*\.values",
    a_scale_whose_prior_says_that_it_is_positive: "log_prior is -inf or NaN; they started "
    "there.*bijector",
    shares_that_add_up_to_less_than_one: "log_prior is -inf or NaN.*bijector",
    times_to_failure_above_a_threshold: "log_likelihood of a row is -inf or NaN",
    stations_at_no_distance: "the gradient is not finite at the start: that of log_likelihood of "
    "row 90",
    counts_with_a_bad_first_rate: "in float64 it is finite: float32 overflows",
    a_network_of_one_feature_normalised: r"log_likelihood reads position\['b'\].*data\['x'\]",
    a_step_function_of_age: r"log_likelihood reads position\['cut'\].*a threshold has no "
    r"derivative",
}


@pytest.mark.usual_parameters("*_with_*", "*_frame")
@pytest.mark.parametrize("job", ANSWERED, ids=lambda job: job.__name__)
def test_what_is_wrong_is_said(job):
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        try:
            job()
            said = ""
        except (TypeError, ValueError) as error:
            said = str(error)
    assert re.search(
        ANSWERED[job], " | ".join([said, *(str(each.message) for each in told)]), re.DOTALL
    )


def ids_of_64_bits_that_are_small():
    ids = RNG.integers(0, 4, N)
    samples = sampled(
        lambda p, r: fit(p[r["id"]], r["y"]), flat, jnp.zeros(4), {"id": ids, "y": Y}, 1e-3, 4000
    )
    expected = [Y[ids == group].mean() for group in range(4)]
    np.testing.assert_allclose(samples.mean, expected, atol=0.25)


def visibilities_that_are_complex():
    data = (Y + 1j * RNG.normal(size=N)).astype(np.complex128)
    posterior = ewsg.Posterior(lambda p, v: -0.5 * jnp.abs(v - p) ** 2, flat)
    np.testing.assert_allclose(posterior.gradient(jnp.float32(0), data), -Y.sum(), rtol=1e-4)


def outliers_with_heavy_tails():
    sampled(lambda p, y: -jnp.log1p((y - p) ** 2), lambda p: -jnp.log1p(p**2), 30.0, Y, 1e-3)


def holes_that_are_masked_twice():
    holes = np.where(RNG.random(N) < 0.2, np.nan, Y)

    def log_likelihood(p, y):
        return jnp.where(jnp.isnan(y), 0.0, fit(p, jnp.where(jnp.isnan(y), 0.0, y)))

    sampled(log_likelihood, flat, 0.0, holes, check_data=False)


def a_hierarchy_whose_scale_is_in_the_prior():
    def log_prior(p):
        return (
            -0.5 * jnp.sum((p["group"] * jnp.exp(-p["log_tau"])) ** 2)
            - 6 * p["log_tau"]
            - p["log_tau"] ** 2
        )

    group = RNG.integers(0, 6, N)
    start = {"group": jnp.zeros(6), "log_tau": jnp.zeros(())}
    sampled(lambda p, r: fit(p["group"][r["g"]], r["y"]), log_prior, start, {"g": group, "y": Y})


def a_start_far_away():
    sampled(fit, lambda p: -0.5 * p**2, 1e4, Y, 1e-3, 2000)


@pytest.mark.usual_parameters("holes_that_are_masked_twice", "visibilities_that_are_complex")
@pytest.mark.parametrize(
    "job",
    [ids_of_64_bits_that_are_small, visibilities_that_are_complex, outliers_with_heavy_tails,
     holes_that_are_masked_twice, a_hierarchy_whose_scale_is_in_the_prior, a_start_far_away],
    ids=lambda job: job.__name__,
)  # fmt: skip
def test_what_is_right_is_right_in_silence(job):
    job()
