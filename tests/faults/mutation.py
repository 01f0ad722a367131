"""Make every small mutant of the functions of some rooms, and report which of them the tests do not kill.

    python -m tests.faults.mutation dynamics gradients --every 10 --seed 1 --output survived.json

Of each room's mutants every K-th is run, in an order shuffled by the seed, on the tests of the room: the test files named
like the source file first, then from the shortest to the longest. A survivor is an equivalent mutant or a hole in the
tests; a person says which. A mutant whose tests take longer than the limit is neither killed nor survived.
"""

import argparse
import ast
import json
import random
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from tests.faults import operators
from tests.faults.judge import ROOT, TIMED_OUT, Judge

ARITHMETIC = {"+": "-", "-": "+", "*": "/", "/": "*", "**": "*", "@": "-"}
COMPARISON = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "=="}
COMPARISON |= {"is": "is not", "is not": "is", "in": "not in", "not in": "in"}
SWAPS = [operators.swap(old, new) for old, new in ARITHMETIC.items()]
SWAPS += [operators.comparison(old, new) for old, new in COMPARISON.items()]
ELSEWHERE = {"kernel": ["test_contract.py", "test_uses.py"], "posterior": ["test_posterior.py"]}
"""The tests of rooms that have no folder of their own in `tests`."""

FATES = {0: "survived", 1: "killed", 2: "killed", TIMED_OUT: "timed out"}
"""By pytest's exit code; 2 is a module that cannot be imported. With any other the tests did not run."""


def _only_raises(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.If) and all(
        isinstance(inner, ast.Raise) for inner in statement.body
    )


def _worth_changing(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a function without what only refuses a wrong call."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Raise | ast.Assert) or (
            isinstance(child, ast.stmt) and _only_raises(child)
        ):
            continue
        check = child.value if isinstance(child, ast.Expr) else child
        if isinstance(check, ast.Call) and ast.unparse(check.func).startswith("_check."):
            continue
        yield child
        yield from _worth_changing(child)


def _changes(node: ast.AST, bound: set[str]) -> Iterator[tuple[str, str]]:
    """The kind and the wrong text of every mutant of one node."""
    match node:
        case ast.BinOp() | ast.Compare():
            yield from (
                (swap.label, text) for swap in SWAPS if (text := swap.change(node)) is not None
            )
        case ast.Constant(bool() as value):
            yield "constant", repr(not value)
        case ast.Constant(int() | float() as value):
            yield "constant", repr(value + 1)
        case ast.UnaryOp(ast.USub() | ast.Not(), operand):
            yield "sign or not dropped", ast.unparse(operand)
        case ast.BoolOp(op, values):
            word = " or " if isinstance(op, ast.And) else " and "
            yield "and for or", word.join(f"({ast.unparse(value)})" for value in values)
        case ast.Assign([ast.Name(name)]) if name in bound:
            yield "statement dropped", "pass"
        case ast.AugAssign():
            yield "statement dropped", "pass"
        case ast.Return(ast.Tuple([first, second, *rest])):
            yield (
                "returned values swapped",
                f"return {ast.unparse(ast.Tuple([second, first, *rest], ast.Load()))}",
            )


def mutants(room: str) -> list[tuple[operators.Function, ast.AST, str, str]]:
    """Every mutant of a room: the function, the node, the kind of change and the new text."""
    made = []
    for found in operators.functions(ROOT):
        place = found.path.split(".")[1]
        if place.lstrip("_") != room or found.node.name == "__repr__":
            continue
        # Only what is bound a second time can be dropped: without the first there is no program.
        bound = {
            argument.arg for argument in ast.walk(found.node.args) if isinstance(argument, ast.arg)
        }
        changed = {id(node) for node in _worth_changing(found.node)}
        for node in operators.nodes_of(found.node):
            if id(node) in changed:
                made += [(found, node, kind, text) for kind, text in _changes(node, bound)]
            if isinstance(node, ast.Assign):
                bound |= {target.id for target in node.targets if isinstance(target, ast.Name)}
    return made


def tests_of(found: operators.Function, room: str) -> list[str]:
    """The test files that reach a function of the room, those named like its file first, then the shortest."""
    folder = ROOT / "tests" / room
    files = sorted(folder.glob("test_*.py")) if folder.is_dir() else []
    files += [ROOT / "tests" / name for name in ELSEWHERE.get(room, [])]
    stem = found.file.stem.lstrip("_")
    files.sort(key=lambda file: (stem not in file.stem, file.stat().st_size))
    return [str(file.relative_to(ROOT)) for file in files]


def summary(runs: list[dict], rooms: list[str], how: dict) -> dict:
    """The fates counted by room, with the share killed of those that are known."""
    shares = {}
    for room in rooms:
        count = Counter(entry["fate"] for entry in runs if entry["room"] == room)
        known = count["killed"] + count["survived"]
        shares[room] = {**count, "share_killed": count["killed"] / known if known else None}
    return {"rooms": shares, **how, "mutants": runs}


def run(
    rooms: list[str], every: int, seed: int, seconds: int, most: int | None, output: Path | None
) -> dict:
    """The fate of every K-th mutant of the rooms; the file is written after each, so that a run may be cut off."""
    runs, chosen, how = [], [], {"seed": seed, "every": every, "seconds": seconds}
    for room in rooms:
        made = mutants(room)
        random.Random(seed).shuffle(made)
        chosen += [(room, *mutant) for mutant in made[::every]]
    with tempfile.TemporaryDirectory() as folder:
        judge = Judge(Path(folder))
        for room, found, node, kind, text in chosen[:most]:
            begun = time.monotonic()
            source = operators.planted(found, node, text)
            verdict = judge.run(
                found.file, source, tests_of(found, room), seconds, marker="not sweep"
            )
            fate = FATES.get(verdict.code, "not run")
            line = found.file.read_text().splitlines()[node.lineno - 1].strip()
            taken = round(time.monotonic() - begun, 1)
            entry = {
                "room": room,
                "function": found.path,
                "operator": kind,
                "line": line,
                "new": text,
            }
            runs.append({**entry, "fate": fate, "seconds": taken})
            print(f"{fate:9} {taken:6} s  {found.path}: {kind}: {line}", flush=True)
            if output:
                output.write_text(json.dumps(summary(runs, rooms, how), indent=1) + "\n")
        judge.close()
    return summary(runs, rooms, how)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "rooms", nargs="+", help="rooms of the package: dynamics gradients rows kernel checking"
    )
    parser.add_argument("--every", type=int, default=1, help="run every K-th mutant (default 1)")
    parser.add_argument("--most", type=int, help="run this many at most (default: all)")
    parser.add_argument(
        "--seed", type=int, default=0, help="of the order of the mutants (default 0)"
    )
    parser.add_argument(
        "--seconds", type=int, default=300, help="limit of one mutant (default 300)"
    )
    parser.add_argument("--output", type=Path, help="a file for the JSON")
    given = parser.parse_args()
    known = {found.path.split(".")[1].lstrip("_") for found in operators.functions(ROOT)}
    if unknown := set(given.rooms) - known:
        parser.error(
            f"rooms must be of {', '.join(sorted(known))}; got {', '.join(sorted(unknown))}"
        )
    if untested := [
        room
        for room in given.rooms
        if not (ROOT / "tests" / room).is_dir() and room not in ELSEWHERE
    ]:
        parser.error(
            f"rooms must have tests in tests/ROOM or in ELSEWHERE; got {', '.join(untested)}"
        )
    result = run(given.rooms, given.every, given.seed, given.seconds, given.most, given.output)
    print(json.dumps(result["rooms"], indent=1))


if __name__ == "__main__":
    main()
