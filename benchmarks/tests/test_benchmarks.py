"""The benchmark's arithmetic and what it refuses; nothing is timed."""

import ast
import json
import shutil
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from PIL import Image

from benchmarks import timing
from benchmarks.cost import (
    accelerator_numbers,
    anchored_by_hand,
    bench,
    by_hand,
    memory,
    memory_cells,
    ours,
    program,
    scaling,
    settings,
    step,
    workload,
)
from benchmarks.pages import figures
from benchmarks.pages import scaling as picture
from ewsg_jax.rows import Batch
from tests.oracles import lyapunov

pytestmark = pytest.mark.full


def test_runs_alternate_and_the_first_pair_is_dropped():
    calls = []

    def side(name):
        def run():
            calls.append(name)
            return float(len(calls))

        return run

    assert timing.interleave(side("ours"), side("other"), 2) == [(3.0, 4.0), (5.0, 6.0)]
    assert calls == ["ours", "other"] * 3


@pytest.mark.parametrize(
    ("value", "higher_is_better", "holds"),
    [
        (3.5, True, (True, True)),
        (3.0, True, (False, True)),
        (2.0, True, (False, False)),
        (2.5, True, (False, True)),
        (2.0, False, (True, True)),
        (3.0, False, (False, False)),
    ],
)
def test_verdicts(value, higher_is_better, holds):
    target = timing.Target(3.5, 2.5, True) if higher_is_better else timing.Target(2.5, 2.75, False)
    found = timing.verdict(value, target)
    assert (found["goal_holds"], found["floor_holds"]) == holds
    assert (found["goal"], found["floor"]) == target[:2]


@pytest.mark.parametrize("python", ["/nowhere/python", shutil.which("true") or sys.executable])
def test_a_missing_peer_fails(python, tmp_path, capsys):
    """No such interpreter, or one that ends: exit code 2, no result, and how to install it."""
    out = tmp_path / "result.json"
    chosen = ["--only", "hundred", "--peers", "blackjax", "--peer-python", f"blackjax={python}"]
    assert step.main([*chosen, "--out", str(out)]) == 2
    message = capsys.readouterr().err
    assert "blackjax (" in message
    assert "pip install 'blackjax" in message
    assert not out.exists()


def test_rows_drawn_by_hand_are_the_high_product():
    """Exact against Python's integers."""
    words = np.array(jax.random.bits(jax.random.key(0), (2, 200)))
    words[:, 0], words[:, 1] = 0, 2**32 - 1
    for n in (1, 464_809, 2**31 - 1):
        expected = [((int(a) << 32 | int(b)) * n) >> 64 for a, b in words.T]
        assert by_hand._high_product(words, n).tolist() == expected


@pytest.fixture
def little_data(monkeypatch):
    """Let the benchmarks run on 300 rows of 3 numbers, with steps long enough to be seen."""
    little = workload.logistic(300, 3)
    monkeypatch.setitem(workload.WORKLOADS, "logistic", lambda: little)
    monkeypatch.setitem(settings.STEP_SIZE, "sgld", 1e-3)
    monkeypatch.setattr(anchored_by_hand, "BLOCK", 128)
    return little


@pytest.mark.parametrize("ahead", [False, True])
def test_all_forms_of_svrg_by_hand_make_one_chain(little_data, ahead):
    data, start, key = little_data.data(), np.array([0.3, -0.2, 0.5], np.float32), jax.random.key(2)
    naive = anchored_by_hand.naive(little_data, "svrg_ld")
    one_step, state = jax.jit(naive.step), naive.init(key, start, data)
    for step_key in jax.random.split(key, anchored_by_hand.REFRESH_EVERY):
        state = one_step(step_key, state, data)
    nested = anchored_by_hand.nested(little_data, "svrg_ld", ahead=ahead)
    assert nested.steps_per_call == anchored_by_hand.REFRESH_EVERY
    found = nested.position(jax.jit(nested.step)(key, nested.init(key, start, data), data), data)
    assert np.abs(found - start).max() > 0.1
    np.testing.assert_allclose(found, naive.position(state, data), rtol=1e-4)


def test_svrg_by_hand_is_ours(little_data):
    """The same rows and noise: same positions, full gradients in step one and after K = 100."""
    data, start, key = little_data.data(), np.array([0.3, -0.2, 0.5], np.float32), jax.random.key(3)
    kernel, naive = memory_cells.kernel("svrg_ld"), anchored_by_hand.naive(little_data, "svrg_ld")
    draw = anchored_by_hand._Parts(little_data, "svrg_ld").draw
    ours, theirs = kernel.init(key, start, data), naive.init(key, start, data)
    step, transition = jax.jit(naive.step), jax.jit(kernel.transition)
    randomness, evaluations = kernel.draw(key, ours, data), []
    for step_key in jax.random.split(key, 102):
        rows, noise = draw(step_key)
        given = randomness._replace(batch=randomness.batch._replace(batch=Batch(rows)), noise=noise)
        ours, info = transition(given, ours, data)
        theirs = step(step_key, theirs, data)
        evaluations.append(int(info.gradient_evaluations))
    np.testing.assert_allclose(ours.position, theirs.position, rtol=1e-4)
    np.testing.assert_allclose(ours.memory.anchor, theirs.anchor, rtol=1e-4)
    b, n = little_data.batch_size, little_data.num_data
    assert evaluations == [2 * b + n, *[2 * b] * 99, 2 * b + n, 2 * b]


def test_memory_benchmark_runs(little_data, tmp_path):
    out = tmp_path / "result.json"
    assert memory.main(["--quick", "--only", "svrg,naive,temporaries", "--out", str(out)]) == 0
    result = json.loads(out.read_text())
    assert (result["quick"], result["pairs"], result["versions"]["jax"]) == (
        True,
        3,
        jax.__version__,
    )
    svrg, naive, temporaries = result["results"]
    assert [row["cell"] for row in result["results"]] == ["svrg", "naive", "temporaries"]
    assert set(svrg["ratios"]) == {"drawn in each step", "drawn ahead"}
    assert svrg["case"]["num_steps"] == naive["case"]["num_steps"] == 100
    assert (naive["goal"], naive["floor"], naive["measured"]["size"]) == (900, 300, 3)
    assert temporaries["conditionals"] == 1


class FakeWorker:
    """A peer that takes a given time and remembers what it was to build."""

    def __init__(self, microseconds):
        self.microseconds, self.built = microseconds, None

    def ask(self, case, **request):
        self.built = settings.Case(*case)
        return {"compile_seconds": 0.0}

    def run(self):
        return self.microseconds


def test_who_is_the_fastest_and_who_is_judged(little_data, capsys):
    """One chain is judged by the best on the same JAX; else by the fastest on anything."""
    others = {
        "jax_sgmc": FakeWorker(1e-3),
        "blackjax": FakeWorker(1e9),
        "posteriors": FakeWorker(1e12),
    }
    versions = {"jax_sgmc": "JAX 0.4.25", "blackjax": "JAX 1", "posteriors": "PyTorch 2"}
    found = bench.Bench(others, {}, versions, "JAX 1", 1, 1)
    case, target = settings.Case("logistic", "sgld", 1, 100, True), timing.Target(3.5, 2.8)
    for same_jax in (True, False):
        found.against("one", case, others, target, ours.Variant(shared=True), same_jax=same_jax)
    assert [row.get("goal_holds") for row in found.rows] == [None, True, False, True]
    batches = "logistic, sgld, 1 chain, one batch for all (the peers' have their own): "
    for row, who in zip(
        found.rows, ("jax_sgmc on JAX 0.4.25", "blackjax, the best on JAX 1") * 2, strict=True
    ):
        assert row["what"] == batches + who
    assert others["blackjax"].built == case
    assert others["posteriors"].built == case._replace(num_steps=2)
    printed = capsys.readouterr().out.splitlines()
    assert [" told " in x for x in printed] == [True, False, False, False]
    assert ["FAILS" in x for x in printed] == [False, False, True, False]


@pytest.mark.parametrize("name", ["settings", "resident", "remote", "peer_worker", "torch_peers"])
def test_what_reads_without_jax_imports_none(name):
    free = {"settings", "resident"}
    tree = ast.parse(Path(settings.__file__).with_name(f"{name}.py").read_text())
    for node in tree.body:
        modules = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        modules += [node.module] if isinstance(node, ast.ImportFrom) else []
        for module in modules:
            assert module.partition(".")[0] not in ("jax", "jaxlib", "ewsg_jax")
            package, _, name_there = module.rpartition(".")
            assert package != "benchmarks.cost" or name_there in free
            assert package != "benchmarks"


def test_a_shared_batch_by_hand_is_one_for_all_chains(little_data):
    """The step is that with its own rows, given the same; a program makes one batch a step."""
    key, data = jax.random.key(4), little_data.data()
    for method in ("sgld", "sghmc"):
        own, shared = (
            by_hand.by_hand(little_data, method, wide=False, shared=x) for x in (False, True)
        )
        state = own.init(key, np.array([0.3, -0.2, 0.5], np.float32), data)
        batch = shared.batch(jax.random.split(key)[0], data)
        expected, found = own.step(key, state, data), shared.step(key, state, batch)
        jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-6), found, expected)

    def build(workload, method):
        return program.Chain(
            lambda key, position, data: jnp.zeros(3),
            lambda key, state, batch, number: jnp.stack(
                [batch, number.astype(float), jax.random.normal(key)]
            ),
            lambda state, data: state,
            batch=lambda key, data: jax.random.normal(key),
            numbered=True,
        )

    made = program.Program(build, settings.Case("logistic", "sgld", 4, 5, True))
    batch, number, own = np.moveaxis(
        np.asarray(made._run(jax.random.PRNGKey(0), made._position, made._data)), -1, 0
    )
    assert len(np.unique(own)) == 20
    assert len(np.unique(batch)) == 5
    np.testing.assert_array_equal(batch, batch[:, :1].repeat(4, 1))
    np.testing.assert_array_equal(number, np.arange(5.0)[:, None].repeat(4, 1))


def test_moments_and_checkpoints_are_of_the_run(little_data):
    """Ours with both: no draws, and a folder for each run that goes with the next."""
    data = jax.tree.map(jnp.asarray, little_data.data())
    case = settings.Case("logistic", "sgld", 2, 50, True)
    run = ours.Ours(case, data, ours.Variant(moments=True, checkpoint_every=60.0, thin=5))
    folder = Path(run._folder)
    assert [path.name for path in folder.iterdir()] == ["1"]
    assert run.run() > 0
    assert [path.name for path in folder.iterdir()] == ["2"]
    samples = run._sample()
    assert samples.moments is not None
    assert samples.draws is None
    del run
    assert not folder.exists()


def test_scaling_is_measured_and_drawn(monkeypatch, tmp_path):
    few = scaling.AXES["b"]._replace(values=(2, 4), others=scaling.Size(n=100, d=3))
    monkeypatch.setitem(scaling.AXES, "b", few)
    monkeypatch.setattr(scaling, "MICROSECONDS", 1)
    out = tmp_path / "result.json"
    assert scaling.main(["--quick", "--only", "b", "--out", str(out)]) == 0
    result = json.loads(out.read_text())
    (row,) = result["results"]
    assert (row["values"], row["theory"], len(row["microseconds"])) == ([2, 4], "a + c b", 2)
    assert row["microseconds"][0]["size"] == 3
    figures.write(picture.draw(result), tmp_path / "picture.png", picture.caption(result))
    with Image.open(tmp_path / "picture.png") as image:
        assert image.info["Description"] == picture.caption(result)


def test_exact_variances_are_those_of_the_oracle():
    expected = accelerator_numbers.exact_variances()
    lam, h, gamma = accelerator_numbers.PRECISION, accelerator_numbers.H, accelerator_numbers.GAMMA
    langevin = lyapunov.CLOSED_FORMS["langevin"](lam, h, 1.0)
    implicit = lyapunov.CLOSED_FORMS["semi_implicit"](lam, h, gamma, 1.0)
    assert expected["ld"][1] == pytest.approx(np.ravel(langevin)[0], rel=1e-12)
    assert expected["uld"][1] == pytest.approx(np.ravel(implicit)[0], rel=1e-12)
    # C = n² s² / b with b = 2: the rows are drawn with replacement.
    noise = 25 * (accelerator_numbers.ROWS * lam / 5).var() / 2
    for name, quiet, scale in (("sgld", "ld", h / 2), ("sghmc", "uld", h / (2 * gamma))):
        warmer = expected[quiet][1] * (1 + scale * noise)
        assert expected[name][1] == pytest.approx(warmer, rel=1e-12)
