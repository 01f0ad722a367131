"""The command line: `python -m ewsg_jax --help` says what there is."""

import argparse
import contextlib
import importlib
import os
import sys
import tomllib
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any

import jax

import ewsg_jax
from ewsg_jax import datasets, starting
from ewsg_jax.datasets.table import SOURCES
from ewsg_jax.experiments import judged, planned, processes
from ewsg_jax.experiments.config import ConfigError, Seed, at_least, at_most
from ewsg_jax.experiments.console import (
    Console,
    Parser,
    interrupted,
    number,
    put,
    refuse,
    warn_in_a_line,
)
from ewsg_jax.experiments.planned import HELP, MODELS, Asked, asked_of, hints
from ewsg_jax.experiments.results import aligned
from ewsg_jax.experiments.run import run

Named = Iterable[tuple[str, str]]
REPRODUCE, EXPERIMENTS = "reproduce", "experiments"
MOST_PROCESSES, MOST_DRAWS = 10_000, 10_000_000
OF_MODEL = (
    *("model", "response", "drop", "prior_scale", "noise_scale", "tolerance"),
    *("standardise", "intercept"),
)
"""Options that say what posterior rows have, and how well it is to be known."""
CHECKOUT = Path(ewsg_jax.__file__).resolve().parent.parent / "benchmarks" / "papers"
"""The papers' experiments, in a checkout."""
LEAST_SECONDS = 0.05
"""How long a program took to compile that is kept."""
EXAMPLES = {
    "": """\
  python -m ewsg_jax plan breast_cancer --model logistic
  python -m ewsg_jax plan breast_cancer --model logistic --output results/cancer
  python -m ewsg_jax check results/cancer
  python -m ewsg_jax run configs/quickstart.toml
  python -m ewsg_jax list
  python -m ewsg_jax plan --help""",
    "plan": """\
  python -m ewsg_jax plan breast_cancer --model logistic
  python -m ewsg_jax plan rows.csv --model logistic --response died --drop id
  python -m ewsg_jax plan rows.npz --model linear --prior-scale 2 --no-intercept
  python -m ewsg_jax plan rows.csv --model softmax --response kind --output results/kind""",
    "check": """\
  python -m ewsg_jax check results/quickstart
  python -m ewsg_jax check results/quickstart --run ewsg --quiet
  python -m ewsg_jax check run.npz --data rows.csv --model linear --no-standardise""",
    "run": """\
  python -m ewsg_jax run configs/quickstart.toml
  python -m ewsg_jax run configs/quickstart.toml --output results/other --seed 1
  python -m ewsg_jax run configs/quickstart.toml --processes 2""",
    "list": """\
  python -m ewsg_jax list
  python -m ewsg_jax list methods""",
}
DATA_HELP = """\
a .csv file (a line of column names, then rows of numbers), a .npz file (arrays x of shape (n, d)
and y of shape (n,)), or the name of a data set (see: list data)"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status, which `docs/command_line.md` explains.

    Args:
        arguments: the words after the program's name. Default: those of the process.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    if arguments is None:
        starting.started()
        keep_programs()
        warn_in_a_line()
    # The papers' command has a parser of its own.
    chosen = None if words[:1] == [REPRODUCE] else parser().parse_args(words)
    try:
        if chosen is None:
            return _papers().main(words[1:])
        return COMMANDS[chosen.command](chosen, words)
    except KeyboardInterrupt:
        return interrupted("what is written is whole, and the same command starts from there")
    except (ImportError, OSError, ConfigError) as error:
        return refuse(" ".join(words) if chosen is None else getattr(chosen, "config", ""), error)


def keep_programs() -> None:
    """Keep compiled programs in the cache folder for other runs; JAX's own settings come first.

    `JAX_ENABLE_COMPILATION_CACHE=0` keeps none; `JAX_COMPILATION_CACHE_DIR` names another folder.
    """
    if jax.config.values["jax_compilation_cache_dir"]:
        return
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    jax.config.update("jax_compilation_cache_dir", str(folder / "ewsg_jax" / "programs"))
    # A small program takes longer to compile than to read.
    jax.config.update("jax_persistent_cache_min_compile_time_secs", LEAST_SECONDS)


# What may be asked.


def parser() -> Parser:
    """Return the parser of all commands but `reproduce`, which has its own in a checkout."""
    whole_line = Parser(
        prog="ewsg_jax",
        description="Stochastic-gradient MCMC: plan, run and check, from a terminal.",
        examples=EXAMPLES[""],
    )
    whole_line.add_argument(
        "--version", action="version", version=f"ewsg_jax {ewsg_jax.__version__}"
    )
    commands = whole_line.add_subparsers(required=True, metavar="COMMAND", dest="command")
    _add_plan(_command(commands, "plan", "how to sample the posterior of your rows; and do it"))
    _add_check(_command(commands, "check", "whether draws that were written can be believed"))
    _add_run(_command(commands, "run", "run the experiment that a TOML file describes"))
    _add_list(_command(commands, "list", "configs, data, methods, models, experiments by name"))
    commands.add_parser(
        REPRODUCE, add_help=False, help="make an experiment of the papers again, in a checkout"
    )
    return whole_line


def _command(commands: argparse._SubParsersAction, name: str, about: str) -> Parser:
    command = commands.add_parser(
        name, help=about, description=f"{about[0].upper()}{about[1:]}.", examples=EXAMPLES[name]
    )
    if name != "list":
        quiet = "print the answer alone: no report, no progress"
        command.add_argument("-q", "--quiet", action="store_true", help=quiet)
    return command


def _add_options(command: Parser, names: Sequence[str]) -> None:
    """Add options that are keys of `[plan]`, and take what these take."""
    for name in names:
        hint, option = hints()[name], f"--{name.replace('_', '-').removeprefix('num-')}"
        given: dict[str, Any] = {"metavar": "NAME"}
        if name == "model":
            given = {"metavar": "MODEL", "choices": MODELS}
        elif name == "drop":
            given = {"metavar": "NAME", "action": "append"}
        elif hint is bool:
            given = {"action": argparse.BooleanOptionalAction}
        elif hint is not str:
            given = {"metavar": "N", "type": number(hint)}
        command.add_argument(option, dest=name, default=None, help=HELP[name], **given)


def _add_output(command: Parser, default: str) -> None:
    about = f"where results go (default: {default})"
    command.add_argument("-o", "--output", type=Path, metavar="FOLDER", help=about)


def _add_plan(command: Parser) -> None:
    command.add_argument("data", metavar="DATA", help=DATA_HELP)
    _add_options(command, [*OF_MODEL, "num_chains", "ess", "max_passes", "seed"])
    _add_output(command, "the plan alone is made, and nothing is written")


def _add_check(command: Parser) -> None:
    command.add_argument(
        "folder",
        type=Path,
        metavar="RUN",
        help="a folder that run or plan --output wrote; or a file that samples.save wrote, with "
        "--data and --model",
    )
    command.add_argument(
        "--run", metavar="NAME", dest="label", help="of a folder, this run alone (default: all)"
    )
    command.add_argument(
        "--max-draws",
        type=number(Annotated[int, at_least(8), at_most(MOST_DRAWS)]),
        metavar="N",
        help="draws that are used (default: 4,000, or 16,000 where these cannot decide)",
    )
    command.add_argument("--data", metavar="DATA", help=f"of a file: its rows, {DATA_HELP}")
    _add_options(command, OF_MODEL)


def _add_run(command: Parser) -> None:
    command.add_argument(
        "config", type=Path, metavar="CONFIG", help="a TOML file, such as configs/quickstart.toml"
    )
    _add_output(command, "results/NAME")
    about = "in the place of the file's run.seed"
    command.add_argument("--seed", type=number(Seed), metavar="N", help=about)
    command.add_argument(
        "--processes",
        type=number(Annotated[int, at_least(1), at_most(MOST_PROCESSES)]),
        metavar="N",
        help="share the chains of each run among N processes: started on this machine, or those "
        "of a cluster's job",
    )


def _add_list(command: Parser) -> None:
    kinds = [*KINDS, EXPERIMENTS]
    about = f"one of {', '.join(kinds)} (default: all)"
    command.add_argument("kind", nargs="?", choices=kinds, metavar="KIND", help=about)


# What there is, by name, with a line each.


def _configs() -> Named:
    """Yield the files for `run`, of this folder and of the checkout, with their titles."""
    folders = [Path("configs"), Path(ewsg_jax.__file__).resolve().parent.parent / "configs"]
    seen: set[Path] = set()
    for path in (path for folder in folders for path in sorted(folder.glob("*.toml"))):
        if path.resolve() not in seen:
            seen.add(path.resolve())
            with contextlib.suppress(OSError, ValueError):
                yield str(path), str(tomllib.loads(path.read_text("utf-8")).get("title", ""))


def _methods() -> Named:
    """Yield the named methods."""
    for name, method in ewsg_jax.METHODS.items():
        yield name, method.title


def _data() -> Named:
    """Yield the data sets that have a name, with what they are."""
    for name in datasets.DATASETS:
        about = (
            SOURCES[name].title if name in SOURCES else "Breast cancer, which scikit-learn brings"
        )
        yield name, about


KINDS: dict[str, Callable[[], Named]] = {
    "configs": _configs,
    "data": _data,
    "methods": _methods,
    "models": MODELS.items,
}
"""What can be listed, beside the papers' experiments, and what yields names with a line each."""


def _lines(kind: str) -> str:
    """Return the names of a kind, a line each."""
    rows = list(KINDS[kind]()) or [("none here", "")]
    return "\n".join(aligned(rows, num_left=2))


# What is done.


def _plan(chosen: argparse.Namespace, words: Sequence[str]) -> int:
    return planned.plan(_asked(chosen), chosen.output, Console(chosen.quiet))


def _check(chosen: argparse.Namespace, words: Sequence[str]) -> int:
    if (chosen.data is None) != (chosen.model is None):
        given, missing = ("--model", "--data") if chosen.data is None else ("--data", "--model")
        raise ConfigError(f"{given} needs {missing} beside it: both say what a file is a run of")
    asked = None if chosen.data is None else _asked(chosen)
    return judged.check(chosen.folder, asked, Console(chosen.quiet), chosen.label, chosen.max_draws)


def _asked(chosen: argparse.Namespace) -> Asked:
    """Return what is asked for by the options of `plan` or `check`."""
    if chosen.model is None:
        raise ConfigError(f"--model is missing; it is one of {HELP['model']}")
    return asked_of({name: getattr(chosen, name, None) for name in hints()})


def _run(chosen: argparse.Namespace, words: Sequence[str]) -> int:
    output = chosen.output if chosen.output is not None else Path("results") / chosen.config.stem
    if chosen.processes is not None:
        if not processes.began_elsewhere():
            return processes.launch(chosen.processes, words, output / "checkpoints")
        processes.join(chosen.processes)
    return run(chosen.config, output, chosen.seed, Console(chosen.quiet))


def _list(chosen: argparse.Namespace, words: Sequence[str]) -> int:
    kinds = [chosen.kind] if chosen.kind else [*KINDS, *[EXPERIMENTS] * CHECKOUT.is_dir()]
    for kind in kinds:
        lines = _papers().listed() if kind == EXPERIMENTS else _lines(kind)
        put(lines if chosen.kind else f"{kind}:\n{lines}\n")
    return 0


COMMANDS = {"plan": _plan, "check": _check, "run": _run, "list": _list}
"""What each command does, whose arguments are what was chosen and all words."""


def _papers() -> Any:
    """Return the module of the papers' command, which lies beside the package in a checkout.

    Raises:
        FileNotFoundError: the package lies alone.
    """
    if not CHECKOUT.is_dir():
        raise FileNotFoundError(
            "the papers' experiments need a checkout of the repository, with the folder "
            "benchmarks/papers beside the package"
        )
    root = str(CHECKOUT.parent.parent)
    if sys.path[:1] != [root]:
        # Before the working directory, which may have a folder `benchmarks` too.
        sys.path.insert(0, root)
    return importlib.import_module("benchmarks.papers.command")


if __name__ == "__main__":
    sys.exit(main())
