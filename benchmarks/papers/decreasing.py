"""Steps that fall as a power of the iteration, and runs of one method at several of them at once.

ε_t = (a/t)^p, p = 0.51, in Şimşekli et al. 2016, whose schedule is in a paper that is not at hand:
their supplement asks for Σ ε_t = ∞ and Σ ε_t² < ∞, which powers of t between ½ and 1 have, and with
ε_t = a t^−p SGLD at the a of their Table 1 would never leave its start.
"""

from collections.abc import Sequence
from typing import Any

from benchmarks.papers.annotations import Array
from ewsg_jax import METHODS, Kernel, Posterior, Schedule, module, static
from ewsg_jax.cli.config import MethodConfig

POWER = 0.51


@module
class Decreasing(Schedule):
    """h (1 + t/s)^−p at step t = 0, 1, …; kernels of several h and s make a stack; an s of ∞: a
    constant step.
    """

    function: Any = static(default=None)
    first: Any
    over: Any = 1.0
    power: float = static(default=POWER)

    def __call__(self, step: Array) -> Any:
        return self.first * (1.0 + step / self.over) ** -self.power

    def __repr__(self) -> str:
        return f"Decreasing(first={self.first}, over={self.over}, power={self.power})"


def kernels(
    method: MethodConfig,
    posterior: Posterior,
    firsts: Sequence[float],
    num_rows: int,
    power: float = POWER,
    **more: Any,
) -> list[Kernel]:
    """Return a method's kernels with these first steps.

    pSGLD's first step and damping are read as of the gradient of the sum, the library's are of the
    mean: both are divided by n, which is the same move.

    Args:
        method: its options but the step.
        posterior: what is sampled.
        firsts: first steps, as the paper has them.
        num_rows: n.
        power: p; 0 for constant steps.
        more: options that no configuration can hold.
    """
    options, unit = {**method.options, **more}, 1.0
    if method.name == "psgld":
        unit = 1 / num_rows
        options["damping"] = options["damping"] * unit
    made = []
    for first in firsts:
        step: Any = Decreasing(first=first * unit, power=power) if power else first * unit
        made.append(METHODS[method.name].build(posterior, **{**options, "step_size": step}))
    return made
