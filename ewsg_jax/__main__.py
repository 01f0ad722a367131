"""The command line: `python -m ewsg_jax --help` says what there is."""

import argparse
import contextlib
import importlib
import sys
import tomllib
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin

import jax

import ewsg_jax
from ewsg_jax import datasets
from ewsg_jax.base import startup
from ewsg_jax.base.table import aligned
from ewsg_jax.cli import check_run, places, plan_data, processes
from ewsg_jax.cli.config import ConfigError, Count, Seed, at_least
from ewsg_jax.cli.console import (
    Console,
    Parser,
    interrupted,
    number,
    refuse,
    warn_in_a_line,
    write_line,
)
from ewsg_jax.cli.plan_data import (
    HELP,
    MODELS,
    PlanArguments,
    arguments_of,
    hints,
    with_config,
)
from ewsg_jax.cli.run import run
from ewsg_jax.datasets._table import SOURCES

REPRODUCE, EXPERIMENTS = "reproduce", "experiments"
OF_MODEL = (
    *("model", "response", "drop", "keep", "categorical", "reference", "group"),
    *("exposure", "missing", "na", "decimal", "encoding"),
    *("prior_scale", "noise_scale", "dispersion", "tolerance", "standardise", "intercept"),
)
"""Options that say what posterior rows have, and how well it is to be known."""
CHECKOUT = Path(ewsg_jax.__file__).resolve().parent.parent
PAPERS_FOLDER = CHECKOUT / "benchmarks" / "papers"
"""The papers' experiments, which are there if the package lies in a checkout."""
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
  python -m ewsg_jax plan rows.csv --model softmax --response kind --output results/kind
  python -m ewsg_jax plan rows.csv --model poisson --group site --missing drop -o results/n""",
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
a .csv or .tsv file (a line of column names, then rows), a .npz file (arrays x of shape (n, d) and y
of shape (n,)), or the name of a data set (see: list data)"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status, which `docs/command_line.md` explains.

    Args:
        arguments: the words after the program's name. Default: those of the process.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    if arguments is None:
        startup.started()
        keep_programs()
        warn_in_a_line()
    # The papers' command has a parser of its own, and other errors of values are its faults.
    chosen = None if words[:1] == [REPRODUCE] else parser().parse_args(words)
    refused = (ImportError, OSError, ConfigError if chosen is None else ValueError)
    try:
        if chosen is None:
            return _papers().main(words[1:])
        return COMMANDS[chosen.command](chosen, words)
    except KeyboardInterrupt:
        return interrupted("what is written is whole, and the same command starts from there")
    except refused as error:
        return refuse(" ".join(words) if chosen is None else getattr(chosen, "config", ""), error)


def keep_programs() -> None:
    """Keep compiled programs in the cache folder for other runs; JAX's own settings come first.

    `JAX_ENABLE_COMPILATION_CACHE=0` keeps none; `JAX_COMPILATION_CACHE_DIR` names another folder.
    """
    if jax.config.values["jax_compilation_cache_dir"]:
        return
    jax.config.update("jax_compilation_cache_dir", str(places.cache_folder() / "programs"))
    # A small program takes longer to compile than to read.
    # Programs that took so many seconds are kept on disk.
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.05)


# What may be asked.


def parser() -> Parser:
    """Return the parser of all commands but `reproduce`, which has its own in a checkout."""
    whole_line = Parser(
        prog="ewsg_jax",
        description="Stochastic-gradient MCMC: plan, run and check, from a terminal.",
        examples=EXAMPLES[""],
    )
    version = f"ewsg_jax {ewsg_jax.__version__}"
    whole_line.add_argument("--version", action="version", version=version)
    commands = whole_line.add_subparsers(required=True, metavar="COMMAND", dest="command")

    plan = _command(commands, "plan", "how to sample the posterior of your rows; and do it")
    plan.add_argument("data", metavar="DATA", help=DATA_HELP)
    _add_options(plan, [*OF_MODEL, "num_chains", "ess", "max_passes", "seconds", "seed"])
    _add_config(plan)
    _add_output(plan, "the plan alone is made, and nothing is written")

    check = _command(commands, "check", "whether draws that were written can be believed")
    about = "a folder that run or plan --output wrote; or a file that samples.save wrote, with "
    check.add_argument("folder", type=Path, metavar="RUN", help=f"{about}--data and --model")
    about = "of a folder, this run alone (default: all)"
    check.add_argument("--run", metavar="NAME", dest="label", help=about)
    about = "draws that are used (default: 4,000, or 16,000 if these cannot decide)"
    most = number(Annotated[int, at_least(64)])
    check.add_argument("--max-draws", type=most, metavar="N", help=about)
    check.add_argument("--data", metavar="DATA", help=f"the rows: {DATA_HELP}")
    _add_options(check, OF_MODEL)
    _add_config(check)

    run = _command(commands, "run", "run the experiment that a TOML file describes")
    about = "a TOML file, such as configs/quickstart.toml"
    run.add_argument("config", type=Path, metavar="CONFIG", help=about)
    _add_output(run, "results/NAME")
    about = "in the place of the file's run.seed"
    run.add_argument("--seed", type=number(Seed), metavar="N", help=about)
    about = "share the chains of each run among N processes: started on this machine, or those of a"
    run.add_argument("--processes", type=number(Count), metavar="N", help=f"{about} cluster's job")

    kinds = _command(commands, "list", "configs, data, methods, models, experiments by name")
    about = f"one of {', '.join(KINDS)} (default: all)"
    kinds.add_argument("kind", nargs="?", choices=KINDS, metavar="KIND", help=about)

    about = "make an experiment of the papers again, in a checkout"
    commands.add_parser(REPRODUCE, add_help=False, help=about)
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
        takes: dict[str, Any] = {"metavar": "NAME"}
        if name == "model":
            takes = {"metavar": "MODEL", "choices": MODELS, "type": _with_underscores}
        elif get_origin(hint) is tuple:
            takes = {"metavar": "NAME", "action": "append"}
        elif get_origin(hint) is Literal:
            takes = {"choices": [choice for choice in get_args(hint) if choice]}
        elif hint is bool:
            takes = {"action": argparse.BooleanOptionalAction}
        elif hint is not str:
            takes = {"metavar": "N", "type": number(hint)}
        command.add_argument(option, dest=name, default=None, help=HELP[name], **takes)


def _with_underscores(name: str) -> str:
    return name.replace("-", "_")


def _add_config(command: Parser) -> None:
    about = "a TOML file whose table [plan] has these options, and priors of weights one by one"
    command.add_argument("--config", type=Path, metavar="FILE", dest="options", help=about)


def _add_output(command: Parser, default: str) -> None:
    about = f"the folder of results (default: {default})"
    command.add_argument("-o", "--output", type=Path, metavar="FOLDER", help=about)


# What there is, by name, with a line each.


def _configs() -> Iterable[tuple[str, str]]:
    """Yield the files for `run`, of this folder and of the checkout, with their titles."""
    folders = {Path("configs").resolve(): Path("configs")}
    folders.setdefault(CHECKOUT / "configs", CHECKOUT / "configs")
    for path in (path for folder in folders.values() for path in sorted(folder.glob("*.toml"))):
        with contextlib.suppress(OSError, ValueError):
            yield str(path), str(tomllib.loads(path.read_text("utf-8")).get("title", ""))


def _data() -> Iterable[tuple[str, str]]:
    """Yield the data sets that have a name, with what they are."""
    for name in datasets.DATASETS:
        yield name, SOURCES[name].title if name in SOURCES else "Breast cancer, by scikit-learn"


def _aligned(rows: Iterable[tuple[str, str]]) -> str:
    return "\n".join(aligned(list(rows) or [("none here", "")], left=(0, 1)))


KINDS: dict[str, Callable[[], str]] = {
    "configs": lambda: _aligned(_configs()),
    "data": lambda: _aligned(_data()),
    "methods": lambda: _aligned((name, method.title) for name, method in ewsg_jax.METHODS.items()),
    "models": lambda: _aligned(MODELS.items()),
    EXPERIMENTS: lambda: _papers().listed(),
}
"""What can be listed, and the lines."""


# What is done.


def _plan(chosen: argparse.Namespace, words: Sequence[str]) -> int:
    return plan_data.plan(_arguments(chosen), chosen.output, Console(chosen.quiet))


def _check(chosen: argparse.Namespace, words: Sequence[str]) -> int:
    has_model = chosen.model is not None or chosen.options is not None
    is_file = not chosen.folder.is_dir()
    if (chosen.data is None) == has_model and (has_model or is_file):
        present, missing = ("--model", "--data") if chosen.data is None else ("--data", "--model")
        raise ConfigError(f"{present} needs {missing} too: both say what a file is a run of")
    arguments = _arguments(chosen) if has_model else None
    of_folder = {"data": chosen.data, "max_draws": chosen.max_draws}
    return check_run.check(
        chosen.folder, arguments, Console(chosen.quiet), chosen.label, **of_folder
    )


def _arguments(chosen: argparse.Namespace) -> PlanArguments:
    """Return the arguments that the options of `plan` or `check` give."""
    table = with_config(chosen.options, {name: getattr(chosen, name, None) for name in hints()})
    if "model" not in table:
        raise ConfigError(f"--model is missing; it is one of {HELP['model']}")
    return arguments_of(table)


def _run(chosen: argparse.Namespace, words: Sequence[str]) -> int:
    output = chosen.output if chosen.output is not None else Path("results") / chosen.config.stem
    if chosen.processes is not None:
        if not processes.is_one_of_several():
            return processes.launch(chosen.processes, words, output / "checkpoints")
        processes.join(chosen.processes)
    return run(chosen.config, output, chosen.seed, Console(chosen.quiet))


def _list(chosen: argparse.Namespace, words: Sequence[str]) -> int:
    if chosen.kind:
        write_line(KINDS[chosen.kind]())
        return 0
    for kind, lines in KINDS.items():
        if kind != EXPERIMENTS or PAPERS_FOLDER.is_dir():
            write_line(f"{kind}:\n{lines()}\n")
    return 0


COMMANDS = {"plan": _plan, "check": _check, "run": _run, "list": _list}
"""What each command does with what was chosen, and all words."""


def _papers() -> Any:
    """Return the module of the papers' command, which lies next to the package in a checkout.

    Raises:
        FileNotFoundError: the package lies alone.
    """
    if not PAPERS_FOLDER.is_dir():
        raise FileNotFoundError(
            "the papers' experiments need a checkout of the repository, with the folder "
            "benchmarks/papers next to the package"
        )
    if sys.path[:1] != [str(CHECKOUT)]:
        # Before the working directory, which may have a folder `benchmarks` too.
        sys.path.insert(0, str(CHECKOUT))
    return importlib.import_module("benchmarks.papers.command")


if __name__ == "__main__":
    sys.exit(main())
