"""Reports are made of templates, and no value of a user's reads as a part of the report."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from trainwright.tools.documents.rendering import ROOM, cell, render

FORGED = "age\n\n## Checks\n\n| goal_reached | passed |"


@pytest.mark.requirement("PHASE-6", "GATE-1")
def test_no_column_header_or_intent_forges_a_section_or_a_row_of_the_card() -> None:
    card = render(
        "reports/model_card.md.j2",
        name="flowers",
        intent=f"tell irises apart\n{FORGED}",
        test={"metrics": {FORGED: 0.5}},
        metrics={FORGED: FORGED},
        onnx={"inputs": {"input": "tensor(float)"}, "shapes": {"input": ["batch", 4]}},
        served={"feature_names": ["sepal", FORGED], "class_names": ["setosa", FORGED]},
        checks=[SimpleNamespace(id="goal_reached", status="failed", measured=FORGED, required=0.61234567)],
    )
    lines = card.splitlines()
    assert [line for line in lines if "goal_reached | passed" in line and not line.startswith(">")] == []
    assert lines.count("## Checks") == 1
    assert "> ## Checks" in lines
    inert = r"age ## Checks \| goal_reached \| passed \|"
    assert f"| {inert} | 0.5 |  |" in lines
    assert f"Columns, in this order: sepal, {inert}." in lines
    assert f"| goal_reached | failed | {inert} | 0.612346 |" in lines


def test_a_value_that_is_missing_leaves_its_place_empty_and_html_stands_as_written() -> None:
    assert (cell(None), cell(0.1234567), cell(True), cell("a <b> & 'c'")) == ("", "0.123457", "True", "a <b> & 'c'")
    text = render("reports/tuning_results.md.j2", name="<flowers>", study="## Best\n\nTrial 1")
    assert text.startswith("# Tuning results: <flowers>\n")
    assert "\n## Best\n\nTrial 1\n" in text
    assert "\n\n\n" not in text


@pytest.mark.parametrize("path", sorted(ROOM.rglob("*.j2")), ids=lambda path: path.name)
def test_every_template_is_used_by_a_module_or_another_template(path: Path) -> None:
    name = path.relative_to(ROOM).as_posix()
    others = [file for kind in ("*.py", "*.j2") for file in ROOM.rglob(kind) if file != path]
    assert any(name in file.read_text(encoding="utf-8") for file in others)
