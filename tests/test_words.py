"""What users read has the field's words, and pages are as narrow as a screen."""

import pytest

from tests import words

NAMES = [str(path.relative_to(words.ROOT)) for path in words.pages()]


@pytest.mark.parametrize("path", words.pages(), ids=NAMES)
def test_pages_have_the_words_of_the_field(path):
    assert words.in_prose(path, of_the_field=False) == []


def test_docstrings_and_messages_have_the_words_of_the_field():
    assert [
        place for path in words.sources() for place in words.in_prose(path, of_the_field=False)
    ] == []


@pytest.mark.parametrize("path", words.pages(), ids=NAMES)
def test_pages_are_narrow(path):
    assert words.too_wide(path) == []


@pytest.mark.parametrize("path", words.pages(), ids=NAMES)
def test_lines_begin_with_words(path):
    assert words.misread(path) == []


def test_the_readme_is_short():
    assert len((words.ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 120
