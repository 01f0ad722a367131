"""Numbers that 32 bits do not hold are refused at every door, and what holds no numbers is answered
with a way.

Each case gave other numbers, or an error of JAX's own, before there was a check.
"""

import itertools
import re
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import xarray
from jax.experimental import sparse

import ewsg_jax as ewsg
from ewsg_jax.base import numeric

KEY = jax.random.key(0)
RNG = np.random.default_rng(0)
N = 24
POSTERIOR = ewsg.Posterior(
    lambda p, row: -0.5 * (row["y"] - p - 0.0 * row["t"]) ** 2, lambda p: -0.5 * jnp.sum(p**2)
)
START = jnp.zeros(())
KERNEL = ewsg.sgld(POSTERIOR, 1e-2, batch_size=4)
GOOD = {"y": RNG.normal(size=N).astype(np.float32), "t": np.arange(N, dtype=np.int32)}
DAY = 86_400 * 10**9
WIDE = {
    "times in nanoseconds": np.arange(N) * DAY + 1_700_000_000 * 10**9,
    "hashed ids": RNG.integers(0, 2**62, N),
    "unsigned": np.arange(N, dtype=np.uint64) + 2**33,
    "luminosities": 10.0 ** RNG.normal(44, 0.3, N),
    "squares of strains": 1e-44 * RNG.random(N),
    "one column of two": np.column_stack([RNG.random(N), 1e39 * RNG.random(N)]).sum(1),
}


def given(name):
    return GOOD | {"t": WIDE[name]}


def ran():
    return ewsg.sample(KEY, KERNEL, START, GOOD, 40, num_chains=2)


def opened(data):
    return ewsg.sample(KEY, KERNEL, START, ewsg.stream(data, window=8), 8)


def summed(data):
    svrg = ewsg.svrg_ld(POSTERIOR, 1e-2, batch_size=2, refresh_every=4)
    return ewsg.sample(KEY, svrg, START, ewsg.stream(data, window=8), 8)


DOORS = {
    "sample": lambda data: ewsg.sample(KEY, KERNEL, START, data, 4),
    "sample, unchecked values": lambda data: ewsg.sample(
        KEY, KERNEL, START, data, 4, check_data=False
    ),
    "find_mode": lambda data: ewsg.find_mode(KEY, POSTERIOR, START, data),
    "plan": lambda data: ewsg.plan(KEY, POSTERIOR, START, data),
    "check": lambda data: ewsg.check(KEY, ran(), POSTERIOR, data),
    "forecast": lambda data: ewsg.forecast(
        ewsg.ld(POSTERIOR, 0.01), ewsg.find_mode(KEY, POSTERIOR, START, GOOD), data
    ),
    "cluster": lambda data: ewsg.cluster(data, 2),
    "stack_data": lambda data: ewsg.stack_data([GOOD, data]),
    "stream": opened,
    "stream, sums over all": summed,
    "kernel.init": lambda data: KERNEL.init(KEY, START, data),
    "kernel.step": lambda data: KERNEL.step(KEY, KERNEL.init(KEY, START, GOOD), data),
    "kernel.bind": KERNEL.bind,
    "random-walk Metropolis": lambda data: ewsg.random_walk_metropolis(POSTERIOR, 0.1).init(
        KEY, START, data
    ),
    "posterior.gradient": lambda data: POSTERIOR.gradient(START, data),
    "posterior.potential": lambda data: POSTERIOR.potential(START, data),
    "posterior.batch_gradient": lambda data: POSTERIOR.batch_gradient(START, data, jnp.arange(3)),
    "predict": lambda data: ran().predict(lambda p, x: p + x["y"], data),
    "control variates": lambda data: ewsg.diagnostics.control_variates(KEY, ran(), POSTERIOR, data),
}


@pytest.mark.full
@pytest.mark.parametrize("door", DOORS)
def test_no_door_lets_other_numbers_in(door):
    with pytest.raises(
        ValueError, match=r"must hold numbers that int32 holds.*\['t'\].*jax_enable_x64"
    ):
        DOORS[door](given("times in nanoseconds"))


@pytest.mark.full
def test_a_later_window_of_a_stream():
    """What was sampled before is kept, with a warning that says why the run ended."""
    late = np.where(np.arange(N) < N - 1, 1, 2**40)
    with pytest.warns(RuntimeWarning, match=r"must hold numbers that int32 holds.*\['t'\]"):
        run = ewsg.sample(KEY, KERNEL, START, ewsg.stream(GOOD | {"t": late}, window=8), 100)
    assert run.interrupted


@pytest.mark.parametrize("name", WIDE)
def test_what_32_bits_do_not_hold(name):
    low, high = WIDE[name].min(), WIDE[name].max()
    told = (
        f"{int(low):,} to {int(high):,}"
        if WIDE[name].dtype.kind in "iu"
        else f"{low:.6g} to {high:.6g}"
    )
    with pytest.raises(ValueError, match=re.escape(f"got data['t'] from {told}")):
        DOORS["sample"](given(name))


@pytest.mark.parametrize("name", WIDE)
def test_64_bits_hold_it(name, x64):
    # The value at a position is what NumPy says it is.
    data = given(name)
    potential = POSTERIOR.potential(jnp.zeros(()), data)
    np.testing.assert_allclose(potential, 0.5 * np.sum(data["y"].astype(float) ** 2), rtol=1e-6)


def test_a_column_of_a_matrix_by_itself():
    x = np.column_stack([RNG.random(N), 1e-60 * (1 + RNG.random(N))])
    model = ewsg.models.linear_regression()
    with pytest.raises(ValueError, match=r"data\['x'\] from 1"):
        model.gradient(jnp.zeros(2), {"x": x, "y": GOOD["y"]})
    # Beside larger ones a number of the same column may be 0.
    x[0, 1] = 1.0
    assert np.isfinite(model.gradient(jnp.zeros(2), {"x": x, "y": GOOD["y"]})).all()


def test_a_position_and_inputs_and_a_state():
    with pytest.raises(
        ValueError, match=r"position must hold numbers that float32 holds.*from 1e\+44"
    ):
        ewsg.sample(KEY, KERNEL, np.float64(1e44), GOOD, 4)
    with pytest.raises(ValueError, match="position must hold"):
        ewsg.find_mode(KEY, POSTERIOR, 1e44, GOOD)
    samples = ran()
    for inputs in (2**40, np.array([2**40]), np.float64(1e300), 2**70):
        with pytest.raises(ValueError, match="inputs must hold numbers"):
            samples.predict(lambda p, x: p * x, inputs)
    wide = samples.state._replace(
        dynamics=samples.state.dynamics._replace(
            position=np.array([1e44, 0.0]), step=samples.state.step
        )
    )
    with pytest.raises(ValueError, match="state must hold numbers"):
        ewsg.sample(KEY, KERNEL, None, GOOD, 4, state=wide)


@pytest.mark.parametrize(
    ("t", "is_said"),
    [
        (1.7e9 + 86_400 * np.linspace(0, 1, N) ** 2, True),  # seconds of a day
        (2_460_000.5 + 30 * np.linspace(0, 1, N) ** 2, True),  # Julian dates of a month
        (1_700_000_000.0 + np.arange(N) * 128, False),  # held as they are
        (np.full(N, 0.1), False),
        (1 + 1e-15 * RNG.normal(size=N), False),  # one number, and rounding
        (1013.25 + RNG.normal(size=N), False),
        (np.where(np.arange(N) % 3, RNG.normal(size=N), np.nan), False),
    ],
)
def test_digits_that_are_lost_are_said(t, is_said):
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        POSTERIOR.gradient(START, GOOD | {"t": t})
    assert [str(each.message)[:9] for each in told] == ["data['t']"] * is_said * len(told)
    assert bool(told) == is_said


def test_arrays_of_jax_are_not_looked_at(monkeypatch):
    monkeypatch.setattr(np, "asarray", lambda *arguments: pytest.fail("looked at"))
    numeric.check("data", "data", jnp.arange(3))


OBJECTS = {
    "masked": (np.ma.masked_array(GOOD["y"], np.arange(N) < 3), r"filled\(0\)"),
    "scipy sparse": (scipy.sparse.csr_matrix(np.eye(N)), "make it dense"),
    "BCOO": (sparse.BCOO.fromdense(jnp.eye(N)), "make it dense"),
    "text": (np.array(["a", "b"] * (N // 2)), "return_inverse"),
    "objects": (np.array(["a", 1.0] * (N // 2), object), "numpy.asarray"),
    "dates": (np.datetime64("2024-01-01") + np.arange(N), "timedelta64"),
    "a frame": (pd.DataFrame({"a": GOOD["y"]}), "to_numpy"),
    "categories": (pd.Categorical(["a", "b"] * (N // 2)), "codes"),
    "a column of strings": (pd.Series(["a", "b"] * (N // 2)), "return_inverse"),
    "missing integers": (pd.array([1, None] * (N // 2), dtype="Int64"), "na_value"),
    "records": (np.zeros(N, [("a", int), ("b", float)]), "one array a field"),
    "a list of strings": (["a"] * N, "return_inverse"),
    "a field of xarray": (xarray.DataArray(GOOD["y"], dims="time"), r"\.values"),
}


@pytest.mark.parametrize(
    ("name", "door"), list(itertools.product(OBJECTS, ("sample", "posterior.gradient")))
)
def test_what_holds_no_numbers_is_answered_with_a_way(name, door):
    value, way = OBJECTS[name]
    with pytest.raises(TypeError, match=rf"data\['t'\].*: .*{way}"):
        DOORS[door](GOOD | {"t": value})


SECRET = "a cell that no message shows"
FRAME = pd.DataFrame({"a": GOOD["y"], "b": [SECRET] * N} | {f"c{i}": 1 for i in range(9)})


@pytest.mark.parametrize(
    ("value", "named"),
    [
        (FRAME, r"data is a DataFrame with columns a \(float\d\d\), b \(\w+\), .*\(11 in all\)"),
        (
            {"t": FRAME[["a", "b"]]},
            r"data\['t'\] is a DataFrame with columns a \(float\d\d\), b \(\w+\):",
        ),
        ({"t": FRAME["a"]}, rf"data\['t'\] is a Series 'a' of shape \({N},\) and dtype float"),
        ({"t": pd.Series([SECRET] * N)}, rf"data\['t'\] is a Series of shape \({N},\) and dtype"),
        (FRAME.iloc[:, :0], "data is a DataFrame without columns"),
    ],
    ids=["a frame", "a part", "a column", "strings", "empty"],
)
def test_a_table_is_named_by_its_columns_not_its_cells(value, named):
    with pytest.raises(TypeError, match=named) as told:
        ewsg.sample(KEY, KERNEL, START, value, 4)
    said = str(told.value)
    assert SECRET not in said
    assert "to_numpy()" in said or "return_inverse" in said
    assert len(said) < 600


def test_every_argument_describes_a_table_so():
    with pytest.raises(TypeError, match=r"got a DataFrame with columns a \(float"):
        ewsg.sample(KEY, FRAME, START, GOOD, 4)


def test_holes_are_answered_with_two_ways():
    holes = GOOD | {"y": np.where(np.arange(N) % 5 == 0, np.nan, GOOD["y"])}
    with pytest.raises(
        ValueError, match=r"data\['y'\] holds 5 NaN.*a column that is 1.*check_data=False"
    ):
        DOORS["sample"](holes)
