"""Rows by probability: exact laws over all batches, and an alias table that draws them."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ewsg_jax as ewsg
from ewsg_jax.base import rng as random_module
from ewsg_jax.rows import Batch, by_probability, leverage
from ewsg_jax.rows._alias import certain_rows
from tests.gradients.six_rows import MODELS, N, as_jax, close, flat, no_weight, shifted

P = np.array([0.05, 0.3, 0.1, 0.25, 0.02, 0.28])
ESTIMATORS = ("uniform", "control_variate", "svrg", "saga")


def estimator_of(name, posterior, rows, batch_size, center):
    options = {"center": center} if name == "control_variate" else {}
    return getattr(ewsg.gradients, name)(posterior, batch_size=batch_size, rows=rows, **options)


def estimates(name, model, law, batch_size, batches):
    """The estimate of every batch, with a memory made elsewhere; and its probe there."""
    elsewhere = as_jax(shifted(model.position, 0.4, -0.3))
    estimator = estimator_of(name, model.posterior, law, batch_size, elsewhere)

    @jax.jit
    def every(position, elsewhere, data):
        memory = estimator.init(jax.random.key(0), elsewhere, data)
        if name == "svrg":
            memory, _, _ = estimator.refresh(
                estimator.draw(jax.random.key(0), data), memory, jnp.int32(0), elsewhere, data
            )

        def one(rows):
            randomness = estimator.draw(jax.random.key(0), data)
            chosen = Batch(rows, weights=estimator.law.weight[rows])
            randomness = randomness._replace(batch=chosen) if name == "svrg" else chosen
            estimate, _ = estimator.propose(randomness, memory, position, data, no_weight)
            return flat(estimate.gradient), flat(estimator.gradient_at(estimate, position, data))

        return jax.vmap(one)(jnp.asarray(batches, jnp.int32))

    return jax.device_get(every(as_jax(model.position), elsewhere, as_jax(model.data))), elsewhere


LABELS, EVEN = np.array([0, 1, 0, 1, 1, 0]), np.array([0.1, 0.2, 0.15, 0.25, 0.2, 0.1])
"""Strata of probabilities 0.35 and 0.65."""


def moments_within(p, labels, seats, a):
    """Σ_c (1/b_c)(P_c Σ aᵢaᵢᵀ/pᵢ − (Σ aᵢ)(Σ aᵢ)ᵀ), the sums over the rows of stratum c."""
    found = 0
    for c, count in enumerate(seats):
        rows = labels == c
        squares = p[rows].sum() * np.einsum("ij,ik,i->jk", a[rows], a[rows], 1 / p[rows])
        found = found + (squares - np.outer(a[rows].sum(0), a[rows].sum(0))) / count
    return found


CASES = {"anywhere": (P, None, [2]), "strata": (EVEN, LABELS, [1, 2])}
"""Probabilities, strata, and how many rows of each a batch has."""


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("name", ESTIMATORS)
def test_mean_and_covariance_over_all_batches(x64, name, case):
    """Unbiased, of the covariance within strata of what the estimator estimates by rows."""
    model, (p, strata, seats) = MODELS["custom"], CASES[case]
    law = by_probability(jnp.asarray(p), strata=strata)
    labels = np.zeros(N, int) if strata is None else strata
    places = [np.flatnonzero(labels == c) for c, count in enumerate(seats) for _ in range(count)]
    batches = np.array(list(itertools.product(*places)))
    (values, probes), elsewhere = estimates(name, model, law, sum(seats), batches)
    probability = (p / np.bincount(labels, p)[labels])[batches].prod(1)
    per_datum = model.per_datum(model.position)
    mean = probability @ values
    # The table holds probabilities to 2⁻³².
    close(mean, model.prior(model.position) + per_datum.sum(0), 1e-9)
    a = per_datum if name == "uniform" else per_datum - model.per_datum(jax.device_get(elsewhere))
    found = np.einsum("ij,ik,i->jk", values - mean, values - mean, probability)
    close(found, moments_within(p, labels, seats, a), 1e-8)
    close(probes, values, 1e-10)


@pytest.mark.parametrize("name", ["uniform", "saga"])
def test_certain_rows_are_taken_exactly(x64, name):
    """b p ≥ 1 for the second row, and for the fourth of what is then left: one row of the other
    four is drawn.
    """
    model, p = MODELS["custom"], np.array([0.1, 4.0, 0.1, 1.0, 0.2, 0.1])
    law = by_probability(jnp.asarray(p)).of_size(3)
    assert law.certain.tolist() == [1, 3]
    others = np.array([0, 2, 4, 5])
    batches = np.array([[1, 3, i] for i in others])
    (values, _), elsewhere = estimates(name, model, by_probability(jnp.asarray(p)), 3, batches)
    probability = p[others] / p[others].sum()
    per_datum = model.per_datum(model.position)
    close(probability @ values, model.prior(model.position) + per_datum.sum(0), 1e-9)
    a = per_datum if name == "uniform" else per_datum - model.per_datum(jax.device_get(elsewhere))
    rest = a[others]
    exact = np.einsum("ij,ik,i->jk", rest, rest, 1 / probability) - np.outer(
        rest.sum(0), rest.sum(0)
    )
    centred = values - probability @ values
    close(np.einsum("ij,ik,i->jk", centred, centred, probability), exact, 1e-8)
    drawn = jax.vmap(lambda key: law.draw(key, jnp.zeros((6, 1))).indices)(
        jax.random.split(jax.random.key(0), 50)
    )
    assert np.all(np.asarray(drawn)[:, :2] == [1, 3])
    assert set(np.asarray(drawn)[:, 2].tolist()) <= set(others.tolist())


def test_weights_are_drawn_with_row_numbers():
    """They stay with them where rows are fetched ahead; numbers without weights are refused."""
    law, data = by_probability(jnp.asarray(P)).of_size(2), jnp.arange(6.0)[:, None]
    drawn = jax.vmap(lambda key: law.draw(key, data))(jax.random.split(jax.random.key(0), 20))
    rows = np.asarray(drawn.indices)
    np.testing.assert_allclose(drawn.weights, 1 / (2 * P[rows]), rtol=1e-6)
    batch = ewsg.rows.fetch(drawn, data)
    np.testing.assert_array_equal(batch.weights, drawn.weights)
    np.testing.assert_array_equal(batch.rows[..., 0], rows)
    estimator = ewsg.gradients.uniform(ewsg.models.gaussian_location(), batch_size=2, rows=law)
    with pytest.raises(TypeError, match=r"batch must be an ewsg_jax\.rows\.Batch or a Block"):
        estimator.propose(drawn.indices[0], (), jnp.zeros(1), data, no_weight)


# The table.


def realised(law):
    """The probability of each row drawn, from the table: uniform places, thresholds of 2³²."""
    threshold, own, alias, _ = np.asarray(law.table).T
    k, found = len(threshold), np.zeros(law.weight.shape[0])
    np.add.at(found, own, threshold / 2**32 / k)
    np.add.at(found, alias, (1 - threshold / 2**32) / k)
    return found


@pytest.mark.full
def test_certain_rows_are_looked_for_until_there_are_no_more():
    """0.7 at once; of three left 0.16 of 0.3; of two 0.08 of 0.14; of one none of 0.06."""
    found = certain_rows(np.array([0.04, 0.7, 0.16, 0.02, 0.08]), 4)
    np.testing.assert_array_equal(found, [False, True, True, False, True])


@pytest.mark.parametrize("n", [1, 2, 7, 1_000])
def test_the_table_makes_the_probabilities(x64, n):
    p = np.random.default_rng(n).gamma(0.3, size=n)
    law = by_probability(jnp.asarray(p)).of_size(1)
    if n == 1:
        assert law.certain.tolist() == [0]
        assert law.weight.tolist() == [1.0]
        return
    np.testing.assert_allclose(realised(law), p / p.sum(), rtol=1e-9, atol=2**-31 / n)
    # Whatever the rounding of the table, what a row stands for is one over its own probability.
    seen = realised(law) > 0
    np.testing.assert_allclose(np.asarray(law.weight)[seen] * realised(law)[seen], 1.0, rtol=1e-6)


def test_a_place_that_keeps_nearly_all_draws(x64):
    """Of 1 − 2⁻⁴⁰ the nearest threshold is 2³², which 32 bits do not hold: both rows are drawn, as
    often as they count for.
    """
    p = np.array([1 - 2.0**-40, 1 + 2.0**-40]) / 2
    law = by_probability(jnp.asarray(p)).of_size(1)
    np.testing.assert_allclose(realised(law), 0.5, rtol=1e-9)
    np.testing.assert_allclose(np.asarray(law.weight) * realised(law), 1.0, rtol=1e-12)


def test_draws_are_the_table(monkeypatch):
    """Each place with the coin just below its threshold, and at it: their 64-bit words."""
    law = by_probability(jnp.asarray(P)).of_size(1)
    data = jnp.zeros((N, 1))
    for place, (threshold, own, alias, _) in enumerate(np.asarray(law.table).tolist()):
        for coin, row in ((threshold - 1, own), (threshold, alias)):
            if not 0 <= coin < 2**32 - 1:
                continue
            # w k = place 2⁶⁴ + coin 2³² + 2³¹, to the nearest w
            word = (place * 2**64 + coin * 2**32 + 2**31) // N
            words = jnp.array([[word >> 32], [word % 2**32]], jnp.uint32)
            monkeypatch.setattr(random_module, "index_words", lambda *_, made=words, **__: made)
            assert int(law.draw(jax.random.key(0), data).indices[0]) == row


@pytest.mark.parametrize("n", [40, 500_000])
def test_frequencies(n):
    """200,000 draws, one and two random words a row: every cell within 5.6 standard errors."""
    weights = np.ones(n)
    weights[:10] = n / 20 * np.arange(10)
    law = by_probability(jnp.asarray(weights)).of_size(1)
    draw = jax.jit(jax.vmap(lambda key: law.draw(key, jnp.zeros((n, 0))).indices[0]))
    drawn = np.asarray(draw(jax.random.split(jax.random.key(2), 200_000)))
    cells = np.minimum(np.arange(n), 10)  # the first ten rows, and all others
    found = np.bincount(cells[drawn], minlength=11) / len(drawn)
    expected = np.bincount(cells, weights / weights.sum(), minlength=11)
    assert np.all(np.abs(found - expected) <= 5.6 * np.sqrt(expected * (1 - expected) / len(drawn)))
    assert found[0] == 0, "a row of weight 0"


# What it is for.


def test_leverage():
    x = np.random.default_rng(3).normal(size=(20, 3))
    C = np.array([[2.0, 0.3, 0.0], [0.3, 1.0, 0.0], [0.0, 0.0, 5.0]])
    norms = np.sqrt([row @ C @ row for row in x])
    np.testing.assert_allclose(
        leverage(jnp.asarray(x), jnp.asarray(C)).probabilities, norms / norms.sum(), rtol=1e-5
    )
    norms = np.sqrt(x**2 @ np.diag(C))
    found = leverage(jnp.asarray(x), jnp.asarray(np.diag(C))).probabilities
    np.testing.assert_allclose(found, norms / norms.sum(), rtol=1e-5)


@pytest.mark.parametrize("scale", [1.0, 1e-3])
def test_leverage_of_a_row_of_zeros(x64, scale):
    """A millionth of the root mean square norm, whatever the unit: norms 3, 0 and 4."""
    x = scale * np.array([[3.0, 0.0], [0.0, 0.0], [0.0, 4.0]])
    norms = np.array([3.0, 1e-6 * np.sqrt(25 / 3), 4.0])
    found = leverage(jnp.asarray(x), jnp.ones(2)).probabilities
    np.testing.assert_allclose(found, norms / norms.sum(), rtol=1e-12)


@pytest.mark.full
def test_rare_rows(x64):
    """A column that 4 of 1,000 rows have: by leverage a tenth of the variance, closed form."""
    rng = np.random.default_rng(0)
    x = np.stack([np.ones(1_000), np.arange(1_000) < 4], axis=1) * rng.uniform(0.5, 1.5, (1_000, 1))
    C = np.linalg.inv(x.T @ x)
    p = np.asarray(leverage(jnp.asarray(x), jnp.asarray(C)).probabilities)
    a = x[:, 1] * rng.normal(size=1_000)  # the derivative of each row by the rare coefficient
    variance = lambda p: np.sum(a**2 / p) - a.sum() ** 2
    assert variance(np.full(1_000, 1e-3)) > 10 * variance(p)


@pytest.mark.full
def test_under_exponential_weights_and_in_a_run():
    """It composes: candidates are drawn by it, and a chain of many rows runs with it."""
    model = ewsg.models.gaussian_location()
    data = jnp.asarray(np.random.default_rng(1).normal(size=(30, 2)), jnp.float32)
    rows = by_probability(jnp.linspace(1.0, 3.0, 30))
    weighted = ewsg.gradients.exponentially_weighted(
        ewsg.gradients.uniform(model, batch_size=3, rows=rows)
    )
    kernel = ewsg.kernel(ewsg.dynamics.langevin(1e-3), weighted)
    samples = ewsg.sample(jax.random.key(0), kernel, data.mean(0), data, 300, num_chains=4)
    assert samples.is_finite.all()
    plain = ewsg.sgld(model, 1e-3, batch_size=3, rows=rows)
    assert repr(plain).endswith("batch_size=3, rows=by_probability(probabilities=<float32[30]>)))")
    assert plain == ewsg.sgld(model, 1e-3, batch_size=3, rows=rows)


# Within strata.


def test_each_place_draws_from_its_own_stratum():
    """Each stratum's table makes its probabilities; every place draws its stratum's rows."""
    p = np.array([0.06, 0.17, 0.06, 0.18, 0.06, 0.17, 0.06, 0.18, 0.06])
    labels = np.array(
        [2, 0, 2, 0, 2, 0, 2, 0, 2]
    )  # the second is empty, the first has fewer rows, of more weight
    law = by_probability(jnp.asarray(p), strata=jnp.asarray(labels)).of_size(4)
    table, seats = np.asarray(law.table), []
    for first, size in zip(*map(np.asarray, law.places), strict=True):
        rows = table[first : first + size]
        (label,) = set(labels[rows[:, 1]]) | set(labels[rows[:, 2]])
        found = np.bincount(rows[:, 1], rows[:, 0], 9) + np.bincount(
            rows[:, 2], 2.0**32 - rows[:, 0], 9
        )
        own = np.where(labels == label, p, 0) / p[labels == label].sum()
        np.testing.assert_allclose(found / 2**32 / size, own, rtol=1e-6, atol=1e-9)
        seats.append(label)
    assert seats == [0, 0, 0, 2]
    draw = jax.vmap(lambda key: law.draw(key, jnp.zeros((9, 1))).indices)
    drawn = np.asarray(draw(jax.random.split(jax.random.key(0), 60)))
    np.testing.assert_array_equal(labels[drawn], np.tile(seats, (60, 1)))
    assert set(drawn.ravel().tolist()) == set(range(9))


@pytest.mark.full
def test_rows_in_parts_count_once_in_the_mean():
    """Two parts of six rows, a row of the first in every batch: over the places of a part's share,
    how often each of its rows is drawn times what it then stands for is 1.
    """
    p, labels = np.array([30.0, 1, 2, 3, 1, 2, 2, 1, 3, 2, 1, 2]), np.arange(12) % 2
    law = by_probability(jnp.asarray(p), strata=jnp.asarray(labels)).of_size(8).over_parts(2)
    for table, first, size, weight in zip(
        *map(np.asarray, (law.table, law.first, law.size, law.weight)), strict=True
    ):
        drawn = np.zeros(6)
        for begin, count in zip(first, size, strict=True):
            threshold, own, alias, _ = table[begin : begin + count].T
            np.add.at(drawn, own, threshold / 2**32 / count)
            np.add.at(drawn, alias, (1 - threshold / 2**32) / count)
        np.testing.assert_allclose(drawn * weight, 1.0, rtol=1e-5)


def test_rows_that_are_certain_within_their_stratum():
    """A stratum of one row, and one of as many as it gets: both in every batch."""
    labels = np.array([0, 1, 2, 2, 2, 2])
    law = by_probability(jnp.ones(6), strata=jnp.asarray(labels)).of_size(4)
    assert law.certain.tolist() == [0, 1]
    np.testing.assert_allclose(law.weight, [1, 1, 2, 2, 2, 2])
    all_rows = by_probability(jnp.ones(6), strata=jnp.asarray(labels)).of_size(6)
    assert all_rows.certain.tolist() == list(range(6))


def test_labels_of_strata_may_be_ids():
    """Such as 32 bits do not hold, and 2³³ would have been stratum 0."""
    ids = np.array([7, 2**33, 3_000_000_000])
    found = by_probability(jnp.asarray(EVEN), strata=ids[LABELS])
    expected = by_probability(jnp.asarray(EVEN), strata=LABELS)
    assert found == expected
    assert by_probability(np.ones(3), strata=ids).of_size(3).certain.tolist() == [0, 1, 2]


@pytest.mark.full
def test_strata_of_a_law_that_is_made_under_a_trace():
    """A kernel made while tracing, its strata known: how many rows they get is not traced."""
    rows = by_probability(jnp.asarray(EVEN), strata=jnp.asarray(LABELS))
    try:
        drawn = jax.jit(lambda key: rows.of_size(3).draw(key, jnp.zeros((6, 1))).indices)(
            jax.random.key(0)
        )
    except TypeError as error:
        raise AssertionError("a shape is traced") from error
    np.testing.assert_array_equal(
        drawn, rows.of_size(3).draw(jax.random.key(0), jnp.zeros((6, 1))).indices
    )
    assert repr(rows) == "by_probability(probabilities=<float32[6]>, strata=<int32[6]>)"
