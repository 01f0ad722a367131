"""The sweep of settings: how a setting is scaled, what counts as a change, and that it sees one."""

import types

import pytest

from benchmarks.answers import settings_sweep


@pytest.mark.parametrize(
    ("value", "factor", "expected"),
    [
        (4, 2.0, 8),
        (1, 0.5, 1),
        (0.2, 0.5, 0.1),
        (0.9, 2.0, 0.8),
        (0.8, 0.5, 0.9),
        ((2, 0.5), 2.0, (4, 1.0)),
    ],
)
def test_a_share_is_scaled_by_what_it_leaves(value, factor, expected):
    assert settings_sweep.scaled(value, factor) == pytest.approx(expected)


@pytest.fixture
def room(monkeypatch, tmp_path):
    """A room of three settings: one decides what is said, one nothing, one is not read."""
    module = types.ModuleType("ewsg_jax.answers.made.settings")
    vars(module).update(LIMIT=3.0, SPARE=2, UNREAD=1.5, NAMES=("a",), names_read=set())
    monkeypatch.setitem(__import__("sys").modules, module.__name__, module)
    case = lambda: {"outcome": "wrong" if module.LIMIT * bool(module.SPARE) < 2 else "right"}
    monkeypatch.setitem(settings_sweep.CASES, "made", {"one": case})
    monkeypatch.setattr(settings_sweep, "RESULT", tmp_path / "sweep.json")
    monkeypatch.setattr(settings_sweep, "SLOWER", 1e9)
    return module


def test_it_finds_the_setting_that_decides(room, tmp_path):
    settings_sweep.sweep("made", None, 1.0)
    stored = settings_sweep.json.loads((tmp_path / "sweep.json").read_text())["made"]
    assert set(stored) == {"LIMIT", "SPARE", "UNREAD"}
    assert stored["LIMIT"]["halved"]["changes"] == ["one: outcome 'right' -> 'wrong'"]
    assert [settings_sweep.matters(stored[name]) for name in ("LIMIT", "SPARE")] == [True, False]
    assert stored["UNREAD"] == {"value": 1.5, "read": False, "compiled": False}
    assert (room.LIMIT, room.SPARE) == (3.0, 2)  # as they were


def test_an_error_is_a_change(room):
    def case():
        if room.LIMIT > 5:
            raise ValueError("LIMIT must be at most 5; got 6.0")
        return {"outcome": "right"}

    settings_sweep.CASES["made"]["one"] = case
    settings_sweep.sweep("made", {"LIMIT"}, 1.0)
    stored = settings_sweep.json.loads(settings_sweep.RESULT.read_text())["made"]
    assert any("ValueError" in change for change in stored["LIMIT"]["doubled"]["changes"])
