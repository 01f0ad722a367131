"""All experiments by their names, and `python -m ewsg_jax reproduce`: one of them, or all."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.papers import (
    blr_vr,
    bnn,
    convergence,
    covertype,
    gaussian,
    gaussian_mse,
    hmc,
    linear_gaussian,
    lognormal,
    matrix_factorisation,
    misspecified,
    mnist,
    mnist_chains,
    rates,
    regimes,
    theorems,
)
from benchmarks.papers.experiment import Experiment
from benchmarks.papers.figures import require_matplotlib
from benchmarks.papers.running import SCALES, Scale, run, stored, text_of
from benchmarks.papers.sizes import size_of
from ewsg_jax.base.progress import spelled
from ewsg_jax.base.table import aligned
from ewsg_jax.cli.console import Parser
from ewsg_jax.cli.results import Folder

EXPERIMENTS: dict[str, Experiment] = {
    each.name: each
    for each in (
        *gaussian.EXPERIMENTS,
        gaussian_mse.EXPERIMENT,
        convergence.EXPERIMENT,
        linear_gaussian.EXPERIMENT,
        matrix_factorisation.EXPERIMENT,
        *mnist.EXPERIMENTS,
        mnist_chains.EXPERIMENT,
        covertype.EXPERIMENT,
        lognormal.EXPERIMENT,
        rates.EXPERIMENT,
        regimes.EXPERIMENT,
        *hmc.EXPERIMENTS,
        blr_vr.EXPERIMENT,
        misspecified.EXPERIMENT,
        theorems.EXPERIMENT,
        bnn.EXPERIMENT,
    )
}


ALL = "all"
EXAMPLES = """\
  python -m ewsg_jax reproduce gaussian-kl
  python -m ewsg_jax reproduce gaussian-kl --scale full --output results/gaussian-kl
  python -m ewsg_jax reproduce all"""


def main(words: Sequence[str]) -> int:
    """Carry the command out; return 0, or 1 where of all experiments one cannot be made.

    Args:
        words: those after `python -m ewsg_jax reproduce`.

    Raises:
        ConfigError, ImportError, OSError: a configuration, a package or data are not as they must
            be.
    """
    command = Parser(
        prog="ewsg_jax reproduce",
        description="The papers' experiments, made again.",
        examples=EXAMPLES,
    )
    command.add_argument(
        "experiment",
        choices=[*EXPERIMENTS, ALL],
        metavar="ID",
        help="its name, as `ewsg_jax list experiments` has it, or all",
    )
    command.add_argument(
        "--scale",
        choices=SCALES,
        default="quick",
        help="quick (default), or full: up to an hour, at the size that `list experiments` tells",
    )
    command.add_argument(
        "--output",
        type=Path,
        metavar="FOLDER",
        help="where results go (default: results/ID-SCALE), of all in folders",
    )
    chosen = command.parse_args(words)
    if chosen.experiment != ALL:
        name = chosen.experiment
        make(name, chosen.scale, chosen.output or Path("results") / f"{name}-{chosen.scale}")
        return 0
    without = 0
    for name in EXPERIMENTS:
        try:
            make(name, chosen.scale, (chosen.output or Path("results")) / f"{name}-{chosen.scale}")
        except (ImportError, OSError) as error:
            print(f"\n{name}: not made: {error}\n", flush=True)
            without = 1
    return without


def make(name: str, scale: Scale, path: Path) -> None:
    """Run an experiment, or what is left of it, and print what came of it."""
    # Not found missing at the end, when the figure is drawn.
    require_matplotlib("python -m ewsg_jax reproduce")
    result = run(
        EXPERIMENTS[name], text_of(name), scale, Folder(path), lambda text: print(text, flush=True)
    )
    print(in_words(result, path), flush=True)


def in_words(result: dict[str, Any], path: Path) -> str:
    """Return what came of an experiment, in words."""
    lines = [f"\n{result['experiment']}: {result['verdict']} ({result['source']})"]
    for claim in result["claims"]:
        beside = " (beside)" if claim.get("beside") else ""
        lines.append(f"  {claim['verdict']}: {claim['claim']}{beside}\n    {claim['shown']}")
    return "\n".join(
        [
            *lines,
            f"  {result['seconds']:.0f} s, {result['evaluations']:.3g} gradients, in {path}/\n",
        ]
    )


def listed() -> str:
    """Return a line for each experiment: its name and source, the last verdict that is stored and
    how long it took, and at what size it was run.
    """
    rows = []
    for name, experiment in EXPERIMENTS.items():
        found = stored(name)
        took = "not run" if found is None else f"{found['verdict']} ({spelled(found['seconds'])})"
        size = "" if found is None else size_of(name, found["config"], found["scale"])
        rows.append([name, experiment.source, took, size])
    return "\n".join(aligned(rows, left=(0, 1, 2, 3)))
