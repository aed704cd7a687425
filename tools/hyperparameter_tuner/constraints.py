"""Constraints of a space: comparisons such as `model.args.width % model.args.heads == 0`, read without eval.

A constraint is parsed by Python's grammar, of which arithmetic, comparisons, `and`, `or`, `not`, `in` a list, and min,
max, abs and len are taken. Names are dotted configuration keys. Anything else is refused before the first trial.
"""

from __future__ import annotations

import ast
import operator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

MOST_NODES = 100
TAKEN = "+ - * / // %, comparisons, and, or, not, in a list, min(), max(), abs(), len(), numbers, texts and dotted keys"
ARITHMETIC: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod,
}  # fmt: skip
COMPARISONS: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt,
    ast.GtE: operator.ge, ast.In: lambda one, many: one in many, ast.NotIn: lambda one, many: one not in many,
}  # fmt: skip
FUNCTIONS: dict[str, Callable[..., Any]] = {"min": min, "max": max, "abs": abs, "len": len}
WORDS = {"true": True, "false": False, "null": None}
"""YAML's words, beside Python's."""
LARGEST = 1e300
"""Of a number within a constraint, so that no product grows without end."""


class Constraint:
    """One comparison over configuration keys."""

    def __init__(self, text: str) -> None:
        """Parse the text. Raises ValueError that says what cannot be taken."""
        self.text = text
        try:
            self._tree = ast.parse(text.strip(), mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            said = error.msg if isinstance(error, SyntaxError) else str(error)
            raise ValueError(f"constraint {text!r} cannot be read: {said}") from None
        if sum(1 for _ in ast.walk(self._tree)) > MOST_NODES:
            raise ValueError(f"constraint {text!r} is too long; make two of it")
        keys: dict[str, None] = {}
        self._check(self._tree, keys)
        self.keys = tuple(keys)

    def holds(self, values: Mapping[str, Any]) -> bool:
        """Return whether the constraint holds; one that cannot be computed (a null, a zero divided by) does not.

        Args:
            values: every key of it.
        """
        try:
            return bool(self._value(self._tree, values))
        except (TypeError, ArithmeticError, ValueError):
            return False

    def _check(self, node: ast.AST, keys: dict[str, None]) -> None:
        """Collect the keys of a node. Raises ValueError for one that is not taken."""
        inner: list[ast.AST]
        if (key := _key_of(node)) is not None:
            if key not in WORDS:
                keys[key] = None
            return
        match node:
            case ast.Constant(value=value) if value is None or isinstance(value, int | float | str):
                inner = []
            case ast.BoolOp(values=values) | ast.List(elts=values) | ast.Tuple(elts=values):
                inner = list(values)
            case ast.UnaryOp(op=ast.Not() | ast.USub() | ast.UAdd(), operand=operand):
                inner = [operand]
            case ast.BinOp(left=left, op=op, right=right) if type(op) in ARITHMETIC:
                inner = [left, right]
            case ast.Compare(left=left, ops=ops, comparators=others) if all(type(op) in COMPARISONS for op in ops):
                inner = [left, *others]
            case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if name in FUNCTIONS:
                inner = list(args)
            case _:
                part = ast.unparse(node) if isinstance(node, ast.expr) else type(node).__name__
                raise ValueError(f"constraint {self.text!r}: `{part}` is not taken; taken are {TAKEN}")
        for each in inner:
            self._check(each, keys)

    def _value(self, node: ast.AST, values: Mapping[str, Any]) -> Any:
        if (key := _key_of(node)) is not None:
            return WORDS[key] if key in WORDS else values[key]
        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, ast.Compare):
            return self._compare(node, values)
        if isinstance(node, ast.BoolOp):
            parts = (self._value(each, values) for each in node.values)
            return all(parts) if isinstance(node.op, ast.And) else any(parts)
        return self._computed(node, values)

    def _computed(self, node: ast.AST, values: Mapping[str, Any]) -> Any:
        match node:
            case ast.List(elts=elements) | ast.Tuple(elts=elements):
                return [self._value(each, values) for each in elements]
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return not self._value(operand, values)
            case ast.UnaryOp(op=op, operand=operand):
                number = _number(self._value(operand, values))
                return -number if isinstance(op, ast.USub) else number
            case ast.BinOp(left=left, op=op, right=right):
                return ARITHMETIC[type(op)](*(_number(self._value(side, values)) for side in (left, right)))
            case ast.Call(func=ast.Name(id=name), args=args):
                return FUNCTIONS[name](*(self._value(each, values) for each in args))
        raise TypeError(type(node).__name__)  # `_check` lets no other pass

    def _compare(self, node: ast.Compare, values: Mapping[str, Any]) -> bool:
        sides = [self._value(each, values) for each in (node.left, *node.comparators)]
        return all(COMPARISONS[type(op)](sides[place], sides[place + 1]) for place, op in enumerate(node.ops))


def _key_of(node: ast.AST) -> str | None:
    """Return the dotted key that a node is; None where it is none."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(parts)]) if isinstance(node, ast.Name) else None


def _number(value: Any) -> Any:
    """Return a value that can be computed with. Raises TypeError for another, so that no text is multiplied."""
    if isinstance(value, bool) or not isinstance(value, int | float) or abs(value) > LARGEST:
        raise TypeError(f"{value!r} is no number to compute with")
    return value
