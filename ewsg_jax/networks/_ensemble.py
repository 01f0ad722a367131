"""Deep ensembles: trained networks as draws (Lakshminarayanan, Pritzel & Blundell 2017)."""

from collections.abc import Sequence

import jax
import numpy as np

from ewsg_jax.base import checks
from ewsg_jax.base.typing import P
from ewsg_jax.draws.ensemble import Ensemble


def ensemble(members: Sequence[P] | P, *, stacked: bool = False) -> Ensemble[P]:
    """Make draws of trained networks, a member a chain of one draw.

    Their predictions are averages over members, as those of a deep ensemble are. They are draws of
    no posterior: how far members are apart is set by their starts and by how they were trained.

    Args:
        members: the networks' positions: a list of pytrees alike, two at least; or, with
            `stacked=True`, one pytree whose leading axis is the member.
        stacked: whether `members` is one pytree with that axis. Default: no, a list.

    Raises:
        TypeError, ValueError: an argument has the wrong type or value, members differ in structure
            or shapes, one is not finite, or there is one alone.

    References:
        B. Lakshminarayanan, A. Pritzel and C. Blundell, Simple and scalable predictive uncertainty
            estimation using deep ensembles, NeurIPS 2017.

    Example:
        >>> import jax.numpy as jnp
        >>> from ewsg_jax import networks
        >>> draws = networks.ensemble([{"w": jnp.array(1.0)}, {"w": jnp.array(3.0)}])
        >>> draws, float(draws.predict(lambda p, x: p["w"] * x, 2.0))
        (Ensemble(num_chains=2, num_draws=1), 4.0)
    """
    takes = "members must be two networks at least, a list of pytrees alike"
    if checks.boolean("stacked", stacked):
        members = jax.tree.map(np.asarray, members)
        shapes = [x.shape for x in jax.tree.leaves(members)]
        if not shapes or not shapes[0] or len({shape[:1] for shape in shapes}) > 1:
            raise ValueError(
                "members must be a pytree of arrays with one leading axis of members; got leaves "
                f"of shapes {shapes}"
            )
        count = shapes[0][0]
    elif not isinstance(members, list | tuple):
        raise TypeError(
            f"{takes}; got {checks.describe(members)}: with stacked=True a pytree with a leading "
            "axis of members is taken"
        )
    else:
        count = len(members)
        for member in members[1:]:
            checks.same_tree(takes, "members", member, members[0])
    if count < 2:
        raise ValueError(
            f"{takes}; got {count}, whose predictions say nothing of what is not known: train "
            "another from another start"
        )
    # Each member is a chain of one draw.
    if not stacked:
        members = jax.tree.map(lambda *leaves: np.stack(leaves), *members)
    checks.finite("members", members)
    return Ensemble(jax.tree.map(lambda x: x[:, None], members))
