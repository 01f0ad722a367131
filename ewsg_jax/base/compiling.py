"""How much XLA optimises: a small program takes longer to compile than most people ever run it.

Measured on two cores of a CPU: loops of steps that take 0.02 to 2 ms compile in 0.4 to 0.7 s at
LLVM's first level, for 0.7 to 1.6 s at its last one (jaxlib 0.10 and 0.12), and a step takes 0.7 to
1.25 times as long, most often the same. Steps of hundreds of chains or of a network take 1.1 to 1.3
times as long: a long run of such loses more than it saved.
"""

import contextlib
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Self

import jax
import numpy as np
from jaxlib.version import __version__ as version

from ewsg_jax.base import freshness

Options = dict[str, bool | int | str]

UNOPTIMISED: Options = {"xla_backend_optimization_level": 0}
"""For small programs that are run once. A step takes six times as long."""
LOOP: Options = {"xla_backend_optimization_level": 1}
"""For loops of small steps, or of few."""
QUICK: Options = LOOP | ({"xla_cpu_use_fusion_emitters": False} if version[:5] == "0.10." else {})
"""For small programs that are run often. jaxlib 0.10 has a second way to write fused loops, which
run up to four times as long; a version that has not raises an error.
"""

_THREAD = ThreadPoolExecutor(1, thread_name_prefix="ewsg_jax_compiles")
"""One thread compiles while the main one works: XLA frees Python's lock, and has threads itself."""


class Ahead:
    """Programs that a thread compiles while the host does other work.

    JAX finds such a program when it is called with arguments of the same shapes. Errors are left to
    that call, which raises them in the caller's frame.
    """

    def __init__(self) -> None:
        self._pending: dict[str, tuple[Future[None], Callable[[], None]]] = {}

    def add(self, name: str, work: Callable[[], object]) -> None:
        """Begin under a name: `work` calls `program.lower(…).compile()`, or programs themselves."""
        as_of, x64 = freshness.now(), bool(jax.config.read("jax_enable_x64"))

        def done() -> None:
            # These are the settings of one thread, on which programs depend.
            with (
                contextlib.suppress(Exception),
                np.errstate(all="ignore"),
                freshness.as_of(as_of),
                jax.enable_x64(x64),
            ):
                work()

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
