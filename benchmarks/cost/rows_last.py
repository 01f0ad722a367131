"""Measure gradients of networks with the axis of rows last beside `jax.vmap`, and write it as JSON.

    python -m benchmarks.cost.rows_last

The gradient of the sum over rows, of one network and of four side by side, in interleaved pairs on
one thread of XLA's or as many as it takes; compiled before.
"""

import itertools
import time
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from benchmarks import record
from benchmarks.timing import Pair, interleave, machine
from ewsg_jax.networks._rows_last import over_rows

PAIRS, REPEATS, NETWORKS = 7, 20, 4
KEY = jax.random.key(0)
PROTOCOL = (
    "Microseconds of a gradient, in a compiled loop of 20 (2 of convolutions), in interleaved "
    "pairs. Each network is one that `over_rows` carries out with rows last."
)
# Inputs, units of two hidden layers, rows; side of an image, channels of two layers, rows.
DENSE = ((5, 16, 128), (5, 16, 1_024), (20, 64, 256), (20, 128, 1_024), (64, 256, 1_024))
CONVOLUTIONS = ((8, (1, 8, 16), 32), (8, (1, 8, 16), 128), (28, (1, 16, 32), 32))
Network = tuple[Callable[[Any, Any], jax.Array], list[Any], jax.Array]


def dense(inputs: int, units: int, rows: int) -> Network:
    """Return a network of three dense layers, its parameters and inputs."""

    def apply(params: Any, x: jax.Array) -> jax.Array:
        for number, layer in enumerate(params):
            x = x @ layer["kernel"] + layer["bias"]
            x = jax.nn.relu(x) if number < 2 else x
        return jax.nn.logsumexp(x) - x[0]

    sizes = ((inputs, units), (units, units), (units, 10))
    params = [
        {"kernel": jax.random.normal(KEY, size) / size[0] ** 0.5, "bias": jnp.zeros(size[1])}
        for size in sizes
    ]
    return apply, params, jax.random.normal(KEY, (rows, inputs))


def convolutions(side: int, channels: Sequence[int], rows: int) -> Network:
    """Return a network of two convolutions with strides 2, its parameters and images."""

    def apply(params: Any, x: jax.Array) -> jax.Array:
        image, names = x[None], ("NHWC", "HWIO", "NHWC")
        for layer in params:
            image = jax.lax.conv_general_dilated(
                image, layer["kernel"], (2, 2), "SAME", dimension_numbers=names
            )
            image = jax.nn.relu(image + layer["bias"])
        return jnp.sum(image**2)

    params = [
        {"kernel": jax.random.normal(KEY, (3, 3, a, b)) / (9 * a) ** 0.5, "bias": jnp.zeros(b)}
        for a, b in itertools.pairwise(channels)
    ]
    return apply, params, jax.random.normal(KEY, (rows, side, side, channels[0]))


def measured(network: Network, count: int, pairs: int, repeats: int) -> list[Pair]:
    """Return pairs of microseconds of a gradient of `count` networks: rows last, and `jax.vmap`."""
    apply, params, x = network
    several = jax.tree.map(lambda leaf: jnp.stack([leaf * (1 + i) for i in range(count)]), params)

    def timed(values: Callable[[Any, Any], jax.Array]) -> Callable[[], float]:
        gradient = jax.grad(lambda params, x: jnp.sum(values(params, x)))

        @jax.jit
        def loop(params: Any, x: jax.Array) -> Any:
            def step(params: Any, _: None) -> tuple[Any, None]:
                gradients = jax.vmap(gradient, (0, None))(params, x)
                return jax.tree.map(lambda p, g: p - 1e-9 * g, params, gradients), None

            return jax.lax.scan(step, params, None, length=repeats)[0]

        def call() -> float:
            start = time.perf_counter()
            jax.block_until_ready(loop(several, x))
            return 1e6 * (time.perf_counter() - start) / repeats

        call()
        return call

    rows_last = timed(lambda params, x: over_rows(apply, params, x, several=True))
    return interleave(rows_last, timed(jax.vmap(apply, (None, 0))), pairs)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    options = record.parser(__doc__, "rows_last.json", PAIRS).parse_args(arguments)
    pairs, shorten = record.extent(options, PAIRS)
    before, results = machine(), []
    few = slice(1 if options.quick else None)
    networks = [(f"dense {cell}", dense(*cell), REPEATS // shorten) for cell in DENSE[few]]
    networks += [
        (f"convolutions {cell}", convolutions(*cell), REPEATS // (10 * shorten) or 1)
        for cell in CONVOLUTIONS[few]
    ]
    for name, network, repeats in networks:
        for count in (1, NETWORKS):
            taken = measured(network, count, pairs, repeats)
            what = f"{name}, networks: {count}"
            results.append(record.row(what, taken, None, ("rows last", "jax.vmap")))
            print(record.told(results[-1]), flush=True)
    record.write(options, PROTOCOL, pairs, before, results)


if __name__ == "__main__":
    main()
