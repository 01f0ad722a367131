"""Writes checkpoints for ever, each saying which it is, for a test that kills it."""

import sys
from types import SimpleNamespace

import numpy as np

from ewsg_jax._kernel import KernelState
from ewsg_jax.dynamics import LangevinState
from ewsg_jax.sampling.checkpoint import CheckpointWriter
from ewsg_jax.sampling.keeping import Plan
from ewsg_jax.sampling.request import Request

CHAINS, D, MOST = 2, 500, 10**5


def outcome(done):
    """What so many steps of a run gave, all kept."""
    state = KernelState(
        LangevinState(np.full((CHAINS, D), float(done)), np.full(CHAINS, done, np.int32)), ()
    )
    draws = np.broadcast_to(np.arange(1.0, MOST + 1)[None, :, None], (CHAINS, MOST, 20))
    watch = SimpleNamespace(alive=np.ones(CHAINS, bool), diverged_at=np.full(CHAINS, -1))
    totals = {"acceptance": np.full(CHAINS, done)}
    return SimpleNamespace(
        done=done, state=state, draws=draws, watch=watch, totals=totals, spent=[(0, 0)], sums=None
    )


if __name__ == "__main__":
    request = Request(None, None, None, None, checkpoint=sys.argv[1])
    saver = CheckpointWriter(request, Plan(0, 1), {"first": 0, "num_chains": CHAINS})
    done = 0
    while True:
        saver.write(outcome(done))
        print(done, flush=True)
        done += 5
