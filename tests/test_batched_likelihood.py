"""A log likelihood over a batch: the sums, gradients and chains of the same one row by row."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ewsg_jax as ewsg
from ewsg_jax.rows._padded import Padded

RNG = np.random.default_rng(3)
N = 12
DATA = {"x": RNG.normal(size=(N, 2)), "y": RNG.integers(0, 2, N).astype(np.int8)}
POSITION = {"w": np.array([0.3, -0.7]), "b": np.array(0.2)}


def log_prior(p):
    return -0.5 * jnp.sum(p["w"] ** 2) - 0.5 * p["b"] ** 2


def of_row(p, row):
    logit = row["x"] @ p["w"] + p["b"]
    return jax.nn.log_sigmoid(jnp.where(row["y"] == 1, logit, -logit))


def of_batch(p, rows):
    logits = rows["x"] @ p["w"] + p["b"]
    return jax.nn.log_sigmoid(jnp.where(rows["y"] == 1, logits, -logits))


BY_ROW = ewsg.Posterior(of_row, log_prior)
BY_BATCH = ewsg.Posterior(log_prior=log_prior, batched_log_likelihood=of_batch)
BY_BOTH = ewsg.Posterior(of_row, log_prior, batched_log_likelihood=of_batch)
WEIGHTED = ewsg.rows.Batch(jnp.array([2, 2, 7]), weights=jnp.array([1.0, 3.0, 8.0]))
QUANTITIES = {
    "gradient": lambda one, data: one.gradient(POSITION, data, 5),
    "batch": lambda one, data: one.batch_gradient(POSITION, data, jnp.array([0, 4, 4, 9, 11])),
    "weighted batch": lambda one, data: one.batch_gradient(POSITION, data, WEIGHTED),
    "rows": lambda one, data: one.row_gradients(POSITION, data),
    "flat rows": lambda one, data: one.flat_row_gradients(POSITION, data),
    "potential": lambda one, data: one.potential(POSITION, data, 5),
    "values": lambda one, data: one.log_likelihoods(POSITION, data),
    "transformed": lambda one, data: one.transformed(
        ewsg.bijectors.tree({"w": ewsg.bijectors.positive(), "b": ewsg.bijectors.identity()})
    ).gradient(POSITION, data),
}


@pytest.mark.usual_parameters("gradient", "weighted batch", "rows", "potential")
@pytest.mark.parametrize("name", QUANTITIES)
def test_sums_and_gradients_are_those_of_rows(x64, name):
    expected = QUANTITIES[name](BY_ROW, DATA)
    for one in (BY_BATCH, BY_BOTH):
        jax.tree.map(
            lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-12),
            QUANTITIES[name](one, DATA),
            expected,
        )


def test_rows_that_do_not_count_count_for_nothing(x64):
    padded = Padded(rows=DATA, size=jnp.where(jnp.arange(N) < 9, 9, 0))
    jax.tree.map(
        np.testing.assert_allclose,
        BY_BATCH.likelihood_gradient(POSITION, padded),
        BY_ROW.likelihood_gradient(POSITION, jax.tree.map(lambda x: x[:9], DATA)),
    )


KERNELS = {
    "sgld": lambda one: ewsg.sgld(one, 0.01, batch_size=3),
    "ewsg": lambda one: ewsg.ewsg(one, 0.01, batch_size=3, friction=2.0),
    "svrg": lambda one: ewsg.svrg_ld(one, 0.01, batch_size=3),
    "saga": lambda one: ewsg.saga_ld(one, 0.01, batch_size=3),
    "control variate": lambda one: ewsg.cv_ld(one, 0.01, batch_size=3, center=POSITION),
}


@pytest.mark.usual_parameters("saga")
@pytest.mark.parametrize("name", KERNELS)
def test_chains_are_those_of_rows(x64, name):
    draws = [
        ewsg.sample(jax.random.key(1), KERNELS[name](one), POSITION, DATA, 20, num_chains=2).draws
        for one in (BY_ROW, BY_BATCH)
    ]
    jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-8), *draws)


def test_a_step_asks_for_the_whole_batch_at_once():
    sizes = []

    def recorded(p, rows):
        sizes.append(rows["x"].shape)
        return of_batch(p, rows)

    posterior = ewsg.Posterior(log_prior=log_prior, batched_log_likelihood=recorded)
    kernel = ewsg.sgld(posterior, 0.01, batch_size=5)
    state = kernel.init(jax.random.key(0), POSITION, DATA)
    sizes.clear()
    jax.make_jaxpr(kernel.step)(jax.random.key(1), state, DATA)
    assert set(sizes) == {(5, 2)}


def test_constants_of_the_likelihood_are_left_in(x64):
    """They are in the batched values too, which are what is summed."""
    model = ewsg.models.gaussian_location(noise_scale=0.5)
    batched = ewsg.Posterior(
        model.log_likelihood,
        model.log_prior,
        batched_log_likelihood=jax.vmap(model.log_likelihood, (None, 0)),
    )
    mean, data = jnp.array([0.4, 0.1]), DATA["x"]
    for one in (batched, batched.varying):
        difference = one.potential(mean, data) - one.potential(0 * mean, data)
        expected = model.potential(mean, data) - model.potential(0 * mean, data)
        np.testing.assert_allclose(difference, expected)
    np.testing.assert_allclose(batched.potential(mean, data), model.potential(mean, data))


def test_values_and_texts():
    assert ewsg.Posterior(log_prior=log_prior, batched_log_likelihood=of_batch) == BY_BATCH
    assert hash(BY_BATCH) == hash(dataclasses.replace(BY_BATCH))
    assert BY_BATCH not in (BY_ROW, BY_BOTH)
    assert repr(BY_BATCH) == "Posterior(log_prior=log_prior, batched_log_likelihood=of_batch)"
    assert repr(BY_BOTH) == "Posterior(of_row, log_prior, batched_log_likelihood=of_batch)"


def standardised(x):
    return (x - x.mean(axis=0)) / (x.std(axis=0) + 1e-3)


ALONE = "must return for each row what that row has alone"
SHAPE = "must return one floating-point number for each row, shape "
REFUSED = {
    "batch normalisation": (
        ALONE,
        lambda p, rows: of_batch(p, rows | {"x": standardised(rows["x"])}),
    ),
    "means": (ALONE, lambda p, rows: jnp.full(len(rows["y"]), jnp.mean(of_batch(p, rows)))),
    "shares of a mean": (ALONE, lambda p, rows: of_batch(p, rows) / len(rows["y"])),
    "sums": (ALONE, lambda p, rows: jnp.cumsum(of_batch(p, rows))),
    "other rows": (ALONE, lambda p, rows: of_batch(p, rows)[::-1]),
    "mean": (SHAPE, lambda p, rows: jnp.mean(of_batch(p, rows))),
    "column": (SHAPE, lambda p, rows: of_batch(p, rows)[:, None]),
    "coordinates": (SHAPE, lambda p, rows: p["w"]),
    "labels": (SHAPE, lambda p, rows: rows["y"]),
    "one row": (SHAPE, lambda p, rows: of_batch(p, rows) + rows["y"] @ p["w"]),
}


@pytest.mark.usual_parameters("batch normalisation", "means", "mean")
@pytest.mark.parametrize("name", REFUSED)
def test_rows_that_depend_on_each_other_are_refused(name):
    text, function = REFUSED[name]
    posterior = ewsg.Posterior(log_prior=log_prior, batched_log_likelihood=function)
    with pytest.raises(ValueError, match=f"batched_log_likelihood {text}"):
        ewsg.sample(jax.random.key(0), ewsg.sgld(posterior, 0.1, batch_size=2), POSITION, DATA, 3)


def test_a_batched_one_that_is_another_function_is_refused():
    other = ewsg.Posterior(
        of_row, log_prior, batched_log_likelihood=lambda p, rows: 2 * of_batch(p, rows)
    )
    with pytest.raises(ValueError, match=r"got .* for row 0 among 12 rows and .* for it alone"):
        other.check(POSITION, DATA)


def test_rows_are_compared_once():
    """Per shapes, not per data set; and where a likelihood is 0 everywhere, at a moved position."""
    flat = {"w": np.zeros(2), "b": np.array(0.0)}
    normalised = ewsg.Posterior(
        log_prior=log_prior,
        batched_log_likelihood=lambda p, rows: of_batch(p, rows | {"x": standardised(rows["x"])}),
    )
    with pytest.raises(ValueError, match="batch normalisation in training mode"):
        normalised.check(flat, DATA)
    calls = []

    def counted(p, rows):
        jax.debug.callback(lambda: calls.append(1))
        return of_batch(p, rows)

    posterior = ewsg.Posterior(log_prior=log_prior, batched_log_likelihood=counted)
    posterior.check(POSITION, DATA)
    jax.effects_barrier()
    before = len(calls)
    posterior.check(POSITION, jax.tree.map(lambda x: x[1:], DATA))
    jax.effects_barrier()
    assert before > 0
    assert len(calls) == before
