"""What only the owner grants: asked through a tool, answered at the owner's terminal, and the same call goes on."""

import os
import pty
import subprocess

import pytest
from mcp.types import ElicitResult
from tests.worlds.warm import trainwright_command

pytestmark = [pytest.mark.slow, pytest.mark.requirement("GATE-4")]
GOAL = {"metric": "accuracy", "direction": "maximize", "target": 0.9}


@pytest.fixture
def approve(workspace):
    """Call `trainwright approve`: without a terminal, or at one with these answers."""
    command = [*trainwright_command(os.environ), "approve", "-w", str(workspace)]

    def call(*options, answers=None):
        if answers is None:
            return answered([*command, *options], subprocess.DEVNULL)
        mine, theirs = pty.openpty()
        os.write(mine, answers.encode())
        try:
            return answered([*command, *options], theirs)
        finally:
            os.close(mine)
            os.close(theirs)

    def answered(command, stdin):
        done = subprocess.run(command, capture_output=True, text=True, stdin=stdin, check=False)
        return done.returncode, done.stdout + done.stderr

    return call


async def test_a_raised_limit_is_asked_for_answered_at_a_terminal_and_the_next_call_goes_on(in_memory, approve, iris):
    wanted = {"name": "big", "intent": "x\x1b[2Jy", "goal": GOAL, "config": iris, "limits": {"trials": 500}}
    async with in_memory() as agent:
        assert "intent" in await agent.refusal("create_project", **wanted)
        wanted["intent"] = "many trials"
        said = await agent.refusal("create_project", **wanted)
        assert "limit trials = 500" in said
        assert "trainwright approve" in said
        assert "create_project(name='big', …) again" in said
        code, told = approve()
        assert code == 1
        assert "many trials" in told
        assert "not a terminal" in told
        assert "limit trials = 500" in await agent.refusal("create_project", **wanted)
        code, told = approve(answers="\n")
        assert (code, "granted" in told) == (0, False)
        code, told = approve(answers="y\n")
        assert code == 0, told
        assert "limit trials = 500: granted by" in told
        await agent.get("create_project", **wanted)
        status = await agent.get("project_status", project=wanted["name"], detail="full")
        assert status["limits"]["trials"] == "0 of 500, 500 left"
        code, told = approve()
        assert (code, told.strip()) == (0, "Nothing waits for your answer.")


async def test_an_exemption_is_asked_for_denied_and_told_in_the_status(in_memory, approve):
    async with in_memory() as agent:
        await agent.project()
        answer = await agent.get("configure", project="iris", ask_owner={"exemption": "put_"}, reason="needs it")
        (request,) = answer["requests"]
        assert (request["requested"], request["state"]) == ("exemption put_", "pending")
        assert answer["version"] == 1
        code, told = approve("--deny", request["request"])
        assert code == 0, told
        (request,) = (await agent.get("configure", project="iris", ask_owner={"exemption": "put_"}))["requests"]
        assert (request["state"], request["how"]) == ("denied", "The owner has said no: do without.")
        (line,) = (await agent.get("project_status", project="iris"))["owner"]
        assert line.startswith(f"{request['request']}: exemption put_: denied by ")
        assert "by an option of the command" in line


@pytest.mark.parametrize(
    "arguments",
    [
        {"ask_owner": {"limits": {"trials": 500}, "granted": True}},
        {"ask_owner": {"limits": {"trials": 500}}, "approve": True},
        {"ask_owner": "trials=500"},
        {"changes": {"limits.trials": 500}},
        {"changes": {"exemptions": ["put_"]}},
        {"changes": {"reproducibility.exemptions": ["put_"]}},
    ],
)
async def test_no_argument_grants_anything(in_memory, arguments):
    async with in_memory() as agent:
        await agent.project()
        await agent.refusal("configure", project="iris", **arguments)
        status = await agent.get("project_status", project="iris", detail="full")
    assert (status["limits"]["trials"], status["owner"]) == ("0 of 200, 200 left", [])


async def test_a_number_in_quotes_is_asked_for_and_granted_no_more_than_one_without(in_memory):
    async with in_memory() as agent:
        await agent.project()
        (request,) = (await agent.get("configure", project="iris", ask_owner={"limits": {"trials": "500"}}))["requests"]
        status = await agent.get("project_status", project="iris", detail="full")
    assert request["state"] == "pending"
    assert status["limits"]["trials"] == "0 of 200, 200 left"


async def test_a_request_that_does_not_exist_cannot_be_answered(in_memory, approve):
    async with in_memory() as agent:
        await agent.project()
    code, told = approve("--yes", "r1-000000")
    assert code == 1
    assert "There is no request 'r1-000000'" in told


@pytest.mark.requirement("MCP-1")
@pytest.mark.parametrize("mode", ["legacy", "auto"])
@pytest.mark.parametrize(
    "case",
    [
        (True, {"answer": "grant"}, "granted"),
        (True, {"answer": "deny"}, "denied"),
        (True, {"answer": "leave open"}, "pending"),
        (True, None, "pending"),
        (False, {"answer": "grant"}, "pending"),
    ],
    ids=["granted", "denied", "left open", "declined", "not accepted by the owner"],
)
async def test_a_client_that_shows_questions_asks_a_person_where_the_owner_accepts_it(in_memory, workspace, mode, case):
    accepted, said, state = case
    shown = []

    async def show(_context, params):
        shown.append(params.message)
        return ElicitResult(action="accept", content=said) if said else ElicitResult(action="decline")

    async with in_memory(mode=mode, elicitation_callback=show) as agent:
        await agent.project()
        settings = workspace / "settings.yaml"
        if accepted:
            text = settings.read_text()
            settings.write_text(text.replace("approvals: [terminal]", "approvals: [terminal, elicitation]"))
        grant = {"limits": {"trials": 500}}
        answer = await agent.get("configure", project="iris", ask_owner=grant, reason="more")
        (request,) = answer["requests"]
        assert request["state"] == state
        assert len(shown) == (1 if accepted else 0)
        assert all("limit trials = 500" in message and "Its reason: more." in message for message in shown)
        left = (await agent.get("project_status", project="iris", detail="full"))["limits"]["trials"]
        assert left == ("0 of 500, 500 left" if state == "granted" else "0 of 200, 200 left")
        refused = await agent.refusal("configure", project="iris", ask_owner={"exemption": "a\nb"})
        assert "is not the name of an operation" in refused
