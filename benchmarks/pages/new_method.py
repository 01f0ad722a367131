"""What a new method needs, in order: the list of CONTRIBUTING.md, and what of it a method has.

`python -m benchmarks.pages.new_method NAME` prints what is still to do for a method; without a name
it writes the list of CONTRIBUTING.md.
"""

import inspect
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import ewsg_jax as ewsg

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "CONTRIBUTING.md"
COSTS = "benchmarks/results/method_cost.json"


class Step(NamedTuple):
    """A step of adding a method.

    Attributes:
        what: what is to do, in words.
        files: the files that it changes, "FAMILY" and "NAME" standing for those of the method.
        is_done: whether a method of this name has it.
        command: what makes the files; empty if they are written by hand.
    """

    what: str
    files: tuple[str, ...]
    is_done: Callable[[str], bool]
    command: str = ""


def mentions(file: str, form: str = r"\b{}\b") -> Callable[[str], bool]:
    """Return whether a file of the repository has a text with the name of a method in it."""
    return lambda name: bool(
        re.search(form.format(re.escape(name)), (ROOT / file).read_text(encoding="utf-8"))
    )


def is_timed(name: str) -> bool:
    """Return whether the step of a method was timed, if it draws batches."""
    if name not in ewsg.METHODS:
        return False
    draws_batches = "batch_size" in inspect.signature(ewsg.METHODS[name].build).parameters
    return not draws_batches or mentions(COSTS)(name)


STEPS = (
    Step(
        "the function with its record (`@method(…)`) and docstring",
        ("ewsg_jax/methods/FAMILY.py",),
        lambda name: name in ewsg.METHODS,
    ),
    Step(
        "its import, and its place in the order of all tables",
        ("ewsg_jax/methods/__init__.py",),
        mentions("ewsg_jax/methods/__init__.py", '    "{}",\n'),
    ),
    Step("its paper", ("CITATION.cff",), mentions("CITATION.cff")),
    Step(
        "its step size on real posteriors",
        ("benchmarks/pages/posterior_settings.py",),
        mentions("benchmarks/pages/posterior_settings.py", '"{}":'),
    ),
    Step("when to take it, in prose", ("docs/choosing.md",), mentions("docs/choosing.md")),
    Step("a line under *Added*", ("CHANGELOG.md",), mentions("CHANGELOG.md")),
    Step(
        "the table of methods, and its entry in the API",
        ("docs/methods.md", "docs/api/methods.md"),
        mentions("docs/api/methods.md"),
        "python -m benchmarks.pages.methods",
    ),
    Step(
        "its stationary distribution on models that are solved exactly",
        ("docs/bias.json", "docs/bias.md"),
        mentions("docs/bias.json", '"method": "{}"'),
        "python -m benchmarks.pages.bias NAME",
    ),
    Step(
        "its draws on six real posteriors",
        ("docs/posteriors.json", "docs/posteriors.md"),
        mentions("docs/posteriors.json"),
        "EWSG_JAX_DATA=… python -m benchmarks.pages.posteriors --only NAME",
    ),
    Step(
        "the time of its step",
        (COSTS,),
        is_timed,
        "python -m benchmarks.cost.method",
    ),
    Step(
        "the table that compares methods, from the last three",
        ("docs/choosing.md",),
        mentions("docs/choosing.md", r"\| `{}` \|"),
        "python -m benchmarks.pages.choosing",
    ),
)
"""What a method of known parts needs. A part of its own needs a proof as well."""


def listed() -> str:
    """Return the list of CONTRIBUTING.md."""
    by_hand = [step for step in STEPS if not step.command]
    by_command = [step for step in STEPS if step.command]
    lines = ["Written by hand:", ""]
    for number, step in enumerate(by_hand, 1):
        lines.append(f"{number}. {', '.join(f'`{file}`' for file in step.files)}: {step.what}.")
    lines += ["", "Made from the record, in this order:", "", "```sh"]
    width = max(len(step.command) for step in by_command)
    lines += [f"{step.command:{width}}  # {', '.join(step.files)}" for step in by_command]
    return "\n".join([*lines, "```"])


def page(text: str) -> str:
    """Return the text of CONTRIBUTING.md with the list made anew."""
    start, end = "<!-- method: made by benchmarks/pages/new_method.py -->", "<!-- /method -->"
    before, _, rest = text.partition(start)
    return f"{before}{start}\n{listed()}\n{end}{rest.partition(end)[2]}"


def main(names: list[str]) -> None:
    """Print what is to do for the methods of these names; without one, write the page."""
    if not names:
        PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    for name in names:
        for step in STEPS:
            mark = "done" if step.is_done(name) else "to do"
            how = step.command.replace("NAME", name) or step.what
            print(f"{mark:5}  {', '.join(step.files)}: {how}")


if __name__ == "__main__":
    main(sys.argv[1:])
