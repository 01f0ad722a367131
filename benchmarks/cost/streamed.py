"""Measure runs over data that are larger than memory, and write it as JSON.

    python -m benchmarks.cost.streamed --gigabytes 20

Writes files of that size in a temporary folder, and deletes it; the disk must have twice as much
free. Linux only.
"""

import os
import re
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import ewsg_jax as ewsg
from benchmarks import record
from benchmarks.timing import machine

COLUMNS, BATCH, BLOCK, GIGABYTE = 54, 50, 2**17, 10**9
GOALS = {"anonymous_gb": 2.0, "times_resident": 1.3}
PROTOCOL = (
    "SGLD on logistic regression with 54 columns, float32, 50 rows a step, one chain, rows and "
    "labels in two .npy files that the page cache is told to forget before each run. Streamed: one "
    "epoch of all windows, run_seconds of ewsg_jax.sample, waits for the disk included. Resident: "
    "as many rows as a window has, in memory, the same kernel, a tenth of the steps. Memory is the "
    "largest RssAnon of /proc/self/status while a run lasts, looked at every 5 ms; the page cache "
    "is no part of it. The disk: a plain read of 1 GB that the cache does not hold."
)


class Anonymous:
    """The largest anonymous memory of this process while entered, in GB."""

    def __enter__(self) -> "Anonymous":
        self.peak, self._ended = 0.0, threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._ended.wait(0.005):
            found = re.search(r"RssAnon:\s+(\d+) kB", Path("/proc/self/status").read_text())
            assert found is not None
            self.peak = max(self.peak, int(found[1]) * 1024 / GIGABYTE)


def write_rows(folder: Path, num_rows: int) -> dict[str, Path]:
    """Write rows of a logistic regression, some at a time; return the paths."""
    paths, rng = {"x": folder / "x.npy", "y": folder / "y.npy"}, np.random.default_rng(0)
    truth = rng.standard_normal(COLUMNS, np.float32) / 4
    with open(paths["x"], "wb") as x_file, open(paths["y"], "wb") as y_file:
        for file, shape, kind in (
            (x_file, (num_rows, COLUMNS), "<f4"),
            (y_file, (num_rows,), "|i1"),
        ):
            header = {"descr": kind, "fortran_order": False, "shape": shape}
            np.lib.format.write_array_header_1_0(file, header)
        block = rng.standard_normal((BLOCK, COLUMNS), np.float32)
        for first in range(0, num_rows, BLOCK):
            # Reflected: to draw all anew would take most of the time.
            x = block[: num_rows - first] * rng.choice(np.array([-1, 1], np.float32), COLUMNS)
            x.tofile(x_file)
            (rng.random(len(x), np.float32) < 1 / (1 + np.exp(-x @ truth))).astype(np.int8).tofile(
                y_file
            )
        for file in (x_file, y_file):
            file.flush()
            os.fsync(file.fileno())
    return paths


def forget(paths: dict[str, Path]) -> None:
    """Have the page cache forget files."""
    for path in paths.values():
        with open(path, "rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def disk(path: Path) -> float:
    """Return how fast a file is read, in GB a second."""
    room, began, done = bytearray(2**24), time.perf_counter(), 0
    with open(path, "rb", buffering=0) as file:
        while done < GIGABYTE and (count := file.readinto(room)):
            done += count
    return done / GIGABYTE / (time.perf_counter() - began)


def run(kernel: Any, data: Any, num_steps: int) -> tuple[ewsg.Samples, float]:
    """Sample and keep the last draw; return the samples and the largest anonymous memory, in GB."""
    with Anonymous() as memory:
        samples = ewsg.sample(
            jax.random.key(0),
            kernel,
            jnp.zeros(COLUMNS),
            data,
            num_steps,
            burn_in=num_steps - 1,
            progress=False,
        )
    return samples, memory.peak


def measure(
    paths: dict[str, Path], num_rows: int, window: int | None, passes: Sequence[float]
) -> list[dict[str, Any]]:
    """Return a row for each number of passes over a window."""
    model, rows = ewsg.models.logistic_regression(), []
    kernel = ewsg.sgld(model, 0.1 / num_rows, batch_size=BATCH)
    for times in passes:
        stream = ewsg.stream(paths, window=window, passes=times)
        steps = int(times * num_rows / BATCH)
        forget(paths)
        samples, memory = run(kernel, stream, steps)
        few = jax.tree.map(jnp.asarray, stream.read(0, stream.window))
        beside, _ = run(kernel, few, max(steps // 10, 1000))
        ours, theirs = (1e6 * one.run_seconds / one.num_steps for one in (samples, beside))
        rows.append(
            {
                "passes": times,
                "window_rows": stream.window,
                "windows": stream.num_windows,
                "steps": steps,
                "data_passes": samples.data_passes,
                "seconds": samples.run_seconds,
                "streamed_us_per_step": ours,
                "resident_us_per_step": theirs,
                "times_resident": ours / theirs,
                "read_gb_per_second": sum(os.path.getsize(path) for path in paths.values())
                / GIGABYTE
                / samples.run_seconds,
                "anonymous_gb": memory,
            }
        )
        print(rows[-1])
        del few
    centred = ewsg.cv_ld(model, 0.1 / num_rows, batch_size=BATCH)
    stream = ewsg.stream(paths, window=window)
    forget(paths)
    samples, memory = run(centred, stream, 1000)
    rows.append(
        {
            "sum_over_all_rows": True,
            "seconds_with_compiling": samples.compile_seconds,
            "anonymous_gb": memory,
            "data_passes": samples.data_passes,
        }
    )
    print(rows[-1])
    return rows


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and write; 0, or 2 where the disk has no room."""
    parser = record.parser(__doc__, "streamed.json")
    parser.add_argument(
        "--gigabytes", type=float, default=20.0, help="of rows, default %(default)s"
    )
    parser.add_argument(
        "--window", type=int, help="rows of a window, default that of ewsg_jax.stream"
    )
    parser.add_argument(
        "--folder", type=Path, default=Path(tempfile.gettempdir()), help="where files are written"
    )
    parser.add_argument(
        "--passes", type=float, nargs="+", default=[1.0, 4.0, 8.0], help="over each window"
    )
    options = parser.parse_args(arguments)
    free = shutil.disk_usage(options.folder).free / GIGABYTE
    if free < 2 * options.gigabytes:
        print(
            f"{options.folder} has {free:.1f} GB free; {2 * options.gigabytes:.1f} are asked for",
            file=sys.stderr,
        )
        return 2
    before, num_rows = machine(), int(options.gigabytes * GIGABYTE / (4 * COLUMNS + 1))
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        began = time.perf_counter()
        paths = write_rows(Path(folder), num_rows)
        written = options.gigabytes / (time.perf_counter() - began)
        forget(paths)
        told = {
            "rows": num_rows,
            "gigabytes": options.gigabytes,
            "made_and_written_gb_per_second": written,
        }
        told["disk_gb_per_second"] = disk(paths["x"])
        rows = [told, *measure(paths, num_rows, options.window, options.passes)]
    record.write(options, PROTOCOL, 1, before, rows, goals=GOALS)
    return 0


if __name__ == "__main__":
    sys.exit(main())
