"""`trainwright serve --http`, `tokens` and `call`, as a shell starts them."""

import json
import os
import signal
import stat
import subprocess
import sys

import pytest
from tests.server.conftest import GOAL, IRIS
from tests.worlds.warm import trainwright_command

pytestmark = [pytest.mark.slow, pytest.mark.requirement("MCP-4")]


@pytest.fixture
def shell(workspace):
    """Run a command over the workspace, or start it."""

    def run(*words, wait=True, **environment):
        command = [*trainwright_command(os.environ), *words, "-w", str(workspace)]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "stdin": subprocess.DEVNULL, "text": True}
        process = subprocess.Popen(command, env={**os.environ, **environment}, **pipes)
        return (*process.communicate(timeout=120), process.returncode) if wait else process

    return run


def test_a_server_is_called_from_a_shell_ends_when_told_to_and_its_runs_go_on(shell, workspace):
    secret, _, code = shell("tokens", "new", "ci", "--scope", "operate")
    assert code == 0
    token = {"TRAINWRIGHT_TOKEN": secret.strip()}
    server = shell("serve", "--http", "--port", "0", wait=False)
    try:
        url = server.stdout.readline().split()[2]
        made = json.dumps({"name": "iris", "intent": "a test", "goal": GOAL, "config": IRIS})
        assert shell("call", "create_project", made, "--url", url, **token)[2] == 0
        script = shell("connect", "python", "--remote", url, "--print")[0]
        shown = subprocess.run(
            [sys.executable, "-P", "-c", script],
            env={**os.environ, **token},
            capture_output=True,
            text=True,
            check=True,
        )
        assert "'project': 'iris'" in shown.stdout
        begun = json.dumps({"project": "iris", "kind": "smoke", "wait_seconds": 0})
        answer, told, code = shell("call", "start_training", begun, "--url", url, **token)
        assert code == 0, told
        shell("tokens", "revoke", "ci")
        _, told, code = shell("call", "project_status", "--url", url, **token)
        assert (code, "wrong, expired or revoked (401)" in told) == (1, True), told
    finally:
        server.send_signal(signal.SIGTERM)
        told = server.communicate(timeout=60)[1]
    assert "Traceback" not in told
    run = json.loads(answer)["run_id"]
    for _ in range(4):
        answer, told, code = shell("call", "run_status", json.dumps({"run_id": run, "wait_seconds": 50}))
        if json.loads(answer)["state"] == "completed":
            break
    assert (code, json.loads(answer)["state"]) == (0, "completed"), told
    assert secret.strip() not in (workspace / "logs" / "http.jsonl").read_text()


def test_tokens_are_made_listed_and_revoked(shell, workspace):
    assert "There are no tokens." in shell("tokens", "list")[0]
    secret = shell("tokens", "new", "anna", "--scope", "read", "--project", "a", "--project", "b", "--days", "7")[0]
    assert secret.startswith("tw_")
    listed = shell("tokens", "list")[0]
    assert "anna: read, a, b, until 20" in listed
    assert secret.strip() not in listed
    assert stat.S_IMODE((workspace / "tokens.json").stat().st_mode) == 0o600
    assert shell("tokens", "revoke", "anna")[2] == 0
    _, told, code = shell("tokens", "revoke", "anna")
    assert (code, "There is no token 'anna'" in told) == (1, True)


def test_an_error_answer_is_told_on_stderr_and_the_command_fails(shell):
    out, told, code = shell("call", "project_status", '{"project": "none"}')
    assert (code, out) == (1, "")
    assert told.startswith("Error: There is no project 'none'.\nRemedy: ")
    _, told, code = shell("call", "project_statu")
    assert (code, "Did you mean `project_status`" in told) == (1, True)
    _, told, code = shell("call", "project_status", "no json")
    assert (code, "no JSON object" in told) == (1, True)
    token = {"TRAINWRIGHT_TOKEN": "tw_x"}
    _, told, code = shell("call", "project_status", "--url", "http://127.0.0.1:9/mcp", **token)
    assert (code, "cannot be reached" in told) == (1, True), told


async def test_read_only_holds_over_stdio_too(over_stdio, warm_command):
    async with over_stdio([*warm_command, "--read-only"], env=dict(os.environ)) as agent:
        assert "This server is read-only" in await agent.refusal("create_project", name="x", intent="x", goal=GOAL)
