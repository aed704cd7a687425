"""Expectations that a configuration names or holds: refused when it is made, with the key and the near name."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from trainwright.tools import projects
from trainwright.tools.workspace import Workspace
from trainwright.trainer.base.errors import ConfigurationError

GOAL = {"metric": "accuracy", "direction": "maximize", "target": 0.9}
KEY = "data.expectations"
pytestmark = pytest.mark.requirement("PIPE-2", "CONF-1")


@pytest.fixture
def workspace(tmp_path: Path) -> Iterator[Workspace]:
    opened = Workspace.open(tmp_path / "workspace")
    (opened.path / "settings.yaml").write_text(f"code_roots: [{tmp_path}]\n")
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "people.csv").write_text("age,left\n30,0\n40,1\n")
    (tmp_path / "code" / "schedule.yaml").write_text("a: 1\n")
    yield opened
    opened.close()


def create(workspace: Workspace, expectations: Any = None) -> None:
    data = {"use": "csv", "args": {"path": "people.csv", "target": "left"}}
    config = {"code_root": str(workspace.path.parent / "code"), "model": {"use": "mlp"}, "data": data}
    config |= {} if expectations is None else {"data": data | {"expectations": expectations}}
    projects.create_project(workspace, "one", intent="", goal=GOAL, config=config)


def write(workspace: Workspace, name: str, text: str = "columns: {age: {max: 120}}") -> None:
    (workspace.path.parent / "code" / name).write_text(text)


def test_a_file_that_is_not_there_is_refused_at_once_and_a_near_one_is_named(workspace: Workspace) -> None:
    with pytest.raises(ConfigurationError, match="no file under code_root") as caught:
        create(workspace, "expectations.yaml")
    assert "schedule" not in caught.value.message  # which is no near name
    create(workspace)
    write(workspace, "expectation.yml")
    with pytest.raises(ConfigurationError, match=r"Near: expectation\.yml") as caught:
        projects.configure(workspace, "one", changes={KEY: "expectations.yaml"}, reason="rules")
    answer = projects.configure(workspace, "one", changes=caught.value.details["changes"], reason="rules")
    assert answer.changed[KEY] == [None, "expectation.yml"]


def test_a_file_with_a_slip_is_refused_at_once(workspace: Workspace) -> None:
    write(workspace, "rules.yaml", "columns: {age: {mxa: 120}}")
    with pytest.raises(ConfigurationError, match="did you mean `max`"):
        create(workspace, "rules.yaml")
    write(workspace, "rules.yaml", 'columns: {age: {max: "0.5"}}')
    with pytest.raises(ConfigurationError, match=r"`columns\.age\.max`: .*a number stands without quotes: 0.5"):
        create(workspace, "rules.yaml")


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"columns": {"age": {"max": "old"}}}, "`data.expectations.columns.age.max` = 'old': a date is text like"),
        ({"columns": {"age": {"not_after": "soon"}}}, "`data.expectations.columns.age.not_after`"),
        ({"columns": {"age": {"unique": "maybe"}}}, "`data.expectations.columns.age.unique`"),
        ({"columns": {"age": {"mni": 3}}}, "did you mean `data.expectations.columns.age.min`"),
    ],
)
def test_a_value_of_the_wrong_type_is_refused_with_its_key(workspace: Workspace, changes: Any, named: str) -> None:
    create(workspace)
    with pytest.raises(ConfigurationError) as caught:
        projects.configure(workspace, "one", changes={KEY: changes}, reason="rules")
    assert named in caught.value.message


def test_a_number_in_quotes_is_read_as_one_and_the_answer_says_so(workspace: Workspace) -> None:
    create(workspace)
    changes = {KEY: {"columns": {"age": {"max": "0.5"}}}}
    answer = projects.configure(workspace, "one", changes=changes, reason="rules")
    assert answer.taken_as == ['data.expectations.columns.age.max "0.5" taken as 0.5']
    for given in ("2026-01-31", "2026-01-31T12:00:00", "now"):
        projects.configure(workspace, "one", changes={f"{KEY}.columns.age.max": given}, reason="dates")
