"""Samples in files: everything comes back, and a write that fails leaves what was there."""

import dataclasses
import json
from typing import NamedTuple

import equinox as eqx
import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax.core import freeze

import ewsg_jax as ewsg
from ewsg_jax.sampling import archive
from tests.sampling import saved_runs

KEY = jax.random.key(1)
DATA = jnp.arange(12.0).reshape(6, 2)


class Parameters(NamedTuple):
    mean: jax.Array
    scale: jax.Array


def posterior(mean):
    return ewsg.Posterior(
        lambda p, x: -0.5 * jnp.sum((x - mean(p)) ** 2),
        lambda p: -0.5 * sum(jnp.sum(x**2) for x in jax.tree.leaves(p)),
    )


def run(position, mean, num_steps=12, **options):
    kernel = ewsg.ewsg(posterior(mean), 1e-2, friction=1.0, batch_size=2)
    return kernel, ewsg.sample(KEY, kernel, position, DATA, num_steps, num_chains=2, **options)


def same(a, b):
    """Equal field by field: structure, dtype, bits."""
    for field in dataclasses.fields(a):
        one, other = getattr(a, field.name), getattr(b, field.name)
        if dataclasses.is_dataclass(one):
            same(one, other)
            continue
        assert jax.tree.structure(one) == jax.tree.structure(other), field.name
        for x, y in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
            assert type(x) is type(y) or isinstance(x, jax.Array) == isinstance(y, jax.Array), field.name
            np.testing.assert_array_equal(np.asarray(x), np.asarray(y), err_msg=field.name)
            assert np.asarray(x).dtype == np.asarray(y).dtype, field.name


MLP, STATIC = eqx.partition(eqx.nn.MLP(2, 2, 3, 1, key=KEY), eqx.is_inexact_array)
DENSE = nn.Dense(2)
PARAMETERS = DENSE.init(KEY, jnp.ones(2))
POSITIONS = {
    "array": (jnp.zeros(2), lambda p: p, False),
    "bfloat16": (jnp.zeros(2, jnp.bfloat16), lambda p: p.astype(jnp.float32), False),
    "dictionary": (
        {"a": jnp.zeros(2), "b": {3: [jnp.ones(()), (None, jnp.zeros(1))]}},
        lambda p: p["a"] * p["b"][3][0],
        False,
    ),
    "named tuple": (Parameters(jnp.zeros(2), jnp.ones(())), lambda p: p.mean * p.scale, True),
    "flax": (PARAMETERS, lambda p: DENSE.apply(p, jnp.ones(2)), False),
    "flax, frozen": (freeze(PARAMETERS), lambda p: DENSE.apply(p, jnp.ones(2)), True),
    "network": (MLP, lambda p: eqx.combine(p, STATIC)(jnp.ones(2)), True),
}


@pytest.mark.parametrize("kind", POSITIONS)
def test_everything_comes_back(tmp_path, kind):
    position, mean, needs_position = POSITIONS[kind]
    kernel, samples = run(position, mean, moments=ewsg.moments())
    samples.save(tmp_path / "run.npz")
    if needs_position:
        with pytest.raises(ValueError, match=r"give load\(path, position=…\) where the run started"):
            ewsg.load(tmp_path / "run.npz")
    again = ewsg.load(str(tmp_path / "run.npz"), position=position if needs_position else None)
    same(samples, again)
    on, never_stopped = (ewsg.sample(KEY, kernel, None, DATA, 5, state=s.state) for s in (again, samples))
    same(
        dataclasses.replace(on, compile_seconds=0.0, run_seconds=0.0),
        dataclasses.replace(never_stopped, compile_seconds=0.0, run_seconds=0.0),
    )
    assert [file.name for file in tmp_path.iterdir()] == ["run.npz"], "no temporary file is left"


def test_functions_and_nothing_come_back(tmp_path):
    for number, keep in enumerate((None, lambda p: (p, jnp.sum(p)))):
        _, samples = run(jnp.zeros(2), lambda p: p, keep=keep)
        samples.save(tmp_path / f"{number}.npz")
        same(samples, ewsg.load(tmp_path / f"{number}.npz"))


def test_a_missing_folder_is_named(tmp_path, monkeypatch):
    _, samples = run(jnp.zeros(2), lambda p: p)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FileNotFoundError, match=r"to write run\.npz into: 'nowhere/here'$"):
        samples.save("nowhere/here/run.npz")
    (tmp_path / "file").write_text("kept")
    with pytest.raises(NotADirectoryError, match=r"'file'$"):
        samples.save("file/run.npz")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_failed_write_leaves_what_was_there(tmp_path, monkeypatch):
    path = tmp_path / "run.npz"
    _, samples = run(jnp.zeros(2), lambda p: p)
    samples.save(path)
    before = path.read_bytes()

    def torn(file, **arrays):
        file.write(b"half")
        raise OSError("disk full")

    monkeypatch.setattr(archive.np, "savez", torn)
    with pytest.raises(OSError, match="disk full"):
        samples.save(path)
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["run.npz"]


def test_wrong_files_are_named(tmp_path):
    path = tmp_path / "other.npz"
    np.savez(path, a=np.zeros(3))
    with pytest.raises(ValueError, match=r"path must be a file that samples\.save wrote; got .*other\.npz"):
        ewsg.load(path)
    path.write_bytes(b"no archive")
    with pytest.raises(ValueError, match=r"path must be a file that samples\.save wrote"):
        ewsg.load(path)
    np.savez(path, description=np.frombuffer(b'{"format": "else"}', np.uint8))
    with pytest.raises(ValueError, match="in the format"):
        ewsg.load(path)
    with pytest.raises(TypeError, match="path must be the path of a file; got 3"):
        ewsg.load(3)
    with pytest.raises(FileNotFoundError):
        ewsg.load(tmp_path / "none.npz")
    _, samples = run(MLP, lambda p: eqx.combine(p, STATIC)(jnp.ones(2)))
    samples.save(tmp_path / "run.npz")
    with pytest.raises(
        ValueError, match=r"position must be a tree like the run's position, of 4 arrays.*got an array"
    ):
        ewsg.load(tmp_path / "run.npz", jnp.zeros(2))


@pytest.mark.parametrize(
    "kind",
    [
        "os.system",
        "ewsg_jax._kernel.KernelState",
        ["os", "system"],
        ["ewsg_jax.methods", "sgld"],
    ],
)
def test_a_file_cannot_call_anything(tmp_path, kind):
    """Only classes with a tag are made from a file."""
    text = json.dumps({"format": archive.FORMAT, "samples": {"class": kind, "fields": {}}})
    np.savez(tmp_path / "bad.npz", description=np.frombuffer(text.encode(), np.uint8))
    with pytest.raises(ValueError, match=r"bad\.npz.*unknown class"):
        ewsg.load(tmp_path / "bad.npz")


def found_in(path):
    """What a file holds, or what is said of it."""
    try:
        return repr(saved_runs.contents(ewsg.load(path)))
    except ValueError as error:
        return str(error)


def flipped(content, bit):
    changed = bytearray(content)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


@pytest.mark.parametrize("large", [False, True])
def test_a_damaged_file_gives_an_error_or_what_was_saved(tmp_path, large):
    """Bits are flipped anywhere, and all those of a header that says how many draws there are.

    An array of a few kilobytes is read at once, with its checksum; of a larger one as much as its header says.
    """
    path = tmp_path / "run.npz"
    samples = saved_runs.make("sgld_nothing_kept", num_chains=2)
    if large:
        samples = dataclasses.replace(samples, draws=np.arange(2_000.0).reshape(2, 500, 2))
    samples.save(path)
    whole = path.read_bytes()
    shape = 8 * whole.index(b"'shape'")
    seeded = np.random.default_rng(0).choice(8 * len(whole), 600, replace=False)
    # The last bytes are the table of contents and where it begins.
    ends = range(8 * (len(whole) - 90), 8 * len(whole))
    path.write_bytes(whole)
    saved = found_in(path)
    refused = 0
    for bit in {*map(int, seeded), *range(shape, shape + 8 * 20), *ends}:
        path.write_bytes(flipped(whole, bit))
        found = found_in(path)
        is_refused = f"path must be a file that samples.save wrote; got {str(path)!r}" in found
        assert is_refused or found == saved, f"bit {bit}"
        refused += is_refused
    assert refused > 600


def test_half_a_file_is_refused(tmp_path):
    saved_runs.make("sgld_nothing_kept", num_chains=2).save(tmp_path / "run.npz")
    whole = (tmp_path / "run.npz").read_bytes()
    for length in (0, 1, 100, len(whole) // 2, len(whole) - 1):
        (tmp_path / "run.npz").write_bytes(whole[:length])
        with pytest.raises(ValueError, match=r"run\.npz', which is none"):
            ewsg.load(tmp_path / "run.npz")


@pytest.mark.parametrize(
    "described",
    [
        [],
        {"class": "samples", "fields": {}},
        {"class": "samples", "fields": 3},
        {"dict": [[1]]},
        {"array": "nowhere", "jax": True},
        {"array": "three", "dtype": "bfloat16", "jax": True},
        {"array": "three", "dtype": "no such", "jax": True},
        {"plain": 3},
    ],
)
def test_a_file_that_makes_no_sense_is_refused(tmp_path, described):
    text = json.dumps({"format": archive.FORMAT, "samples": described})
    np.savez(tmp_path / "bad.npz", description=np.frombuffer(text.encode(), np.uint8), three=np.zeros(3, np.uint8))
    with pytest.raises(ValueError, match=r"path must be a file that samples\.save wrote; got .*bad\.npz"):
        ewsg.load(tmp_path / "bad.npz")


def test_names_that_meet_are_kept_apart(tmp_path):
    kept = {"a.b": 1, "a": {"b": 2, "b'": 3}}
    _, samples = run(jnp.zeros(2), lambda p: p, keep=lambda p: jax.tree.map(lambda x: x * jnp.ones(2), kept))
    samples.save(tmp_path / "run.npz")
    same(samples, ewsg.load(tmp_path / "run.npz"))


def test_what_cannot_be_saved_is_named(tmp_path):
    _, samples = run(jnp.zeros(2), lambda p: p, keep=lambda p: Parameters(p, p))
    with pytest.raises(TypeError, match=r"samples must be of dictionaries.* as samples\.draws"):
        samples.save(tmp_path / "run.npz")
    assert not list(tmp_path.iterdir())
