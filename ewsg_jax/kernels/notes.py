"""What whoever made a kernel doubts about it, as a note on the object: no part of its value.

Equality, hash and text of a kernel leave the note out, and so do the programs that JAX compiles of
it: a kernel with a note shares all programs with the same kernel without one. What JAX makes of a
kernel, such as a stack, has no note; a copy and a pickled kernel have it.
"""

import copy
from collections.abc import Iterable
from typing import Any, TypeVar

from ewsg_jax.kernels.protocol import Kernel

K = TypeVar("K", bound=Kernel)
_NOTE = "_findings"


def with_findings(kernel: K, findings: Iterable[Any]) -> K:
    """Return the kernel with findings noted on it, records as of `model_checks`."""
    noted = copy.copy(kernel)
    # Not a field: what JAX takes a kernel apart into holds the fields alone.
    vars(noted)[_NOTE] = tuple(findings)
    return noted


def findings_of(kernel: object) -> tuple[Any, ...]:
    """Return the findings that are noted on a kernel; none on anything else."""
    return getattr(kernel, _NOTE, ())
