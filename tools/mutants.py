"""Draws mutants: files of a package with one operator, number or branch changed.

The changes are cosmic-ray's. A place in the code is drawn first and then a change of it, so that
an operator with many alternatives is not drawn more often than another one.
"""

import ast
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from random import Random

from cosmic_ray.ast import Visitor, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.operators.operator import Operator
from cosmic_ray.plugins import get_operator, operator_names

Position = tuple[int, int]
"""Line, from 1, and column in characters, from 0."""

NEEDS_GPU = "*_triton.py"
"""Files that only run on a GPU."""

ARITHMETIC = {"Add", "Sub", "Mul", "Div", "FloorDiv", "Mod", "Pow"}
BITS = {"BitOr", "BitAnd", "BitXor"}
ORDER = {"Eq", "NotEq", "Lt", "LtE", "Gt", "GtE"}
IDENTITY = {"Is", "IsNot"}
SIMPLE = {
    "AddNot", "ExceptionReplacer", "NumberReplacer", "RemoveDecorator", "ReplaceAndWithOr",
    "ReplaceBreakWithContinue", "ReplaceContinueWithBreak", "ReplaceFalseWithTrue",
    "ReplaceOrWithAnd", "ReplaceTrueWithFalse", "ReplaceUnaryOperator_Delete_Invert",
    "ReplaceUnaryOperator_Delete_Not", "ReplaceUnaryOperator_Delete_USub", "ZeroIterationForLoop",
}  # fmt: skip
"""Changes that are always used. Others replace an operator by one of the same set above: a shift of
a float would only ever fail, and identity of equal numbers would hardly ever."""


@dataclass(frozen=True, order=True)
class Change:
    """One change that cosmic-ray can make: the nth one of an operator in a file."""

    operator: str
    occurrence: int


@dataclass(frozen=True)
class Mutant:
    """A changed file.

    Attributes:
        path: the file, relative to the source tree.
        lines: first and last line of the statement that contains the change.
        position: where the change is.
        change: what was changed.
        source: the whole file before the change.
        code: the whole changed file.
    """

    path: str
    lines: tuple[int, int]
    position: Position
    change: Change
    source: str
    code: str

    @property
    def name(self) -> str:
        """A name that tells this mutant from all others of the same code."""
        line, column = self.position
        return f"{self.path}:{line}:{column} {self.change.operator} {self.change.occurrence}"


@dataclass(frozen=True)
class Place:
    """A position in a file and the changes that can be made there, in random order."""

    path: Path
    position: Position
    changes: list[Change]


def find_places(folder: Path, seed: int) -> list[Place]:
    """Return all places of the Python files in a folder that can be changed, in random order."""
    files = (path for path in sorted(folder.rglob("*.py")) if not path.match(NEEDS_GPU))
    places = [Place(path, *place) for path in files for place in _places(path)]
    random = Random(seed)
    random.shuffle(places)
    for place in places:
        random.shuffle(place.changes)
    return places


def draw_mutants(tree: Path, places: Sequence[Place], count: int) -> list[Mutant]:
    """Return this number of mutants: one of each place from the first one on, if it has any."""
    drawn = (_mutant(tree, place) for place in places)
    return list(islice((mutant for mutant in drawn if mutant is not None), count))


def _mutant(tree: Path, place: Place) -> Mutant | None:
    source = place.path.read_text(encoding="utf-8")
    name = place.path.relative_to(tree).as_posix()
    lines = _statement(source, place.position)
    for change in place.changes:
        code = _changed(source, change)
        if code is not None:
            return Mutant(name, lines, place.position, change, source, code)
    return None


def _places(path: Path) -> list[tuple[Position, list[Change]]]:
    """Return the positions in a file that can be changed, in their order, with their changes."""
    source = path.read_text(encoding="utf-8")
    finder = _Finder(
        {name: get_operator(name)() for name in sorted(operator_names()) if _is_used(name)}
    )
    finder.walk(get_ast(source))
    left_out = list(_left_out(source))
    return [
        (start, changes)
        for start, changes in sorted(finder.found.items())
        if not any(low <= start < high for low, high in left_out)
    ]


class _Finder(Visitor):
    """Visits nodes in the order in which `mutate_code` counts occurrences, and changes none."""

    def __init__(self, operators: Mapping[str, Operator]) -> None:
        self.operators = operators
        self.counts = dict.fromkeys(operators, 0)
        self.found: dict[Position, list[Change]] = {}

    def visit(self, node: object) -> object:
        """Note every change of a node."""
        for name, operator in self.operators.items():
            for start, _ in operator.mutation_positions(node):
                self.found.setdefault(start, []).append(Change(name, self.counts[name]))
                self.counts[name] += 1
        return node


def _is_used(name: str) -> bool:
    title = name.removeprefix("core/")
    match = re.fullmatch(r"Replace(?:Binary|Comparison)Operator_(\w+)_(\w+)", title)
    if match is None:
        return title in SIMPLE
    return any(set(match.groups()) <= alike for alike in (ARITHMETIC, BITS, ORDER, IDENTITY))


def _changed(source: str, change: Change) -> str | None:
    """Return the changed source; None if it means the same, or can never be imported."""
    code = mutate_code(source, get_operator(change.operator)(), change.occurrence)
    if code is None:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            tree = ast.parse(code)
            compile(code, "mutant", "exec")
    except (SyntaxError, SyntaxWarning):
        return None
    return None if ast.dump(tree) == ast.dump(ast.parse(source)) else str(code)


def _left_out(source: str) -> Iterator[tuple[Position, Position]]:
    """Yield what no test is about: type annotations, imports for them, texts of errors."""
    lines = source.splitlines()
    for node in ast.walk(ast.parse(source)):
        parts: list[ast.AST | None] = []
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            parts.append(node.returns)
        elif isinstance(node, ast.arg | ast.AnnAssign):
            parts.append(node.annotation)
        elif isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            parts.append(node)
        elif isinstance(node, ast.Raise):
            parts += [each for each in ast.walk(node) if isinstance(each, ast.JoinedStr)]
        for part in parts:
            if part is not None:
                yield _range(part, lines)


def _range(node: ast.AST, lines: Sequence[str]) -> tuple[Position, Position]:
    def position(line: int, offset: int) -> Position:
        # Python counts bytes.
        return line, len(lines[line - 1].encode()[:offset].decode())

    assert isinstance(node, ast.expr | ast.stmt)
    assert node.end_lineno is not None and node.end_col_offset is not None
    return position(node.lineno, node.col_offset), position(node.end_lineno, node.end_col_offset)


def _statement(source: str, position: Position) -> tuple[int, int]:
    """Return the lines of the statement at a position; of a block, those of its head only."""
    line = position[0]
    lines = (line, line)
    # Statements within others come later.
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.stmt) or node.end_lineno is None:
            continue
        body = getattr(node, "body", None)
        last = max(node.lineno, body[0].lineno - 1) if body else node.end_lineno
        decorators = getattr(node, "decorator_list", [])
        first = min([node.lineno, *(each.lineno for each in decorators)])
        if first <= line <= last:
            lines = (first, last)
    return lines
