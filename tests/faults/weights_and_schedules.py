"""Planted faults of the weights of the frozen noise, of schedules, and of where a chain starts and restarts."""

from tests.faults.mutant import Mutant

MUTANTS = [
    Mutant(
        "weight without x",
        "ewsg_jax/dynamics/underdamped.py",
        '"momentum": root * scales.friction / scales.noise_scale',
        '"momentum": 0 * scales.friction / scales.noise_scale',
        "tests/dynamics/test_weight.py::test_weight_is_that_of_the_noise_that_freezes_the_momentum[semi_implicit-momentum-small]",
    ),
    Mutant(
        "weight: sign of rest",
        "ewsg_jax/dynamics/underdamped.py",
        "(scales.friction * scales.step_size - 1) / (scales.noise_scale * root)",
        "(1 - scales.friction * scales.step_size) / (scales.noise_scale * root)",
        "tests/dynamics/test_weight.py::test_weight_is_that_of_the_noise_that_freezes_the_momentum[euler-rest-small]",
        sweep=True,
    ),
    Mutant(
        "weight: h for sqrt(h)",
        "ewsg_jax/dynamics/underdamped.py",
        "        root / scales.noise_scale,\n",
        "        scales.step_size / scales.noise_scale,\n",
        "tests/dynamics/test_weight.py::test_weight_is_that_of_the_noise_that_freezes_the_momentum[euler-zero-large]",
        sweep=True,
    ),
    Mutant(
        "weight: half dropped",
        "ewsg_jax/dynamics/protocol.py",
        "return 0.5 * _tree.squared_norm(total)",
        "return _tree.squared_norm(total)",
        "tests/dynamics/test_weight.py::test_weight_is_that_of_the_noise_that_freezes_the_momentum[euler-given-small]",
    ),
    Mutant(
        "weight: one means zero",
        "ewsg_jax/dynamics/protocol.py",
        "total = _tree.combine(a, (1, _tree.ones_like(g)))",
        "total = _tree.combine(a)",
        "tests/dynamics/test_weight.py::test_exact_weight_of_a_frozen_noise_adds_it_to_the_scaled_gradient[one]",
        sweep=True,
    ),
    Mutant(
        "schedule one step ahead",
        "ewsg_jax/_module.py",
        "return self.function(step)",
        "return self.function(step + 1)",
        "tests/dynamics/test_stationary_law.py::test_schedules_are_read_at_the_step_of_the_state[splitting]",
    ),
    Mutant(
        "schedule frozen at 0",
        "ewsg_jax/_module.py",
        "return self.function(step)",
        "return self.function(0 * step)",
        "tests/dynamics/test_weight.py::test_the_default_is_the_frozen_momentum_and_schedules_are_read_at_the_step_of_the_state[exact]",
        sweep=True,
    ),
    Mutant(
        "counter stuck",
        "ewsg_jax/dynamics/underdamped.py",
        "return UnderdampedState(position, momentum, prepared.step + 1)",
        "return UnderdampedState(position, momentum, prepared.step)",
        "tests/dynamics/test_protocol.py::test_tree_and_dtypes_are_kept_and_steps_are_counted[euler-float32-False]",
        sweep=True,
    ),
    Mutant(
        "restart forgets the drift",
        "ewsg_jax/dynamics/underdamped.py",
        "(-1, self.point(state))",
        "(-1, state.position)",
        "tests/dynamics/test_protocol.py::test_restart_moves_the_evaluation_point_and_nothing_else[splitting]",
    ),
    Mutant(
        "momentum starts at one",
        "ewsg_jax/dynamics/underdamped.py",
        "_tree.zeros_like(position), jnp.int32(0)",
        "_tree.ones_like(position), jnp.int32(0)",
        "tests/dynamics/test_protocol.py::test_a_chain_starts_where_it_is_told_with_no_momentum[exact]",
        sweep=True,
    ),
    Mutant(
        "weights of Langevin dynamics halved, statistically",
        "ewsg_jax/dynamics/_langevin.py",
        "xp.sqrt(h / (2 * t))",
        "xp.sqrt(h / (8 * t))",
        "tests/statistics/test_stationarity.py::test_exponential_weights[4]",
    ),
]
