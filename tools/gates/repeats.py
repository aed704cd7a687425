"""Repetitions of the configuration on other seeds, which the intent asks for: an ablation study without factors."""

from __future__ import annotations

import statistics
from typing import Any

from trainwright.tools.answers import NextCall
from trainwright.tools.gates.decision import Option
from trainwright.tools.gates.exits import takes_best
from trainwright.tools.gates.improvement import seeds_in_words, validation_rows
from trainwright.tools.gates.records import Records
from trainwright.tools.gates.searches import runs_left, seconds_a_trial, time_in_words
from trainwright.tools.gates.studies import ACTIVE, ablation_studies
from trainwright.trainer.config.search_words import asked_seeds

MIN_SEEDS, USUAL_SEEDS, MAX_SEEDS = 3, 5, 20
"""What a study takes, and how many where the sentence names no number."""


def owed_repeats(evidence: Records) -> Option | None:
    """Return the call that repeats the configuration on the seeds that the intent asks for; None once it is repeated.

    So it is by the confirmation of a search too. None where the limits leave too few runs: it would be refused.
    """
    asked, studies = asked_seeds(evidence.project.intent), _studies(evidence)
    if asked is None or any(body["state"] in {"completed", "failed"} for body in studies.values()):
        return None
    seeds = min(max(asked.number or USUAL_SEEDS, MIN_SEEDS), MAX_SEEDS)
    if len(evidence.improvement[0].get("baseline", [])) >= (seeds if asked.number else MIN_SEEDS):
        return None
    if under_way := next((name for name, body in studies.items() if body["state"] in ACTIVE), None):
        watched = {"study_id": under_way, "wait_seconds": 50}
        return Option(call=NextCall(tool="tuning_status", arguments=watched, why="the configuration is being repeated"))
    if runs_left(evidence) < seeds:
        return None
    seconds = seconds_a_trial(evidence)
    time = f", about {time_in_words(seeds * seconds)}" if seconds else ""
    why = (
        f"the intent asks for several seeds ({asked.words!r}): mean, deviation and interval over {seeds} that the "
        f"server draws{time}; the released model stays the baseline's. pass_gate(project={evidence.name!r}, "
        "phase='optimization') goes on without"
    )
    call = evidence.call("start_tuning", why, search={"ablation": {"factors": {}, "repeats": seeds}})
    return Option(call=call, seconds=seeds * seconds if seconds else None)


def repeats_text(evidence: Records) -> str:
    """Return mean and deviation over other seeds of what is released, or that it was not repeated.

    By the newest study of the configuration alone, else by a search's confirmation. Empty where there is none, and none
    was asked for.
    """
    asked = asked_seeds(evidence.project.intent)
    ended = [body["results"] for body in _studies(evidence).values() if body.get("results")]
    if ended and not takes_best(evidence):
        found, values = str(ended[-1]["conclusion"]).rstrip("."), ended[-1]["arms"][0]["values"]
        metric = ended[-1]["metric"]
        return f"Repeated on other seeds: {found}{_beside_goal(evidence, metric, values)}."
    confirmed = evidence.improvement[0]
    values, metric = confirmed.get("best" if takes_best(evidence) else "baseline", []), evidence.goal_metric
    if asked is not None and len(values) > 1:
        source = "certified" if confirmed.get("certified") else "as the training processes reported"
        found = seeds_in_words(metric, values, validation_rows(evidence), source)
        return f"Repeated on other seeds by the search: {found}{_beside_goal(evidence, metric, values)}."
    return "" if asked is None else f"The intent asks for several seeds ({asked.words!r}): nothing was repeated."


def _beside_goal(evidence: Records, metric: str, values: list[float | None]) -> str:
    """Return how many seeds reach the goal, and whether their mean does; empty in another metric."""
    there = [value for value in values if value is not None]
    if metric != evidence.goal_metric or not there:
        return ""
    reached = sum(evidence.reaches_goal(value) for value in there)
    mean = "reaches" if evidence.reaches_goal(statistics.fmean(there)) else "misses"
    return f"; {reached} of {len(there)} seeds reach the goal of {evidence.goal['target']:g}, and their mean {mean} it"


def _studies(evidence: Records) -> dict[str, dict[str, Any]]:
    """Return the studies without factors of the present configuration, on the data and code of its baseline."""
    return {
        name: body
        for name, body in ablation_studies(evidence).items()
        if body["base_config_digest"] == evidence.config_digest
        and not any(body["search"]["ablation"].get(name) for name in ("factors", "combinations"))
        and _is_of_present(evidence, body)
    }


def _is_of_present(evidence: Records, body: dict[str, Any]) -> bool:
    """Whether a study's runs had what planning fixed for the baseline: a release later the data may be others."""
    first = next((line["run"] for line in body.get("trials") or [] if line.get("run")), None)
    run, baseline = evidence.run(first) if first else None, evidence.baseline
    if run is None or baseline is None:
        return True
    return run.directory.specification().expected == baseline.directory.specification().expected
