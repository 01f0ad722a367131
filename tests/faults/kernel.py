"""Planted faults of the kernel: what it passes on, counts and refuses."""

from tests.faults.mutant import Mutant

MUTANTS = [
    Mutant(
        "any number of rows is taken for n",
        "ewsg_jax/_kernel.py",
        "state.rows.count != n",
        "state.rows.count < n",
        "tests/wrong_calls/test_wrong_calls.py::test_a_wrong_call_is_answered[Kernel.step: a minibatch]",
    ),
    Mutant(
        "a state that holds the caller's own array",
        "ewsg_jax/pair.py",
        "_tree.copy(_check.position(position))",
        "_check.position(position)",
        "tests/test_uses.py::test_donated_states[sgld-True-random]",
    ),
    Mutant(
        "restart never called",
        "ewsg_jax/pair.py",
        "if point is not wanted:",
        "if False:",
        "tests/dynamics/test_protocol.py::test_a_chain_whose_estimator_moves_the_point_goes_on_from_there[semi_implicit]",
        sweep=True,
    ),
    Mutant(
        "zero allowed",
        "ewsg_jax/_check.py",
        "(np.isfinite(known) and known > 0)",
        "(np.isfinite(known) and known >= 0)",
        "tests/dynamics/test_protocol.py::test_a_bad_number_is_refused_by_name[exact-friction-zero]",
        sweep=True,
    ),
    Mutant(
        "refreshes are not counted",
        "ewsg_jax/pair.py",
        "(data).per_step + refreshed",
        "(data).per_step",
        "tests/gradients/test_index_chain.py::test_only_the_accepted_batch_is_committed[together]",
        sweep=True,
    ),
    Mutant(
        "the refreshed memory is lost",
        "ewsg_jax/pair.py",
        "estimator.commit(receipt, memory)",
        "estimator.commit(receipt, state.memory)",
        "tests/gradients/test_index_chain.py::test_only_the_accepted_batch_is_committed[one_by_one]",
        sweep=True,
    ),
    Mutant(
        "probes are not counted",
        "ewsg_jax/pair.py",
        "cost.per_step + self.dynamics.probes * cost.per_probe",
        "cost.per_step",
        "tests/dynamics/test_protocol.py"
        "::test_what_is_prepared_reaches_the_weight_and_the_move_and_probes_are_counted",
    ),
    Mutant(
        "a state of another kernel is taken",
        "ewsg_jax/_kernel.py",
        "_check_step(self, key, state, data)\n",
        "pass\n",
        "tests/wrong_calls/test_wrong_calls.py::test_a_wrong_call_is_answered[Kernel.step: other kernel]",
    ),
    Mutant(
        "row numbers below 0",
        "ewsg_jax/_check.py",
        "if low < 0 or high >= n:",
        "if high >= n:",
        "tests/wrong_calls/test_wrong_calls.py::test_a_wrong_call_is_answered[Posterior.batch_gradient: below 0]",
        sweep=True,
    ),
]
