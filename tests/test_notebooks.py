"""The notebooks run from beginning to end, and are stored clean."""

import importlib.util
import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from urllib.parse import urlsplit

import pytest

ROOT = Path(__file__).parents[1]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
MOST_BYTES = 300_000
HIDDEN = {"jupyter": {"source_hidden": True}, "tags": ["remove-cell"]}
"""Metadata of cells that are no part of the text: on the site, and folded in Jupyter."""


def cells(path, kind):
    notebook = json.loads(path.read_text(encoding="utf-8"))
    return ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == kind]


def test_there_are_notebooks():
    assert {path.name for path in NOTEBOOKS} >= {
        "quickstart.ipynb",
        "your_own_model.ipynb",
        "plan_sample_check.ipynb",
        "from_blackjax.ipynb",
        "own_batches.ipynb",
        "ewsg.ipynb",
        "thousand_chains.ipynb",
        "variance_reduction.ipynb",
    }


@pytest.mark.full
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_runs(path, tmp_path):
    """All code cells in one process, as a notebook would, nothing installed, nothing shown."""
    code = cells(path, "code")
    assert code
    program = tmp_path / "cells.json"
    program.write_text(json.dumps(code))
    run = (
        "import json, sys, types\n"
        "module = types.ModuleType('__main__')\n"
        "for number, cell in enumerate(json.load(open(sys.argv[1]))):\n"
        "    exec(compile(cell, f'cell {number}', 'exec'), module.__dict__)\n"
        "print('ran to the end')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", run, str(program)],
        cwd=tmp_path,
        env=os.environ | {"MPLBACKEND": "Agg", "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, f"{done.stdout[-1000:]}\n{done.stderr[-3000:]}"
    assert done.stdout.endswith("ran to the end\n")


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_is_clean(path):
    """Small, with figures, without errors, machine paths or the traces of an editor."""
    text = path.read_text(encoding="utf-8")
    assert len(text.encode()) < MOST_BYTES
    notebook = json.loads(text)
    assert set(notebook["metadata"]) <= {"kernelspec", "language_info"}
    outputs = [output for cell in notebook["cells"] for output in cell.get("outputs", [])]
    assert any("image/png" in output.get("data", {}) for output in outputs)
    for output in outputs:
        assert output["output_type"] in ("stream", "display_data", "execute_result")
        assert output.get("name") != "stderr"
        said = json.dumps({name: value for name, value in output.items() if name != "data"})
        assert not any(
            place in said for place in ("/home/", "/root/", "/opt/", "/tmp/", "site-packages")
        )
    for cell in notebook["cells"]:
        assert cell.get("execution_count") is None
        has_picture = any("image/png" in out.get("data", {}) for out in cell.get("outputs", []))
        # A picture says what it shows, what is not for readers is hidden; no other has metadata.
        assert bool(cell["metadata"].get("mystnb", {}).get("image", {}).get("alt")) == has_picture
        is_hidden = cell["metadata"] == HIDDEN
        assert is_hidden or set(cell["metadata"]) <= {"mystnb"}
        source = "".join(cell["source"])
        if cell["cell_type"] == "code":
            assert is_hidden == ("rcParams" in source or "find_spec" in source)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_begins_with_a_picture(path: Path) -> None:
    first = cells(path, "markdown")[0]
    assert re.search(r"!\[[^\]]+\]\((attachment:|\.\./docs/)\w+\.png\)", first)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_ends_with_where_to_go_next(path: Path) -> None:
    last = cells(path, "markdown")[-1]
    assert json.loads(path.read_text())["cells"][-1]["cell_type"] == "markdown"
    assert last.startswith("## Where to go next\n")
    targets = re.findall(r"\]\(([^)#]+)", last)
    assert len(targets) >= 3
    assert [target for target in targets if not (path.parent / target).exists()] == []


def test_the_quickstart_is_plan_sample_check() -> None:
    path = ROOT / "notebooks" / "quickstart.ipynb"
    headings = re.findall(r"^## (.*)", "\n".join(cells(path, "markdown")), re.MULTILINE)
    assert headings[:4] == ["A model", "Plan", "Sample", "Check"]
    code = "\n".join(cells(path, "code"))
    for call in (
        "ewsg.plan(",
        "ewsg.sample(sample_key, plan, data",
        "ewsg.check(check_key, samples, ",
    ):
        assert call in code


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_installs_where_nothing_is(path: Path, monkeypatch, tmp_path) -> None:
    """The checkout, in any of its folders; elsewhere the package of PyPI, which the cell names."""
    install = cells(path, "code")[0]
    assert (
        'PyPI, once the\n# package is there, the last line but one is: pip install "ewsg_jax['
        in install
    )
    assert not any("pip" in cell for cell in cells(path, "code")[1:])
    commands = []
    monkeypatch.setattr(subprocess, "run", lambda command, **_: commands.append(command))
    exec(install, {})
    assert commands == []
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    for folder, package in ((path.parent, f"{ROOT}["), (ROOT, f"{ROOT}["), (tmp_path, "ewsg_jax[")):
        monkeypatch.chdir(folder)
        exec(install, {})
        assert commands.pop()[-1].startswith(package)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_has_a_badge_where_the_home_is_known(path: Path) -> None:
    """`[project.urls]` of pyproject.toml says where, and nothing else does."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    home = project.get("urls", {}).get("Source")
    colab = "https://colab.research.google.com/github"
    badges = [f"{colab}{urlsplit(home).path}/blob/main/notebooks/{path.name}"] if home else []
    assert re.findall(rf"{colab}[^)\s]*", path.read_text(encoding="utf-8")) == badges
