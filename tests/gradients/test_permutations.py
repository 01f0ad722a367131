"""Permutations of the rows by keys: one to one at any size, and as probable as they should be."""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ewsg_jax.base import rng
from tests.gradients.test_row_laws import SIZES


@functools.cache
def permutations(n, num_keys=200, num_epochs=20):
    """Permutations of n rows for many keys and epochs, (keys, epochs, n)."""

    @jax.jit
    def every(key):
        keys = jax.random.bits(key, (num_keys, 1, 2), jnp.uint32)
        epochs = jnp.arange(num_epochs, dtype=jnp.int32)
        one = lambda words, epoch: rng.permuted(words, epoch, jnp.arange(n, dtype=jnp.int32), n)
        return jnp.vectorize(one, signature="(w),()->(n)")(keys, epochs)

    found = every(jax.random.key(n))
    assert found.dtype == jnp.int32
    return np.asarray(found)


@pytest.mark.usual_parameters("1", "7", "16")
@pytest.mark.parametrize("n", SIZES)
def test_permuted_is_a_bijection(n):
    found = permutations(n) if n < 1000 else permutations(n, 40, 10)
    np.testing.assert_array_equal(
        np.sort(found, axis=2), np.broadcast_to(np.arange(n), found.shape)
    )


@pytest.mark.full
@pytest.mark.parametrize("n", [7, 1025])
def test_a_gpu_looks_less_often_and_finds_the_same(monkeypatch, n):
    """The host is asked there whether all walks ended. Here Python loops, and looks are counted."""
    words, places = jnp.array([1, 2], jnp.uint32), jnp.arange(n, dtype=jnp.int32)
    looks = []

    def loop(goes_on, turn, carry):
        looks[-1] += 1
        return loop(goes_on, turn, turn(carry)) if goes_on(carry) else carry

    monkeypatch.setattr(jax.lax, "while_loop", loop)
    found = []
    for platform in ("cpu", "default"):
        chosen = lambda *arguments, platform=platform, **branches: branches[platform](*arguments)
        monkeypatch.setattr(jax.lax, "platform_dependent", chosen)
        looks.append(0)
        found.append(np.asarray(rng.permuted(words, jnp.int32(3), places, n)))
    np.testing.assert_array_equal(*found)
    one, several = (count - 1 for count in looks)
    assert one > 2
    assert several == -(-one // rng.WALKS_PER_TURN)


@pytest.mark.parametrize("n", [400_000, 2**20, 2**20 + 1, 2**31 - 1])
def test_permuted_is_one_to_one_at_any_size(n):
    """Too many to list: 4096 places lead to as many rows, near the ends of the range too."""
    places = np.unique(np.linspace(0, n - 1, 4096).astype(np.int64)).astype(np.int32)
    rows = np.asarray(
        jax.jit(lambda p: rng.permuted(jnp.arange(2, dtype=jnp.uint32), jnp.int32(3), p, n))(places)
    )
    assert len(np.unique(rows)) == len(places) == 4096
    assert rows.min() >= 0
    assert rows.max() < n
    # Sorted and divided by n they would be uniform: 1.95/√4096, the level 1e-3 of Kolmogorov and
    # Smirnov.
    assert np.abs(np.sort(rows) / n - (np.arange(4096) + 0.5) / 4096).max() < 1.95 / 64


@pytest.mark.full
def test_epochs_and_keys_have_permutations_of_their_own():
    """Of 100 rows, 200 keys, 20 epochs: all 4000 differ; two agree in 1 place on average."""
    found = permutations(100).reshape(-1, 100)
    assert len(np.unique(found, axis=0)) == len(found)
    pairs = {"next epoch": (found[:-1], found[1:]), "next key": (found[:-20], found[20:])}
    for name, (a, b) in pairs.items():
        agreements = (a == b).sum(axis=1)
        # The fixed points of a uniform permutation: mean and variance 1.
        assert abs(agreements.mean() - 1) < 5 / np.sqrt(len(a)), name
    fixed = (found == np.arange(100)).sum(axis=1)
    assert abs(fixed.mean() - 1) < 5 / np.sqrt(len(found))


# 1 − 10⁻⁶ quantiles of χ², by degrees of freedom, from tables.
CHI_SQUARE = {1: 23.93, 2: 27.63, 4: 33.38, 6: 38.26, 15: 56.49, 23: 70.55}


def chi_square(counts, expected):
    return np.sum((counts - expected) ** 2 / expected)


def number_of(permutation):
    """Each permutation of four rows as a number from 0 to 23."""
    codes = permutation @ np.array([64, 16, 4, 1])
    listed = np.sort(np.array(list(itertools.permutations(range(4)))) @ np.array([64, 16, 4, 1]))
    return np.searchsorted(listed, codes)


def feistel_law(rounds):
    """The law of permutations of four rows by so many rounds of ideal functions {0,1} → {0,1}."""
    law = {(0, 1, 2, 3): 1.0}
    for _ in range(rounds):
        after = {}
        for permutation, probability in law.items():
            for function in itertools.product((0, 1), repeat=2):
                new = tuple((x & 1) << 1 | (x >> 1) ^ function[x & 1] for x in permutation)
                after[new] = after.get(new, 0) + probability / 4
        law = after
    numbers = number_of(np.array(list(law)))
    return np.array([p for _, p in sorted(zip(numbers, law.values(), strict=True))])


def test_permutations_of_four_rows_have_the_law_of_the_rounds():
    """Which differs from the uniform one by a factor within 1 ± 4/2^rounds: 1.6 per cent for eight.

    On four places every round is an affine map, so that the rounds mix slower than anywhere else.
    """
    law = feistel_law(rng.FEISTEL_ROUNDS)
    assert np.abs(24 * law - 1).max() <= 4 / 2**rng.FEISTEL_ROUNDS
    counts = np.bincount(number_of(permutations(4, 500_000, 1)[:, 0]), minlength=24)
    assert chi_square(counts, 500_000 * law) < CHI_SQUARE[23]


@pytest.mark.parametrize("n", [2, 3, 5, 7, 16])
def test_every_place_has_every_row_as_often(n):
    """1 in n over 4000 keys and epochs; where n is no power of four walks are along cycles."""
    found = permutations(n).reshape(-1, n)
    for place in range(n):
        counts = np.bincount(found[:, place], minlength=n)
        assert chi_square(counts, len(found) / n) < CHI_SQUARE[n - 1], place


@pytest.mark.sweep
@pytest.mark.parametrize("n", [3, 5, 7, 9])
def test_the_bias_of_a_place_is_small(n):
    """P(row at place) is 1/n within 3 per cent, six sds of 1,000,000 keys apart from it."""
    found = permutations(n, 1_000_000, 1)[:, 0]
    shares = (
        np.stack([np.bincount(found[:, place], minlength=n) for place in range(n)]) * n / 1_000_000
    )
    assert np.abs(shares - 1).max() < 0.03 + 6 * np.sqrt((n - 1) / 1_000_000)
