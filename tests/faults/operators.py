"""Wrong changes of one place of one function: a small closed set of operators on its syntax tree.

A function is named by some of the parts of its dotted path in the package, in their order, the last one with them:
`"OverdampedStep.transition"`, `"dynamics.kick"`. Moving it to another file of its room changes nothing.
"""

import ast
import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

PACKAGE = "ewsg_jax"
ARITHMETIC: dict[str, type[ast.operator]] = {
    "+": ast.Add,
    "-": ast.Sub,
    "*": ast.Mult,
    "/": ast.Div,
    "//": ast.FloorDiv,
    "%": ast.Mod,
    "**": ast.Pow,
    "@": ast.MatMult,
    "&": ast.BitAnd,
    "|": ast.BitOr,
    "<<": ast.LShift,
    ">>": ast.RShift,
}
ORDER: dict[str, type[ast.cmpop]] = {
    "<": ast.Lt,
    "<=": ast.LtE,
    ">": ast.Gt,
    ">=": ast.GtE,
    "==": ast.Eq,
    "!=": ast.NotEq,
    "is": ast.Is,
    "is not": ast.IsNot,
    "in": ast.In,
    "not in": ast.NotIn,
}
NAMES = (
    ast.Name,
    ast.Attribute,
    ast.Subscript,
    ast.Constant,
    ast.Slice,
    ast.Tuple,
    ast.UnaryOp,
    ast.USub,
    ast.expr_context,
)
"""What `rename` takes is made of: names, their attributes and items, and numbers."""


@dataclass(frozen=True)
class Operator:
    """`change` gives the wrong text of a node, or None where the operator has nothing to do; `nth` counts its places."""

    label: str
    change: Callable[[ast.AST], str | None]
    nth: int = 0


@dataclass(frozen=True)
class Function:
    """A function of the package: its dotted path, its file and its syntax tree."""

    path: str
    file: Path
    node: ast.FunctionDef | ast.AsyncFunctionDef


def normal(text: str) -> str:
    """An expression as `ast.unparse` writes it."""
    return ast.unparse(ast.parse(text, mode="eval"))


def _is(node: ast.AST, text: str) -> bool:
    return isinstance(node, ast.expr) and ast.unparse(node) == text


def swap(old: str, new: str, nth: int = 0) -> Operator:
    """One arithmetic operator for another."""

    def change(node):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ARITHMETIC[old]):
            return f"({ast.unparse(node.left)}) {new} ({ast.unparse(node.right)})"
        if isinstance(node, ast.AugAssign) and isinstance(node.op, ARITHMETIC[old]):
            return f"{ast.unparse(node.target)} {new}= {ast.unparse(node.value)}"
        return None

    return Operator(f"swap {old} {new}", change, nth)


def comparison(old: str, new: str, nth: int = 0) -> Operator:
    """One comparison for another."""

    def change(node):
        if (
            isinstance(node, ast.Compare)
            and len(node.ops) == 1
            and isinstance(node.ops[0], ORDER[old])
        ):
            return f"({ast.unparse(node.left)}) {new} ({ast.unparse(node.comparators[0])})"
        return None

    return Operator(f"comparison {old} {new}", change, nth)


def negate(text: str, nth: int = 0) -> Operator:
    """An expression with the other sign."""
    text = normal(text)
    return Operator(f"negate {text}", lambda node: f"-({text})" if _is(node, text) else None, nth)


def drop(text: str, nth: int = 0) -> Operator:
    """A factor, a term, an exponent or a condition left out: `x * t` becomes `x`."""
    text = normal(text)

    def change(node):
        if isinstance(node, ast.BinOp):
            if _is(node.right, text):
                return ast.unparse(node.left)
            if _is(node.left, text):
                sign = "-" if isinstance(node.op, ast.Sub) else ""
                return f"{sign}({ast.unparse(node.right)})"
        if isinstance(node, ast.BoolOp) and any(_is(value, text) for value in node.values):
            word = " and " if isinstance(node.op, ast.And) else " or "
            return word.join(
                f"({ast.unparse(value)})" for value in node.values if not _is(value, text)
            )
        return None

    return Operator(f"drop {text}", change, nth)


def drop_call(name: str, nth: int = 0) -> Operator:
    """A call's first argument for the call: `sqrt(x)` becomes `x`."""

    def change(node):
        found = isinstance(node, ast.Call) and node.args and ast.unparse(node.func) == name
        return ast.unparse(node.args[0]) if found else None

    return Operator(f"drop_call {name}", change, nth)


def drop_argument(name: str, argument: int | str, nth: int = 0) -> Operator:
    """A call without one of its arguments, by place or keyword."""

    def change(node):
        if not (isinstance(node, ast.Call) and ast.unparse(node.func) == name):
            return None
        args = [arg for place, arg in enumerate(node.args) if place != argument]
        keywords = [keyword for keyword in node.keywords if keyword.arg != argument]
        if len(args) + len(keywords) == len(node.args) + len(node.keywords):
            return None
        return ast.unparse(ast.Call(node.func, args, keywords))

    return Operator(f"drop_argument {name} {argument}", change, nth)


def swap_arguments(name: str, first: int = 0, second: int = 1, nth: int = 0) -> Operator:
    """A call with two of its arguments in each other's place."""

    def change(node):
        if not (
            isinstance(node, ast.Call)
            and ast.unparse(node.func) == name
            and len(node.args) > max(first, second)
        ):
            return None
        args = list(node.args)
        args[first], args[second] = args[second], args[first]
        return ast.unparse(ast.Call(node.func, args, node.keywords))

    return Operator(f"swap_arguments {name} {first} {second}", change, nth)


def constant(old: object, new: object, nth: int = 0) -> Operator:
    """One number for another."""

    def change(node):
        found = (
            isinstance(node, ast.Constant) and type(node.value) is type(old) and node.value == old
        )
        return repr(new) if found else None

    return Operator(f"constant {old} {new}", change, nth)


def rename(old: str, new: str, nth: int = 0) -> Operator:
    """One name, attribute or item for another."""
    old, new = normal(old), normal(new)
    for text in (old, new):
        if not all(isinstance(node, NAMES) for node in ast.walk(ast.parse(text, mode="eval").body)):
            raise ValueError(f"rename takes names, attributes, items and constants; got {text!r}")
    return Operator(f"rename {old} {new}", lambda node: new if _is(node, old) else None, nth)


def assume(condition: str, value: bool, nth: int = 0) -> Operator:
    """A condition that always holds, or never does."""
    condition = normal(condition)
    return Operator(
        f"assume {condition} {value}",
        lambda node: repr(value) if _is(node, condition) else None,
        nth,
    )


def drop_statement(begins: str, nth: int = 0) -> Operator:
    """A statement left out, known by how it begins."""

    def change(node):
        return (
            "pass" if isinstance(node, ast.stmt) and ast.unparse(node).startswith(begins) else None
        )

    return Operator(f"drop_statement {begins}", change, nth)


def nodes_of(node: ast.AST) -> Iterator[ast.AST]:
    """What can be changed of a function, in the order of the source: no docstring, annotation or text of a message."""
    for child in ast.iter_child_nodes(node):
        is_text = isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant)
        is_annotation = child in (getattr(node, "annotation", None), getattr(node, "returns", None))
        is_written = isinstance(getattr(child, "ctx", None), ast.Store | ast.Del)
        if is_text or is_annotation or is_written or isinstance(child, ast.JoinedStr):
            continue
        if isinstance(child, ast.expr | ast.stmt):
            yield child
        yield from nodes_of(child)


def _functions_in(node: ast.AST, path: str, file: Path) -> Iterator[Function]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            yield Function(f"{path}.{child.name}", file, child)
        elif isinstance(child, ast.ClassDef):
            yield from _functions_in(child, f"{path}.{child.name}", file)


@functools.cache
def functions(root: Path) -> tuple[Function, ...]:
    """Every function and method of the package; a function inside another belongs to that one."""
    found: list[Function] = []
    for file in sorted((root / PACKAGE).rglob("*.py")):
        path = ".".join(file.relative_to(root).with_suffix("").parts)
        found += _functions_in(ast.parse(file.read_text()), path, file)
    return tuple(found)


def _names(name: str, path: str) -> bool:
    parts = name.split(".")
    rest = iter(path.split("."))
    return parts[-1] == path.rpartition(".")[2] and all(part in rest for part in parts)


def function(root: Path, name: str) -> Function:
    """The one function of that name, or one error."""
    found = [candidate for candidate in functions(root) if _names(name, candidate.path)]
    if len(found) != 1:
        paths = ", ".join(candidate.path for candidate in found) or "none"
        raise LookupError(
            f"a fault's function must be one function of the package; got {name!r}, which names {paths}"
        )
    return found[0]


def places(found: Function, operator: Operator) -> list[tuple[ast.AST, str]]:
    """Every node of the function that the operator changes, with its new text."""
    changed = ((node, operator.change(node)) for node in nodes_of(found.node))
    return [(node, text) for node, text in changed if text is not None]


def planted(found: Function, node, text: str) -> str:
    """The file's source with that text for the node; every other line keeps its number."""
    lines = found.file.read_bytes().splitlines(keepends=True)
    begin = sum(map(len, lines[: node.lineno - 1])) + node.col_offset
    end = sum(map(len, lines[: node.end_lineno - 1])) + node.end_col_offset
    more = "\n" * (node.end_lineno - node.lineno)
    text = f"{text}{more}" if isinstance(node, ast.stmt) else f"({text}{more})"
    source = b"".join(lines)
    return (source[:begin] + text.encode() + source[end:]).decode()


def mutated(root: Path, name: str, operator: Operator) -> tuple[Path, str]:
    """The file that holds the function, and its source with the fault in it."""
    found = function(root, name)
    where = places(found, operator)
    if not 0 <= operator.nth < len(where):
        raise LookupError(
            f"{operator.label}: nth must be below {len(where)}, its places in {name}; got {operator.nth}"
        )
    return found.file, planted(found, *where[operator.nth])
