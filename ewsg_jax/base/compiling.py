"""How much XLA optimises: a small program takes longer to compile than most people ever run it.

Measured on two cores of a CPU: loops of steps that take 0.02 to 2 ms compile in 0.4 to 0.7 s at
LLVM's first level, for 0.7 to 1.6 s at its last one (jaxlib 0.10 and 0.12), and a step takes 0.7 to
1.25 times as long, most often the same. Steps of hundreds of chains or of a network take 1.1 to 1.3
times as long: a long run of such loses more than it saved.
"""

import contextlib
import contextvars
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Self

import jax
import numpy as np
from jaxlib.version import __version__ as version

from ewsg_jax.base.interrupts import answered_after

Options = dict[str, bool | int | str]

LOOP: Options = {"xla_backend_optimization_level": 1}
"""For loops of small steps, or of few."""
_SMALL: Options = {}
# Later versions know one way to write fused loops, and raise an error.
if version[:5] == "0.10.":
    # The other way takes half the work, and loops may run four times as long; cut into a part for
    # each thread, a small program takes a fifth more.
    _SMALL["xla_cpu_use_fusion_emitters"] = False
    _SMALL["xla_cpu_parallel_codegen_split_count"] = 1
QUICK: Options = LOOP | _SMALL
"""For small programs that are run often."""
UNOPTIMISED: Options = _SMALL | {"xla_backend_optimization_level": 0}
"""For small programs that are run once. A step takes six times as long."""

_THREAD = ThreadPoolExecutor(1, thread_name_prefix="ewsg_jax_compiles")
"""One thread compiles while the main one works: XLA frees Python's lock, and has threads itself."""


_LOWERED: contextvars.ContextVar[list[Any] | None] = contextvars.ContextVar("lowered", default=None)
"""The programs that the work of `Ahead.add` would run; None outside of it."""


def run(program: Any, *arguments: Any, **named: Any) -> Any:
    """Return what a jitted program returns; in the work of `Ahead.add` it is traced alone, and
    returns zeros.
    """
    lowered = _LOWERED.get()
    if lowered is None:
        return program(*arguments, **named)
    lowered.append(program.lower(*arguments, **named))
    return jax.tree.map(lambda x: np.zeros(x.shape, x.dtype), lowered[-1].out_info)


class Ahead:
    """Programs that a thread compiles while the host does other work.

    They are traced in the caller's thread. What a user's functions read may belong to a thread
    (`threading.local`, a `ContextVar`), or to the whole process (NumPyro's stack of handlers, which
    two traces at a time would mix up).

    JAX finds such a program when it is called with arguments of the same shapes. Errors are left to
    that call, which raises them in the caller's frame.
    """

    def __init__(self) -> None:
        self._pending: dict[str, tuple[Future[None], Callable[[], None]]] = {}

    def add(self, name: str, work: Callable[[], object]) -> None:
        """Begin under a name to compile all that `work` runs by `run`; it returns soon, and what
        it makes of zeros is not used.
        """
        programs: list[Any] = []
        before = _LOWERED.set(programs)
        with answered_after():
            try:
                with contextlib.suppress(Exception), np.errstate(all="ignore"):
                    work()
            finally:
                _LOWERED.reset(before)

        def done() -> None:
            with contextlib.suppress(Exception):
                for program in programs:
                    program.compile()

        self._pending[name] = _THREAD.submit(done), done

    def wait(self, name: str, meanwhile: Iterable[str] = ()) -> None:
        """Wait for the work of this name: to call its program now would compile it twice.

        Args:
            name: what the work was added as.
            meanwhile: names that will be waited for next: the calling thread does their work if it
                has not started.
        """
        if name not in self._pending:
            return
        pending, _ = self._pending.pop(name)
        if pending.cancel():
            return
        for other in meanwhile:
            if other in self._pending and not pending.done():
                not_started, work = self._pending[other]
                if not_started.cancel():
                    del self._pending[other]
                    work()
        pending.result()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Leave out all that has not started."""
        for pending in self._pending.values():
            pending[0].cancel()


@contextlib.contextmanager
def in_float64() -> Iterator[None]:
    """Compute in float64, in a `with` block. A function of a user may have float32 constants,
    which are promoted here whatever the user has set.
    """
    with jax.enable_x64(True), jax.numpy_dtype_promotion("standard"):
        yield
