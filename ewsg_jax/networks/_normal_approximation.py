"""Normal distributions around trained networks, a mixture of them if there are several."""

from dataclasses import dataclass
from typing import Generic

import jax
import numpy as np

from ewsg_jax.answers.mode.start import Start
from ewsg_jax.base import checks, pytrees
from ewsg_jax.base.factors import variances
from ewsg_jax.base.typing import Key, P
from ewsg_jax.draws.ensemble import Ensemble
from ewsg_jax.vectors.layout import Layout


@dataclass(frozen=True, eq=False, repr=False)
class NormalApproximation(Generic[P]):
    """A normal distribution of a network's weights, or a mixture of several with equal shares.

    Attributes:
        parts: the distributions, each a function of a key with a `center` and a `covariance`, a
            `dynamics.LowRank`: what `ewsg_jax.sample` takes for a position.
        notes: what the approximation leaves out, one sentence each.
    """

    parts: tuple[Start[P], ...]
    notes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        """Return one line: parts and dimension."""
        size = pytrees.size(self.parts[0].center)
        return f"NormalApproximation({len(self.parts)} parts, {size:,} numbers)"

    @property
    def mean(self) -> P:
        """The mean of each part, a pytree with a leading axis of parts."""
        return jax.tree.map(lambda *x: np.stack(x), *[part.center for part in self.parts])

    @property
    def sd(self) -> P:
        """The standard deviations of each part, a pytree with a leading axis of parts."""
        layout = Layout.of(self.parts[0].center)
        sds = [layout.tree(np.sqrt(variances(part.covariance))) for part in self.parts]
        return jax.tree.map(lambda *x: np.stack(x), *sds)

    def draws(self, key: Key, num_draws: int) -> Ensemble[P]:
        """Return draws of each part, leading axes (part, draw), which predict as samples do.

        Args:
            key: a typed PRNG key.
            num_draws: draws of each part.

        Raises:
            TypeError, ValueError: an argument has the wrong type or value.
        """
        checks.integer("num_draws", num_draws)
        keys = jax.random.split(checks.key(key), (len(self.parts), num_draws))
        drawn = [part.of_keys(keys[k]) for k, part in enumerate(self.parts)]
        return Ensemble(jax.tree.map(lambda *x: np.stack(x), *jax.device_get(drawn)))
