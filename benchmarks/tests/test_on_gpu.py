"""What waits for a GPU, at a tiny size on the CPU: it is cut, and goes on where it was."""

import json
import types

import numpy as np
import pytest

from benchmarks import on_gpu
from benchmarks.papers import command, mnist
from benchmarks.papers.experiment import Experiment
from benchmarks.papers.running import settings_of, text_of


@pytest.fixture
def digits(monkeypatch):
    """Pixels at random in the place of MNIST's."""
    rng = np.random.default_rng(0)
    x = rng.integers(0, 256, (70_000, 784), dtype=np.uint8)
    found = types.SimpleNamespace(x=x, y=np.arange(70_000) % 10)
    monkeypatch.setattr(mnist.data_sets, "load", lambda name: found)


@pytest.mark.parametrize("name", on_gpu.FULL_SIZES)
def test_configurations_at_the_papers_size_can_be_read(name):
    kind = command.EXPERIMENTS[name].settings
    settings = settings_of(kind, on_gpu.with_values(text_of(name), on_gpu.FULL_SIZES[name]), "full")
    for key, value in on_gpu.FULL_SIZES[name].items():
        assert getattr(settings, key) == (tuple(value) if isinstance(value, list) else value)


def test_a_key_that_is_not_there_is_refused():
    with pytest.raises(ValueError, match="must have a line for 'num_chain'"):
        on_gpu.with_values("[full]\nnum_chains = 3\n", {"num_chain": 4})


def cut(monkeypatch, after):
    """Have the experiment of dense layers end, by a signal, in the part after so many."""
    experiment: Experiment = command.EXPERIMENTS["mnist-mlp"]
    made = []

    def parts(settings):
        def counted(name, compute):
            def part(done):
                if len(made) == after:
                    raise KeyboardInterrupt
                made.append(name)
                return compute(done)

            return part

        return {name: counted(name, each) for name, each in experiment.parts(settings).items()}

    fields = vars(experiment) | {"parts": parts}
    monkeypatch.setitem(on_gpu.EXPERIMENTS, "mnist-mlp", Experiment(**fields))
    return made


def test_what_is_cut_goes_on(digits, monkeypatch, tmp_path, capsys):
    """By a signal in the third part, then by the time before the next one; then to its end."""
    call = ["--tiny", "--only", "mnist-mlp", "--output", str(tmp_path)]
    with monkeypatch.context() as patch:
        made = cut(patch, after=2)
        with pytest.raises(KeyboardInterrupt):
            on_gpu.main(call)
    assert made == ["EWSG", "SGHMC"]
    kept = json.loads((tmp_path / "mnist-mlp" / "parts.json").read_text())["parts"]
    assert list(kept) == made
    assert on_gpu.main([*call, "--minutes", "0"]) == 1
    assert "mnist-mlp: left are CP-SGHMC, SGLD, pSGLD" in capsys.readouterr().out
    assert on_gpu.main(call) == 0
    result = json.loads((tmp_path / "mnist-mlp" / "result.json").read_text())
    assert {name: result["parts"][name] for name in kept} == kept
    assert list(result["parts"]) == ["EWSG", "SGHMC", "CP-SGHMC", "SGLD", "pSGLD"]
    assert {path.name for path in (tmp_path / "mnist-mlp").iterdir()} == {
        "result.json",
        "figure.png",
    }
    assert on_gpu.main(call) == 0
    assert "there already" in capsys.readouterr().out
