"""Every failure reaches the agent as message and remedy, and never as a traceback."""

import errno
import logging
import os

import pytest
from mcp.client import Client
from mcp.server import MCPServer

from trainwright.server.agent_tool import agent_tool
from trainwright.server.errors import as_tool_error
from trainwright.trainer.base.errors import GateRefusedError


@pytest.mark.parametrize(
    ("tool", "arguments", "message", "remedy"),
    [
        ("project_status", {"project": "irs"}, "There is no project 'irs'", "Nearest: iris"),
        ("configure", {"project": "nope", "changes": {}}, "There is no project 'nope'", "create_project"),
        ("pass_gate", {"project": "nope", "phase": "planning"}, "There is no project", "create_project"),
        ("start_training", {"project": "nope", "kind": "smoke"}, "There is no project", "create_project"),
        ("run_status", {"run_id": "nope", "wait_seconds": 1}, "There is no run 'nope'", "project_status"),
        ("stop_training", {"project": "nope", "run_id": "nope"}, "There is no project", "create_project"),
        ("resume_training", {"project": "iris", "run_id": "nope"}, "There is no run", "project_status"),
        ("diagnose_run", {"run_id": "nope"}, "There is no run", "project_status"),
        ("diagnose_run", {}, "needs a project or a run_id", "diagnose_run(project="),
        ("diagnose_run", {"project": "iris"}, "no baseline", "start_training"),
        ("plot_metrics", {"run_ids": ["nope"]}, "There is no run", "project_status"),
        ("compare_runs", {"run_ids": ["a", "b"]}, "There is no run", "project_status"),
        ("start_tuning", {"project": "iris"}, "optimization", "start_training"),
        ("tuning_status", {"study_id": "nope"}, "There is no study", "start_tuning"),
        ("list_checkpoints", {"run_id": "nope"}, "There is no run", "project_status"),
        ("export_model", {"project": "iris"}, "needs the finalization phase", "start_training"),
        ("verify_reproducibility", {"project": "iris"}, "needs the baseline phase", "start_training"),
        ("read_document", {"path": "diagnostics/nan.md"}, "There is no document", "diagnostics/nan_loss.md"),
        ("create_project", {"name": "../up", "intent": "x"}, "not a valid name", "a-z, 0-9"),
        ("create_project", {"name": "iris", "intent": "x"}, "already", "project_status"),
    ],
)
async def test_each_tool_refuses_with_a_remedy(in_memory, tool, arguments, message, remedy):
    async with in_memory() as agent:
        await agent.project()
        if tool == "create_project":
            arguments = {**arguments, "goal": {"metric": "accuracy", "direction": "maximize", "target": 0.9}}
        said = await agent.refusal(tool, **arguments)
    told, _, mended = said.partition("\nRemedy: ")
    assert message in told
    assert remedy in mended
    assert "Traceback" not in said


@pytest.mark.requirement("GATE-2")
async def test_a_refused_gate_shows_measured_beside_required_and_the_exact_call(in_memory):
    async with in_memory() as agent:
        await agent.project()
        said = await agent.refusal("pass_gate", project="iris", phase="planning")
    assert "- planning.smoke_run_passed: measured no smoke run of this configuration; required a completed" in said
    assert 'Remedy: start_training(project="iris", kind="smoke", wait_seconds=50)' in said
    assert "Document: read_document(path='phases/01_planning/checklist.md')" in said


@pytest.mark.requirement("PHASE-2")
async def test_training_before_the_gate_is_refused_and_leaves_no_run(in_memory):
    async with in_memory() as agent:
        await agent.project()
        said = await agent.refusal("start_training", project="iris", kind="baseline")
        assert "planning.smoke_run_passed" in said
        assert (await agent.get("project_status", project="iris"))["runs"] == []


@pytest.mark.requirement("CONF-1")
async def test_a_configuration_key_that_does_not_exist_names_the_nearest(in_memory):
    async with in_memory() as agent:
        await agent.project()
        said = await agent.refusal("configure", project="iris", changes={"optimizer.learning_rat": 1.0})
        assert "did you mean `optimizer.learning_rate`" in said
        assert (await agent.get("project_status", project="iris", detail="full"))["config_version"] == 1


async def test_limits_above_the_owners_cannot_be_had_through_a_tool(in_memory):
    async with in_memory() as agent:
        await agent.get("project_status")
        said = await agent.refusal(
            "create_project",
            name="greedy",
            intent="x",
            goal={"metric": "loss", "direction": "minimize", "target": 0.1},
            config={"model": {"use": "mlp"}, "data": {"use": "iris"}},
            limits={"trials": 10**6},
        )
    assert "owner" in said


async def test_a_defect_of_ours_is_an_incident_whose_traceback_stays_in_the_log(tmp_path, caplog):
    @agent_tool(title="Broken")
    def broken() -> None:
        """A tool that has a defect."""
        raise ZeroDivisionError("a secret detail")

    with caplog.at_level(logging.ERROR, logger="trainwright"):
        logging.getLogger("trainwright").addHandler(caplog.handler)
        try:
            async with Client(MCPServer("broken", tools=[broken], log_level="CRITICAL")) as client:
                result = await client.call_tool("broken", {})
        finally:
            logging.getLogger("trainwright").removeHandler(caplog.handler)
    said = result.content[0].text
    assert result.is_error
    assert "incident" in said
    assert "ZeroDivisionError" in said
    assert "secret detail" not in said
    assert "Remedy: " in said
    assert "a secret detail" in caplog.text
    assert said.split("incident ")[1].split(",")[0] in caplog.text


async def test_the_log_file_stands_in_the_workspace(in_memory, workspace):
    """A row that is no JSON is a defect that no rule foresees: the file names the incident."""
    import sqlite3

    async with in_memory() as agent:
        await agent.project()
        with sqlite3.connect(workspace / "workspace.sqlite") as connection:
            connection.execute("UPDATE projects SET goal = '{'")
        result = await agent.call("project_status", project="iris")
    said = result.content[0].text
    assert result.is_error
    assert "incident" in said
    incident = said.split("incident ")[1].split(",")[0]
    log = (workspace / "logs" / "server.log").read_text()
    assert incident in log
    assert "Traceback" in log


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EACCES, errno.EROFS])
def test_a_full_or_closed_disk_is_told_as_what_it_is(number):
    said = str(as_tool_error(OSError(number, os.strerror(number))))
    assert os.strerror(number) in said
    assert "trainwright doctor" in said
    assert "incident" not in said


def test_only_failed_checks_are_told_and_a_long_list_is_cut():
    checks = [{"id": f"a.check{n}", "status": "failed", "measured": n, "required": 9} for n in range(12)]
    checks.append({"id": "a.fine", "status": "passed", "measured": 9, "required": 9})
    error = GateRefusedError("The gate stays closed.", remedy="start_training(…)", details={"checks": checks})
    said = str(as_tool_error(error))
    assert "- a.check0: measured 0; required 9" in said
    assert "a.fine" not in said
    assert "and 4 more checks" in said


async def test_a_workspace_that_cannot_be_made_is_told_with_a_remedy(tmp_path):
    from trainwright.server.app import build_server

    (tmp_path / "file").write_text("in the way")
    async with Client(build_server(tmp_path / "file" / "workspace")) as client:
        result = await client.call_tool("project_status", {})
    assert result.is_error
    assert "cannot be made" in result.content[0].text
    assert "--workspace DIR" in result.content[0].text
