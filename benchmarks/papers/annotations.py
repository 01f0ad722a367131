"""Names for annotations, of what flows through a kernel."""

from typing import Any

import jax

Array = jax.Array
Key = jax.Array
"""A typed PRNG key."""
Data = Any
"""A tree of arrays that share their leading axis, the n rows."""
Position = Any
PyTree = Any
