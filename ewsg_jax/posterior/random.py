"""A potential of which unbiased estimates are known, and not its values.

It stands in the place of a `Posterior`: the kernel's estimator evaluates the estimates itself, and
whatever asks for a value, or for the gradient of a row, is refused in one sentence.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp

from ewsg_jax.base.typing import Array, Data, P, Position, PyTree
from ewsg_jax.posterior.posterior import Posterior

KEY_KIND = "threefry2x32"
"""The kind of the keys that functions are given, on every device the same numbers."""
NO_VALUES = (
    "posterior must have values that can be evaluated; got a random potential, of which estimates "
    "alone are known: run its kernel, check the draws, and give gradients.random(…, posterior=…) "
    "the posterior whose potential is the mean, if there is one, which plan, find_mode and "
    "forecast take"
)


def draw_words(key: jax.Array, *shape: int) -> Array:
    """Return 32-bit words of keys, two of each."""
    return jax.random.bits(key, (*shape, 2), jnp.uint32)


def key_of(words: Array) -> jax.Array:
    """Return the key of 32-bit words that were drawn at random, shape (2,)."""
    return jax.random.wrap_key_data(words, impl=KEY_KIND)


class Keyed(NamedTuple):
    """A row, or several, each with the words of a key.

    Attributes:
        rows: the rows.
        words: uint32, shape (2,), or (b, 2) of b rows.
    """

    rows: PyTree
    words: Array


@dataclass(frozen=True)
class OfKeyed:
    """A log likelihood that takes a key, as a function of a row with its key.

    Attributes:
        log_likelihood: `log_likelihood(position, datum, key) -> scalar`.
    """

    log_likelihood: Callable[[Any, Data, jax.Array], Array]

    def __call__(self, position: Position, datum: Keyed) -> Array:
        """Return the log likelihood of a row with its key."""
        return self.log_likelihood(position, datum.rows, key_of(datum.words))


@dataclass(frozen=True)
class OfNoRow:
    """The place of a log likelihood, for a potential that is no sum over rows.

    Attributes:
        function: `function(key, position, data)`, by which it is known.
        returns: whether it returns the potential or its gradient; None: by its shape.
    """

    function: Callable[[jax.Array, Any, Data], Any]
    returns: Literal["potential", "gradient"] | None = None

    def __call__(self, position: Position, datum: Data) -> Array:
        """Raise that there is no log likelihood of a row."""
        raise ValueError(NO_VALUES)


@dataclass(frozen=True, eq=False)
class RandomPotential(Posterior[P]):
    """What stands in the place of the posterior of an estimator with random values."""

    def check(self, position: P, data: Data) -> None:
        """Check rows that have keys; refuse others.

        Raises:
            ValueError: nothing is known of a row without a key.
        """
        if not isinstance(data, Keyed):
            raise ValueError(NO_VALUES)
        super().check(position, data)

    def check_gradient(self, position: P, data: Data) -> None:
        if not isinstance(data, Keyed):
            raise ValueError(NO_VALUES)
        super().check_gradient(position, data)


def known(posterior: Posterior[P]) -> Posterior[P] | None:
    """Return a posterior, None if it has no values."""
    return None if isinstance(posterior, RandomPotential) else posterior


def flat_prior(position: Position) -> float:
    """Return 0: a prior that is in the potential already."""
    return 0.0
