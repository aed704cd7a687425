"""The tool `estimate_cost`: a small answer with a next call, and refusals that name the command or the call to make."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.requirement("COST-1")]
MAX_TOKENS = 2000
PLATFORMS = ("Modal", "Lambda Labs", "RunPod", "another", "one more")
ACCELERATORS = ("T4", "L4", "A100 80GB", "H100 SXM", "CPU")


def prices(folder: Path) -> None:
    day = dt.datetime.now(tz=dt.UTC).date() - dt.timedelta(days=40)
    rows = [
        f"- [{platform}, {accelerator}, {1 + place * 0.1}, {day}, invented, {spot}]"
        for place, platform in enumerate(PLATFORMS)
        for accelerator in ACCELERATORS
        for spot in ("false", "true")
    ]
    (folder / "prices.yaml").write_text(
        "\n".join(["rows:", *rows, "- [Modal, Q9000, 1, 2026-11-01, invented, false]\n"])
    )


@pytest.mark.long
async def test_the_answer_is_small_in_both_forms_and_says_what_next(in_memory: Any, workspace: Path) -> None:
    async with in_memory() as agent:
        await agent.project("iris")
        at_once = await agent.get("estimate_cost", project="iris")
        assert at_once["platforms"], "without any file of prices"
        missing = await agent.refusal("estimate_cost", project="iris", prices="prices.yaml")
        assert "trainwright prices --workspace" in missing
        prices(workspace)
        given = {"requests_per_month": 1e6, "interruptions_per_day": 5.0, "trials": 20, "runs": 3}
        result = await agent.call("estimate_cost", project="iris", **given)
        facts = result.structured_content
        assert not result.is_error, result.content
        assert len(json.dumps(facts)) / 4 < MAX_TOKENS
        assert len("".join(getattr(block, "text", "") for block in result.content)) / 4 < MAX_TOKENS
        assert facts["next"]["tool"] == "start_training"
        assert facts["next"]["arguments"]["kind"] == "probe"
        assert facts["left_out"] > 0
        assert any("Q9000" in line for line in facts["not_priced"])
        assert any("40 days old" in line for line in facts["warnings"])
        assert facts["spot"][0]["break_even_interruptions_per_day"] >= 0
        assert "assumed" in facts["restart"]
        assert "The cheapest for iris is" in result.content[0].text

        run = await agent.get("start_training", project="iris", kind="probe")
        await agent.ended(run["run_id"])
        measured = await agent.get("estimate_cost", project="iris", hardware=["CPU"])
        assert measured["basis"].startswith("iris/probe-1 (probe, sealed)")
        assert {line["basis"] for line in measured["platforms"]} == {"measured and scaled"}, "each is another CPU"

        refused = await agent.refusal("estimate_cost", project="iris", gpus=99)
        assert "less than or equal to 64" in refused
        unknown = await agent.refusal("estimate_cost", project="iris", hardware=["H1OO"])
        assert "is no accelerator" in unknown
