"""Planted faults of the kernel Stein discrepancy, thinning and control variates."""

from tests.faults.mutant import Mutant

KERNEL, FOLDER = "tests/diagnostics/test_kernel_stein.py::", "ewsg_jax/diagnostics/"
VARIATES = "tests/diagnostics/test_control_variates.py::"
MUTANTS = [
    Mutant(
        "stein: the trace of the kernel's mixed derivative with a wrong number",
        FOLDER + "stein_kernel.py",
        "- 3 * apart * inverse",
        "- 2 * apart * inverse",
        KERNEL + "test_the_stein_kernel_has_mean_zero_under_the_target",
    ),
    Mutant(
        "stein: the pull of gradients the wrong way round",
        FOLDER + "stein_kernel.py",
        "(u.shape[1] - pull - 3",
        "(u.shape[1] + pull - 3",
        KERNEL + "test_its_expectation_under_another_law",
    ),
    Mutant(
        "stein: pairs of a draw with itself",
        FOLDER + "stein_kernel.py",
        "np.fill_diagonal(values, 0.0)",
        "pass",
        KERNEL + "test_against_all_pairs",
    ),
    Mutant(
        "stein: tiles off the diagonal once",
        FOLDER + "stein_kernel.py",
        "total[np.ix_(columns, rows)] += summed.T",
        "pass",
        KERNEL + "test_against_all_pairs",
    ),
    Mutant(
        "stein: no temperature in the metric of a mode",
        FOLDER + "scored.py",
        "metric_of(mode, temperature)",
        "metric_of(mode, 1.0)",
        KERNEL + "test_against_all_pairs",
    ),
    Mutant(
        "stein: gradients in the coordinates of the position",
        FOLDER + "scored.py",
        "first = fresh.first @ root\n",
        "first = fresh.first\n",
        KERNEL + "test_the_draws_own_metric_does_not_know_units",
    ),
    Mutant(
        "stein: gradients in other widths than draws",
        FOLDER + "scored.py",
        "u, first = (flat - center) / root, fresh.first * root",
        "u, first = (flat - center) / root, fresh.first / root",
        KERNEL + "test_a_metric_of_widths_where_draws_are_few",
    ),
    Mutant(
        "stein: one batch for all draws",
        "ewsg_jax/checking/gradients.py",
        "keys = jax.random.split(key, places.shape[:2])",
        "keys = jnp.broadcast_to(key, places.shape[:2])",
        KERNEL + "test_noise_of_gradients_does_not_bias_it",
    ),
    Mutant(
        "stein: signs of single draws' worth of blocks",
        FOLDER + "kernel_stein.py",
        "parts = groups(len(white.u), count)",
        "parts = groups(len(white.u), len(white.u))",
        KERNEL + "test_p_values_of_right_draws",
    ),
    Mutant(
        "stein: an error without what a block has with itself",
        FOLDER + "kernel_stein.py",
        "(total - 2 * sums.sum(1) + np.diag(sums))",
        "(total - 2 * sums.sum(1))",
        KERNEL + "test_against_all_pairs",
    ),
    Mutant(
        "thinning: half of the kernel with itself forgotten",
        FOLDER + "thinning.py",
        "np.argmin(alone / 2 + with_chosen)",
        "np.argmin(alone + with_chosen)",
        KERNEL + "test_thinning_is_the_greedy_choice",
    ),
    Mutant(
        "thinning: numbers of what is left of the chains",
        FOLDER + "thinning.py",
        "np.meshgrid(draws.chains, draws.kept, indexing",
        "np.meshgrid(np.arange(len(draws.chains)), draws.kept, indexing",
        KERNEL + "test_thinning_of_a_lost_chain_and_of_shared_batches",
    ),
    Mutant(
        "thinning: rows of shared batches in the order of chains",
        FOLDER + "thinning.py",
        "if draws.shared:",
        "if False:",
        KERNEL + "test_thinning_of_a_lost_chain_and_of_shared_batches",
    ),
    Mutant(
        "thinning: draws numbered among those that were looked at",
        FOLDER + "thinning.py",
        "np.meshgrid(draws.chains, draws.kept, indexing",
        "np.meshgrid(draws.chains, np.arange(len(draws.kept)), indexing",
        KERNEL + "test_every_so_many_draws_and_trees",
    ),
    Mutant(
        "control variates: linear ones for order 2",
        FOLDER + "_control_variates.py",
        "linear(d) if order == 1 else whole(d)",
        "linear(d)",
        VARIATES + "test_a_normal_target_leaves_no_variance",
    ),
    Mutant(
        "control variates: coefficients that noise leaves alone",
        FOLDER + "_control_variates.py",
        "regression = CrossFit(functions, functions)",
        "both = (linear(d) if order == 1 else whole(d)).values\n"
        "    regression = CrossFit(*(both(white.u, each)[:, 1:] for each in white[1:]))",
        VARIATES + "test_noise_of_batches_takes_no_more_than_it_gives",
    ),
    Mutant(
        "control variates: errors of chains that share their batches",
        FOLDER + "scored.py",
        "draws_of(samples, None, max_draws, shared_minibatch)",
        "draws_of(samples, None, max_draws)",
        VARIATES + "test_errors_are_those_of_blocks",
    ),
    Mutant(
        "control variates: errors as of independent draws",
        FOLDER + "_control_variates.py",
        "averages(leaf, blocks.number)",
        "averages(leaf, len(leaf))",
        VARIATES + "test_errors_are_those_of_blocks",
    ),
]
