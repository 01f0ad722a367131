"""Phrases that may not stand where users read: README, pages, docstrings, error messages.

`python -m tests.words` prints where each stands, with what to write instead. `test_words.py` wants
none.
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
PHRASES = {
    re.compile(rf"\b({phrase})\b".replace(" ", r"\s+"), re.IGNORECASE): instead
    for phrase, instead in INSTEAD.items()
}


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
        lines.append("" if is_fence or is_code or is_stored else re.sub(r"`[^`]*`", "``", line))
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


def found(path: Path) -> list[str]:
    """Return where an old phrase stands in a file, and what to write instead."""
    return [
        f"{path.relative_to(ROOT)}:{first + text.count(chr(10), 0, match.start())}: "
        f"{' '.join(match[0].split())!r}: {instead}"
        for first, text in (strings(path) if path.suffix == ".py" else prose(path))
        for phrase, instead in PHRASES.items()
        for match in phrase.finditer(text)
    ]


if __name__ == "__main__":
    places = [place for path in [*pages(), *sources()] for place in found(path)]
    print(*places, sep="\n")
    sys.exit(bool(places))
