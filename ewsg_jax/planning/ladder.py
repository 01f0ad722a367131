"""Step sizes from the largest down, each judged by `check`: where no mode tells the posterior's widths."""

import jax
import jax.numpy as jnp
import numpy as np

from ewsg_jax import dynamics, gradients
from ewsg_jax._types import Key
from ewsg_jax.forecasting import stability
from ewsg_jax.pair import kernel
from ewsg_jax.planning.asked import Asked, Ended
from ewsg_jax.planning.candidate import burn_in_of
from ewsg_jax.planning.trial import Trial
from ewsg_jax.preparation.programs import Layout, Of, vector
from ewsg_jax.rows.gathering import CHUNK_SIZE, num_rows

RUNGS = 12
"""Steps that are tried, each half of the last."""
DAMPED = 0.1
"""Friction times the step size: a tenth of the momentum is lost at every step."""
ROWS = 256
"""Of a batch, by default."""
MEMORY = 100.0
"""Steps that an effective draw is taken to need, before it is known."""


def climb(key: Key, asked: Asked) -> Ended:
    """Return the splitting with uniform batches at the largest step size whose trial is right.

    Where none is, the one whose temperature is nearest to the target's.
    """
    n, position = num_rows(asked.data), asked.mode.position
    size = asked.wanted.batch_size or max(asked.parts, min(ROWS, n // 4) // asked.parts * asked.parts)
    of = Of(asked.posterior, Layout.of(position), CHUNK_SIZE, False)
    # Where the search began too: at a mode that is flat there may be no curvature.
    begin = (vector(asked.begin) - vector(position))[None]
    places = np.concatenate([0 * begin, begin])
    bend = stability.largest_curvature(of, None, position, places, asked.data)
    top = 1 / max(abs(bend), np.finfo(np.float32).tiny) ** 0.5
    tried: list[Trial] = []
    for number, own in enumerate(jax.random.split(key, RUNGS)):
        step_size = top / 2**number
        moves = dynamics.splitting(step_size, friction=DAMPED / step_size)
        made = kernel(moves, gradients.uniform(asked.posterior, batch_size=size))
        tried.append(asked.tried(own, made, jax.tree.map(jnp.asarray, position), MEMORY))
        if not tried[-1].is_wrong or tried[-1].is_outside:
            break
    last, spent = tried[-1], sum(each.data_passes for each in tried)
    notes = ["the mode does not tell the posterior's widths: step sizes were tried from the largest down"]
    if last.is_wrong and not last.is_outside:
        notes.append(f"none of {RUNGS} trials was right: the one whose heat is least is taken")
        last = min(tried, key=lambda each: each.heat)
    doubts, time = last.doubts, last.time
    if last.report is None:
        # Of no trial anything is known: the smallest step is the most likely to stay.
        last, time = tried[-1], MEMORY
        every = f"so it was at every one of {len(tried)} step sizes"
        doubts = [*last.doubts, f"{every}: is the density bounded, and has the likelihood the right sign?"]
    return Ended(last.kernel, position, burn_in_of(time), time, [], None, last.report, spent, notes, doubts)
