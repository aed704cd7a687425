"""Arguments are taken strictly: what a tool does not know is an error that names what was meant."""

import os
import re

import pytest
from mcp.shared.exceptions import MCPError
from mcp.types import INVALID_PARAMS
from tests.server.conftest import IRIS, text_of

from trainwright.server.surface import TOOLS


@pytest.mark.parametrize(
    ("tool", "arguments", "expected"),
    [
        ("run_status", {"rum_id": "x"}, ["unknown argument `rum_id`; did you mean `run_id`?"]),
        ("configure", {"projet": "x"}, ["unknown argument `projet`; did you mean `project`?", "`project` is required"]),
        ("run_status", {"run_id": {"id": 7}}, ["`run_id` = {'id': 7}", "valid string"]),
        ("run_status", {"run_id": "x", "wait_seconds": "soon"}, ["`wait_seconds` = 'soon'", "valid number"]),
        ("start_training", {"project": "x", "kind": "trial"}, ["`kind` = 'trial'", "'smoke', 'probe'"]),
        (
            "start_training",
            {"project": "x", "kind": "smoke", "max_steps": 0},
            ["`max_steps` = 0", "greater than or equal to 1"],
        ),
        ("start_training", {"project": "x", "kind": "smoke", "max_steps": True}, ["`max_steps` = True", "integer"]),
        (
            "start_training",
            {"project": "x", "kind": "baseline", "idempotency_key": "study-x/confirmation-baseline-43"},
            ["`idempotency_key` = 'study-x/confirmation-baseline-43'", "a key of your own has no `/`"],
        ),
        ("start_training", {"project": "x", "kind": "smoke", "done": True}, ["unknown argument `done`"]),
        (
            "pass_gate",
            {"project": "x", "phase": "planning", "force": True},
            ["unknown argument `force`; known: project"],
        ),
        ("pass_gate", {"project": "x", "phase": "plan"}, ["`phase` = 'plan'", "'planning'"]),
        ("configure", {"project": "x", "changes": [1]}, ["`changes` = [1]", "valid dictionary"]),
        ("list_checkpoints", {"run_id": "x", "verify": "deeply"}, ["`verify` = 'deeply'", "valid boolean"]),
        ("plot_metrics", {"study_id": "x/study-1", "run_ids": ["r"]}, ["asks for a picture of a study", "['r']"]),
        ("plot_metrics", {"study_id": "x/study-1", "kind": "calibration"}, ["'calibration'", "'history'"]),
        ("plot_metrics", {"run_ids": []}, ["`run_ids` = []", "needs run_ids, or a study_id"]),
        ("plot_metrics", {"project": "x", "run_ids": ["x/baseline-1"]}, ["unknown argument `project`"]),
        ("read_document", {"path": "SKILL.md", "offset": -5}, ["`offset` = -5"]),
        (
            "create_project",
            {"name": "x", "intent": "y", "goal": "97 % accuracy"},
            [
                "create_project cannot be called like this",
                "an object with the keys metric, direction, target is needed",
            ],
        ),
        (
            "create_project",
            {"name": "x", "intent": "y", "goal": {"metrc": "accuracy", "direction": "sideways", "target": "high"}},
            [
                "unknown argument `goal.metrc`; did you mean `metric`?",
                "`goal.direction` = 'sideways'",
                "`goal.target` = 'high'",
            ],
        ),
    ],
)
@pytest.mark.requirement("CONF-1")
async def test_wrong_arguments_are_named_with_value_and_rule(in_memory, tool, arguments, expected):
    async with in_memory() as agent:
        said = await agent.refusal(tool, **arguments)
    for part in expected:
        assert part in said
    assert re.search(rf"Remedy: (call {tool} again|{tool}\()", said), said


async def test_an_object_sent_as_json_text_is_understood(in_memory):
    """Some clients cannot help sending objects as text."""
    async with in_memory() as agent:
        await agent.project()
        answer = await agent.get("configure", project="iris", changes='{"optimizer.learning_rate": 0.01}')
    assert answer["changed"]["optimizer.learning_rate"][1] == 0.01


@pytest.mark.requirement("GATE-4")
async def test_a_limit_in_another_form_is_taken_as_the_number_that_is_meant_and_said_so(in_memory):
    async with in_memory() as agent:
        await agent.project()
        answer = await agent.get("configure", project="iris", ask_owner={"limits": {"Trials": ["5e2"]}})
    assert answer["taken_as"] == ['ask_owner {"limits": {"Trials": ["5e2"]}} taken as {"limits": {"trials": 500}}']


NEEDED = {"project": "none", "name": "blank", "intent": "a test", "kind": "smoke", "version": "v1"}
SAID = [tool for tool in TOOLS if tool.name not in {"create_project", "open_dashboard"}]


@pytest.mark.parametrize("blank", [None, "", "  "])
async def test_an_optional_argument_that_a_client_sends_empty_is_left_out_of_every_tool(in_memory, blank):
    async with in_memory() as agent:
        for tool in SAID:
            fields = tool.fn_metadata.arg_model.model_fields
            needed = {name: NEEDED[name] for name, about in fields.items() if about.is_required()}
            empty = dict.fromkeys(fields.keys() - needed, blank)
            plain, found = await agent.call(tool.name, **needed), await agent.call(tool.name, **needed, **empty)
            assert text_of(found) == text_of(plain), tool.name
            assert found.is_error == plain.is_error


@pytest.mark.parametrize("blank", [None, ""])
async def test_a_part_of_an_argument_that_a_client_sends_empty_is_left_out(in_memory, blank):
    goal = {"metric": "accuracy", "target": 0.9, "direction": blank}
    async with in_memory() as agent:
        limits = {"trials": 9, "gpu_hours": blank}
        await agent.get(
            "create_project", name="iris", intent="a test", goal=goal, config=IRIS, limits=limits, template=blank
        )
        asked = {"limits": limits | {"trials": 500}, "exemption": blank, "accept": blank, "delete_project": blank}
        answer = await agent.get("configure", project="iris", ask_owner=asked, changes=blank, hand_over=blank)
    (note,) = answer["taken_as"]
    assert note.endswith('taken as {"limits": {"trials": 500}}')


@pytest.mark.requirement("MCP-1")
async def test_unknown_tools_and_prompts_are_protocol_errors_with_the_nearest_name(over_stdio, warm_command, tmp_path):
    """Nothing is printed: over stdio, stderr is what a person sees of the server."""
    stderr = tmp_path / "stderr"
    command = ["bash", "-c", f'exec "$@" 2>{stderr}', "server", *warm_command]
    async with over_stdio(command, env=dict(os.environ)) as agent:
        for what, ask, wrong, meant in (
            ("tool", agent.call, "runs_status", "run_status"),
            ("prompt", agent.client.get_prompt, "train_model", "train_a_model"),
        ):
            with pytest.raises(MCPError, match=f"There is no {what} `{wrong}`. Did you mean `{meant}`") as raised:
                await ask(wrong)
            assert raised.value.error.code == INVALID_PARAMS
            assert raised.value.error.data["nearest"] == meant
        assert not (await agent.call("project_status")).is_error, "the server lives on"
    assert stderr.read_text() == ""
