"""A folder where files are read, a kind or an option in other words: the remedy is the same call, and it succeeds."""

from __future__ import annotations

from typing import Any

import pytest

pytestmark = pytest.mark.requirement("MCP-5", "TRAIN-1")
GPT = {"model": {"use": "gpt"}, "loss": "next_token", "metrics": ["perplexity"]}


async def corrected(agent: Any, config: dict[str, Any], metric: str) -> dict[str, Any]:
    """Return the arguments that the refusal of a project proposes, after they made one."""
    goal = {
        "metric": metric,
        "direction": "minimize" if metric == "perplexity" else "maximize",
        "target": 2.0 if metric == "perplexity" else 0.5,
    }
    result = await agent.call("create_project", name="letters", intent="letters", goal=goal, config=config)
    assert result.is_error
    call = result.structured_content["next"]
    await agent.get(call["tool"], **call["arguments"])
    return dict(call["arguments"])


async def test_a_folder_of_texts_is_named_as_a_pattern_and_nothing_else_of_its_name_changes(in_memory, tmp_path):
    folder = tmp_path / "workspace" / "code" / "letters"
    folder.mkdir(parents=True)
    (folder / ".DS_Store").write_bytes(b"Bud1")
    for name in ("a.txt", "b.txt", "notes.md"):
        (folder / name).write_text("good day")
    config = {"code_root": str(folder.parent), "data": {"use": "text", "args": {"path": "letters"}}, **GPT}
    async with in_memory() as agent:
        found = await corrected(agent, config, "perplexity")
    assert found["config"]["data"]["args"]["path"] == "letters/*.txt"
    assert (found["name"], found["intent"]) == ("letters", "letters")


async def test_a_kind_and_an_option_of_a_table_are_read_in_other_words(in_memory, tmp_path):
    root = tmp_path / "workspace" / "code"
    root.mkdir(parents=True)
    (root / "t.csv").write_text("x;y\n1;a\n2;b\n")
    args = {"path": "t.csv", "target": "y", "separator": ";", "columns": {"x": "numeric"}}
    config = {"code_root": str(root), "model": {"use": "mlp"}, "data": {"use": "csv", "args": args}}
    async with in_memory() as agent:
        found = await corrected(agent, config, "accuracy")
    assert found["config"]["data"]["args"]["columns"] == {"x": "number"}
    assert found["config"]["data"]["args"]["delimiter"] == ";"
