"""Versions of a model through a real client: listed, put in production, refused in words."""

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.requirement("REG-1", "CKPT-6")]


@pytest.fixture
def workspace(flowers):
    flowers.set_back("finished")
    return flowers.workspace


async def test_an_agent_finds_the_version_puts_it_in_production_and_is_told_what_there_is(in_memory):
    async with in_memory() as agent:
        listed = await agent.get("models", project="flowers")
        assert listed["production"].startswith("none")
        call = listed["next"]
        assert call["tool"] == "promote_model"
        moved = await agent.get(call["tool"], **call["arguments"], reason="first")
        assert moved["checks"][0]["check"] == "certified"
        again = await agent.get("models", project="flowers")
        assert (again["production"], again["versions"][0]["aliases"]) == ("v1", ["production"])
        assert again["moves"] == ["production v1 by an agent: first"]
        same = await agent.get("models", project="flowers", compare=["v1", "production"])
        assert same["not_compared"] == "both are v1"
        refused = await agent.refusal("models", project="flowers", compare=["v1", "v7"])
        assert "no version 'v7'" in refused
        assert "There are: v1, production" in refused
        for arguments, what in (
            ({"score": "new.csv", "compare": ["v1", "v1"]}, "two calls"),
            ({"version": "v1"}, "Add score"),
        ):
            assert what in await agent.refusal("models", project="flowers", **arguments)


async def test_a_file_of_the_versions_own_data_is_called_so_before_its_other_rows_are_told(in_memory, workspace):
    code = workspace.parent / "code"
    (code / "mine.csv").write_text((code / "iris.csv").read_text() + "9.1,1.1,9.2,9.3,2\n")
    async with in_memory() as agent:
        answer = await agent.call("models", project="flowers", score="mine.csv")
    told = "v1 of flowers knows 149 of 150 rows of mine.csv, which test nothing. On the rest, 1 row: acc"
    assert told in "".join(getattr(block, "text", "") for block in answer.content)
