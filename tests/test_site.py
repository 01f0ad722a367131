"""The site builds without a warning, has all public names, and its links lead somewhere."""

import functools
import http.server
import importlib.util
import json
import os
import re
import subprocess
import sys
import threading
import tomllib
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

import ewsg_jax as ewsg
from tests import browser

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


@pytest.mark.parametrize(
    ("words", "page"),
    [
        ("PyMC", "docs/pymc"),
        ("DataLoader", "docs/loaders"),
        ("deep ensemble", "docs/recipes"),
        ("tutorial", "docs/get_started"),
        ("quickstart", "notebooks/quickstart"),
        ("warmup", "docs/plan"),
        ("WAIC", "docs/runs"),
        ("vmap", "docs/loops"),
        ("scan", "docs/loops"),
        ("learning coefficient", "docs/learning_coefficient"),
        ("LLC", "docs/learning_coefficient"),
        ("devinterp", "docs/learning_coefficient"),
        ("BlackJAX", "notebooks/from_blackjax"),
        ("BNN", "docs/networks"),
        ("offset", "docs/command_line"),
        ("SWAG", "docs/recipes"),
        ("cyclical", "docs/recipes"),
        ("microcanonical", "docs/recipes"),
        ("MCLMC", "docs/recipes"),
    ],
)
def test_the_search_knows_the_words_of_other_libraries(site: Path, words: str, page: str) -> None:
    """The whole of a main entry of the index counts 100, a title at most 16."""
    text = (site / "searchindex.js").read_text(encoding="utf-8")
    index = json.loads(text.removeprefix("Search.setIndex(").removesuffix(")"))
    ((number, place, is_main),) = index["indexentries"][words.lower()]
    assert index["docnames"][number] == page
    assert is_main
    names = Page(site / f"{page}.html").names
    assert place in ("", *names)


def entries_of(text: str) -> list[str]:
    """The names that a page of the API describes, but for members and types."""
    return re.findall(r'<dt class="sig[^"]*" id="(ewsg_jax(?:\.[a-z]\w*)*\.\w+)"', text)


def test_pages_of_the_api_begin_with_a_table_of_their_names(site: Path) -> None:
    """One line each, which links to the entry; the index has those of all pages."""
    index = (site / "docs/api/index.html").read_text(encoding="utf-8")
    of_all = set(re.findall(r'href="\w+\.html#(ewsg_jax[.\w]+)"', index.split("<table")[1]))
    for path in sorted((site / "docs/api").glob("*.html")):
        text = path.read_text(encoding="utf-8")
        if path.stem == "index":
            continue
        table = text.split("<table")[1].split("</table>")[0]
        assert text.index("<table") < text.index('<dt class="sig')
        rows = table.split("<tr")[2:]
        names = [re.findall(r'href="#(ewsg_jax[.\w]+)"', row)[0] for row in rows]
        assert names
        assert set(names) <= set(entries_of(text))
        assert set(names) <= of_all
        for row in rows:
            said = re.sub("<[^>]+>", "", row.split("<td>")[2]).strip()
            assert 5 < len(said) < 120
    public = {f"ewsg_jax.{name}" for name in dir(ewsg) if not name.startswith("_")}
    assert public - {f"ewsg_jax.{room}" for room in ewsg._ROOMS} <= of_all


def test_the_tables_of_methods_fit_and_link(site: Path) -> None:
    tables = (site / "docs/methods.html").read_text(encoding="utf-8").split("<table")[1:]
    *of_methods, of_parts = tables
    for table in of_methods:
        head, *rows = table.split("</table>")[0].split("<tr")[1:]
        assert head.count("<th") <= 5
        assert len(rows) == len(ewsg.METHODS)
        for name, row in zip(ewsg.METHODS, rows, strict=True):
            assert f'href="api/methods.html#ewsg_jax.{name}"' in row
    assert len(of_methods) == 2
    for name in (
        "dynamics.html#ewsg_jax.dynamics.adaptive_mass",
        "networks.html#ewsg_jax.networks",
    ):
        assert f'href="api/{name}' in of_parts


def test_signatures_link_their_types_and_attributes_are_called_so(site: Path) -> None:
    text = (site / "docs/api/three_calls.html").read_text(encoding="utf-8")
    signature = text.split('id="ewsg_jax.plan"')[1].split("</dt>")[0]
    for name, kind in {"key": "Key", "posterior": "Posterior", "data": "Data"}.items():
        argument = signature.split(f'<span class="pre">{name}</span>')[1].split("</dd>")[0]
        assert re.search(rf'<a class="reference internal" href="[^"]+"[^>]*>.*{kind}', argument)
    pages = {path: path.read_text(encoding="utf-8") for path in (site / "docs/api").glob("*.html")}
    assert not [path.name for path, text in pages.items() if ">Variables<" in text]
    assert ">Attributes<" in text
    warns = pages[site / "docs/api/kernel.html"].split('id="ewsg_jax.kernel"')[1]
    warns = warns.split(">Warns<")[1].split("</dd>")[0]
    assert warns.count("<strong>") == warns.count("<p>") == 1


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


# In a browser.

MISFITS = """
(() => {
    const found = [], width = document.documentElement.clientWidth;
    if (document.documentElement.scrollWidth > width + 1) found.push("the page scrolls sideways");
    for (const picture of document.images)
        if (!picture.complete || !picture.naturalWidth) found.push(`no picture ${picture.src}`);
    for (const code of document.querySelectorAll(".bd-article pre"))
        if (width > 1200 && code.scrollWidth > code.clientWidth + 1 && !code.closest(".cell"))
            found.push(`code is too wide: ${code.textContent.slice(0, 40)}`);
    const scrolls = element => element && (
        ["auto", "scroll", "hidden"].includes(getComputedStyle(element).overflowX)
        || scrolls(element.parentElement));
    const light = colour => {
        const [red, green, blue, alpha] = colour.match(/[\\d.]+/g).map(Number);
        const linear = [red, green, blue].map(part => part / 255).map(
            part => part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
        return [0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2], alpha ?? 1];
    };
    const behind = element => {
        if (!element) return 1;
        const [value, alpha] = light(getComputedStyle(element).backgroundColor);
        return alpha > 0.9 ? value : behind(element.parentElement);
    };
    const seen = new Set();
    for (const element of document.querySelectorAll(".bd-article *")) {
        const box = element.getBoundingClientRect();
        if (!box.width || !box.height) continue;
        const words = (element.textContent || "").trim().slice(0, 40);
        if (box.right > width + 1 && !scrolls(element.parentElement))
            found.push(`too wide: ${element.tagName} ${words}`);
        const texts = [...element.childNodes].filter(node => node.nodeType === Node.TEXT_NODE);
        if (!texts.some(node => node.data.trim())) continue;
        const colour = getComputedStyle(element).color, ground = behind(element);
        const pair = `${colour} ${ground}`;
        if (seen.has(pair) || element.closest("svg, .visually-hidden")) continue;
        seen.add(pair);
        const [low, high] = [light(colour)[0], ground].sort((a, b) => a - b);
        const contrast = (high + 0.05) / (low + 0.05);
        if (contrast < 4.5)
            found.push(`contrast ${contrast.toFixed(1)}: ${element.tagName} ${words}`);
    }
    return found.slice(0, 5);
})()
"""
"""What of a page does not fit: its width, that of code on a wide screen, pictures that did not
come, text that is hard to see.
"""


class Quiet(http.server.SimpleHTTPRequestHandler):
    """A server of files that prints nothing."""

    def log_message(self, format: str, *args: object) -> None:
        """Print nothing."""


@pytest.fixture(scope="module")
def home(site: Path) -> Iterator[str]:
    """The address of the site, which a server of static files gives out."""
    handler = functools.partial(Quiet, directory=str(site))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[browser.Browser]:
    """One browser for all tests."""
    path = browser.program()
    if path is None:
        pytest.skip(f"needs a Chromium on the path: {', '.join(browser.NAMES)}")
    made = browser.Browser(path, tmp_path_factory.mktemp("profile"))
    yield made
    made.close()


@pytest.fixture
def page(opened: browser.Browser, home: str) -> Iterator[browser.Browser]:
    """The browser on the landing page, wide and light; nothing may go wrong in it."""
    opened.look(1280, "light")
    opened.show(home + "docs/index.html")
    opened.problems.clear()
    yield opened
    assert not opened.problems


def test_the_front_door_leads_to_the_landing_page(page: browser.Browser, home: str) -> None:
    page.call("Page.navigate", url=home)
    page.wait("location.pathname === '/docs/index.html'")
    assert page.wait("document.querySelector('h1').textContent").startswith("ewsg_jax")


def test_every_part_in_the_sidebar_opens_its_page(page: browser.Browser) -> None:
    links = "[...document.querySelectorAll('nav.bd-links .bd-toc-item > ul > li > a')]"
    names = page.run(f"{links}.map(link => link.textContent.trim())")
    assert names[:4] == ["Get started", "How to choose", "Guides", "Is it right?"]
    for name in names:
        page.click("nav.bd-links a", name)
        chosen = f"{links}.filter(link => link.matches('.current')).map(a => a.textContent.trim())"
        page.wait(f"({chosen})[0] === {name!r}")
        assert page.wait("document.querySelector('h1')?.textContent.length > 1")


def test_a_guide_is_reached_from_its_card_and_from_the_sidebar(page: browser.Browser) -> None:
    page.click("nav.bd-links a", "Guides")
    page.click(".sd-card", "A hierarchical model")
    page.wait("document.querySelector('h1')?.textContent.startsWith('Hierarchical models')")
    page.click("nav.bd-links a", "Recipes")
    page.wait("document.querySelector('h1')?.textContent.startsWith('Recipes')")


@pytest.mark.parametrize(
    ("words", "name"),
    [
        ("dynamics.langevin", "ewsg_jax.dynamics.langevin"),
        ("ewsg_jax.gradients.control_variate", "ewsg_jax.gradients.control_variate"),
        ("find_mode", "ewsg_jax.find_mode"),
        ("samples.predict", "Samples.predict"),
        ("gradient noise", ""),
    ],
)
def test_what_is_typed_into_the_search_is_found(
    page: browser.Browser, words: str, name: str
) -> None:
    page.click("button.search-button__button")
    page.wait("document.activeElement.matches('input[type=search]')")
    page.type(words)
    found = "[...document.querySelectorAll('#search-results li a')].map(link => link.textContent)"
    first = page.wait(f"({found}).slice(0, 5)[0] && ({found}).slice(0, 5)")
    place = next(number for number, title in enumerate(first) if name in title)
    page.click("#search-results li a", first[place])
    page.wait("!location.pathname.endsWith('search.html')")
    for word in re.split(r"[. ]", words):
        assert page.wait(f"document.querySelector('article').textContent.includes({word!r})")


def test_a_theme_can_be_chosen_against_the_system(page: browser.Browser) -> None:
    for chosen in ("Dark", "Light"):
        page.click("button.theme-switch-button")
        page.click("button.theme-change-button", chosen)
        page.wait(f"document.documentElement.dataset.theme === '{chosen.lower()}'")
    page.run("localStorage.clear()")


def test_a_narrow_page_has_its_menu_behind_a_button(page: browser.Browser) -> None:
    page.look(390, "light")
    page.wait("document.querySelector('.bd-sidebar-primary').getBoundingClientRect().right <= 0")
    page.click("button.primary-toggle")
    page.click("nav.bd-links a", "Get started")
    assert page.wait("document.querySelector('h1')?.textContent").startswith("Get started")


def test_every_page_fits_and_can_be_read(
    page: browser.Browser, pages: dict[Path, Page], site: Path, home: str
) -> None:
    """On a wide and a narrow screen, light and dark."""
    found = {}
    for path in pages:
        name = str(path.relative_to(site))
        if name == "index.html":  # which leads on
            continue
        page.show(home + name)
        for width in (1280, 390):
            for theme in ("light", "dark"):
                page.look(width, theme)
                page.wait(f"document.documentElement.dataset.theme === {theme!r}")
                if misfits := page.run(MISFITS):
                    found[name, width, theme] = misfits
    assert not found
