"""Draws that no run made: members of an ensemble, draws of an approximation."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic

import jax
import numpy as np

from ewsg_jax.base.typing import Key, P, PyTree
from ewsg_jax.draws.mean_and_sd import mean_of, sd_of
from ewsg_jax.draws.predict import predict


@dataclass(frozen=True, eq=False, repr=False)
class Ensemble(Generic[P]):
    """Draws with the leading axes (chain, draw), which predict as `Samples` do.

    Attributes:
        draws: a pytree of NumPy arrays with leading axes (chain, draw): a chain is a member of an
            ensemble, or a part of a mixture.
    """

    draws: PyTree

    def __repr__(self) -> str:
        """Return one line: how many draws and chains."""
        return f"Ensemble(num_chains={self.num_chains}, num_draws={self.num_draws})"

    @property
    def position(self) -> PyTree:
        """The draws, as of samples."""
        return self.draws

    @property
    def finite_draws(self) -> PyTree:
        """The draws that count: all of them."""
        return self.draws

    @property
    def num_chains(self) -> int:
        """The number of chains."""
        return np.shape(jax.tree.leaves(self.draws)[0])[0]

    @property
    def num_draws(self) -> int:
        """The number of draws of each chain."""
        return np.shape(jax.tree.leaves(self.draws)[0])[1]

    @property
    def mean(self) -> P:
        """The mean over chains and draws, like one draw, in float64."""
        return mean_of(self.draws, np.arange(self.num_chains))

    @property
    def sd(self) -> P:
        """The standard deviation over chains and draws, like one draw, in float64."""
        return sd_of(self.draws, np.arange(self.num_chains), self.mean)

    def predict(
        self,
        function: Callable[..., PyTree],
        inputs: PyTree,
        *,
        key: Key | None = None,
        log: bool = False,
        keep_draws: bool = False,
        chunk_size: int | None = None,
    ) -> PyTree:
        """Return the mean of `function(position, inputs)` over the draws, as `Samples.predict`.

        Args:
            function: `function(position, inputs) -> pytree of floating-point arrays`, for one draw.
            inputs: its second argument.
            key: a typed PRNG key, from which each draw has one, the function's third argument.
                Default: the function has two arguments.
            log: the outputs are logarithms: return log(mean(exp(outputs))). Default: no.
            keep_draws: return the outputs at each draw, leading axes (chain, draw). Default: no.
            chunk_size: draws evaluated at once; default: as many as hold 64 MiB.

        Raises:
            TypeError, ValueError: as `Samples.predict`.
        """
        return predict(
            self.draws,
            function,
            inputs,
            key=key,
            log=log,
            keep_draws=keep_draws,
            chunk_size=chunk_size,
        )
