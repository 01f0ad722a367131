"""The real Covertype; a wrong EWSG_JAX_DATA fails, none skips (tests/conftest.py)."""

import numpy as np
import pytest

import ewsg_jax as ewsg

pytestmark = pytest.mark.real_data


def test_covertype_is_the_published_data():
    data = ewsg.datasets.covertype()
    assert data.x.shape == (581_012, 54)
    assert data.y.sum() == 283_301  # lodgepole pine
    assert set(np.unique(data.x[:, 10:])) == {0, 1}
    np.testing.assert_array_equal(data.x[:, 10:14].sum(1), 1)
    np.testing.assert_array_equal(data.x[:, 14:].sum(1), 1)
    np.testing.assert_array_equal(data.x[0, :4], [2596, 51, 3, 258])
    train, test = ewsg.datasets.split(data, 0.2, seed=0)
    assert (train.num_rows, test.num_rows) == (464_809, 116_203)
