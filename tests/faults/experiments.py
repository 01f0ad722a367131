"""Planted faults of diagnostics, experiments and benchmarks."""

from tests.faults.mutant import Mutant

IM = "ewsg_jax/diagnostics/_inverse_mass.py"
MD = "tests/diagnostics/test_inverse_mass.py::"

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
        "    check_size(samples)\n",
        "",
        "tests/wrong_calls/test_wrong_calls.py::test_a_wrong_call_is_answered[diagnostics.summary: a network]",
    ),
    Mutant(
        "a mass from draws: draws counted as if independent",
        IM,
        "n = min(count, float(_ess(along)), _draws_of(along), slowest if values[k] < 1 else np.inf)",
        "n = count",
        MD + "test_few_or_correlated_draws_of_it_leave_it_as_it_is[8-100-50-0.9]",
    ),
    Mutant(
        "a mass from draws: the least variance by its own draws",
        IM,
        "slowest if values[k] < 1 else np.inf)",
        "np.inf)",
        MD + "test_few_or_correlated_draws_of_it_leave_it_as_it_is[4-100-20-0.97]",
    ),
    Mutant(
        "a mass from draws: as if there were one direction",
        IM,
        "reach = (np.sqrt(d) + ",
        "reach = (1 + ",
        MD + "test_few_or_correlated_draws_of_it_leave_it_as_it_is[2-25-60-0.5]",
    ),
    Mutant(
        "a mass from draws: chains that do not agree",
        IM,
        "FEWEST_EFFECTIVE * len(white)",
        "FEWEST_EFFECTIVE / 10",
        MD + "test_chains_that_do_not_agree_say_nothing",
    ),
    Mutant(
        "a mass from draws: eigenvalues as they are",
        IM,
        "variances.append(_unspread(values[k], d / n))",
        "variances.append(values[k])",
        MD + "test_a_spread_that_is_of_few_draws_is_taken_off",
    ),
    Mutant(
        "a mass from draws: whitened by a low rank's own values",
        IM,
        "(scaled @ self.basis * (self.values**-0.5 - 1))",
        "(scaled @ self.basis * (self.values**0.5 - 1))",
        MD + "test_draws_of_the_covariance_leave_it_as_it_is[low rank]",
    ),
    Mutant(
        "a mass from draws: corrected in coordinates of width 1",
        IM,
        "moved = directions + self.basis @ ((self.values**0.5 - 1)[:, None] * (self.basis.T @ directions))",
        "moved = directions",
        MD + "test_directions_that_differ_are_corrected_and_no_others[low rank]",
    ),
]
