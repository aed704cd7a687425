"""Playing an input through planning as an agent does: a server in memory, real workers forked off a warm process."""

from __future__ import annotations

import json
import os
import zlib
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from case import KEY, Case
from mcp import Client
from mcp.types import CallToolResult, TextContent

GOING = frozenset({"created", "queued", "waiting", "starting", "running"})
MAX_SECONDS = 120


@dataclass
class Seen:
    """What an agent was told, and what stands in the evidence."""

    texts: list[str] = field(default_factory=list)
    refused: str = ""
    """The answer that refused; empty: everything was taken."""
    run: Path | None = None
    metrics: dict[str, float] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """All answers."""
        return "\n".join(self.texts)

    @cached_property
    def data(self) -> dict[str, Any]:
        """The evidence of the data."""
        return self._evidence("data")

    @cached_property
    def splits(self) -> dict[str, dict[str, Any]]:
        """The fixed rows of validation and test: arrays by name, `target` among them."""
        found: dict[str, dict[str, Any]] = {}
        for name, split in self._evidence("fixed_rows").get("splits", {}).items():
            places = {key: each["path"] for key, each in split["inputs"].items()}
            if split.get("target"):
                places["target"] = split["target"]["path"]
            found[name] = {key: np.load(self.artifacts / path) for key, path in places.items()}
        return found

    @property
    def artifacts(self) -> Path:
        """Folder of the run's evidence."""
        return (self.run or Path()) / "artifacts"

    @property
    def inputs(self) -> Any:
        """Inputs of all fixed rows."""
        names = [name for name in next(iter(self.splits.values())) if name != "target"]
        return np.concatenate([split[names[0]] for split in self.splits.values()])

    @property
    def targets(self) -> Any:
        """Targets of all fixed rows."""
        return np.concatenate([split["target"] for split in self.splits.values()])

    @property
    def keys(self) -> list[int]:
        """The row of the table that each fixed row is."""
        return [round((value - 1) / 3) for value in self.inputs[:, self.data["places"][KEY]].tolist()]

    def _evidence(self, name: str) -> dict[str, Any]:
        path = self.artifacts / f"{name}.json"
        return json.loads(path.read_text()) if path.exists() else {}


async def play(client: Client, case: Case, folder: Path, workspace: Path) -> Seen:
    """Create the project, make its smoke run, pass the gate of planning; stop where it is refused.

    The data are validated where something is to be named. The project's name says nothing: words are looked for.
    """
    code = folder / case.folder
    code.mkdir(parents=True)
    case.write(code)
    seen, name = Seen(), f"p{zlib.crc32(case.name.encode())}"
    config = {"code_root": str(code), "logging": {"tensorboard": False}, **case.config}
    calls: list[tuple[str, dict[str, Any]]] = [
        ("create_project", {"name": name, "intent": "try", "goal": case.goal, "config": config}),
        ("start_training", {"project": name, "kind": "smoke", "wait_seconds": 50}),
        ("pass_gate", {"project": name, "phase": "planning"}),
    ]
    if case.right.named:
        calls.append(("validate_data", {"project": name}))
    for tool, arguments in calls:
        answer = await _answered(client, tool, arguments)
        facts = answer.structured_content or {}
        seen.texts.append(_text(answer))
        if tool == "start_training":
            runs = sorted((workspace / "projects" / name / "runs").glob("smoke-*"), key=os.path.getmtime)
            seen.run = runs[-1] if runs else None
            seen.metrics = facts.get("metrics") or {}
        if answer.is_error or facts.get("state") in {"failed", "interrupted", "stopped"}:
            seen.refused = seen.texts[-1]
            break
    return seen


async def _answered(client: Client, tool: str, arguments: dict[str, Any]) -> CallToolResult:
    """Call a tool; wait until a run has ended."""
    answer = await client.call_tool(tool, arguments)
    for _ in range(MAX_SECONDS // 50):
        facts = answer.structured_content or {}
        if facts.get("state") not in GOING:
            break
        answer = await client.call_tool("run_status", {"run_id": facts["run_id"], "wait_seconds": 50})
    return answer


def _text(answer: CallToolResult) -> str:
    return "\n".join(block.text for block in answer.content if isinstance(block, TextContent))
