"""Code for another process, written as a function: tools that rename and move see what it imports, and no string."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable
from typing import Any


def body_of(function: Callable[..., Any]) -> str:
    """Return what stands in the function as the text of a module; it may return nothing and take no arguments."""
    text = textwrap.dedent(inspect.getsource(function))
    [defined] = ast.parse(text).body
    assert isinstance(defined, ast.FunctionDef)
    lines = text.splitlines()[defined.body[0].lineno - 1 : defined.end_lineno]
    return textwrap.dedent("\n".join(lines)) + "\n"
