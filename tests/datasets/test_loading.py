"""Loading: what is there, and what is said where it is not."""

import numpy as np
import pytest

import ewsg_jax as ewsg


def test_breast_cancer():
    data = ewsg.datasets.breast_cancer()
    assert data.x.shape == (569, 30)
    assert data.y.sum() == 357  # benign
    assert data.feature_names[0] == "mean_radius"
    assert data.rows()["x"].dtype == data.rows()["y"].dtype == np.float32


def test_columns_are_left_out():
    data = ewsg.datasets.load("breast_cancer")
    assert data.name == "breast_cancer"
    assert data.without(["mean_area"]).x.shape == (569, 29)
    assert "mean_area" not in data.without(["mean_area"]).feature_names


def test_folder_variable_must_name_a_folder(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("EWSG_JAX_DATA", str(tmp_path / "file"))
    with pytest.raises(NotADirectoryError, match="EWSG_JAX_DATA must name a folder"):
        ewsg.datasets.covertype()


def test_default_folder_is_the_users_cache(monkeypatch, tmp_path):
    monkeypatch.delenv("EWSG_JAX_DATA", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(
        FileNotFoundError, match=r"\.cache/ewsg_jax \(as EWSG_JAX_DATA is not set\)"
    ):
        ewsg.datasets.covertype()
    assert not list(tmp_path.iterdir())
