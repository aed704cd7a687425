"""From a sentence of intent to a project whose planning gate has passed, by an agent that follows what it is told."""

from __future__ import annotations

import importlib.util
import json
import random
import re
import shutil
import string
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
import yaml
from accelerate.commands.config import load_config_from_file
from mcp.types import ElicitResult

from trainwright.server.commands.driving import Transcript
from trainwright.server.surface import TOOLS
from trainwright.tools.verification import verify_workspace
from trainwright.trainer.run.metrics import MetricStore

pytestmark = pytest.mark.slow

STEPS = 12
ROOT = Path(__file__).parents[2]
TRANSCRIPTS = ROOT / "docs" / "transcripts"
TRANSCRIPT = (TRANSCRIPTS / "support_tickets.md").read_text(encoding="utf-8")
MAX_CHARACTERS = 8000
"""Of an answer: 2,000 tokens of four characters."""


@pytest.fixture
def transcripts(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The program that writes the transcript, imported as `python docs/transcripts` imports it."""
    monkeypatch.syspath_prepend(str(TRANSCRIPTS))
    spec = importlib.util.spec_from_file_location("docs_transcripts", TRANSCRIPTS / "__main__.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def tickets(tmp_path: Path, transcripts: ModuleType) -> Path:
    """A folder with tickets.csv and models/tiny, as the user of the transcript has it."""
    transcripts.prepare(tmp_path)
    return tmp_path


async def planned(agent, **arguments):
    """Call until the data are read, which a busy machine may take longer for than one call waits."""
    for _ in range(5):
        result = await agent.call("plan_training", **arguments)
        facts = result.structured_content or {}
        if facts.get("state") != "running" and not any("call again" in one for one in facts.get("assumed", [])):
            return result
    raise AssertionError("the data were never read")


@pytest.mark.long
@pytest.mark.requirement("ARCH-1", "SKILL-1", "MCP-5")
async def test_a_scripted_architect_comes_from_a_sentence_to_a_passed_planning_gate(
    in_memory, tickets, transcripts, capsys
):
    """It knows its page alone; and the transcript in docs shows the same calls."""
    async with in_memory() as client:
        agent = transcripts.Architect(client.client, Transcript(), transcripts.asked)
        project = await agent.run(transcripts.INTENT, tickets, probes=False)
    assert project == "tickets"
    answers = {tool: answer for tool, answer, _ in agent.answers}
    asked = agent.answers[1][1]
    assert (asked["state"], [one["argument"] for one in asked["questions"]]) == ("questions", ["data"])
    plan = answers["plan_training"]
    values = {one["key"]: one for one in plan["values"]}
    assert all(one["why"] and "source" not in one for one in plan["values"])
    assert values["training.precision"]["value"] == "bf16"
    assumed = " ".join(plan["assumed"])
    assert all(words in assumed for words in ("'24 GB card' was read", "dollars 20 was read", "the slowest"))
    assert plan["next"]["tool"] == "create_project"
    assert plan["next"]["arguments"]["limits"] == {"gpu_hours": 40.0}
    sizes = [(tool, max(length, len(json.dumps(answer)))) for tool, answer, length in agent.answers]
    assert [one for one in sizes if one[1] > MAX_CHARACTERS] == []
    assert all(answer.get("next") for tool, answer, _ in agent.answers if tool != "project_status")
    assert (answers["pass_gate"]["outcome"], answers["pass_gate"]["now_in"]) == ("passed", "baseline")
    played, written = transcripts.form_of(capsys.readouterr().out), transcripts.form_of(TRANSCRIPT)
    made = written.index(("create_project", False)) + 1
    assert played[:made] == written[:made]
    assert [tool for tool, _ in played[made:]] == ["start_training", "run_status", "pass_gate", "configure"]


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.requirement("ARCH-1", "ARCH-4", "SKILL-1", "PHASE-10", "MCP-2")
async def test_a_sentence_ends_in_a_finished_project_over_stdio_as_the_transcript_shows(tickets, transcripts, capsys):
    ended = await transcripts.played(tickets)
    assert (ended["ended"], ended["phase"]) == ("finished", "finalization")
    folder = tickets / transcripts.WORKSPACE / "projects" / "tickets"
    left = {path.name for path in (folder / "final_model").iterdir()}
    assert {"model.safetensors", "README.md", "metrics.json", "transformers"} <= left
    report = json.loads((folder / "final_model" / "metrics.json").read_text())
    assert report["test"]["metrics"]["accuracy"] > 0.67
    assert not verify_workspace(tickets / transcripts.WORKSPACE).problems
    assert transcripts.form_of(capsys.readouterr().out) == transcripts.form_of(TRANSCRIPT)


@pytest.mark.requirement("SKILL-1")
def test_the_transcript_is_one_of_agents_that_have_the_tools_they_call():
    """Every call in it, and every call on an agent's page, is of a tool that the page names and the server has."""
    parts = dict(re.findall(r"^== ([\w-]+) =+\n(.*?)(?=^== |\Z)", TRANSCRIPT, flags=re.MULTILINE | re.DOTALL))
    assert list(parts) == ["training-architect", "ml-trainer"]
    known = {tool.name for tool in TOOLS}
    for name in ("training-architect", "ml-trainer"):
        _, front, text = (ROOT / "agents" / f"{name}.md").read_text().split("---\n", 2)
        named = {tool.strip().rpartition("__")[2] for tool in yaml.safe_load(front)["tools"].split(",") if "__" in tool}
        called = set(re.findall(r"^-> (\w+)\(", parts[name], flags=re.MULTILINE))
        own = re.sub(r'"[^"]*"', "", text)  # what it says to another agent stands in quotes
        written = {word for word in re.findall(r"`(\w+)[(`]", own) if word in known}
        assert called
        assert written
        assert called | written <= named <= known
    assert "ended by finished" in TRANSCRIPT
    assert " passed; " in TRANSCRIPT


TABLE = "size,colour,team,urgency\n" + "".join(f"{n % 7},{n % 5},t{n % 3},u{n % 2}\n" for n in range(120))


@pytest.mark.requirement("ARCH-1", "MCP-5")
async def test_a_plan_gives_reasons_of_what_is_often_set_and_on_request_all_with_their_sources(in_memory, tmp_path):
    (tmp_path / "rows.csv").write_text(TABLE)
    asked = {"intent": "Predict the team, accuracy 0.9", "data": "rows.csv"}
    async with in_memory() as client:
        plan = (await planned(client, **asked)).structured_content
        full = (await planned(client, **asked, detail="full")).structured_content
    assert plan["next"] == full["next"]
    keys, all_keys = ([one["key"] for one in answer["values"]] for answer in (plan, full))
    assert set(all_keys) - set(keys) >= {"schedule.name", "logging.every_n_steps"}
    assert "optimizer.learning_rate" in keys
    assert all(one["source"] and "value" in one for one in full["values"])
    assert full["goal"] == plan["next"]["arguments"]["goal"]
    assert "goal" not in plan
    assert len(json.dumps(plan)) < 0.75 * len(json.dumps(full))


@pytest.mark.requirement("ARCH-1", "MCP-1")
@pytest.mark.parametrize("mode", ["auto", pytest.param("legacy", marks=pytest.mark.long)])
async def test_a_client_that_can_shows_the_questions_to_a_person(in_memory, tmp_path, mode):
    shown = []
    (tmp_path / "rows.csv").write_text(TABLE)
    answers = {"data": "rows.csv", "target_column": "team", "dollars_per_hour": 0.25}

    async def show(context, params):
        shown.append(params.message)
        return ElicitResult(action="accept", content=answers)

    async with in_memory(mode=mode, elicitation_callback=show) as agent:
        wanted = {"intent": "which team, with a T1000 and five dollars", "model": "mlp", "hardware": "12 GB card"}
        plan = (await planned(agent, **wanted)).structured_content
    assert all(words in shown[0] for words in ("Which data?", "an hour of one 12 GB card"))
    assert plan["state"] == "planned", plan
    arguments = plan["next"]["arguments"]
    assert (arguments["config"]["data"]["args"]["target"], arguments["limits"]) == ("team", {"gpu_hours": 20.0})


@pytest.mark.requirement("ARCH-1", "MCP-5")
async def test_a_client_that_cannot_gets_the_questions_in_the_answer(in_memory, tmp_path):
    (tmp_path / "rows.csv").write_text(TABLE)
    async with in_memory() as agent:
        asked = (await planned(agent, intent="sort them", model="mlp", data="rows.csv")).structured_content
    (question,) = asked["questions"]
    assert (question["argument"], question["choices"][-2:]) == ("data.args.target", ["team", "urgency"])
    assert asked["next"]["tool"] == "plan_training"


@pytest.mark.requirement("ARCH-1")
async def test_what_cannot_be_planned_says_why_and_what_would_do(in_memory, tmp_path, text):
    (tmp_path / "tickets.csv").write_text(TABLE)
    async with in_memory() as agent:
        tpu = await agent.refusal("plan_training", intent="x", data="tickets.csv", hardware="TPU v5e")
        assert "not supported" in tpu
        missing = text(await planned(agent, intent="x", data="ticket.csv"))
        assert "tickets.csv" in missing
        outside = await agent.refusal("plan_training", intent="x", data="x.csv", code_root=str(tmp_path.parent))
        assert "owner" in outside
        config = {"model": {"use": "mlp"}, "data": {"use": "csv", "args": {"path": "tickets.csv", "target": "team"}}}
        goal = {"metric": "auc", "direction": "maximize", "target": 0.9}
        three = await agent.refusal("create_project", name="tickets", intent="x", goal=goal, config=config)
        assert "auc, which is for 2 classes, and what is predicted is one of 3 classes" in three


@pytest.mark.requirement("SKILL-8")
async def test_files_that_would_hold_a_secret_are_refused_and_none_is_written(in_memory, tickets, tmp_path):
    secret = "hf_" + "".join(random.Random(8).choices(string.ascii_letters, k=34))
    table = tmp_path / "tickets.csv"
    header, *rows = table.read_text().splitlines()
    one = rows[0].rpartition(",")[2]
    table.write_text("\n".join([header, *(re.sub(f",{one}$", f",{secret}", row) for row in rows)]) + "\n")
    wanted = {"data": "tickets.csv", "model": "models/tiny", "goal": "fastest", "write_files": True}
    async with in_memory() as agent:
        result = await planned(agent, intent="sort support tickets", **wanted)
        answer = result.content[0].text
        assert "of plan.json would hold a secret (Hugging Face token)" in answer
        assert "placeholder" in answer
        assert secret not in answer
        assert not list((tmp_path / "workspace").glob("plans/*/*"))
        for tool, text in (("plan_training", {"data": "tickets.csv"}), ("create_project", {"name": "tickets"})):
            refused = await agent.refusal(tool, intent=f"sort tickets with {secret}", **text)
            assert "`intent` holds a secret (Hugging Face token)" in refused
            assert secret not in refused


@pytest.mark.long
@pytest.mark.requirement("ARCH-3")
async def test_the_generated_script_runs_alone_and_has_the_losses_of_a_run(in_memory, tickets, tmp_path):
    """Rows, order, schedule, clipping and decay are the same, and nothing else of this model is random."""
    async with in_memory() as agent:
        wanted = {"data": "tickets.csv", "model": "models/tiny", "goal": "fastest", "write_files": True}
        plan = (await planned(agent, intent="sort support tickets", **wanted)).structured_content
        files = {Path(path).name: Path(path) for path in plan["files"]}
        project = (await agent.get("create_project", **plan["next"]["arguments"]))["project"]
        run = await agent.get("start_training", project=project, kind="smoke", max_steps=STEPS)
        ended = await agent.ended(run["run_id"])
        assert ended["state"] == "completed", ended
    (metrics,) = (tmp_path / "workspace").rglob("metrics.sqlite")
    with MetricStore(metrics) as store:
        ours = [point.value for point in store.series("train/loss")]
    folder = shutil.copytree(files["train.py"].parent, tmp_path / "elsewhere")
    code = [
        "-c",
        "import runpy, sys; sys.modules['trainwright'] = None; runpy.run_path('train.py', run_name='__main__')",
    ]
    done = subprocess.run(
        [sys.executable, "-P", *code, "--root", str(tmp_path)], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    logged = json.loads((folder / "output" / "losses.json").read_text())
    theirs = [one["loss"] for one in logged if "loss" in one][:STEPS]
    assert len(theirs) == len(ours) == STEPS
    assert max(abs(mine - other) for mine, other in zip(ours, theirs, strict=True)) < 2e-6
    assert json.loads(done.stdout.splitlines()[-1])["validation_f1"] > 0
    assert set(json.loads(files["splits.json"].read_text())) == {"train", "validation"}
    assert "test" not in "".join(logged[-1])
    assert "transformers==" in files["requirements.txt"].read_text()
    assert load_config_from_file(str(files["accelerate.yaml"])).num_processes == 1
    docker = files["Dockerfile"].read_text()
    assert "pip install -r /tmp/packages/requirements.txt" in docker
    copied = docker.partition("COPY --chown=trainer ")[2].partition(" ./")[0].split()
    assert files[".dockerignore"].read_text().split() == ["*", *(f"!{name}" for name in ("requirements.txt", *copied))]
    assert set(copied) <= set(files)
    assert json.loads(files["deepspeed.json"].read_text())["zero_optimization"]["stage"] == 2
