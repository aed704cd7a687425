"""The three agents' pages, followed by scripts that know nothing else, from a sentence to a model that is handed on."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from tests.worlds.flowers import table
from tests.worlds.warm import trainwright_command

from trainwright.server.commands.driving import Transcript
from trainwright.tools.handover import check_handover
from trainwright.tools.ledger import entries
from trainwright.tools.verification import verify_workspace
from trainwright.tools.workspace import Workspace

pytestmark = [
    pytest.mark.long, pytest.mark.slow, pytest.mark.timeout(600), pytest.mark.requirement("SKILL-1", "SKILL-10"),
]  # fmt: skip

TRANSCRIPTS = Path(__file__).parents[2] / "docs" / "transcripts"
INTENT = "tell three kinds of irises apart by the sizes of their leaves, on this machine"


@pytest.fixture
def scripts(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """docs/transcripts/orchestrator.py, imported as the program there imports it."""
    monkeypatch.syspath_prepend(str(TRANSCRIPTS))
    import orchestrator

    return orchestrator


def answered(question: str) -> Any:
    """What the user knows: which column, and that what was assumed is right."""
    if "column" in question:
        return "species"
    return 0.5 if "cost" in question else "Yes."


async def test_the_orchestrator_leads_a_sentence_to_a_model_that_is_handed_on(
    warm_stdio: Any, workspace: Path, tmp_path: Path, scripts: ModuleType
) -> None:
    (tmp_path / "iris.csv").write_text("\n".join(table()) + "\n")
    async with warm_stdio(cwd=str(tmp_path)) as client:
        agent = scripts.Orchestrator(client.client, Transcript(), answered)
        last = await agent.run(INTENT, tmp_path, model="mlp")
    path = Path(last["handed_over"]["path"])
    assert scripts.deploy(path) == []
    project = path.parent.name
    command = [*trainwright_command(os.environ), "handover", project, "--workspace", str(workspace)]
    reply = ["--by", "deployment-specialist", "--to", "training-orchestrator", "--note", "It serves."]
    subprocess.run([*command, *reply], check=True, env=dict(os.environ))
    opened = Workspace.open(workspace)
    with opened.session() as session:
        roles = [(body["by"], body["to"]) for _, body in entries(session, project, "hand_over")]
    assert check_handover(opened, project).state == "fits"
    opened.close()
    assert roles[0] == ("training-architect", "ml-trainer")
    assert roles[-3:] == [
        ("ml-trainer", "training-orchestrator"),
        ("training-orchestrator", "deployment-specialist"),
        ("deployment-specialist", "training-orchestrator"),
    ]
    assert not verify_workspace(workspace).problems
