"""Domain of a search: the parameters that a trial may have, by ranges, conditions and constraints."""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from trainwright.tools.hyperparameter_tuner.conditions import in_order, is_active, may_be, own_choice
from trainwright.trainer.config import Range, SearchSection, flatten, parse_config
from trainwright.trainer.config.schema_index import Layout
from trainwright.trainer.config.search import Choices, spread


class Domain:
    """What a search may try, over the configuration that its trials change."""

    def __init__(self, search: SearchSection, base_values: Mapping[str, Any]) -> None:
        """Read the constraints, whose other keys have the base's values. Raises ValueError for one that is none."""
        self.space = search.space
        self._is_grid = search.method == "grid"
        self.where = "on the grid of" if self._is_grid else "in its range"
        self.order = in_order(search.space)
        self.present = Present(base_values)
        self.constraints = [Constraint(text) for text in search.constraints]
        keys = {key for constraint in self.constraints for key in constraint.keys}
        self._fixed = {key: self.present.value(key) for key in sorted(keys)}

    @property
    def is_conditional(self) -> bool:
        """Whether any range is searched only under values of others."""
        return any(range_.when for range_ in self.space.values())

    def is_active(self, key: str, parameters: Mapping[str, Any]) -> bool:
        """Return whether a key is searched under these values of the keys before it in order."""
        return is_active(self.space[key], parameters, self.space)

    def kept(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Return the parameters that are searched together, by key; the others keep the configuration's values.

        A value that is one of its range's choices has the choice's own form, by which methods tell choices apart.
        """
        found: dict[str, Any] = {}
        for key in self.order:
            if key in parameters and self.is_active(key, found):
                found[key] = _own_form(self.space[key], parameters[key])
        return dict(sorted(found.items()))

    def meets(self, parameters: Mapping[str, Any]) -> bool:
        """Return whether a trial of these parameters meets every constraint."""
        return not self.broken(parameters)

    def broken(self, parameters: Mapping[str, Any]) -> list[str]:
        """Return the constraints that a trial of these parameters does not meet."""
        values = {**self._fixed, **parameters}
        return [constraint.text for constraint in self.constraints if not constraint.holds(values)]

    def takes(self, key: str, value: Any) -> bool:
        """Return whether a range, and of a grid one of its values, is this one."""
        range_ = self.space[key]
        return may_be(range_, value) and (not self._is_grid or value in (spread(range_) or []))

    def at(self, shares: Sequence[float]) -> dict[str, Any]:
        """Return the point of the unit cube, an axis each key by name, as parameters that are searched together."""
        return self.kept(
            {key: at(self.space[key], share) for key, share in zip(sorted(self.space), shares, strict=True)}
        )

    def points(self) -> Iterator[dict[str, Any]]:
        """Give the grid's points that meet the constraints: the last key by name changes first.

        Raises ValueError naming a float range that has neither `step` nor `points`.
        """
        values: dict[str, list[Any]] = {}
        for key, range_ in self.space.items():
            found = spread(range_)
            if found is None:
                raise ValueError(key)
            values[key] = found
        yield from (point for point in self._grid(self.order, {}, values) if self.meets(point))

    def _grid(
        self, left: Sequence[str], chosen: dict[str, Any], values: Mapping[str, list[Any]]
    ) -> Iterator[dict[str, Any]]:
        if not left:
            yield dict(sorted(chosen.items()))
            return
        key, *rest = left
        if not self.is_active(key, chosen):
            yield from self._grid(rest, chosen, values)
            return
        for value in values[key]:
            yield from self._grid(rest, {**chosen, key: value}, values)


def _own_form(range_: Range, value: Any) -> Any:
    if isinstance(range_, Choices) and may_be(range_, value):
        return own_choice(value, range_.choices)
    return value


def at(range_: Range, share: float) -> Any:
    """Return a range's value at a share of its width: 0 is its low end or first choice, just below 1 its last.

    Whole numbers, steps and choices have equal parts of the width, on the range's scale.
    """
    if isinstance(range_, Choices):
        return range_.choices[min(int(share * len(range_.choices)), len(range_.choices) - 1)]
    step = range_.step or (1 if range_.type == "int" else None)
    if step is None:
        ends = [math.log(range_.low), math.log(range_.high)] if range_.log else [range_.low, range_.high]
        value = ends[0] + (ends[1] - ends[0]) * share
        return min(max(math.exp(value) if range_.log else value, range_.low), range_.high)
    if range_.log:
        ends = [math.log(range_.low - 0.5), math.log(range_.high + 0.5)]
        return min(max(round(math.exp(ends[0] + (ends[1] - ends[0]) * share)), range_.low), range_.high)
    count = math.floor((range_.high - range_.low) / step + 1e-9) + 1
    value = range_.low + min(int(share * count), count - 1) * step
    return value if range_.type == "int" else min(float(f"{value:.12g}"), range_.high)


def share_of(range_: Range, value: Any) -> float:
    """Return where in a range's width a value lies, as `at` counts it: the middle of the value's part."""
    if isinstance(range_, Choices):
        return (range_.choices.index(own_choice(value, range_.choices)) + 0.5) / len(range_.choices)
    step = range_.step or (1 if range_.type == "int" else None)
    if step is None or range_.log:
        edge = 0.5 if range_.type == "int" else 0.0
        scale = math.log if range_.log else float
        low, high = scale(range_.low - edge), scale(range_.high + edge)
        return float((scale(value) - low) / (high - low))
    count = math.floor((range_.high - range_.low) / step + 1e-9) + 1
    return float((round((value - range_.low) / step) + 0.5) / count)


# Values of the present configuration by dotted key, defaults included.


class Present:
    """The configuration that a study's trials change, read once."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = dict(values)

    @cached_property
    def _whole(self) -> dict[str, Any]:
        return parse_config(self._values).model_dump(mode="json")

    def has(self, key: str) -> bool:
        """Return whether the configuration has such a key, or may have."""
        parts = key.split(".")
        found, _ = self._find(parts)
        layout = Layout(self._whole)
        return found or (not layout.is_unknown(parts) and bool(layout.known_keys(parts[:-1]) or "args" in parts))

    def keys(self) -> list[str]:
        """Return every dotted key that has a value."""
        return list(flatten(self._whole))

    def value(self, key: str) -> Any:
        """Return a key's value, or its default; None where it has neither."""
        parts = key.split(".")
        found, value = self._find(parts)
        if found:
            return value
        for model in Layout(self._whole).models_at(parts[:-1]):  # a built-in part's argument that was left out
            about = model.model_fields.get(parts[-1])
            if about is not None and not about.is_required():
                return about.get_default(call_default_factory=True)
        return None

    def _find(self, parts: list[str]) -> tuple[bool, Any]:
        value: Any = self._whole
        for part in parts:
            if not isinstance(value, dict) or part not in value:
                return False, None
            value = value[part]
        return True, value


# Constraints of a space: comparisons such as `model.args.width % model.args.heads == 0`, read without eval.
#
# A constraint is parsed by Python's grammar, of which arithmetic, comparisons, `and`, `or`, `not`, `in` a list, and
# min, max, abs and len are taken. Names are dotted configuration keys. Anything else is refused before the first trial.

MAX_NODES = 100
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
        if sum(1 for _ in ast.walk(self._tree)) > MAX_NODES:
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
