"""Only tests with the marker `real_data` see prepared data, where EWSG_JAX_DATA is set too."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytestmark = pytest.mark.full

ROOT = Path(__file__).parents[1]

TESTS = """
import os, subprocess, sys
from pathlib import Path
import numpy as np
import pytest
from ewsg_jax.datasets.table import find

DATA, CACHE = Path({data!r}), Path.home() / ".cache" / "ewsg_jax"
ASK = "from ewsg_jax.datasets.table import find; print(find(('rows.npz',), ''))"


@pytest.fixture(scope="module")
def shared():
    return np.load(find(("rows.npz",), "nowhere"))["x"]


@pytest.mark.real_data
def test_right_marked(shared):
    assert find(("rows.npz",), "nowhere") == DATA / "rows.npz" and shared.tolist() == [1.0]


@pytest.mark.real_data
def test_right_marked_in_a_process():
    done = subprocess.run([sys.executable, "-c", ASK], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str(DATA / "rows.npz")


def test_right_without_data(tmp_path):
    np.savez(tmp_path / "rows.npz", x=np.ones(1))
    os.environ["EWSG_JAX_DATA"], before = str(tmp_path), os.environ["EWSG_JAX_DATA"]
    np.load(find(("rows.npz",), "nowhere"))
    os.environ["EWSG_JAX_DATA"] = before


def test_wrong_by_the_loader():
    np.load(find(("rows.npz",), "nowhere"))


def test_wrong_by_a_fixture_that_a_marked_test_made(shared):
    pass


def test_wrong_in_a_process():
    subprocess.run([sys.executable, "-c", ASK], check=True, capture_output=True)


def test_wrong_by_path():
    np.load(DATA / "rows.npz")


def test_wrong_by_the_cache_of_the_user(monkeypatch):
    monkeypatch.delenv("EWSG_JAX_DATA")
    np.load(find(("rows.npz",), "nowhere"))
"""


@pytest.mark.parametrize("workers", [[], ["-n", "1"]], ids=["one process", "xdist"])
def test_only_marked_tests_see_prepared_data(tmp_path, workers):
    data, home = tmp_path / "data", tmp_path / "home"
    (home / ".cache" / "ewsg_jax").mkdir(parents=True)
    data.mkdir()
    (data / "covertype.npz").touch()
    for folder in (data, home / ".cache" / "ewsg_jax"):
        np.savez(folder / "rows.npz", x=np.ones(1))
    file = tmp_path / "test_it.py"
    file.write_text(TESTS.format(data=str(data)), encoding="utf-8")
    options = [
        "-p",
        "tests.conftest",
        "-p",
        "no:cacheprovider",
        "-c",
        ROOT / "pyproject.toml",
        *workers,
    ]
    environment = os.environ | {
        "EWSG_JAX_DATA": str(data),
        "HOME": str(home),
        "PYTHONPATH": str(ROOT),
    }
    for name in ("EWSG_JAX_DATA_ASIDE", "PYTEST_XDIST_WORKER", "PYTEST_XDIST_WORKER_COUNT"):
        environment.pop(name, None)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-m", "", *options, file],
        env=environment,
        capture_output=True,
        text=True,
        cwd=ROOT,
    )
    assert "4 failed, 3 passed, 1 error" in done.stdout, done.stdout + done.stderr
    failed = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    assert len(failed) == TESTS.count("def test_wrong_") == 5
    assert all("::test_wrong_" in line for line in failed)
