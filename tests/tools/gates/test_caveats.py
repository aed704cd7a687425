"""What figures do not show stands under them: intervals, plain predictors, chosen seeds, weights of unknown origin."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from trainwright.tools.gates import caveats as room
from trainwright.tools.gates.caveats import BEFORE_PLANNING, caveats
from trainwright.tools.gates.rows_moved import Grown
from trainwright.trainer.data.cells import cell_of
from trainwright.trainer.data.sections import SplitSection
from trainwright.trainer.run.artifacts import Array, FixedRows, FixedSplit
from trainwright.trainer.run.evidence import Environment, Resolved
from trainwright.trainer.run.looked_at import LookedAt, Opened, OpenedFile, SplitLook
from trainwright.trainer.run.results import Export, Skew
from trainwright.trainer.run.split_rows import RowsMoved
from trainwright.trainer.run.validation import Report, Validation, Verdict

pytestmark = pytest.mark.requirement("GATE-5", "GATE-6", "PHASE-6")


def project(
    test: float = 0.9,
    interval: tuple[float, float] = (0.85, 0.94),
    validation: float = 0.91,
    *,
    target: float = 0.8,
    constant: float = 0.5,
    skipped: int = 0,
    opened: tuple[str, ...] = (),
    sources: tuple[str, ...] = (),
    split: SplitSection | None = SplitSection(),  # noqa: B008 - never changed
    untrained: int = 0,
    leak: str = "",
    classes: dict[str, int] | None = None,
    beyond: dict[str, int] | None = None,
    environment: Environment | None = None,
) -> Any:
    """Return evidence of an exported project whose goal is an accuracy."""
    leaks = [Verdict(family="leaks", name=leak, severity="warning", passed=False, text="Rows come in clumps.")]
    rows = Array(path="", digest="", dtype="float32", shape=[100, 4])
    parts = {
        FixedRows: FixedRows(splits={"test": FixedSplit(size=100, rows=100, inputs={"input": rows})}),
        Validation: Validation(report=Report(checks=leaks if leak else [])),
    }
    look = LookedAt(splits={"test": SplitLook(size=100, classes=classes, constant={"accuracy": constant})})
    certified = {"test": {"accuracy": test}, "validation": {"accuracy": validation}}
    files = Opened(files={name: OpenedFile(by_user=name != "seen.yaml") for name in opened}, sources=list(sources))
    export = SimpleNamespace(
        is_complete=True, certified=lambda split="validation": certified[split], part=lambda _: files,
        evaluation=SimpleNamespace(splits={"test": {"intervals": {"accuracy": list(interval)}}}),
        exported=Export(skew=Skew(rows_compared=200, beyond=beyond or {})),
    )  # fmt: skip
    return SimpleNamespace(
        export=export, baseline=None,
        final=SimpleNamespace(part=lambda _: files, resolved=Resolved(untrained_numbers=untrained)),
        goal_metric="accuracy",
        goal={"metric": "accuracy", "direction": "maximize", "target": target},
        reaches_goal=lambda value: value >= target,
        smoke=SimpleNamespace(part=lambda kind: parts.get(kind, look),
                              data=SimpleNamespace(skipped=skipped, split=split and split.describe()),
                              split_rows=SimpleNamespace(kept=False), environment=environment or Environment()),
        config=SimpleNamespace(data=SimpleNamespace(split=split)),
    )  # fmt: skip


def test_a_plain_result_leaves_open_what_came_before_planning_alone() -> None:
    assert caveats(project(untrained=399, beyond={"temp": 9})) == [BEFORE_PLANNING]  # the test rows have 400 numbers
    assert caveats(SimpleNamespace(export=None)) == []


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"constant": 0.86}, "Not shown to be better on the test rows than the same answer for every row 0.86."),
        ({"skipped": 12}, "12 rows without a target"),
        ({"beyond": {"year": 60, "temp": 12}}, "some lie beyond what training met: year in 60, temp in 12; so may"),
        ({"split": SplitSection(seed=1337)}, "divided by seed 1337, which was chosen"),
        ({"split": None}, "The user's code divided the rows: how it chose those that test is not known"),
        ({"split": SplitSection(by="given", column="fold")}, "Which rows test is said by column 'fold': how"),
        ({"sources": ("rows.csv",)}, "code itself read rows.csv, which holds the validation and test rows"),
        ({"untrained": 400}, "carries 400 numbers that training did not change: whether they are of rows"),
        ({"leak": "leak_clumps"}, "Planning found leak_clumps, and it was left: Rows come in clumps."),
        ({"opened": ("model/net.pt", "seen.yaml")}, "It begins from model/net.pt: on which rows"),
        ({"opened": ("net.dat", "seen.yaml")}, "The user's code opened net.dat: which held-out rows the model knows"),
        (
            {"environment": Environment(python="3.12.1", path=["/p"], hooks={"/p/own.pth": "blake3:0"})},
            "environment (Python 3.12.1): its packages' versions are recorded, not their content, and Python starts "
            "there by running own.pth.",
        ),
    ],
)
def test_each_of_them_is_told_by_itself(given: dict[str, Any], told: str) -> None:
    first, last = caveats(project(**given))
    assert first.startswith(told) or told in first
    assert last == BEFORE_PLANNING


def test_rows_that_an_earlier_plan_had_and_one_class_to_tell_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    grown = Grown(
        RowsMoved(new=0, gone=60, test_in_train=0, test_in_validation=0, estimated=False), "smoke-1", True, 600
    )
    monkeypatch.setattr(room, "rows_since", lambda *_: grown)
    before = SimpleNamespace(data=SimpleNamespace(class_names=["ill", "well", "unsure"]))
    given = project()
    given.run = {"smoke-1": before}.get
    assert "Since smoke-1 60 rows are gone: its figures are of other rows." in caveats(given)
    of_classes = {cell_of("ill"): (50, 90), cell_of("well"): (10, 510)}
    told = grown._replace(moved=grown.moved._replace(gone_by_target=of_classes))
    monkeypatch.setattr(room, "rows_since", lambda *_: told)
    assert "60 rows are gone (50 of 90 ill, 10 of 510 well): its figures are of other rows." in caveats(given)[0]
    other = grown._replace(moved=grown.moved._replace(gone=580))
    monkeypatch.setattr(room, "rows_since", lambda *_: other)
    assert caveats(project())[0].startswith("Of the rows of smoke-1 580 are not found again: whether those that it te")
    moved = grown._replace(moved=grown.moved._replace(gone=0, test_in_train=12))
    monkeypatch.setattr(room, "rows_since", lambda *_: moved)
    for is_evaluated in (True, False):
        monkeypatch.setattr(room, "has_evaluated", lambda *_, it=is_evaluated: it)
        assert ("12 rows that tested smoke-1 are trained on now." in caveats(given)) is is_evaluated
    monkeypatch.undo()
    alone = project(test=1.0, interval=(0.95, 1.0), constant=0.0, classes={"ill": 100})
    assert "Not shown to be better on the test rows than the same answer for every row 1." in caveats(alone)
