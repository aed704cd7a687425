"""A configuration that cannot work is refused by the call that writes it, with the call that mends it."""

import json
import re

import pytest

BROKEN = [
    ({"model.args.hiden": [4]}, "did you mean `model.args.hidden`?", "configs/models.md"),
    ({"training.compile": 3, "seed": 4}, "a section is needed, for example {}", "configs/performance.md"),
    ({"optimizer.learning_rate": 1e30, "seed": 4}, "less than or equal to 1000", "configs/optimizers.md"),
    ({"loss": {"use": "focal", "args": {"gamma": -1}}, "seed": 4}, "`loss.args.gamma` = -1", "configs/losses.md"),
    ({"data.args.standardze": True, "seed": 3}, "did you mean `data.args.standardize`?", "configs/data.md"),
]


@pytest.mark.requirement("CONF-1", "GATE-2", "MCP-5")
async def test_an_argument_that_cannot_work_is_refused_by_configure_and_its_remedy_is_taken_as_it_is(in_memory):
    async with in_memory() as agent:
        await agent.project()
        for changes, told, document in BROKEN:
            said = await agent.refusal("configure", project="iris", changes=changes)
            assert told in said
            assert f"Document: read_document(path='{document}')" in said
            assert (await agent.get("project_status", project="iris", detail="full"))["config_version"] == 1
            call = re.search(r"Remedy: configure\(project=\"iris\", changes=(\{.*\})\)", said)
            assert call is not None, said
        answer = await agent.get("configure", project="iris", changes=json.loads(call[1]))
        now = {key: new for key, (_, new) in answer["changed"].items()}
        assert now.items() >= {"data.args.standardize": True, "seed": 3}.items()
        assert answer["next"] == {
            **answer["next"],
            "tool": "start_training",
            "arguments": {"project": "iris", "kind": "smoke", "wait_seconds": 50},
        }


@pytest.mark.requirement("CONF-1", "GATE-2")
async def test_a_project_is_not_made_of_arguments_that_cannot_work(in_memory, iris):
    async with in_memory() as agent:
        goal = {"metric": "accuracy", "direction": "maximize", "target": 0.9}
        config = {**iris, "model": {"use": "mlp", "args": {"hiden": [4]}}}
        said = await agent.refusal("create_project", name="bad", intent="a test", goal=goal, config=config)
        assert "did you mean `model.args.hidden`?" in said
        assert 'Remedy: create_project(name="bad", intent="a test", goal=' in said
        assert '"model": {"use": "mlp", "args": {"hidden": [4]}}' in said
