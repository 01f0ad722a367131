"""What users read has the field's words, and pages are as narrow as a screen."""

import pytest

from tests import words

NAMES = [str(path.relative_to(words.ROOT)) for path in words.pages()]


@pytest.mark.parametrize("path", words.pages(), ids=NAMES)
def test_pages_have_the_words_of_the_field(path):
    assert words.found(path) == []


def test_docstrings_and_messages_have_the_words_of_the_field():
    assert [place for path in words.sources() for place in words.found(path)] == []


@pytest.mark.parametrize("path", words.pages(), ids=NAMES)
def test_pages_are_narrow(path):
    assert words.too_wide(path) == []


@pytest.mark.parametrize("path", words.pages(), ids=NAMES)
def test_lines_begin_with_words(path):
    assert words.misread(path) == []


def test_lines_that_vanish_or_become_lists_are_found(tmp_path, monkeypatch):
    monkeypatch.setattr(words, "ROOT", tmp_path)
    page = tmp_path / "page.md"
    page.write_text("It is 6\n% off, for M =\n1. So it is.\n\n1. One\n2. two\n```\n% a\n```\n")
    assert words.misread(page) == ["page.md:2: % off, for M =", "page.md:3: 1. So it is."]


def test_the_readme_is_short():
    assert len((words.ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 120


def test_old_phrases_are_found(tmp_path, monkeypatch):
    """In prose, docstrings and messages; not in code, names and results."""
    monkeypatch.setattr(words, "ROOT", tmp_path)
    page, module = tmp_path / "page.md", tmp_path / "module.py"
    page.write_text(
        "It is told.\n```python\ntold = anew\n```\nIs `told` so?\n" + 25 * "wide " + "\n"
    )
    module.write_text(
        'def told():\n    """Return so many.\n\n    Args:\n        heat: a word.\n    """\n'
        '    raise ValueError(f"{told} goes on")\n'
    )
    assert [place.split(": ")[0] for place in words.found(page)] == ["page.md:1"]
    assert [place.split(": ")[:2] for place in words.found(module)] == [
        ["module.py:2", "'so many'"],
        ["module.py:7", "'goes on'"],
    ]
    assert words.too_wide(page) == ["page.md:6: 125 characters"]
