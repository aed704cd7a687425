"""Python 3.10, on which a worker runs in an environment of a user's: what its standard library lacks is added."""

from __future__ import annotations

import ast
import enum
import hashlib
import subprocess
import sys

import pytest
from tests.house.sources import ROOT

from trainwright.trainer import config, run
from trainwright.trainer.base import canonical, python310

pytestmark = pytest.mark.requirement("ENV-2")

AS_BEFORE = f"""
import datetime, enum, hashlib
del datetime.UTC, enum.StrEnum, hashlib.file_digest  # typing itself uses its Self
from {python310.__name__} import __file__, add
add()
from pathlib import Path
from {canonical.__name__} import sha256_of_file
from {config.__name__} import parse_config
from {run.__name__} import RunKind, RunState
settings = parse_config({{"model": {{"use": "mlp"}}, "data": {{"use": "iris"}}}})
print(f"{{RunKind.SMOKE}} {{RunState('failed')!s:>8}} {{RunKind('final') == 'final'}}", settings.seed, datetime.UTC)
print(sha256_of_file(Path(__file__)))
"""


def test_a_python_that_lacks_the_newer_names_gets_them_before_anything_uses_them() -> None:
    done = subprocess.run([sys.executable, "-P", "-c", AS_BEFORE], capture_output=True, text=True, check=True)
    said, digest = done.stdout.splitlines()
    assert said == "smoke   failed True 42 UTC"
    whole = hashlib.sha256((ROOT / "trainer" / "base" / "python310.py").read_bytes()).hexdigest()
    assert digest.endswith(whole)


def test_names_that_a_python_has_are_left_as_they_are() -> None:
    before = enum.StrEnum
    python310.add()
    assert enum.StrEnum is before


def test_every_file_of_the_worker_is_in_the_grammar_of_python_3_10() -> None:
    newer = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in sorted((ROOT / "trainer").rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_bytes()))
        if isinstance(node, ast.TryStar | ast.TypeAlias if sys.version_info >= (3, 12) else ast.TryStar)
        or (isinstance(node, ast.Subscript) and _has_bare_star(node.slice))
    ]
    assert newer == []


def _has_bare_star(index: ast.expr) -> bool:
    """Return whether `x[*rest]` is written without parentheses."""
    if not isinstance(index, ast.Tuple) or not any(isinstance(each, ast.Starred) for each in index.elts):
        return False
    return (index.lineno, index.col_offset) == (index.elts[0].lineno, index.elts[0].col_offset)
