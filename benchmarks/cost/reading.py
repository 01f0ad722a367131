"""What a lowered program does, read off its StableHLO: loops, conditions, gathers, copies, calls
and donation.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

from jax.extend.mlir import ir

IN_PLACE = (
    "while",
    "case",
    "if",
    "scatter",
    "dynamic_update_slice",
    "return",
    "call",
    "optimization_barrier",
)
"""Operations whose large result takes the place of their large operand, or is that of operations
inside.
"""
WIDE = ("f64", "i64", "ui64")


class Gather(NamedTuple):
    """A gather: the array it reads, what comes out, and whether its indices are said to
    be sorted.
    """

    source: str
    result: str
    is_sorted: bool


class Reading(NamedTuple):
    """What is in a piece of a program, nested pieces and called functions included.

    Attributes:
        operations: how many there are, constants and what only changes a shape left out.
        counted_loops: loops whose number of turns is a constant of the program.
        open_loops: loops whose number of turns, or whose end, is known on the device alone.
        conditions: conditionals whose branch is not a constant.
        loops_in_conditions: of these, those with a loop in a branch.
        gathers: all of them.
        scatters: their number.
        sorts: their number.
        calls: how often each function from outside is called, by its name.
        wide: operations that make 64-bit numbers.
        whole: operations that make an array with as many rows as the data, each with what it makes.
    """

    operations: int
    counted_loops: int
    open_loops: int
    conditions: int
    loops_in_conditions: int
    gathers: list[Gather]
    scatters: int
    sorts: int
    calls: dict[str, int]
    wide: int
    whole: list[str]


class Program:
    """A lowered program.

    Args:
        lowered: `jax.stages.Lowered`, for one platform.
        num_rows: how many rows the data have; a number that no other axis is long.
    """

    def __init__(self, lowered: Any, num_rows: int) -> None:
        self._module = lowered.compiler_ir("stablehlo")
        self._rows = num_rows
        self._functions = {
            op.attributes["sym_name"].value: op
            for op in self._module.body.operations
            if _is(op, "func")
        }

    @property
    def main(self) -> Any:
        """The block of the whole program."""
        return self._functions["main"].regions[0].blocks[0]

    def donated(self) -> int:
        """Return how many arguments give their memory to a result."""
        arguments = self._functions["main"].attributes["arg_attrs"]
        return sum("tf.aliasing_output" in a or "jax.buffer_donor" in a for a in arguments)

    def loops(self, block: Any) -> list[Any]:
        """Return the loops that stand in a block itself, the one with the most operations first."""
        loops = [op for op in block.operations if _is(op, "while")]
        return sorted(
            loops, key=lambda loop: -sum(1 for _ in self._walk(loop.regions[1].blocks[0]))
        )

    def operations(self) -> Iterator[Any]:
        """Yield all operations that the program runs, those of a loop once."""
        return self._walk(self.main)

    def is_counted(self, loop: Any) -> bool:
        """Whether a loop counts from a constant to a constant."""
        return _is_counted(loop)

    def read(self, block: Any, without: Any = None) -> Reading:
        """Return what is in a block but for one loop."""
        names, calls, gathers, whole = Counter(), Counter(), [], []
        counted = nested = wide = 0
        for op in self._walk(block, without):
            name = _name(op)
            names[name] += 1
            if name == "while":
                counted += self.is_counted(op)
            elif name in ("case", "if"):
                nested += any(
                    _is(inner, "while")
                    for branch in op.regions
                    for inner in self._walk(branch.blocks[0])
                )
            elif name == "gather":
                is_sorted = ir.BoolAttr(op.attributes["indices_are_sorted"]).value
                gathers.append(Gather(str(op.operands[0].type), str(op.results[0].type), is_sorted))
            elif name == "custom_call":
                calls[ir.StringAttr(op.attributes["call_target_name"]).value] += 1
            types = [str(result.type) for result in op.results]
            wide += any(
                kind.rstrip(">").split("x")[-1].removeprefix("tensor<") in WIDE for kind in types
            )
            if name not in IN_PLACE:
                whole += [f"{name} {kind}" for kind in types if self._is_whole(kind)]
        light = ("constant", "reshape", "broadcast_in_dim", "return", "call", "while", "case", "if")
        return Reading(
            operations=sum(count for name, count in names.items() if name not in light),
            counted_loops=counted,
            open_loops=names["while"] - counted,
            conditions=names["case"] + names["if"],
            loops_in_conditions=nested,
            gathers=gathers,
            scatters=names["scatter"],
            sorts=names["sort"],
            calls=dict(calls),
            wide=wide,
            whole=whole,
        )

    def _is_whole(self, kind: str) -> bool:
        return str(self._rows) in kind.removeprefix("tensor<").rstrip(">").split("x")

    def _walk(self, block: Any, without: Any = None) -> Iterator[Any]:
        """Yield the operations of a block and all that they run; of a branch that a constant
        chooses only that.
        """
        for op in block.operations:
            name = _name(op)
            if name == "call":
                called = self._functions[ir.FlatSymbolRefAttr(op.attributes["callee"]).value]
                yield from self._walk(called.regions[0].blocks[0], without)
                continue
            regions = list(op.regions)
            if name == "while" and without is not None and op == without:
                continue
            if name == "case" and (chosen := _constant(op.operands[0])) is not None:
                regions = [regions[min(chosen, len(regions) - 1)]]
            elif name not in ("reduce", "scatter", "sort", "reduce_window", "composite"):
                yield op
            else:
                yield op
                continue  # what combines two numbers is no operation of its own
            for region in regions:
                for inner in region.blocks:
                    yield from self._walk(inner, without)


def _name(op: Any) -> str:
    return op.operation.name.split(".")[-1]


def _is(op: Any, name: str) -> bool:
    return _name(op) == name


def _constant(value: Any) -> int | None:
    """Return the whole number that a value always is, or None."""
    made_by = value.owner
    if isinstance(made_by, ir.Block):
        return None
    if _is(made_by, "constant"):
        number = ir.DenseIntElementsAttr(made_by.attributes["value"])
        return int(number[0]) if len(number) == 1 else None
    if _is(made_by, "convert"):
        return _constant(made_by.operands[0])
    if _is(made_by, "case") and (chosen := _constant(made_by.operands[0])) is not None:
        branch = made_by.regions[min(chosen, len(made_by.regions) - 1)].blocks[0]
        place = list(made_by.results).index(value)
        return _constant(list(branch.operations)[-1].operands[place])
    return None


def _is_counted(loop: Any) -> bool:
    """Whether a loop counts from a constant to a constant."""
    condition, body = (region.blocks[0] for region in loop.regions)
    test = list(condition.operations)[-1].operands[0].owner
    if isinstance(test, ir.Block) or not _is(test, "compare"):
        return False
    counter, bound = test.operands
    place = _place(counter, condition)
    if place is None or _constant(loop.operands[place]) is None:
        return False
    step = list(body.operations)[-1].operands[place].owner
    if isinstance(step, ir.Block) or not _is(step, "add"):
        return False
    other = _place(bound, condition)
    if other is None:
        return _constant(bound) is not None
    unchanged = _place(list(body.operations)[-1].operands[other], body) == other
    return unchanged and _constant(loop.operands[other]) is not None


def _place(value: Any, block: Any) -> int | None:
    """Return which argument of a block a value is, or None."""
    return next((i for i, argument in enumerate(block.arguments) if argument == value), None)
