"""Files of a run."""

import json
import types

import numpy as np

from ewsg_jax.experiments import Folder
from ewsg_jax.experiments.run import draws_of


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
        position=np.ones((3, 4, 2)),
        step=np.array([10, 20, 30, 40]),
        diverged_at=np.array([-1, 25, 3]),
    )
    found = draws_of(samples)
    assert np.isfinite(found).all(2).sum(1).tolist() == [4, 2, 0]
