"""Planted faults of diagnostics, experiments and benchmarks."""

from tests.faults.mutant import Mutant

MUTANTS = [
    Mutant(
        "calibration: bins closed on the other side",
        "ewsg_jax/diagnostics/_calibration.py",
        'side="left"',
        'side="right"',
        "tests/diagnostics/test_predictive.py::test_calibration_at_the_edges_of_bins[float32]",
        sweep=True,
    ),
    Mutant(
        "a failed start leaves its folder",
        "ewsg_jax/experiments/run.py",
        "folder.discard()",
        "pass",
        "tests/wrong_calls/test_wrong_calls.py::test_a_wrong_call_is_answered[main: column]",
        sweep=True,
    ),
    Mutant(
        "ratios upside down",
        "benchmarks/timing.py",
        "return summarise([pair.other / pair.ours for pair in pairs])",
        "return summarise([pair.ours / pair.other for pair in pairs])",
        "tests/test_benchmarks.py::test_ratios_are_of_pairs_not_of_medians",
        sweep=True,
    ),
    Mutant(
        "the last pair dropped for the first",
        "benchmarks/timing.py",
        "for _ in range(count + 1)][1:]",
        "for _ in range(count + 1)][:-1]",
        "tests/test_benchmarks.py::test_runs_alternate_and_the_first_pair_is_dropped",
        sweep=True,
    ),
    Mutant(
        "every verdict the same way round",
        "benchmarks/timing.py",
        "value >= bound if target.higher_is_better else value <= bound",
        "value >= bound",
        "tests/test_benchmarks.py::test_verdicts",
    ),
    Mutant(
        "a missing peer is passed over",
        "benchmarks/remote.py",
        "        if missing:\n",
        "        if len(missing) > 1:\n",
        "tests/test_benchmarks.py::test_a_missing_peer_fails",
        sweep=True,
    ),
    Mutant(
        "burn-in without its refreshes",
        "ewsg_jax/sampling/budget.py",
        "bisect.bisect_left(enough, wanted, key=lambda count: cost.of_steps(first_step, count))",
        "-(-wanted // cost.per_step)",
        "tests/experiments/test_problem.py::test_burn_in_counts_refreshes",
    ),
    Mutant(
        "the start's evaluations are forgotten",
        "ewsg_jax/experiments/counted.py",
        "spent.append((0.0 if state is None else spent[-1])",
        "spent.append((spent[-1])",
        "tests/experiments/test_problem.py::test_steps_that_cost_what_they_turn_out_to_get_their_passes",
        sweep=True,
    ),
    Mutant(
        "the size of a summary is looked at too late",
        "ewsg_jax/diagnostics/_summary.py",
        "    _check_size(samples)\n",
        "",
        "tests/wrong_calls/test_wrong_calls.py::test_a_wrong_call_is_answered[diagnostics.summary: a network]",
    ),
]
