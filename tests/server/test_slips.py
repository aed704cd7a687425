"""Several hundred plausible slips: each is taken as meant, or refused with a call that keeps everything that was meant.

The tables beside this file hold what an agent wrote and what it meant: each rule once or twice, and behind `---` its
variants, which run among the long tests. A refused call is repaired by its own remedy
alone, word for word as the text has it; the intent must hold afterwards, and no call may be refused twice.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.variants import variants

from trainwright.server.argument_repair import normalized_arguments
from trainwright.server.surface import TOOLS
from trainwright.tools.hyperparameter_tuner.space import with_search
from trainwright.tools.projects.configuration import keep_version
from trainwright.tools.workspace import Workspace
from trainwright.tools.workspace.records import latest_config
from trainwright.trainer.config import parse_config

pytestmark = pytest.mark.slow

FOLDER = Path(__file__).parent / "slips"
TABLES = ("configure", "create", "goals", "search", "calls")
MAX_ROUNDS = 3
GOAL = {"metric": "accuracy", "direction": "maximize", "target": 0.9}
BASE = {
    "model": {"use": "mlp", "args": {"hidden": [8]}},
    "data": {"use": "iris"},
    "training": {"epochs": 20},
    "metrics": ["accuracy"],
    "loss": "cross_entropy",
    "optimizer": {"name": "adamw", "learning_rate": 0.001, "betas": [0.9, 0.99]},
    "schedule": {"name": "cosine", "warmup_fraction": 0.05},
    "selection": {"metric": "accuracy", "direction": "maximize"},
}
OWN_CODE = """
import torch

class Net(torch.nn.Module):
    pass

def loss(output, target):
    return 0.0

def measure(output, target):
    return 0.0
"""
PER_PROJECT = 50
"""Slips that are played on one project, one version of its configuration after the other."""
PLAIN = {name: BASE[name] for name in ("model", "data", "metrics", "selection")}
OF_FORM = {"configuration"}
"""Categories of refusals that a slip leads to; any other says that the call was understood."""


@dataclass
class Played:
    """What became of one slip."""

    arguments: dict[str, Any]
    rounds: int = 0
    trouble: str | None = None
    calls: list[str] = field(default_factory=list)


def _table(name: str, part: str) -> list[Any]:
    """Return the slips of a table: those of each rule, or the further variants of them, where it has some."""
    rules, *more = yaml.safe_load_all((FOLDER / f"{name}.yaml").read_text(encoding="utf-8"))
    return rules if part == "rules" else [slip for variants in more for slip in variants]


def remedy_of(text: str) -> tuple[str, dict[str, Any]] | None:
    """Read the call of a `Remedy:` line: name, then `argument=JSON` by `argument=JSON`."""
    line = next((line for line in text.splitlines() if line.startswith("Remedy: ")), "")
    tool, bracket, rest = line.removeprefix("Remedy: ").partition("(")
    if not bracket or tool not in {known.name for known in TOOLS}:
        return None
    arguments: dict[str, Any] = {}
    while rest and not rest.startswith(")"):
        name, _, rest = rest.lstrip(", ").partition("=")
        try:
            value, end = json.JSONDecoder().raw_decode(rest)
        except ValueError:
            return None
        arguments[name], rest = value, rest[end:]
    return tool, arguments


async def _play(agent: Any, tool: str, arguments: dict[str, Any], text_of: Any) -> Played:
    """Call, and follow remedies until the call is understood."""
    played = Played(arguments)
    while played.rounds <= MAX_ROUNDS:
        written = json.dumps([tool, played.arguments], sort_keys=True)
        if written in played.calls:
            played.trouble = f"the remedy leads to a call that was refused before: {written[:300]}"
            return played
        played.calls.append(written)
        result = await agent.call(tool, **played.arguments)
        facts = result.structured_content or {}
        is_understood = not result.is_error or facts["category"] not in OF_FORM
        if is_understood and not (facts.get("category") == "not_found" and "next" in facts):
            return played
        call = remedy_of(text_of(result))
        if call is None:
            played.trouble = f"refused without a whole call: {text_of(result)[:400]}"
            return played
        if {"tool": call[0], "arguments": call[1]} != facts["next"]:
            played.trouble = f"text and structured content differ: {call} {facts['next']}"
            return played
        tool, played.arguments = call
        played.rounds += 1
    played.trouble = f"refused after {MAX_ROUNDS} remedies: {text_of(result)[:300]}"
    return played


def _missing(config: dict[str, Any], meant: dict[str, Any]) -> list[str]:
    """Return what was meant and is not so, as one line for each key."""
    return [
        f"{key} is {found!r}, meant was {value!r}"
        for key, value in meant.items()
        if not _same(found := _at(config, key), value)
    ]


def _at(values: Any, key: str) -> Any:
    space, _, name = key.partition(" ")
    for part in [space, name] if name else key.split("."):
        values = values.get(part) if isinstance(values, dict) else None
    return values


def _same(found: Any, meant: Any) -> bool:
    if isinstance(found, dict) and isinstance(meant, dict):
        return all(_same(found.get(key), value) for key, value in meant.items())
    if isinstance(found, list | tuple) and isinstance(meant, list):
        return len(found) == len(meant) and all(_same(*pair) for pair in zip(found, meant, strict=True))
    if isinstance(found, dict) and found.get("use") == meant and not found.get("args"):
        return True
    both = isinstance(found, int | float) and isinstance(meant, int | float) and not isinstance(meant, bool)
    return math.isclose(found, meant) if both else type(found) is type(meant) and found == meant


@pytest.mark.requirement("CONF-1", "GATE-2", "MCP-5")
@pytest.mark.parametrize("part", variants(["rules", "variants"], quick=["rules"]))
async def test_no_slip_loses_what_was_meant(in_memory, workspace, text, part):
    """Prints how many slips were played, taken at once and mended; lists each that lost something."""
    workspace.parent.mkdir(parents=True, exist_ok=True)
    (workspace.parent / "net.py").write_text(OWN_CODE)
    (workspace.parent / "churn.csv").write_text("age,churned\n1,0\n2,1\n")
    lost: list[str] = []
    counts: Counter[str] = Counter()
    async with in_memory() as agent:
        await agent.get("create_project", name="slips", intent="a", goal=GOAL, config=PLAIN)
        store = Workspace.open(workspace)
        player = _Player(agent, store, text)
        for name in TABLES:
            for number, slip in enumerate(_table(name, part)):
                played, missing = await getattr(player, name)(number, *slip)
                counts["slips"] += 1
                counts["taken" if played.rounds == 0 else "mended"] += not missing
                lost += [f"{name} {slip[:2]}: {what}" for what in missing]
    print(json.dumps(counts))
    assert not lost, f"{len(lost)} lost:\n" + "\n".join(lost)
    assert counts["slips"] >= 150


class _Player:
    """Plays one slip of each table, and says what of it was lost."""

    def __init__(self, agent: Any, store: Workspace, text: Any) -> None:
        self.agent, self.store, self.text = agent, store, text
        self.counts: Counter[str] = Counter()

    async def configure(self, number: int, changes: Any, meant: Any) -> tuple[Played, list[str]]:
        project = f"changed-{number // PER_PROJECT}"
        if number % PER_PROJECT == 0:
            await self.agent.get("create_project", name=project, intent="a", goal=GOAL, config=BASE)
        with self.store.session() as session:
            keep_version(session, project, BASE, "as it was")
        played = await _play(self.agent, "configure", {"project": project, "changes": changes}, self.text)
        return played, self._lost(played, project, meant)

    async def create(self, number: int, config: Any, meant: Any) -> tuple[Played, list[str]]:
        name = f"create-{number}"
        call = {"name": name, "intent": "a", "goal": GOAL, "config": config}
        played = await _play(self.agent, "create_project", call, self.text)
        if meant == "refused":
            return played, [] if played.trouble else ["was taken"]
        return played, self._lost(played, name, meant)

    async def goals(self, number: int, goal: Any, meant: Any) -> tuple[Played, list[str]]:
        name = f"goal-{number}"
        data = "diabetes" if meant["metric"] in {"r2", "mae"} else "iris"
        config = {
            "model": {"use": "mlp"},
            "data": {"use": data},
            "loss": "mse" if data == "diabetes" else "cross_entropy",
        }
        call = {"name": name, "intent": "a", "goal": goal, "config": config}
        played = await _play(self.agent, "create_project", call, self.text)
        measured = {"selection.metric": meant["metric"], "selection.direction": meant["direction"], "data.use": data}
        lost = self._lost(played, name, measured)
        return played, lost or _missing(played.arguments["goal"] if played.rounds else meant, meant)

    async def search(self, number: int, search: Any, meant: Any) -> tuple[Played, list[str]]:
        played = await _play(self.agent, "start_tuning", {"project": "slips", "search": search}, self.text)
        if played.trouble is not None:
            return played, [played.trouble]
        taken = self._taken("start_tuning", played).get("search")
        found = with_search(PLAIN, taken)[1].model_dump(mode="json")["search"]
        return played, _missing(found, meant)

    async def calls(self, number: int, tool: str, arguments: Any, meant: Any) -> tuple[Played, list[str]]:
        played = await _play(self.agent, tool, arguments, self.text)
        if played.trouble is not None:
            return played, [played.trouble]
        taken = self._taken(tool, played)
        return played, [f"{name} is {taken.get(name)!r}" for name in meant if not _same(taken.get(name), meant[name])]

    def _taken(self, tool: str, played: Played) -> dict[str, Any]:
        model = next(known for known in TOOLS if known.name == tool).fn_metadata.arg_model
        return normalized_arguments(model, played.arguments)[0]

    def _lost(self, played: Played, project: str, meant: dict[str, Any]) -> list[str]:
        if played.trouble is not None:
            return [played.trouble]
        with self.store.session() as session:
            values = latest_config(session, project).values
        return _missing(parse_config(values).model_dump(mode="json"), meant)
