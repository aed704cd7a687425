"""What is told of replays: those that differed before one came out identical, and what an exemption let through."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.worlds.flowers import GOAL, finish

from trainwright.tools import projects
from trainwright.tools.gates.call_history import after_a_difference
from trainwright.tools.gates.decide import GateReport, evaluate
from trainwright.tools.gates.evidence import Evidence
from trainwright.tools.gates.phases import Phase
from trainwright.tools.owner import Grant
from trainwright.tools.reports.model_card import replayed
from trainwright.tools.training_orchestrator import replay_run, start_run
from trainwright.tools.verification import verify_workspace
from trainwright.tools.workspace import Workspace
from trainwright.trainer.run import RunKind
from trainwright.trainer.run.results import Comparison

pytestmark = pytest.mark.slow

CHECK = "finalization.replay_identical"
NET = """
import os
from pathlib import Path

import torch


class Net(torch.nn.Linear):
    def __init__(self):
        super().__init__(4, 3)
        chance = Path(__file__).parents[1] / "chance"  # outside the code root: a new file in it would reopen planning
        if chance.exists():
            scale = float(chance.read_text())
            self.weight.data += scale * (1 + int.from_bytes(os.urandom(2), "big") / 2**16)
"""


@pytest.fixture
def workspace(tmp_path: Path) -> Iterator[Workspace]:
    """A workspace whose project `p` has a final run."""
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "net.py").write_text(NET)
    opened = Workspace.open(tmp_path / "workspace")
    data = {"use": "iris", "expectations": {"without": ["label_errors", "leaks"]}}
    config = {"code_root": "code", "model": {"use": "net.py:Net"}, "data": data, "training": {"epochs": 3},
              "optimizer": {"learning_rate": 0.05}}  # fmt: skip
    projects.create_project(opened, "p", intent="", goal=GOAL | {"target": 0.3}, config=config)
    for kind, phase in ((RunKind.SMOKE, "planning"), (RunKind.BASELINE, "baseline")):
        train(opened, kind)
        projects.pass_gate(opened, "p", phase)
    projects.diagnose(opened, "p")
    projects.pass_gate(opened, "p", "diagnostics")
    projects.pass_gate(opened, "p", "optimization")
    train(opened, RunKind.FINAL)
    yield opened
    opened.close()


def train(workspace: Workspace, kind: RunKind) -> None:
    assert finish(workspace, start_run(workspace, "p", kind).run_id).state == "completed"


def judged(evidence: Evidence) -> tuple[Any, GateReport]:
    report = evaluate(evidence, Phase.FINALIZATION)
    return next(check for check in report.checks if check.id == CHECK), report


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.requirement("REPRO-5", "PHASE-6", "GATE-2", "GATE-3")
def test_a_replay_that_differed_is_told_beside_one_that_is_identical(workspace: Workspace) -> None:
    chance = workspace.path.parent / "chance"
    differing = {}
    for scale in ("2", "1e-3"):
        chance.write_text(scale)
        differing[scale] = finish(workspace, replay_run(workspace, "p").run_id).run_id
        with workspace.session() as session:
            evidence = Evidence(session, workspace, "p")
            vars(evidence)["grants"] = [Grant(kind="exemption", name="put_")]
            found, _ = judged(evidence)
        assert found.status == ("failed" if scale == "2" else "passed_with_exemption"), found
        assert "within 10% of their norm" in found.required
    chance.unlink()
    with workspace.session() as session:
        evidence = Evidence(session, workspace, "p")
        found, _ = judged(evidence)
        assert (found.status, found.next.tool) == ("failed", "start_training"), "not the same replay once more"
        assert found.next.arguments["kind"] == "smoke"
        assert "reproducibility/verification.md" in found.next.why
        vars(evidence)["grants"] = [Grant(kind="exemption", name="put_")]
        found, report = judged(evidence)
        told = replayed(evidence, report)
        vars(evidence.final)["status"] = evidence.final.status.model_copy(update={"attempt": 3})
        assert replayed(evidence, report) == f"{told}; the final run was interrupted 2 times and resumed"
    assert found.status == "passed_with_exemption"
    assert told.startswith(f"{differing['1e-3']}: passed with exemption, 2 tensors, different by ")
    assert "; best checkpoint DIFFERENT; 1 other replay of it DIFFERED" in told
    assert told.endswith("; exempted by the owner: put_")

    identical = finish(workspace, replay_run(workspace, "p").run_id)
    train(workspace, RunKind.EXPORT)
    projects.pass_gate(workspace, "p", "finalization")
    card = (workspace.project_folder("p") / "final_model" / "README.md").read_text()
    told = "2 tensors, identical; best checkpoint identical; 2 other replays of it DIFFERED: "
    told += ", ".join(differing.values())
    assert f"| {identical.run_id}: passed, {told} |" in card
    assert verify_workspace(workspace.path).problems == []


@pytest.mark.requirement("REPRO-5", "GATE-2")
@pytest.mark.parametrize(
    ("deterministic", "changed", "facts", "attempt", "tool", "argument", "why"),
    [
        (True, ["edited"], {}, 1, "verify_reproducibility", {"run_id": "final-1"}, "changed"),
        (False, [], {}, 1, "configure", {"changes": {"reproducibility.deterministic": True}}, "non-deterministic"),
        (True, [], {"environment.threads": {}}, 2, "start_training", {"kind": "final"}, "as things are now"),
        (True, [], {}, 1, "start_training", {"kind": "smoke"}, "seed the code first"),
        (True, [], {}, 2, "start_training", {"kind": "smoke"}, "context.state"),
    ],
)
def test_after_a_difference_the_measured_cause_is_changed_first(
    *,
    deterministic: bool,
    changed: list[str],
    facts: dict[str, Any],
    attempt: int,
    tool: str,
    argument: dict[str, Any],
    why: str,
) -> None:
    evidence: Any = SimpleNamespace(
        config=SimpleNamespace(reproducibility=SimpleNamespace(deterministic=deterministic)),
        call=lambda tool, why, **arguments: SimpleNamespace(tool=tool, arguments=arguments, why=why),
    )
    replay: Any = SimpleNamespace(differences=changed, comparison=Comparison(fingerprint_differences=facts))
    source: Any = SimpleNamespace(id="final-1", status=SimpleNamespace(attempt=attempt))
    call = after_a_difference(evidence, source, replay)
    assert (call.tool, call.arguments) == (tool, argument)
    assert why in call.why
