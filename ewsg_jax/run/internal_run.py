"""A run that another call of the library makes for itself."""

import warnings
from typing import Any

from ewsg_jax.base.typing import Data, Key, P
from ewsg_jax.kernels.protocol import Kernel
from ewsg_jax.run.sample import sample
from ewsg_jax.run.samples import Samples


def inner_run(
    key: Key, kernel: Kernel, start: Any, data: Data, num_steps: int, **options: Any
) -> Samples:
    """Return a run of `sample`, without a word: of chains that diverge its caller makes its own.

    Data that the caller has checked are not checked again.

    Raises:
        KeyboardInterrupt: it was interrupted, as its caller is then.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        samples = sample(
            key, kernel, start, data, num_steps, progress=False, check_data=False, **options
        )
    return whole(samples)


def whole(samples: Samples[P]) -> Samples[P]:
    """Return a run that a call of the library made for itself.

    Raises:
        KeyboardInterrupt: it was interrupted, as its caller is then.
    """
    if samples.interrupted:
        raise KeyboardInterrupt("a run was interrupted, or failed")
    return samples
