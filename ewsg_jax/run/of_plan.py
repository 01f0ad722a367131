"""A plan in the place of the arguments of `sample` that it settles."""

import functools
import numbers
from collections.abc import Callable, Mapping
from typing import Any, Generic, Protocol, runtime_checkable

from ewsg_jax.base import checks
from ewsg_jax.base.typing import Key, P, Position
from ewsg_jax.kernels.protocol import Kernel

PLACES = ("key", "plan", "data", "num_steps")
"""The arguments that `sample` takes by their places if one of them is a plan."""
FULL_PLACES = ("key", "kernel", "position", "data")
"""Those that it takes if none is."""


@runtime_checkable
class SamplePlan(Protocol, Generic[P]):
    """What `sample` takes for a plan: `ewsg_jax.plan` returns one."""

    @property
    def kernel(self) -> Kernel[P]:
        """The kernel to run."""
        ...

    @property
    def start(self) -> Callable[[Key], Position]:
        """The start of a chain, a function of a key."""
        ...

    def sample_options(self) -> Mapping[str, Any]:
        """Return the other arguments of `sample` that carry the plan out, by their names."""
        ...


def takes_plan(sample: Callable[..., Any]) -> Any:
    """Make `sample` take a plan in the place of its kernel and its position."""

    @functools.wraps(sample)
    def called(*arguments: Any, **named: Any) -> Any:
        first = arguments[1] if len(arguments) > 1 else named.get("plan", named.get("kernel"))
        if not isinstance(first, Kernel) and isinstance(first, SamplePlan):
            return sample(**arguments_of(first, arguments, named))
        if named.get("batches") is not None and len(arguments) < len(FULL_PLACES):
            named.setdefault("data", None)
        if not {"position", "data"} <= {*named, *FULL_PLACES[: len(arguments)]}:
            raise TypeError(
                "data must follow a kernel and a position, sample(key, kernel, position, data), or "
                "a plan, sample(key, plan, data) with what ewsg_jax.plan returned; got sample("
                f"{_shown(arguments, named)})"
            )
        return sample(*arguments, **named)

    return called  # overloads say what it takes


def arguments_of(
    plan: SamplePlan, arguments: tuple[Any, ...], named: Mapping[str, Any]
) -> dict[str, Any]:
    """Return all arguments of `sample` by their names: those of a plan, and those given, which win.

    Args:
        plan: the plan.
        arguments: what was given by places.
        named: what was given by names.

    Raises:
        TypeError: an argument stands in a wrong place, or there are no data.
    """
    by_name = dict(zip(PLACES, arguments, strict=False))
    others = {name: value for name, value in named.items() if value is not plan}
    is_count = isinstance(by_name.get("num_steps", 0), numbers.Real | None)
    is_misplaced = len(arguments) > len(PLACES) or by_name.keys() & others.keys() or not is_count
    if is_misplaced or "data" not in {**by_name, **others}:
        raise TypeError(
            "data must follow the plan, sample(key, plan, data): a plan holds the kernel and the "
            "starts, and others are given by name, kernel=… and position=…; got sample("
            f"{_shown(arguments, others)})"
        )
    by_name.pop("plan", None)
    by_name |= others
    settled = {"kernel": plan.kernel, "position": plan.start, **plan.sample_options()}
    if by_name.get("num_steps") is not None:
        settled.pop("data_passes", None)
    if by_name.get("state") is not None:
        # A run that continues has its chains, and has burnt in.
        settled |= {"position": None, "burn_in": 0}
    if by_name.get("state") is not None or by_name.get("stacked"):
        settled.pop("num_chains", None)
    return settled | by_name


def _shown(arguments: tuple[Any, ...], named: Mapping[str, Any]) -> str:
    """Return the arguments of a call in words, of which the first is a key."""
    by_place = ["key" for _ in arguments[:1]] + [checks.describe(one) for one in arguments[1:]]
    return ", ".join([*by_place, *(f"{name}=…" for name in named)])
