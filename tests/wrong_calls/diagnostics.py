"""Wrong calls of the diagnostics."""

# The arguments are wrong on purpose.
# pyright: reportArgumentType=false, reportCallIssue=false, reportAttributeAccessIssue=false

import dataclasses
import functools
from typing import Any

import numpy as np

import ewsg_jax as ewsg
from tests.wrong_calls.table import (
    A_POSTERIOR,
    KERNEL,
    KEY,
    LOGISTIC,
    NAMES,
    NAN,
    POINT,
    ROWS,
    ROWS_SHARED,
    WHOLE,
    T,
    V,
    of,
)

A_RUN, TEST_ROWS = (
    "a Samples (what ewsg_jax.sample returns, runs[i] of a stack)",
    'must be {"x": (n, d), "y": (n,)}',
)
diagnostics = ewsg.diagnostics
HUGE = {"a": np.broadcast_to(np.float32(0), (2, 4, 10**6, 10**6)), "b": np.zeros((2, 4, 2))}
"""Draws of more coordinates than any memory holds: whatever looks at one of them fails."""
A_SUMMARY = "a Summary (what ewsg_jax.diagnostics.summary returns)"


@functools.cache
def samples() -> ewsg.Samples:
    return ewsg.sample(KEY, ewsg.ld(LOGISTIC, 0.1), POINT, ROWS, 4, num_chains=2, progress=False)


@functools.cache
def summary() -> diagnostics.Summary:
    return diagnostics.summary(samples())


of(
    "diagnostics.summary",
    (
        "draws",
        T,
        "samples",
        "shape (2, 4, 2)",
        A_RUN,
        lambda: diagnostics.summary(samples().position),
    ),
    ("ArviZ", T, "samples", "(", A_RUN, lambda: diagnostics.summary(samples().to_arviz())),
    (
        "names one text",
        T,
        "names",
        "'ab' (str)",
        NAMES,
        lambda: diagnostics.summary(samples(), "ab"),
    ),
    ("names numbers", T, "names", "0 (int)", NAMES, lambda: diagnostics.summary(samples(), [0, 1])),
    (
        "one name",
        V,
        "names",
        "got 1",
        "must be 2, one for each",
        lambda: diagnostics.summary(samples(), ["a"]),
    ),
    (
        "a network",
        V,
        "samples",
        "got 1,000,000,000,002",
        "sample(…, keep=…)",
        lambda: diagnostics.summary(dataclasses.replace(samples(), draws=HUGE)),
    ),
)
PROBABILITIES = "a list of different probabilities, from 0 to 1"


def quantiles(asked: Any) -> diagnostics.Summary:
    return diagnostics.summary(samples(), quantiles=asked)


of(
    "diagnostics.summary: quantiles",
    ("one number", T, "quantiles", "0.5 (float)", PROBABILITIES, lambda: quantiles(0.5)),
    ("a text", T, "quantiles", "'median' (str)", PROBABILITIES, lambda: quantiles("median")),
    ("texts", T, "quantiles", "'5%' (str)", PROBABILITIES, lambda: quantiles(["5%"])),
    ("percents", V, "quantiles", "got 95", PROBABILITIES, lambda: quantiles([95])),
    ("NaN", V, "quantiles", "got nan", PROBABILITIES, lambda: quantiles([NAN])),
    (
        "one twice",
        V,
        "quantiles",
        "(0.5, 0.5) (tuple)",
        PROBABILITIES,
        lambda: quantiles((0.5, 0.5)),
    ),
    ("no path", T, "path", "None (NoneType)", "the path of a file", lambda: summary().to_csv(None)),
)
of(
    "diagnostics.distance",
    (
        "samples",
        T,
        "run",
        "Samples(",
        A_SUMMARY,
        lambda: diagnostics.distance(samples(), summary()),
    ),
    (
        "no reference",
        T,
        "reference",
        "None",
        A_SUMMARY,
        lambda: diagnostics.distance(summary(), None),
    ),
    (
        "other coordinates",
        V,
        "reference",
        "'a'",
        "must have the same coordinates",
        lambda: diagnostics.distance(summary(), diagnostics.summary(samples(), ["a", "b"])),
    ),
)
WITHOUT_Y, WIDE = {"x": ROWS["x"]}, ROWS | {"x": np.ones((6, 3), np.float32)}


def judged(name: str) -> tuple:
    """Rows of a function that takes samples and held-out rows of logistic regression."""
    call = getattr(diagnostics, name)
    return (
        ("draws", T, "samples", "shape (2, 4, 2)", A_RUN, lambda: call(samples().position, ROWS)),
        ("chunks", V, "chunk_size", "got 0", WHOLE, lambda: call(samples(), ROWS, chunk_size=0)),
        (
            "other features",
            V,
            "samples",
            "shapes [(2,)]",
            "shape (3,), one weight for each",
            lambda: call(samples(), WIDE),
        ),
        ("no data", V, "data", "None", ROWS_SHARED, lambda: call(samples(), None)),
    )


of("diagnostics.trajectory", *judged("trajectory"))
of("diagnostics.predictive", *judged("predictive"))
density = diagnostics.log_predictive_density
A_DENSITY, UNNORMALISED = "all its constants", dataclasses.replace(LOGISTIC, normalised=False)
of(
    "diagnostics.log_predictive_density",
    (
        "draws",
        T,
        "samples",
        "shape (2, 4, 2)",
        A_RUN,
        lambda: density(samples().position, LOGISTIC, ROWS),
    ),
    ("a kernel", T, "posterior", "kernel(", A_POSTERIOR, lambda: density(samples(), KERNEL, ROWS)),
    (
        "chunks",
        V,
        "chunk_size",
        "got 0",
        WHOLE,
        lambda: density(samples(), LOGISTIC, ROWS, chunk_size=0),
    ),
    (
        "no density",
        V,
        "posterior",
        "normalised=False",
        A_DENSITY,
        lambda: density(samples(), UNNORMALISED, ROWS),
    ),
)


def arviz(**options):
    return samples().to_arviz(**({"posterior": LOGISTIC, "data": ROWS} | options))


of(
    "Samples.to_arviz",
    (
        "no data",
        T,
        "data",
        "got None",
        "must be given where posterior is",
        lambda: arviz(data=None),
    ),
    (
        "no posterior",
        T,
        "posterior",
        "got None",
        "must be given where data is",
        lambda: arviz(posterior=None),
    ),
    ("a kernel", T, "posterior", "kernel(", A_POSTERIOR, lambda: arviz(posterior=KERNEL)),
    (
        "no density",
        V,
        "posterior",
        "normalised=False",
        A_DENSITY,
        lambda: arviz(posterior=UNNORMALISED),
    ),
    ("chunks", V, "chunk_size", "got 0", WHOLE, lambda: arviz(chunk_size=0)),
    ("data a number", T, "data", "1.0", ROWS_SHARED, lambda: arviz(data=1.0)),
    (
        "other rows",
        V,
        "position",
        "(3,)",
        "log_likelihood must return a scalar for this position",
        lambda: arviz(data=ROWS | {"x": np.ones((6, 3), np.float32)}),
    ),
    (
        "other labels",
        V,
        "data['y']",
        "got 2.0",
        "0 and 1 only",
        lambda: arviz(data=ROWS | {"y": 2 * ROWS["y"]}),
    ),
    (
        "no draws",
        V,
        "samples",
        "kept none",
        "must hold draws",
        lambda: dataclasses.replace(samples(), draws=None).to_arviz(posterior=LOGISTIC, data=ROWS),
    ),
)
PROBABILITIES, LABELS = np.array([0.1, 0.9]), np.array([0, 1])
of(
    "diagnostics.calibration",
    (
        "above one",
        V,
        "probabilities",
        "to 1.9",
        "between 0 and 1",
        lambda: diagnostics.calibration(PROBABILITIES + 1, LABELS),
    ),
    (
        "labels",
        V,
        "labels",
        "shape (1,)",
        "classes from 0 to 1",
        lambda: diagnostics.calibration(PROBABILITIES, LABELS[:1]),
    ),
    (
        "bins",
        V,
        "num_bins",
        "got 0",
        WHOLE,
        lambda: diagnostics.calibration(PROBABILITIES, LABELS, num_bins=0),
    ),
)
ONE = np.eye(2)
A_COVARIANCE = "covariance must be"


def massed(draws=None, covariance=ONE, **options):
    """A mass from draws, with something wrong."""
    given = samples() if draws is None else dataclasses.replace(samples(), draws=draws)
    return diagnostics.inverse_mass(given, covariance, **options)


of(
    "diagnostics.inverse_mass",
    (
        "draws",
        T,
        "samples",
        "shape (2, 4, 2)",
        A_RUN,
        lambda: diagnostics.inverse_mass(samples().position, ONE),
    ),
    ("a network", V, "samples", "got 1,000,000,000,002", "sample(…, keep=…)", lambda: massed(HUGE)),
    ("three draws", V, "samples", "got 3", "at least 4 draws", lambda: massed(np.zeros((2, 3, 2)))),
    (
        "NaN",
        V,
        "samples",
        "got 16 numbers",
        "must be finite",
        lambda: massed(np.full((2, 4, 2), np.nan)),
    ),
    ("a number", T, "covariance", "2.0 (float)", "a matrix (d, d)", lambda: massed(covariance=2.0)),
    (
        "of other numbers",
        V,
        "covariance",
        "over 3 numbers",
        "a position of 2",
        lambda: massed(covariance=np.eye(3)),
    ),
    ("another tree", V, "covariance", "(3,)", A_COVARIANCE, lambda: massed(covariance=np.ones(3))),
    ("negative", V, "covariance", "eigenvalue -1", A_COVARIANCE, lambda: massed(covariance=-ONE)),
    ("no rate", V, "error_rate", "got 0", "a positive number", lambda: massed(error_rate=0)),
    ("a rate of 1", V, "error_rate", "got 1", "not including 1", lambda: massed(error_rate=1)),
    ("a text", T, "error_rate", "'1%' (str)", "a positive number", lambda: massed(error_rate="1%")),
)


A_STEP = ewsg.sgld(LOGISTIC, 0.1, batch_size=1)


def noise(key=KEY, kernel=A_STEP, run=None, data=ROWS):
    """The excess temperature, with something wrong."""
    return diagnostics.gradient_noise(key, kernel, samples() if run is None else run, data)


of(
    "diagnostics.gradient_noise",
    ("no key", T, "key", "0 (int)", "typed PRNG key", lambda: noise(key=0)),
    (
        "a posterior",
        T,
        "kernel",
        "(Posterior)",
        "ewsg_jax.kernel(…) or a named method",
        lambda: noise(kernel=LOGISTIC),
    ),
    (
        "a stack",
        T,
        "kernel",
        "a stack",
        "stack[i] with runs[i]",
        lambda: noise(kernel=ewsg.stack([KERNEL, KERNEL])),
    ),
    ("draws", T, "samples", "shape (2, 4, 2)", A_RUN, lambda: noise(run=samples().position)),
    (
        "no chain left",
        V,
        "samples",
        "got none",
        "a chain that stayed finite",
        lambda: noise(run=dataclasses.replace(samples(), diverged_at=np.zeros(2, int))),
    ),
    (
        "a frame of lists",
        T,
        "data",
        "'x'",
        ROWS_SHARED,
        lambda: noise(data={"x": [1.0], "y": [1.0]}),
    ),
)
