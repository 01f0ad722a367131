"""Measure how long forecasts take on Covertype, compiling included, and write it as JSON.

    EWSG_JAX_DATA=… python -m benchmarks.cost.forecast

Logistic regression on 464,809 rows and the 46 columns of which both classes have 20 rows, in the
metric of the mode. The eleven methods that remember nothing between steps, one after the other in a
new process; and once more.
"""

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import ewsg_jax as ewsg
from benchmarks import record
from benchmarks.timing import Target, machine, verdict

ALL = Target(5.0, 15.0, False)
ROWS, FEWEST, BATCH_SIZE, FRICTION = 464_809, 20, 1_000, 2.0
PROTOCOL = (
    "Seconds of each forecast, the first of its kind in the process, programs compiled in it; then "
    "all again. The mode is found before."
)


def data() -> dict[str, jax.Array]:
    """Return Covertype's rows, standardised."""
    whole = ewsg.datasets.covertype()
    rows = np.sort(np.random.default_rng(0).permutation(len(whole.y))[:ROWS])
    x, y = np.asarray(whole.x, np.float64)[rows], np.asarray(whole.y, np.float32)[rows]
    x = x[
        :,
        [min(np.count_nonzero(column[y == label]) for label in (0, 1)) >= FEWEST for column in x.T],
    ]
    return {"x": jnp.asarray((x - x.mean(0)) / x.std(0), jnp.float32), "y": jnp.asarray(y)}


def kernels(model: ewsg.Posterior, mode: ewsg.Mode) -> dict[str, Callable[[], ewsg.Kernel]]:
    """Return the methods, at steps at which they are some ten percent too hot or less."""
    mass: dict[str, Any] = {"inverse_mass": mode.inverse_mass}
    batch: dict[str, Any] = {"batch_size": BATCH_SIZE} | mass
    center: dict[str, Any] = {"center": mode.position}
    metric = mode.inverse_mass

    def side(rows: dict[str, jax.Array]) -> jax.Array:
        return (rows["x"][:, 0] > 0).astype(jnp.int32)

    return {
        "ld": lambda: ewsg.ld(model, 0.2, **mass),
        "uld": lambda: ewsg.uld(model, 0.4, friction=FRICTION, **mass),
        "sgld": lambda: ewsg.sgld(model, 4e-4, **batch),
        "sghmc": lambda: ewsg.sghmc(model, 8e-4, friction=FRICTION, **batch),
        "ewsg": lambda: ewsg.ewsg(model, 8e-4, friction=FRICTION, **batch),
        "ewsg_ld": lambda: ewsg.ewsg_ld(model, 4e-4, **batch),
        "cp_sghmc": lambda: ewsg.cp_sghmc(
            model, 8e-4, friction=FRICTION, labels=side, num_strata=2, **batch
        ),
        "sgnht": lambda: ewsg.sgnht(model, 8e-4, friction=FRICTION, **batch),
        "sgrld": lambda: ewsg.sgrld(
            model, 4e-4, batch_size=BATCH_SIZE, inverse_metric=lambda position, rows: metric
        ),
        "cv_ld": lambda: ewsg.cv_ld(model, 0.02, **batch, **center),
        "cv_uld": lambda: ewsg.cv_uld(model, 0.04, friction=FRICTION, **batch, **center),
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and write; 0."""
    parser = record.parser(__doc__, "forecast_cost.json", 1)
    options: argparse.Namespace = parser.parse_args(arguments)
    before, rows, model = machine(), data(), ewsg.models.logistic_regression()
    mode = ewsg.find_mode(
        jax.random.key(0), model, jnp.zeros(rows["x"].shape[1]), rows, progress=False
    )
    results: list[dict[str, Any]] = []
    for when in ("compiling included", "again"):
        total = 0.0
        for name, build in kernels(model, mode).items():
            began = time.perf_counter()
            told = ewsg.forecast(build(), mode, rows)
            seconds = time.perf_counter() - began
            total += seconds
            low, high = told.direction_ratios
            print(
                f"{name:9} {seconds:5.2f} s, ratios {low:.3f} to {high:.3f}, {told.passes():.3g} "
                "passes a draw",
                flush=True,
            )
            results.append(
                {"what": f"{name}, {when}", "unit": "seconds", "measured": round(seconds, 3)}
            )
            results[-1]["ratios"] = [round(low, 4), round(high, 4)]
        print(f"{when}: {total:.1f} s")
        results.append(
            {"what": f"all eleven, {when}", "unit": "seconds", "measured": round(total, 2)}
        )
        if when != "again":
            results[-1] |= verdict(total, ALL)
    record.write(options, PROTOCOL, 1, before, results)
    return 0


if __name__ == "__main__":
    sys.exit(main())
