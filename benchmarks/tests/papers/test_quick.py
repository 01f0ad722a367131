"""The papers' experiments at quick scale, by the command: two each run, all in the sweep."""

import json

import pytest

from benchmarks.papers.command import EXPERIMENTS
from benchmarks.papers.experiment import FAILS, HOLDS
from benchmarks.papers.running import RESULT, stored
from ewsg_jax.__main__ import main

IN_EVERY_RUN = ("gaussian-kl", "ewsg-theorems")
ALIKE_WHEN_QUICK = (*IN_EVERY_RUN, "gaussian-x", "gaussian-m", "gaussian-vr", "convergence-speed")
"""Those that come out at the quick size as at the paper's."""
OF_FILES = {
    "ewsg-theorems",
    "covertype",
    "blr-vr",
    "mnist-mlp",
    "mnist-cnn",
    "mnist-m",
    "vr-regimes",
    "vr-hmc-regression",
    "vr-hmc-classification",
    "vr-hmc-bnn",
}
"""Those that need prepared data."""


def marked(name):
    marks = [] if name in IN_EVERY_RUN else [pytest.mark.sweep]
    return pytest.param(
        name, marks=[*marks, *([pytest.mark.real_data] if name in OF_FILES else [])]
    )


@pytest.mark.parametrize("name", [marked(name) for name in EXPERIMENTS])
@pytest.mark.usefixtures("optimised")
def test_what_is_made_is_what_is_stored(tmp_path, capsys, name):
    """A paper's claim, stored as so or not so, does not turn into its opposite."""
    assert main(["reproduce", name, "--output", str(tmp_path)]) == 0
    result, known = json.loads((tmp_path / RESULT).read_text()), stored(name)
    assert f"{name}: {result['verdict']}" in capsys.readouterr().out
    assert {path.name for path in tmp_path.iterdir()} == {RESULT, "figure.png"}
    # At the paper's size some of the others come out otherwise than at the quick one, as their
    # pages say.
    if known is None or (known["scale"] != "quick" and name not in ALIKE_WHEN_QUICK):
        return
    opposite = {HOLDS: FAILS, FAILS: HOLDS}
    for before, now in zip(known["claims"], result["claims"], strict=True):
        assert now["claim"] == before["claim"]
        if not before.get("beside"):
            assert now["verdict"] != opposite.get(before["verdict"]), (before, now)
