"""What runs take on this machine's accelerator and on its CPU, and whether both are right.

    python -m benchmarks.cost.accelerators  # some 8 minutes; benchmarks/results/accelerators.json

Two processes run side by side, each with cores of its own: one on JAX's default device, one with
JAX_PLATFORMS=cpu. Both time steps of `ewsg_jax.sample` and whole calls of `plan`, `sample` and
`check`, and make draws with the same keys. The first also compares gradients with NumPy in float64
and stationary variances with their exact values. docs/accelerators.md says what the numbers mean.
"""

import contextlib
import functools
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy.linalg import solve_discrete_lyapunov

import ewsg_jax as ewsg
from benchmarks import record
from benchmarks.answers.ours import COMPILED
from benchmarks.cost.settings import (
    FRICTION,
    LOGISTIC_BATCH,
    LOGISTIC_COLUMNS,
    LOGISTIC_ROWS,
    PRIOR_VARIANCE,
    STEP_SIZE,
    logistic_data,
)
from benchmarks.cost.timed import runs
from benchmarks.timing import machine, summarise

PARTS = ("gradients", "laws", "draws", "steps", "calls")
ON_CPU = ("draws", "steps", "calls")
CHAINS = (1, 100, 1_000, 10_000)
RUNS, RUN_SECONDS, LONGEST = 5, 0.25, 20.0
"""Timed runs of a cell, about how long each is, and the seconds over which a cell is left out."""
REFRESH_EVERY = 100
HOST_CORES = 6
"""Cores for the process whose device is the accelerator; the CPU's has the others."""
Z_LIMIT = 4.89
"""Two-sided at a level of 1e-6."""
PROTOCOL = (
    f"Logistic regression, n = {LOGISTIC_ROWS}, d = {LOGISTIC_COLUMNS}, b = {LOGISTIC_BATCH}, "
    "float32. Microseconds per step and chain of ewsg_jax.sample without what precedes the first "
    "step, the last draw kept: medians and quartiles of runs after two thrown away; compiling is "
    f"apart. A cell is left out where a run would take over {LONGEST:.0f} s. Whole calls: seconds "
    "in a process that has compiled none of their programs; of_these_compiling is XLA's part, "
    "summed over threads that compile side by side. The accelerator's process and the CPU's run at "
    "the same time, each on its own cores."
)


def own(precision: str | None) -> ewsg.Posterior:
    """Return the same posterior, whose likelihood a user wrote, with products in this precision."""

    def log_likelihood(position: jax.Array, row: Any) -> jax.Array:
        logit = jnp.matmul(row["x"], position, precision=precision)
        return row["y"] * logit - jax.nn.softplus(logit)

    return ewsg.Posterior(
        log_likelihood, lambda position: -0.5 / PRIOR_VARIANCE * jnp.sum(position**2)
    )


HIDDEN = 512
"""Units of both hidden layers of the network that is timed."""
NETWORK = (LOGISTIC_COLUMNS + HIDDEN + 1) * HIDDEN
"""Its numbers."""


def network(precision: str | None) -> ewsg.Posterior:
    """Return a network of two hidden layers for the same labels, as a vector of weights."""

    def log_likelihood(position: jax.Array, row: Any) -> jax.Array:
        x, first = row["x"], LOGISTIC_COLUMNS * HIDDEN
        shapes = (LOGISTIC_COLUMNS, HIDDEN), (HIDDEN, HIDDEN)
        for part, shape in zip((position[:first], position[first:-HIDDEN]), shapes, strict=True):
            x = jnp.tanh(jnp.matmul(x, part.reshape(shape), precision=precision))
        logit = jnp.matmul(x, position[-HIDDEN:], precision=precision)
        return row["y"] * logit - jax.nn.softplus(logit)

    return ewsg.Posterior(log_likelihood, lambda position: -0.5 * jnp.sum(position**2))


def kernels(quick: bool) -> dict[str, tuple[ewsg.Kernel, bool, int]]:
    """Return the kernels that are timed, whether one batch serves all chains, and the size of a
    position.
    """
    model = ewsg.models.logistic_regression(prior_scale=PRIOR_VARIANCE**0.5)
    h, hp, b = STEP_SIZE["sgld"], STEP_SIZE["sghmc"], LOGISTIC_BATCH
    every = 10 if quick else REFRESH_EVERY
    d = LOGISTIC_COLUMNS
    return {
        "sgld": (ewsg.sgld(model, h, batch_size=b), False, d),
        "sghmc": (ewsg.sghmc(model, hp, friction=FRICTION, batch_size=b), False, d),
        "ewsg": (ewsg.ewsg(model, hp, friction=FRICTION, batch_size=b), False, d),
        "ld": (ewsg.ld(model, h), False, d),
        "svrg_ld": (ewsg.svrg_ld(model, h, batch_size=b, refresh_every=every), False, d),
        "sgld, one batch for all chains": (ewsg.sgld(model, h, batch_size=b), True, d),
        "saga_ld": (ewsg.saga_ld(model, h, batch_size=b), False, d),
        "sgld, own likelihood": (ewsg.sgld(own(None), h, batch_size=b), False, d),
        "sgld, own likelihood, TF32": (ewsg.sgld(own("default"), h, batch_size=b), False, d),
        "sgld, network": (ewsg.sgld(network(None), h, batch_size=b), False, NETWORK),
        "sgld, network, TF32": (ewsg.sgld(network("default"), h, batch_size=b), False, NETWORK),
        "ld, chunks of 65,536 rows": (ewsg.ld(model, h, chunk_size=65_536), False, d),
        "ld, all rows at once": (ewsg.ld(model, h, chunk_size=LOGISTIC_ROWS), False, d),
    }


# --- steps ---


def time_steps(
    kernel: ewsg.Kernel, shared: bool, size: int, data: Any, chains: int, last: float | None
) -> dict[str, Any]:
    """Return the time of a step, in microseconds per step and chain.

    Args:
        kernel: of which steps are timed.
        shared: whether one batch serves all chains.
        size: of a position.
        data: on the device.
        chains: side by side.
        last: seconds of a step with the chains before, of which this one has more; None for none.
    """
    run = runs(kernel, jnp.zeros(size), data, chains, shared_minibatch=shared)
    is_refreshed, is_full = "svrg" in repr(kernel), last is not None and last > 0.02
    steps = REFRESH_EVERY if is_refreshed else 4 if is_full else 64
    # A tenth of these chains took `last`, and work for so long grows with them.
    if last is not None and last * steps * (10 if is_full else 1) > LONGEST:
        return {"left_out": f"a run would take over {LONGEST:.0f} s"}
    started = time.perf_counter()
    compile_seconds = run(steps).compile_seconds
    first = time.perf_counter() - started
    taken = run(steps).run_seconds
    if taken > LONGEST:
        return {"left_out": f"a run takes over {LONGEST:.0f} s"}
    while taken < RUN_SECONDS / 2:
        steps *= 2 ** max(1, round(np.log2(RUN_SECONDS / taken)))
        taken = run(steps).run_seconds
    count = RUNS if taken < 4 * RUN_SECONDS else 1
    found = [run(steps).run_seconds / steps / chains * 1e6 for _ in range(count)]
    return {
        "microseconds": summarise(found)._asdict(),
        "steps": steps,
        "compile_seconds": compile_seconds,
        "first_call_seconds": first,
    }


def steps(quick: bool, only: Sequence[str] = ()) -> Iterator[dict[str, Any]]:
    """Yield the cells of steps, of all kernels or of some."""
    rows, chains = (2_000, CHAINS[:2]) if quick else (LOGISTIC_ROWS, CHAINS)
    data = jax.tree.map(jnp.asarray, logistic_data(rows, LOGISTIC_COLUMNS))
    for name, (kernel, shared, size) in kernels(quick).items():
        last: float | None = None
        for count in chains if not only or name in only else ():
            cell: dict[str, Any] = {"part": "steps", "kernel": name, "chains": count}
            found: dict[str, Any]
            try:
                found = time_steps(kernel, shared, size, data, count, last)
            except Exception as error:  # for one: a table that does not fit
                found = {"left_out": f"{type(error).__name__}: {str(error).splitlines()[0]}"}
            if "microseconds" in found:
                last = found["microseconds"]["median"] * count / 1e6
            elif "a run" in found["left_out"]:
                last = np.inf
            yield cell | found


# --- whole calls ---


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


# --- correctness ---


def draws(quick: bool) -> Iterator[dict[str, Any]]:
    """Yield short runs with the same keys: positions of 4 chains, to be compared."""
    num, steps = (1_000, 20) if quick else (10_000, 100)
    data = jax.tree.map(jnp.asarray, logistic_data(num, 10))
    model = ewsg.models.logistic_regression(prior_scale=1.0)
    kernel_of = {
        "sgld": ewsg.sgld(model, 1e-4, batch_size=50),
        "sghmc": ewsg.sghmc(model, 1e-3, friction=FRICTION, batch_size=50),
        "ewsg": ewsg.ewsg(model, 1e-3, friction=FRICTION, batch_size=50, chain_length=4),
        "ld": ewsg.ld(model, 1e-4),
        "svrg_ld": ewsg.svrg_ld(model, 1e-4, batch_size=50, refresh_every=20),
        "saga_ld": ewsg.saga_ld(model, 1e-4, batch_size=50),
    }
    for name, kernel in kernel_of.items():
        samples = ewsg.sample(
            jax.random.key(5), kernel, jnp.zeros(10), data, steps, num_chains=4, progress=False
        )
        yield {
            "part": "draws",
            "kernel": name,
            "positions": np.asarray(samples.position, np.float64).tolist(),
        }


def compared(
    cpu: Sequence[dict[str, Any]], other: Sequence[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Return how far draws of the same key are apart, in sds of all draws."""
    positions = {row["kernel"]: np.array(row["positions"]) for row in cpu}
    found: list[dict[str, Any]] = []
    for row in other:
        if row["kernel"] in positions:
            on_cpu = positions[row["kernel"]]
            apart = np.abs(np.array(row["positions"]) - on_cpu) / on_cpu.std()
            by_step = apart.max((0, 2))
            found.append(
                {
                    "part": "draws",
                    "kernel": row["kernel"],
                    "steps": len(by_step),
                    "first": float(by_step[0]),
                    "last": float(by_step[-1]),
                    "largest": float(by_step.max()),
                }
            )
    return found


ROWS = np.array([-1.0, 0.3, 0.7, 2.2, 5.0])
PRECISION, H, GAMMA = 3.0, 0.1, 2.0


def exact_variances() -> dict[str, tuple[ewsg.Kernel, float]]:
    """Return linear kernels and their exact stationary variances, one parameter, T = 1.

    The posterior is normal, of precision 3. Langevin steps are an autoregression, and minibatches
    of two rows add noise of variance h²C; the underdamped one solves P = A P Aᵀ + Q.
    """
    model = ewsg.models.gaussian_location(noise_scale=(len(ROWS) / PRECISION) ** 0.5)
    a = 1 - H * PRECISION
    # C = n² s² / b, with s² the variance over the rows of a row's gradient.
    noise = len(ROWS) ** 2 * (ROWS * PRECISION / len(ROWS)).var() / 2
    full = 2 * H / (1 - a**2)
    # θ' = θ + h p', p' = p − h (λ θ + γ p) + √(2 γ h) ξ.
    momentum = np.array([-H * PRECISION, 1 - GAMMA * H])
    matrix = np.array([np.array([1.0, 0.0]) + H * momentum, momentum])
    kick = np.array([H, 1.0])

    def underdamped(extra: float) -> float:
        covariance = np.outer(kick, kick) * (2 * GAMMA * H + H**2 * extra)
        return float(solve_discrete_lyapunov(matrix, covariance)[0, 0])

    options: dict[str, Any] = {"friction": GAMMA, "integrator": "semi_implicit"}
    return {
        "ld": (ewsg.ld(model, H), full),
        "sgld": (ewsg.sgld(model, H, batch_size=2), (2 * H + H**2 * noise) / (1 - a**2)),
        "svrg_ld": (ewsg.svrg_ld(model, H, batch_size=2, refresh_every=5), full),
        "uld": (ewsg.uld(model, H, **options), underdamped(0.0)),
        "sghmc": (ewsg.sghmc(model, H, batch_size=2, **options), underdamped(noise)),
        "uld, BAOAB": (ewsg.uld(model, H, friction=GAMMA, integrator="BAOAB"), 1 / PRECISION),
    }


def laws(quick: bool) -> Iterator[dict[str, Any]]:
    """Yield z-scores of the mean and the variance of the last draws of many chains."""
    chains = 20_000 if quick else 1_000_000
    data = jnp.asarray(ROWS[:, None], jnp.float32)
    for name, (kernel, expected) in exact_variances().items():
        last = ewsg.sample(
            jax.random.key(6),
            kernel,
            jnp.zeros(1),
            data,
            256,
            num_chains=chains,
            burn_in=255,
            progress=False,
        )
        x = np.asarray(last.position, np.float64).ravel()
        off = x - ROWS.mean()
        variance = np.mean(off**2)
        error = np.std(off**2) / len(x) ** 0.5
        z = float((variance - expected) / error), float(off.mean() / (x.std() / len(x) ** 0.5))
        yield {
            "part": "laws",
            "kernel": name,
            "chains": chains,
            "expected": expected,
            "variance": float(variance),
            "z_of_variance": z[0],
            "z_of_mean": z[1],
            "holds": max(map(abs, z)) < Z_LIMIT,
        }


def gradients(quick: bool) -> Iterator[dict[str, Any]]:
    """Yield relative errors of gradients in float32, ‖found − exact‖ / ‖exact‖, against NumPy in
    float64.
    """
    generator, n, d = np.random.default_rng(1), 4_000 if quick else 50_000, LOGISTIC_COLUMNS
    x = generator.standard_normal((n, d)).astype(np.float32)
    places = generator.standard_normal((100, d)).astype(np.float32)
    y = (generator.random(n) < 0.5).astype(np.float32)
    wide, at = x.astype(np.float64), places.astype(np.float64)
    logits = at @ wide.T
    exact = {
        "logistic": (1 / (1 + np.exp(-logits)) - y) @ wide + at / PRIOR_VARIANCE,
        "linear": (logits - y) @ wide + at,
    }
    logistic = ewsg.models.logistic_regression(prior_scale=PRIOR_VARIANCE**0.5)

    cases = {
        "models.logistic_regression": (logistic, "logistic"),
        "models.linear_regression": (ewsg.models.linear_regression(), "linear"),
        "own likelihood, x @ position": (own(None), "logistic"),
        "own likelihood, TF32": (own("default"), "logistic"),
    }
    data = {"x": jnp.asarray(x), "y": jnp.asarray(y)}

    def error(found: Any, reference: np.ndarray) -> float:
        apart = np.asarray(found, np.float64) - reference
        return float(np.linalg.norm(apart) / np.linalg.norm(reference))

    batch = np.arange(LOGISTIC_BATCH)
    residuals = 1 / (1 + np.exp(-logits[:, batch])) - y[batch]
    of_batch = residuals @ wide[batch] * (n / LOGISTIC_BATCH)
    for name, (posterior, which) in cases.items():
        gradient = functools.partial(posterior.gradient, data=data)
        found = {
            "one": error(jax.jit(gradient)(places[0]), exact[which][0]),
            "many": error(jax.jit(jax.vmap(gradient))(places), exact[which]),
        }
        if which == "logistic":
            minibatch = functools.partial(
                posterior.batch_gradient, data=data, batch=jnp.asarray(batch)
            )
            made = np.asarray(jax.jit(jax.vmap(minibatch))(places), np.float64)
            found["minibatch"] = error(made, of_batch)
        yield {"part": "gradients", "model": name, "relative_error": found}


WORK: dict[str, Callable[..., Iterator[dict[str, Any]]]] = {
    "gradients": gradients,
    "laws": laws,
    "draws": draws,
    "steps": steps,
    "calls": calls,
}


# --- processes ---


def work(
    parts: Sequence[str], quick: bool, limits: dict[str, float], only: Sequence[str], out: Path
) -> None:
    """Measure in this process; each row is a line of `out`, so that an end loses no other row.

    Limits are looked at between rows: `sample` returns what it has when a signal stops it.
    """
    device = f"{jax.devices()[0].platform}: {jax.devices()[0].device_kind}"
    with out.open("w") as lines:

        def add(row: dict[str, Any]) -> None:
            lines.write(json.dumps(row) + "\n")
            lines.flush()
            print({k: v for k, v in row.items() if k != "positions"}, flush=True)

        add({"part": "device", "device": device, "cores": len(os.sched_getaffinity(0))})
        for part in parts:
            started = time.perf_counter()
            try:
                for row in WORK[part](quick, *([only] if part == "steps" else [])):
                    add(row)
                    if time.perf_counter() - started > limits.get(part, np.inf):
                        add({"part": part, "over": f"stopped after {limits[part]:.0f} s"})
                        break
            except Exception as error:
                add({"part": part, "over": f"{type(error).__name__}: {error}"[:500]})
            add({"part": "seconds", "of": part, "seconds": time.perf_counter() - started})


def begin(
    arguments: Sequence[str], cores: Sequence[int], out: Path, on_cpu: bool
) -> subprocess.Popen[bytes]:
    """Start a process on these cores."""
    environment = os.environ | ({"JAX_PLATFORMS": "cpu"} if on_cpu else {})
    command = [sys.executable, "-m", "benchmarks.cost.accelerators", *arguments, "--rows", str(out)]
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)  # the child inherits it
    try:
        return subprocess.Popen(command, env=environment)
    finally:
        os.sched_setaffinity(0, before)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and write; 0."""
    parser = record.parser(__doc__, "accelerators.json", RUNS)
    parser.add_argument("--parts", type=record.names(PARTS), default=list(PARTS))
    parser.add_argument("--steps-limit", type=float, default=240.0, help="seconds for steps")
    parser.add_argument("--calls-limit", type=float, default=150.0, help="seconds for whole calls")
    parser.add_argument("--kernels", nargs="*", default=[], help="names, of steps; default all")
    parser.add_argument("--rows", type=Path, help="of one process, on JAX's default device")
    options = parser.parse_args(arguments)
    limits = {"steps": options.steps_limit, "calls": options.calls_limit}
    if options.rows is not None:
        work(options.parts, options.quick, limits, options.kernels, options.rows)
        return 0
    cores, before = sorted(os.sched_getaffinity(0)), machine()
    host = HOST_CORES if len(cores) > 2 * HOST_CORES else 1
    told = ["--quick"] if options.quick else []
    told += ["--kernels", *options.kernels] if options.kernels else []
    told += ["--steps-limit", str(limits["steps"]), "--calls-limit", str(limits["calls"])]
    with tempfile.TemporaryDirectory() as folder:
        sides = {"accelerator": cores[:host], "cpu": cores[host:] or cores}
        started, files = [], {}
        for side, given in sides.items():
            parts = [x for x in options.parts if side == "accelerator" or x in ON_CPU]
            files[side] = Path(folder) / f"{side}.jsonl"
            chosen = [*told, "--parts", ",".join(parts)]
            started.append(begin(chosen, given, files[side], side == "cpu"))
        for process in started:
            process.wait()
        rows = {
            side: [json.loads(x) for x in file.read_text().splitlines()]
            for side, file in files.items()
        }
    positions = {side: [x for x in found if "positions" in x] for side, found in rows.items()}
    results = [
        {"on": side} | row
        for side, found in rows.items()
        for row in found
        if "positions" not in row
    ]
    results += [
        {"on": "both"} | row for row in compared(positions["cpu"], positions["accelerator"])
    ]
    record.write(options, PROTOCOL, RUNS, before, results)
    return 0


if __name__ == "__main__":
    sys.exit(main())
