"""What a whole job costs an agent's context: calls and tokens of all answers, in either form alone.

Two jobs are played over stdio by `next` alone, and again by `advance`: a goal that the baseline meets, and one that
needs a search. A third goes from a sentence and a table to the release as agents were seen to: with looks, a search,
documents, and the lists that a client reads when it connects. Wherever both forms carry a next call it must be the
same. Prints a table and, as its last line, one JSON object.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mcp import Client, StdioServerParameters

from trainwright.server import cli

CHARACTERS_PER_TOKEN = 4.0
MAX_CALLS = 40
SEARCHING = ("running", "confirming")
BUDGETS = {"baseline": (12, 6000), "search": (16, 8000), "table": (26, 13000)}
"""Calls, and tokens of all answers in either form."""
RATE = "optimizer.learning_rate"
SEARCH = {"trials": 4, "space": {RATE: {"type": "float", "low": 0.01, "high": 0.1, "log": True}}}
JOBS: dict[str, dict[str, Any]] = {
    "baseline": {"rate": 0.02, "target": 0.5},
    "search": {"rate": 0.0005, "target": 0.8},
}
SENTENCE = "Tell malignant from benign tumours on patients not seen before; a search of about 6 trials"
DOCUMENTS = (
    "phases/04_optimization/workflow.md", "configs/searches.md", "configs/tables.md", "configs/README.md",
    "configs/metrics.md",
)  # fmt: skip
"""What players read on such a job, as their transcripts tell."""
SPACE = {"optimizer.learning_rate": {"type": "float", "low": 0.0005, "high": 0.01, "log": True}}


@dataclass
class Cost:
    """What one job has cost so far."""

    calls: int = 0
    text: int = 0
    """Characters of the text content, links to resources included."""
    structured: int = 0
    """Characters of the structured content; of the content where there is none."""
    ended: bool = False

    def figures(self) -> dict[str, int | bool]:
        """The cost in calls and tokens."""
        tokens = {"text": self.text, "structured": self.structured}
        return {
            "calls": self.calls,
            **{f"{form}_tokens": round(size / CHARACTERS_PER_TOKEN) for form, size in tokens.items()},
            "ended": self.ended,
        }


class Job:
    """One project, from its creation to its final model."""

    def __init__(self, client: Client, name: str, *, rate: float, target: float) -> None:
        self.client, self.name, self.cost = client, name, Cost()
        self.goal = {"metric": "accuracy", "direction": "maximize", "target": target}
        self.config = {
            "model": {"use": "mlp", "args": {"hidden": [8]}},
            "data": {"use": "iris"},
            "optimizer": {"learning_rate": rate},
            "training": {"epochs": 12},
        }

    async def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """Call a tool that must succeed, count its answer, and compare the next call of both forms."""
        result = await self.client.call_tool(tool, arguments)
        text = "\n".join(block.text for block in result.content if block.type == "text")
        if result.is_error:
            raise SystemExit(f"{tool}({arguments}): {text}")
        links = [block.model_dump(mode="json", by_alias=True, exclude_none=True) for block in result.content
                 if block.type == "resource_link"]  # fmt: skip
        told = len(text) + sum(len(json.dumps(link)) for link in links)
        facts = result.structured_content
        self.cost.calls += 1
        self.cost.text += told
        self.cost.structured += told if facts is None else len(json.dumps(facts, separators=(",", ":")))
        named = re.search(r"^Next: (\w+)\(", text, flags=re.MULTILINE)
        following = (facts or {}).get("next")
        if (named and named.group(1)) != (following and following["tool"]):
            raise SystemExit(f"{tool}: the text says {named}, the structured content {following}")
        return facts or {}

    async def create(self) -> dict[str, Any]:
        """Make the project."""
        return await self.call("create_project", name=self.name, intent="measure", goal=self.goal, config=self.config)

    async def by_next(self) -> Cost:
        """Make each call that the answer before proposes; the search space is the one thing of our own."""
        following = (await self.create()).get("next")
        while following and self.cost.calls < MAX_CALLS:
            following = (await self.call(following["tool"], **self.chosen(following))).get("next")
        return await self.done()

    async def by_advance(self) -> Cost:
        """Let the server go on; make a call only where something is to be decided."""
        await self.create()
        while self.cost.calls < MAX_CALLS:
            answer = await self.call("advance", project=self.name)
            if answer["ended"] == "finished":
                break
            if answer["ended"] == "decision":
                await self.call(answer["next"]["tool"], **self.chosen(answer["next"]))
        return await self.done()

    def chosen(self, following: dict[str, Any]) -> dict[str, Any]:
        """Return the arguments of a proposed call, with the own search space."""
        own = {"search": SEARCH} if following["tool"] == "start_tuning" else {}
        return {**following["arguments"], **own}

    async def done(self) -> Cost:
        """Note whether the project is finished; this look is not part of the job."""
        status = await self.client.call_tool("project_status", {"project": self.name})
        self.cost.ended = bool((status.structured_content or {}).get("finished"))
        return self.cost


class Table(Job):
    """A table, from the sentence to the release."""

    def __init__(self, client: Client, name: str, folder: Path) -> None:
        from sklearn.datasets import load_breast_cancer

        super().__init__(client, name, rate=0.0, target=0.93)
        load_breast_cancer(as_frame=True).frame.to_csv(folder / "cells.csv", index=False)
        self.folder = folder

    async def whole(self) -> Cost:
        """Play it."""
        listed = [*(await self.client.list_tools()).tools, *(await self.client.list_resources()).resources]
        written = [one.model_dump(mode="json", by_alias=True, exclude_none=True) for one in listed]
        self.cost.text = self.cost.structured = len(json.dumps(written, separators=(",", ":")))
        await self.call("project_status")
        data = {"use": "csv", "args": {"path": "cells.csv", "target": "target"}}
        asked = {"intent": SENTENCE, "data": data, "model": "mlp", "metric": "accuracy", "target": 0.93}
        plan = await self.call("plan_training", **asked, code_root=str(self.folder))
        await self.call("create_project", **{**plan["next"]["arguments"], "name": self.name})
        await self.until_decided()
        await self.call("run_status", run_id=self.name)
        await self.call("diagnose_run", run_id=self.name)
        await self.call("estimate_cost", project=self.name)
        for path in DOCUMENTS:
            await self.call("read_document", path=path)
        await self.call("start_tuning", project=self.name, search={"trials": 6, "width": 2, "space": SPACE})
        while (await self.call("tuning_status", project=self.name, wait_seconds=50))["state"] in SEARCHING:
            pass
        answer = await self.until_decided()
        if answer["ended"] == "decision":
            await self.call(answer["next"]["tool"], **answer["next"]["arguments"])
            await self.until_decided()
        await self.call("project_status", project=self.name)
        return await self.done()

    async def until_decided(self) -> dict[str, Any]:
        """Let the server go on until it ends by other than the time or an alert."""
        while (answer := await self.call("advance", project=self.name, wait_seconds=50))["ended"] in {"wait", "alert"}:
            pass
        return answer


async def measure(jobs: list[str]) -> dict[str, dict[str, int | bool]]:
    """Return the figures of each job and way."""
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        arguments = ["-P", "-m", cli.__name__, "serve", "--workspace", str(Path(folder) / "workspace")]
        async with Client(StdioServerParameters(command=sys.executable, args=arguments)) as client:
            if "table" in jobs:
                found["table"] = (await Table(client, "table", Path(folder)).whole()).figures()
            for name in sorted({*jobs} & {*JOBS}):
                for way in ("next", "advance"):
                    job = Job(client, f"{name}-{way}", **JOBS[name])
                    cost = await (job.by_next() if way == "next" else job.by_advance())
                    found[f"{name}_by_{way}"] = cost.figures()
    return found


def over_budget(figures: dict[str, dict[str, int | bool]]) -> list[str]:
    """Return what costs more than it may, or did not end."""
    found = []
    for name, cost in figures.items():
        calls, tokens = BUDGETS[name.partition("_")[0]]
        most = max(int(cost["text_tokens"]), int(cost["structured_tokens"]))
        if cost["calls"] > calls or most > tokens or not cost["ended"]:
            found.append(name)
    return found


def main() -> None:
    """Measure and print; exit with 1 when a job costs more than it may."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", nargs="+", choices=sorted(BUDGETS), default=sorted(BUDGETS))
    figures = asyncio.run(measure(parser.parse_args().jobs))
    for name, cost in figures.items():
        print(f"{name:24} {cost}")
    above = over_budget(figures)
    print(json.dumps({**figures, "over_budget": above}))
    raise SystemExit(1 if above else 0)


if __name__ == "__main__":
    main()
