"""The benchmark's arithmetic and what it refuses; nothing is timed."""

import importlib
import json
import shutil
import sys
from pathlib import Path

import jax
import numpy as np
import pytest

FOLDER = Path(__file__).parents[1] / "benchmarks"


@pytest.fixture
def module(monkeypatch):
    """Import a module of the benchmark's folder, as its scripts do."""
    monkeypatch.syspath_prepend(FOLDER)
    before = set(sys.modules)
    yield importlib.import_module
    for name in set(sys.modules) - before:
        if Path(getattr(sys.modules[name], "__file__", None) or "/").parent == FOLDER:
            del sys.modules[name]


def test_median_and_quartiles(module):
    timing = module("timing")
    values = np.random.default_rng(0).exponential(size=15).tolist()
    expected = (*np.quantile(values, [0.5, 0.25, 0.75]), 15)
    np.testing.assert_allclose(timing.summarise(values), expected, rtol=1e-12)
    assert timing.summarise([2.0]) == (2.0, 2.0, 2.0, 1)
    for wrong in ([], [1.0, 0.0], [float("nan")]):
        with pytest.raises(ValueError, match="values must be positive"):
            timing.summarise(wrong)


def test_ratios_are_of_pairs_not_of_medians(module):
    timing = module("timing")
    pairs = [timing.Pair(1.0, 2.0), timing.Pair(10.0, 30.0), timing.Pair(2.0, 20.0)]
    assert timing.times_faster(pairs).median == 3.0
    assert timing.times_the_cost(pairs).median == pytest.approx(1 / 3)


def test_runs_alternate_and_the_first_pair_is_dropped(module):
    timing = module("timing")
    calls = []

    def side(name):
        def run():
            calls.append(name)
            return float(len(calls))

        return run

    assert timing.interleave(side("ours"), side("other"), 2) == [(3.0, 4.0), (5.0, 6.0)]
    assert calls == ["ours", "other"] * 3


def test_best_peer_is_the_one_of_lowest_median_time(module):
    timing = module("timing")
    pairs = {
        "steady": [timing.Pair(1.0, 5.0)] * 3,
        "once": [timing.Pair(1.0, 1.0), timing.Pair(1.0, 9.0), timing.Pair(1.0, 9.0)],
    }
    assert timing.fastest(pairs) == "steady"
    with pytest.raises(ValueError, match="no peer"):
        timing.fastest({})


@pytest.mark.parametrize(
    ("value", "higher_is_better", "holds"),
    [
        (3.5, True, (True, True)),
        (3.0, True, (False, True)),
        (2.0, True, (False, False)),
        (2.5, True, (False, True)),
        (2.0, False, (True, True)),
        (3.0, False, (False, False)),
    ],
)
def test_verdicts(module, value, higher_is_better, holds):
    timing = module("timing")
    target = timing.Target(3.5, 2.5, True) if higher_is_better else timing.Target(2.5, 2.75, False)
    found = timing.verdict(value, target)
    assert (found["goal_holds"], found["floor_holds"]) == holds
    assert (found["goal"], found["floor"]) == target[:2]


@pytest.mark.parametrize("python", ["/nowhere/python", shutil.which("true") or sys.executable])
def test_a_missing_peer_fails(module, python, tmp_path, capsys):
    """No such interpreter, or one whose process ends: exit code 2, no result, and how to install it."""
    out = tmp_path / "result.json"
    chosen = ["--only", "hundred", "--peers", "blackjax", "--peer-python", f"blackjax={python}"]
    assert module("step_cost").main([*chosen, "--out", str(out)]) == 2
    message = capsys.readouterr().err
    assert "blackjax (" in message
    assert "pip install 'blackjax" in message
    assert not out.exists()


def test_left_out_peers_are_recorded(module, monkeypatch, tmp_path):
    step_cost = module("step_cost")
    monkeypatch.setitem(step_cost.CELLS, "program_size", lambda bench: bench.rows.append({"cell": "none"}))
    out = tmp_path / "result.json"
    assert step_cost.main(["--only", "program_size", "--peers", "blackjax", "--quick", "--out", str(out)]) == 0
    result = json.loads(out.read_text())
    assert result["peers_left_out"] == ["sgmcmcjax", "jax_sgmc"]
    assert result["quick"] is True
    assert result["results"] == [{"cell": "none"}]


def test_rows_drawn_by_hand_are_the_high_product(module):
    """Exact against Python's integers."""
    by_hand = module("by_hand")
    words = np.array(jax.random.bits(jax.random.key(0), (2, 200)))
    words[:, 0], words[:, 1] = 0, 2**32 - 1
    for n in (1, 464_809, 2**31 - 1):
        expected = [((int(a) << 32 | int(b)) * n) >> 64 for a, b in words.T]
        assert by_hand._high_product(words, n).tolist() == expected
