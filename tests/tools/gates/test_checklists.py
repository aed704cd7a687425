"""The checklist that is read is the one that is enforced."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from trainwright.tools.documents import SKILL, read_document
from trainwright.tools.gates import decide
from trainwright.tools.gates.checklist import Checklist, load_checklist
from trainwright.tools.gates.outcomes import CHECKS
from trainwright.tools.gates.phases import PERMITTED, Phase
from trainwright.trainer.base.errors import ConfigurationError, NotFoundError


@pytest.mark.requirement("PHASE-9")
def test_every_line_has_a_check_and_every_check_a_line() -> None:
    assert decide is not None
    lines = [line.id for phase in Phase for line in load_checklist(phase).checks]
    assert sorted(lines) == sorted(CHECKS)
    assert len(lines) == len(set(lines))


@pytest.mark.requirement("PHASE-9")
@pytest.mark.parametrize("phase", Phase)
def test_what_an_agent_reads_names_each_check_and_its_threshold(phase: Phase) -> None:
    checklist, body = read_document(SKILL / phase.document, Checklist)
    assert checklist.phase is phase
    for line in checklist.checks:
        assert line.id.startswith(f"{phase.value}.")
        told = next(text for text in body.splitlines() if text.startswith(f"- [ ] `{line.id}`"))
        if line.threshold is not None:
            shown = f"{100 * line.threshold:.0f} %" if line.threshold < 1 else f"{line.threshold:.0f}"
            assert shown in told
        if line.most is not None:
            assert f"at most {line.most:.0f}" in told
    assert (SKILL / phase.document).with_name("workflow.md").is_file()


@pytest.mark.requirement("PHASE-9")
def test_the_overview_names_the_kinds_that_each_phase_permits() -> None:
    text = (SKILL / "phases" / "WORKFLOW.md").read_text()
    for phase, kinds in PERMITTED.items():
        row = next(line for line in text.splitlines() if line.startswith(f"| {phase.value} |"))
        assert {kind.strip() for kind in row.split("|")[2].split(",")} == {kind.value for kind in kinds}


@pytest.mark.requirement("PHASE-9")
@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (lambda text: text.removeprefix("---\n"), "no front matter"),
        (lambda text: text.replace("threshold: 3", "threshold: many"), "threshold"),
        (lambda text: text.replace("phase: planning", "phase: planing"), "phase"),
        (lambda text: text.replace("checks:", "cheques:"), "checks"),
    ],
)
def test_a_damaged_checklist_is_an_error_and_never_an_open_gate(tmp_path: Path, damage: object, says: str) -> None:
    shutil.copytree(SKILL / "phases", tmp_path / "phases")
    path = tmp_path / Phase.PLANNING.document
    path.write_text(damage(path.read_text()))  # type: ignore[operator]
    with pytest.raises(ConfigurationError, match=says):
        load_checklist(Phase.PLANNING, tmp_path)
    path.unlink()
    with pytest.raises(NotFoundError):
        load_checklist(Phase.PLANNING, tmp_path)
