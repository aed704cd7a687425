"""Prompts name tools that exist, take the arguments they announce, and leave no gap."""

import re

import pytest
from mcp.shared.exceptions import MCPError

from trainwright.server.app import PromptFile, prompt_files
from trainwright.server.surface import TOOLS
from trainwright.tools.documents import read_document

NAMES = {tool.name for tool in TOOLS}
FILES = prompt_files()


@pytest.mark.requirement("SKILL-9")
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_prompt_names_exactly_the_tools_it_uses(path):
    front, body = read_document(path, PromptFile)
    assert front.name == path.stem
    used = set(re.findall(r"`(\w+)[(`]", body)) & NAMES
    assert used
    assert used <= set(front.tools) <= NAMES
    assert set(front.tools) - used == set(), "announced, but not used"
    assert set(re.findall(r"\{\{(\w+)\}\}", body)) == {argument.name for argument in front.arguments}


@pytest.mark.requirement("SKILL-9")
async def test_the_prompts_are_served_with_their_arguments_filled_in(in_memory):
    async with in_memory() as agent:
        listed = {prompt.name: prompt for prompt in (await agent.client.list_prompts()).prompts}
        assert set(listed) == {"train_a_model", "diagnose_a_run", "finalize_and_export", "research"}
        for prompt in listed.values():
            values = {argument.name: f"<{argument.name}>" for argument in prompt.arguments}
            text = (await agent.client.get_prompt(prompt.name, values)).messages[0].content.text
            for value in values.values():
                assert value in text
            assert "{{" not in text


async def test_optional_arguments_have_a_sensible_default(in_memory):
    async with in_memory() as agent:
        answer = await agent.client.get_prompt("train_a_model", {"project": "p", "task": "sort mail"})
        assert "agree with the user" in answer.messages[0].content.text
        with pytest.raises(MCPError, match="task"):
            await agent.client.get_prompt("train_a_model", {"project": "p"})
