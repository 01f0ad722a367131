"""Wrong calls of the diagnostics."""

# The arguments are wrong on purpose.
# pyright: reportArgumentType=false, reportCallIssue=false, reportAttributeAccessIssue=false

import dataclasses
import functools
from typing import Any

import numpy as np

import ewsg_jax as ewsg
from tests.wrong_calls.standard import (
    COUNT,
    FLAG,
    NUMBER,
    POSTERIOR,
    ROWS_OF_DATA,
    Kind,
    every,
    refuses,
)
from tests.wrong_calls.table import KERNEL, KEY, LOGISTIC, NAN, POINT, ROWS, WRONG, T, V

DRAWS = "a pytree of arrays with leading axes (chain, draw)"
A_RUN = "a Samples (what ewsg_jax.sample returns, runs[i] of a stack)"
diagnostics = ewsg.diagnostics
HUGE = {"a": np.broadcast_to(np.float32(0), (2, 4, 10**6, 10**6)), "b": np.zeros((2, 4, 2))}
"""Draws of more coordinates than any memory holds: whatever looks at one of them fails."""
A_SUMMARY = "a Summary (what ewsg_jax.diagnostics.summary returns)"


@functools.cache
def samples() -> ewsg.Samples:
    return ewsg.sample(KEY, ewsg.ld(LOGISTIC, 0.1), POINT, ROWS, 4, num_chains=2)


@functools.cache
def empty() -> ewsg.Samples:
    return dataclasses.replace(samples(), draws=samples().position[:, :0])


@functools.cache
def summary() -> diagnostics.Summary:
    return diagnostics.summary(samples())


every("diagnostics.summary", lambda names=None: diagnostics.summary(samples(), names))
WRONG["diagnostics.summary"] |= {
    f"T samples | got 3 | {DRAWS}": lambda: diagnostics.summary(3),
    f"T samples | got | {DRAWS}": lambda: diagnostics.summary(samples().to_arviz()),
    f"V samples | (3,) | {DRAWS}": lambda: diagnostics.summary(np.zeros(3)),
    f"V samples | (2, 4) | {DRAWS}": lambda: diagnostics.summary(
        [np.zeros((2, 4)), np.zeros((2, 5))]
    ),
    f"V samples | complex | {DRAWS}": lambda: diagnostics.summary(np.zeros((2, 4), complex)),
    "V names | got 1 | must be 2, one for each": lambda: diagnostics.summary(samples(), ["a"]),
    "V samples | got 1,000,000,000,002 | sample(…, keep=…)": lambda: diagnostics.summary(
        dataclasses.replace(samples(), draws=HUGE)
    ),
}
PROBABILITIES = "a list of different probabilities, from 0 to 1"


def quantiles(asked: Any) -> diagnostics.Summary:
    return diagnostics.summary(samples(), quantiles=asked)


WRONG["diagnostics.summary: quantiles"] |= {
    f"T quantiles | 0.5 (float) | {PROBABILITIES}": lambda: quantiles(0.5),
    f"T quantiles | 'median' (str) | {PROBABILITIES}": lambda: quantiles("median"),
    f"T quantiles | '5%' (str) | {PROBABILITIES}": lambda: quantiles(["5%"]),
    f"V quantiles | got 95 | {PROBABILITIES}": lambda: quantiles([95]),
    f"V quantiles | got nan | {PROBABILITIES}": lambda: quantiles([NAN]),
    f"V quantiles | (0.5, 0.5) (tuple) | {PROBABILITIES}": lambda: quantiles((0.5, 0.5)),
    "T path | None (NoneType) | the path of a file": lambda: summary().to_csv(None),
}
WRONG["diagnostics.distance"] |= {
    f"T run | Samples( | {A_SUMMARY}": lambda: diagnostics.distance(samples(), summary()),
    f"T reference | None | {A_SUMMARY}": lambda: diagnostics.distance(summary(), None),
    "V reference | 'a' | must have the same coordinates": lambda: diagnostics.distance(
        summary(), diagnostics.summary(samples(), ["a", "b"])
    ),
}
WIDE = ROWS | {"x": np.ones((6, 3), np.float32)}


for name in ("predictive", "trajectory"):
    call = getattr(diagnostics, name)
    every(
        f"diagnostics.{name}",
        lambda data=ROWS, chunk_size=9, call=call: call(samples(), data, chunk_size=chunk_size),
    )
    WRONG[f"diagnostics.{name}"] |= {
        f"T samples | shape (2, 4, 2) | {A_RUN}": lambda call=call: call(samples().position, ROWS),
        "V samples | shapes [(2,)] | shape (3,), one weight for each": lambda call=call: call(
            samples(), WIDE
        ),
        "V samples | kept none | must hold draws": lambda call=call: call(empty(), ROWS),
        'T data | {"x": (n, d) | logistic_reg': lambda call=call: call(samples(), ROWS["x"]),
        "V data['y'] | -1.0 in row 0 (3 such rows) | 0 and 1 only": lambda call=call: call(
            samples(), ROWS | {"y": 2 * ROWS["y"] - 1}
        ),
        "V data['y'] | (6, 1) | one label for each row, shape (6,)": lambda call=call: call(
            samples(), ROWS | {"y": ROWS["y"][:, None]}
        ),
    }
density = diagnostics.log_predictive_density
every(
    "diagnostics.log_predictive_density",
    lambda posterior=LOGISTIC, data=ROWS, chunk_size=9: density(
        samples(), posterior, data, chunk_size=chunk_size
    ),
)
A_DENSITY, UNNORMALISED = "all its constants", dataclasses.replace(LOGISTIC, normalised=False)
WRONG["diagnostics.log_predictive_density"] |= {
    f"T samples | shape (2, 4, 2) | {A_RUN}": lambda: density(samples().position, LOGISTIC, ROWS),
    f"V posterior | normalised=False | {A_DENSITY}": lambda: density(samples(), UNNORMALISED, ROWS),
    "V (3,) | it failed on one draw | and these inputs": lambda: density(samples(), LOGISTIC, WIDE),
    "V draws | (2, 0, 2) | at least one draw": lambda: density(empty(), LOGISTIC, ROWS),
}


def arviz(**options):
    return samples().to_arviz(**({"posterior": LOGISTIC, "data": ROWS} | options))


every(
    "Samples.to_arviz",
    lambda posterior=LOGISTIC, data=ROWS, chunk_size=9: arviz(
        posterior=posterior, data=data, chunk_size=chunk_size
    ),
    posterior=POSTERIOR.without("None"),
    data=ROWS_OF_DATA.without("None"),
)
WRONG["Samples.to_arviz"] |= {
    "T data | got None | must be given with posterior": lambda: arviz(data=None),
    "T posterior | got None | must be given with data": lambda: arviz(posterior=None),
    f"V posterior | normalised=False | {A_DENSITY}": lambda: arviz(posterior=UNNORMALISED),
    "V position | (3,) | log_likelihood must return a scalar for this position": lambda: arviz(
        data=WIDE
    ),
    "V data['y'] | got 2.0 | 0 and 1 only": lambda: arviz(data=ROWS | {"y": 2 * ROWS["y"]}),
    "V samples | kept none | must hold draws": lambda: dataclasses.replace(
        samples(), draws=None
    ).to_arviz(posterior=LOGISTIC, data=ROWS),
}


def predicted(function=lambda position, inputs: position, inputs=None, **options):
    """A prediction, with something wrong."""
    return samples().predict(function, inputs, **options)


refuses("Samples.predict", predicted, log=FLAG, chunk_size=COUNT)
WRONG["Samples.predict"] |= {
    "T function | 3 (int) | a function": lambda: predicted(3),
    "V function | on one draw and these inputs | tree": lambda: predicted(lambda p: p),
    "V function | it returned None | tree": lambda: predicted(lambda p, x: None),
    "T inputs | 'a' | a pytree of arrays or numbers": lambda: predicted(inputs={"x": "a"}),
    "V log | True | with keep_draws=True": lambda: predicted(log=True, keep_draws=True),
}
calibration = diagnostics.calibration
every("diagnostics.calibration", functools.partial(calibration, [0.1, 0.9], [0, 1]))
refuses(
    "diagnostics.calibration",
    functools.partial(calibration, labels=[0, 1]),
    probabilities=Kind(
        "must lie between 0 and 1", ((V, [0.5, 1.2], "to 1.2"), (V, [0.5, np.nan], "to nan"))
    ),
)
refuses(
    "diagnostics.calibration",
    functools.partial(calibration, labels=[0]),
    probabilities=Kind(
        "must be an array (n,) of class 1 or (n, k)", ((V, [], "(0,)"), (T, ["a"], "'a'"))
    ),
)
refuses(
    "diagnostics.calibration",
    functools.partial(calibration, [0.5, 0.2]),
    labels=Kind("classes from 0 to 1", ((V, [0, 2], "shape (2,)"), (V, [0], "shape (1,)"))),
)
WRONG["diagnostics.calibration"] |= {
    "V probabilities | off by 0.1 | sum to one": lambda: calibration([[0.5, 0.6]], [0]),
    "V labels | (2,) | from 0 to 2": lambda: calibration([[0.5, 0.2, 0.3]], [0, 2]),
    "T labels | 'yes' | must be classes": lambda: calibration([0.5], ["yes"]),
}
ONE = np.eye(2)
A_COVARIANCE = "covariance must be"


def massed(draws=None, covariance=ONE, **options):
    """A mass from draws, with something wrong."""
    given = samples() if draws is None else dataclasses.replace(samples(), draws=draws)
    return diagnostics.inverse_mass(given, covariance, **options)


every("diagnostics.inverse_mass", lambda error_rate=0.1: massed(error_rate=error_rate))
WRONG["diagnostics.inverse_mass"] |= {
    f"T samples | shape (2, 4, 2) | {A_RUN}": lambda: diagnostics.inverse_mass(
        samples().position, ONE
    ),
    "V samples | got 1,000,000,000,002 | sample(…, keep=…)": lambda: massed(HUGE),
    "V samples | got 3 | at least 4 draws": lambda: massed(np.zeros((2, 3, 2))),
    "V samples | got 16 numbers | must be finite": lambda: massed(np.full((2, 4, 2), np.nan)),
    "T covariance | 2.0 (float) | a matrix (d, d)": lambda: massed(covariance=2.0),
    "V covariance | over 3 numbers | a position of 2": lambda: massed(covariance=np.eye(3)),
    f"V covariance | (3,) | {A_COVARIANCE}": lambda: massed(covariance=np.ones(3)),
    f"V covariance | eigenvalue -1 | {A_COVARIANCE}": lambda: massed(covariance=-ONE),
    "V error_rate | got 1 | not including 1": lambda: massed(error_rate=1),
}


A_STEP = ewsg.sgld(LOGISTIC, 0.1, batch_size=1)


def noise(key=KEY, kernel=A_STEP, run=None, data=ROWS):
    """The excess temperature, with something wrong."""
    return diagnostics.gradient_noise(key, kernel, samples() if run is None else run, data)


UNIT_SPEED = ewsg.kernel(ewsg.dynamics.microcanonical(0.1), ewsg.gradients.full(LOGISTIC))
NEVER_FINITE = ewsg.kernel(
    ewsg.dynamics.microcanonical(0.1),
    ewsg.gradients.full(
        ewsg.Posterior(lambda position, row: np.nan * position.sum(), lambda position: 0.0)
    ),
)
energy_step_size = functools.partial(
    diagnostics.energy_step_size, key=KEY, kernel=UNIT_SPEED, position=POINT, data=ROWS
)
every("diagnostics.energy_step_size", energy_step_size, energy_variance=NUMBER, num_steps=None)
WRONG["diagnostics.energy_step_size"] |= {
    "T kernel | Pair | of ewsg_jax.dynamics.microcanonical": lambda: energy_step_size(
        kernel=ewsg.ld(LOGISTIC, 0.1)
    ),
    "V num_steps | got 9 | at least 10": lambda: energy_step_size(num_steps=9),
    "V position | none did | keeps the chain finite": lambda: energy_step_size(
        kernel=NEVER_FINITE, num_steps=10
    ),
}
every("diagnostics.gradient_noise", lambda key=KEY, data=ROWS: noise(key=key, data=data))
WRONG["diagnostics.gradient_noise"] |= {
    "T kernel | (Posterior) | ewsg_jax.kernel(…) or a named method": lambda: noise(kernel=LOGISTIC),
    "T kernel | a stack | stack[i] with runs[i]": lambda: noise(
        kernel=ewsg.stack([KERNEL, KERNEL])
    ),
    f"T samples | shape (2, 4, 2) | {A_RUN}": lambda: noise(run=samples().position),
    "V samples | got none | a chain that stayed finite": lambda: noise(
        run=dataclasses.replace(samples(), diverged_at=np.zeros(2, int))
    ),
}
