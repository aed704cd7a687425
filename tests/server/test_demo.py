"""The main job, played as a newcomer plays it: one command, a real server, real images, all five phases."""

import json
import subprocess
import sys

import pytest

from trainwright.server import cli
from trainwright.server.commands.demo import DemoAgent
from trainwright.server.commands.driving import Transcript
from trainwright.tools.projects import create_project
from trainwright.tools.workspace import Workspace

pytestmark = pytest.mark.slow

ARTIFACTS = {
    "training_config.yaml",
    "reproducibility_manifest.md",
    "baseline_results.md",
    "diagnostic_report.md",
    "plots/learning_curves.png",
    "tuning_results.md",
    "final_config.yaml",
    "final_model/model.safetensors",
    "final_model/model.onnx",
    "final_model/README.md",
    "final_model/metrics.json",
    "final_model/config.yaml",
}


class Halting(DemoAgent):
    """The demonstration's agent, who stops where the server says how to go on: `next` is followed in the walks."""

    async def follow(self, answer):
        self.proposed = answer["next"]


@pytest.mark.requirement("GATE-2")
async def test_it_takes_a_free_name_and_is_refused_what_the_gates_forbid(in_memory, capsys):
    async with in_memory() as agent:
        await agent.project("digits")
        demo = Halting(agent.client, Transcript())
        assert await demo.run() == "digits-2"
    assert demo.proposed["tool"] == "advance"
    shown = capsys.readouterr().out
    assert shown.count("<- REFUSED ") == 3
    assert "planning.smoke_run_passed: measured no smoke run" in shown


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.requirement("PHASE-1", "PHASE-2", "PHASE-3", "PHASE-4", "PHASE-5", "PHASE-6", "GATE-2", "REPRO-5", "MCP-2")
def test_the_demonstration_takes_digits_through_all_phases_in_a_workspace_that_is_in_use(workspace, iris):
    opened = Workspace.open(workspace)
    goal = {"metric": "accuracy", "direction": "maximize", "target": 0.9}
    create_project(opened, "digits", intent="an earlier demonstration", goal=goal, template="baseline", config=iris)
    opened.close()

    done = subprocess.run(
        [sys.executable, "-P", "-m", cli.__name__, "demo", "--workspace", str(workspace)],
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    assert "\x1b[" not in done.stdout
    assert done.stdout.count("<- REFUSED ") == 3
    assert "planning.smoke_run_passed: measured no smoke run" in done.stdout
    assert "The project is finished: " in " ".join(done.stdout.split())  # whatever the terminal wraps

    folder = workspace / "projects" / "digits-2"
    assert [name for name in ARTIFACTS if not (folder / name).is_file()] == []
    metrics = json.loads((folder / "final_model" / "metrics.json").read_text())
    assert metrics["test"]["metrics"]["accuracy"] >= 0.97
    assert metrics["test"]["size"] == 270
    comparisons = [json.loads(path.read_text()) for path in folder.glob("runs/replay-*/artifacts/comparison.json")]
    assert [comparison["identical"] for comparison in comparisons] == [True]
