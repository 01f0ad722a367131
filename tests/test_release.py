"""The version, its date and what is packed are the same wherever they stand."""

import re
import tomllib
from pathlib import Path

import ewsg_jax

ROOT = Path(__file__).parents[1]


def read(name: str) -> str:
    """Return the text of a file of the repository."""
    return (ROOT / name).read_text(encoding="utf-8")


def test_version_and_date_are_the_same_everywhere() -> None:
    version, date = re.findall(r"^## (\S+) \((\S+)\)$", read("CHANGELOG.md"), re.MULTILINE)[0]
    assert version == ewsg_jax.__version__
    citation = dict(re.findall(r"^(version|date-released): (\S+)$", read("CITATION.cff"), re.M))
    assert citation == {"version": version, "date-released": date}


def test_changelog_has_added_changed_and_fixed_in_each_section() -> None:
    _, *sections = re.split(r"^## ", read("CHANGELOG.md"), flags=re.MULTILINE)
    for section in sections:
        headings = re.findall(r"^### (\w+)$", section, re.MULTILINE)
        assert headings
        assert headings == [name for name in ("Added", "Changed", "Fixed") if name in headings]


def test_every_method_has_its_paper_in_the_citation() -> None:
    cited = re.findall(r"^  # (.+)$", read("CITATION.cff"), re.MULTILINE)
    assert {name for line in cited for name in line.split(", ")} == {*ewsg_jax.METHODS, "nuts"}


def test_sdist_holds_what_a_checkout_needs() -> None:
    settings = tomllib.loads(read("pyproject.toml"))["tool"]["hatch"]["build"]["targets"]["sdist"]
    assert {"README.md", "CONTRIBUTING.md", "SECURITY.md"} <= set(settings["include"])
    assert all((ROOT / name).exists() for name in settings["include"])


def test_actions_are_pinned_by_hash() -> None:
    for path in sorted((ROOT / ".github" / "workflows").glob("*.yml")):
        used = re.findall(r"uses: (\S+)(.*)$", path.read_text(encoding="utf-8"), re.MULTILINE)
        assert used
        for action, comment in used:
            assert re.fullmatch(r"[\w/-]+@[0-9a-f]{40}", action), f"{path.name}: {action}"
            assert re.fullmatch(r" # v[\d.]+", comment)
