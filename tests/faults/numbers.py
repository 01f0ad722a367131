"""Planted faults at the edges of numbers: half precision, 2³¹ rows, products on accelerators, indices out of bounds."""

from tests.faults.mutant import Mutant

P = "ewsg_jax/posterior.py"
HALF = "tests/test_half_precision.py::"
PRODUCTS = "tests/test_products.py::"
INDEX = "tests/test_posterior.py::test_an_index_"
WRONG = "tests/wrong_calls/test_wrong_calls.py::test_a_wrong_call_is_answered"
FLYMC = "tests/exact/test_flymc.py::"

MUTANTS = [
    Mutant(
        "totals over chunks in the position's dtype",
        P,
        "            return _tree.widened(gradient)\n",
        "            return gradient\n",
        HALF + "test_a_sum_counts_on[any-bfloat16]",
    ),
    Mutant(
        "linear models: totals in the dtype of predictors",
        "ewsg_jax/products.py",
        "preferred_element_type=jnp.promote_types(dtype, jnp.float32)",
        "preferred_element_type=dtype",
        HALF + "test_gradients_of_rows_are_added_up_in_single[linear]",
        True,
    ),
    Mutant(
        "differentiation adds up as many rows as there are",
        P,
        "total = sum_over_rows(of_rows, part, HALF_PRECISION_ROWS)",
        "total = sum_over_rows(of_rows, part, num_rows(part))",
        HALF + "test_many_rows_in_one_differentiation",
        True,
    ),
    Mutant(
        "a batch is rounded before it is scaled",
        P,
        "total = total if weights is not None else _to_all_rows(total, indices.shape[0], data)",
        "total = _tree.in_dtypes_of(position, total)\n"
        "        total = total if weights is not None else _to_all_rows(total, indices.shape[0], data)",
        HALF + "test_a_batch_is_scaled_before_it_is_rounded[any-float16]",
        True,
    ),
    Mutant(
        "weights as float16 holds them",
        P,
        "largest = 1.0 if weights is None else jnp.maximum(jnp.max(jnp.abs(weights)), 1e-30)",
        "largest = 1.0",
        HALF + "test_a_batch_is_scaled_before_it_is_rounded[any-float16]",
        True,
    ),
    Mutant(
        "an anchor's gradient in half precision",
        "ewsg_jax/gradients/_svrg.py",
        "self.chunk_size, widened=True)",
        "self.chunk_size)",
        HALF + "test_an_estimate_is_rounded_once[linear-svrg]",
        True,
    ),
    Mutant(
        "log likelihoods as they come",
        P,
        "_tree.widened(jax.vmap(self.log_likelihood, (None, 0))(position, unpadded(rows)))",
        "jax.vmap(self.log_likelihood, (None, 0))(position, unpadded(rows))",
        HALF + "test_a_likelihood_in_half_precision_is_summed_in_single[bfloat16]",
    ),
    Mutant(
        "edges of bins in float32",
        "ewsg_jax/diagnostics/_calibration.py",
        ".astype(dtype).astype(confidence.dtype)",
        ".astype(confidence.dtype)",
        "tests/diagnostics/test_predictive.py::test_calibration_at_the_edges_of_bins[bfloat16]",
        True,
    ),
    Mutant(
        "any number of rows",
        "ewsg_jax/_check.py",
        "if n > MOST_ROWS:",
        "if n > 2**40:",
        WRONG + "[Kernel.bind: too many rows]",
    ),
    Mutant(
        "evaluations of a step that 32 bits do not hold",
        "ewsg_jax/pair.py",
        "most = cost.per_step + cost.per_refresh",
        "most = cost.per_step",
        WRONG + "[Kernel.init: a refresh that cannot be counted]",
        True,
    ),
    Mutant(
        "the offset of an epoch leaves 32 bits",
        "ewsg_jax/rows/epochs.py",
        "ended = self.batch_size >= left",
        "ended = memory.offset + self.batch_size >= num_rows(data)",
        "tests/gradients/test_row_laws.py::test_rows_near_the_end_of_32_bits",
        True,
    ),
    Mutant(
        "places of an epoch summed in 31 bits",
        "ewsg_jax/rows/epochs.py",
        "offset.astype(jnp.uint32) + places",
        "offset + places.astype(jnp.int32)",
        "tests/gradients/test_row_laws.py::test_rows_near_the_end_of_32_bits",
        True,
    ),
    Mutant(
        "flymc: long skips of one uniform number",
        "ewsg_jax/exact/bright_set.py",
        "    return 1 if probability >= LEAST_IN_ONE else 2\n",
        "    return 1\n",
        FLYMC + "test_the_last_rows_of_many_are_told_apart",
    ),
    Mutant(
        "flymc: the high part of a skip as if it were the whole",
        "ewsg_jax/exact/bright_set.py",
        "jnp.floor(high / (-rate * size))",
        "jnp.floor(high / -rate)",
        FLYMC + "test_a_long_skip_has_its_probability_to_the_resolution_of_uniform_numbers[1e-07-16777217]",
        True,
    ),
    Mutant(
        "flymc: a skip is capped in float32",
        "ewsg_jax/exact/bright_set.py",
        "jnp.minimum(_skips(log_uniforms, probability, n), jnp.uint32(n))",
        "jnp.minimum(_skips(log_uniforms, probability, n).astype(jnp.float32), n).astype(jnp.uint32)",
        FLYMC + "test_the_last_rows_of_many_are_told_apart",
        True,
    ),
    Mutant(
        "flymc: all that brightened is selected in the move back",
        "ewsg_jax/exact/bright_set.py",
        "back = brightened & (randomness.brighten <= log_accept + log_q)",
        "back = brightened & (randomness.brighten <= log_accept)",
        FLYMC + "test_what_does_not_fit_is_told_and_changes_no_set[4-2-1.0]",
    ),
    Mutant(
        "products of JAX's default precision",
        "ewsg_jax/products.py",
        "matmul = functools.partial(jnp.matmul, precision=jax.lax.Precision.HIGHEST)",
        "matmul = jnp.matmul",
        PRODUCTS + "test_a_step_of_every_method[sgld-options2]",
    ),
    Mutant(
        "a linear model's own product",
        "ewsg_jax/linear.py",
        "products.matmul(x, position)",
        "x @ position",
        PRODUCTS + "test_every_ready_model[linear_regression]",
        True,
    ),
    Mutant(
        "indices are not looked at",
        P,
        "        if found is not None:\n",
        "        if found is not None and self.predictor is not None:\n",
        INDEX + "out_of_bounds_is_refused[a number]",
    ),
    Mutant(
        "indices are looked at where a likelihood says what is beyond",
        "ewsg_jax/indexing.py",
        "isinstance(mode, jax.lax.GatherScatterMode) and mode != in_bounds for mode in modes",
        "mode == 0 for mode in modes",
        INDEX + "that_is_meant_is_not_refused[filled]",
        True,
    ),
    Mutant(
        "programs inside a likelihood are not searched for indices",
        "ewsg_jax/indexing.py",
        "                yield from _equations(inner)\n",
        "                yield from ()\n",
        INDEX + "out_of_bounds_is_refused[compiled]",
        True,
    ),
]
