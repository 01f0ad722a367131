"""An interrupt while the command line is being imported ends it, as any program, without a
traceback.

The imports take a second or two. An exception there would come from within whatever is imported
just then, some of it compiled code that makes another error of it.
"""

import signal
import sys
from pathlib import PurePath


def is_command() -> bool:
    """Return whether this process is the command line, not a program that imports the library."""
    # While `python -m` looks for its module, that is its name.
    by_module = sys.argv[:1] == ["-m"] and "ewsg_jax" in sys.orig_argv
    return by_module or (bool(sys.argv) and PurePath(sys.argv[0]).stem == "ewsg_jax")


def until_started() -> None:
    """Let an interrupt end the process at once, if this is the command line."""
    # A program that was started in the background may ignore interrupts: it still does.
    if is_command() and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)


def started() -> None:
    """Make interrupts exceptions again, which a command answers."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)


until_started()
