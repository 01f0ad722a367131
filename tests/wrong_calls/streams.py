"""Wrong calls of `stream`, and of what takes one or does not."""

# The arguments are wrong on purpose.
# pyright: reportArgumentType=false, reportCallIssue=false, reportAttributeAccessIssue=false

import functools
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

import ewsg_jax as ewsg
from tests.wrong_calls.standard import every
from tests.wrong_calls.table import (
    DATA,
    KERNEL,
    KEY,
    LOGISTIC,
    MODEL,
    POINT,
    ROWS,
    WRONG,
    sampled,
)

TAKES = "must be a pytree of arrays or memory maps, of paths of .npy or .parquet files"


def streamed(source: Any = DATA, **options: Any) -> ewsg.Stream:
    """Six rows in windows of two."""
    return ewsg.stream(source, **({"window": 2} | options))


def on_batches(batches: Any, num_data: int = 6, unpack: Any = None, **options: Any) -> Any:
    """Sample on batches of a caller's, without data."""
    estimator = ewsg.gradients.streamed(MODEL, num_data=num_data, unpack=unpack)
    kernel = ewsg.kernel(ewsg.dynamics.langevin(0.1), estimator)
    return sampled(kernel=kernel, data=None, batches=batches, **options)


class OfTen(list):
    """A loader that says that there are ten rows."""

    dataset = range(10)


BATCHES = (DATA[:2], DATA[2:4], DATA[4:])
GIVEN = ewsg.gradients.streamed(MODEL, num_data=6)
ON_BATCHES = ewsg.kernel(ewsg.dynamics.langevin(0.1), GIVEN)
WRONG["gradients.streamed"] |= {
    "T unpack | 3 (int) | (batch) -> pytree of arrays": lambda: on_batches(BATCHES, unpack=3),
    "V unpack | KeyError: 'x' | returns a pytree of arrays": lambda: on_batches(
        ({"y": DATA},), unpack=lambda batch: batch["x"]
    ),
    "V num_data | got 1 | at least those of a batch, 2": lambda: on_batches(BATCHES, 1),
    "V num_data | batches of 10 rows | got 6": lambda: on_batches(OfTen(BATCHES)),
    "V estimator | got streamed | draw its batches itself": lambda: (
        ewsg.gradients.exponentially_weighted(GIVEN)
    ),
    "V kernel | batches that the caller draws | whose noise is known": lambda: ewsg.forecast(
        ON_BATCHES, ewsg.find_mode(KEY, MODEL, POINT, DATA), DATA
    ),
}
WRONG["sample"] |= {
    "T batches | 3 (int) | a loader, or an iterator": lambda: on_batches(3),
    "T batches | (dict) | a loader, or an iterator": lambda: on_batches({"x": DATA}),
    "T batches | function | a loader, or an iterator": lambda: on_batches(lambda: BATCHES),
    "V batches | ended without one | one for each step": lambda: on_batches(()),
    "V batches | the batch of step 1 | 0 rows": lambda: on_batches((DATA[:0],)),
    "T batches | 'a' (str) | the batch of step 1": lambda: on_batches(("a",)),
    "V batches | got an array | must be None for a kernel that draws": lambda: sampled(
        data=None, batches=DATA
    ),
    "V data | shape (6, 2) | must be None with batches": lambda: sampled(
        kernel=ON_BATCHES, batches=BATCHES
    ),
    "V batches | got data | must be given for a kernel whose batches": lambda: sampled(
        kernel=ON_BATCHES
    ),
    "V chain_batch_size | got 2 | None with batches": lambda: on_batches(
        BATCHES, num_chains=4, chain_batch_size=2
    ),
    "V first_chain | got 2 | None with batches": lambda: on_batches(BATCHES, first_chain=2),
}
WRONG["Kernel.step"] |= {
    "V num_data | got 6 | at least those of a batch, 12": lambda: ON_BATCHES.step(
        KEY, ON_BATCHES.init(KEY, POINT, DATA), jnp.concatenate([DATA, DATA])
    ),
}


def file(folder: Path, array: Any, name: str = "x.npy") -> Path:
    """Write an array, and return where."""
    np.save(folder / name, array)
    return folder / name


def cut_off(folder: Path, size: int = 128 + 40) -> Path:
    """Write a file that ends too early, by default in its third row."""
    path = file(folder, np.zeros((6, 2)))
    path.write_bytes(path.read_bytes()[:size])
    return path


def archive(folder: Path) -> Path:
    """Write several arrays under the name of one."""
    np.savez(folder / "a.npz", x=np.zeros((6, 2)))
    return (folder / "a.npz").rename(folder / "a.npy")


class Texts:
    """A data set that holds texts."""

    def __init__(self, texts: str = "") -> None:
        self.texts = texts

    def __len__(self) -> int:
        return len(self.texts)

    def __getitem__(self, row: int) -> str:
        return self.texts[row]


every("stream", functools.partial(ewsg.stream, source=DATA, window=2), rows=None)
WRONG["stream"] |= {
    f"T source | 3 (int) | {TAKES}": lambda: streamed(3),
    f"T source | {{}} | {TAKES}": lambda: streamed({}),
    f"V source | without rows | {TAKES}": lambda: streamed(np.float32(1.0)),
    f"V source | shape (0, 2) | {TAKES}": lambda: streamed(np.zeros((0, 2))),
    f"V source | 0 rows | {TAKES}": lambda: streamed(Texts()),
    "V data | row 0 holds 'a' | rows that are pytrees of numbers": lambda: streamed(Texts("ab")),
    "T source | got object | hold numbers": lambda: streamed(np.array([None, 1])),
    "V source | got 6, 5 | as many rows": lambda: streamed({"x": np.ones(6), "y": np.ones(5)}),
    f"T source | got 3 (int) | {TAKES}": lambda: streamed({"x": DATA, "y": 3}),
    "V source | a.csv' | .npy or .parquet": lambda folder: streamed(csv(folder)),
    "V source | is not one | .npy files": lambda folder: streamed(text(folder)),
    "V source | Fortran | in C order": lambda folder: streamed(
        file(folder, np.ones((3, 2), order="F"))
    ),
    "V source | cut short, at 168 bytes | .npy files": lambda folder: streamed(cut_off(folder)),
    "V source | cut short, at 30 bytes | .npy files": lambda folder: streamed(cut_off(folder, 30)),
    "V source | x.npy' is not one: it is empty | .npy": lambda folder: streamed(cut_off(folder, 0)),
    "V source | a.npy' is not one | archive of arrays": lambda folder: streamed(archive(folder)),
    "V source | row 0 of | whose rows are alike": lambda folder: streamed(unlike(folder)),
    "V pieces | got 3, of 2 rows | at most the rows of a window": lambda: streamed(pieces=3),
    "T rows | 3 (int) | a function": lambda: streamed(rows=3),
    "V rows | of 2 rows it returned | a leading axis": lambda: streamed(rows=lambda x: x[:1]),
    "V rows | and before | always of one kind": lambda: changing().read(0, 1),
    "V rows | IndexError | a function of a pytree": lambda: streamed(rows=lambda x: x[:, 5]),
    "V stop | got 7 | from 1 to 6": lambda: streamed().read(0, 7),
    "V start | got -1 | from 0 to 5": lambda: streamed().read(-1, 3),
}


def changing() -> ewsg.Stream:
    """Rows that are made into others the second time."""
    kinds = iter((np.float32, np.float16))
    return streamed(rows=lambda x: x.astype(next(kinds)))


def csv(folder: Path) -> Path:
    """Write a file of another kind."""
    (folder / "a.csv").write_text("1,2")
    return folder / "a.csv"


def text(folder: Path) -> Path:
    """Write a text under the name of an array."""
    (folder / "a.npy").write_text("1,2")
    return folder / "a.npy"


def unlike(folder: Path) -> list[Path]:
    """Write files of unlike rows."""
    return [file(folder, np.ones((3, 2)), "a.npy"), file(folder, np.ones((3, 4)), "b.npy")]


WINDOWS = "kernel must take rows from the windows of a stream"
SAGA = ewsg.saga_ld(MODEL, 0.1, batch_size=2)
STRATA = ewsg.kernel(
    ewsg.dynamics.langevin(0.1),
    ewsg.gradients.stratified(LOGISTIC, batch_size=2, labels="y", num_strata=2),
)
WEIGHTED = ewsg.sgld(MODEL, 0.1, batch_size=2, rows=ewsg.rows.by_probability(jnp.ones(6)))
EXACT = ewsg.random_walk_metropolis(MODEL, 0.1)
FIREFLY = ewsg.flymc(LOGISTIC, 0.1, capacity=6)
TRACKED = ewsg.ewsg_vr(MODEL, 0.1, friction=1.0, batch_size=2)


def mode() -> ewsg.Mode:
    """A mode of the rows in memory."""
    return ewsg.find_mode(KEY, MODEL, POINT, DATA)


IN_MEMORY = "rows in memory, such as stream.read(start, stop) gives"
WRONG["sample: streams"] |= {
    f"V kernel | of which saga( | {WINDOWS}": lambda: sampled(kernel=SAGA, data=streamed()),
    f"V kernel | all rows in memory | {WINDOWS}": (
        lambda: sampled(kernel=WEIGHTED, data=streamed()),
        lambda: sampled(kernel=STRATA, data=streamed(ROWS)),
        lambda: sampled(kernel=TRACKED, data=streamed()),
        lambda: sampled(kernel=FIREFLY, data=streamed(ROWS)),
        lambda: sampled(kernel=EXACT, data=streamed()),
    ),
    "V batch_size | got 3 | at most n = 2": lambda: sampled(
        kernel=ewsg.sgld(MODEL, 0.1, batch_size=3, replace=False), data=streamed()
    ),
    f"T data | Stream(6 rows | {IN_MEMORY}": (
        lambda: KERNEL.init(KEY, POINT, streamed()),
        lambda: ewsg.plan(KEY, MODEL, POINT, streamed()),
        lambda: ewsg.forecast(KERNEL, mode(), streamed()),
        lambda: ewsg.check(KEY, sampled(), MODEL, streamed()),
    ),
    "V batch_size | got 2 | must be None if data are a stream": lambda: ewsg.find_mode(
        KEY, MODEL, POINT, streamed(), batch_size=2
    ),
}
