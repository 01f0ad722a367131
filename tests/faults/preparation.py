"""Planted faults of what is done before a run: the search for a mode, and clusters."""

from tests.faults.mutant import Mutant

MUTANTS = [
    Mutant(
        "the search goes uphill",
        "ewsg_jax/preparation/_find_mode.py",
        "_tree.combine((-1, search.direction)),",
        "_tree.combine((1, search.direction)),",
        "tests/preparation/test_find_mode.py::test_logistic_regression[4096]",
    ),
    Mutant(
        "the distance is squared",
        "ewsg_jax/preparation/_find_mode.py",
        "distance = jnp.sqrt(jnp.maximum(sum(jax.tree.leaves(products)), 0.0))",
        "distance = jnp.maximum(sum(jax.tree.leaves(products)), 0.0)",
        "tests/preparation/test_find_mode.py::test_distance_is_in_standard_deviations",
        sweep=True,
    ),
    Mutant(
        "trials of the line search are free",
        "ewsg_jax/preparation/_find_mode.py",
        "evaluations=search.evaluations + line.info.num_linesearch_steps",
        "evaluations=search.evaluations + 1",
        "tests/preparation/test_find_mode.py::test_passes_are_counted",
        sweep=True,
    ),
    Mutant(
        "it always says that it converged",
        "ewsg_jax/preparation/_find_mode.py",
        "        distance <= tolerance,\n",
        "        True,\n",
        "tests/preparation/test_find_mode.py::test_not_to_converge_is_said",
        sweep=True,
    ),
    Mutant(
        "every warm-up step on the same batch",
        "ewsg_jax/preparation/_find_mode.py",
        "jax.random.fold_in(key, first + i)",
        "jax.random.fold_in(key, 0)",
        "tests/preparation/test_find_mode.py::test_warm_up_on_minibatches[None]",
        sweep=True,
    ),
    Mutant(
        "one cluster fewer",
        "ewsg_jax/preparation/_cluster.py",
        "means = KMeans(k, random_state=seed)",
        "means = KMeans(k - 1, random_state=seed)",
        "tests/preparation/test_cluster.py::test_three_clusters[data0-None]",
        sweep=True,
    ),
]
