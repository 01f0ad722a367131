"""Wrong calls of the data sets."""

# The arguments are wrong on purpose.
# pyright: reportArgumentType=false, reportCallIssue=false, reportAttributeAccessIssue=false

import functools
from pathlib import Path
from typing import Any

import numpy as np

import ewsg_jax as ewsg
from tests.wrong_calls.standard import TEXTS, Kind, every, refuses
from tests.wrong_calls.table import NAMES, NAN, WRONG, T, V

datasets = ewsg.datasets
X, Y = np.array([[1.0, 5.0], [2.0, 5.0], [4.0, 6.0]]), np.array([0, 1, 1])


def dataset(x: Any = X, y: Any = Y, feature_names: Any = ("a", "b")) -> Any:
    """A data set with something wrong."""
    return datasets.Dataset(x, y, feature_names, "tiny", "made here")


TINY = dataset()
NUMBERS = "a NumPy array of real numbers"
SHAPES, A_DATASET = "x of shape (n, d), y of shape (n,)", "must be a Dataset (as ewsg_jax.datasets"
right = functools.partial(dataset, x=X, y=Y)
every("datasets.Dataset", right, feature_names=TEXTS)
every("datasets.split", functools.partial(datasets.split, dataset=TINY, test_fraction=0.5))
for build in (datasets.heart, datasets.pima):
    every(f"datasets.{build.__name__}", build)
WRONG["datasets.Dataset"] |= {
    f"T x | (list) | {NUMBERS}": lambda: dataset(x=[[1.0]]),
    f"T x | dtype <U1 | {NUMBERS}": lambda: dataset(x=np.array([["a"]])),
    f"T y | dtype object | {NUMBERS}": lambda: dataset(y=np.array([0, None, 1])),
    f"V y | y of shape (2,) | {SHAPES}": lambda: dataset(y=Y[:2]),
    f"V feature_names | 1 feature_names | {SHAPES}": lambda: dataset(feature_names=["a"]),
    "V x | shape (0, 2) | must have rows": lambda: dataset(x=X[:0], y=Y[:0]),
    "V columns | 'c' (str) | one of 'a', 'b'": lambda: TINY.without(["c"]),
    "V columns | 'aa' | did you mean 'a'": lambda: TINY.without(["aa"]),
    f"T columns | 'ab' (str) | {NAMES}": lambda: TINY.without("ab"),
    "V rows | got 3 | from 0 to 2": lambda: TINY.take(np.array([3])),
    "T rows | [0] (list) | an array of row numbers": lambda: TINY.take([0]),
}
KNOWN = "one of 'breast_cancer', 'covertype', 'heart', 'letter', 'pima'"
WRONG["datasets.load"] |= {
    f"V name | (did you mean 'covertype'?) | {KNOWN}": lambda: datasets.load("covtype"),
    f"V name | None (NoneType) | {KNOWN}": lambda: datasets.load(None),
    f"V name | ['covertype'] (list) | {KNOWN}": lambda: datasets.load(["covertype"]),
}
refuses(
    "datasets.split",
    functools.partial(datasets.split, TINY, seed=0),
    test_fraction=Kind(
        "a number above 0 and below 1",
        ((V, 0.0, "got 0.0"), (V, 1.0, "got 1.0"), (V, NAN, "got nan"), (T, "0.5", "'0.5' (str)")),
    ),
)
WRONG["datasets.split"] |= {
    f"T dataset | shape (3, 2) | {A_DATASET}": lambda: datasets.split(X, 0.5, 0),
    "V test_fraction | got 0.9 | leave rows in both parts of 3": lambda: datasets.split(
        TINY, 0.9, 0
    ),
}
OR_ARRAY, LIKE = "or an array of real numbers, shape (n, d)", "an array of real numbers like train"
XS = np.ones((4, 2))
OTHER, LOST = dataset(feature_names=("a", "c")), dataset(x=np.where(X == 5, NAN, X))
WRONG["datasets.standardise"] |= {
    f"T train | (list) | {OR_ARRAY}": lambda: datasets.standardise(X.tolist(), X),
    f"T train | dtype <U1 | {OR_ARRAY}": lambda: datasets.standardise(np.array([["a"]]), X),
    f"V train | shape (3,) | {OR_ARRAY}": lambda: datasets.standardise(X[:, 0], X[:, 0]),
    f"V train | shape (0, 2) | {OR_ARRAY}": lambda: datasets.standardise(X[:0], X),
    f"T test | Dataset( | {LIKE}": lambda: datasets.standardise(X, TINY),
    "V test | got 1 | the 2 features of train": lambda: datasets.standardise(X, X[:, :1]),
    "V test | holds 2 NaN | must be finite": lambda: datasets.standardise(X, LOST.x),
    f"T test | (tuple) | {A_DATASET}": lambda: datasets.standardise(TINY, (TINY, TINY)),
    "V test | got 2 | the 2 features of train": lambda: datasets.standardise(TINY, OTHER),
    "V train.x | holds 2 NaN | must be finite": lambda: datasets.standardise(LOST, TINY),
    "V test.x | holds 2 NaN | must be finite": lambda: datasets.standardise(TINY, LOST),
}
SCALING = datasets.standardisation(TINY)
D, REALS = "must have d = 2 numbers along the axis", "must be an array of real numbers"
WRONG["datasets.standardisation"] |= {
    f"T train | None | {OR_ARRAY}": lambda: datasets.standardisation(None),
    "V train | holds 2 NaN | must be finite": lambda: datasets.standardisation(LOST.x),
    f"T rows | (list) | {OR_ARRAY}": lambda: SCALING(X.tolist()),
    "V rows | got 1 | the 2 features of the training rows": lambda: SCALING(X[:, :1]),
    "V rows | begin with 'a' | the 2 features": lambda: SCALING(OTHER),
    f"V weights | shape (3,) | {D}": lambda: SCALING.original(np.ones(3)),
    f"V weights | axis 2 (int) | {D}": lambda: SCALING.original(np.ones((2, 2)), axis=2),
    f"T weights | (list) | {REALS}": lambda: SCALING.original([1.0, 2.0]),
    "V intercept | shape (3,) | or of shape (4,)": lambda: SCALING.original(XS, np.ones(3)),
}
SAME = dataset(x=np.ones((3, 2)))
WRONG["datasets.whiten"] |= {
    f"T train | None | {A_DATASET}": lambda: datasets.whiten(None, TINY),
    "V train.x | holds 2 NaN | must be finite": lambda: datasets.whiten(LOST, TINY),
    "V train | shape (3, 2) | features that vary": lambda: datasets.whiten(SAME, SAME),
    "V test | got 2 | the 2 features of train": lambda: datasets.whiten(TINY, OTHER),
}


def covertype(folder: Path, name: str, content: bytes) -> Any:
    """Load Covertype from a file with this content; the test points EWSG_JAX_DATA to the folder."""
    (folder / name).write_bytes(content)
    return datasets.covertype()


COVERTYPE = "must hold Covertype"
refuses(
    "datasets.covertype",
    datasets.covertype,
    positive_class=Kind(
        "a whole number, from 1 to 7", ((V, 0, "got 0"), (V, 8, "got 8"), (T, "2", "'2' (str)"))
    ),
)
WRONG["datasets.covertype"] |= {
    f"V covertype.npz | cannot be read | {COVERTYPE}": lambda folder: covertype(
        folder, "covertype.npz", b"a"
    ),
    f"V covtype.data.gz | BadGzipFile | {COVERTYPE}": lambda folder: covertype(
        folder, "covtype.data.gz", b"a"
    ),
    f"V covtype.data | 'a' | {COVERTYPE}": lambda folder: covertype(
        folder, "covtype.data", b"a,b\n"
    ),
}


def broken(folder, name, load):
    """Load a data set from a file of something else; EWSG_JAX_DATA points to the folder."""
    (folder / name).write_bytes(b"none")
    return load()


for load, name, holds in (
    (datasets.heart, "heart.npz", "Statlog heart"),
    (datasets.heart, "heart.dat", "Statlog heart"),
    (datasets.letter, "letter.npz", "letter recognition"),
    (datasets.letter, "letter-recognition.data", "letter recognition"),
    (datasets.pima, "pima.npz", "Pima"),
):
    WRONG[f"datasets.{load.__name__}"] |= {
        f"V {name} | cannot be read | must hold {holds}": lambda folder, name=name, load=load: (
            broken(folder, name, load)
        ),
    }
refuses(
    "datasets.letter",
    datasets.letter,
    letters=Kind(
        "different capital letters from A to Z",
        ((T, 3, "3 (int)"), (V, "", "got ''"), (V, "ABA", "'ABA'"), (V, "ab", "'ab'")),
    ),
)
