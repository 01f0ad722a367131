"""The site: `python -m sphinx -W -c docs . site`.

The source is the whole checkout, so that pages link to each other, to notebooks and to files of the
repository by the same relative paths as on any host of the repository. Notebooks are shown with the
outputs that are stored in them; the tests run them.
"""

import ast
import copy
import inspect
import json
import re
import sys
import textwrap
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from docutils.nodes import document
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.domains.python import PyObject
from sphinx.environment import BuildEnvironment
from sphinx.util import logging

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

import ewsg_jax  # noqa: E402 - of this checkout, whatever is installed

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
HOME = PROJECT.get("urls", {}).get("Source")
"""Where the project lives; None while it has no known home. Then nothing links there."""

project = "ewsg_jax"
author = copyright = "The ewsg_jax developers"
version = release = ewsg_jax.__version__

root_doc = "docs/index"
include_patterns = [
    "docs/**.md",
    "notebooks/*.ipynb",
    "benchmarks/README.md",
    "tests/README.md",
    "tests/sweep.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
]
extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "sphinx_design",
]
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 4
nb_execution_mode = "off"
nb_merge_streams = True
default_role = "py:obj"  # `name` in a docstring links to the name where it is one
python_maximum_signature_line_length = 72
autodoc_member_order = "bysource"
autodoc_default_options = {"member-order": "bysource"}
napoleon_use_ivar = True
python_use_unqualified_type_names = True
napoleon_attr_annotations = False  # `docstring_as_rst` has them as they are written
napoleon_use_rtype = False
copybutton_prompt_text = r">>> |\.\.\. "
copybutton_prompt_is_regexp = True
copybutton_only_copy_prompt_lines = True
toc_object_entries_show_parents = "hide"
add_function_parentheses = False
suppress_warnings = ["mystnb.mime_priority"]

html_theme = "sphinx_book_theme"
html_title = f"ewsg_jax {version}"
html_static_path = ["static"]
html_favicon = "static/icon.svg"
html_css_files = ["site.css"]
html_copy_source = False
html_domain_indices = html_use_index = False  # the search finds names
html_show_sourcelink = False
html_theme_options = {
    "use_download_button": False,
    "use_fullscreen_button": False,
    "show_toc_level": 2,
    "max_navbar_depth": 3,
    "navbar_persistent": [],  # the sidebar has the search
} | ({"repository_url": HOME, "use_repository_button": True} if HOME else {})

WRITTEN_BY_CALLERS = {
    "Posterior",
    "Schedule",
    "LowRank",
    "Batch",
    "Block",
    "Estimate",
    "Evaluations",
}
"""Classes that are made by their own name. Others are returned, and have no signature here."""
TYPES = "ewsg_jax.base.typing"
NAMED_TYPES = ("Key", "Data", "Position", "PyTree", "Hyperparameter", "Array", "Scalar", "Memory")
"""Types that the page of the API describes."""
OTHER_TYPES = {"Corrected": "ewsg_jax.answers.check.report.Corrected"}
"""Where classes are that are no public names."""
PARAGRAPHS = ("Update", "Target", "Bias", "Cost", "When", "Hazard", "Source")
"""What the docstring of a method says in a paragraph each, before its arguments."""


@cache
def _definitions(path: str) -> dict[str, ast.AST]:
    """Return the classes and functions of a file, by qualified name."""
    found: dict[str, ast.AST] = {}

    def walk(node: ast.AST, prefix: str) -> None:
        for inner in ast.iter_child_nodes(node):
            if isinstance(inner, ast.ClassDef | ast.FunctionDef):
                found[prefix + inner.name] = inner  # the last of several overloads is the function
                walk(inner, f"{prefix}{inner.name}.")

    walk(ast.parse(Path(path).read_text(encoding="utf-8")), "")
    return found


def _definition(thing: Any) -> ast.AST | None:
    """Return where a class or function is written, as it is written."""
    try:
        path = inspect.getsourcefile(inspect.unwrap(thing))
    except TypeError:
        return None
    if not path or not Path(path).exists():  # such as the `__init__` of a dataclass
        return None
    return _definitions(path).get(inspect.unwrap(thing).__qualname__)


def _fields(node: ast.ClassDef) -> str:
    """Return the public fields of a class as arguments."""
    arguments = []
    for field in node.body:
        if not isinstance(field, ast.AnnAssign) or not isinstance(field.target, ast.Name):
            continue
        annotation, default = qualified(field.annotation), field.value
        if annotation.startswith("ClassVar"):
            continue
        if annotation == "KW_ONLY":
            arguments.append("*")
        if field.target.id.startswith("_"):
            continue
        if isinstance(default, ast.Call):  # static(), static(default=…), field(default=…)
            default = next((k.value for k in default.keywords if k.arg == "default"), None)
        shown = f" = {ast.unparse(default)}" if default else ""
        arguments.append(f"{field.target.id}: {annotation}{shown}")
    return ", ".join(arguments)


def signature_as_written(
    app: Sphinx, what: str, name: str, thing: Any, options: Any, *old: str
) -> tuple[str, str | None] | None:
    """Give autodoc the types by their names in the source, not the unions behind them."""
    node = _definition(thing)
    if isinstance(node, ast.ClassDef):
        short = name.rsplit(".", 1)[-1]
        if short not in WRITTEN_BY_CALLERS:
            return "", None
        init = _definition(thing.__init__)
        if init is None:
            return f"({_fields(node)})", None
        node = init
    if not isinstance(node, ast.FunctionDef):
        return None
    arguments = node.args
    if (
        what in ("method", "class")
        and arguments.args[:1]
        and arguments.args[0].arg in ("self", "cls")
    ):
        arguments = ast.arguments(**{**vars(arguments), "args": arguments.args[1:]})
    returned = None if what == "class" or node.returns is None else qualified(node.returns)
    return f"({qualified(arguments)})", returned


@cache
def types() -> dict[str, str]:
    """Return where each type that a signature may name is described, by the name it has there."""
    named = {name.rpartition(".")[2]: name for name in sorted(public_names(), reverse=True)}
    classes = {short: name for short, name in named.items() if short[:1].isupper()}
    return classes | {name: f"{TYPES}.{name}" for name in NAMED_TYPES} | OTHER_TYPES


def qualified(node: ast.AST) -> str:
    """Return annotations as they are written, with types by the names under which they are found."""

    class Names(ast.NodeTransformer):
        def visit_Name(self, name: ast.Name) -> ast.AST:
            return ast.Name(types().get(name.id, name.id))

        def visit_Constant(self, constant: ast.Constant) -> ast.AST:
            # A name in quotes, which is defined further below in its file.
            is_name = isinstance(constant.value, str) and constant.value.isidentifier()
            return self.visit_Name(ast.Name(constant.value)) if is_name else constant

    def of(annotation: ast.expr | None) -> ast.expr | None:
        return None if annotation is None else Names().visit(copy.deepcopy(annotation))

    if not isinstance(node, ast.arguments):
        # Here it is an annotation, of which there is always one.
        return ast.unparse(of(node))  # type: ignore[arg-type]
    node = copy.deepcopy(node)
    for one in (*node.posonlyargs, *node.args, *node.kwonlyargs, node.vararg, node.kwarg):
        if one is not None:
            one.annotation = of(one.annotation)
    return ast.unparse(node)


def docstring_as_rst(
    app: Sphinx, what: str, name: str, thing: Any, options: Any, lines: list[str]
) -> None:
    """Turn the form of the docstrings into what napoleon and docutils read."""
    text = _with_types("\n".join(lines), _definition(thing))
    # `Update: text` is a field; `Example: text` is a section that begins with the text.
    text = re.sub(rf"^({'|'.join(PARAGRAPHS)}): (?=\S)", r":\1: ", text, flags=re.MULTILINE)
    text = re.sub(r"^(:\w+: .*\n)(?!:|[ ]|\n)", r"\1\n", text, flags=re.MULTILINE)
    text = re.sub(r"^Example: (?=\S)(.*)$", r"Example:\n    \1", text, flags=re.MULTILINE)
    out: list[str] = []
    for line in text.split("\n"):
        is_code = line.lstrip().startswith((">>>", "..."))
        if is_code and out and out[-1].strip() and not out[-1].lstrip().startswith((">>>", "...")):
            is_section = out[-1].rstrip().endswith(":") and out[-1] == out[-1].lstrip()
            is_output = len(out) > 1 and any(x.lstrip().startswith(">>>") for x in out[-3:])
            if not is_section and not is_output:
                out.append("")
        out.append(line if is_code else _escaped(line))
    lines[:] = out


def linked(annotation: ast.expr) -> str:
    """Return the type of an attribute, which links to where it is described, by its short name."""
    return re.sub(r"\bewsg_jax\.", "~ewsg_jax.", qualified(annotation))


def _with_types(text: str, node: ast.AST | None) -> str:
    """Return a docstring whose attributes have the types that the class has for them."""
    head, heading, attributes = text.partition("\nAttributes:\n")
    if not heading or not isinstance(node, ast.ClassDef):
        return text
    for field in node.body:
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
            name, kind = field.target.id, linked(field.annotation)
            attributes = re.sub(
                rf"^(    {name}):", lambda m, k=kind: f"{m[1]} ({k}):", attributes, flags=re.M
            )
    return head + heading + attributes


def _escaped(line: str) -> str:
    """Escape what is markup to docutils and none to us, outside `code`."""
    line = re.sub(
        r"(^\s*|: )(\w|\d+)([.)])(?=\s|$)", r"\1\2\\\3", line
    )  # a sentence's end is no list
    parts = re.split(r"(`[^`]*`)", line)
    return "".join(
        part if number % 2 else re.sub(r"(?<!\\)([*|]|(?<=\w)_(?!\w))", r"\\\1", part)
        for number, part in enumerate(parts)
    )


def public_names() -> set[str]:
    """Return every public name, dotted; one that stands at the top and in a room, at the top."""
    rooms: dict[str, ModuleType] = {"ewsg_jax": ewsg_jax}
    rooms |= {f"ewsg_jax.{room}": getattr(ewsg_jax, room) for room in ewsg_jax._ROOMS}
    return {
        f"{room}.{name}"
        for room, module in rooms.items()
        for name in dir(module)
        if not name.startswith("_") and not isinstance(getattr(module, name), ModuleType)
        if module is ewsg_jax or getattr(module, name) is not getattr(ewsg_jax, name, None)
    }


def names_without_a_page(app: Sphinx, env: BuildEnvironment) -> None:
    """Warn of public names that no page of the API has; with `-W` that is an error."""
    missing = public_names() - set(env.domains.python_domain.objects)
    if missing:
        logging.getLogger(__name__).warning(
            "public names without an entry on a page of docs/api: %s", ", ".join(sorted(missing))
        )


ENTRY = re.compile(
    r"^\.\. (?:auto\w+|py:data|py:module):: (\S+)((?:\n +\S.*|\n(?= *\n +\S))*)", re.M
)
"""An entry of a page of the API, with what is indented below it."""


def links_to_names(app: Sphinx, docname: str, source: list[str]) -> None:
    """Make links to a name on a page of the API links to that name, of which MyST knows nothing."""
    link = r"\[`([^`]+)`\]\((?:[\w./]*/)?api/\w+\.md#(ewsg_jax\.[\w.]+)\)"
    source[0] = re.sub(link, r"{py:obj}`\1 <\2>`", source[0])


HEAD = ("| name | what |", "| --- | --- |")


def tables_of_names(app: Sphinx, docname: str, source: list[str]) -> None:
    """Begin each page of the API with a table of its names, and their index with that of all."""
    folder, _, page = docname.rpartition("/")
    if folder != "docs/api":
        return
    text = source[0]
    if page != "index":
        place = re.search(r"^(## |```\{)", text, re.M)
        assert place is not None
        rows = [*HEAD, *names_of(text)]
        source[0] = text[: place.start()] + "\n".join(rows) + "\n\n" + text[place.start() :]
        return
    rows = [*HEAD]
    for listed in re.findall(
        r"^(\w+)$", "".join(re.findall(r"```\{toctree\}.*?```", text, re.S)), re.M
    ):
        other = (ROOT / folder / f"{listed}.md").read_text(encoding="utf-8")
        rows += [
            f"| **[{other.splitlines()[0].removeprefix('# ')}]({listed}.md)** | |",
            *names_of(other),
        ]
    source[0] = text.replace("```{toctree}", "\n".join(rows) + "\n\n```{toctree}", 1)


def names_of(text: str) -> list[str]:
    """Return a row of a table for each entry of a page: its name, and what it is in one sentence."""
    rows, room = [], "ewsg_jax"
    for entry in ENTRY.finditer(text):
        name, below = entry.groups()
        if entry[0].startswith(".. py:module"):
            room = name
            continue
        if entry[0].startswith(".. py:data"):
            name = name if name.startswith("ewsg_jax") else f"{room}.{name}"
            words = [line.strip() for line in below.splitlines() if ":type:" not in line]
            summary = " ".join(filter(None, words))
        else:
            summary = first_paragraph(name)
        sentence = re.split(r"(?<=[.:]) ", summary, maxsplit=1)[0].rstrip(".:").replace("|", "\\|")
        short = name.removeprefix("ewsg_jax.").removeprefix("answers.check.report.")
        rows.append(f"| {{py:obj}}`{short} <{name}>` | {sentence} |")
    return rows


def first_paragraph(name: str) -> str:
    """Return the first paragraph of a docstring, in one line."""
    thing: Any = ewsg_jax
    for part in name.split(".")[1:]:
        thing = getattr(thing, part)
    return " ".join((inspect.getdoc(thing) or "").split("\n\n")[0].split())


def words_of_other_libraries() -> Iterator[tuple[str, str, str]]:
    """Yield each word of the glossary's last table, with the page and the place that it leads to."""
    text = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
    for words, here in re.findall(r"^\| (.*?) \| (.*) \|$", text.split("| --- | --- |")[1], re.M):
        target = re.search(r"\]\(([^)#]+)#?([^)]*)\)", here)
        assert target is not None, here
        page = (ROOT / "docs" / target[1]).resolve().relative_to(ROOT).with_suffix("").as_posix()
        for word in words.split(", "):
            yield word, page, target[2]


def words_in_search(app: Sphinx, doctree: document) -> None:
    """Let the search find a page by words that other libraries have for what it is about."""
    entries = [
        ("single", word, place, "main", None)
        for word, page, place in words_of_other_libraries()
        if page == app.env.current_document.docname
    ]
    doctree += addnodes.index(entries=entries)


def leave_out_of_search(app: Sphinx, env: BuildEnvironment) -> list[str]:
    """Leave pages out of the search that name everything and explain nothing."""
    for page in ("CHANGELOG", "tests/sweep"):
        env.metadata[page]["nosearch"] = "true"
    return []


def pictures_of_notebooks(app: Sphinx, docname: str, source: list[str]) -> None:
    """Put pictures that are attached to a cell into its text, for MyST-NB knows no attachments."""
    if not docname.startswith("notebooks/"):
        return
    notebook = json.loads(source[0])
    for cell in notebook["cells"]:
        text = "".join(cell["source"])
        for name, kinds in cell.pop("attachments", {}).items():
            kind, data = next(iter(kinds.items()))
            text = text.replace(f"(attachment:{name})", f"(data:{kind};base64,{data})")
        cell["source"] = text
    source[0] = json.dumps(notebook)


def front_door(app: Sphinx, error: Exception | None) -> None:
    """Write an index.html that leads to the landing page, for hosts that ask for it."""
    if error is None and app.builder.name == "html":
        (Path(app.outdir) / "index.html").write_text(
            textwrap.dedent("""\
                <!doctype html>
                <html lang="en">
                <meta charset="utf-8">
                <title>ewsg_jax</title>
                <link rel="icon" href="_static/icon.svg">
                <meta http-equiv="refresh" content="0; url=docs/index.html">
                <a href="docs/index.html">ewsg_jax</a>
                </html>
                """),
            encoding="utf-8",
        )


def setup(app: Sphinx) -> None:
    """Connect what is above."""
    for field in PyObject.doc_field_types:
        if field.name == "variable":
            field.label = "Attributes"
    app.connect("autodoc-process-signature", signature_as_written)
    app.connect("autodoc-process-docstring", docstring_as_rst, priority=400)  # before napoleon
    app.connect("source-read", pictures_of_notebooks)
    app.connect("source-read", links_to_names)
    app.connect("source-read", tables_of_names)
    app.connect("env-updated", leave_out_of_search)
    app.connect("doctree-read", words_in_search)
    app.connect("env-check-consistency", names_without_a_page)
    app.connect("build-finished", front_door)
