"""What waits for a GPU: experiments of the papers at sizes that take days on two cores.

    EWSG_JAX_DATA=… python -m benchmarks.on_gpu [--minutes 12] [--only mnist-mlp,blr-vr]

The networks of MNIST at the paper's passes (`mnist-mlp`, `mnist-cnn`) and `blr-vr` with its 1,000
chains. Each part of an experiment is written as soon as it is made, and a start with the same
folder makes those that are left: what is cut, by the time or by a signal, loses the part that was
under way and no other. No part begins after `--minutes`; the exit code is 0 if all is made, else 1.
Results and figures are in a folder for each experiment, `result.json` with its configuration:
moved to `configs/results` and `configs/papers`, it is what the pages tell.
"""

import argparse
import re
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks import record
from benchmarks.papers.command import EXPERIMENTS, in_words
from benchmarks.papers.running import Scale, TimeIsUpError, run, text_of
from ewsg_jax.cli.results import Folder

FULL_SIZES: Mapping[str, Mapping[str, Any]] = {
    "mnist-mlp": {"data_passes": 200},
    "blr-vr": {"num_chains": 1_000},
    "mnist-cnn": {
        "num_rows": 54_000,
        "num_validation": 6_000,
        "num_test": 10_000,
        "channels": [32, 64],
        "data_passes": 200,
    },
}
"""Values that replace those of a configuration's table `[full]`, the shorter experiments first."""
TINY_SIZES: Mapping[str, Mapping[str, Any]] = {
    "mnist-mlp": {
        "num_rows": 200,
        "num_validation": 100,
        "num_test": 100,
        "hidden": [4],
        "data_passes": 2,
        "checked": [],
        "factors": [1.0],
    },
    "blr-vr": {
        "num_chains": 4,
        "data_passes": [4, 4],
        "full_passes": 20,
        "num_draws": 2,
        "splits": [0],
        "reference_steps": 40,
        "tuning_chains": 2,
        "step_sizes": [1e-3],
    },
}
"""The same for runs of minutes on a CPU, which show that all is as it should be."""


def with_values(text: str, values: Mapping[str, Any]) -> str:
    """Return a configuration whose table `[full]` has other values.

    Args:
        text: of the configuration, in which `[full]` is the first table.
        values: the values by their keys, which must be there.
    """
    for key, value in values.items():
        text, count = re.subn(rf"(?m)^{key} = .*$", f"{key} = {value!r}", text, count=1)
        if not count:
            raise ValueError(f"the configuration must have a line for {key!r}")
    return text


def make(name: str, values: Mapping[str, Any], output: Path, until: float) -> bool:
    """Make what is left of an experiment, and return whether all of it is there."""
    folder = Folder(output / name)
    if folder.read_text("result.json") is not None:
        print(f"{name}: there already, in {folder.path}/", flush=True)
        return True
    scale: Scale = "full"
    try:
        result = run(
            EXPERIMENTS[name],
            with_values(text_of(name), values),
            scale,
            folder,
            lambda said: print(said, flush=True),
            until,
        )
    except TimeIsUpError as error:
        print(error, flush=True)
        return False
    print(in_words(result, folder.path), flush=True)
    return True


def main(arguments: Sequence[str] | None = None) -> int:
    """Make what is asked for and not there, until the time is up."""
    began = time.monotonic()
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--minutes", type=float, default=12.0, help="default %(default)s")
    parser.add_argument(
        "--only", type=record.names(FULL_SIZES), help=f"of {', '.join(FULL_SIZES)}; default all"
    )
    parser.add_argument("--output", type=Path, default=Path("results") / "on_gpu")
    parser.add_argument("--tiny", action="store_true", help="shows that it runs, no more")
    options = parser.parse_args(arguments)
    sizes = TINY_SIZES if options.tiny else FULL_SIZES
    until = began + 60 * options.minutes
    names = [name for name in sizes if options.only is None or name in options.only]
    unfinished = [x for x in names if not make(x, sizes[x], options.output, until)]
    return int(bool(unfinished))


if __name__ == "__main__":
    sys.exit(main())
