"""Completes the docstring of a method, so that each fact is written once.

A method documents what is its own. Its record says the bias, the cost, the hazard and the source;
the methods that it resembles document the arguments that it shares with them. `help` and the site
show the whole.
"""

import inspect
import re
import textwrap
from collections.abc import Callable
from typing import Any

from ewsg_jax.kernels.papers import PAPERS

FROM_RECORD = {
    "Bias": "{bias} (discretisation).",
    "Cost": "evaluations per step: {evaluations}; numbers in memory: {memory}.",
    "Hazard": "{hazard}.",
    "Source": "{source}.",
}
"""How sections begin; what the docstring itself has under that name follows."""
PARAGRAPHS = ("Update", "Target", "Bias", "Cost", "When", "Hazard", "Source")
SECTIONS = ("Args", "Raises", "Example")


def completed(
    build: Callable[..., Any], record: dict[str, Any], like: tuple[Callable[..., Any], ...]
) -> str | None:
    """Return the docstring of a method with what its record and similar methods say.

    Args:
        build: the method; arguments that its docstring has are not looked for elsewhere.
        record: the fields of its record, by name.
        like: methods with complete docstrings. An argument is taken from the first that documents
            it, a missing section "Raises" from the last of them.

    Raises:
        ValueError: an argument is documented nowhere.
    """
    if build.__doc__ is None:  # python -OO
        return None
    text = inspect.cleandoc(build.__doc__)
    sections = entries(text)
    for name, beginning in FROM_RECORD.items():
        _, _, more = sections.get(name, "").partition(":")
        words = f"{name}: {beginning.format_map(record)} {more}"
        if name == "Source":
            for short, full in PAPERS.items():
                words = words.replace(short, full)
        sections[name] = wrapped(words)
    arguments = {}
    for method in (*reversed(like), build):
        arguments |= documented_arguments(inspect.getdoc(method) or "")
    parameters = inspect.signature(build).parameters
    if missing := parameters.keys() - arguments.keys():
        raise ValueError(f"{build.__name__} documents no {', '.join(sorted(missing))}")
    lines = "\n".join(arguments[name] for name in parameters)
    sections["Args"] = "Args:\n" + textwrap.indent(lines, "    ")
    if like:
        sections.setdefault("Raises", entries(inspect.getdoc(like[-1]) or "")["Raises"])
    summary, _, _ = text.partition("\n\n")
    paragraphs = "\n".join(sections[name] for name in PARAGRAPHS if name in sections)
    return "\n\n".join(
        [summary, paragraphs, *(sections[name] for name in SECTIONS if name in sections)]
    )


def entries(text: str) -> dict[str, str]:
    """Return each `name: text` at the left margin, with the deeper lines below it."""
    matches = re.finditer(r"^(\w+):.*(?:\n(?: .*)?)*", text, flags=re.MULTILINE)
    return {match[1]: match[0].rstrip() for match in matches}


def documented_arguments(docstring: str) -> dict[str, str]:
    """Return the lines of each argument, at the left margin."""
    _, _, lines = entries(docstring).get("Args", "").partition("\n")
    return entries(textwrap.dedent(lines))


def wrapped(paragraph: str) -> str:
    """Return a section of one paragraph, its lines after the first indented."""
    # 100, less the margin of a docstring.
    return textwrap.fill(
        " ".join(paragraph.split()),
        96,
        subsequent_indent="    ",
        break_long_words=False,
        break_on_hyphens=False,
    )
