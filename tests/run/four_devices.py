"""Four forced devices of a CPU, runs over them, and the same on one device: rows in parts."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, Mesh

import ewsg_jax as ewsg
from ewsg_jax.rows._shards import Shard
from ewsg_jax.run.starts import keys_of

jax.config.update("jax_num_cpu_devices", 4)
jax.config.update("jax_enable_x64", True)
jax.config.update("jax_disable_most_optimizations", True)
N, STEPS, KEY = 103, 20, jax.random.key(7)
X = np.random.default_rng(0).standard_normal((N, 3))
ROWS = {"x": X, "y": (X[:, 0] + 0.3 * X[:, 1] > 0).astype(float)}
MODEL = ewsg.models.logistic_regression(prior_scale=1.0)
DEVICES = np.array(jax.devices())
CHAINS, DATA = Mesh(DEVICES, ("chains",)), Mesh(DEVICES, ("data",))
BOTH = jax.make_mesh((2, 2), ("chains", "data"), axis_types=(AxisType.Explicit, AxisType.Explicit))


def built(name):
    """A named method with batches of 4 rows."""
    example = dict(ewsg.METHODS[name].example)
    if "batch_size" in example:
        example["batch_size"] = 4
    return ewsg.METHODS[name].build(MODEL, 1e-3, **example)


def sampled(kernel, mesh=None, num_chains=7, steps=STEPS, rows=ROWS, **options):
    """Seven chains: no number of devices divides them."""
    wanted = {"mesh": mesh} | options
    return ewsg.sample(KEY, kernel, jnp.full(3, 0.1), rows, steps, num_chains=num_chains, **wanted)


def close(a, b):
    np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)


def close_to(a, b):
    """Of what is found in rounds, each of which takes rounding on."""
    np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)


def cut(rows, parts, axes):
    """Rows in parts, by NumPy: as even as can be, in order, made equally long by copies."""
    n = len(rows["x"])
    bounds = [n * part // parts for part in range(parts + 1)]
    most = -(-n // parts)
    numbers = np.array(
        [[a + k % (b - a) for k in range(most)] for a, b in itertools.pairwise(bounds)]
    )
    size = np.array(
        [[b - a] * (b - a) + [0] * (most - b + a) for a, b in itertools.pairwise(bounds)], np.int32
    )
    return Shard(
        rows=jax.tree.map(lambda x: jnp.asarray(x[numbers]), rows),
        size=jnp.asarray(size),
        total=n,
        parts=parts,
        axes=axes,
    )


def stepped(kernel, parts, num_chains, steps=STEPS):
    """A run whose rows are in parts, step by step under `vmap` on one device: step, part, chain,
    number.
    """
    own, starts = keys_of(KEY, num_chains), jnp.full((num_chains, 3), 0.1)
    rows = cut(ROWS, parts, ("parts",))

    def over(function, in_axes):
        chains = jax.vmap(function, (0, 0, None))
        return jax.jit(jax.vmap(chains, (*in_axes, 0), axis_name="parts"))

    def one_step(key, state, rows):
        return kernel.transition(kernel.draw(key, state, rows), state, rows)[0]

    state = over(kernel.init, (None, None))(own.states, starts, rows)
    step, found = over(one_step, (None, 0)), []
    for t in range(steps):
        at = jax.vmap(lambda key, t=t: jax.random.fold_in(key, t))(own.steps)
        state = step(at, state, rows)
        found.append(state.position)
    return np.asarray(found)
