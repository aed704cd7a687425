"""The removals fit the product, and the mutation check tells a behaviour that tests show from one that they do not."""

from __future__ import annotations

import ast
import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.shown import MANIFEST

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def mutations() -> Any:
    """benchmarks/mutations."""
    spec = importlib.util.spec_from_file_location("mutations", ROOT / "benchmarks" / "mutations" / "__main__.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, spec.name, module)
        spec.loader.exec_module(module)
        yield module


def test_every_removal_can_be_made_and_names_tests_that_are_there(mutations: Any) -> None:
    removals = mutations.read_removals()
    assert len(removals) >= 60
    assert len({one.behaviour for one in removals}) == len(removals)
    for one in removals:
        ast.parse(one.applied_to((ROOT / one.file).read_text(encoding="utf-8")))
        assert one.requirement in MANIFEST["requirements"], one.behaviour
        assert any((ROOT / mutations.file_of(test)).is_file() for test in one.tests), one.behaviour


@pytest.mark.long
def test_a_removal_is_red_only_where_a_test_fails_without_the_behaviour(mutations: Any, tmp_path: Path) -> None:
    """`make mutations` does this with the whole list."""
    shown, unseen = (one for one in mutations.read_removals() if one.file == "tools/training_monitor/signals/costs.py")
    unseen = unseen.model_copy(update={"tests": shown.tests} if shown.tests != unseen.tests else {})
    gone = shown.model_copy(update={"find": "no such text"})
    found = list(mutations.check([shown, unseen, gone], tmp_path, None, 1))
    assert [one.result for one in found] == ["red", "green", "not_applied"]
