"""How runs scale over devices and processes of this machine: chains, rows, and what is exchanged.

    python -m benchmarks.cost.devices               # some minutes; benchmarks/results/devices.json

Forced devices of one CPU share its cores: with as many devices as cores, or fewer, the numbers say
how well a run is shared; with more they say what sharing costs. Each measurement is a process of
its own, or several.
"""

import argparse
import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

import ewsg_jax as ewsg

DIMENSION, COUNTS, REPEATS = 50, (1, 2, 4), 3
STEPS = 200
RESULTS = Path(__file__).parents[1] / "results" / "devices.json"
CASES = {
    # What is measured: the axis, chains in all (or for each device), rows in all (or for each
    # device).
    "chains, strong": ("chains", 256, False, 20_000, False),
    "chains, weak": ("chains", 64, True, 20_000, False),
    "rows, strong": ("data", 8, False, 50_000, False),
    "rows, weak": ("data", 8, False, 12_500, True),
    "batches, strong": ("data", 64, False, 20_000, False),
}


def measured(case: str, count: int) -> dict[str, Any]:
    """Return the time of a step of one case on so many devices, in microseconds: the quartiles of
    some runs.
    """
    axis, chains, of_each, rows, rows_of_each = CASES[case]
    chains, rows = chains * (count if of_each else 1), rows * (count if rows_of_each else 1)
    x = np.random.default_rng(0).standard_normal((rows, DIMENSION), np.float32)
    data = {"x": x, "y": (x[:, 0] > 0).astype(np.float32)}
    model = ewsg.models.logistic_regression(prior_scale=1.0)
    kernel = (
        ewsg.ld(model, 1e-6) if case.startswith("rows") else ewsg.sgld(model, 1e-6, batch_size=64)
    )
    steps = STEPS // 4 if case.startswith("rows") else STEPS
    mesh = Mesh(np.array(jax.devices()), (axis,))
    found = []
    for number in range(REPEATS + 1):
        samples = ewsg.sample(
            jax.random.key(number),
            kernel,
            jnp.zeros(DIMENSION),
            data,
            steps,
            num_chains=chains,
            moments=ewsg.moments(),
            mesh=mesh,
            check_data=False,
            keep=None,
            progress=False,
        )
        found.append(1e6 * samples.run_seconds / steps)
    quartiles = np.percentile(found[1:], (25, 50, 75)).round(1)
    exchanged = 0 if axis == "chains" or count == 1 else 4 * DIMENSION * chains
    return {"microseconds": quartiles.tolist(), "chains": chains, "rows": rows, "bytes": exchanged}


def elsewhere(case: str, devices: int, processes: int) -> dict[str, Any]:
    """Return what is measured on so many devices of one process, or on one device of each of so
    many.
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [
        sys.executable,
        "-m",
        "benchmarks.cost.devices",
        "--case",
        case,
        "--devices",
        str(devices),
    ]
    command += ["--processes", str(processes), "--port", str(port)]
    made = [
        subprocess.Popen([*command, "--number", str(number)], stdout=subprocess.PIPE, text=True)
        for number in range(processes)
    ]
    said = [each.communicate(timeout=600)[0] for each in made]
    return json.loads(said[0].strip().splitlines()[-1])


def crossing(seconds: float, exchanged: float, bandwidth: float, latency: float) -> float:
    """Return at how many devices exchanging takes as long as computing.

    On D devices a step computes for `seconds`/D. A ring's sum of so many bytes takes `latency` for
    each of 2(D − 1) hops, and 2(D − 1)/D times the bytes over the bandwidth.

    Args:
        seconds: a step on one device.
        exchanged: bytes that are summed in a step.
        bandwidth: bytes a second between neighbours.
        latency: seconds of a hop.
    """
    devices = np.geomspace(1, 1e6, 6001)
    sums = 2 * (devices - 1) * latency + 2 * (devices - 1) / devices * exchanged / bandwidth
    later = sums >= seconds / devices
    return float(devices[np.argmax(later)]) if later.any() else float("inf")


def main() -> None:
    """Measure, and write the result."""
    parser = argparse.ArgumentParser(description="How runs scale over devices and processes.")
    for name in ("devices", "processes", "number", "port"):
        parser.add_argument(f"--{name}", type=int, default=1 if name != "number" else 0)
    parser.add_argument("--case", choices=CASES)
    parser.add_argument(
        "--only", choices=CASES, nargs="+", help="measure these anew, and leave the others"
    )
    chosen = parser.parse_args()
    if chosen.case is not None:
        jax.config.update("jax_num_cpu_devices", chosen.devices)
        if chosen.processes > 1:
            address = f"127.0.0.1:{chosen.port}"
            jax.distributed.initialize(
                address, num_processes=chosen.processes, process_id=chosen.number
            )
        print(json.dumps(measured(chosen.case, max(chosen.devices, chosen.processes))))
        return
    result: dict[str, Any] = {
        "jax": jax.__version__,
        "cores": os.cpu_count(),
        "dimension": DIMENSION,
        "cases": {},
    }
    if chosen.only and RESULTS.exists():
        result["cases"] = json.loads(RESULTS.read_text(encoding="utf-8"))["cases"]
    for case in chosen.only or CASES:
        found = result["cases"][case] = {}
        for count in COUNTS:
            found["load"] = os.getloadavg()[0]
            found[f"{count} devices"] = elsewhere(case, count, 1)
            if count > 1:
                found[f"{count} processes"] = elsewhere(case, 1, count)
        print(case, json.dumps(found), flush=True)
        RESULTS.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
