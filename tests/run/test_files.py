"""Samples in files: everything comes back, and a write that fails leaves what was there."""

import dataclasses
import json
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ewsg_jax as ewsg
from ewsg_jax.run import archive
from tests.run import saved_runs
from tests.run.alike import contents
from tests.run.saved_runs import MLP, Parameters, mean_of, network

KEY = jax.random.key(1)
DATA = jnp.arange(12.0).reshape(6, 2)
LAST = np.array(
    [[0.02576587162911892, 0.03908313065767288], [0.016139235347509384, 0.022255990654230118]],
    np.float32,
)
SAVED = Path(__file__).parent / "saved_by_0_2.npz"


def run(position, mean, num_steps=12, **options):
    kernel = ewsg.ewsg(mean_of(mean), 1e-2, friction=1.0, batch_size=2)
    return kernel, ewsg.sample(KEY, kernel, position, DATA, num_steps, num_chains=2, **options)


@pytest.mark.usual_parameters("svrg_ld_epochs")
@pytest.mark.parametrize("name", saved_runs.RUNS)
def test_everything_comes_back_and_goes_on(name, tmp_path):
    a_run, samples = saved_runs.RUNS[name], saved_runs.make(name, num_chains=2)
    samples.save(tmp_path / "run.npz")
    if a_run.needs_position:
        with pytest.raises(ValueError, match=r"give load\(path, position=…\) the start of the run"):
            ewsg.load(tmp_path / "run.npz")
    position = a_run.position if a_run.needs_position else None
    again = ewsg.load(str(tmp_path / "run.npz"), position, kernel=a_run.kernel, data=a_run.data)
    assert contents(again) == contents(samples)
    on, never_stopped = (
        dataclasses.replace(
            saved_runs.make(name, num_steps=4, state=which.state),
            compile_seconds=0.0,
            run_seconds=0.0,
        )
        for which in (again, samples)
    )
    assert contents(on) == contents(never_stopped)
    assert int(on.state.step[0]) == saved_runs.STEPS + 4
    assert np.all(on.is_finite)
    assert [file.name for file in tmp_path.iterdir()] == ["run.npz"], "no temporary file is left"


def earlier_run():
    """The kernel and data of the file that version 0.2.0 wrote: `sample` from the key 1, position
    {"a": zeros(2)}, 4 steps, 2 chains, and then `save`.
    """
    posterior = ewsg.Posterior(
        lambda p, row: -0.5 * jnp.sum((row - p["a"]) ** 2), lambda p: -0.5 * jnp.sum(p["a"] ** 2)
    )
    dynamics = ewsg.dynamics.semi_implicit(1e-2, friction=1.0)
    return ewsg.kernel(dynamics, ewsg.gradients.uniform(posterior, batch_size=2)), DATA


def test_a_file_of_an_earlier_version_is_read_and_goes_on():
    """Names of arrays and of what is said of them stay, or this version reads the old ones."""
    kernel, data = earlier_run()
    samples = ewsg.load(SAVED, kernel=kernel, data=data)
    assert samples.draws["a"].shape == (2, 4, 2)
    assert (samples.num_steps, samples.gradient_evaluations) == (4, 16)
    np.testing.assert_array_equal(samples.draws["a"][:, -1], LAST)
    np.testing.assert_array_equal(samples.state.position["a"], samples.draws["a"][:, -1])
    on = ewsg.sample(KEY, kernel, None, data, 3, state=samples.state)
    assert (on.state.step == 7).all()
    assert np.isfinite(on.draws["a"]).all()


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
    np.savez(tmp_path / "other.npz", about=np.frombuffer(b'{"format": "else"}', np.uint8))
    with pytest.raises(ValueError, match="in the format"):
        ewsg.load(tmp_path / "other.npz")
    with pytest.raises(FileNotFoundError):
        ewsg.load(tmp_path / "none.npz")
    _, samples = run(MLP, network)
    samples.save(tmp_path / "run.npz")
    with pytest.raises(
        ValueError,
        match=r"position must be a pytree like the run's position, of 4 arrays.*got an array",
    ):
        ewsg.load(tmp_path / "run.npz", jnp.zeros(2))
    with pytest.raises(
        ValueError, match=r"position must be a pytree like the run's position.*got \[Array"
    ):
        ewsg.load(tmp_path / "run.npz", jax.tree.leaves(MLP))


def found_in(path):
    """What a file holds, or what is said of it."""
    run = saved_runs.RUNS["sgld_nothing_kept"]
    try:
        return repr(contents(ewsg.load(path, kernel=run.kernel, data=run.data)))
    except ValueError as error:
        return str(error)


def flipped(content, bit):
    changed = bytearray(content)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


@pytest.mark.full
@pytest.mark.parametrize("large", [False, True])
def test_a_damaged_file_gives_an_error_or_what_was_saved(tmp_path, large):
    """Bits are flipped anywhere, and all those of a header that says how many draws there are.

    An array of a few kilobytes is read at once, with its checksum; of a larger one as much as its
    header says.
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
        with pytest.raises(ValueError, match=r"run\.npz', which is not one"):
            ewsg.load(tmp_path / "run.npz")


ABOUT = {
    "format": archive.FORMAT,
    "holds": "samples",
    "dtypes": {},
    "numbers": {},
    "trees": {"draws": "None", "moments": "None"},
    "position": {"structure": "0", "leaves": [["", [2], "float32"]]},
    "step": 3,
}


@pytest.mark.usual_parameters("changes0", "changes3", "changes6", "changes9", "changes12")
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"numbers": 3},
        {"numbers": {"nowhere": 3}},
        {"trees": 3},
        {"trees": {"draws": 3, "moments": "None"}},
        {"trees": {"draws": "__import__('os').abort()", "moments": "None"}},
        {"trees": {"draws": "[" * 10_000, "moments": "None"}},
        {"trees": {"draws": "0", "moments": "None"}},
        {"trees": {"draws": "'position'", "moments": "None"}, "position": 3},
        {
            "trees": {"draws": "'position'", "moments": "None"},
            "position": {"structure": "0", "leaves": []},
        },
        {"trees": {"draws": "None", "moments": "{'mean': None}"}},
        {"dtypes": {"three": "bfloat16"}},
        {"dtypes": {"three": "no such"}},
        {"dtypes": {"three": "keys of nothing"}},
        {"step": "three"},
    ],
)
def test_a_file_that_makes_no_sense_is_refused(tmp_path, changes):
    text = json.dumps(ABOUT | changes)
    np.savez(
        tmp_path / "bad.npz",
        about=np.frombuffer(text.encode(), np.uint8),
        three=np.zeros(3, np.uint8),
    )
    with pytest.raises(
        ValueError, match=r"path must be a file that samples\.save wrote; got .*bad\.npz"
    ):
        ewsg.load(tmp_path / "bad.npz")


@pytest.mark.full
def test_what_cannot_be_saved_is_named(tmp_path):
    _, samples = run(jnp.zeros(2), lambda p: p, keep=lambda p: Parameters(p, p))
    with pytest.raises(TypeError, match=r"samples\.draws must be of dictionaries.*got Parameters"):
        samples.save(tmp_path / "run.npz")
    assert not list(tmp_path.iterdir())


def test_numpy_alone_reads_it(tmp_path):
    _, samples = run({"a": jnp.zeros(2)}, lambda p: p["a"], moments=ewsg.moments())
    samples.save(tmp_path / "run.npz")
    with np.load(tmp_path / "run.npz", allow_pickle=False) as found:
        np.testing.assert_array_equal(found["draws['a']"], samples.draws["a"])
        np.testing.assert_array_equal(found["moments['mean']['a']"], samples.moments.mean["a"])
        np.testing.assert_array_equal(
            found["state.dynamics.position['a']"], samples.state.position["a"]
        )


def test_without_the_kernel_all_but_the_state_is_read(tmp_path):
    kernel, samples = run(jnp.zeros(2), lambda p: p)
    samples.save(tmp_path / "run.npz")
    again = ewsg.load(tmp_path / "run.npz")
    assert contents(dataclasses.replace(samples, state=again.state, kernel=None)) == contents(again)
    with pytest.raises(
        AttributeError, match=r"samples.state has no position: give ewsg_jax\.load\(path, kernel="
    ):
        _ = again.state.position
    with pytest.raises(AttributeError, match=r"samples\.state has no"):
        again.save(tmp_path / "again.npz")
    with pytest.raises(
        TypeError, match=r"state must be .*got samples\.state, which ewsg_jax\.load\(path, kernel="
    ):
        ewsg.sample(KEY, kernel, None, DATA, 5, state=again.state)
    more = ewsg.sample(KEY, kernel, None, DATA, 5, state=samples.state)
    np.testing.assert_array_equal(again.concatenate(more).step, np.arange(1, 18))
    assert not (tmp_path / "again.npz").exists()


def test_a_kernel_or_data_of_another_run_are_refused(tmp_path):
    kernel, samples = run(jnp.zeros(2), lambda p: p)
    samples.save(tmp_path / "run.npz")
    model = mean_of(lambda p: p)
    for given, match in (
        ({"kernel": kernel}, r"data must be given with kernel"),
        ({"data": DATA}, r"kernel must be given with data"),
        ({"kernel": model, "data": DATA}, r"kernel must be a Kernel \(that of the run"),
        (
            {"kernel": ewsg.ld(model, 0.1), "data": DATA},
            r"kernel must be that of the run.*momentum is float32 in the file, not in",
        ),
        ({"kernel": kernel, "data": DATA[:3]}, r"data must be all 6 rows that init saw; got 3"),
        ({"kernel": kernel, "data": 3}, r"data must be a pytree of arrays"),
    ):
        with pytest.raises((TypeError, ValueError), match=match):
            ewsg.load(tmp_path / "run.npz", **given)


def test_a_file_of_64_bits_is_refused_in_32(tmp_path):
    """Where its states would lose half of their bits."""
    kernel = ewsg.ewsg(mean_of(lambda p: p), 1e-2, friction=1.0, batch_size=2)
    with jax.enable_x64(True):
        samples = ewsg.sample(KEY, kernel, np.zeros(2), DATA, 12, num_chains=2)
        samples.save(tmp_path / "run.npz")
    assert ewsg.load(tmp_path / "run.npz").position.dtype == np.float64
    with pytest.raises(
        ValueError, match=r"jax_enable_x64 as in it.* is float64 in the file, float32 in its"
    ):
        ewsg.load(tmp_path / "run.npz", kernel=kernel, data=DATA)


@jax.tree_util.register_pytree_with_keys_class
class Twins:
    """Two arrays under one key."""

    def __init__(self, one, other):
        self.both = (one, other)

    def tree_flatten_with_keys(self):
        return [(jax.tree_util.GetAttrKey("x"), x) for x in self.both], None

    @classmethod
    def tree_unflatten(cls, _, children):
        return cls(*children)


@pytest.mark.full
@pytest.mark.parametrize(
    "where", [lambda p: p, lambda p: {"p": p, "q": [None, (p,)]}], ids=["itself", "deeper"]
)
@pytest.mark.parametrize(
    "position",
    [
        Twins(jnp.zeros(2), jnp.ones(2)),
        {"a": Parameters(jnp.zeros(2), jnp.ones(2)), "b": [Parameters(jnp.ones(2), jnp.ones(()))]},
        (Parameters(jnp.zeros(2), None),),
    ],
    ids=["twins", "named tuples in plain containers", "with nothing in it"],
)
def test_positions_of_classes_of_ones_own(tmp_path, position, where):
    """Wherever they stand in what is kept."""
    kernel, samples = run(
        position, lambda p: jax.tree.leaves(p)[0], keep=where, moments=ewsg.moments(where)
    )
    samples.save(tmp_path / "run.npz")
    with pytest.raises(ValueError, match="position must be a pytree like the run's position"):
        ewsg.load(tmp_path / "run.npz")
    assert contents(
        ewsg.load(tmp_path / "run.npz", position, kernel=kernel, data=DATA)
    ) == contents(samples)


@pytest.mark.full
def test_a_position_of_a_class_is_not_needed_for_draws_of_arrays(tmp_path):
    _, samples = run(MLP, network, keep=lambda p: p.layers[0].bias)
    samples.save(tmp_path / "run.npz")
    np.testing.assert_array_equal(ewsg.load(tmp_path / "run.npz").draws, samples.draws)
