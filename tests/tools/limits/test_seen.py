"""What an answer says of use: of a run that has ended and that nobody has filed yet, its files are measured once."""

from __future__ import annotations

from pathlib import Path

import pytest

from trainwright.tools.limits import usage
from trainwright.tools.training_orchestrator import start_run
from trainwright.tools.workspace import Workspace
from trainwright.trainer.base import read_tracking
from trainwright.trainer.run import RunKind, RunState, RunStatus


@pytest.mark.requirement("GATE-4", "MON-4")
def test_an_ended_run_is_measured_once_until_its_files_change(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(read_tracking, "SETTLED_NS", 0)  # else what was written in the last two seconds is read anew
    directory = workspace.run_directory("big", start_run(workspace, "big", RunKind.SMOKE).run_id)
    measured: list[Path] = []
    whole = usage.folder_bytes
    monkeypatch.setattr(usage, "folder_bytes", lambda folder: (measured.append(folder), whole(folder))[1])

    def seen() -> tuple[usage.Usage, usage.Usage]:
        with workspace.snapshot() as session:
            return usage.seen_usage(session, workspace, "big")

    assert seen()[0].living == 1
    seen()
    assert len(measured) == 2, "a run under way grows: once for each answer, for its project and the workspace together"
    (directory.path / "events.jsonl").write_text('{"time": 100.0, "kind": "started", "data": {}}\n')
    directory.write_status(RunStatus(state=RunState.STOPPED, attempt=1, started_at=100.0, heartbeat_at=160.0))
    before, _ = seen()
    assert (before.living, len(measured)) == (0, 3)
    assert seen() == (before, before)
    assert len(measured) == 3
    (directory.checkpoints / "step-1").mkdir(parents=True)
    (directory.checkpoints / "step-1" / "model.safetensors").write_bytes(bytes(1000))
    after, _ = seen()
    assert after.used.disk_bytes == before.used.disk_bytes + 1000
    assert len(measured) == 4


@pytest.mark.requirement("GATE-4")
def test_bytes_of_a_folder_are_those_of_its_files_and_links_and_not_of_what_links_lead_to(tmp_path: Path) -> None:
    folder, other = tmp_path / "run", tmp_path / "other"
    (folder / "deep" / "deeper").mkdir(parents=True)
    other.mkdir()
    (other / "large").write_bytes(bytes(10_000))
    for number, place in enumerate((folder, folder / "deep", folder / "deep" / "deeper"), 1):
        (place / "file").write_bytes(bytes(number))
    link = folder / "link"
    link.symlink_to(other / "large")
    (folder / "linked").symlink_to(other)
    assert usage.folder_bytes(folder) == 1 + 2 + 3 + link.lstat().st_size
    assert usage.folder_bytes(tmp_path / "gone") == 0
