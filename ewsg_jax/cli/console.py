"""What a command writes on a terminal: its report, what is under way, and its exit status.

The report is for standard output, and everything else for standard error, so that a report may be
piped into a file.
"""

import argparse
import contextlib
import enum
import os
import re
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

from ewsg_jax.base.progress import Clock
from ewsg_jax.cli.config import ConfigError, value_of


class Exit(enum.IntEnum):
    """The exit status of a command."""

    OK = 0
    FAILED = 1
    USAGE_ERROR = 2
    LOST = 3
    DOUBTFUL = 4
    WRONG = 5
    INTERRUPTED = 130


EXIT_STATUS = {
    Exit.OK: "done; of plan and check: trusted, and right within tolerance",
    Exit.FAILED: "of `reproduce all`: an experiment could not be made, for data are not there",
    Exit.USAGE_ERROR: "a wrong argument, configuration or file, or a package that is missing",
    Exit.LOST: "one of several processes ended early",
    Exit.DOUBTFUL: "of plan: not trusted; of plan and check: too few draws to decide",
    Exit.WRONG: "of plan and check: the draws are wrong beyond Monte Carlo error",
    Exit.INTERRUPTED: "interrupted (Ctrl-C); the draws so far are written, and the same command "
    "resumes",
}
"""What each exit status says."""
STATUS_OF = {"right": Exit.OK, "unsure": Exit.DOUBTFUL, "wrong": Exit.WRONG}
"""The exit status of an outcome of `ewsg_jax.check`."""


class Console:
    """The two streams that a command writes to.

    Attributes:
        is_quiet: whether the answer is all that is wanted: no report and no progress.
        said: the report so far, for `report.txt`.
    """

    def __init__(self, quiet: bool = False) -> None:
        self.is_quiet = quiet
        self.said: list[str] = []

    @property
    def shows_progress(self) -> bool:
        """Whether progress is shown on standard error."""
        return not self.is_quiet and sys.stderr.isatty()

    def say(self, text: str) -> None:
        """Print a part of the report, unless this is quiet."""
        self.said.append(text)
        if not self.is_quiet:
            write_line(text)

    def answer(self, text: str) -> None:
        """Print a part of the answer, even if this is quiet."""
        self.said.append(text)
        write_line(text)

    @contextlib.contextmanager
    def under_way(self, what: str) -> Iterator[None]:
        """Show on standard error what takes long, and for how many seconds it has."""
        with Clock(self.shows_progress) as clock:
            clock.says(what)
            yield

    def stage(self, what: str) -> None:
        """Show on standard error what comes next."""
        if self.shows_progress:
            print(what, file=sys.stderr, flush=True)


def write_line(text: str) -> None:
    """Print on standard output, whether anybody still reads it or not."""
    # A terminal of few letters has ? in the place of others.
    code = getattr(sys.stdout, "encoding", None) or "utf-8"
    try:
        print(text.encode(code, "replace").decode(code), flush=True)
    except BrokenPipeError:
        # Whoever read it, such as `head`, has seen enough; a run is made and written all the same.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def refuse(what: object, error: Exception) -> int:
    """Say in one line what is wrong, and return the exit status.

    `what` begins the line; it is empty if the error itself names what is wrong.
    """
    # Several things that are wrong with a file have a line each.
    line = "\n  ".join(" ".join(part.split()) for part in str(error).split("\n  "))
    if isinstance(error, OSError) and error.strerror and error.filename is not None:
        what, line = error.filename, error.strerror
    print(f"ewsg_jax: error: {f'{what}: ' if what else ''}{line}", file=sys.stderr)
    return Exit.USAGE_ERROR


def interrupted(what: str) -> int:
    """Say in one line what an interrupt ended, and return the exit status."""
    print(f"\newsg_jax: interrupted: {what}", file=sys.stderr)
    return Exit.INTERRUPTED


def warn_in_a_line() -> None:
    """Have every warning of this process printed as one line, without the place in the code."""

    def line(message: Any, *_: Any) -> str:
        return f"ewsg_jax: warning: {' '.join(str(message).split())}\n"

    warnings.formatwarning = line


# Arguments.


class Parser(argparse.ArgumentParser):
    """A parser that answers a wrong argument in one line, and whose help ends with examples."""

    def __init__(self, *arguments: Any, examples: str = "", **options: Any) -> None:
        if examples:
            options["epilog"] = f"examples:\n{examples}\n\n{exit_status()}"
        options.setdefault("formatter_class", argparse.RawDescriptionHelpFormatter)
        super().__init__(*arguments, **options)

    def error(self, message: str) -> NoReturn:
        """Print the line, and end with the exit status of a wrong argument."""
        print(f"{self.prog}: error: {message} (see {self.prog} --help)", file=sys.stderr)
        raise SystemExit(Exit.USAGE_ERROR)


def exit_status() -> str:
    """Return what each exit status says, for a help text."""
    lines = [f"  {status:>3}  {words}" for status, words in EXIT_STATUS.items()]
    return "\n".join(["exit status:", *lines])


def number(hint: Any) -> Callable[[str], float]:
    """Return what reads a number that an annotation of a configuration allows."""

    def read(text: str) -> float:
        try:
            value = int(text) if re.fullmatch("[+-]?[0-9]+", text.strip()) else float(text)
            return value_of(hint, value, "")
        except ConfigError as error:
            raise argparse.ArgumentTypeError(str(error).strip()) from None
        except ValueError:
            raise argparse.ArgumentTypeError(f"must be a number; got {text!r}") from None

    return read
