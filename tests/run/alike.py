"""Two runs are the same: what they hold, bit for bit, or to rounding."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np


def contents(value):
    """What a value holds: a dataclass its fields, a tree its structure and its leaves' bytes."""
    if dataclasses.is_dataclass(value):
        names = [field.name for field in dataclasses.fields(value)]
        return [(name, contents(getattr(value, name))) for name in names]
    leaves, structure = jax.tree.flatten(value)
    return structure, [_bits(leaf) for leaf in leaves]


def _bits(leaf):
    if isinstance(leaf, np.ndarray | jax.Array):
        array = np.asarray(leaf)
        return isinstance(leaf, jax.Array), str(array.dtype), array.shape, array.tobytes()
    return type(leaf), leaf


def same_runs(found, wanted):
    """Assert that two runs have the same draws, states and counts, and moments up to rounding."""
    for field in (
        "draws",
        "state",
        "step",
        "step_size",
        "evaluations",
        "index_acceptance",
        "acceptance",
        "overflow",
        "diverged_at",
    ):
        same_leaves(getattr(found, field), getattr(wanted, field))
    for field in (
        "gradient_evaluations",
        "num_steps",
        "num_chains",
        "num_data",
        "common_start",
        "shared_minibatch",
        "keeps_positions",
        "interrupted",
    ):
        assert getattr(found, field) == getattr(wanted, field)
    if wanted.moments is not None:
        one, other = (jax.tree.leaves(vars(each.moments)) for each in (found, wanted))
        for a, b in zip(one, other, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-5)


def same_leaves(found, wanted):
    """Assert that two trees have equal leaves."""
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
        np.testing.assert_array_equal(np.asarray(a), np.asarray(b))


def close(found, wanted, rtol=1e-9):
    """Assert that two trees have equal leaves up to rounding, keys left out.

    A product of many rows may be summed in another order, and sums may have more terms.
    """
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
        if not jnp.issubdtype(jnp.asarray(a).dtype, jax.dtypes.prng_key):
            np.testing.assert_allclose(
                np.asarray(a, float), np.asarray(b, float), rtol=rtol, atol=rtol
            )
