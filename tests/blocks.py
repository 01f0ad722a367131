"""The Python blocks of a document, run in order: `python tests/blocks.py README.md`.

For an environment where only the library is installed. It imports nothing of the checkout: what
runs is what is installed. Warnings are errors, but for deprecations in code of others.
"""

import re
import sys
import time
import warnings
from pathlib import Path
from typing import Any


def python_blocks(path: Path) -> list[tuple[int, str]]:
    """The code blocks of a document, with the line each begins on."""
    text = path.read_text(encoding="utf-8")
    found = re.finditer(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    return [(text.count("\n", 0, match.start(1)), match[1]) for match in found]


def run_blocks(path: Path) -> dict[str, Any]:
    """Run the blocks in order in one namespace, each under its own line numbers."""
    names: dict[str, Any] = {"__name__": path.stem}
    for line, block in python_blocks(path):
        exec(compile("\n" * line + block, str(path), "exec"), names)
    return names


def main(paths: list[str]) -> None:
    """Run the blocks of each document in a namespace of its own, and say how long it took."""
    if not paths:
        sys.exit("usage: python tests/blocks.py DOCUMENT…")
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
        run_blocks(path)
        print(f"{path}: {len(blocks)} blocks, {time.perf_counter() - began:.0f} s")


if __name__ == "__main__":
    main(sys.argv[1:])
