"""What users read has the field's words, and pages are as narrow as a screen."""

import pytest

from tests import words

NAMES = [str(path.relative_to(words.ROOT)) for path in words.pages()]


@pytest.mark.parametrize("path", words.pages(), ids=NAMES)
def test_pages_have_the_words_of_the_field(path):
    assert words.in_prose(path) == []


def test_docstrings_and_messages_have_the_words_of_the_field():
    assert [place for path in words.sources() for place in words.in_prose(path)] == []


def test_identifiers_have_the_words_of_the_field():
    """Variables, arguments, functions, classes, constants and files."""
    assert [place for path in words.sources() for place in words.named(path)] == []


@pytest.mark.parametrize("kind", ["class", "constant"])
def test_a_name_means_one_thing(kind):
    """No two modules of the package have a class, or a constant, of one name."""
    assert words.twice(kind) == []


@pytest.mark.parametrize(
    ("source", "kind"),
    [
        ("def f():\n    found = 1\n", "found"),
        ("class BatchLaw:\n    pass\n", "BatchLaw"),
        ("def f(told):\n    pass\n", "told"),
        ('def f():\n    """Of a run."""\n', "Of"),
        ('def f():\n    """Return it. Where rows are few, all."""\n', "Where"),
        ('def f():\n    """Draws of its law."""\n', "law"),
        ('def f(n):\n    """A.\n\n    Args:\n        n: of the run.\n    """\n', "stands alone"),
    ],
)
def test_the_checker_sees_them(source, kind, tmp_path, monkeypatch):
    monkeypatch.setattr(words, "ROOT", tmp_path)
    (tmp_path / "module.py").write_text(source)
    seen = words.in_prose(tmp_path / "module.py") + words.named(tmp_path / "module.py")
    assert len(seen) == 1
    assert kind in seen[0]


@pytest.mark.parametrize("path", words.pages(), ids=NAMES)
def test_pages_are_narrow(path):
    assert words.too_wide(path) == []


@pytest.mark.parametrize("path", words.pages(), ids=NAMES)
def test_lines_begin_with_words(path):
    assert words.misread(path) == []


def test_the_readme_is_short():
    assert len((words.ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 120
