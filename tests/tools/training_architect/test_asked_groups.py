"""Groups for which a sentence wants figures: told for each value of the column, with no bound."""

from __future__ import annotations

from typing import Any

import pytest

from trainwright.tools.training_architect.asked_groups import asked_groups, shared_names
from trainwright.trainer.config.schema import EvaluationGateSection

pytestmark = pytest.mark.requirement("ARCH-1", "PIPE-2")
COLUMNS: list[dict[str, Any]] = [
    {"name": "Origin", "kind": "category", "different": 3},
    {"name": "blood_group", "kind": "category", "different": 4},
    {"name": "Name", "kind": "category", "different": 300},
    {"name": "weight", "kind": "number", "different": 200},
]


@pytest.mark.parametrize(
    ("sentence", "groups"),
    [
        ("MAE of 2.3 on cars not seen. I want the error for each Origin apart.", ["Origin"]),
        ("accuracy per blood group", ["blood_group"]),
        ("Fehler je Origin", ["Origin"]),
        ("AUC for each Origin and each blood group, and the inputs", ["Origin", "blood_group"]),
        ("how good by blood group, weight and origin", ["blood_group"]),
        ("predict mpg by Origin and weight", []),
        ("the error for each Name", []),
        ("one car for each Origin. The error is small.", []),
    ],
)
def test_a_sentence_names_the_groups_by_a_column_of_few_values(sentence: str, groups: list[str]) -> None:
    assert asked_groups(sentence, COLUMNS, []) == groups
    assert EvaluationGateSection(groups={name: {} for name in groups}).metrics() == [], "no bound"


def test_a_name_that_several_rows_share_is_pointed_out_and_no_key_date_or_class() -> None:
    told = shared_names(COLUMNS, 400, [])
    assert told.startswith("'Name' has 300 values in 400 rows")
    assert "{by: group, group: Name}" in told
    alone = [
        {"name": "Key", "kind": "category", "different": 400},
        {"name": "Date", "kind": "category", "different": 300},
    ]
    assert not shared_names([*COLUMNS[:2], COLUMNS[3], *alone], 400, [])
    assert not shared_names(COLUMNS, 400, ["Name"])


def test_the_target_is_no_group() -> None:
    assert asked_groups("accuracy for each Origin", COLUMNS, ["Origin"]) == []
