"""What all benchmarks of this folder share on the command line and in what they write."""

import argparse
import json
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

import ewsg_jax as ewsg
from benchmarks.timing import Pair, Target, load_average, times_the_cost, verdict

PAIRS, QUICK_PAIRS, QUICK_SHORTEN = 15, 3, 5
RESULTS = Path(__file__).parent / "results"


def parser(doc: str | None, out: str, pairs: int = PAIRS) -> argparse.ArgumentParser:
    """Return a parser of `--pairs`, `--quick` and `--out`.

    Args:
        doc: the script's docstring; its first line tells what it does.
        out: the default name in the folder of results.
        pairs: how many pairs there are by default.
    """
    made = argparse.ArgumentParser(description=doc.split("\n\n")[0] if doc else None)
    made.add_argument("--pairs", type=int, help=f"pairs of runs, default {pairs}")
    made.add_argument(
        "--quick", action="store_true", help="3 pairs of short runs: shows that all runs, no more"
    )
    made.add_argument("--out", type=Path, default=RESULTS / out, help="default %(default)s")
    return made


def extent(options: argparse.Namespace, pairs: int = PAIRS) -> tuple[int, int]:
    """Return how many pairs are timed, and what divides the steps of a run."""
    return options.pairs or (
        QUICK_PAIRS if options.quick else pairs
    ), QUICK_SHORTEN if options.quick else 1


def names(known: Collection[str]) -> Callable[[str], list[str]]:
    """Return a reader of names with commas between them."""

    def read(text: str) -> list[str]:
        found = text.split(",")
        for name in found:
            if name not in known:
                raise argparse.ArgumentTypeError(f"{name!r} is none of {', '.join(known)}")
        return found

    return read


def row(
    what: str,
    measured: Sequence[Pair],
    target: Target | None,
    sides: tuple[str, str],
    **details: Any,
) -> dict[str, Any]:
    """Return a row of the result: ours / other of each pair, with its verdict where it has a
    target.

    Args:
        what: was measured.
        measured: pairs of microseconds.
        target: of the ratio.
        sides: the names of both sides, under which their medians are.
        details: of this row alone.
    """
    ratio = times_the_cost(measured)
    return {
        "what": what,
        "unit": "time ratio",
        "measured": ratio._asdict(),
        **({} if target is None else verdict(ratio.median, target)),
        **details,
        "microseconds": {
            sides[0]: float(np.median([pair.ours for pair in measured])),
            sides[1]: float(np.median([pair.other for pair in measured])),
        },
        "load_average": load_average(),
    }


def told(row: dict[str, Any]) -> str:
    """Return a row in short."""
    ratio = row["measured"]
    return f"{row['what']}: {ratio['median']:.2f} ({ratio['lower']:.2f} to {ratio['upper']:.2f})"


def write(
    options: argparse.Namespace,
    protocol: str,
    pairs: int,
    before: dict[str, Any],
    results: list[dict[str, Any]],
    **more: Any,
) -> None:
    """Write what was measured, and on what, as JSON.

    Args:
        options: the command line.
        protocol: how it was measured.
        pairs: how many pairs were timed.
        before: `timing.machine()` before the first of them.
        results: the rows.
        more: of this benchmark alone.
    """
    result = {
        "protocol": protocol,
        "quick": options.quick,
        "pairs": pairs,
        "machine": before | {"load_average_after": load_average()},
        "device": f"{jax.devices()[0].platform}: {jax.devices()[0].device_kind}",
        "versions": {"ewsg_jax": ewsg.__version__, "jax": jax.__version__, "numpy": np.__version__},
        **more,
        "results": results,
    }
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(result, indent=1) + "\n")
    print(f"written to {options.out}")
