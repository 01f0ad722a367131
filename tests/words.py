"""Phrases that may not stand where users read: README, pages, docstrings, error messages.

And identifiers that the field would not understand. `python -m tests.words [FOLDER …]` prints where
each stands, with what to write instead. `test_words.py` wants none.
"""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
WIDTH = 100

INSTEAD = {
    r"so many": "this many, or a name: n, count",
    r"(key|which) is none": "is not a …",
    r"of the wrong kind": "has the wrong type or value",
    r"for want of": "without",
    r"likewise": "the same, too",
    r"anew": "again",
    r"leaf after leaf": "in `ravel_pytree` order",
    r"foretold|foretells?|untold": "predicted",
    r"told": "reported, known, predicted, given",
    r"tells?": "reports, says",
    r"goes on|go on|gone on|went on": "continues, resumes",
    r"taken up again|taken up|take up again": "resumed, restored",
    r"heats?|heated": "gradient-noise temperature; too wide",
    r"too (hot|cold)|hotter|hottest|colder|coldest": "too wide, too narrow",
    r"as ever": "as before",
    r"mended": "fixed",
    r"begun": "started",
    r"of yours|of the user'?s?": "your own, user-defined",
    r"looks at|looked at": "checks, evaluates",
    r"lost chains?|chains? lost|goes lost": "diverged chains",
    r"rests where": "is frozen at",
    r"written down": "written",
    r"numbers of (a|the) position": "parameters, dimensions",
    r"exact weights": "full weights",
}
"""What to write instead of each phrase, a regular expression between two ends of words."""
FIELD = {
    r"laws?(?! of large numbers)": "distribution; scheme (of rows); target",
    r"chances?": "Monte Carlo error, probability",
    r"trials?": "pilot run",
    r"walls?(?![- ](clock|time))": "steep edge",
    r"(?<!varying\s)(?<!aspect\s)(?<!random\s)(?<!intercepts\sand\s)slopes?(?! of a line)": (
        "gradient, score"
    ),
    r"trees?(?! (of folders|of the package))": "pytree",
    r"besides?": "compared with, in addition to, next to",
    r"unlike": "different",
    r"posterior widths?|sds? wide": "posterior sd",
    r"planted faults?": "injected bug, mutation",
    r"ready models?": "built-in model",
    r"of which(?=[.:])": "name the thing",
}
"""The same for words that the field has another word for: not asked of the changelog."""
PLACES = (
    "place places point points position positions region regions page pages line lines file files "
    "folder row rows step steps case cases say says said show shows see know knows find of from to "
    "place, positions, regions, points, exactly code example examples section draws edge lie lies 0"
)
"""Words before "where" that make it one of place; else it is "if", "when" or "for which"."""
PHRASES, OF_THE_FIELD = (
    {
        re.compile(rf"\b({phrase})\b".replace(" ", r"\s+"), re.IGNORECASE): instead
        for phrase, instead in table.items()
    }
    for table in (INSTEAD, FIELD)
)
OF_THE_FIELD |= {
    re.compile(r"(?:\A|[.:;]\s+|\n\n\s*)Of (?=[a-z])"): "the subject first",
}


ARGUMENT = re.compile(r"(?<=\n)`` of (?=[a-z])")
"""An argument's line, whose name `strings` takes out, that cannot be read without that name."""


def pages() -> list[Path]:
    """Return the README, the changelog and all pages."""
    beside = ("README.md", "CHANGELOG.md", "tests/README.md", "benchmarks/README.md")
    return [*(ROOT / path for path in beside), *sorted((ROOT / "docs").glob("**/*.md"))]


def too_wide(path: Path) -> list[str]:
    """Return a page's lines wider than its text; those of tables, links, outputs may be."""
    fence, wide = None, []
    for number, line in enumerate(path.read_text(encoding="utf-8").split("\n"), 1):
        if line.lstrip().startswith(("```", ":::")):
            fence = None if fence else line.lstrip("`: ") or "text"
        may_be = (
            line.startswith("|")
            or "](" in line
            or (fence and not fence.startswith(("python", "sh")))
        )
        if len(line) > WIDTH and not may_be:
            wide.append(f"{path.relative_to(ROOT)}:{number}: {len(line)} characters")
    return wide


def misread(path: Path) -> list[str]:
    """Return a page's lines of prose that Markdown takes for something else by how they begin: a
    comment, which vanishes, or a list in the middle of a sentence.
    """
    fence, before, found = False, "", []
    for number, line in enumerate(path.read_text(encoding="utf-8").split("\n"), 1):
        if line.lstrip().startswith("```"):
            fence = not fence
        is_list = re.match(r"\s*([-*+]|\d+[.)]) ", line) and before.strip()
        of_list = re.match(r"\s*([-*+]|\d+[.)]) |\s\s|#|\||<!--|:::", before)
        if not fence and (line.lstrip().startswith("%") or (is_list and not of_list)):
            found.append(f"{path.relative_to(ROOT)}:{number}: {line[:40]}")
        before = line
    return found


def sources() -> list[Path]:
    """Return the modules of the package."""
    return sorted((ROOT / "ewsg_jax").glob("**/*.py"))


def prose(path: Path) -> Iterator[tuple[int, str]]:
    """Yield what a page says beside code and stored results, with the number of its first line."""
    is_code = is_stored = False
    lines = []
    for line in path.read_text(encoding="utf-8").split("\n"):
        if re.match(r"<!-- /?experiments\b", line):
            is_stored = not line.startswith("<!-- /")
        is_fence = line.startswith("```")
        is_code ^= is_fence
        plain = re.sub(r"`[^`]*`|<!--.*?-->|\]\([^)]*\)", "``", line)
        lines.append("" if is_fence or is_code or is_stored else plain)
    yield 1, "\n".join(lines)


def strings(path: Path) -> Iterator[tuple[int, str]]:
    """Yield docstrings and other texts of a module, with the numbers of their first lines."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            lines = node.value.split("\n")
            yield (
                node.lineno,
                "\n".join(
                    re.sub(r"`[^`]*`|>>>.*|\.\.\. .*|^\s*\w+:", "``", line) for line in lines
                ),
            )


def conditions(text: str) -> Iterator[re.Match[str]]:
    """Yield each "where" that opens a condition."""
    for match in re.finditer(r"(\S*)(\s+|^)(where)\b", text, re.IGNORECASE):
        before = match[1].strip("`*_(").lower()
        defines = re.match(r"\s+(\S{1,2}|``) (is|are|has|denotes)\b", text[match.end() :])
        if not defines and (before not in PLACES.split() or match[3] == "Where"):
            yield match


def in_prose(path: Path) -> list[str]:
    """Return where an old phrase stands in a file, and what to write instead."""
    of_the_field = path.name != "CHANGELOG.md"  # whose words are those of its time
    tables = PHRASES | (OF_THE_FIELD if of_the_field else {})
    places = []
    for first, text in strings(path) if path.suffix == ".py" else prose(path):
        matches = [(m, to) for phrase, to in tables.items() for m in phrase.finditer(text)]
        if of_the_field:
            matches += [(m, "if, when, for which") for m in conditions(text)]
        if path.suffix == ".py":
            matches += [(m, "a line that stands alone") for m in ARGUMENT.finditer(text)]
        places += [
            f"{path.relative_to(ROOT)}:{first + text.count(chr(10), 0, m.start())}: "
            f"{' '.join(m[0].split())!r}: {instead}"
            for m, instead in matches
        ]
    return places


WHOLE = {
    "found own each given some made told": "what the thing is",
    "nothing after put whole alike careful or_nuts by_law by_trials with_others": "what it does",
    "begun": "what it writes or starts",
    "Wanted Manner Saving Saver Watch Of Off Each Near Known Found Fresh Asked Ended Watched": (
        "a noun for what the record holds"
    ),
    "Way Ways Wall Walls Frame ladder climb scout steepest": "Candidate, StiffDirection, Whitening",
    "cooled COOL bends lit": "zero_noise, curvature_change, bright",
    "FAR SURE NEAR LEAST MOST_NUMBERS AT_ONCE": "the meaning, with its unit",
}
"""Identifiers that may not stand, underscores apart, and what to write instead."""
TOKENS = {
    "told foretold": "reported, predicted",
    "heat": "gradient_noise",
    "law laws": "distribution, scheme",
    "wall walls": "stiff direction, edge",
    "trial trials": "pilot",
    "chance chances": "monte_carlo, probability",
    "slope slopes": "gradient, score",
    "receipt": "update",
    "probe probes": "gradient_at, extra_gradients",
    "weighed restarted bowl elsewhere endless": "what it is in the field",
}
"""The same of a part of an identifier, between underscores or capitals."""
PUBLIC = {"RowLaw", "row_law"}
"""Public names that stay as they are, beside a better one."""
ALIASES = {
    ("ewsg_jax/answers/halve/result.py", "whole"),
    ("ewsg_jax/run/stacked.py", "whole"),
}
"""The same of attributes, each in the file that has it."""
STORED = {"given", "law", "slope"}
"""Fields of parts and states whose names are in files, or in the digests by which a run resumes."""
FILES = "elsewhere endless ways ahead asked seen starting pairs joining inner whole alike causes"
"""Names of files that do not say what is in them."""
_WHOLE = {name: instead for names, instead in WHOLE.items() for name in names.split()}
_TOKENS = {token: instead for tokens, instead in TOKENS.items() for token in tokens.split()}


def bound(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the names that a module gives to something, with their lines."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    fields = {
        id(line.target)
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
        for line in node.body
        if isinstance(line, ast.AnnAssign)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            if not (id(node) in fields and node.id in STORED):
                yield node.lineno, node.id
        elif isinstance(node, ast.arg):
            yield node.lineno, node.arg
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.lineno, node.name


def named(path: Path) -> list[str]:
    """Return where an identifier has a name that the field would not give it."""
    lines = [(1, path.stem)] if path.stem.lstrip("_") in FILES.split() else []
    places = [f"{path.relative_to(ROOT)}: the file's name" for _ in lines]
    for line, name in bound(path):
        plain = name.strip("_")
        tokens = re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", plain)
        instead = _WHOLE.get(plain) or next(
            (_TOKENS[token.lower()] for token in tokens if token.lower() in _TOKENS), None
        )
        is_alias = (str(path.relative_to(ROOT)), plain) in ALIASES
        if instead and plain not in PUBLIC and not is_alias:
            places.append(f"{path.relative_to(ROOT)}:{line}: {name}: {instead}")
    return places


def twice(kind: str) -> list[str]:
    """Return the names of classes, or of module constants, that two modules have."""
    where: dict[str, list[str]] = {}
    for path in sources():
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            names = []
            if kind == "class" and isinstance(node, ast.ClassDef):
                names = [node.name]
            elif kind == "constant" and isinstance(node, ast.Assign):
                names = [
                    name.id
                    for target in node.targets
                    for name in ast.walk(target)
                    if isinstance(name, ast.Name) and re.fullmatch(r"_?[A-Z][A-Z0-9_]*", name.id)
                ]
            for name in names:
                where.setdefault(name, []).append(str(path.relative_to(ROOT)))
    return [f"{name}: {', '.join(paths)}" for name, paths in sorted(where.items()) if paths[1:]]


if __name__ == "__main__":
    under = [path.resolve() for path in map(Path, sys.argv[1:])] or [ROOT]
    files = [
        path
        for path in [*pages(), *sources()]
        if any(folder in (path, *path.parents) for folder in under)
    ]
    places = [place for path in files for place in in_prose(path)]
    places += [place for path in files if path.suffix == ".py" for place in named(path)]
    if under == [ROOT]:
        places += [*twice("class"), *twice("constant")]
    print(*places, sep="\n")
    sys.exit(bool(places))
