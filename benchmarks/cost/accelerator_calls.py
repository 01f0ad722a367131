"""The whole calls that `accelerators.py` times: `plan`, `sample` and `check`."""

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import ewsg_jax as ewsg
from benchmarks.answers.ours import COMPILED
from benchmarks.cost.settings import LOGISTIC_COLUMNS, LOGISTIC_ROWS, PRIOR_VARIANCE


def regression(rows: int) -> dict[str, jax.Array]:
    """Return rows of a logistic regression with known weights."""
    generator = np.random.default_rng(0)
    x = generator.standard_normal((rows, LOGISTIC_COLUMNS), np.float32)
    weights = generator.standard_normal(LOGISTIC_COLUMNS) / 8
    chance = 1 / (1 + np.exp(-x @ weights))
    return {"x": jnp.asarray(x), "y": jnp.asarray(generator.random(rows) < chance, jnp.float32)}


def calls(quick: bool) -> Iterator[dict[str, Any]]:
    """Yield the seconds of plan, sample and check, of a regression and a hierarchical model."""
    # Not at the top: it makes arrays, and so would take the device from the processes that measure.
    from benchmarks.answers.cases import CASES

    groups = CASES["few_c" if quick else "groups_c"]
    model = ewsg.models.logistic_regression(prior_scale=PRIOR_VARIANCE**0.5)
    cases: dict[str, tuple[Any, Callable[[], Any], Any]] = {
        "logistic regression": (
            model,
            lambda: regression(2_000 if quick else LOGISTIC_ROWS),
            jnp.zeros(LOGISTIC_COLUMNS),
        ),
        groups.title: (groups.posterior, groups.load, groups.start),
    }
    compiled: list[float] = []

    def listen(event: str, duration_secs: float, **_: Any) -> None:
        if event == COMPILED:
            compiled.append(duration_secs)

    jax.monitoring.register_event_duration_secs_listener(listen)
    for name, (posterior, load, start) in cases.items():
        data = jax.block_until_ready(jax.tree.map(jnp.asarray, load()))
        seconds: dict[str, float] = {}
        making: dict[str, float] = {}
        cell: dict[str, Any] = {
            "part": "calls",
            "model": name,
            "seconds": seconds,
            "of_these_compiling": making,
        }

        @contextlib.contextmanager
        def timed(
            what: str, seconds: dict[str, float] = seconds, making: dict[str, float] = making
        ) -> Iterator[None]:
            compiled.clear()
            started = time.perf_counter()
            yield
            seconds[what] = time.perf_counter() - started
            making[what] = sum(compiled)

        with timed("plan"):
            plan = ewsg.plan(jax.random.key(1), posterior, start, data)
        cell |= {"kernel": repr(plan.kernel)[:200], "data_passes": plan.data_passes()}
        for what, seed in (("sample", 2), ("sample again", 3)):
            with timed(what):
                samples = ewsg.sample(
                    jax.random.key(seed),
                    plan.kernel,
                    plan.start,
                    data,
                    progress=False,
                    **plan.sample_options(),
                )
            cell[f"{what}: run_seconds"] = samples.run_seconds
            cell[f"{what}: compile_seconds"] = samples.compile_seconds
        with timed("check"):
            report = ewsg.check(jax.random.key(4), samples, posterior, data)
        yield cell | {"outcome": str(report.outcome)}
