"""The models of a run's evidence and the files on disk say the same."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from trainwright.trainer.base.errors import IntegrityError
from trainwright.trainer.run import RunDirectory
from trainwright.trainer.run.evidence import (
    Code,
    Data,
    Environment,
    Imported,
    Part,
    Recorded,
    Reproducibility,
    Resolved,
    Summary,
)

OF_ONE_STRATEGY = {"deepspeed"}
"""Fields that a run on one process has no use for."""


@pytest.mark.requirement("REPRO-3")
@pytest.mark.parametrize("kind", [Environment, Reproducibility, Data, Code, Imported, Resolved, Summary])
def test_a_worker_fills_every_field_that_the_server_may_read(digits_run: RunDirectory, kind: type[Part]) -> None:
    part = digits_run.part(kind)
    assert part.as_dict().keys() == kind.model_fields.keys() - OF_ONE_STRATEGY
    assert json.loads(json.dumps(part.as_dict())) == digits_run.evidence(kind.file), "nothing is lost by the model"


def test_evidence_that_was_not_written_is_empty(digits_run: RunDirectory, tmp_path: Path) -> None:
    run = RunDirectory.create(tmp_path / "run", digits_run.specification())
    assert not run.part(Summary)
    assert run.part(Summary) == Summary()


@pytest.mark.parametrize("content", ['{"steps": "many"}', '{"best": []}', "[]", "{"])
def test_evidence_of_another_form_is_damage_with_its_name(
    digits_run: RunDirectory, tmp_path: Path, content: str
) -> None:
    run = RunDirectory.create(tmp_path / "run", digits_run.specification())
    (run.artifacts / "summary.json").write_text(content)
    with pytest.raises(IntegrityError, match=r"artifacts/summary.json of run run is"):
        run.part(Summary)


def test_a_number_keeps_its_form(tmp_path: Path, digits_run: RunDirectory) -> None:
    run = RunDirectory.create(tmp_path / "run", digits_run.specification())
    written: dict[str, Any] = {"train_seconds": 1.0, "final": {"loss": float("inf")}, "steps": 3}
    run.write_evidence(Summary(**written))
    assert run.evidence("summary") == written
    assert isinstance(run.part(Summary), Recorded)
