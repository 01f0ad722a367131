"""Parts of a kernel with some of their functions replaced, for tests that look inside."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

from ewsg_jax.base.modules import module
from ewsg_jax.gradients._index_chain import ChainDraw
from ewsg_jax.gradients._svrg import SVRGDraw
from ewsg_jax.rows import Batch


def as_drawn(randomness):
    """What an estimator draws of row numbers (signed integers), in SVRG's or an index chain's."""
    if isinstance(randomness, SVRGDraw):
        return randomness._replace(batch=as_drawn(randomness.batch))
    if isinstance(randomness, ChainDraw):
        return randomness._replace(batches=as_drawn(randomness.batches))
    is_array = isinstance(randomness, np.ndarray | jax.Array)
    return (
        Batch(randomness)
        if is_array and jnp.issubdtype(randomness.dtype, jnp.signedinteger)
        else randomness
    )


def altered(part, **replacements):
    """The part with functions (without `self`) for methods, values for properties."""

    def as_member(value):
        return (
            (lambda self, *a, **k: value(*a, **k))
            if callable(value)
            else property(lambda self: value)
        )

    members = {name: as_member(value) for name, value in replacements.items()}
    cls = module(
        type(f"Altered{type(part).__name__}", (type(part),), members | {"__annotations__": {}})
    )
    return cls(**{field.name: getattr(part, field.name) for field in dataclasses.fields(part)})


def no_probe(position):
    """The gradient at another point, of a step that asks for none."""
    raise AssertionError("the gradient is wanted at one point only")
