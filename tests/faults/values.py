"""Planted faults of parts as values."""

from tests.faults.mutant import Mutant

VALUES = "tests/test_values.py::"
FRESH = "tests/test_freshness.py::"

MUTANTS = [
    Mutant(
        "numbers do not count where parts are compared",
        "ewsg_jax/_module.py",
        "return structure == other_structure and all(map(is_same, mine, others))",
        "return structure == other_structure",
        VALUES + "test_methods_are_equal_by_value[sghmc]",
    ),
    Mutant(
        "classes of one shape are one",
        "ewsg_jax/_module.py",
        "    jax.tree_util.register_pytree_with_keys(made, flatten_with_keys, unflatten, flatten)\n",
        "    jax.tree_util.register_dataclass(made, leaves, statics)\n",
        VALUES + "test_structures_of_other_classes_are_others",
    ),
    Mutant(
        "a schedule is worked out once",
        "ewsg_jax/dynamics/protocol.py",
        "if self.constants is not None or any(isinstance(x, Schedule) for x in parts):",
        "if self.constants is not None:",
        VALUES + "test_a_schedule_is_not_worked_out_once",
    ),
    Mutant(
        "coefficients that change without a schedule",
        "ewsg_jax/dynamics/_langevin.py",
        "return Coefficients(-h, xp.sqrt(2 * h * t), xp.sqrt(h / (2 * t)))",
        "return Coefficients(-h, xp.sqrt(2 * h * t) * (2 - (step > 0)), xp.sqrt(h / (2 * t)))",
        VALUES + "test_a_kernel_is_an_argument_a_constant_or_one_of_a_stack[sgld]",
    ),
    Mutant(
        "a run compiles for each kernel",
        "ewsg_jax/sampling/chunks.py",
        'static_argnames=("layout", "guarded", "counted")',
        'static_argnames=("kernel", "layout", "guarded", "counted")',
        VALUES + "test_a_second_step_size_and_a_second_equal_model_compile_nothing",
    ),
    Mutant(
        "ready models are known by identity",
        "ewsg_jax/models/priors.py",
        "@dataclass(frozen=True)\nclass NormalPrior",
        "@dataclass(frozen=True, eq=False)\nclass NormalPrior",
        VALUES + "test_ready_models_are_equal_by_value[gaussian_location]",
    ),
    Mutant(
        "a number of NumPy's is another",
        "ewsg_jax/_module.py",
        "return float(value) if isinstance(value, int | float | np.generic | np.ndarray) else value",
        "return value",
        VALUES + "test_methods_are_equal_by_value[ld]",
    ),
    Mutant(
        "the text forgets the law of rows",
        "ewsg_jax/gradients/protocol.py",
        "| named | law.named()",
        "| named",
        VALUES + "test_the_text_of_a_part_is_its_call[saga(posterior=normal(prior_scale=2.0), batch_size=2, "
        "replace=False)]",
    ),
    Mutant(
        "posteriors of other priors are one",
        "ewsg_jax/posterior.py",
        "return self.log_likelihood, self.log_prior, self.predictor, self.bound, self.check_values",
        "return self.log_likelihood, self.predictor, self.bound, self.check_values",
        VALUES + "test_ready_models_are_equal_by_value[normal]",
    ),
    Mutant(
        "a kernel prints all numbers of its centre",
        "ewsg_jax/_module.py",
        "arrays > MOST_ARRAYS or",
        "arrays > 10 * MOST_ARRAYS or",
        "tests/test_values.py::test_texts_of_what_has_no_call",
    ),
    Mutant(
        "what functions read is no part of a program's key",
        "ewsg_jax/freshness.py",
        "if version is not None)",
        "if version == 0)",
        FRESH + "test_a_run_has_the_value_of_its_time[of_dictionary]",
    ),
    Mutant(
        "what tracing changes is a change",
        "ewsg_jax/freshness.py",
        "versions.of.setdefault(read.digest, version)",
        "versions.of",
        FRESH + "test_what_tracing_changes_is_no_change",
    ),
    Mutant(
        "equal objects have one program whatever they hold",
        "ewsg_jax/freshness.py",
        "versions = _Versions(None if equals_others else read.digest)",
        "versions = _Versions(read.digest)",
        FRESH + "test_equal_objects_have_their_own_values",
    ),
    Mutant(
        "functions inside have no version of their own",
        "ewsg_jax/freshness.py",
        "for read in [*reader.functions.values(), *found]",
        "for read in found",
        FRESH + "test_a_function_that_is_seen_first_after_a_change",
    ),
    Mutant(
        "a class is read without its attributes",
        "ewsg_jax/reading.py",
        "            self._add(page, (kind,), attributes)\n",
        "            pass\n",
        FRESH + "test_a_run_has_the_value_of_its_time[of_class]",
    ),
]
