"""Functions that answer raw inputs: a change of them, or of what they import, makes smoke run and export anew."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.tools.gates.test_each_check import LINES, changed, config_with, evidence_of

from trainwright.tools.gates.outcomes import CHECKS
from trainwright.tools.gates.served_code import served_code_changes
from trainwright.tools.workspace.query_cache import Sources
from trainwright.trainer.run.artifacts import ExportProbe, Parity
from trainwright.trainer.user_code.served import served_meanings

DATA = {"use": "data.py:load", "prepare": "serve.py:prepare"}
CODE = "from letters import ALL\n\n\ndef prepare(text):\n    return [text.count(one) for one in ALL]\n"


def written(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "serve.py").write_text(CODE)
    (folder / "letters.py").write_text('ALL = "abt"\n')


def told(evidence: Any, run: Any) -> list[str]:
    return served_code_changes(evidence.config.data, evidence.project.code_root, run, Sources())


def evidence_and_export(tmp_path: Path) -> tuple[Any, Any]:
    """Return evidence of a project whose smoke run tried these functions, and an export that ships them."""
    written(tmp_path / "root")
    written(tmp_path / "artifacts" / "final_model" / "code")
    probe = ExportProbe(
        parity=Parity(rows_compared=4, max_abs_difference=1e-7, passed=True),
        own_meanings=served_meanings(["serve.py:prepare"], tmp_path / "root"),
    )
    evidence = evidence_of(tmp_path)
    changed(evidence, "config", config_with(data=DATA))
    changed(evidence, "project.code_root", str(tmp_path / "root"))
    changed(evidence, "smoke.parts", {ExportProbe: probe})
    changed(evidence, "served_changes", lambda run: told(evidence, run))
    export = SimpleNamespace(
        row=SimpleNamespace(kind="export"), directory=SimpleNamespace(artifacts=tmp_path / "artifacts")
    )
    return evidence, export


@pytest.mark.requirement("GATE-1", "CKPT-5")
@pytest.mark.parametrize(
    ("file", "text"), [("serve.py", CODE.replace("ALL]", "ALL[1:]]")), ("letters.py", 'ALL = "ab"')]
)
def test_a_change_of_the_functions_or_of_what_they_import_is_told(tmp_path: Path, file: str, text: str) -> None:
    evidence, export = evidence_and_export(tmp_path)
    tried = "planning.export_tried"
    assert told(evidence, export) == []
    assert CHECKS[tried](evidence, LINES[tried]).status == "passed"
    (tmp_path / "root" / file).write_text(text)
    assert told(evidence, export) == [file]
    outcome = CHECKS[tried](evidence, LINES[tried])
    assert outcome.status == "passed", "no gate closes: the export proves them"
    assert outcome.measured.endswith(f"; {file} changed since")


def test_a_comment_is_no_change_and_another_kind_of_run_ships_nothing(tmp_path: Path) -> None:
    evidence, export = evidence_and_export(tmp_path)
    (tmp_path / "root" / "serve.py").write_text(f"# counts letters\n{CODE}")
    assert told(evidence, export) == []
    (tmp_path / "root" / "serve.py").write_text("")
    export.row.kind = "final"
    assert told(evidence, export) == []
