"""Clusters that are far apart are found, whatever form the data have."""

import jax.numpy as jnp
import numpy as np
import pytest

import ewsg_jax as ewsg

pytestmark = pytest.mark.usefixtures("optimised")

TRUTH = np.arange(90) % 3
POINTS = 10.0 * np.eye(3)[TRUTH] + np.random.default_rng(0).normal(size=(90, 3))


def agree(labels, truth=TRUTH):
    """Each cluster is one of the true ones, under another number."""
    pairs = {(int(a), int(b)) for a, b in zip(labels, truth, strict=True)}
    return len(pairs) == 3 == len({a for a, _ in pairs})


@pytest.mark.parametrize(
    ("data", "features"),
    [
        (POINTS, None),
        ({"x": POINTS, "y": np.zeros(90)}, None),
        ({"image": POINTS.reshape(90, 3, 1)}, "image"),
        (
            {"a": POINTS[:, :1], "b": POINTS[:, 1:]},
            lambda data: np.column_stack([data["a"], data["b"]]),
        ),
    ],
)
def test_three_clusters(data, features):
    labels = ewsg.cluster(data, 3, features=features)
    assert labels.shape == (90,)
    assert labels.dtype == jnp.int32
    assert set(labels.tolist()) == {0, 1, 2}
    assert agree(labels)
    np.testing.assert_array_equal(labels, ewsg.cluster(data, 3, features=features))


@pytest.mark.full
def test_many_rows_by_minibatches():
    truth = np.arange(60_000) % 3
    points = 10.0 * np.eye(3)[truth] + np.random.default_rng(1).normal(size=(60_000, 3))
    assert agree(ewsg.cluster(points, 3), truth)


@pytest.mark.full
def test_labels_make_strata():
    """From clusters to a chain: data with labels, and less heat than as many uniform rows."""
    data = {"x": POINTS, "stratum": ewsg.cluster({"x": POINTS}, 3)}
    model = ewsg.Posterior(
        lambda mean, row: -0.5 * jnp.sum((row["x"] - mean) ** 2), lambda mean: 0.0
    )
    kernel = ewsg.cp_sghmc(model, 1e-2, friction=10.0, batch_size=3, labels="stratum", num_strata=3)
    plain = ewsg.sghmc(model, 1e-2, friction=10.0, batch_size=3)
    import jax

    spread = [
        ewsg.sample(jax.random.key(0), k, jnp.zeros(3), data, 4000, burn_in=500).position.var()
        for k in (kernel, plain)
    ]
    assert spread[0] < spread[1] / 3
