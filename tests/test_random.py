"""Row numbers and noise: laws shown by arithmetic over all words, not by sampling."""

import functools
import itertools
import math
from collections import Counter

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ewsg_jax as ewsg
from ewsg_jax.base import pytrees
from ewsg_jax.base import rng as random_module
from ewsg_jax.kernels import own_parts
from tests.parts import altered

ONE_WORD = [1, 2, 3, 7, 1000, 399_999, 400_000]
TWO_WORDS = [400_001, 464_809, 2**31 - 1]


def words_per_index(num_rows):
    return 1 if num_rows <= 400_000 else 2


def scaled(words, bound):
    """`_random.scaled` on Python integers of 32 or 64 bits (`bound` tells which) as NumPy int64."""
    words = np.asarray(words, dtype=object)
    parts = [words] if words_per_index(bound) == 1 else [words >> 32, words & 0xFFFFFFFF]
    return np.asarray(
        random_module.scaled(jnp.asarray(np.stack(parts).astype(np.uint32)), jnp.uint32(bound))[0],
        np.int64,
    )


def first_word(row, bound, bits):
    """The least word w with ⌊w·bound / 2^bits⌋ = row: ⌈row·2^bits / bound⌉."""
    return -((-row << bits) // bound)


def words_of(key, num_rows, batch_size):
    """The words `_random.rows` draws, as Python integers."""
    words = np.asarray(jax.random.bits(key, (words_per_index(num_rows), batch_size), jnp.uint32))
    return [sum(int(w) << 32 * k for k, w in enumerate(reversed(column))) for column in words.T]


def floyd(words, num_rows, bits):
    """Floyd's subset of `len(words)` rows in Python integers (Bentley & Floyd 1987, F2)."""
    chosen = []
    for word, last in zip(words, range(num_rows - len(words), num_rows), strict=True):
        row = word * (last + 1) >> bits
        chosen.append(last if row in chosen else row)
    return chosen


# One row number from one word or two.


@pytest.mark.usual_parameters("3", "1000")
@pytest.mark.parametrize("n", ONE_WORD)
def test_one_word_gives_every_row_its_share(n):
    """⌊w·n / 2³²⌋ grows with w: a row's words lie between its first and the next one's."""
    first = np.array([first_word(row, n, 32) for row in range(n + 1)], object)
    np.testing.assert_array_equal(scaled(first[:-1], n), np.arange(n))
    np.testing.assert_array_equal(scaled(first[1:] - 1, n), np.arange(n))
    assert (first[0], first[-1]) == (0, 2**32)
    # count / 2³² within (1/n)(1 ± n/2³²), in whole numbers
    counts = np.diff(first)
    assert np.abs(counts * n - 2**32).max() <= n


@pytest.mark.parametrize("n", ONE_WORD)
def test_one_word_against_whole_numbers(n):
    words = np.random.default_rng(n).integers(2**32, size=100_000, dtype=np.uint64)
    rows = scaled(words, n)
    np.testing.assert_array_equal(rows, (words * np.uint64(n)) >> np.uint64(32))
    assert np.all(np.diff(rows[np.argsort(words)]) >= 0)


@pytest.mark.parametrize("n", TWO_WORDS)
def test_two_words_against_whole_numbers(n):
    rng = np.random.default_rng(n)
    high, low = (rng.integers(2**32, size=20_000, dtype=np.uint64).astype(object) for _ in range(2))
    edges = np.array([0, 1, 2**32 - 1, 2**32, 2**63, 2**64 - 1], object)
    words = np.concatenate([high << 32 | low, edges])
    np.testing.assert_array_equal(scaled(words, n), (words * n >> 64).astype(np.int64))


@pytest.mark.parametrize("n", TWO_WORDS)
def test_two_words_give_every_row_its_share(n):
    """Checked at the first and the last word of rows at both ends, in the middle and at random."""
    some = np.random.default_rng(n).integers(n, size=5_000).tolist()
    rows = np.array([0, 1, n // 2, n - 2, n - 1, *some], object)
    first, last = (
        np.array([first_word(row + k, n, 64) - k for row in rows], object) for k in (0, 1)
    )
    np.testing.assert_array_equal(scaled(first, n), rows.astype(np.int64))
    np.testing.assert_array_equal(scaled(last, n), rows.astype(np.int64))
    assert first[0] == 0
    assert last[4] == 2**64 - 1
    # count / 2⁶⁴ within (1/n)(1 ± n/2⁶⁴), in whole numbers
    counts = last - first + 1
    assert np.abs(counts * n - 2**64).max() <= n


def test_the_second_word_starts_above_the_limit():
    assert random_module.ONE_WORD_LIMIT == 400_000
    words = [
        random_module.index_words(jax.random.key(0), n, 3)
        for n in (1, 399_999, 400_000, 400_001, 2**31 - 1)
    ]
    assert [len(each) for each in words] == [1, 1, 1, 2, 2]


# Batches of rows.


@pytest.mark.parametrize("n", [1, 7, 400_000, 400_001, 2**31 - 1])
def test_rows_with_replacement_are_scaled_words(n):
    key, bits = jax.random.key(n), 32 * words_per_index(n)
    rows = random_module.rows(key, n, 50)
    assert rows.dtype == jnp.int32
    assert rows.tolist() == [word * n >> bits for word in words_of(key, n, 50)]


@pytest.mark.usual_parameters("5-2", "400001-50")
@pytest.mark.parametrize(
    ("n", "batch_size"),
    [
        (1, 1),
        (5, 2),
        (6, 6),
        (100, 37),
        (1000, 1000),
        (400_000, 50),
        (400_001, 50),
        (2**31 - 1, 50),
    ],
)
def test_rows_without_replacement_are_floyds(n, batch_size):
    keys = jax.random.split(jax.random.key(batch_size), 20)
    rows = jax.jit(jax.vmap(lambda key: random_module.rows(key, n, batch_size, replace=False)))(
        keys
    )
    assert rows.dtype == jnp.int32
    for key, chosen in zip(keys, rows.tolist(), strict=True):
        bits = 32 * words_per_index(n)
        assert chosen == floyd(words_of(key, n, batch_size), n, bits)
        assert len(set(chosen)) == batch_size
        assert min(chosen) >= 0
        assert max(chosen) < n


@pytest.mark.usual_parameters("6-3", "4-4")
@pytest.mark.parametrize(("n", "batch_size"), [(5, 1), (5, 2), (6, 3), (4, 4)])
def test_floyds_subset_is_uniform(monkeypatch, n, batch_size):
    """Draw k is uniform on 0 … n−b+k; over all those sequences every subset comes b! times."""
    bounds = [n - batch_size + k + 1 for k in range(batch_size)]
    sequences = list(itertools.product(*map(range, bounds)))
    words = [
        [first_word(t, m, 32) for t, m in zip(draws, bounds, strict=True)] for draws in sequences
    ]

    def rows(given):
        monkeypatch.setattr(jax.random, "bits", lambda key, shape, dtype: given.reshape(shape))
        return random_module.rows(None, n, batch_size, replace=False)

    chosen = jax.vmap(rows)(jnp.asarray(np.array(words, np.uint32))).tolist()
    assert chosen == [floyd(w, n, 32) for w in words]
    counts = Counter(map(frozenset, chosen))
    subsets = set(map(frozenset, itertools.combinations(range(n), batch_size)))
    assert set(counts) == subsets
    assert set(counts.values()) == {len(sequences) // len(subsets)}


@pytest.mark.parametrize("replace", [True, False])
def test_cost_of_a_batch_does_not_depend_on_n(monkeypatch, replace):
    shapes = []
    bits = jax.random.bits
    monkeypatch.setattr(
        jax.random,
        "bits",
        lambda key, shape, dtype: shapes.append(shape) or bits(key, shape, dtype),
    )
    lines = []
    for n in (1_000, 100_000, 500_000, 2**31 - 1):
        draw = functools.partial(random_module.rows, num_rows=n, batch_size=20, replace=replace)
        lines.append(jax.jit(draw).lower(jax.random.key(0)).as_text().count("\n"))
    assert shapes == [(1, 20), (1, 20), (2, 20), (2, 20)]
    assert lines[0] == lines[1]
    assert lines[2] == lines[3]


# Keys of a kernel: what it hands to its parts, seen through parts whose draw is their key.


def test_batch_and_noise_have_different_keys(monkeypatch):
    # A key in the place of a batch is what no own estimator may draw.
    monkeypatch.setattr(own_parts, "check_step", lambda *_: None)
    dynamics = ewsg.dynamics.semi_implicit(0.1, friction=1.0)
    estimator = ewsg.gradients.uniform(ewsg.models.gaussian_location(), batch_size=1)
    memory_keys, dynamics_keys = [], []
    kernel = ewsg.kernel(
        altered(
            dynamics,
            init=lambda key, position: dynamics_keys.append(key) or dynamics.init(key, position),
            draw=lambda key, state: key,
        ),
        altered(
            estimator,
            init=lambda key, position, data: memory_keys.append(key) or (),
            draw=lambda key, data, order: key,
        ),
    )
    key, data = jax.random.key(0), jnp.zeros((3, 1))
    state = kernel.init(key, jnp.zeros(1), data)
    for keys in ([key, *dynamics_keys, *memory_keys], [key, *kernel.draw(key, state, data)]):
        assert len({tuple(jax.random.key_data(k).tolist()) for k in keys}) == 3


# Noise and uniforms.

TREE = {
    "a": np.zeros((3, 2), np.float32),
    "b": (np.zeros((3, 2), np.float32), None),
    "c": np.zeros(()),
}


@pytest.mark.parametrize("law", random_module.NOISE_KINDS)
def test_noise_keeps_tree_shapes_and_dtypes(x64, law):
    noise = random_module.noise(jax.random.key(0), TREE, law)
    assert jax.tree.structure(noise) == jax.tree.structure(TREE)
    assert noise["b"][1] is None
    like = lambda tree: [(x.shape, x.dtype) for x in jax.tree.leaves(tree)]
    assert like(noise) == like(TREE)
    abstract = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype), TREE)
    jax.tree.map(
        np.testing.assert_array_equal, noise, random_module.noise(jax.random.key(0), abstract, law)
    )


@pytest.mark.parametrize("law", random_module.NOISE_KINDS)
def test_no_number_of_the_noise_is_used_twice(x64, monkeypatch, law):
    """One draw and one key for each dtype, and every leaf its own part of it."""
    name = "normal" if law == "gaussian" else "bits"
    draw, key, seen = getattr(jax.random, name), jax.random.key(0), []
    data = lambda key: tuple(jax.random.key_data(key).tolist())
    monkeypatch.setattr(
        jax.random, name, lambda key, *rest: seen.append(data(key)) or draw(key, *rest)
    )
    noise = jax.tree.leaves(random_module.noise(key, TREE, law))
    assert len(seen) == 2
    assert len({data(key), *seen}) == 3
    whole = draw_of(law)(jax.random.fold_in(key, 0), (12,), np.float32)
    np.testing.assert_array_equal(np.concatenate([np.ravel(x) for x in noise[:2]]), whole)
    if law == "gaussian":
        assert len(np.unique(np.concatenate([np.ravel(x) for x in noise]))) == 13


def draw_of(law):
    draws = {"rademacher": random_module.signs, "moment_matched": random_module.matched}
    return draws.get(law, jax.random.normal)


def all_bytes(monkeypatch, dtype):
    """The values of `matched` for words that hold every byte once, as drawn numbers."""
    words = jnp.asarray(np.arange(256, dtype=np.uint8).view("<u4"))
    monkeypatch.setattr(jax.random, "bits", lambda key, shape, dtype: words.reshape(shape))
    return random_module.matched(jax.random.key(0), (256,), dtype)


def test_matched_numbers_have_the_first_seven_moments_of_a_gaussian(x64, monkeypatch):
    """Over all bytes: odd moments are 0 by symmetry; the distribution function is as it says."""
    values = np.sort(np.asarray(all_bytes(monkeypatch, np.float64)))
    np.testing.assert_allclose(values, -values[::-1], atol=1e-14)
    for power, moment in ((2, 1), (4, 3), (6, 15)):
        assert np.mean(values**power) == pytest.approx(moment, rel=1e-13)
    assert np.mean(values**8) == pytest.approx(95, abs=0.5)
    assert len(np.unique(values)) == 256
    assert 2.9 < values[-1] < 2.91
    normal = np.array([(1 + math.erf(x / 2**0.5)) / 2 for x in values])
    below = np.arange(256) / 256
    assert max(abs(normal - below).max(), abs(normal - below - 1 / 256).max()) < 0.023


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_matched_numbers_are_those_of_float64_rounded(monkeypatch, dtype):
    with jax.enable_x64(True):
        exact = np.asarray(all_bytes(monkeypatch, np.float64))
    drawn = all_bytes(monkeypatch, jnp.dtype(dtype))
    assert drawn.dtype == dtype
    eps = float(jnp.finfo(dtype).eps)
    np.testing.assert_allclose(np.asarray(drawn, np.float64), exact, rtol=4 * eps, atol=8e-7)


@pytest.mark.parametrize("shape", [(), (1,), (5, 13)])
def test_matched_numbers_take_each_byte_of_a_word_once(x64, shape):
    """Number i is byte i mod 4 of word ⌊i / 4⌋, the lowest first."""
    key, count = jax.random.key(7), int(np.prod(shape))
    words = np.asarray(jax.random.bits(key, (-(-count // 4),), jnp.uint32))
    levels = words.astype("<u4").view(np.int8)[:count] + 0.5
    drawn = random_module.matched(key, shape, jnp.float64)
    assert drawn.shape == shape
    # The polynomial is increasing, so ranks are those of the levels.
    found, expected = np.ravel(drawn), levels / 128
    np.testing.assert_array_equal(np.sign(found), np.sign(expected))
    np.testing.assert_array_equal(
        np.argsort(found, kind="stable"), np.argsort(expected, kind="stable")
    )


def test_noise_has_its_law():
    """Fixed keys, the same numbers: moments of 10⁶ draws within five standard errors."""
    like = np.zeros(10**6, np.float32)
    gaussian = np.asarray(random_module.noise(jax.random.key(0), like), np.float64)
    for power, moment, variance in ((1, 0, 1), (2, 1, 2), (3, 0, 15), (4, 3, 96)):
        assert abs(np.mean(gaussian**power) - moment) < 5 * np.sqrt(variance) / 1e3
    signs = np.asarray(random_module.noise(jax.random.key(1), like, "rademacher"))
    assert set(signs.tolist()) == {-1.0, 1.0}
    assert abs(np.mean(signs, dtype=np.float64)) < 5e-3


@pytest.mark.usual_parameters("shape1", "shape4")
@pytest.mark.parametrize("shape", [(), (1,), (32,), (33,), (5, 13)])
def test_signs_are_the_bits_of_the_words(shape):
    """Number i is the bit i mod 32 of word ⌊i / 32⌋, none used twice; unpacked in NumPy."""
    key, count = jax.random.key(7), int(np.prod(shape))
    words = np.asarray(jax.random.bits(key, (-(-count // 32), 1), jnp.uint32)).ravel()
    expected = [1.0 - 2.0 * ((int(words[i // 32]) >> (i % 32)) & 1) for i in range(count)]
    signs = random_module.signs(key, shape, jnp.float32)
    assert signs.shape == shape
    np.testing.assert_array_equal(np.ravel(signs), expected)


def test_noise_of_an_empty_tree():
    assert random_module.noise(jax.random.key(0), {"a": None}) == {"a": None}


def test_log_uniform_is_finite_at_both_ends(monkeypatch):
    """`jax.random.uniform` gives numbers from 0 up to the last float below 1."""
    ends = jnp.array([0.0, np.nextafter(np.float32(1), np.float32(0))])
    monkeypatch.setattr(jax.random, "uniform", lambda key, shape: ends)
    logs = np.asarray(random_module.log_uniform(jax.random.key(0), (2,)))
    np.testing.assert_allclose(logs, [0.0, -24 * np.log(2)], rtol=1e-6)


def test_log_uniform_has_its_law():
    """Distance of 10⁵ draws at a fixed key from the exponential law: Kolmogorov's, 1e-6 level."""
    n = 10**5
    logs = np.asarray(random_module.log_uniform(jax.random.key(3), (n,)), np.float64)
    assert logs.max() <= 0
    assert np.isfinite(logs).all()
    distance = np.abs(np.sort(np.exp(logs)) - (np.arange(n) + 0.5) / n).max()
    assert distance < 2.7 / np.sqrt(n)


def test_num_bytes():
    tree = {"a": jax.ShapeDtypeStruct((5, 3), jnp.int32), "b": (jnp.zeros(7, jnp.float16), None)}
    assert pytrees.num_bytes(tree) == 5 * 3 * 4 + 7 * 2


def test_keys_of_small_programs_are_those_of_jax():
    key = jax.random.key(5)
    data = jax.random.key_data
    np.testing.assert_array_equal(
        data(random_module.folded(key, 70)), data(jax.random.fold_in(key, 70))
    )
    for shape in (4, (1, 3)):
        theirs = jax.random.split(key, shape)
        np.testing.assert_array_equal(data(random_module.split(key, shape)), data(theirs))
