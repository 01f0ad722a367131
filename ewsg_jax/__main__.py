"""The command line: `python -m ewsg_jax run configs/quickstart.toml`, `python -m ewsg_jax reproduce
--list`.
"""

import argparse
import functools
import importlib
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path

import jax

import ewsg_jax
from ewsg_jax.experiments import processes
from ewsg_jax.experiments.config import MOST_SEED, ConfigError
from ewsg_jax.experiments.run import run

REPRODUCE = "reproduce"
USAGE_ERROR = 2
INTERRUPTED = 130
MOST_PROCESSES = 10_000
LEAST_SECONDS = 0.05
"""How long a program took to compile that is kept."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status.

    It is 0, 2 for what cannot be run, 3 where one of several processes was lost, and 130 after an
    interrupt.

    Args:
        arguments: the words after the program's name. Default: those of the process.
    """
    parser = argparse.ArgumentParser(
        prog="ewsg_jax", description="Stochastic-gradient MCMC experiments."
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND", dest="command")
    command = commands.add_parser("run", help="run the experiment that a TOML file describes")
    command.add_argument(
        "config", type=Path, metavar="CONFIG", help="a TOML file, such as configs/quickstart.toml"
    )
    command.add_argument(
        "--output", type=Path, metavar="FOLDER", help="where results go (default: results/NAME)"
    )
    seed = functools.partial(_whole, 0, MOST_SEED)
    command.add_argument("--seed", type=seed, metavar="N", help="replaces the file's run.seed")
    command.add_argument(
        "--processes",
        type=functools.partial(_whole, 1, MOST_PROCESSES),
        metavar="N",
        help="share the chains of each run among N processes: started on this machine, or those "
        "of a cluster's job",
    )
    # It has a parser of its own, which is not in the package.
    commands.add_parser(
        REPRODUCE, add_help=False, help="make an experiment of the papers again, in a checkout"
    )
    words = list(sys.argv[1:] if arguments is None else arguments)
    if arguments is None:
        keep_programs()
    try:
        return (
            _reproduce(words[1:])
            if words[:1] == [REPRODUCE]
            else _run(parser.parse_args(words), words)
        )
    except KeyboardInterrupt:
        return INTERRUPTED


def keep_programs() -> None:
    """Keep compiled programs in the cache folder, where another run finds them; JAX's settings come
    first.

    `JAX_ENABLE_COMPILATION_CACHE=0` keeps none; `JAX_COMPILATION_CACHE_DIR` names another folder.
    """
    if jax.config.values["jax_compilation_cache_dir"]:
        return
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    jax.config.update("jax_compilation_cache_dir", str(folder / "ewsg_jax" / "programs"))
    # A small program takes longer to compile than to read.
    jax.config.update("jax_persistent_cache_min_compile_time_secs", LEAST_SECONDS)


def _reproduce(words: Sequence[str]) -> int:
    """Carry the papers' command out, which lies beside the package in a checkout of the
    repository.
    """
    checkout = Path(ewsg_jax.__file__).resolve().parent.parent
    if not (checkout / "benchmarks" / "papers").is_dir():
        missing = (
            "needs a checkout of the repository, with the folder benchmarks/papers; "
            f"{checkout} is none"
        )
        return _refuse(REPRODUCE, FileNotFoundError(missing))
    if sys.path[:1] != [str(checkout)]:
        # Before the working directory, which may have a folder `benchmarks` too.
        sys.path.insert(0, str(checkout))
    try:
        return importlib.import_module("benchmarks.papers.command").main(words)
    except (ImportError, OSError, ConfigError) as error:
        return _refuse(" ".join([REPRODUCE, *words]), error)


def _run(chosen: argparse.Namespace, words: Sequence[str]) -> int:
    output = chosen.output if chosen.output is not None else Path("results") / chosen.config.stem
    try:
        if chosen.processes is not None:
            if not processes.began_elsewhere():
                return processes.launch(chosen.processes, words, output / "checkpoints")
            processes.join(chosen.processes)
        is_interrupted = run(
            chosen.config, output, chosen.seed, lambda text: print(text, flush=True)
        )
        return INTERRUPTED if is_interrupted else 0
    except (ImportError, OSError, ConfigError) as error:
        return _refuse(chosen.config, error)


def _refuse(config: object, error: Exception) -> int:
    """Say in one line what is wrong."""
    print(f"ewsg_jax: error: {config}: {' '.join(str(error).split())}", file=sys.stderr)
    return USAGE_ERROR


def _whole(least: int, most: int, text: str) -> int:
    """Return the whole number that an argument is."""
    if not re.fullmatch("-?[0-9]+", text) or not least <= int(text) <= most:
        raise argparse.ArgumentTypeError(
            f"must be a whole number from {least} to {most}; got {text!r}"
        )
    return int(text)


if __name__ == "__main__":
    sys.exit(main())
