"""Make every small mutant of the functions of some rooms, and report which of them the tests do not kill.

    python -m tests.faults.mutation dynamics gradients --every 10 --seed 1 --output first.json
    python -m tests.faults.mutation dynamics gradients --again first.json --output second.json

The tests of the room run once on the unchanged tree, file by file: they must pass, and say which functions each enters.
Of each room's mutants every K-th is run, in an order shuffled by the seed, on the files that enter its function: usual
tests before full ones (or alone), files named like the source file first, then the quickest. A survivor is an equivalent mutant or
a hole in the tests; a person says which. A mutant whose function no file enters counts as one that survived. A
mutant whose tests take longer than the limit is neither killed nor survived.

Most of the time is compiling: programs of the unchanged tree are read again. It needs Python 3.12.
"""

import argparse
import ast
import json
import random
import re
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from tests.faults import operators
from tests.faults.judge import ANY, ROOT, TIMED_OUT, Judge

ARITHMETIC = {"+": "-", "-": "+", "*": "/", "/": "*", "**": "*", "@": "-"}
COMPARISON = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "=="}
COMPARISON |= {"is": "is not", "is not": "is", "in": "not in", "not in": "in"}
SWAPS = [operators.swap(old, new) for old, new in ARITHMETIC.items()]
SWAPS += [operators.comparison(old, new) for old, new in COMPARISON.items()]
ELSEWHERE = {
    "gradients": ["gradients/test_*.py", "run/test_devices.py"],
    "kernels": [
        "test_contract.py",
        "test_own_parts.py",
        "test_uses.py",
        "test_trees.py",
        "wrong_calls/test_*.py",
    ],
    "posterior": ["test_posterior.py"],
    "rows": [
        "gradients/test_block_epochs.py",
        "gradients/test_enumeration.py",
        "gradients/test_row_*.py",
        "gradients/test_stratified.py",
        "run/streams/test_windows.py",
        "run/streams/test_bias.py",
        "run/test_data_sets.py",
        "run/test_devices.py",
        "wrong_calls/test_*.py",
        "test_half_precision.py",
        "test_posterior.py",
    ],
}
"""The tests of rooms that have no folder of their own in `tests`, or not all of their tests there."""

FATES = {0: "survived", 1: "killed", 2: "killed"} | dict.fromkeys(TIMED_OUT, "timed out")
"""By pytest's exit code; 2 is a module that cannot be imported. With any other the tests did not run."""
TIERS = ("not full and not sweep", "full and not sweep")
KNOWN_BY = ("room", "function", "line", "column", "operator", "new")
"""What an entry is found by again."""


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
        if isinstance(check, ast.Call) and ast.unparse(check.func).startswith(
            ("checks.", "traced.")
        ):
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


def tests_of(room: str) -> list[str]:
    """The test files of a room."""
    patterns = ELSEWHERE.get(room, [f"{room}/test_*.py"])
    found = {file for pattern in patterns for file in (ROOT / "tests").glob(pattern)}
    return sorted(str(file.relative_to(ROOT)) for file in found)


class Reach(NamedTuple):
    """Seconds of processor time that a test file takes on the unchanged tree, and which functions it enters."""

    seconds: float
    entered: set[str]


def order(found: operators.Function, reaches: dict[str, Reach]) -> list[str]:
    """The test files that enter a function, those named like its file first, then the quickest.

    Those that start processes may enter it there: they come last.
    """
    stem = found.file.stem.lstrip("_")

    def place(test: str) -> tuple[bool, bool, float]:
        reach = reaches[test]
        return found.path not in reach.entered, stem not in Path(test).stem, reach.seconds

    return sorted(
        (t for t, reach in reaches.items() if reach.entered & {found.path, ANY}), key=place
    )


def summary(runs: list[dict], rooms: list[str], how: dict) -> dict:
    """The fates counted by room, with the share killed of those that are known."""
    shares = {}
    for room in rooms:
        count = Counter(entry["fate"] for entry in runs if entry["room"] == room)
        lived = count["survived"] + count["not reached"]
        known = count["killed"] + lived
        shares[room] = {**count, "share_killed": count["killed"] / known if known else None}
    return {"rooms": shares, **how, "mutants": runs}


def known_as(room: str, found: operators.Function, node: ast.AST, kind: str, text: str) -> dict:
    """What is written of a mutant, and what it is found by again."""
    line = found.file.read_text().splitlines()[node.lineno - 1].strip()
    place = {"function": found.path, "line": line, "column": node.col_offset}
    return {"room": room, **place, "operator": kind, "new": text}


def run(
    rooms: list[str],
    every: int = 1,
    seed: int = 0,
    seconds: int = 300,
    most: int | None = None,
    output: Path | None = None,
    again: list[dict] | None = None,
    programs: Path | None = None,
    tiers: Sequence[str] = TIERS,
) -> dict:
    """The fate of every K-th mutant of the rooms; the file is written after each, so that a run may be cut off.

    Args:
        again: mutants of an earlier run; those among them that no test killed are the ones that are run.
        programs: a folder for compiled programs, which the next run reads as well; default: one for this run.
    """
    runs, chosen, how = [], [], {"seed": seed, "every": every, "seconds": seconds}
    for room in rooms:
        made = mutants(room)
        random.Random(seed).shuffle(made)
        if again is None:
            chosen += [(room, *mutant) for mutant in made[::every][:most]]
            continue
        lived = [{key: e[key] for key in KNOWN_BY} for e in again if e["fate"] != "killed"]
        chosen += [(room, *mutant) for mutant in made if known_as(room, *mutant) in lived]
    with tempfile.TemporaryDirectory() as folder:
        judge = Judge(Path(folder), programs or Path(folder) / "programs")
        reaches = {}
        for room, found, node, kind, text in chosen:
            for test in tests_of(room):
                if test not in reaches:
                    reaches[test] = Reach(*judge.reached(test, tiers))
                    print(f"unchanged {reaches[test].seconds:7} s  {test}", flush=True)
            tests = order(found, {test: reaches[test] for test in tests_of(room)})
            fate, taken, by = "not reached", 0.0, None
            if tests:
                source = operators.planted(found, node, text)
                verdict = judge.run(found.file, source, tests, seconds, tiers)
                fate, taken = FATES.get(verdict.code, "not run"), verdict.seconds
                by = next(iter(re.findall(r"^(?:FAILED|ERROR) (.*)$", verdict.said, re.M)), None)
                if by and "TimeoutExpired" in by:
                    fate = "timed out"
            entry = known_as(room, found, node, kind, text)
            runs.append({**entry, "fate": fate, "by": by, "seconds": taken})
            print(f"{fate:11} {taken:6} s  {found.path}: {kind}: {entry['line']}", flush=True)
            if output:
                output.write_text(json.dumps(summary(runs, rooms, how), indent=1) + "\n")
        judge.close()
    return summary(runs, rooms, how)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "rooms", nargs="+", help="rooms of the package: dynamics gradients rows kernels checking"
    )
    parser.add_argument("--every", type=int, default=1, help="run every K-th mutant (default 1)")
    parser.add_argument("--most", type=int, help="run this many of a room at most (default: all)")
    parser.add_argument(
        "--seed", type=int, default=0, help="of the order of the mutants (default 0)"
    )
    parser.add_argument(
        "--seconds",
        type=int,
        default=300,
        help="limit of one mutant, in seconds of processor time (default 300)",
    )
    parser.add_argument(
        "--again", type=Path, help="an earlier run's JSON: its mutants that no test killed"
    )
    parser.add_argument("--usual", action="store_true", help="run the usual tests alone")
    parser.add_argument("--programs", type=Path, help="a folder that keeps compiled programs")
    parser.add_argument("--output", type=Path, help="a file for the JSON")
    given = parser.parse_args()
    known = {found.path.split(".")[1].lstrip("_") for found in operators.functions(ROOT)}
    if unknown := set(given.rooms) - known:
        parser.error(
            f"rooms must be of {', '.join(sorted(known))}; got {', '.join(sorted(unknown))}"
        )
    if untested := [room for room in given.rooms if not tests_of(room)]:
        parser.error(
            f"rooms must have tests in tests/ROOM or in ELSEWHERE; got {', '.join(untested)}"
        )
    again = json.loads(given.again.read_text())["mutants"] if given.again else None
    result = run(
        given.rooms,
        given.every,
        given.seed,
        given.seconds,
        given.most,
        given.output,
        again,
        given.programs and given.programs.absolute(),
        TIERS[:1] if given.usual else TIERS,
    )
    print(json.dumps(result["rooms"], indent=1))


if __name__ == "__main__":
    main()
