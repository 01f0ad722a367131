"""Planted faults of the laws of rows, blocks and epochs, and of strata."""

from tests.faults.mutant import Mutant

G = "ewsg_jax/gradients/"
R = "ewsg_jax/rows/"
RL = "tests/gradients/test_row_laws.py::"
ST = "tests/gradients/test_stratified.py::"

MUTANTS = [
    Mutant(
        "strata: each row for n/b rows, whatever its stratum",
        "ewsg_jax/gradients/_stratified.py",
        "weight = sizes.astype(float) / jnp.maximum(seats, 1)",
        "weight = jnp.full(self.num_strata, num_rows(data) / self.batch_size)",
        "tests/dynamics/test_stationary_law_with_memory.py::test_strata[euler-labels1-seats1]",
    ),
    Mutant(
        "strata: rows of the largest label first",
        "ewsg_jax/gradients/_stratified.py",
        "jnp.argsort(label, stable=True)",
        "jnp.argsort(-label, stable=True)",
        "tests/dynamics/test_stationary_law_with_memory.py::test_strata[langevin-labels0-seats0]",
        sweep=True,
    ),
    Mutant(
        "blocks end at the last row",
        R + "blocks.py",
        "wrapped = jnp.maximum(0, start - last)",
        "wrapped = 0 * jnp.maximum(0, start - last)",
        RL + "test_blocks_are_the_cyclic_ones[3]",
    ),
    Mutant(
        "rows of a block do not go around",
        R + "blocks.py",
        "jnp.where(chosen, leaf[:batch_size], block)",
        "jnp.where(chosen, block, block)",
        RL + "test_blocks_are_the_cyclic_ones[4]",
        True,
    ),
    Mutant(
        "one permutation for all epochs",
        R + "epochs.py",
        "memory.number + ended",
        "memory.number + 0 * ended",
        RL + "test_every_row_comes_once_in_each_epoch[100-7]",
        True,
    ),
    Mutant(
        "a batch across epochs from one of them",
        R + "epochs.py",
        "place, n, number >= left)",
        "place, n, number < 0)",
        RL + "test_every_row_comes_once_in_each_epoch[5-3]",
        True,
    ),
    Mutant(
        "permutation without the epoch",
        "ewsg_jax/_random.py",
        "jax.random.fold_in(key, epoch + number)",
        "jax.random.fold_in(key, 0 * epoch + number)",
        RL + "test_epochs_and_keys_have_permutations_of_their_own",
        True,
    ),
    Mutant(
        "rounds without a key",
        "ewsg_jax/_random.py",
        "_mixed(right ^ rounds[..., number])",
        "_mixed(right)",
        RL + "test_every_place_has_every_row_as_often[7]",
        True,
    ),
    Mutant(
        "remainder instead of a walk",
        "ewsg_jax/_random.py",
        "jnp.where(outside(carry), encrypt(carry[0]), carry[0])",
        "encrypt(carry[0]) % num_rows",
        RL + "test_permuted_is_a_bijection[5]",
    ),
    Mutant(
        "epochs weighted",
        G + "_exponentially_weighted.py",
        "    if not estimator.exchangeable:",
        "    if not estimator.uses_batches:",
        RL + "test_epochs_cannot_be_weighted",
        True,
    ),
    Mutant(
        "epochs shared",
        "ewsg_jax/sampling/request.py",
        "(kernel.uses_batches and kernel.exchangeable)",
        "kernel.uses_batches",
        RL + "test_epochs_cannot_be_shared_between_chains",
        True,
    ),
    Mutant(
        "rows of strata in the data's order",
        G + "_stratified.py",
        "jnp.argsort(label, stable=True)",
        "jnp.arange(label.shape[0])",
        ST + "test_over_all_batches[logistic_regression-one each]",
        True,
    ),
    Mutant(
        "no row for a small stratum",
        G + "_stratified.py",
        "seats = (sizes > 0).astype(jnp.int32)",
        "seats = (sizes < 0).astype(jnp.int32)",
        ST + "test_allocation[2000-4-7]",
        True,
    ),
    Mutant(
        "seats by size, not by what is lacking",
        G + "_stratified.py",
        "jnp.where(sizes > 0, quota - seats, -jnp.inf)",
        "jnp.where(sizes > 0, quota / seats, -jnp.inf)",
        ST + "test_allocation[40-5-20]",
        True,
    ),
    Mutant(
        "a GPU looks after every walk",
        "ewsg_jax/_random.py",
        "cpu=one, default=several",
        "cpu=one, default=one",
        RL + "test_a_gpu_looks_less_often_and_finds_the_same[1025]",
    ),
]
