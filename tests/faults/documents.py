"""Planted faults of the documents and notebooks."""

from tests.faults.mutant import Mutant

MUTANTS = [
    Mutant(
        "conventions: friction noise halved",
        "ewsg_jax/dynamics/underdamped.py",
        "xp.sqrt(2 * gamma * t)",
        "xp.sqrt(gamma * t)",
        "tests/test_docs.py::test_document_examples_run[conventions]",
        sweep=True,
    ),
    Mutant(
        "conventions: a step not divided by n",
        "docs/conventions.md",
        "h = (rate / n) ** 0.5",
        "h = rate**0.5",
        "tests/test_docs.py::test_document_examples_run[conventions]",
        sweep=True,
    ),
    Mutant(
        "a link that leads nowhere",
        "docs/gotchas.md",
        "See [conventions](conventions.md).",
        "See [conventions](convention.md).",
        "tests/test_docs.py::test_links_lead_somewhere[gotchas]",
    ),
    Mutant(
        "a minibatch that adds its prior again",
        "notebooks/your_own_model.ipynb",
        "log_density(model, position, row) - log_density(hidden, position, row)",
        "log_density(model, position, row)",
        "tests/test_notebooks.py::test_notebook_runs[your_own_model]",
        sweep=True,
    ),
    Mutant(
        "help forgets a function",
        "ewsg_jax/diagnostics/__init__.py",
        "\ntrajectory: held-out",
        "\nHeld-out",
        "tests/test_docs.py::test_help_names_what_is_public[diagnostics]",
    ),
    Mutant(
        "an example's step is for fewer rows than it says",
        "ewsg_jax/methods/_sgld.py",
        "ewsg.sgld(ewsg.models.logistic_regression(), 1e-5, batch_size=50)",
        "ewsg.sgld(ewsg.models.logistic_regression(), 1e-3, batch_size=50)",
        "tests/methods/test_documentation.py::test_the_step_of_the_example_goes_with_its_rows[sgld]",
    ),
    Mutant(
        "importance sampling: a prior too wide",
        "benchmarks/by_importance.py",
        "- 0.5 * (theta**2).sum(1)",
        "- 0.4 * (theta**2).sum(1)",
        "tests/test_rare_rows.py::test_importance_sampling_is_the_posterior",
    ),
    Mutant(
        "importance sampling: the law that separated weights are drawn from left out",
        "benchmarks/by_importance.py",
        "log_drawn += log_density",
        "log_drawn += 0 * log_density",
        "tests/test_rare_rows.py::test_importance_sampling_is_the_posterior",
    ),
    Mutant(
        "a page with another run's numbers",
        "docs/mass_and_rows.md",
        "| leverage | 0.08 |",
        "| uniform | 0.08 |",
        "tests/test_rare_rows.py::test_the_page_tells_its_numbers",
    ),
    Mutant(
        "an import as long as the library's own",
        "ewsg_jax/forecasting/near.py",
        "import numpy as np\n\n",
        "import numpy as np\nimport scipy.optimize\n\n",
        "tests/test_docs.py::test_import_is_light",
        sweep=True,
    ),
]
