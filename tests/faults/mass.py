"""Planted faults of the inverse mass."""

from tests.faults.mutant import Mutant

MUTANTS = [
    Mutant(
        "a mass: L for its transpose",
        "ewsg_jax/factors.py",
        "products.matmul(v, self.matrix)",
        "products.matmul(self.matrix, v)",
        "tests/dynamics/test_mass.py::test_factors[dense]",
    ),
    Mutant(
        "a mass: its diagonal without the root",
        "ewsg_jax/factors.py",
        "Diagonal(root=jax.tree.map(jnp.sqrt, tree))",
        "Diagonal(root=tree)",
        "tests/dynamics/test_mass.py::test_factors[tree]",
    ),
    Mutant(
        "a mass: a low rank without its diagonal",
        "ewsg_jax/factors.py",
        "self._stretched(self.root * v)",
        "self._stretched(v)",
        "tests/dynamics/test_mass.py::test_factors[low_rank]",
        sweep=True,
    ),
    Mutant(
        "a mass: the gain of a low rank without the root",
        "ewsg_jax/factors.py",
        "gain=jnp.sqrt(values) - 1",
        "gain=values - 1",
        "tests/dynamics/test_mass.py::test_factors[low_rank]",
        sweep=True,
    ),
    Mutant(
        "a mass: the gradient is not turned",
        "ewsg_jax/dynamics/protocol.py",
        "estimate._replace(gradient=self.mass.factor.transposed(estimate.gradient))",
        "estimate",
        "tests/dynamics/test_mass.py::test_it_is_the_same_dynamics_in_other_coordinates[euler-uniform]",
        sweep=True,
    ),
    Mutant(
        "a mass: the move is not turned back",
        "ewsg_jax/dynamics/protocol.py",
        "(1, self.mass.factor.times(displacement))",
        "(1, displacement)",
        "tests/dynamics/test_mass.py::test_with_the_covariance_of_the_target_every_direction_is_of_width_one[langevin]",
    ),
    Mutant(
        "a mass: weights of the gradient as it is",
        "ewsg_jax/dynamics/protocol.py",
        "self.weight(prepared, self._in_its_coordinates(estimate), frozen_noise)",
        "self.weight(prepared, estimate, frozen_noise)",
        "tests/dynamics/test_mass.py::test_weights_are_those_of_the_gradient_there[langevin]",
    ),
    Mutant(
        "a mass: the gradient wanted where there would be none",
        "ewsg_jax/dynamics/protocol.py",
        "return self._displaced(state, self.point(self._at_origin(state)))",
        "return self.point(state)",
        "tests/dynamics/test_mass.py::test_it_is_the_same_dynamics_in_other_coordinates[splitting-uniform]",
        sweep=True,
    ),
    Mutant(
        "a mass: the friction of a covariance that is not turned",
        "ewsg_jax/dynamics/minibatch_heat.py",
        "covariance = Congruent(covariance, self.mass.factor)",
        "pass",
        "tests/dynamics/test_mass.py::test_a_reported_covariance_stays_in_the_coordinates_of_the_position",
    ),
    Mutant(
        "a mass for steps that depend on the position",
        "ewsg_jax/dynamics/protocol.py",
        "if not self.translates:",
        "if False:",
        "tests/wrong_calls/test_wrong_calls.py::test_a_wrong_call_is_answered[dynamics: an inverse mass that does not fit: a dynamics that has none]",
        sweep=True,
    ),
    Mutant(
        "a mass of another size",
        "ewsg_jax/factors.py",
        "if shape[0] != numbers:",
        "if False:",
        "tests/wrong_calls/test_wrong_calls.py::test_a_wrong_call_is_answered[dynamics: an inverse mass that does not fit: a low rank]",
        sweep=True,
    ),
]
