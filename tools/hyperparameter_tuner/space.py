"""The requested search: parsed with its aliases, and checked completely before anything is started."""

from __future__ import annotations

import json
import re
from typing import Any

from pydantic import ValidationError

from trainwright.tools.gates.evidence import Evidence
from trainwright.tools.gates.study_check import MEASURED
from trainwright.tools.hyperparameter_tuner.conditions import assumed, condition_problems
from trainwright.tools.hyperparameter_tuner.space_rules import broken_rules, grid_size
from trainwright.trainer.base.errors import ConfigurationError, did_you_mean
from trainwright.trainer.config import SearchSection, TrainingConfig, apply_changes, merge_changes, parse_config
from trainwright.trainer.config.key_correction import SPACE, correct_changes
from trainwright.trainer.config.search import EXAMPLE_SPACE, Choices, Range, size_of
from trainwright.trainer.losses import LOSSES
from trainwright.trainer.objectives.sections import MEASURING

OBJECTIVE_MEASURES = tuple(f"objective.{key}" for key in MEASURING)
UNSEARCHABLE = (
    "seed", "code_root", "code_files", "data", "task.use", "target_scaling", "metrics", "returns", "training.device",
    "selection", "reproducibility", "search", "evaluation_gate", "deployment", "checkpoints", "logging", "monitoring",
    *OBJECTIVE_MEASURES,
)  # fmt: skip
"""Keys that decide what is learned and how a result is evaluated, or that change nothing about it."""
LOSS = "loss"
OF_THE_LOSS = frozenset({"loss", "perplexity", "bits_per_byte"})
"""Metrics whose size the loss decides."""
DOCUMENT = "phases/04_optimization/workflow.md"
OBJECTIVES_DOCUMENT = "configs/searches.md"
TIMED = re.compile("second|latency|time|speed|throughput")
"""Names of what a clock measures."""
SEARCHABLE = (
    "single keys of the model, task.args, optimizer, schedule, loader or training sections, of which both ends (or "
    "every choice) are valid, if only under the `when` of another searched key"
)
GRID_POINTS = 5
"""Of a float range in a remedy."""
INWARDS = 0.01
"""Share of a range by which an end that is just not allowed is moved."""


def with_search(
    values: dict[str, Any], search: dict[str, Any] | None
) -> tuple[dict[str, Any], TrainingConfig, list[str]]:
    """Return the configuration with the requested search, and how that was read.

    One with a space of its own takes the place of the configuration's; one without is laid over it.

    Raises:
        ConfigurationError: the search breaks the schema; the remedy gives it completely.
    """
    if search is None:
        return values, parse_config(values), []
    base = {name: value for name, value in values.items() if name != "search"}
    asked = {"search": search}
    if "search" in values and not any(path[: len(SPACE)] == SPACE for path in correct_changes(asked, base).leaves):
        base = values
    try:
        settled = merge_changes(asked, base, argument="search", nested=True)
    except ConfigurationError as error:
        amend = error.details.get("amend")
        error.details |= {"amend": {"search": amend["search"]["search"]}} if amend else {}
        raise
    return settled.values, settled.config, settled.notes


def checked_search(search: SearchSection, values: dict[str, Any], project: str) -> SearchSection:
    """Return the search, every key and end of its space held against the configuration.

    Raises:
        ConfigurationError: it cannot be searched; the remedy is the same search put right, or without what is wrong.
    """
    _check_comparable(values)
    conditions = list(condition_problems(search.space))
    under = {key: {} if conditions else assumed(key, search.space) for key in search.space}
    found = {key: _range_flaw(key, one, values, under[key]) for key, one in search.space.items()}
    flaws = {key: flaw for key in search.space if (flaw := found[key] or _without_points(key, search)) is not None}
    texts = [*(text for text, _ in flaws.values()), *conditions] or broken_rules(search, values)
    if not texts:
        return settled(search, values)
    whole = _with_ranges(search, {key: instead for key, (_, instead) in flaws.items()}, values) if flaws else None
    remedy = "Make the same call with the search as that rule says; nothing was started."
    if whole is not None:
        remedy = f"start_tuning(project={project!r}, search={json.dumps(whole)}): {SEARCHABLE}."
    raise ConfigurationError(
        "; ".join(texts),
        remedy=remedy,
        document=DOCUMENT,
        details={"amend": {"search": whole}} if whole is not None else {},
    )


def _with_ranges(
    search: SearchSection, instead: dict[str, dict[str, Any]], values: dict[str, Any]
) -> dict[str, Any] | None:
    """Return the search with other ranges in place of some, those that are valid; None where that breaks a rule."""
    asked = search.as_asked()
    space = {key: range_ for key, range_ in asked["space"].items() if key not in instead}
    for other in instead.values():
        space |= {key: range_ for key, range_ in other.items() if _is_valid(key, range_, values)}
    asked["space"] = space or EXAMPLE_SPACE
    amended = SearchSection.model_validate(asked)
    return None if [*condition_problems(amended.space), *broken_rules(amended, values)] else asked


def _is_valid(key: str, range_: dict[str, Any], values: dict[str, Any]) -> bool:
    try:
        return _range_flaw(key, SearchSection.model_validate({"space": {key: range_}}).space[key], values, {}) is None
    except ValidationError:
        return False


def settled(search: SearchSection, values: dict[str, Any]) -> SearchSection:
    """Return the search with what it leaves open: a grid with all its points."""
    if search.method != "grid":
        return search
    size = grid_size(search, values)
    return search.model_copy(update={"trials": size if search.is_whole_grid else min(search.trials, size)})


def _range_flaw(
    key: str, range_: Range, values: dict[str, Any], under: dict[str, Any]
) -> tuple[str, dict[str, dict[str, Any]]] | None:
    """Return what is wrong with a range under these values of other keys, and the range to search over instead."""
    if (held := held_by(key, values)) is not None:
        return f"`{key}` cannot be searched over: {held}.", {}
    for end in range_.choices if isinstance(range_, Choices) else [range_.low, range_.high]:
        text, changes = f"The search space is not valid at `{key}` = {end!r}", {}
        try:
            problem = _other_kind(parse_config(apply_changes(values, {**under, key: end})), parse_config(values))
        except ConfigurationError as error:
            problem, changes = error.message, error.details.get("changes", {})
        if problem:
            return f"{text}: {problem}", _range_instead(key, range_, end, changes)
    return None


def _without_points(key: str, search: SearchSection) -> tuple[str, dict[str, dict[str, Any]]] | None:
    """Return that a grid does not know which values of a range to try, and the range with some."""
    if search.method != "grid" or size_of(search.space[key]) is not None:
        return None
    text = f"a grid needs to know which values of `{key}` to try: give it `step` or `points`"
    return text, {key: {**search.as_asked()["space"][key], "points": GRID_POINTS}}


def _range_instead(key: str, range_: Range, end: Any, changes: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the range under the key that was misspelt, without the choice, or with the end moved inwards."""
    whole = {"type": range_.type, **range_.model_dump(mode="json", exclude_defaults=True)}
    section = key.rpartition(".")[0]
    meant = next((name for name in changes if name != key and name.rpartition(".")[0] == section), None)
    if meant is not None:
        return {meant: whole}
    if isinstance(range_, Choices):
        return {key: {**whole, "choices": [choice for choice in range_.choices if choice != end]}}
    if range_.type == "int":
        return {}
    inwards = (range_.high - range_.low) * INWARDS
    return {key: {**whole, **({"low": end + inwards} if end == range_.low else {"high": end - inwards})}}


def held_by(key: str, values: dict[str, Any]) -> str | None:
    """Return why a key is not varied between runs that are compared; None where it may be.

    Losses may: they are compared by a metric that is none of theirs.
    """
    metric = parse_config(values).selection.metric
    if f"{key}.".startswith(f"{LOSS}.") and metric in OF_THE_LOSS:
        return f"results are judged by {metric}, whose size the loss decides"
    held = next((name for name in UNSEARCHABLE if f"{name}.".startswith(f"{key}.") or key.startswith(f"{name}.")), None)
    return f"`{held}` decides how results are judged, or has no part in them" if held is not None else None


def _other_kind(tried: TrainingConfig, present: TrainingConfig) -> str:
    """Return that a loss is for targets of another kind than the present one; empty where both are alike."""
    names = [loss if isinstance(loss, str) else getattr(loss, "use", "") for loss in (tried.loss, present.loss)]
    one, other = (LOSSES[name].task if name in LOSSES else None for name in names)
    return f"a loss for {one}, and {names[1]} is for {other}" if None not in {one, other} and one != other else ""


def require_reported(evidence: Evidence, config: TrainingConfig) -> None:
    """Refuse to search by a metric that the newest baseline or smoke run of the configuration did not report.

    Raises:
        ConfigurationError: it names the metrics that were reported.
    """
    metric, run = config.selection.metric, evidence.baseline or evidence.smoke
    if run is None:
        return
    reported = sorted({name for event in run.directory.events("epoch") for name in event.data.get("validation") or {}})
    if reported:
        _require_objectives(evidence.name, config, reported, run.id)
    if reported and metric not in reported:
        raise ConfigurationError(
            f"The search goes by {metric!r} (selection.metric), which nothing reports: {run.id} reported "
            f"{', '.join(reported)}.",
            remedy=f"configure(project={evidence.name!r}, changes={{'metrics': [{metric!r}]}}), or a goal whose "
            "metric is among those.",
            document=DOCUMENT,
        )


def _require_objectives(project: str, config: TrainingConfig, reported: list[str], run: str) -> None:
    """Refuse a further objective that nothing measures."""
    known = [*reported, *MEASURED]
    objectives = config.search.objectives if config.search is not None else []
    name = next((one.metric for one in objectives if one.metric not in known), None)
    if name is None:
        return
    timed = " Seconds differ from run to run, so no trial could be made again by them; `parameters` counts weights."
    raise ConfigurationError(
        f"search.objectives names {name!r}, which nothing measures: {run} reported {', '.join(reported)}, and "
        f"{', '.join(MEASURED)} is counted{did_you_mean(name, known)}.{timed if TIMED.search(name) else ''}",
        remedy=f"Make the same call with another metric in search.objectives; or, to have {name!r} computed, "
        f"configure(project={project!r}, changes={{'metrics': {json.dumps([*map(_named, config.metrics), name])}}}).",
        document=OBJECTIVES_DOCUMENT,
    )


def _named(metric: Any) -> Any:
    return metric if isinstance(metric, str) else metric.model_dump(mode="json", exclude_defaults=True)


def _check_comparable(values: dict[str, Any]) -> None:
    """Refuse to search by the contrastive loss: batch, temperature and views decide how large it is."""
    config = parse_config(values)
    if config.objective.name == "contrastive" and config.selection.metric == "loss":
        raise ConfigurationError(
            "The contrastive loss cannot be searched by: it compares the samples of a batch, so loader.batch_size, "
            "objective.temperature and objective.augmentation decide how large it is, whatever was learned.",
            remedy="Make a project whose goal is linear_probe_accuracy, on data with labels.",
            document=DOCUMENT,
        )
