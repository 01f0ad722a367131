"""Every planted fault of the lists in this folder is found by the test it names.

Each fault is made in a copy of the tree, and the named test is run there in a process of its own.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.faults import (
    adaptive,
    covariance,
    documents,
    exact,
    experiments,
    forecasting,
    index_chain,
    integrators,
    kernel,
    mass,
    memory,
    numbers,
    posterior_and_models,
    preparation,
    quasi_newton,
    randomness,
    real_posteriors,
    row_laws,
    sampling,
    types,
    values,
    weights_and_schedules,
)

LISTS = [
    integrators,
    weights_and_schedules,
    posterior_and_models,
    randomness,
    kernel,
    mass,
    index_chain,
    memory,
    row_laws,
    covariance,
    preparation,
    forecasting,
    adaptive,
    exact,
    quasi_newton,
    sampling,
    experiments,
    documents,
    real_posteriors,
    values,
    types,
    numbers,
]
MUTANTS = [mutant for module in LISTS for mutant in module.MUTANTS]

ROOT = Path(__file__).parents[2]


QUICK = [m for m in MUTANTS if not m.sweep]
IN_EVERY_RUN = QUICK[::3]
"""Each takes a process of its own, and some seconds: a third of the quick ones, from every list."""
PARAMETERS = [pytest.param(m, id=m.name, marks=[] if m in IN_EVERY_RUN else [pytest.mark.sweep]) for m in MUTANTS]


@pytest.mark.parametrize("mutant", PARAMETERS)
def test_mutant_is_killed(mutant, tmp_path):
    for folder in ("ewsg_jax", "tests", "docs", "benchmarks", "notebooks", "configs"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "CHANGELOG.md", "CITATION.cff"):
        shutil.copy(ROOT / name, tmp_path)
    file = tmp_path / mutant.file
    source = file.read_text()
    assert source.count(mutant.before) == 1, f"{mutant.before!r} must stand once in {mutant.file}"
    file.write_text(source.replace(mutant.before, mutant.after))
    if file.suffix == ".py":
        compile(file.read_text(), mutant.file, "exec")

    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-x", "-m", "", "-p", "no:cacheprovider", mutant.test],
        cwd=tmp_path,
        env=os.environ | {"JAX_DISABLE_MOST_OPTIMIZATIONS": "1", "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=600,
    )
    # 1: tests ran and failed. Anything else is a test that passes, is missing or cannot be collected.
    assert done.returncode == 1, f"{mutant.test} did not fail:\n{done.stdout[-3000:]}\n{done.stderr[-1000:]}"
    assert "1 failed" in done.stdout, f"an error is no failure:\n{done.stdout[-3000:]}"


def test_every_list_is_run():
    here = {path.stem for path in Path(__file__).parent.glob("*.py")} - {"__init__", "mutant", "test_faults"}
    assert {module.__name__.split(".")[-1] for module in LISTS} == here


def test_names_are_unique():
    names = [mutant.name for mutant in MUTANTS]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_mutant_can_be_planted(mutant):
    assert (ROOT / mutant.file).read_text().count(mutant.before) == 1
