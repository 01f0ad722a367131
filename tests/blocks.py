"""The Python blocks of a document, run in order: `python tests/blocks.py README.md`.

A block of text that follows a Python block is what that one prints. It is compared with what it
prints now: words are the same, numbers but for their last digits. Times are not compared, nor the
passes that a search for a mode takes: how often it looks depends on the rounding of the machine.
`--write` writes what is printed instead.

For an environment where only the library is installed. It imports nothing of the checkout: what
runs is what is installed. Warnings are errors, but for deprecations in code of others.
"""

import contextlib
import io
import re
import sys
import textwrap
import time
import warnings
from pathlib import Path
from typing import Any

PRINTED = re.compile(r"\A\n+```text\n(.*?)^```", re.DOTALL | re.MULTILINE)
NUMBER = re.compile(r"(?<![\w.])[-+−]?\d[\d,]*(?:\.\d*)?(?:e[-+]?\d+)?")
WORK = re.compile(
    r"(?<=planning took )\S+ passes|(?<= used for )\S+ passes"
    r"|(?<=, )[\d.e+-]+ s \([^)]*\)|\b[\d.]+ (?:s|seconds)\b"
)
WIDTH = 100


def python_blocks(path: Path) -> list[tuple[int, str]]:
    """The code blocks of a document, with the line each begins on."""
    text = path.read_text(encoding="utf-8")
    found = re.finditer(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    return [(text.count("\n", 0, match.start(1)), match[1]) for match in found]


def run_blocks(path: Path) -> dict[str, Any]:
    """Run the blocks in order in one namespace, each under its own line numbers.

    Raises:
        AssertionError: one prints something else than the block of text under it.
    """
    names, _ = _run(path)
    return names


def _run(path: Path) -> tuple[dict[str, Any], str]:
    """Return the namespace of the blocks, and the document with what they print now."""
    names: dict[str, Any] = {"__name__": path.stem}
    lines, parts, rest = path.read_text(encoding="utf-8").splitlines(True), [], 0
    for line, block in python_blocks(path):
        end = line + block.count("\n") + 1
        shown = PRINTED.match("".join(["\n", *lines[end:]]))
        code = compile("\n" * line + block, str(path), "exec")
        if shown is None:
            exec(code, names)
            continue
        with contextlib.redirect_stdout(io.StringIO()) as out:
            exec(code, names)
        printed, expected = out.getvalue(), shown[1]
        if not are_alike(printed, expected):
            where = f"{path}, under the block of line {line + 1}"
            assert "--write" in sys.argv, (
                f"{where}: run python tests/blocks.py --write {path}\n{printed}\n{expected}"
            )
            expected = in_lines(printed)
        parts += [*lines[rest:end], "\n```text\n", expected, "```\n"]
        rest = end + shown[0].count("\n")
    return names, "".join([*parts, *lines[rest:]])


def are_alike(printed: str, expected: str) -> bool:
    """Return whether two texts have the same words, and numbers that differ in last digits."""
    printed, expected = (WORK.sub("", " ".join(text.split())) for text in (printed, expected))
    same_words = NUMBER.sub("#", printed) == NUMBER.sub("#", expected)
    numbers = zip(NUMBER.findall(printed), NUMBER.findall(expected), strict=False)
    return same_words and all(is_near(*pair) for pair in numbers)


def is_near(printed: str, expected: str) -> bool:
    """Return whether two numbers differ by a twentieth at most, or in their last digit by three;
    those below a millionth are rounding.
    """
    printed, expected = (text.replace(",", "").replace("−", "-") for text in (printed, expected))
    if printed == expected:
        return True
    mantissa, _, exponent = expected.partition("e")
    digits = len(mantissa.partition(".")[2])
    last = 3 * 10.0 ** (int(exponent or 0) - digits) if digits else 0.0
    return abs(float(printed) - float(expected)) <= max(0.05 * abs(float(expected)), last, 1e-6)


def in_lines(text: str) -> str:
    """Return what was printed in lines that a page has room for."""
    wrap = textwrap.TextWrapper(
        WIDTH, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False
    )
    return "".join(
        f"{line if len(line) <= WIDTH else wrap.fill(line)}\n" for line in text.splitlines()
    )


def main(paths: list[str]) -> None:
    """Run the blocks of each document in a namespace of its own, and say how long it took."""
    if not paths:
        sys.exit("usage: python tests/blocks.py [--write] DOCUMENT…")
    warnings.simplefilter("error")
    for kind in (DeprecationWarning, PendingDeprecationWarning, FutureWarning):
        warnings.filterwarnings("ignore", category=kind)
        warnings.filterwarnings(
            "error", category=kind, module=r"ewsg_jax|" + "|".join(Path(p).stem for p in paths)
        )
    for path in map(Path, paths):
        began, blocks = time.perf_counter(), python_blocks(path)
        if not blocks:
            sys.exit(f"{path} has no Python block")
        _, text = _run(path)
        if "--write" in sys.argv:
            path.write_text(text, encoding="utf-8")
        print(f"{path}: {len(blocks)} blocks, {time.perf_counter() - began:.0f} s")


if __name__ == "__main__":
    main([argument for argument in sys.argv[1:] if argument != "--write"])
