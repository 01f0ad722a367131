"""What a function reads, as a digest: by value and by type."""

import functools
import sys
import types

import jax.numpy as jnp
import numpy as np
import pandas as pd

from ewsg_jax.base import function_digests
from tests.ways_of_reading import Model

# The digests themselves.


def digest(value):
    return function_digests.Reader().read(value).digest


def test_digests_differ_by_value_and_by_type():
    values = [
        0,
        1,
        1.0,
        True,
        None,
        "1",
        b"1",
        1j,
        (1,),
        [1],
        {1},
        {1: 1},
        {1: 2},
        [1, 2],
        [2, 1],
        float("nan"),
    ]
    values += [
        np.float32(1),
        np.ones(1),
        np.ones(1, np.float32),
        np.ones((1, 1)),
        jnp.ones(1),
        jnp.zeros(1),
    ]
    values += [
        np.array([1, "a"], object),
        np.array([1, "b"], object),
        types.SimpleNamespace(a=1),
        range(3),
        range(4),
    ]
    values += [
        np.random.default_rng(0),
        np.random.default_rng(1),
        Model(),
        Model,
        Model.log_likelihood,
        len,
        max,
    ]
    found = [digest(value) for value in values]
    assert len(set(found)) == len(found)
    assert [digest(value) for value in values] == found


def test_equal_values_have_equal_digests():
    makes = [
        lambda: [1.0] * 100,
        lambda: {"a": [1, (2, 3)]},
        lambda: np.arange(5.0),
        lambda: jnp.arange(5.0),
    ]
    makes += [
        lambda: float("nan"),
        lambda: {"b", "a", "c"},
        lambda: types.SimpleNamespace(a=np.ones(2)),
    ]
    makes += [
        lambda: np.random.default_rng(3),
        lambda: functools.partial(max, 1),
        lambda: bytearray(b"ab"),
        lambda: pd.DataFrame({"a": [1.0, 2.0], "b": ["x", "y"]}),
    ]
    for make in makes:
        assert digest(make()) == digest(make())


def test_circles_and_modules_end():
    own = [1]
    own.append(own)
    digest(own)
    module = types.ModuleType("leads_to_itself")
    module.itself, module.value = module, 1.0
    sys.modules["leads_to_itself"] = module

    def function():
        return module.itself.value

    before = digest(function)
    module.value = 2.0
    assert digest(function) != before

    def factorial(n):
        return 1 if n < 1 else n * factorial(n - 1)

    assert digest(factorial) == digest(factorial)
    del sys.modules["leads_to_itself"]
