"""A run that writes checkpoints all the time, for a test that kills it: resumed, it goes on."""

import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

import ewsg_jax as ewsg
from ewsg_jax.run import checkpoint, loop

KEY = jax.random.key(5)
OPTIONS = {"num_chains": 3, "burn_in": 100, "thin": 7}


def parts():
    """The kernel and the data."""
    kernel = ewsg.svrg_ld(ewsg.models.gaussian_location(), 1e-2, batch_size=5)
    return kernel, jnp.asarray(np.random.default_rng(1).normal(size=(50, 3)), jnp.float32)


if __name__ == "__main__":
    # Many short calls: a kill may come anywhere.
    loop.SECONDS_PER_CALL, checkpoint.WRITING_SHARE = 0.002, 1e9
    kernel, data = parts()
    path, num_steps = Path(sys.argv[1]), int(sys.argv[2])
    save = checkpoint.CheckpointWriter.save

    def told(saver, outcome):
        save(saver, outcome)
        print(outcome.done, flush=True)

    checkpoint.CheckpointWriter.save = told
    if (path / "run.npz").exists():
        ewsg.resume(path, data, kernel=kernel, checkpoint_every=1e-6)
    else:
        start = jnp.zeros(3)
        ewsg.sample(
            KEY, kernel, start, data, num_steps, checkpoint=path, checkpoint_every=1e-6, **OPTIONS
        )
