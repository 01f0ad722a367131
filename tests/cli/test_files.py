"""Files of a run."""

import json
import types
from typing import Any

import numpy as np

from ewsg_jax.answers.check import plot
from ewsg_jax.base import pictures
from ewsg_jax.cli import run
from ewsg_jax.cli.answer import Judgement
from ewsg_jax.cli.console import Console, Exit
from ewsg_jax.cli.plan import Job, Result
from ewsg_jax.cli.results import Folder
from ewsg_jax.cli.run import draws_of


def test_a_list_of_numbers_is_a_line(tmp_path):
    """Whatever strings hold, and read as what it was."""
    content = {
        "h": [[0.5, 1], [2, np.inf]],
        "names": ["[\n 1,\n 2 ]", "b"],
        "none": [],
        "at": {"x": (1, 2.5)},
    }
    Folder(tmp_path).write("some.json", content)
    text = (tmp_path / "some.json").read_text()
    assert json.loads(text) == {
        "h": [[0.5, 1], [2, None]],
        "names": ["[\n 1,\n 2 ]", "b"],
        "none": [],
        "at": {"x": [1, 2.5]},
    }
    assert "[0.5, 1],\n" in text
    assert '"x": [1, 2.5]\n' in text


def test_draws_end_where_a_chain_diverged():
    samples = types.SimpleNamespace(
        position=np.ones((4, 4, 2)),
        step=np.array([10, 20, 30, 40]),
        diverged_at=np.array([-1, 25, 3, 45]),
    )
    found = draws_of(samples)
    # Of the last one, which blew up behind its last draw, that draw says so.
    assert np.isfinite(found).all(2).sum(1).tolist() == [4, 2, 0, 3]
    none = types.SimpleNamespace(
        position=np.ones((2, 0, 2)), step=np.zeros(0, int), diverged_at=np.array([-1, 3])
    )
    assert draws_of(none).shape == (2, 0, 2)


NONE: Any = None


def called(label: str) -> Any:
    """What stands for the plan of a run."""
    return types.SimpleNamespace(label=label)


def finished(label: str, drawn: Any) -> Result:
    """A run of this label whose check is drawn by a function."""
    report: Any = types.SimpleNamespace(plot=drawn)
    return Result(called(label), NONE, judgement=Judgement(Exit.OK, "RIGHT", report))


def test_a_figure_that_cannot_be_drawn_fails_no_run(tmp_path, monkeypatch, capsys):
    """The report is there, and says it; a label with a slash is a name in the folder."""

    def broken():
        assert (tmp_path / "report.txt").is_file()
        raise ValueError("no such font")

    monkeypatch.setattr(run, "_write", lambda *_: None)
    monkeypatch.setattr(run.report, "table", lambda _: "a table")
    results = [finished("a/b", lambda: pictures.blank(1, 1)), finished("wide", broken)]
    results += [finished("../c", lambda: pictures.blank(1, 1))]
    run._end(Folder(tmp_path), NONE, results, False, Console())
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"report.txt", "check-a%2Fb.png", "check-%2E.%2Fc.png"}
    said = capsys.readouterr().out
    assert said == (tmp_path / "report.txt").read_text()
    assert "no figure of wide: ValueError: no such font" in said


def test_names_of_columns_are_no_formulas(tmp_path):
    """They stand in the title of a figure."""
    panels = [plot.Panel("sd", np.ones(2), np.ones(2), 1.0, 0.1)] * 2
    plot.plot("too wide: $x^{ and $y", panels, tmp_path / "check.png")


def test_another_job_leaves_what_is_not_of_a_run(tmp_path):
    """Of the run before, whose labels are in its numbers, and of this one the figures go."""
    folder = Folder(tmp_path)
    folder.write("config.toml", "another")
    folder.write("metrics.json", {"runs": {"before": {}}})
    for name in ("check-before.png", "check-now.png", "check-own.png", "draws.npz.copy"):
        folder.write(name, "a picture")
    job = Job("", "", 0, "this", NONE, [called("now")])
    assert not run._resumes(job, folder, tmp_path / "checkpoints")
    assert {path.name for path in tmp_path.iterdir()} == {
        "config.toml",
        "check-own.png",
        "draws.npz.copy",
    }
