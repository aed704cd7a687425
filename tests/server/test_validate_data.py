"""Data validated on request: a small answer with the worst first, a page that needs nothing beside it, suggestions."""

from __future__ import annotations

import json
from typing import Any

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.requirement("PIPE-2")]
MAX_TOKENS = 1200


def config_of(folder: Any) -> dict[str, Any]:
    rows = [f"{20 + n % 50},{'abc'[n % 3]},{n % 2}" for n in range(200)]
    rows[7] = "240,a,1"
    (folder / "people.csv").write_text("\n".join(["age,plan,left", *rows]) + "\n")
    expectations = {"columns": {"age": {"max": 120}, "plan": {"one_of": ["a", "b", "c"]}, "left": {"one_of": [0, 1]}}}
    return {
        "code_root": str(folder),
        "model": {"use": "mlp"},
        "data": {"use": "csv", "args": {"path": "people.csv", "target": "left"}, "expectations": expectations},
    }


async def test_verdicts_are_told_with_their_rows_in_a_small_answer_and_a_report(in_memory, tmp_path):
    async with in_memory() as agent:
        folder = tmp_path / "workspace" / "code"
        folder.mkdir(parents=True, exist_ok=True)
        await agent.project("people", config=config_of(folder))
        result = await agent.call("validate_data", project="people", suggest=True)
        found = result.structured_content
        while found["state"] == "running":
            result = await agent.call("validate_data", project="people", suggest=True)
            found = result.structured_content
        assert len(json.dumps(found)) / 4 < MAX_TOKENS
        assert len("".join(getattr(block, "text", "") for block in result.content)) / 4 < MAX_TOKENS
        assert found["errors"] == 1
        assert (found["findings"][0]["check"], found["findings"][0]["rows"]) == ("age.max", [7])
        assert "columns:" in found["suggested"]
        full = await agent.client.read_resource("trainwright://projects/people/reports/validation/report.json")
        assert json.loads(full.contents[0].text)["report"]["rows"] == 200
