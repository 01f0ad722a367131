"""Measure what a step costs beside other libraries and steps written by hand, and write it as JSON.

    python benchmarks/step_cost.py --peer-python sgmcmcjax=… --peer-python jax_sgmc=…

See README.md in this folder.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np
from cells import CELLS, NEEDS_PEERS, Bench
from peers import BY_HAND, PEERS
from remote import MissingPeerError, Peers
from timing import load_average, machine

import ewsg_jax as ewsg

PAIRS, QUICK_PAIRS, QUICK_SHORTEN = 15, 3, 5
DEFAULT_OUT = Path(__file__).parent / "results" / "step_cost.json"
PROTOCOL = (
    "Interleaved pairs (ours, other, ours, other, …) after one pair thrown away; the ratio of each pair, then its "
    "median and quartiles. Compiling is apart; every run waits for its results as NumPy arrays. Times are "
    "microseconds per step and chain. Ours is the wall clock around a second, equal call of ewsg_jax.sample, all "
    "it does besides steps included, with its check of the data off; only EWSG against uniform, both ours, is "
    "timed without what precedes the first step. A step is one gradient on a new minibatch. The verdict is "
    "against the peer with the lowest median time."
)


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--only", type=_names(CELLS), default=list(CELLS), help=f"of {', '.join(CELLS)}")
    parser.add_argument("--peers", type=_names(PEERS), default=list(PEERS), help=f"of {', '.join(PEERS)}")
    parser.add_argument(
        "--peer-python", type=_assignment, action="append", default=[], metavar="NAME=PATH",
        help="the interpreter of a peer that does not run in this one",
    )  # fmt: skip
    parser.add_argument("--pairs", type=int, help=f"pairs of runs, default {PAIRS}")
    parser.add_argument("--quick", action="store_true", help="3 pairs of short runs: shows that all runs, no more")
    parser.add_argument("--out", type=Path, default=DEFAULT_OUT, help="default %(default)s")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and write; 0, or 2 where a peer is missing."""
    options = parse(arguments)
    names = options.peers if NEEDS_PEERS.intersection(options.only) else []
    hand = list(BY_HAND) if "thousand" in options.only else []
    pairs = options.pairs or (QUICK_PAIRS if options.quick else PAIRS)
    before = machine()
    try:
        install = {name: peer.install for name, peer in PEERS.items()}
        with Peers([*names, *hand], dict(options.peer_python), install) as peers:
            bench = Bench(
                {name: peers.workers[name] for name in names},
                {name: peers.workers[name] for name in hand},
                {name: found["jax"] for name, found in peers.versions.items()},
                jax.__version__,
                pairs,
                QUICK_SHORTEN if options.quick else 1,
            )
            for cell in options.only:
                CELLS[cell](bench)
            versions = peers.versions
    except MissingPeerError as error:
        print(error, file=sys.stderr)
        return 2
    result: dict[str, Any] = {
        "protocol": PROTOCOL,
        "quick": options.quick,
        "pairs": pairs,
        "machine": before | {"load_average_after": load_average()},
        "device": f"{jax.devices()[0].platform}: {jax.devices()[0].device_kind}",
        "versions": {"ewsg_jax": ewsg.__version__, "jax": jax.__version__, "numpy": np.__version__},
        "peers": versions,
        "peers_left_out": [name for name in PEERS if name not in options.peers],
        "results": bench.rows,
    }
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(result, indent=1) + "\n")
    print(f"written to {options.out}")
    return 0


def _names(known: dict[str, Any]) -> Any:
    def read(text: str) -> list[str]:
        names = text.split(",")
        for name in names:
            if name not in known:
                raise argparse.ArgumentTypeError(f"{name!r} is none of {', '.join(known)}")
        return names

    return read


def _assignment(text: str) -> tuple[str, str]:
    name, _, path = text.partition("=")
    if name not in PEERS or not path:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=PATH with a name of {', '.join(PEERS)}")
    return name, path


if __name__ == "__main__":
    sys.exit(main())
