"""Splitting and scaling."""

import jax.numpy as jnp
import numpy as np
import pytest

import ewsg_jax as ewsg
from ewsg_jax.datasets import Dataset


def made(x, name="made"):
    x = np.asarray(x, np.float64)
    return Dataset(
        x, np.arange(len(x)) % 2, tuple(f"f{i}" for i in range(x.shape[1])), name, "here"
    )


def test_split_is_a_partition_and_reproducible():
    data = made(np.arange(103.0)[:, None])
    train, test = ewsg.datasets.split(data, 0.2, seed=3)
    assert (train.num_rows, test.num_rows) == (82, 21)
    assert sorted([*train.x[:, 0], *test.x[:, 0]]) == list(range(103))
    again, _ = ewsg.datasets.split(data, 0.2, seed=3)
    other, _ = ewsg.datasets.split(data, 0.2, seed=4)
    np.testing.assert_array_equal(train.x, again.x)
    assert (train.x != other.x).any()
    np.testing.assert_array_equal(train.y, train.x[:, 0] % 2)


def test_split_does_not_round_up_a_rounding_error():
    assert ewsg.datasets.split(made(np.zeros((10, 1))), 0.3, seed=0)[1].num_rows == 3


def test_standardise_uses_the_training_rows():
    generator = np.random.default_rng(0)
    x = generator.normal(5, 3, (200, 4))
    train, test = made(x[:150]), made(x[150:])
    scaled_train, scaled_test = ewsg.datasets.standardise(train, test)
    mean, sd = x[:150].mean(0), x[:150].std(0)
    np.testing.assert_allclose(scaled_train.x, (x[:150] - mean) / sd, atol=1e-5)
    np.testing.assert_allclose(scaled_test.x, (x[150:] - mean) / sd, atol=1e-5)


def test_standardise_makes_constant_columns_zero():
    train, test = made([[1.0, 7.0], [3.0, 7.0]]), made([[2.0, 9.0]])
    scaled_train, scaled_test = ewsg.datasets.standardise(train, test)
    np.testing.assert_array_equal(scaled_train.x, [[-1, 0], [1, 0]])
    np.testing.assert_array_equal(scaled_test.x, [[0, 0]])


@pytest.mark.parametrize("unit", [1e-100, 1e-19, 1e-13, 1e100])
def test_a_feature_varies_in_any_unit(unit):
    x = np.random.default_rng(1).normal(3, 2, (50, 2)) * np.array([unit, 1.0])
    x = np.column_stack([x, np.full(50, unit), np.zeros(50), np.full(50, 0.1)])
    scaling = ewsg.datasets.standardisation(x)
    np.testing.assert_allclose(scaling.factor[:2], 1 / x[:, :2].std(0), rtol=1e-12)
    np.testing.assert_array_equal(scaling.factor[2:], 0)
    np.testing.assert_allclose(scaling(x)[:, :2].std(0), 1, rtol=1e-5)


def test_standardise_takes_whole_numbers():
    train = Dataset(np.array([[1], [3]], np.int16), np.zeros(2), ("a",), "whole", "here")
    np.testing.assert_array_equal(ewsg.datasets.standardise(train, train)[0].x, [[-1], [1]])


def test_standardise_takes_arrays():
    """They are scaled as data sets are, bit for bit, whoever made them."""
    x = np.random.default_rng(2).normal(5, 3, (30, 4)).astype(np.float32)
    expected = ewsg.datasets.standardise(made(x[:20]), made(x[20:]))
    for convert in (np.asarray, jnp.asarray):
        scaled = ewsg.datasets.standardise(convert(x[:20]), convert(x[20:]))
        for part, dataset in zip(scaled, expected, strict=True):
            assert type(part) is np.ndarray
            assert part.dtype == np.float32
            np.testing.assert_array_equal(part, dataset.x)
    scaling = ewsg.datasets.standardisation(made(x[:20]))
    np.testing.assert_array_equal(scaling(x[20:]), expected[1].x)
    np.testing.assert_array_equal(scaling(made(x[20:])).x, expected[1].x)


@pytest.mark.parametrize("shape", [(3,), (2, 7, 3)])
def test_the_way_back_keeps_the_linear_predictor(shape):
    """Exact in float32: means 4 and 7, standard deviations 2 and 1, one column constant."""
    x = np.array([[2.0, 6.0, 5.0], [6.0, 8.0, 5.0], [2.0, 8.0, 5.0], [6.0, 6.0, 5.0]])
    scaling = ewsg.datasets.standardisation(x)
    z = scaling(x)
    np.testing.assert_array_equal(z, [[-1, -1, 0], [1, 1, 0], [-1, 1, 0], [1, -1, 0]])
    generator = np.random.default_rng(3)
    weights, intercept = generator.normal(size=shape), generator.normal(size=shape[:-1])
    w, b = scaling.original(weights, intercept)
    assert (w.shape, b.shape) == (weights.shape, intercept.shape)
    np.testing.assert_allclose(
        w @ x.T + b[..., None], weights @ z.T + intercept[..., None], rtol=1e-12
    )
    np.testing.assert_array_equal(w[..., 2], 0)
    without = scaling.original(jnp.asarray(weights, jnp.float32))[1]
    np.testing.assert_allclose(without, b - intercept, rtol=1e-5)


def test_the_way_back_of_several_classes():
    """Weights (d, k), as softmax regression has them."""
    generator = np.random.default_rng(4)
    x = generator.normal(3, 2, (20, 5))
    scaling = ewsg.datasets.standardisation(x)
    weights, intercept = generator.normal(size=(5, 3)), generator.normal(size=3)
    w, b = scaling.original(weights, intercept, axis=0)
    np.testing.assert_allclose(
        x @ w + b, (x - x.mean(0)) / x.std(0) @ weights + intercept, rtol=1e-10
    )


@pytest.mark.parametrize("unit", [1.0, 1e-6, 1e6])
def test_whiten_gives_the_identity_and_drops_null_directions(unit):
    """Whatever the unit of the features."""
    generator = np.random.default_rng(1)
    x = generator.normal(size=(400, 5)) @ generator.normal(size=(5, 5))
    x = unit * np.column_stack([x, x[:, 0] - x[:, 1], np.full(400, 3.0)])
    train, test, dropped = ewsg.datasets.whiten(made(x[:300]), made(x[300:]))
    assert dropped == 2
    assert train.feature_names == tuple(f"component_{i}" for i in range(1, 6))
    np.testing.assert_allclose(np.cov(train.x.T, bias=True), np.eye(5), atol=1e-5)
    np.testing.assert_allclose(train.x.mean(0), 0, atol=1e-5)
    # The test rows go through the same map: it is affine, and the training rows determine it.
    design = np.column_stack([x[:300], np.ones(300)])
    affine, *_ = np.linalg.lstsq(design, train.x.astype(np.float64), rcond=None)
    np.testing.assert_allclose(test.x, np.column_stack([x[300:], np.ones(100)]) @ affine, atol=1e-3)


def test_intercept():
    data = made(np.zeros((3, 2))).with_intercept()
    np.testing.assert_array_equal(data.x[:, -1], 1)
    assert data.feature_names[-1] == "intercept"
