"""Files of a run."""

import json

import numpy as np

from ewsg_jax.experiments import Folder


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
