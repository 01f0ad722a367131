"""Every wrong call is answered by one error that names argument, got and takes."""

import inspect
import traceback
from collections import Counter
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
    "Info": "made by a step",
    "KernelState": "made by a kernel",
    "Method": "made by the library",
    "Moments": "made by `sample`",
    "Randomness": "made by a kernel",
    "Halved": "made by `halve`",
    "SGDMatch": "made by `from_sgd`",
    "Stack": "made by `stack`",
    "StackedData": "made by `stack_data`",
    "StackedSamples": "made by `sample`",
    "Stream": "made by `stream`",
    "dynamics.LowRank": "a record: the dynamics that it is given to checks it",
    "rows.Batch": "made by a law of rows",
    "rows.Block": "made by a law of rows",
    "rows.Order": "made by a kernel",
    "rows.fetch": "inside a run, on what a kernel has drawn",
    "rows.fetched": "inside a step; what is no batch is refused, as "
    "test_weights_are_drawn_with_row_numbers shows",
    "rows.lists_batches": "a question to an estimator",
    "rows.RowLaw": "a base class: `rows=` checks that it gets one",
    "rows.all_rows": "inside an estimator, on data that its kernel has checked",
    "rows.gather": "inside a step, on rows that a law has drawn",
    "static": "passes its arguments on to `dataclasses.field`",
    "bounds.Bound": "a base class: `flymc` checks that it gets one",
    "bounds.normal_taylor": "takes no argument",
    "datasets.Standardisation": "made by `standardisation`",
    "datasets.Whitened": "made by `whiten`",
    "datasets.breast_cancer": "takes no argument",
    "dynamics.PreconditionedState": "made by a dynamics",
    "dynamics.QuasiNewton": "a base class: `kernel` checks that it gets one",
    "dynamics.QuasiNewtonState": "made by a dynamics",
    "dynamics.RiemannianState": "made by a dynamics",
    "dynamics.ThermostatState": "made by a dynamics",
    "diagnostics.Calibration": "made by `calibration`",
    "diagnostics.ControlVariates": "made by `control_variates`",
    "diagnostics.Discrepancy": "made by `kernel_stein_discrepancy`",
    "diagnostics.Distance": "made by `distance`",
    "diagnostics.GradientNoise": "made by `gradient_noise`",
    "diagnostics.Predictive": "made by `predictive`",
    "diagnostics.Summary": "made by `summary`",
    "diagnostics.Trajectory": "made by `trajectory`",
    "dynamics.Dynamics": "a base class: `kernel` checks that it gets one",
    "dynamics.LangevinState": "made by a dynamics",
    "Schedule": "a base class: whatever has it as a base is a schedule",
    "Need": "its members are what is used",
    "dynamics.GradientAt": "a protocol of the kernel's own",
    "dynamics.UnderdampedState": "made by a dynamics",
    "gradients.Covariance": "made by an estimator",
    "gradients.CovarianceTracking": "a base class: `kernel` checks that it gets one",
    "gradients.Estimate": "made by an estimator",
    "gradients.Evaluations": "made by an estimator",
    "gradients.GradientEstimator": "a base class: `kernel` checks that it gets one",
    "gradients.OfRows": "a base class: `kernel` checks that it gets one",
    "gradients.Weight": "a protocol of the kernel's own",
}
"""Public callables without a row, and why."""
MODULES = ("bounds", "rows", "dynamics", "gradients", "models", "datasets", "diagnostics")


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


def test_the_table_is_wide():
    rows = Counter(wrong.entry for wrong in WRONG)
    assert len(WRONG) >= 130
    assert len(rows) >= 14
    assert max(rows.values()) <= len(WRONG) / 20
    assert all(len(wrong.texts) == 3 and all(wrong.texts[:2]) for wrong in WRONG)


def public_callables():
    """Names of the package's own functions and classes, with the subpackage they stand in."""
    for prefix, module in (("", ewsg), *((f"{name}.", getattr(ewsg, name)) for name in MODULES)):
        for name, value in vars(module).items():
            if not name.startswith("_") and callable(value) and not inspect.ismodule(value):
                yield prefix + name


def test_every_public_callable_has_a_row_or_a_reason():
    entries = [wrong.entry for wrong in WRONG] + [entry for entry, _, _ in STANDARD]
    tested = {part for entry in entries for part in (entry, entry.split(".")[0])}
    public = set(public_callables())
    assert public - tested - set(UNTESTED) == set()
    assert set(UNTESTED) <= public - tested
