"""Searches that would be lost if optimization were skipped: asked for, begun, or needed by a goal met by a hair.

A search is asked for by the configuration's `search`, at any time before the export, or by the project's intent.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

from trainwright.tools.gates.exits import baseline_value, exit_of
from trainwright.tools.gates.searches import first_search, resumed_search, studies_of

if TYPE_CHECKING:
    from trainwright.tools.answers import NextCall
    from trainwright.tools.gates.records import Records

IN_WORDS = re.compile(
    r"\b(hyper-?\s?parameters?|(?<!fine-)(?<!fine )tun(e|ed|ing)|sweep|optuna|(grid|random|bayesian) search"
    r"|(several|different|best|better|good) (learning rates?|settings))\b",
    re.IGNORECASE,
)
NOT_ASKED = re.compile(r"\b(no|not|without|never|don't|skip)\W+(\w+\W+){0,3}$", re.IGNORECASE)
SHARES = frozenset({"accuracy", "balanced_accuracy", "f1_micro", "top_3_accuracy", "top_5_accuracy"})
"""Metrics that count rows: their chance follows from the number of rows."""
HAIR = 0.25
"""Of the standard error of a share; or a single row, where that is more."""


def asked_search(evidence: Records) -> NextCall | None:
    """Return the search to make before optimization is skipped; None where nothing is lost by skipping it.

    Its reason says what is lost, and names the call that goes on without it.
    """
    if exit_of(evidence) != "skipped" or evidence.spent:
        return None
    studies = studies_of(evidence)
    if any(body["state"] == "completed" for body in studies.values()):
        return None
    stopped = [(name, body) for name, body in studies.items() if body["state"] == "stopped"]
    if stopped:
        name, body = stopped[-1]
        ended = sum(trial["state"] != "running" for trial in body.get("trials") or [])
        reason = f"{name} was stopped after {ended} trials, which passing the gate discards"
        call = resumed_search(evidence, {"study_id": name, **body})
    else:
        reason, call = _wish(evidence) or _by_a_hair(evidence), None
        call = first_search(evidence) if reason else None
    if call is None or call.tool == "pass_gate":
        return None
    without = f"pass_gate(project={evidence.name!r}, phase='optimization') goes on without it"
    return call.model_copy(update={"why": f"the goal is met, and {reason}; {without}. {call.why}"})


def _wish(evidence: Records) -> str:
    if evidence.config.search is not None:
        return "the configuration asks for a search"
    intent = evidence.project.intent
    asked = [found for found in IN_WORDS.finditer(intent) if not NOT_ASKED.search(intent[: found.start()])]
    return f"the intent asks for a search ({asked[0].group()!r})" if asked else ""


def _by_a_hair(evidence: Records) -> str:
    """Return by how little the baseline meets the goal where that is chance; empty where it is more, or unknown."""
    value, metric = baseline_value(evidence), evidence.goal_metric
    rows = evidence.smoke.data.sizes.get("validation", 0) if evidence.smoke is not None else 0
    if value is None or metric not in SHARES or not rows or not 0 < value < 1:
        return ""
    margin = abs(value - float(evidence.goal["target"]))
    if margin * rows >= max(1.0, HAIR * math.sqrt(value * (1 - value) * rows)):
        return ""
    return f"by {margin:.2g} only: one of the {rows} validation rows, or another seed, may decide it"
