"""The parts of documents that scripts write: each stands between two marks, which name it and its
script.
"""

import re
import textwrap
from collections.abc import Iterable, Sequence

WIDTH = 100
"""Characters of a line of text in the documents; a table's row is one line."""
TIED = "\N{NO-BREAK SPACE}"
"""A space at which no line is cut."""


def as_table(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a Markdown table; a row may end early.

    Example:
        >>> print(as_table(["n", "time"], [[1, "2 s"], [3]]))
        | n | time |
        | --- | --- |
        | 1 | 2 s |
        | 3 | |
    """
    return "\n".join(
        f"| {' | '.join(map(str, row))} |" + " |" * (len(heads) - len(row))
        for row in [heads, ["---"] * len(heads), *rows]
    )


def renewed(text: str, part: str, script: str, new: str) -> str:
    r"""Return a page's text with one of its parts made anew.

    Args:
        text: of the page.
        part: the part's name.
        script: what makes it, as the mark before it has it: a path in the repository.
        new: what stands between the marks, on lines of its own; long lines of prose are wrapped.

    Raises:
        ValueError: the page has not the mark before the part once, and the one after it behind
            that.

    Example:
        >>> renewed("Sum: <!-- sum: made by add.py -->3<!-- /sum -->.", "sum", "add.py", "4")
        'Sum: <!-- sum: made by add.py -->\n4\n<!-- /sum -->.'
    """
    start, end = f"<!-- {part}: made by {script} -->", f"<!-- /{part} -->"
    before, *rest = text.split(start)
    if len(rest) != 1 or end not in rest[0]:
        raise ValueError(
            f"the page has no place for the part {part!r}: it must have {start} once, then {end}"
        )
    return f"{before}{start}\n{_wrapped(new)}\n{end}{rest[0].partition(end)[2]}"


def _wrapped(text: str) -> str:
    """Return the text with lines of prose that are too long cut in several."""
    return "\n".join(
        line if line.startswith(("|", "!")) else _filled(line) for line in text.split("\n")
    )


def _filled(line: str) -> str:
    """Return a paragraph or an entry of a list in lines.

    No line begins with a percent sign, which makes a comment of it on the site, nor with a number
    and a point, which makes a list of it.
    """
    indent = "  " if line.startswith("- ") else ""
    tied = re.sub(r" (?=%|\d+\.(?: |$))", TIED, line)
    return textwrap.fill(
        tied, WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    ).replace(TIED, " ")
