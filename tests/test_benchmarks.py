"""The benchmark's arithmetic and what it refuses; nothing is timed."""

import json
import shutil
import sys

import jax
import numpy as np
import pytest

from benchmarks import anchored_by_hand, by_hand, memory_cells, memory_cost, step_cost, timing, workload


def test_median_and_quartiles():
    values = np.random.default_rng(0).exponential(size=15).tolist()
    expected = (*np.quantile(values, [0.5, 0.25, 0.75]), 15)
    np.testing.assert_allclose(timing.summarise(values), expected, rtol=1e-12)
    assert timing.summarise([2.0]) == (2.0, 2.0, 2.0, 1)
    for wrong in ([], [1.0, 0.0], [float("nan")]):
        with pytest.raises(ValueError, match="values must be positive"):
            timing.summarise(wrong)


def test_ratios_are_of_pairs_not_of_medians():
    pairs = [timing.Pair(1.0, 2.0), timing.Pair(10.0, 30.0), timing.Pair(2.0, 20.0)]
    assert timing.times_faster(pairs).median == 3.0
    assert timing.times_the_cost(pairs).median == pytest.approx(1 / 3)


def test_runs_alternate_and_the_first_pair_is_dropped():
    calls = []

    def side(name):
        def run():
            calls.append(name)
            return float(len(calls))

        return run

    assert timing.interleave(side("ours"), side("other"), 2) == [(3.0, 4.0), (5.0, 6.0)]
    assert calls == ["ours", "other"] * 3


def test_best_peer_is_the_one_of_lowest_median_time():
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
def test_verdicts(value, higher_is_better, holds):
    target = timing.Target(3.5, 2.5, True) if higher_is_better else timing.Target(2.5, 2.75, False)
    found = timing.verdict(value, target)
    assert (found["goal_holds"], found["floor_holds"]) == holds
    assert (found["goal"], found["floor"]) == target[:2]


@pytest.mark.parametrize("python", ["/nowhere/python", shutil.which("true") or sys.executable])
def test_a_missing_peer_fails(python, tmp_path, capsys):
    """No such interpreter, or one whose process ends: exit code 2, no result, and how to install it."""
    out = tmp_path / "result.json"
    chosen = ["--only", "hundred", "--peers", "blackjax", "--peer-python", f"blackjax={python}"]
    assert step_cost.main([*chosen, "--out", str(out)]) == 2
    message = capsys.readouterr().err
    assert "blackjax (" in message
    assert "pip install 'blackjax" in message
    assert not out.exists()


def test_left_out_peers_are_recorded(monkeypatch, tmp_path):
    monkeypatch.setitem(step_cost.CELLS, "program_size", lambda bench: bench.rows.append({"cell": "none"}))
    out = tmp_path / "result.json"
    assert step_cost.main(["--only", "program_size", "--peers", "blackjax", "--quick", "--out", str(out)]) == 0
    result = json.loads(out.read_text())
    assert result["peers_left_out"] == ["sgmcmcjax", "jax_sgmc", "posteriors"]
    assert result["quick"] is True
    assert result["results"] == [{"cell": "none"}]


def test_rows_drawn_by_hand_are_the_high_product():
    """Exact against Python's integers."""
    words = np.array(jax.random.bits(jax.random.key(0), (2, 200)))
    words[:, 0], words[:, 1] = 0, 2**32 - 1
    for n in (1, 464_809, 2**31 - 1):
        expected = [((int(a) << 32 | int(b)) * n) >> 64 for a, b in words.T]
        assert by_hand._high_product(words, n).tolist() == expected


@pytest.fixture
def little_data(monkeypatch):
    """Let the benchmarks run on 300 rows of 3 numbers, with steps that are long enough to be seen."""
    little = workload.logistic(300, 3)
    monkeypatch.setitem(workload.WORKLOADS, "logistic", lambda: little)
    monkeypatch.setitem(workload.STEP_SIZE, "sgld", 1e-3)
    monkeypatch.setattr(anchored_by_hand, "BLOCK", 128)
    return little


@pytest.mark.parametrize("ahead", [False, True])
def test_all_forms_of_svrg_by_hand_make_one_chain(little_data, ahead):
    data, start, key = little_data.data(), np.array([0.3, -0.2, 0.5], np.float32), jax.random.key(2)
    naive = anchored_by_hand.naive(little_data, "svrg_ld")
    one_step, state = jax.jit(naive.step), naive.init(key, start, data)
    for step_key in jax.random.split(key, anchored_by_hand.REFRESH_EVERY):
        state = one_step(step_key, state, data)
    nested = anchored_by_hand.nested(little_data, "svrg_ld", ahead=ahead)
    assert nested.steps_per_call == anchored_by_hand.REFRESH_EVERY
    found = nested.position(jax.jit(nested.step)(key, nested.init(key, start, data), data), data)
    assert np.abs(found - start).max() > 0.1
    np.testing.assert_allclose(found, naive.position(state, data), rtol=1e-4)


def test_svrg_by_hand_is_ours(little_data):
    """The same rows and noise: the same positions, and a full gradient in the first step and after K = 100."""
    data, start, key = little_data.data(), np.array([0.3, -0.2, 0.5], np.float32), jax.random.key(3)
    kernel, naive = memory_cells.kernel("svrg_ld"), anchored_by_hand.naive(little_data, "svrg_ld")
    draw = anchored_by_hand._Parts(little_data, "svrg_ld").draw
    ours, theirs = kernel.init(key, start, data), naive.init(key, start, data)
    step, transition = jax.jit(naive.step), jax.jit(kernel.transition)
    randomness, evaluations = kernel.draw(key, ours, data), []
    for step_key in jax.random.split(key, 102):
        rows, noise = draw(step_key)
        given = randomness._replace(batch=randomness.batch._replace(batch=rows), noise=noise)
        ours, info = transition(given, ours, data)
        theirs = step(step_key, theirs, data)
        evaluations.append(int(info.gradient_evaluations))
    np.testing.assert_allclose(ours.position, theirs.position, rtol=1e-4)
    np.testing.assert_allclose(ours.memory.anchor, theirs.anchor, rtol=1e-4)
    b, n = little_data.batch_size, little_data.num_data
    assert evaluations == [2 * b + n, *[2 * b] * 99, 2 * b + n, 2 * b]


def test_memory_benchmark_runs(little_data, tmp_path):
    out = tmp_path / "result.json"
    assert memory_cost.main(["--quick", "--only", "svrg,naive,temporaries", "--out", str(out)]) == 0
    result = json.loads(out.read_text())
    assert (result["quick"], result["pairs"], result["versions"]["jax"]) == (True, 3, jax.__version__)
    svrg, naive, temporaries = result["results"]
    assert [row["cell"] for row in result["results"]] == ["svrg", "naive", "temporaries"]
    assert set(svrg["ratios"]) == {"drawn in each step", "drawn ahead"}
    assert svrg["case"]["num_steps"] == naive["case"]["num_steps"] == 100
    assert (naive["goal"], naive["floor"], naive["measured"]["size"]) == (900, 300, 3)
    assert temporaries["conditionals"] == 1
