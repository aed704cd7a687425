"""Values in another form than the key's, taken as meant where only one reading fits.

`"10"` and `10.0` are the integer 10, `"1e-3"` is a number, `"true"` a flag, `"accuracy"` a list of one metric,
`"float16"` is fp16. A value that fits is never changed, and one with two readings is left to be refused.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from functools import cache
from typing import Annotated, Any, Literal, get_args, get_origin

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from trainwright.trainer.config.key_aliases import our_name

NUMBER = re.compile(r"[-+]?(\d+(_\d+)*(\.\d*)?|\.\d+)([eE][-+]?\d+)?")
MAX_DIGITS = 300
"""Of a number in a text."""
FLAGS = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
NOTHING = {"none", "null", "nil", "~", ""}
MAX_CHARACTERS = 100_000
"""Of a text that is read as JSON."""


def coerced(rule: Any, given: Any) -> Any:
    """Return the value that was meant for a key of the annotation `rule`; the value itself where that is not certain.

    Args:
        rule: a type with its rules, as pydantic takes it.
    """
    if fits(rule, given):
        return given
    for candidate in _candidates(rule, given):
        if fits(rule, candidate):
            return candidate
    return given


def fits(rule: Any, value: Any) -> bool:
    """Return whether the value is taken strictly, without coercion."""
    try:
        _adapter(rule).validate_python(value)
    except (ValidationError, ValueError, TypeError):
        return False
    return True


def fixed_values(rule: Any) -> list[str]:
    """Return the texts among which a key of fixed values chooses."""
    if get_origin(rule) is Literal:
        return [value for value in get_args(rule) if isinstance(value, str)]
    return [] if _is_section(rule) else [value for part in _parts(rule) for value in fixed_values(part)]


def from_text(text: str) -> Any:
    """Return the JSON object or list in a text; the text itself where there is none."""
    if len(text) <= MAX_CHARACTERS and text.strip()[:1] in {"{", "["}:
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            pass
    return text


def number_in(text: str) -> int | float | None:
    """Return the number that a text is, an integer where it is whole: `1e-3`, `10`, `20%`."""
    bare = text.strip()
    share = bare.endswith("%")
    bare = bare.removesuffix("%").strip()
    if len(bare) > MAX_DIGITS or not NUMBER.fullmatch(bare):
        return None
    value: int | float = float(bare.replace("_", ""))
    if not share and re.fullmatch(r"[-+]?\d+(_\d+)*", bare):
        value = int(bare)
    if not math.isfinite(value):  # `1e400`, beyond every float
        return None
    return round(value / 100, 12) if share else value


def _candidates(rule: Any, given: Any) -> Iterator[Any]:
    """Yield other readings of a value, the plainest first."""
    if isinstance(given, str):
        yield from _readings_of_text(rule, given) if len(given) <= MAX_CHARACTERS else ()
    elif isinstance(given, bool):
        pass
    elif isinstance(given, int | float):
        yield from _readings_of_number(rule, given)
    elif isinstance(given, list):
        item = next((get_args(part)[0] for part in _members(rule) if get_origin(part) is list), None)
        items = _tuple_rules(rule, len(given))
        if item is not None:
            yield [coerced(item, one) for one in given]
        if items:
            yield [coerced(one, value) for one, value in zip(items, given, strict=True)]
        if len(given) == 1:
            yield coerced(rule, given[0]) if not isinstance(given[0], list) else given[0]
        return
    if not isinstance(given, dict | list | bool):
        yield from ([one] for one in (given, *_in_list(rule, given)))


def _readings_of_text(rule: Any, given: str) -> Iterator[Any]:
    text = given.strip()
    yield text
    named = our_name(text, fixed_values(rule))
    if named is not None:
        yield named
    number = number_in(text)
    if number is not None:
        yield number
        yield from _readings_of_number(rule, number)
    if text.lower() in FLAGS:
        yield FLAGS[text.lower()]
    if text.lower() in NOTHING:
        yield None
    parsed = from_text(text)
    if parsed is not given:
        yield parsed
        if isinstance(parsed, list):
            yield from _candidates(rule, parsed)
    parts = [part.strip() for part in text.strip("[]()").split(",")]
    if len(parts) > 1:
        yield from _candidates(rule, parts)


def _readings_of_number(rule: Any, given: int | float) -> Iterator[Any]:
    if isinstance(given, int) or (math.isfinite(given) and given == int(given)):
        yield int(given)
    if given in (0, 1):
        yield bool(given)
    if isinstance(given, int):
        yield our_name(str(given), fixed_values(rule)) or str(given)


def _in_list(rule: Any, given: Any) -> Iterator[Any]:
    item = next((get_args(part)[0] for part in _members(rule) if get_origin(part) is list), None)
    if item is not None:
        meant = coerced(item, given)
        if meant is not given:
            yield meant


def _tuple_rules(rule: Any, length: int) -> tuple[Any, ...]:
    found = next((get_args(part) for part in _members(rule) if get_origin(part) is tuple), ())
    return found if len(found) == length else ()


def _members(rule: Any) -> list[Any]:
    """Return the members of a union or annotation, down to plain types."""
    if get_origin(rule) in {list, tuple, dict, Literal} or not get_args(rule) or _is_section(rule):
        return [rule]
    return [member for part in _parts(rule) for member in _members(part)]


def _parts(rule: Any) -> tuple[Any, ...]:
    return get_args(rule)[:1] if get_origin(rule) is Annotated else get_args(rule)


def _is_section(rule: Any) -> bool:
    return isinstance(rule, type) and issubclass(rule, BaseModel)


def _adapter(rule: Any) -> TypeAdapter[Any]:
    """Return the validator of an annotation, made once: the rules of a schema are few and live as long as it does."""
    try:
        return _hashed_adapter(rule)
    except TypeError:  # an annotation that cannot be hashed
        return _made(rule)


@cache
def _hashed_adapter(rule: Any) -> TypeAdapter[Any]:
    return _made(rule)


def _made(rule: Any) -> TypeAdapter[Any]:
    return (
        TypeAdapter(rule)
        if _is_section(rule)
        else TypeAdapter(rule, config=ConfigDict(strict=True, allow_inf_nan=False))
    )
