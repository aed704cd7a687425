"""Every example of configs/your_code.md passes planning exactly as it is printed (PHASE-10)."""

from __future__ import annotations

import importlib.util
import random
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.worlds.flowers import finish

from trainwright.tools import projects
from trainwright.tools.documents import SKILL
from trainwright.tools.training_orchestrator import start_run
from trainwright.tools.workspace import Workspace
from trainwright.trainer.base.errors import GateRefusedError
from trainwright.trainer.config import load_yaml
from trainwright.trainer.run import RunKind

pytestmark = pytest.mark.slow

_spec = importlib.util.spec_from_file_location(
    "house_documents_of_planning", Path(__file__).parents[2] / "house" / "documents.py"
)
assert _spec is not None
assert _spec.loader is not None
reader = importlib.util.module_from_spec(_spec)
sys.modules[_spec.name] = reader
_spec.loader.exec_module(reader)

GOAL = {"metric": "loss", "direction": "minimize", "target": 0.1}
DRAW = random.Random(0)
FLOWERS = "length,width,kind\n" + "".join(
    f"{n + DRAW.random():.4f},{DRAW.random():.4f},{int(DRAW.random() > 0.5)}\n" for n in range(150)
)
AT_ONCE = 4


def examples() -> list[tuple[str, str, dict[str, Any]]]:
    """Name, text and configuration of each printed example."""
    blocks = reader.blocks(SKILL.resolve() / "configs" / "your_code.md")
    texts = [block.text for block in blocks if block.kind == "run: user-code"]
    heads = [text.splitlines()[0].split(" ", 2) for text in texts]
    return [(head[1], text, load_yaml(head[2])) for head, text in zip(heads, texts, strict=True)]


@pytest.mark.timeout(600)
@pytest.mark.requirement("PHASE-10", "PHASE-3", "TRAIN-1")
@pytest.mark.long
def test_the_printed_examples_pass_planning_as_they_are_printed(tmp_path: Path) -> None:
    """All in one workspace, a few at a time: each is a project with a smoke run of its own."""
    workspace = Workspace.open(tmp_path / "workspace")
    found = {}
    for file, text, config in examples():
        folder = tmp_path / file.partition(".")[0]
        folder.mkdir()
        (folder / file).write_text(text)
        (folder / "flowers.csv").write_text(FLOWERS)
        found[folder.name] = {"code_root": folder.name, **config, "logging": {"tensorboard": False}}
    closed: dict[str, str] = {}
    names = list(found)
    for begin in range(0, len(names), AT_ONCE):
        runs = {}
        for name in names[begin : begin + AT_ONCE]:
            projects.create_project(workspace, name, intent="as printed", goal=GOAL, config=found[name])
            runs[name] = start_run(workspace, name, RunKind.SMOKE).run_id
        for name, run_id in runs.items():
            finish(workspace, run_id)
            try:
                projects.pass_gate(workspace, name, "planning")
            except GateRefusedError as error:
                closed[name] = error.message
    workspace.close()
    assert closed == {}
    assert len(found) >= 6
