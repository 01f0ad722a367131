"""Measure this checkout against another one, method by method, and write it as JSON.

    python -m benchmarks.cost.against OTHER_CHECKOUT [--only sgld,exact]

Each checkout runs in a process of its own with the same interpreter; runs are interleaved. A cell
is a whole later call of `ewsg_jax.sample`, its check of the data off, on a logistic regression.
Beside it stand the seconds of a first call, of the same again, of one with an equal kernel made
anew, and of one with another step size.
"""

import functools
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

ROWS, COLUMNS, BATCH = 100_000, 54, 50
STEPS = {1: 20_000, 100: 400}
CELLS: dict[str, tuple[str, dict[str, Any]]] = {
    name: (name, options)
    for name, options in {
        "sgld": {},
        "sghmc": {"friction": 50.0},
        "ewsg": {"friction": 50.0},
        "ewsg_ld": {},
        "sgnht": {"friction": 50.0},
        "psgld": {},
        "hamcmc": {},
        "svrg_ld": {"refresh_every": 2_000},
        "saga_ld": {},
        "cv_ld": {},
        "cv_uld": {},
        "saga2nd_hmc": {"friction": 50.0},
    }.items()
} | {
    "euler": ("sghmc", {"friction": 50.0, "integrator": "euler"}),
    "splitting": ("sghmc", {"friction": 50.0, "integrator": "splitting"}),
    "exact": ("sghmc", {"friction": 50.0, "integrator": "exact"}),
    "blocks": ("sgld", {"rows": "blocks"}),
    "epochs": ("sgld", {"rows": "epochs"}),
}
PAIRS = 9


def answer(request: dict[str, Any], held: dict[str, Any]) -> dict[str, Any]:
    """Build a cell, or run the one that is built once more."""
    import jax
    import jax.numpy as jnp
    import numpy as np

    import ewsg_jax as ewsg

    if "data" not in held:
        generator = np.random.default_rng(0)
        x = generator.normal(size=(ROWS, COLUMNS)).astype(np.float32)
        held["data"] = jax.tree.map(jnp.asarray, {"x": x, "y": (x[:, 0] > 0).astype(np.float32)})

    def make(step_size: float) -> ewsg.Kernel:
        name, options = CELLS[request["cell"]]
        model = ewsg.models.logistic_regression(prior_scale=10**0.5)
        return ewsg.METHODS[name].build(model, step_size, batch_size=BATCH, **options)

    def run(kernel: ewsg.Kernel) -> float:
        chains = request["chains"]
        held["runs"] = held.get("runs", 0) + 1
        steps = max(1, STEPS[chains] // request["shorten"])
        began = time.perf_counter()
        samples = ewsg.sample(
            jax.random.key(held["runs"]),
            kernel,
            jnp.zeros(COLUMNS),
            held["data"],
            steps,
            num_chains=chains,
            burn_in=steps - 1,
            progress=False,
            check_data=False,
        )
        seconds = time.perf_counter() - began
        if not samples.is_finite.all():
            raise FloatingPointError("a chain left the finite numbers: its time means nothing")
        return seconds / (steps * chains) * 1e6 if request["do"] == "run" else seconds

    if request["do"] == "run":
        return {"microseconds": run(held["kernel"])}
    jax.clear_caches()
    held["kernel"] = make(1e-7)
    first = run(held["kernel"])
    return {
        "first": first,
        "again": run(held["kernel"]),
        "equal": run(make(1e-7)),
        "another": run(make(2e-7)),
    }


def serve() -> None:
    """Answer lines of JSON until the input ends."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    held: dict[str, Any] = {}
    for line in sys.stdin:
        try:
            found = answer(json.loads(line), held)
        except Exception as error:
            found = {"error": f"{type(error).__name__}: {error}"}
        answers.write(json.dumps(found) + "\n")
        answers.flush()


class Side:
    """A checkout in a process of its own."""

    def __init__(self, checkout: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, __file__, "--serve"],
            env=os.environ | {"PYTHONPATH": str(checkout), "JAX_ENABLE_COMPILATION_CACHE": "0"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ask(self, **request: Any) -> dict[str, Any]:
        """Send a request and wait for its answer."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        found = json.loads(self.process.stdout.readline() or '{"error": "its process ended"}')
        if "error" in found:
            raise RuntimeError(found["error"])
        return found


def main(arguments: list[str] | None = None) -> int:
    """Measure and write."""
    from benchmarks import record
    from benchmarks.timing import interleave, machine, summarise, times_the_cost

    parser = record.parser(__doc__, "against.json", PAIRS)
    parser.add_argument(
        "other", type=Path, help="another checkout, such as a git worktree of an earlier commit"
    )
    parser.add_argument(
        "--only", type=record.names(CELLS), default=list(CELLS), help=f"of {', '.join(CELLS)}"
    )
    parser.add_argument("--chains", type=int, choices=tuple(STEPS), help="default: each")
    options = parser.parse_args(arguments)
    pairs, shorten = record.extent(options, PAIRS)
    before, rows = machine(), []
    ours, other = Side(Path(__file__).parents[2]), Side(options.other.resolve())
    for cell in options.only:
        for chains in (options.chains,) if options.chains else STEPS:
            request = {"cell": cell, "chains": chains, "shorten": shorten}
            built = [side.ask(do="build", **request) for side in (ours, other)]
            here, there = (functools.partial(_time, side, request) for side in (ours, other))
            timed = interleave(here, there, pairs)
            cost = times_the_cost(timed)
            rows.append(
                {
                    "cell": cell,
                    "chains": chains,
                    "times_the_cost": cost._asdict(),
                    "ours": summarise([pair.ours for pair in timed])._asdict(),
                    "other": summarise([pair.other for pair in timed])._asdict(),
                    "seconds_of_calls": dict(zip(("ours", "other"), built, strict=True)),
                }
            )
            calls = ", ".join(
                f"{name} {built[0][name]:.2f} ({built[1][name]:.2f})" for name in built[0]
            )
            print(
                f"{cell}, {chains}: {cost.median:.3f} [{cost.lower:.3f}, {cost.upper:.3f}]; "
                f"seconds {calls}",
                flush=True,
            )
    protocol = (__doc__ or "").split("\n\n")[-1].replace("\n", " ")
    record.write(options, protocol, pairs, before, rows)
    return 0


def _time(side: Side, request: dict[str, Any]) -> float:
    return side.ask(do="run", **request)["microseconds"]


if __name__ == "__main__":
    serve() if "--serve" in sys.argv else sys.exit(main())
