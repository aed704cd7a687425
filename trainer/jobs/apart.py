"""Processes that run a function of the user's apart: the order in, one JSON object out. Free of torch."""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any


def main(answered: Callable[[Mapping[str, Any]], dict[str, Any]]) -> int:
    """Answer the order on standard input; what the user's code prints goes to standard error."""
    answer_to = os.dup(1)
    os.dup2(2, 1)
    try:
        answer = answered(json.loads(sys.stdin.read()))
    except BaseException as error:  # noqa: BLE001 - whatever the user's function raises
        answer = {"problem": f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"}
    with os.fdopen(answer_to, "w", encoding="utf-8") as out:
        out.write(json.dumps(answer) + "\n")
    return int("problem" in answer)


def function_of(named: Mapping[str, str], args: Mapping[str, Any]) -> Callable[..., Any]:
    """Return the user's function with its arguments, or an instance of their class.

    Args:
        named: `file`, the `root` that its imports are below, and the `callable` in it.
        args: that it is called with beside what it is given.
    """
    file, root = Path(named["file"]), Path(named["root"])
    sys.path[:0] = [str(file.parent), str(root)]  # as in training, where they are before the libraries too
    name = ".".join(file.relative_to(root).with_suffix("").parts)
    found = importlib.util.find_spec(name)
    if found is None or found.origin != str(file):  # the name is a library's, or no identifier
        found = importlib.util.spec_from_file_location(file.stem, file)
    assert found is not None  # noqa: S101 - for the type
    assert found.loader is not None  # noqa: S101
    module = importlib.util.module_from_spec(found)
    sys.modules[found.name] = module
    found.loader.exec_module(module)
    function = getattr(module, named["callable"])
    return function(**args) if isinstance(function, type) else partial(function, **args)
