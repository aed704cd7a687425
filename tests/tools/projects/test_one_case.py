"""Each call reads its project once: ledger, evidence, engine. A look that changed nothing reads no file of it again."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from tests.worlds.flowers import NAME

from trainwright.tools import projects
from trainwright.tools.gates import staleness
from trainwright.tools.gates.evidence import Evidence
from trainwright.tools.launchers import write_launch
from trainwright.tools.launchers.local import Local
from trainwright.tools.ledger import ProjectFacts
from trainwright.tools.training_orchestrator import launch
from trainwright.tools.workspace import Workspace
from trainwright.trainer.base import file_stamps
from trainwright.trainer.run import RunKind

At = Callable[[str], Workspace]
pytestmark = pytest.mark.requirement("MCP-5", "GATE-3")
_opened: list[set[str]] = []
sys.addaudithook(lambda event, arguments: _opened and event == "open" and _opened[-1].add(str(arguments[0])))


@contextmanager
def opened() -> Iterator[set[str]]:
    """Give the paths of the files that are opened within."""
    _opened.append(set())
    try:
        yield _opened[-1]
    finally:
        _opened.pop()


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Count what is built of a project's records, and how often the engine is read."""
    counts: Counter[str] = Counter()
    for kind in (Evidence, ProjectFacts):
        _count(monkeypatch, counts, kind, "__init__", kind.__name__)
    _count(monkeypatch, counts, staleness, "engine_digest", "engine")
    return counts


def _count(monkeypatch: pytest.MonkeyPatch, counts: Counter[str], place: object, name: str, called: str) -> None:
    original = getattr(place, name)

    def counted(*arguments: object, **named: object) -> object:
        counts[called] += 1
        return original(*arguments, **named)

    monkeypatch.setattr(place, name, counted)


def test_a_status_evaluates_once(at: At, built: Counter[str]) -> None:
    projects.project_status(at("based"), NAME)
    assert built["Evidence"] == 1
    assert built["ProjectFacts"] <= 1
    assert built["engine"] <= 1


def test_a_gate_decision_reads_the_engine_once(at: At, built: Counter[str]) -> None:
    workspace = at("trained")
    projects.pass_gate(workspace, NAME, "baseline")
    assert built["engine"] == 1
    assert built["Evidence"] == 2, "one to decide by, and one of what the decision has made of it, for the page too"


def test_a_start_reads_the_ledger_once_to_decide(at: At, built: Counter[str], monkeypatch: pytest.MonkeyPatch) -> None:
    workspace = at("planned")
    monkeypatch.setattr(Local, Local.start.__name__, lambda _, run, started, key: write_launch(run.path, started))
    launch.start_run(workspace, NAME, RunKind.BASELINE)
    assert (built["Evidence"], built["ProjectFacts"]) == (1, 1)
    assert built["engine"] <= 1


def test_a_second_look_opens_no_file_of_the_project(at: At, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_stamps, "SETTLED_NS", -(10**10))
    workspace = at("based")
    first = projects.project_status(workspace, NAME)
    with opened() as files:
        assert projects.project_status(workspace, NAME) == first
    own = [path for path in files if path.startswith(str(workspace.path / "projects"))]
    assert {path.rpartition("/")[2] for path in own} == {"run.lock"}, "to know whether a worker holds it"


def test_a_kept_look_sees_code_and_records_that_change(at: At, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_stamps, "SETTLED_NS", -(10**10))
    workspace = at("based")
    assert _stale(workspace) == ""
    status = next((workspace.path / "projects" / NAME / "runs").glob("baseline-*/status.json"))
    kept = status.read_bytes()
    status.write_bytes(kept.replace(b"{", b"{ ", 1))
    assert "status.json was changed after it was sealed" in _stale(workspace)
    status.write_bytes(kept)
    assert _stale(workspace) == ""
    model = workspace.path.parent / "code" / "flower_model.py"
    model.write_text(model.read_text().replace("torch.nn.ReLU()", "torch.nn.Tanh()"))
    assert "flower_model.py changed" in _stale(workspace)


def _stale(workspace: Workspace) -> str:
    """Return what the project's gates are stale by."""
    status = projects.project_status(workspace, NAME)
    assert isinstance(status, projects.ProjectStatus)
    return "; ".join(reason for reason in status.gates.values() if reason.startswith("stale"))
