"""What people continue with what: yesterday's state on today's rows, an edited script."""

import copy
import os
import pickle
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ewsg_jax as ewsg
from ewsg_jax.run import archive, checkpoint

KEY = jax.random.key(0)
MODEL = ewsg.models.gaussian_location()
RANDOM = np.random.default_rng(0)
YESTERDAY = RANDOM.normal(0.0, 1.0, (40, 2)).astype(np.float32)
TODAY = RANDOM.normal(1.0, 1.0, (40, 2)).astype(np.float32)
KERNELS = {
    "svrg_ld": ewsg.svrg_ld(MODEL, 1e-3, batch_size=5, refresh_every=1_000),
    "cv_ld": ewsg.cv_ld(MODEL, 1e-3, batch_size=5, center=jnp.zeros(2)),
    "nuts": ewsg.nuts(MODEL, 0.1),
}


def run(kernel, data, state=None, **options):
    start = jnp.zeros(2) if state is None else None
    options = {"num_chains": 2, "progress": False} | options
    return ewsg.sample(KEY, kernel, start, data, 10, state=state, **options)


@pytest.fixture(scope="module")
def samples():
    """A run of each kernel on yesterday's rows."""
    return {name: run(kernel, YESTERDAY) for name, kernel in KERNELS.items()}


def test_a_mode_of_other_rows_is_refused():
    """Its curvature is theirs: forecasts were of a posterior that nobody has."""
    mode = ewsg.find_mode(KEY, MODEL, jnp.zeros(2), YESTERDAY)
    kernel = ewsg.ld(MODEL, 0.01, inverse_mass=mode.inverse_mass)
    for what in (mode, copy.deepcopy(mode), pickle.loads(pickle.dumps(mode))):
        ewsg.forecast(kernel, what, YESTERDAY.astype(float))
        with pytest.raises(ValueError, match=r"mode must be .*other rows of data: find_mode\("):
            ewsg.forecast(kernel, what, TODAY)
        with pytest.raises(ValueError, match=r"mode must be .*other rows of data: find_mode\("):
            ewsg.plan(KEY, MODEL, jnp.zeros(2), TODAY, mode=what)
    wider = ewsg.Posterior(lambda m, x: MODEL.log_likelihood(m, x) / 2, MODEL.log_prior)
    with pytest.raises(ValueError, match="other log_likelihood"):
        ewsg.forecast(ewsg.ld(wider, 0.01), mode, YESTERDAY)
    assert all(not isinstance(leaf, str) for leaf in jax.tree.leaves(mode))


@pytest.mark.parametrize("name", KERNELS)
def test_a_state_does_not_continue_on_other_rows(name, samples):
    """They are as many, and the memory would be of the old ones for as long as nothing refreshes
    it: control variates were 32 sds off.
    """
    state = samples[name].state
    for what in (state, copy.deepcopy(state), pickle.loads(pickle.dumps(state))):
        with pytest.raises(ValueError, match=r"data must be the 40 rows .* kernel\.init\(key, "):
            run(KERNELS[name], TODAY, what)
    # The same rows in another order are others for tables and orders of rows.
    with pytest.raises(ValueError, match="in their order"):
        run(KERNELS[name], YESTERDAY[::-1], state)


def test_a_state_continues_on_the_same_rows_in_other_arrays(samples):
    """Arrays of JAX, of float64, in another memory order, out of a file."""
    state, kernel = samples["cv_ld"].state, KERNELS["cv_ld"]
    more = run(kernel, YESTERDAY, state)
    others = (jnp.asarray(YESTERDAY), YESTERDAY.astype(float), np.asfortranarray(YESTERDAY))
    for rows in others:
        np.testing.assert_array_equal(run(kernel, rows, state).position, more.position)


def test_what_the_user_steps_is_not_compared(samples):
    """A compiled step does not know its rows, and a program does not keep those of its first
    state.
    """
    kernel, step = KERNELS["svrg_ld"], jax.jit(KERNELS["svrg_ld"].step)
    for rows in (YESTERDAY, TODAY):
        state = run(kernel, rows).state
        one = jax.tree.map(lambda x: x[0], state._replace(order=()))
        moved, _ = step(KEY, one, jnp.asarray(rows))
        run(kernel, rows, jax.tree.map(lambda x: x[None], moved), num_chains=1)


def test_a_loaded_state_and_joined_runs_have_the_same_rows(samples, tmp_path):
    first, path = samples["cv_ld"], tmp_path / "run.npz"
    first.save(path)
    with pytest.raises(ValueError, match="data must be the 40 rows"):
        ewsg.load(path, kernel=KERNELS["cv_ld"], data=TODAY)
    whole = ewsg.load(path, kernel=KERNELS["cv_ld"], data=YESTERDAY.astype(float))
    with pytest.raises(ValueError, match="data must be the 40 rows"):
        run(KERNELS["cv_ld"], TODAY, whole.state)
    # States whose rows are not known, as those in files of earlier versions.
    bare = first.state._replace(rows=type(first.state.rows)(40))
    later = run(KERNELS["cv_ld"], TODAY, bare)
    for earlier in (first, whole, ewsg.load(path)):
        with pytest.raises(ValueError, match="got one of other rows"):
            earlier.concatenate(later)
    assert first.concatenate(run(KERNELS["cv_ld"], YESTERDAY, first.state)).num_draws == 20


def test_a_data_set_of_several_continues_by_itself():
    sets = ewsg.stack_data([YESTERDAY, TODAY[:20]])
    runs = run(KERNELS["svrg_ld"], sets)
    assert run(KERNELS["svrg_ld"], sets, runs.state).whole.num_draws == 10
    assert run(KERNELS["svrg_ld"], YESTERDAY, runs[0].state).num_draws == 10


@pytest.mark.full
def test_a_stream_of_other_rows_is_refused():
    kernel = ewsg.svrg_ld(MODEL, 1e-3, batch_size=5, refresh_every=1_000)
    state = run(kernel, ewsg.stream(YESTERDAY, window=20)).state
    assert run(kernel, ewsg.stream(YESTERDAY, window=20), state).num_draws == 10
    with pytest.raises(ValueError, match="data must be the 40 rows"):
        run(kernel, ewsg.stream(TODAY, window=20), state)


# An edited script.

SCRIPT = """
WIDTH, TABLE = {width}, {{"a": 1.0}}
def scale():
    return WIDTH
def log_likelihood(p, y):
    return -0.5 * jnp.sum((y - p) ** 2){of_likelihood}
class Prior:
    power = {power}
    def __call__(self, p):
        return -0.5 * jnp.sum(jnp.abs(p) ** self.power) / scale() ** 2
log_prior = Prior()
"""
FIRST = {"width": 10.0, "of_likelihood": "", "power": 2}


def kernel_of(text, file="model.py"):
    """The kernel of a script that was read from a file."""
    names = {"jnp": jnp, "__name__": "model"}
    exec(compile(text, file, "exec"), names)
    posterior = ewsg.Posterior(names["log_likelihood"], names["log_prior"])
    return ewsg.uld(posterior, 0.1, friction=4.0)


@pytest.fixture(scope="module")
def interrupted(tmp_path_factory):
    """A run of the script with a checkpoint."""
    path = tmp_path_factory.mktemp("edited") / "run"
    samples = run(kernel_of(SCRIPT.format(**FIRST)), YESTERDAY, checkpoint=path)
    return path, samples


@pytest.mark.parametrize(
    ("edit", "function"),
    [
        ({"width": 0.1}, "Prior"),
        ({"of_likelihood": " * 0.25"}, "log_likelihood"),
        ({"power": 4}, "Prior"),
    ],
)
def test_an_edited_model_is_refused(edit, function, interrupted):
    """The answer was that of the old model, or half of each."""
    with pytest.raises(ValueError, match=f"got another .*{function}.*undo the edit"):
        ewsg.resume(interrupted[0], YESTERDAY, kernel=kernel_of(SCRIPT.format(**FIRST | edit)))


def test_a_script_that_only_looks_different_resumes(interrupted):
    """Other lines, a docstring, comments, names of variables, another file."""
    text = SCRIPT.format(**FIRST).replace("p, y", "position, y").replace("y - p", "y - position")
    text = text.replace("return WIDTH", '"""Width."""\n    # of the prior\n    return WIDTH')
    path, samples = interrupted
    again = ewsg.resume(path, YESTERDAY, kernel=kernel_of(f"\n\n{text}", "other/file.py"))
    np.testing.assert_array_equal(again.position, samples.position)


def test_what_is_kept_and_schedules_are_compared_too(tmp_path):
    kernels = [
        ewsg.uld(MODEL, h, friction=4.0) for h in (lambda t: 0.1 / (1 + t), lambda t: 0.1 / (2 + t))
    ]
    run(kernels[0], YESTERDAY, checkpoint=tmp_path / "run", keep=lambda p: p**2)
    for kernel, keep in ((kernels[1], lambda p: p**2), (kernels[0], lambda p: p**3)):
        with pytest.raises(ValueError, match=r"got another .*lambda"):
            ewsg.resume(tmp_path / "run", YESTERDAY, kernel=kernel, keep=keep)
    assert ewsg.resume(tmp_path / "run", YESTERDAY, kernel=kernels[0], keep=lambda p: p**2)


def test_a_checkpoint_of_an_earlier_version_resumes(interrupted, monkeypatch):
    """It has no digests of functions: nothing is compared."""
    monkeypatch.setattr(checkpoint, "_file", lambda *of: without_functions(archive.read(of[0])))
    ewsg.resume(interrupted[0], YESTERDAY, kernel=kernel_of(SCRIPT.format(**FIRST | {"power": 4})))


def without_functions(contents):
    contents.about.get("head", {}).pop("functions", None)
    return contents


ZOO = """
import enum, functools, jax, jax.numpy as jnp, numpy as np, optax
from ewsg_jax.base.function_digests import Reader
BIG, NAMES, Kind = jnp.arange(300_000.0), {"a", ("b", 1), None}, enum.Enum("Kind", "A B")
class Model:
    def __init__(self):
        self.rows = np.ones(3)
    @functools.cached_property
    def gram(self):
        return self.rows @ self.rows
    def log_likelihood(self, p, row):
        return self.gram * len(NAMES) * BIG.sum() * (p in {"x", "y", "z"}) * Kind.A.value
used = Model()
used.gram
for f in (Model().log_likelihood, used.log_likelihood, jax.jit(used.log_likelihood),
          optax.cosine_decay_schedule(0.1, 10), functools.partial(jnp.dot, BIG)):
    print(Reader(for_files=True).read(f).digest.hex())
"""


@pytest.mark.full
def test_digests_are_those_of_another_process():
    """Sets have another order there, objects other addresses, and what was worked out is not."""
    outputs = [
        subprocess.run(
            [sys.executable, "-c", ZOO],
            capture_output=True,
            text=True,
            check=True,
            env=os.environ | {"PYTHONHASHSEED": seed},
        ).stdout
        for seed in "12"
    ]
    first = outputs[0].split()
    assert outputs[0] == outputs[1]
    assert first[0] == first[1]
    assert len(set(first)) == 4


def location(scale, prior=10.0):
    """A normal mean, by functions that read a scale."""
    return ewsg.Posterior(
        lambda p, x: -0.5 * jnp.sum(((x - p) / scale) ** 2),
        lambda p: -0.5 * jnp.sum(p**2) / prior**2,
    )


@pytest.mark.parametrize(
    "make",
    [
        lambda posterior: ewsg.cv_ld(posterior, 1e-3, batch_size=5, center=jnp.zeros(2)),
        lambda posterior: ewsg.random_walk_metropolis(posterior, 0.1),
    ],
)
def test_a_state_with_a_memory_does_not_continue_by_another_likelihood(make, tmp_path):
    """The memory holds gradients of the old one: control variates were 10 sds off."""
    first, match = run(make(location(1.0)), YESTERDAY), "kernel must have the log_likelihood of"
    first.save(tmp_path / "run.npz")
    with pytest.raises(ValueError, match=match):
        run(make(location(3.0)), YESTERDAY, first.state)
    with pytest.raises(ValueError, match=match):
        ewsg.load(tmp_path / "run.npz", kernel=make(location(3.0)), data=YESTERDAY)
    # A prior is in no sum, and functions that do the same are the same.
    run(make(location(1.0, prior=1.0)), YESTERDAY, first.state)
    again = ewsg.load(tmp_path / "run.npz", kernel=make(location(1.0)), data=YESTERDAY)
    run(make(location(1.0)), YESTERDAY, again.state)


def test_a_state_without_a_memory_continues_by_another_likelihood():
    """Such as a tempered one; draws of both are no draws of either."""
    first = run(ewsg.sgld(location(3.0), 1e-3, batch_size=5), YESTERDAY)
    later = run(ewsg.sgld(location(1.0), 1e-3, batch_size=5), YESTERDAY, first.state)
    with pytest.raises(ValueError, match="of the same likelihood; got one of other likelihood"):
        first.concatenate(later)


def test_likelihoods_for_arviz_are_of_the_rows_of_the_run(samples):
    first, named = samples["cv_ld"], {"posterior": MODEL, "data": TODAY}
    with pytest.raises(ValueError, match="data must be the 40 rows that the run was given"):
        first.to_arviz(**named)
