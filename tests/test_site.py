"""The site builds without a warning, has all public names, and its links lead somewhere."""

import importlib.util
import os
import re
import subprocess
import sys
import tomllib
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

import ewsg_jax as ewsg

ROOT = Path(__file__).parents[1]
pytestmark = [
    pytest.mark.full,
    pytest.mark.skipif(
        not importlib.util.find_spec("sphinx_book_theme"), reason="needs the extra docs"
    ),
]


class Page(HTMLParser):
    """What a page links to, what may be linked to in it, and its pictures."""

    def __init__(self, path: Path) -> None:
        """Read a page."""
        super().__init__()
        self.targets: list[str] = []
        self.names: set[str] = set()
        self.without_alt: list[str] = []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note the links and names of a tag."""
        found = dict(attrs)
        self.names |= {found[name] or "" for name in ("id", "name") if name in found}
        self.targets += [found[name] or "" for name in ("href", "src") if found.get(name)]
        # Sphinx takes the file's name where a picture has no text of its own.
        if tag == "img" and (found.get("alt") or ".png").endswith((".png", ".svg")):
            self.without_alt.append(found.get("src") or "")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the site once."""
    out = tmp_path_factory.mktemp("site")
    command = [
        sys.executable,
        *["-m", "sphinx", "-W", "--keep-going", "-q", "-c", "docs", "."],
        str(out),
    ]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-4000:]
    return out


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Page]:
    """All pages that have text of ours."""
    paths = sorted(path for path in site.glob("**/*.html") if "_static" not in path.parts)
    return {path: Page(path) for path in paths}


def test_links_and_pictures_of_the_site_lead_somewhere(site: Path, pages: dict[Path, Page]) -> None:
    lost = []
    for path, page in pages.items():
        for target in page.targets:
            parts = urlsplit(target)
            if parts.scheme or parts.netloc:
                continue
            goal = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            names = pages[goal].names if goal in pages else {unquote(parts.fragment)}
            is_there = goal.exists() and goal.is_relative_to(site)
            if not is_there or (parts.fragment and unquote(parts.fragment) not in names):
                lost.append(f"{path.relative_to(site)}: {target}")
    assert not lost


def test_pictures_say_what_they_show(site: Path, pages: dict[Path, Page]) -> None:
    without = {str(path.relative_to(site)): page.without_alt for path, page in pages.items()}
    assert not {page: pictures for page, pictures in without.items() if pictures}


def test_the_search_finds_dotted_names(site: Path) -> None:
    index = (site / "searchindex.js").read_text(encoding="utf-8")
    for name in ("langevin", "control_variate", "gradient_noise", "sample"):
        assert re.search(rf"\b{name}\b", index)
    inventory = (site / "objects.inv").read_bytes()
    assert inventory.startswith(b"# Sphinx inventory")


def test_nothing_links_to_a_home_that_is_not_known(pages: dict[Path, Page]) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    if "Source" in project.get("urls", {}):
        return
    targets = {target for page in pages.values() for target in page.targets}
    assert not {target for target in targets if "colab" in target or "github.com/ewsg" in target}


@pytest.mark.parametrize("room", ["", *ewsg._ROOMS])
def test_public_functions_have_an_example(room: str) -> None:
    """In the docstring; but for loaders of files that one has to get, and classes."""
    module = getattr(ewsg, room) if room else ewsg
    read_from_files = "EWSG_JAX_DATA"
    for name in dir(module):
        value = getattr(module, name)
        if name.startswith("_") or not callable(value) or isinstance(value, type):
            continue
        text = value.__doc__ or ""
        assert ">>> " in text or read_from_files in text, f"{room}.{name} has no example"
