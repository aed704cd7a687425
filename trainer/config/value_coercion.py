"""Values in another form than the key's, taken as meant where only one reading fits.

`"10"` and `10.0` are the integer 10, `"1e-3"` is a number, `"true"` a flag, `"accuracy"` a list of one metric,
`"float16"` is fp16. A value that fits is never changed, and one with two readings is left to be refused.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from functools import cache
from typing import Annotated, Any, Literal, get_args, get_origin

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from trainwright.trainer.config.key_aliases import our_name

FLAGS = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
NOTHING = {"none", "null", "nil", "~", ""}
MAX_DIGITS = 300
"""Of a number in a text."""
MAX_CHARACTERS = 100_000
"""Of a text that is read as JSON, or as a list."""


def coerced(rule: Any, given: Any) -> Any:
    """Return the value that was meant for a key of the annotation `rule`; the value itself where that is not certain.

    Args:
        rule: a type with its rules, as pydantic takes it.
    """
    if given is None or fits(rule, given):
        return given
    for reading in _readings(rule, given):
        try:
            return _as_plain(rule, reading)
        except (ValidationError, ValueError, TypeError):
            continue
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
    parts = get_args(rule)[:1] if get_origin(rule) is Annotated else get_args(rule)
    return [] if _is_section(rule) else [value for part in parts for value in fixed_values(part)]


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
    bare = text.strip().removesuffix("%").strip()
    try:
        value = float(bare if len(bare) <= MAX_DIGITS else "")
    except ValueError:
        return None
    if not math.isfinite(value):  # `1e400`, beyond every float
        return None
    if text.strip().endswith("%"):
        return round(value / 100, 12)
    return int(bare) if bare.lstrip("+-").replace("_", "").isdecimal() else value


def _readings(rule: Any, given: Any) -> Iterator[Any]:
    """Yield other readings of a value, the plainest first; pydantic reads numbers and flags in texts by itself."""
    if isinstance(given, str):
        yield from _readings_of_text(rule, given)
    elif isinstance(given, list):
        if not any(isinstance(one, bool) for one in given):
            yield [_name(rule, one) for one in given]
        if len(given) == 1 and not isinstance(given[0], list):
            yield from _readings(rule, given[0])
    elif isinstance(given, int | float) and not isinstance(given, bool):
        yield from (given, _name(rule, str(given)), [given])


def _readings_of_text(rule: Any, given: str) -> Iterator[Any]:
    text = given.strip()
    yield _name(rule, text)
    yield text
    if (number := number_in(text)) is not None:
        yield number
    if text.lower() in NOTHING:
        yield None
    if (parsed := from_text(text)) is not text:
        yield parsed
    parts = [_name(rule, part.strip()) for part in text[:MAX_CHARACTERS].strip("[]()").split(",")]
    yield parts if len(text) <= MAX_CHARACTERS and len(parts) > 1 else [_name(rule, given)]


def _name(rule: Any, given: Any) -> Any:
    return (our_name(given, fixed_values(rule)) or given) if isinstance(given, str) else given


def _as_plain(rule: Any, value: Any) -> Any:
    """Return the value as JSON types, read as pydantic reads texts and numbers. Raises ValidationError."""
    adapter = _adapter(rule)
    return adapter.dump_python(adapter.validate_python(value, strict=False), mode="json", exclude_unset=True)


def _is_section(rule: Any) -> bool:
    return isinstance(rule, type) and issubclass(rule, BaseModel)


@cache
def _adapter(rule: Any) -> TypeAdapter[Any]:
    """Return the validator of an annotation, made once: the rules of a schema are few and live as long as it does."""
    strict = ConfigDict(strict=True, allow_inf_nan=False)
    return TypeAdapter(rule) if _is_section(rule) else TypeAdapter(rule, config=strict)
