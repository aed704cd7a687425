"""Values that JSON and YAML carry unchanged: what the free parts of a configuration (`args`, `choices`) may hold."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import islice
from typing import Any

from trainwright.trainer.canonical import canonical_json
from trainwright.trainer.config.documents import OVERVIEW, document_for
from trainwright.trainer.errors import ConfigurationError

MAX_BYTES = 256 * 1024
"""Of a whole configuration, as canonical JSON."""
MAX_DEPTH = 32
_MAX_PROBLEMS = 8
_INTEGERS = range(-(2**63), 2**63)


def require_plain(values: dict[str, Any]) -> None:
    """Refuse values that have no canonical JSON, before anything is computed from them.

    Raises:
        ConfigurationError: a float that is not finite, a type that JSON does not have, an integer beyond 64 bits, a
            key that is no text, text that is not Unicode, more than 32 levels, or more than 256 KiB in all.
    """
    problems = list(islice(_problems(values, (), 1), _MAX_PROBLEMS))
    if problems:
        key = problems[0].split("`")[1]
        raise ConfigurationError(
            "The configuration holds values that it cannot keep: " + "; ".join(problems) + ".",
            remedy="Give finite numbers, text, true, false, lists and mappings for these keys, for example with "
            f"configure(project='…', changes={{'{key}': …}}).",
            document=document_for([key]),
            details={"problems": problems},
        )
    sizes = {key: _bytes({key: value}) for key, value in values.items()}
    if sum(sizes.values()) > MAX_BYTES:
        largest = max(sizes, key=lambda key: sizes[key])
        raise ConfigurationError(
            f"The configuration is longer than {MAX_BYTES} bytes of JSON: {sum(sizes.values())}, of which "
            f"`{largest[:80]}` takes {sizes[largest]}.",
            remedy="Put what is long into a file under code_root, and its path into the configuration.",
            document=OVERVIEW,
        )


def _problems(value: Any, path: tuple[str, ...], depth: int) -> Iterator[str]:
    """Yield one text for each value that is not plain."""
    if isinstance(value, dict | list) and depth > MAX_DEPTH:
        yield f"`{_key(*path[:3])}…` nests deeper than {MAX_DEPTH} levels"
    elif isinstance(value, dict):
        for key, item in value.items():
            if not isinstance(key, str) or not _is_unicode(key):
                yield f"`{_key(*path, ascii(key))}`: keys must be text (in YAML, quote it)"
            else:
                yield from _problems(item, (*path, key), depth + 1)
    elif isinstance(value, list):
        for place, item in enumerate(value):
            yield from _problems(item, (*path, str(place)), depth + 1)
    elif (rule := _broken_rule(value)) is not None:
        yield f"`{_key(*path)}` = {_shown(value)}: {rule}"


def _broken_rule(value: Any) -> str | None:
    if isinstance(value, float):
        return None if math.isfinite(value) else "a number must be finite"
    if isinstance(value, int):
        return None if value in _INTEGERS else "an integer must fit into 64 bits (write a float, or text)"
    if isinstance(value, str):
        return None if _is_unicode(value) else "text must be Unicode (no lone surrogates)"
    if value is None:
        return None
    return f"a {type(value).__name__} is no JSON type (write a list, or text in quotes)"


def _key(*path: str) -> str:
    key = ".".join(path)
    return key if len(key) <= 200 else key[:197] + "..."


def _shown(value: Any) -> str:
    is_long = isinstance(value, int) and value.bit_length() > 1024  # more digits than Python prints
    text = f"an integer of {value.bit_length()} bits" if is_long else ascii(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _bytes(value: Any) -> int:
    return len(canonical_json(value).encode())
