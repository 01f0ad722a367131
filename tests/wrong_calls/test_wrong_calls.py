"""Every wrong call is answered by one error that names argument, got and takes."""

import inspect
import traceback
from pathlib import Path

import jax
import pytest

import ewsg_jax as ewsg
from tests import lists, wrong_calls
from tests.wrong_calls.standard import STANDARD
from tests.wrong_calls.table import every_wrong

lists.modules_of(wrong_calls)
"""They add their rows to the table."""
WRONG = list(every_wrong())

PACKAGE = str(Path(ewsg.__file__).parent)
JAX = str(Path(jax.__file__).parent)
LONGEST = 600
"""Characters of a message."""

UNTESTED = {
    "gradients.kept_covariance": "is `periodic_covariance`",
    "dynamics.palindrome": "is `splitting_scheme`",
    "rows.row_law": "is `sampling_scheme`",
    "rows.by_probability": "is `importance_weighted`",
    "rows.fetch": "inside a run, on what a kernel has drawn",
    "rows.fetched": "inside a step; what is no batch is refused, as "
    "test_weights_are_drawn_with_row_numbers shows",
    "rows.lists_batches": "a question to an estimator",
    "rows.all_rows": "inside an estimator, on data that its kernel has checked",
    "rows.num_rows": "inside a sampling scheme, on data that its kernel has checked",
    "rows.gather": "inside a step, on rows that a scheme has drawn",
    "static": "passes its arguments on to `dataclasses.field`",
    "from_pymc": "needs PyMC: `bridges/test_pymc_refusals.py` has its wrong calls",
    "networks.ensemble": "`networks/test_baselines.py` has its wrong calls",
    "networks.swag": "`networks/test_baselines.py` has its wrong calls",
    "networks.laplace": "`networks/test_baselines.py` has its wrong calls",
    "bounds.normal_taylor": "takes no argument",
    "datasets.breast_cancer": "takes no argument",
}
"""Public functions without a row, and why. Classes are made by the library, or are bases of
parts, which are checked where they are used.
"""
MODULES = (
    "bounds",
    "rows",
    "dynamics",
    "gradients",
    "models",
    "networks",
    "datasets",
    "diagnostics",
)


@pytest.mark.parametrize(
    "wrong", [pytest.param(w, id=f"{w.entry}: {': '.join(w.texts[:2])}") for w in WRONG]
)
def test_a_wrong_call_is_answered(wrong, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EWSG_JAX_DATA", str(tmp_path))
    if wrong.error is None:
        message = refused_by_the_command_line(wrong, tmp_path, capsys)
    else:
        message = refused(wrong, tmp_path)
    assert_said(wrong, message)


@pytest.mark.parametrize(
    ("entry", "argument", "rows"),
    [pytest.param(*group, id=f"{group[0]}: {group[1]}") for group in STANDARD],
)
def test_an_argument_refuses_the_standard_wrong_values(entry, argument, rows, tmp_path):
    for wrong in rows:
        assert_said(wrong, refused(wrong, tmp_path))


def assert_said(wrong, message):
    """The message holds the argument, what it got and what it takes, and is not long."""
    for text in wrong.texts:
        assert text in message
    assert len(message) <= LONGEST


def refused(wrong, folder):
    """Return what the library's one error says, on one line."""
    with pytest.raises((TypeError, ValueError)) as caught:
        wrong.made(folder)
    assert type(caught.value) is wrong.error
    runs_in_jax = "traced" in wrong.texts or wrong.entry.startswith("sample")
    assert_raised_by_the_library(caught.value, runs_in_jax)
    message = str(caught.value)
    assert "\n" not in message
    return message


def refused_by_the_command_line(wrong, folder, capsys):
    """Return the line on standard error; nothing is left where results would go."""
    try:
        status = wrong.made(folder)
    except SystemExit as end:
        status = end.code
    assert status == 2
    assert not (folder / "out").exists()
    assert not (folder / "results").exists()
    assert not (folder / "file").exists() or (folder / "file").read_text() == "kept"
    told = capsys.readouterr()
    assert told.out == ""
    assert "Traceback" not in told.err
    assert len([line for line in told.err.splitlines() if "error: " in line]) == 1
    return told.err


def assert_raised_by_the_library(error, runs_in_jax):
    """The entry point's own code raised it: the last frame is ours, none before is jax's."""
    files = [frame.filename for frame in traceback.extract_tb(error.__traceback__)]
    assert files[-1].startswith(PACKAGE)
    if not runs_in_jax:
        assert not any(file.startswith(JAX) for file in files)
        assert not getattr(error, "__notes__", [])


def public_functions():
    """Names of the package's own functions, with the subpackage they stand in."""
    for prefix, module in (("", ewsg), *((f"{name}.", getattr(ewsg, name)) for name in MODULES)):
        for name, value in vars(module).items():
            if not name.startswith("_") and callable(value) and not inspect.isclass(value):
                yield prefix + name


def test_every_public_function_has_a_row_or_a_reason():
    entries = [wrong.entry for wrong in WRONG] + [entry for entry, _, _ in STANDARD]
    tested = {part for entry in entries for part in (entry, entry.split(".")[0])}
    public = set(public_functions())
    assert public - tested - set(UNTESTED) == set()
    assert set(UNTESTED) <= public - tested
