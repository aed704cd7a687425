"""The requested search: parsed with its aliases, and checked completely before anything is started."""

from __future__ import annotations

import difflib
import json
import re
from typing import Any

from pydantic import TypeAdapter, ValidationError

from trainwright.tools.gates.evidence import Evidence
from trainwright.tools.gates.study_check import MEASURED
from trainwright.tools.hyperparameter_tuner.conditions import assumed
from trainwright.tools.hyperparameter_tuner.space_rules import condition_flaws, flaws_of, grid_size
from trainwright.trainer.base.errors import ConfigurationError, near
from trainwright.trainer.config import (
    SearchSection,
    TrainingConfig,
    apply_changes,
    flatten,
    merge_changes,
    parse_config,
)
from trainwright.trainer.config.key_correction import SPACE, correct_changes
from trainwright.trainer.config.search import Choices, ObjectiveSection, Range
from trainwright.trainer.losses import LOSSES
from trainwright.trainer.objectives.sections import MEASURING

RANGE: TypeAdapter[Range] = TypeAdapter(Range)
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
RATIO = 1000
"""Of a range's ends, where the lower one must be above 0 and was not."""
ALMOST = 0.99
"""Share of a range that is left where its upper end is just not allowed."""
NEAR = 10
"""Times a range's ends within which the present value of a key lies that could be meant by another name."""
ALIKE = 0.9
"""Of two dotted keys, from which on one may be a slip of the other."""
EXAMPLE: dict[str, Any] = {
    "trials": 20,
    "space": {"optimizer.learning_rate": {"type": "float", "low": 1e-4, "high": 1e-2, "log": True}},
}


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
    leaves = correct_changes({"search": search}, base).leaves
    asked = {"search": search}
    if not any(path[: len(SPACE)] == SPACE for path in leaves) and "search" in values:
        base = values
    try:
        settled = merge_changes(asked, base, argument="search", nested=True)
    except ConfigurationError as error:
        _amend(error, asked, base)
        raise
    return settled.values, settled.config, settled.notes


def checked_search(search: SearchSection, values: dict[str, Any], project: str, *, given: bool) -> SearchSection:
    """Return the search, every key and end of its space held against the configuration.

    Args:
        given: whether the call gave it; otherwise it is the configuration's.

    Raises:
        ConfigurationError: it cannot be searched; the remedy is the same search without what is
            wrong, or with it put right.
    """
    _check_comparable(values)
    problems: list[str] = []
    changes: dict[str, Any] = {}
    space: dict[str, Any] = {}
    flaws = condition_flaws(search)
    for key, range_ in search.space.items():
        text, fixed = _checked_range(key, range_, values, assumed(key, search.space) if not flaws else {})
        if text and (when := _only_under(key, range_, search, values)):
            text = f"{text} It is valid under {json.dumps(when)}: search it only `when` that holds."
            fixed = {key: {"type": range_.type, **range_.model_dump(mode="json", exclude_defaults=True), "when": when}}
        problems += [text] if text else []
        space |= fixed
    for flaw in flaws or ([] if problems else flaws_of(search, values)):
        problems.append(flaw.text)
        changes |= flaw.changes
        space |= flaw.ranges
    if problems:
        space = {key: range_ for key, range_ in space.items() if range_ is not None and _is_valid(key, range_, values)}
        raise _refusal(problems, space, changes, values, project, given=given)
    return settled(search, values)


def settled(search: SearchSection, values: dict[str, Any]) -> SearchSection:
    """Return the search with what it leaves open: a grid with all its points."""
    if search.method != "grid":
        return search
    size = grid_size(search, values)
    return search.model_copy(update={"trials": size if search.is_whole_grid else min(search.trials, size)})


def _checked_range(
    key: str, range_: Range, values: dict[str, Any], under: dict[str, Any]
) -> tuple[str | None, dict[str, Any]]:
    """Return what is wrong with a range, and what to search over instead: nothing, another key, or other ends.

    Args:
        under: values of other keys that the range is searched under.
    """
    whole = {"type": range_.type, **range_.model_dump(mode="json", exclude_defaults=True)}
    if (held := held_by(key, values)) is not None:
        return f"`{key}` cannot be searched over: {held}.", {}
    ends = range_.choices if isinstance(range_, Choices) else [range_.low, range_.high]
    for end in ends:
        try:
            tried = parse_config(apply_changes(values, {**under, key: end}))
        except ConfigurationError as error:
            fixed = _fixed_range(key, whole, end, values, error.details.get("changes", {}))
            hint = "".join(f" Search over `{name}` instead of `{key}`." for name in fixed if name != key)
            return f"The search space is not valid at `{key}` = {end!r}: {error.message}{hint}", fixed
        if problem := _other_kind(tried, parse_config(values)):
            return f"The search space is not valid at `{key}` = {end!r}: {problem}.", _without(key, whole, end)
    return None, {key: whole}


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


def _is_valid(key: str, range_: dict[str, Any], values: dict[str, Any]) -> bool:
    """Whether a range of a remedy would be accepted; one under a condition is told by the search that has it."""
    if range_.get("when"):
        return True
    try:
        return _checked_range(key, RANGE.validate_python(range_), values, {})[0] is None
    except ValidationError:
        return False


def _only_under(key: str, range_: Range, search: SearchSection, values: dict[str, Any]) -> dict[str, Any] | None:
    """Return the condition under which a range would be valid: choices of another searched key; None where none is."""
    for name, other in search.space.items():
        if name == key or not isinstance(other, Choices) or range_.when:
            continue
        good = [choice for choice in other.choices if not _checked_range(key, range_, values, {name: choice})[0]]
        if 0 < len(good) < len(other.choices):
            return {name: good[0] if len(good) == 1 and not isinstance(good[0], list) else good}
    return None


def _without(key: str, whole: dict[str, Any], end: Any) -> dict[str, Any]:
    kept = [choice for choice in whole["choices"] if choice != end]
    return {key: {**whole, "choices": kept}} if len(kept) > 1 else {}


def _could_mean(key: str, name: str, whole: dict[str, Any], present: Any) -> bool:
    """Whether a range could be meant for another key: its name is almost the same, or its value of that size."""
    if difflib.SequenceMatcher(None, key, name).ratio() >= ALIKE:
        return True
    if "choices" in whole:
        return any(type(present) is type(choice) for choice in whole["choices"])
    return isinstance(present, int | float) and whole["low"] / NEAR <= present <= whole["high"] * NEAR


def _fixed_range(
    key: str, whole: dict[str, Any], end: Any, values: dict[str, Any], changes: dict[str, Any]
) -> dict[str, Any]:
    """Return the range for the key that was meant, or with the end that is allowed; nothing where neither is known."""
    present = flatten(parse_config(values).model_dump(mode="json"))
    meant = [name for name, value in changes.items() if value == end and name != key]
    if meant:
        is_meant = _could_mean(key, meant[0], whole, present.get(meant[0])) and _is_valid(meant[0], whole, values)
        return {meant[0]: whole} if is_meant else {}
    if "choices" in whole:
        return _without(key, whole, end)
    low, high = whole["low"], whole["high"]
    nearest = changes.get(key)
    if end == low:
        low = nearest if nearest is not None else high / RATIO
    else:
        high = nearest if nearest is not None else low + (high - low) * ALMOST
    return {key: {**whole, "low": low, "high": high}} if low < high else {}


def _refusal(
    problems: list[str],
    space: dict[str, Any],
    changes: dict[str, Any],
    values: dict[str, Any],
    project: str,
    *,
    given: bool,
) -> ConfigurationError:
    """Return the error with the search put right, as the argument or as the configuration's own."""
    rest = values.get("search", {})
    whole = {
        key: value for key, value in {**rest, "space": space or EXAMPLE["space"], **changes}.items() if value != []
    }
    if given:
        details: dict[str, Any] = {"amend": {"search": whole}}
    else:
        of_config = {f"search.{key}": value for key, value in changes.items()} | {"search.space": space}
        arguments = {"project": project, "changes": {"search": None} if not space else of_config}
        details = {"next": {"tool": "configure", "arguments": arguments}}
    return ConfigurationError(
        "; ".join(problems),
        remedy=f"start_tuning(project={project!r}, search={json.dumps(whole)}): single keys of the model, task.args, "
        "optimizer, schedule, loader or training sections, of which both ends (or every choice) are valid.",
        document=DOCUMENT,
        details=details,
    )


def _amend(error: ConfigurationError, asked: dict[str, Any], base: dict[str, Any]) -> None:
    """Let the remedy give the search alone; one that lacks a space gets an example of one."""
    amend = error.details.get("amend")
    if amend is not None:
        error.details["amend"] = {"search": amend["search"].get("search")}
        return
    leaves = correct_changes(asked, base).leaves
    has_space = any(path[: len(SPACE)] == SPACE and leaves[path] for path in leaves)
    rest = {
        path[1]: value for path, value in leaves.items() if path[:1] == ("search",) and len(path) == 2 and path != SPACE
    }
    if not has_space:
        error.details["amend"] = {"search": {**rest, "space": EXAMPLE["space"]}}


def require_reported(evidence: Evidence, config: TrainingConfig) -> None:
    """Refuse to search by a metric that the newest baseline or smoke run of the configuration did not report.

    Raises:
        ConfigurationError: it names the metrics that were reported.
    """
    metric, run = config.selection.metric, evidence.baseline or evidence.smoke
    if run is None:
        return
    reported = sorted({name for event in run.directory.events("epoch") for name in event.data.get("validation") or {}})
    if reported and config.search is not None:
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
    """Refuse a further objective that nothing measures; the remedy is the same search with the nearest, or without."""
    search, goal = config.search, config.selection.metric
    assert search is not None  # noqa: S101 - whose objectives they are
    known = [*reported, *MEASURED]
    name = next((one.metric for one in search.objectives if one.metric not in known), None)
    if name is None:
        return
    taken = {goal, *(one.metric for one in search.objectives)}
    bare = name.removeprefix("validation/").removeprefix("val_")
    meant = [bare] if bare in known else near(name, [one for one in known if one not in taken])
    kept = [
        one.model_copy(update={"metric": meant[0]}) if one.metric == name else one
        for one in search.objectives
        if one.metric != name or (meant and meant[0] not in taken)
    ]
    again = _with_objectives(search, kept)
    hint = f" Did you mean {meant[0]!r}?" if meant else ""
    timed = " Seconds differ from run to run, so no trial could be made again by them; `parameters` counts weights."
    raise ConfigurationError(
        f"search.objectives names {name!r}, which nothing measures: {run} reported {', '.join(reported)}, and "
        f"{', '.join(MEASURED)} is counted.{hint}{timed if TIMED.search(name) else ''}",
        remedy=f"start_tuning(project={project!r}, search={json.dumps(again)}); or, to have {name!r} computed, "
        f"configure(project={project!r}, changes={{'metrics': {json.dumps([*map(_named, config.metrics), name])}}}).",
        document=OBJECTIVES_DOCUMENT,
        details={"amend": {"search": again}},
    )


def _with_objectives(search: SearchSection, kept: list[ObjectiveSection]) -> dict[str, Any]:
    """Return a search as a call gives it, with these objectives; without any, as one of a single objective is."""
    again = {name: value for name, value in search.as_asked().items() if name != "objectives"}
    if kept:
        return {**again, "objectives": [one.model_dump(mode="json", exclude_none=True) for one in kept]}
    if again.get("pruning") == {"name": "none"}:
        del again["pruning"]
    return {name: value for name, value in again.items() if (name, value) != ("method", "nsga2")}


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
