"""Honest projects reach an end by `next` and remedies alone: the short set of `make walks`, and how it judges."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from mcp.types import CallToolResult, TextContent
from tests.worlds.warm import trainwright_command

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
TOOLS = {"configure", "start_training", "pass_gate"}


@pytest.fixture
def walks() -> Iterator[Path]:
    """benchmarks/walks, importable."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "benchmarks" / "walks"))
        yield ROOT / "benchmarks" / "walks"


@pytest.fixture
def agent(walks: Path) -> ModuleType:
    return importlib.import_module("agent")


def answer(text: str, *, is_error: bool = False, **content: object) -> CallToolResult:
    told = [TextContent(type="text", text=text)]
    return CallToolResult(content=told, structured_content=content or None, is_error=is_error)


@pytest.mark.timeout(600)
@pytest.mark.requirement("PHASE-10", "GATE-7", "MCP-5")
@pytest.mark.parametrize(
    ("chosen", "walks"), [(["--only", "iris", "--form", "text"], 1), pytest.param([], 2, marks=pytest.mark.long)]
)
def test_honest_projects_end_from_text_alone_and_another_from_data_alone(chosen: list[str], walks: int) -> None:
    environment = {**os.environ, "WALKS_SERVER": json.dumps(trainwright_command(os.environ))}
    done = subprocess.run(
        [sys.executable, "-P", "benchmarks/walks", "--quick", *chosen],
        cwd=ROOT, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    figures = json.loads(done.stdout.splitlines()[-1])
    assert figures["stuck"] == [], done.stdout[-6000:]
    assert (figures["walks"], figures["repeated"]) == (walks, 0), done.stdout[-6000:]
    assert figures["calls_max"] <= 20
    assert done.returncode == 0


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.requirement("TRAIN-7", "PHASE-10")
@pytest.mark.parametrize("name", ["own-trainer", "own-lightning", "own-trl"])
def test_trainers_of_other_libraries_are_released_by_the_real_tools(name: str) -> None:
    done = subprocess.run(
        [sys.executable, "-P", "benchmarks/walks", "--only", name, "--form", "structured"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert json.loads(done.stdout.splitlines()[-1])["stuck"] == [], done.stdout[-6000:]
    assert f"{name} (structured): released" in done.stdout
    assert done.returncode == 0


@pytest.mark.requirement("PHASE-10")
def test_an_agent_that_reads_text_alone_finds_the_same_call_as_one_that_reads_data_alone(agent: ModuleType) -> None:
    call = {"tool": "configure", "arguments": {"project": "p", "changes": {"a.b": True, "c": None, "d": [1, 2.5]}}}
    line = 'Next: configure(project="p", changes={"a.b": true, "c": null, "d": [1, 2.5]}) - why (and why not)'
    told = answer(f"Something happened (in brackets).\n{line}", next=call)
    assert agent.named_call(told, "text", TOOLS) == agent.named_call(told, "structured", TOOLS)
    assert agent.named_call(answer("Nothing more."), "text", TOOLS) is None


@pytest.mark.requirement("PHASE-10", "GATE-2")
@pytest.mark.parametrize(
    ("remedy", "tool"),
    [
        ("pass_gate(project='p', phase='baseline') ends the phase.", "pass_gate"),
        ("Wait (a little); then start_training(project='p', kind='smoke').", "start_training"),
        ("configure(project='p', changes={…}).", None),
        ("some_other(project='p')", None),
    ],
)
def test_of_a_refusal_only_a_call_that_can_be_made_is_taken(agent: ModuleType, remedy: str, tool: str | None) -> None:
    refused = answer(f"No.\nRemedy: {remedy}", is_error=True, message="No.", remedy=remedy)
    for form in agent.FORMS:
        found = agent.named_call(refused, form, TOOLS)
        assert (found.tool if found else None) == tool


@pytest.mark.requirement("PHASE-10")
def test_a_refusal_s_data_names_the_call_that_its_words_name(agent: ModuleType) -> None:
    call = {"tool": "pass_gate", "arguments": {"project": "p"}}
    refused = answer("No.\nRemedy: pass_gate(project='p')", is_error=True, remedy="pass the gate.", next=call)
    assert agent.named_call(refused, "text", TOOLS) == agent.named_call(refused, "structured", TOOLS) is not None


@pytest.mark.requirement("GATE-7")
def test_the_same_call_with_the_same_answer_counts_as_made_in_vain(walks: Path, tmp_path: Path) -> None:
    walk, agent = importlib.import_module("walk"), importlib.import_module("agent")
    player = walk.Player(walk.Walk("p", {}, {}), "text", tmp_path)
    call = agent.Call("start_training", {"project": "p", "kind": "smoke"})
    for number, state in ((1, "as it is"), (2, "as it is"), (3, "changed")):
        player._judge(call, answer(f"Run p/smoke-{number}: failed.", state="failed"), state)
    assert player.played.repeated == 1
    waiting = agent.Call("run_status", {"run_id": "p/smoke-4"})
    for _ in range(2):
        player._judge(waiting, answer("Run p/smoke-4: running.", state="running"), "changed")
    assert player.played.repeated == 1
