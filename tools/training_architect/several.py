"""Several columns that one model predicts: all numbers or all labels, a bound for each, and answers left as inputs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from trainwright.tools.training_architect.columns import MAX_SHOWN
from trainwright.tools.training_architect.goals import GoalReading, kind_of_sentence
from trainwright.tools.training_architect.request import PlanRequest
from trainwright.trainer.base.errors import ConfigurationError
from trainwright.trainer.clean_room.names import WORST
from trainwright.trainer.metrics import BUILT_IN as METRICS

EACH = (
    r"\b(?:each|every one) of (?:them|those|(?:the(?:se|ir)? )?(?:{count}|targets|columns|properties|outputs))\b"
    r"|\b(?:all {count}|each (?:target|output)|jede[rsmn]? (?:einzelne\w*|davon|von ihnen|ziel\w*)|alle {count})\b"
    r"|\bjede[rsmn]? (?:der|dieser) (?:{count}|ziel\w*|spalten|eigenschaften|größen)\b"
)
"""Words of a bound that each target is to keep; `count`: how many there are."""
COUNTS = {2: "two|zwei|beiden", 3: "three|drei", 4: "four|vier", 5: "five|fünf", 6: "six|sechs"}


def take_each(intent: str, targets: Sequence[str], goal: GoalReading) -> None:
    """Take a bound that each of several targets is to keep for one of the worst; else say that it is of the mean."""
    count = f"(?:{COUNTS.get(len(targets), len(targets))}|{len(targets)})"
    if not re.search(EACH.format(count=count), intent, re.IGNORECASE):
        goal.assumed.append("a goal is of the mean of the targets, not of each")
    elif f"{WORST}{goal.metric}" in METRICS:
        goal.metric = f"{WORST}{goal.metric}"
        goal.assumed.append(f"the goal is for each target: {goal.metric} is that of the worst of them")
    elif goal.metric is not None and goal.target is not None and not goal.metric.startswith(WORST):
        bounds = {f"{goal.metric} of {name}": goal.target for name in targets}
        goal.assumed.append(f"the goal is of the mean of the targets; bound each: evaluation_gate.minimum {bounds}")


def kind_of_several(request: PlanRequest, targets: Sequence[str], columns: dict[str, Any]) -> str:
    """Return whether columns that are predicted together are numbers (regression) or labels (classification).

    Raises ConfigurationError where they are neither all numbers nor all of two values.
    """
    known, data = [columns.get(name, {}) for name in targets], request.data or {}
    wanted = (request.task or "").rpartition("_")[2] or kind_of_sentence(request)
    if wanted != "regression" and all(one.get("different") == 2 for one in known):
        return "classification"
    are_numbers = all(one.get("kind") == "number" or one.get("of_numbers") for one in known)
    if are_numbers and (wanted == "regression" or (wanted is None and not any(map(_is_flag, known)))):
        return "regression"
    of = {name: "numbers" if one.get("kind") == "number" else f"{one.get('different', 0)} classes"
          for name, one in zip(targets, known, strict=True)}  # fmt: skip
    one = {"use": data.get("use"), "args": {**(data.get("args") or {}), "target": targets[0]}}
    raise ConfigurationError(
        f"{', '.join(targets)} are to be predicted, and one model of a table predicts numbers alone, or columns of two "
        f"values alone: {', '.join(f'{name} has {what}' for name, what in of.items())}.",
        remedy="create_project with data of the user's own under objective multi_task, as the page shows. Or ask the "
        f"user for one, a project each, and plan it without the others as inputs: data={one}.",
        document="configs/several_targets.md",
    )


def siblings_told(target: str, others: Sequence[str], columns: dict[str, Any]) -> list[str]:
    """Say which inputs look like further answers: yes-or-no columns of numbers beside such a target, two at least."""
    alike = [name for name in others if _is_flag(columns[name])] if _is_flag(columns.get(target, {})) else []
    if len(alike) < 2:
        return []
    shown = ", ".join(alike[:MAX_SHOWN]) + (", …" if len(alike) > MAX_SHOWN else "")
    return [
        f"{shown} are inputs, and are 0 or 1 as {target!r} is: leave out, by data.args.columns, what is not known when "
        "it is predicted"
    ]


def _is_flag(column: dict[str, Any]) -> bool:
    return bool(column.get("of_numbers")) and column["different"] == 2
