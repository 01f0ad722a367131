"""From raw data to an answer, and how far off it is: seconds and passes, everything included.

    EWSG_JAX_DATA=… python -m benchmarks.answers [--cases covertype_46] [--answers plan]
    [--references]

Each answer is worked out in a process of its own; importing and loading apart, its seconds hold
everything: finding the mode, planning, warming up, compiling. Answers of other libraries are beside
ours. References are importance sampling for all columns of Covertype, exact for a linear
regression, and for the others two long runs at two step sizes, which must agree (`--references`
makes them, some minutes each). `--draw` makes the page's table and picture.
"""

import argparse
import contextlib
import functools
import importlib.metadata
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from benchmarks import record
from benchmarks.answers import estimated, importance, judged, nuts, ours, sgmcmc
from benchmarks.answers.case import Case, Data, Grouped, Regression
from benchmarks.answers.cases import CASES
from benchmarks.answers.ours import Answer
from benchmarks.timing import load_average, machine

LIMIT = 540.0
PROTOCOL = (
    "Logistic regression (protein: linear, with noise 1 of the standardised response) with the "
    "prior N(0, I) on standardised columns and an intercept, 8 chains. Seconds from the loaded "
    "data to the answer, in a new process that compiles its programs. Errors: the worst mean in "
    "sds of the reference, the worst sd relatively; passes over the data, all chains together. "
    "Peers: 8 chains vectorised, until the worst mean has a bulk ESS of 1,000."
)


class Way(NamedTuple):
    """A way to answers.

    Attributes:
        work: of a case, its data and the seconds there are for a peer.
        needs: a package.
        suits: whether it can answer a case.
    """

    work: Callable[..., dict[str, Answer]]
    needs: str | None = None
    suits: Callable[[Case], bool] = lambda case: True


def _of_regressions(case: Case) -> bool:
    return isinstance(case, Regression)


def _of_models(case: Case) -> bool:
    return not isinstance(case, Regression)


def _numpyro(case: Case, data: Data, limit: float, num_chains: int = 1) -> dict[str, Answer]:
    """NumPyro's NUTS: eight chains of a regression, of a model so many, or estimated of very many
    rows.
    """
    if isinstance(case, Regression):
        return nuts.numpyro_nuts(case, data, limit)
    if isinstance(case, Grouped) and case.pilot is not None:
        return estimated.estimated(case, data, num_chains)
    return nuts.numpyro_as_it_comes(case, data, limit, num_chains)


WAYS = {
    "laplace": Way(ours.laplace, None, _of_regressions),
    "plan": Way(ours.planned),
    "full": Way(ours.full, None, _of_regressions),
    "psis": Way(importance.at_mode, "arviz-stats", _of_regressions),
    "pathfinder": Way(importance.pathfinder, "blackjax", _of_regressions),
    "blackjax_at_mode": Way(nuts.blackjax_nuts_at_mode, "blackjax", _of_regressions),
    "numpyro_at_mode": Way(nuts.numpyro_nuts_at_mode, "numpyro", _of_regressions),
    "hmcecs": Way(nuts.hmcecs, "numpyro", _of_regressions),
    "sgld": Way(sgmcmc.sgld, "blackjax", _of_regressions),
    "sghmc": Way(sgmcmc.sghmc, "blackjax", _of_regressions),
    "blackjax": Way(nuts.blackjax_nuts, "blackjax", _of_regressions),
    "numpyro": Way(_numpyro, "numpyro"),
    "numpyro_four": Way(functools.partial(_numpyro, num_chains=4), "numpyro", _of_models),
}


def missing(answers: Sequence[str]) -> list[str]:
    """Return the packages that these answers need and that are not here."""
    needed = {need for answer in answers if (need := WAYS[answer].needs) is not None}
    return sorted(needed - versions().keys())


def versions() -> dict[str, str]:
    """Return the versions of what is compared, as far as it is installed."""
    found = {}
    for name in ("jax", "jaxlib", "numpy", "numpyro", "blackjax", "arviz-stats"):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[name] = importlib.metadata.version(name)
    return found


def work(case: str, answer: str, limit: float, out: Path) -> None:
    """Work an answer out, in this process."""
    data = jax.block_until_ready(jax.tree.map(jnp.asarray, CASES[case].load()))
    wall, cpu = time.perf_counter(), time.process_time()
    found = WAYS[answer].work(CASES[case], data, limit)
    cores = (time.process_time() - cpu) / (time.perf_counter() - wall)

    def told(each: Answer) -> dict[str, Any]:
        moments = (
            {}
            if each.mean is None or each.sd is None
            else {"mean": each.mean.tolist(), "sd": each.sd.tolist()}
        )
        return each._asdict() | moments | {"cores": cores}

    out.write_text(json.dumps({name: told(each) for name, each in found.items()}))


def main(arguments: Sequence[str] | None = None) -> int:
    """Answer what is asked for; 2 where a package is missing, 1 where an answer ended
    in an error.
    """
    parser = argparse.ArgumentParser(
        prog="benchmarks.answers", description=(__doc__ or "").split("\n\n")[0]
    )
    parser.add_argument("--cases", type=record.names(CASES), default=list(CASES))
    parser.add_argument("--answers", type=record.names(WAYS), default=list(WAYS))
    parser.add_argument(
        "--limit", type=float, default=LIMIT, help="seconds of a peer's answer, default %(default)s"
    )
    parser.add_argument(
        "--references", action="store_true", help="make the references of these cases"
    )
    parser.add_argument("--draw", action="store_true", help="make the page of what is stored")
    parser.add_argument("--out", type=Path, default=record.RESULTS / "answers.json")
    parser.add_argument("--worker", type=Path, help=argparse.SUPPRESS)
    asked = parser.parse_args(arguments)
    if asked.worker is not None:
        work(asked.cases[0], asked.answers[0], asked.limit, asked.worker)
        return 0
    if asked.references:
        judged.make(asked.cases)
        return 0
    if absent := missing(asked.answers):
        print(f"missing: {', '.join(absent)}; pip install -e '.[benchmarks]'", file=sys.stderr)
        return 2
    result: dict[str, Any] = {
        "protocol": PROTOCOL,
        "machine": machine(),
        "versions": versions(),
        "cases": {},
    }
    if asked.out.exists():
        result["cases"] = json.loads(asked.out.read_text())["cases"]
    failed = 0
    for case in () if asked.draw else asked.cases:
        for answer in (each for each in asked.answers if WAYS[each].suits(CASES[case])):
            with tempfile.TemporaryDirectory() as folder:
                worker = Path(folder) / "answer.json"
                command = [
                    sys.executable,
                    "-m",
                    "benchmarks.answers",
                    "--cases",
                    case,
                    "--answers",
                    answer,
                ]
                told = subprocess.run(
                    [*command, "--limit", str(asked.limit), "--worker", str(worker)], check=False
                )
                if told.returncode:
                    print(f"{case}, {answer}: exit code {told.returncode}", file=sys.stderr)
                    failed = 1
                    continue
                found = json.loads(worker.read_text())
            cells = result["cases"].setdefault(case, {})
            for name, each in found.items():
                cells[name] = judged.judged(each, judged.known(case)) | {"load": load_average()}
                asked.out.write_text(json.dumps(result, indent=1) + "\n")
                print(case, name, cells[name], flush=True)
    if asked.out == record.RESULTS / "answers.json":
        from benchmarks.pages import (
            answers as page,
        )  # it needs matplotlib, which a worker need not load

        page.write(result)
    return failed
