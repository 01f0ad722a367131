"""Planted faults of keys, noise and row numbers."""

from tests.faults.mutant import Mutant

MUTANTS = [
    Mutant(
        "one key for all dtypes",
        "ewsg_jax/_random.py",
        "own = key if len(dtypes) == 1 else jax.random.fold_in(key, number)",
        "own = key",
        "tests/test_random.py::test_no_number_of_the_noise_is_used_twice[gaussian]",
    ),
    Mutant(
        "one part of the noise for all leaves",
        "ewsg_jax/_random.py",
        "zip(places, jnp.split(flat, list(itertools.accumulate(sizes))[:-1]), strict=True)",
        "zip(places, [flat[:size] for size in sizes], strict=True)",
        "tests/dynamics/test_protocol.py::test_noise_depends_on_the_key_alone_and_every_number_has_its_own[exact-gaussian]",
    ),
    Mutant(
        "noise always float32",
        "ewsg_jax/_random.py",
        "flat = draw(own, (sum(sizes),), dtype)",
        "flat = draw(own, (sum(sizes),), jnp.float32)",
        "tests/dynamics/test_protocol.py::test_tree_and_dtypes_are_kept_and_steps_are_counted[langevin-bfloat16-False]",
        sweep=True,
    ),
    Mutant(
        "one key for batch and noise",
        "ewsg_jax/pair.py",
        "self.estimator.draw(batch, data)",
        "self.estimator.draw(noise, data)",
        "tests/test_contract.py::test_keys_are_used_once[sgld-True-random]",
    ),
    Mutant(
        "all chains share their randomness",
        "ewsg_jax/sampling/starts.py",
        "lambda chain: jax.random.fold_in(key, chain)",
        "lambda chain: jax.random.fold_in(key, 0 * chain)",
        "tests/test_contract.py::test_sample_is_stepping[ld]",
    ),
    Mutant(
        "rows: index off by one",
        "ewsg_jax/_random.py",
        "return high.astype(jnp.int32)",
        "return high.astype(jnp.int32) + 1",
        "tests/test_random.py::test_one_word_gives_every_row_its_share[7]",
        sweep=True,
    ),
    Mutant(
        "Floyd: the last row of a range is never drawn",
        "ewsg_jax/_random.py",
        "scaled(words[:, k], (last + 1).astype(jnp.uint32))",
        "scaled(words[:, k], last.astype(jnp.uint32))",
        "tests/test_random.py::test_floyds_subset_is_uniform[5-2]",
    ),
    Mutant(
        "Floyd: a repeat is kept",
        "ewsg_jax/_random.py",
        "jnp.where(jnp.any(chosen == row), last, row)",
        "row",
        "tests/test_random.py::test_rows_without_replacement_are_floyds[100-37]",
        sweep=True,
    ),
    Mutant(
        "rows: the carry is dropped",
        "ewsg_jax/_random.py",
        "high = high + (total < low).astype(jnp.uint32)",
        "high = high + jnp.uint32(0)",
        "tests/test_random.py::test_two_words_give_every_row_its_share[2147483647]",
        sweep=True,
    ),
    Mutant(
        "one key for batch and noise of a step",
        "ewsg_jax/pair.py",
        "self.dynamics.draw(noise, state.dynamics)",
        "self.dynamics.draw(batch, state.dynamics)",
        "tests/test_random.py::test_batch_and_noise_have_different_keys",
    ),
    Mutant(
        "one bit for two signs",
        "ewsg_jax/_random.py",
        "jnp.arange(32, dtype=jnp.uint32)) & 1",
        "jnp.arange(32, dtype=jnp.uint32) // 2) & 1",
        "tests/test_random.py::test_signs_are_the_bits_of_the_words[shape2]",
    ),
    Mutant(
        "row numbers: a carry is lost",
        "ewsg_jax/_random.py",
        "cross = (middle & mask) + a_low * b_high",
        "cross = a_low * b_high",
        "tests/test_random.py::test_one_word_against_whole_numbers[399999]",
    ),
]
