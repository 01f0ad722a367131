"""A gigabyte of rows in less memory than that, by the benchmark that also takes twenty."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.full

ROOT = Path(__file__).parents[3]


@pytest.mark.skipif(
    not Path("/proc/self/status").exists(), reason="anonymous memory is told by Linux"
)
def test_a_gigabyte_of_rows_is_never_in_memory(tmp_path):
    """Three windows of 125 MB, and what a process of JAX has anyway (0.2 GB)."""
    out = tmp_path / "out.json"
    command = [sys.executable, "-m", "benchmarks.cost.streamed", "--gigabytes", "1"]
    command += ["--passes", "1", "--folder", str(tmp_path), "--out", str(out)]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    subprocess.run(command, cwd=ROOT, env=environment, check=True, timeout=300, capture_output=True)
    told, streamed, summed = json.loads(out.read_text())["results"]
    assert told["rows"] * (4 * 54 + 1) > 0.999e9
    assert streamed["windows"] == 8
    assert streamed["data_passes"] == pytest.approx(1, abs=1e-4)
    # The centre's gradient over all rows, and 1,000 steps.
    assert summed["data_passes"] == pytest.approx(1 + 2 * 50 * 1_000 / told["rows"])
    assert streamed["anonymous_gb"] < 0.7
    assert summed["anonymous_gb"] < 0.7
    assert not any(tmp_path.glob("tmp*"))
