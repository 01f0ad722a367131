"""A budget in passes over the data, turned into steps."""

import math
import numbers

from ewsg_jax import _check
from ewsg_jax._kernel import Kernel
from ewsg_jax._types import Data
from ewsg_jax.posterior import num_rows


def steps_within(kernel: Kernel, data: Data, data_passes: float) -> int:
    """Return the largest number of steps whose evaluations, `init` included, stay within so many passes.

    Args:
        kernel: the kernel.
        data: the data.
        data_passes: n evaluations of some ∇Vᵢ each; one chain's.

    Raises:
        TypeError, ValueError: `data_passes` is not a finite number.
    """
    if isinstance(data_passes, bool) or not isinstance(data_passes, numbers.Real):
        raise TypeError(f"data_passes must be a positive number; got {_check.describe(data_passes)}")
    if not math.isfinite(data_passes):
        raise ValueError(f"data_passes must be a positive number; got {data_passes}")
    cost = kernel.evaluations(data)
    # A budget that is a whole number of steps must not lose one to rounding.
    return math.floor((float(data_passes) * num_rows(data) - cost.at_init) / cost.per_step + 1e-9)
