"""Networks of flax as posteriors: their weights are the position, each with the prior N(0, s²)."""

import functools
import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from benchmarks.papers.annotations import Array, Data, Key, PyTree
from ewsg_jax import Posterior


@dataclass(frozen=True)
class Perceptron:
    """Dense layers with ReLU between them, such as 784, 100, 10."""

    sizes: tuple[int, ...]

    def made(self, key: Key) -> Any:
        """Return the flax module."""
        nnx = flax()
        rngs, layers = nnx.Rngs(key), []
        for before, after in zip(self.sizes, self.sizes[1:], strict=False):
            layers += [nnx.Linear(before, after, rngs=rngs), nnx.relu]
        return nnx.Sequential(*layers[:-1])


@dataclass(frozen=True)
class Convolutional:
    """Images of one colour, two convolutions 5 × 5 with ReLU and pooling by two, then dense layers
    with ReLU.

    A convolution is a dense layer on the 25 pixels around each: flax's own, of many chains side by
    side, takes a hundred times as long on a CPU.
    """

    side: int
    channels: tuple[int, int]
    sizes: tuple[int, ...]

    def made(self, key: Key) -> Any:
        """Return the flax module."""
        nnx = flax()
        rngs, (one, two) = nnx.Rngs(key), self.channels
        dense = Perceptron((two * (self.side // 4) ** 2, *self.sizes)).made(
            jax.random.fold_in(key, 1)
        )
        return nnx.Sequential(
            functools.partial(jnp.reshape, shape=(self.side, self.side, 1)),
            neighbours,
            nnx.Linear(25, one, rngs=rngs),
            nnx.relu,
            pooled,
            neighbours,
            nnx.Linear(25 * one, two, rngs=rngs),
            nnx.relu,
            pooled,
            jnp.ravel,
            dense,
        )


def neighbours(image: Array) -> Array:
    """Return the 5 × 5 pixels around each pixel of an image (side, side, channels), 0 beyond its
    edges.
    """
    height, width, _ = image.shape
    wide = jnp.pad(image, ((2, 2), (2, 2), (0, 0)))
    return jnp.concatenate(
        [wide[i : i + height, j : j + width] for i in range(5) for j in range(5)], axis=-1
    )


def pooled(image: Array) -> Array:
    """Return the largest of each 2 × 2 pixels, of each channel."""
    height, width, channels = image.shape
    cut = image[: height // 2 * 2, : width // 2 * 2]
    return cut.reshape(height // 2, 2, width // 2, 2, channels).max((1, 3))


Network = Perceptron | Convolutional


@dataclass(frozen=True)
class NormalPrior:
    """The log density of N(0, s² I), up to its constant."""

    scale: float

    def __call__(self, position: PyTree) -> Array:
        """Return it at a tree of arrays."""
        squares = [jnp.sum(jnp.square(x)) for x in jax.tree.leaves(position)]
        return -0.5 * self.scale**-2 * sum(squares, jnp.float32(0.0))


def flax() -> Any:
    """Return `flax.nnx`.

    Raises:
        ImportError: flax is not installed.
    """
    try:
        return importlib.import_module("flax.nnx")
    except ImportError as error:
        raise ImportError(
            "the experiment of a network needs flax: pip install 'ewsg_jax[networks]'"
        ) from error


@functools.cache
def graph_of(network: Network) -> Any:
    """Return a network without its weights."""
    return flax().split(network.made(jax.random.key(0)), flax().Param)[0]


def start_of(network: Network) -> Callable[[Key], PyTree]:
    """Return a function of a key that returns weights, as flax initialises them."""
    return lambda key: flax().to_pure_dict(flax().split(network.made(key), flax().Param)[1])


@dataclass(frozen=True)
class Outputs:
    """What a network returns for each of some rows."""

    network: Network

    def __call__(self, weights: PyTree, rows: Data) -> Array:
        """Return it; of a single output without its axis."""
        found = jax.vmap(flax().merge(graph_of(self.network), weights))(rows["x"])
        return found[:, 0] if found.shape[-1] == 1 else found


@dataclass(frozen=True)
class LogProbabilities:
    """The log probabilities of the classes that a network gives."""

    network: Network

    def __call__(self, weights: PyTree, rows: Data) -> Array:
        """Return them for each of some rows."""
        return jax.nn.log_softmax(Outputs(self.network)(weights, rows))


@dataclass(frozen=True)
class _OfClass:
    network: Network

    def __call__(self, weights: PyTree, row: Data) -> Array:
        outputs = flax().merge(graph_of(self.network), weights)(row["x"])
        return jax.nn.log_softmax(outputs)[row["y"]]


@dataclass(frozen=True)
class _OfNumber:
    network: Network
    noise_scale: float

    def __call__(self, weights: PyTree, row: Data) -> Array:
        off = (
            row["y"] - flax().merge(graph_of(self.network), weights)(row["x"])[0]
        ) / self.noise_scale
        return -0.5 * off**2 - jnp.log(self.noise_scale * jnp.sqrt(2 * jnp.pi))


def classes(network: Network, prior_scale: float = 1.0) -> Posterior[PyTree]:
    """Return the posterior of a network's weights, of rows {"x": (n, …), "y": (n,) classes}."""
    return Posterior(_OfClass(network), NormalPrior(prior_scale), check_values=_any_values)


def numbers(network: Network, noise_scale: float, prior_scale: float = 1.0) -> Posterior[PyTree]:
    """Return the posterior of a network's weights, of rows {"x": (n, …), "y": (n,)} with normal
    noise.
    """
    return Posterior(_OfNumber(network, noise_scale), NormalPrior(prior_scale))


def _any_values(weights: PyTree, rows: Data) -> None:
    """Refuse nothing: the classes are those of a data set that was looked at."""
