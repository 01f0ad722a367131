"""Measure what a step costs beside other libraries and steps written by hand, and write it as JSON.

    python -m benchmarks.cost.step --peer-python sgmcmcjax=… --peer-python jax_sgmc=…

See README.md in this folder.
"""

import argparse
import sys
from collections.abc import Sequence

import jax

from benchmarks import record
from benchmarks.cost import cells, own_cells
from benchmarks.cost.bench import Bench
from benchmarks.cost.peers import PEERS
from benchmarks.cost.remote import MissingPeerError, Peers
from benchmarks.timing import machine

CELLS = cells.CELLS | own_cells.CELLS
NEEDS_PEERS = cells.NEEDS_PEERS | own_cells.NEEDS_PEERS
PROTOCOL = (
    "Interleaved pairs (ours, other, ours, other, …) after one pair thrown away; the ratio of each "
    "pair, then its median and quartiles. Compiling is apart; every run waits for its results as "
    "NumPy arrays. Times are microseconds per step and chain. Ours is the wall clock around a "
    "second, equal call of ewsg_jax.sample, all it does besides steps included, with its check of "
    "the data off but in the cells of one chain and of calls; only EWSG against uniform and noise "
    "against steps, all ours, are timed without what precedes the first step. A step is one "
    "gradient on a new minibatch. The verdict is against the peer with the lowest median time, "
    "with one chain among those on the same JAX; rows without a goal are told, not judged."
)


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = record.parser(__doc__, "step_cost.json")
    parser.add_argument(
        "--only", type=record.names(CELLS), default=list(CELLS), help=f"of {', '.join(CELLS)}"
    )
    parser.add_argument(
        "--peers", type=record.names(PEERS), default=list(PEERS), help=f"of {', '.join(PEERS)}"
    )
    parser.add_argument(
        "--peer-python", type=_assignment, action="append", default=[], metavar="NAME=PATH",
        help="the interpreter of a peer that does not run in this one",
    )  # fmt: skip
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and write; 0, or 2 where a peer is missing."""
    options = parse(arguments)
    names = options.peers if NEEDS_PEERS.intersection(options.only) else []
    hand = [name for cell in options.only for name in cells.BY_HAND.get(cell, ())]
    pairs, shorten = record.extent(options)
    before = machine()
    try:
        install = {name: peer.install for name, peer in PEERS.items()}
        with Peers([*names, *hand], dict(options.peer_python), install) as peers:
            bench = Bench(
                {name: peers.workers[name] for name in names},
                {name: peers.workers[name] for name in hand},
                {name: _runs_on(found) for name, found in peers.versions.items()},
                _runs_on({"jax": jax.__version__}),
                pairs,
                shorten,
            )
            left_out = [name for name in PEERS if name not in options.peers]
            for cell in options.only:
                CELLS[cell](bench)
                # After each: a run that is stopped keeps what it has measured.
                more = {"peers": peers.versions, "peers_left_out": left_out}
                record.write(options, PROTOCOL, pairs, before, bench.rows, **more)
    except MissingPeerError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


def _runs_on(versions: dict[str, str]) -> str:
    return f"JAX {versions['jax']}" if "jax" in versions else f"PyTorch {versions['torch']}"


def _assignment(text: str) -> tuple[str, str]:
    name, _, path = text.partition("=")
    if name not in PEERS or not path:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not NAME=PATH with a name of {', '.join(PEERS)}"
        )
    return name, path


if __name__ == "__main__":
    sys.exit(main())
