"""What rows are read from: every kind of source gives the same ones."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ewsg_jax as ewsg

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(50, 3)).astype(np.float32), RNG.integers(0, 2, 50)


class ByNumber:
    """A row at a time, as of grain's sources and PyTorch's simplest."""

    def __len__(self):
        return 50

    def __getitem__(self, row):
        return {"x": X[int(row)], "y": Y[row]}


class BySlice(ByNumber):
    """Columns of some rows, as of Hugging Face: lists of numbers."""

    def __getitem__(self, place):
        found = {"x": X.astype(float)[place].tolist(), "y": Y[place]}
        return found | {"y": found["y"].tolist()}


def files(folder):
    for name, part in (("a", slice(0, 20)), ("b", slice(20, 21)), ("c", slice(21, 50))):
        np.save(folder / f"x-{name}.npy", X[part])
    np.save(folder / "y.npy", Y.astype(">i8"))
    np.lib.format.open_memmap(folder / "x.npy", "w+", np.float32, (50, 3))[:] = X
    return [folder / f"x-{name}.npy" for name in "abc"]


def sources(folder):
    """Return them by name."""
    listed = files(folder)
    mapped = np.load(folder / "x.npy", mmap_mode="r")
    raw = np.memmap(folder / "raw", np.float32, "w+", 24, (70, 3))
    raw[7:57] = X
    return {
        "arrays": {"x": X, "y": Y},
        "jax": {"x": jnp.asarray(X), "y": jnp.asarray(Y)},
        "a memory map": {"x": mapped, "y": Y},
        "a part of one": {"x": raw[7:57], "y": np.memmap(folder / "y.npy", ">i8", "r", 128, (50,))},
        "every other row": {"x": np.repeat(X, 2, axis=0)[::2], "y": Y},
        "files": {"x": [str(path) for path in listed], "y": folder / "y.npy"},
        "by number": ByNumber(),
        "by slice": BySlice(),
    }


NAMES = [
    "arrays",
    "jax",
    "a memory map",
    "a part of one",
    "every other row",
    "files",
    "by number",
    "by slice",
]


@pytest.mark.parametrize("name", NAMES)
def test_every_source_has_the_same_rows(name, tmp_path):
    stream = ewsg.stream(sources(tmp_path)[name], window=20)
    assert (len(stream), stream.num_windows, stream.window) == (50, 3, 16)
    for start, stop in ((0, 50), (0, 1), (19, 22), (49, 50)):
        rows = stream.read(start, stop)
        np.testing.assert_array_equal(np.asarray(rows["x"], np.float32), X[start:stop])
        np.testing.assert_array_equal(rows["y"], Y[start:stop])
        assert rows["y"].dtype.isnative
    two = stream.read_runs([(48, 2), (0, 3)])
    np.testing.assert_array_equal(two["y"], Y[[48, 49, 0, 1, 2]])


def test_memory_maps_are_read_from_their_files(tmp_path):
    """A map whose file becomes shorter ends the process; what is read does not."""
    files(tmp_path)
    stream = ewsg.stream(np.load(tmp_path / "x.npy", mmap_mode="r")[5:])
    assert "x.npy" in stream.where([(0, 1)], 0)
    np.testing.assert_array_equal(stream.read(0, 3), X[5:8])


def test_copies_on_write_are_not_what_is_in_their_file(tmp_path):
    files(tmp_path)
    array = np.load(tmp_path / "x.npy", mmap_mode="c")
    array[2] = 7.0
    np.testing.assert_array_equal(ewsg.stream(array).read(2, 3), [[7.0, 7.0, 7.0]])


@pytest.mark.full
@pytest.mark.parametrize("window", [50, 13])
def test_parquet(window, tmp_path):
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    paths = [tmp_path / "a.parquet", tmp_path / "b.parquet"]
    for path, part in zip(paths, (slice(0, 17), slice(17, 50)), strict=True):
        columns = {
            "y": Y[part],
            "x": pa.FixedSizeListArray.from_arrays(X[part].ravel(), 3),
            "a": X[part, 0],
        }
        parquet.write_table(pa.table(columns), path, row_group_size=7)
    stream = ewsg.stream(paths, window=window)
    rows = stream.read_runs([(5, 20), (45, 5)])
    places = [*range(5, 25), *range(45, 50)]
    np.testing.assert_array_equal(rows["x"], X[places])
    np.testing.assert_array_equal(rows["a"], X[places, 0])
    np.testing.assert_array_equal(rows["y"], Y[places])

    parquet.write_table(pa.table({"x": [1.0, None, 3.0]}), tmp_path / "c.parquet")
    with pytest.raises(ValueError, match="column 'x' has 1 rows without a value"):
        ewsg.stream(tmp_path / "c.parquet")


@pytest.mark.full
def test_rows_are_made_into_what_the_model_takes(tmp_path):
    """Columns of a table put together; the sampler sees what the function returns."""
    source = {"a": X[:, 0], "b": X[:, 1], "label": Y}
    stream = ewsg.stream(
        source, window=20, rows=lambda t: {"x": np.stack([t["a"], t["b"]], 1), "y": t["label"]}
    )
    kernel = ewsg.sgld(ewsg.models.logistic_regression(), 1e-2, batch_size=4)
    one = ewsg.stream(source, rows=lambda t: {"x": np.stack([t["a"], t["b"]], 1), "y": t["label"]})
    run = [
        ewsg.sample(jax.random.key(0), kernel, jnp.zeros(2), data, 20).position
        for data in ({"x": X[:, :2], "y": Y}, one)
    ]
    np.testing.assert_array_equal(*run)
    assert ewsg.sample(jax.random.key(0), kernel, jnp.zeros(2), stream, 20).num_steps == 20


def test_the_default_window_is_of_so_many_bytes():
    class Large(ByNumber):
        def __len__(self):
            return 2**31 + 5

        def __getitem__(self, row):
            return np.zeros(2**16, np.float32)

    stream = ewsg.stream(Large())
    assert stream.window <= 512 < stream.window * 1.01
    assert stream.num_rows == 2**31 + 5


HOLES = np.ma.masked_array(np.arange(12.0).reshape(6, 2), np.arange(12).reshape(6, 2) == 7)


class Variable:
    """A variable of netCDF, whose slices are masked arrays."""

    shape, dtype, ndim = HOLES.shape, HOLES.dtype, HOLES.ndim

    def __init__(self, values):
        self.values = values

    def __getitem__(self, rows):
        return self.values[rows]


@pytest.mark.usual_parameters("array", "dicts")
@pytest.mark.parametrize(
    ("masked", "rows"),
    [
        (HOLES, None),
        ({"x": HOLES}, None),
        (list(HOLES), None),
        ([{"x": row} for row in HOLES], None),
        (Variable(HOLES), None),
        (np.zeros((6, 2)), lambda rows: np.ma.masked_less(rows, 1.0)),
    ],
    ids=["array", "tree", "rows", "dicts", "variable", "function"],
)
def test_what_is_below_a_mask_is_not_read(masked, rows):
    with pytest.raises((TypeError, ValueError, OSError), match=r"fill it with \.filled\(0\)"):
        ewsg.stream(masked, rows=rows).read(0, 6)


def test_a_masked_array_without_a_mask_is_read():
    values = np.arange(12.0).reshape(6, 2)
    found = ewsg.stream(Variable(np.ma.masked_array(values))).read(0, 6)
    np.testing.assert_array_equal(found, values)


def test_files_without_rows(tmp_path):
    np.save(tmp_path / "none.npy", np.zeros((0, 2)))
    np.save(tmp_path / "some.npy", np.ones((3, 2)))
    with pytest.raises(ValueError, match=r"^source must be .* got one of 0 rows$"):
        ewsg.stream(tmp_path / "none.npy")
    assert len(ewsg.stream([tmp_path / "none.npy", tmp_path / "some.npy"])) == 3
