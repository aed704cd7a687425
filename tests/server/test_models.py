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
