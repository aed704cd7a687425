"""Searches of a project: earlier results, and the gain and cost of another."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

from trainwright.tools.answers import NextCall
from trainwright.tools.gates.ablated import more_seeds, space_to_confirm, watched_ablation
from trainwright.tools.gates.beside_rivals import baseline_outdone
from trainwright.tools.gates.call_history import ignored
from trainwright.tools.gates.cures import fixes_exhausted
from trainwright.tools.gates.edges import moved
from trainwright.tools.gates.next_after_run import make_room
from trainwright.tools.gates.offers import exit_in_words, owners_exit, what_it_takes
from trainwright.tools.gates.records import Records
from trainwright.tools.gates.studies import ended_studies, every_study, studies_of, study_told
from trainwright.tools.training_monitor.outdone import helping_changes, what_helps
from trainwright.tools.workspace import Workspace
from trainwright.tools.workspace.tables import Run
from trainwright.trainer.base.errors import StorageError
from trainwright.trainer.checkpoints.index import list_checkpoints
from trainwright.trainer.config import SearchSection, TrainingConfig, flatten
from trainwright.trainer.config.search_words import AskedSearch, asked_search
from trainwright.trainer.run import RunKind

MAX_REPEATS = 20
USUAL_REPEATS = 3
FIRST_TRIALS = 10
"""Trials of a search that neither configuration, call nor intent describes."""
ENOUGH_WITHIN_NOISE = 2
"""Searches without a validated improvement after which a further one is not advised."""
MAX_MOVED = 4
"""Searches after which no range is moved any further."""
MAX_TIMED = 10
"""Newest trials whose times are averaged."""
MAX_CHARACTERS = 160


def chosen_keys(evidence: Records, config: TrainingConfig) -> list[str]:
    """Return the keys whose values in a configuration a study of the project, on whichever version, found the best.

    Over seeds its best configuration was better than the baseline, beyond their noise.
    """
    ended = [body.get("confirmation") or {} for body in every_study(evidence).values() if body["state"] == "completed"]
    better = [one for one in ended if one.get("validated") and not is_baseline(one)]
    values = flatten(config.model_dump(mode="json"))
    return sorted({key for one in better for key, best in one["best_parameters"].items() if values.get(key) == best})


def unused_keys(evidence: Records) -> list[str]:
    """Return the keys of the proposed search if the baseline made no use of any of them: it could change nothing."""
    space = proposed_search(evidence)["space"]
    unused = ignored(evidence, list(space))
    return unused if len(unused) == len(space) else []


def unmet_wish(evidence: Records) -> AskedSearch | None:
    """Return the search that the project's intent asks for, until one has completed, on whichever configuration."""
    if any(body["state"] == "completed" for _, body in evidence.entries("study")):
        return None
    return asked_search(evidence.project.intent)


def no_room(evidence: Records) -> str:
    """Return why no search can be made, or none can help; empty where one can."""
    if unused := unused_keys(evidence):
        return (
            f"a search could change nothing: the run makes no use of {', '.join(unused)}; or search keys that it uses"
        )
    if evidence.spent:
        return evidence.spent
    return "" if _fitting(evidence)["trials"] >= 1 else "the time that is left is too short for a search"


def _fitting(evidence: Records) -> dict[str, Any]:
    """Return the proposed search with as many of its trials as fit the limits; below 1: none."""
    wanted = proposed_search(evidence)
    repeats = wanted.get("confirmation_repeats", USUAL_REPEATS)
    return {**wanted, "trials": affordable(evidence, wanted["trials"], repeats)}


def proposed_call(evidence: Records, why: str) -> NextCall:
    """Name the proposed search, as large as the limits leave; without arguments where it is the configuration's."""
    search = _fitting(evidence)
    if evidence.config.search is not None and search["trials"] == evidence.config.search.planned_trials:
        return evidence.call("start_tuning", why)
    return evidence.call("start_tuning", why, search={**search, "trials": max(search["trials"], 1)})


def reopening_call(evidence: Records) -> NextCall:
    """Name the change that opens a skipped phase again, before the export."""
    why = "asks for a search, which re-opens the skipped phase; then start_tuning"
    return evidence.call("configure", why, changes={"search": proposed_search(evidence)})


def first_search(evidence: Records) -> NextCall:
    """Name the first search: the configuration's or one around its learning rate, as large as the limits leave."""
    if (watched := watched_ablation(evidence)) is not None:
        return watched
    if why := no_room(evidence):
        return conclude(evidence, why)
    if (more := more_seeds(evidence, runs_left(evidence))) is not None:
        return more
    search = _fitting(evidence)
    why = f"search for better; {costs(evidence, search['trials'], search.get('confirmation_repeats', USUAL_REPEATS))}"
    if (rival := baseline_outdone(evidence)) is not None:
        why = f"{rival.clause()}. {what_helps(rival, evidence.config)} Or {why}"
        if changes := helping_changes(rival, evidence.config):
            return evidence.call("configure", f"{why}: start_tuning(project={evidence.name!r})", changes=changes)
    if exhausted := fixes_exhausted(evidence):
        why = f"{why}. Or end below the goal, since {exhausted}: {exit_in_words(evidence)}"
    return proposed_call(evidence, why)


def next_search(evidence: Records, found: dict[str, Any]) -> NextCall:
    """Name the call after an improvement that was not validated.

    A best that reaches the goal with every seed becomes the configuration; of one near an end of its range, the range
    is moved. Else more seeds for a gain above the noise, or more trials, once; then an exit. Never beyond the limits.

    Args:
        found: the comparison over seeds (`improvement.compare`).
    """
    assert evidence.study is not None, "what was measured was measured on its repetitions"  # noqa: S101
    search = SearchSection.model_validate(evidence.study.search)
    gain, spread = found["improvement_mean"], found["baseline_spread"]
    repeats = min(2 * search.confirmation_repeats, MAX_REPEATS)
    before = len(ended_studies(evidence))
    if further := change_to_best(evidence, found) or moved_search(evidence):
        return further
    if is_baseline(evidence.confirmation):
        changes: dict[str, Any] = {"trials": affordable(evidence, _twice(search), search.confirmation_repeats)}
        why = "the best trial is the baseline's own configuration: what else was found is within the noise"
    elif gain > spread and repeats > search.confirmation_repeats and search.trials <= evidence.trials_left:
        changes = {"confirmation_repeats": repeats}
        why = "the gain exceeds the spread, and so few seeds give a wide interval"
    else:
        changes = {"trials": affordable(evidence, _twice(search), search.confirmation_repeats)}
        why = f"the gain {gain:+.4g} is within the noise ({spread:.4g})"
    wanted = search.model_copy(update=changes)
    if "trials" in changes and (before >= ENOUGH_WITHIN_NOISE or wanted.trials <= search.trials):
        why = f"{why} after {before} {'search' if before == 1 else 'searches'}; {_left(evidence, search)}"
        return conclude(evidence, why)
    cost = costs(evidence, wanted.trials, wanted.confirmation_repeats)
    why = f"{why}; {cost}. Or end below the goal: {exit_in_words(evidence)}"
    return evidence.call("start_tuning", why, search=wanted.as_asked())


def change_to_best(evidence: Records, found: dict[str, Any]) -> NextCall | None:
    """Name the change to a best that reaches the goal with every seed, beside a baseline too uneven to compare."""
    own = evidence.confirmation.get("best_value")  # of the baseline's seed, with which it is trained next
    if (
        evidence.spent
        or is_baseline(evidence.confirmation)
        or not all(map(evidence.reaches_goal, [*found["best"], own]))
    ):
        return None
    worst = (min if evidence.goal["direction"] == "maximize" else max)(found["best"])
    why = (
        f"the best trial reaches the goal with each of {len(found['best'])} seeds ({worst:.4g} at the worst), beside a "
        f"baseline that varies by {found['baseline_spread']:.4g} from seed to seed: as the configuration it is a "
        "baseline that meets the goal"
    )
    searched = {"search": None} if evidence.config.search is not None else {}
    why += "; the section of the search is left out" if searched else ""
    return evidence.call("configure", why, changes={**evidence.confirmation["best_parameters"], **searched})


def moved_search(evidence: Records) -> NextCall | None:
    """Name the search that goes on in the direction of a best value near the end of its range; None without one."""
    if evidence.study is None or is_baseline(evidence.confirmation) or len(ended_studies(evidence)) >= MAX_MOVED:
        return None
    search = SearchSection.model_validate(evidence.study.search)
    best = evidence.confirmation.get("best_parameters") or {}
    if not best:
        return None
    space = moved(search, best, evidence.config.model_dump(mode="json"))
    trials = affordable(evidence, search.trials, search.confirmation_repeats)
    if not space or trials < 1 or evidence.spent:
        return None
    kept = {name: value for name, value in search.as_asked().items() if name not in {"guesses", "warm_start"}}
    named = ", ".join(f"{key} {best[key]:.4g}" for key in space)
    why = (
        f"the best value lies near an end of its range ({named}), which is moved that way; "
        f"{costs(evidence, trials, search.confirmation_repeats)}. Or end below the goal: {exit_in_words(evidence)}"
    )
    return evidence.call("start_tuning", why, search={**kept, "space": {**kept["space"], **space}, "trials": trials})


def is_baseline(confirmation: dict[str, Any]) -> bool:
    """Return whether a study's best configuration is the baseline's: its repetitions are the same runs."""
    return bool(confirmation) and confirmation.get("best_runs") == confirmation.get("baseline_runs")


def search_anew(evidence: Records, why: str) -> NextCall:
    """Name a new study, once, since the same search would only find the one that failed."""
    if len(ended_studies(evidence)) >= ENOUGH_WITHIN_NOISE or evidence.spent:
        return conclude(evidence, why)
    searched = [body["search"] for body in studies_of(evidence).values() if "search" in body]
    if not searched:
        return first_search(evidence)
    search = SearchSection.model_validate(searched[-1])
    trials = affordable(evidence, search.trials, search.confirmation_repeats)
    if trials < 1:
        return conclude(evidence, why)
    changes = {"seed": search.seed + 1, "trials": trials}
    wanted = search.model_copy(update=changes)
    cost = costs(evidence, wanted.trials, wanted.confirmation_repeats)
    arguments = wanted.as_asked()
    return evidence.call("start_tuning", f"a new study: {why}; {cost}", search=arguments)


def resumed_search(evidence: Records, entry: dict[str, Any]) -> NextCall:
    """Name the call after a stopped study: it is resumed, unless it has stopped twice by itself.

    A full disk is nothing of its own: it first gets room, and counts only where no trial ended since the stop before.
    """
    if _stops(evidence, entry["study_id"]) >= ENOUGH_WITHIN_NOISE or evidence.spent:
        return conclude(evidence, study_told(entry["study_id"], entry))
    width = int(entry["search"].get("width", 1))
    evidence.inspection.sources.are_fleeting = True  # as the room on the disk
    if room := room_for(evidence.workspace, evidence.name, entry.get("failure"), width):
        return room.model_copy(update={"why": f"{room.why}. Or end below the goal: {exit_in_words(evidence)}"})
    search = SearchSection.model_validate(entry["search"]).as_asked()
    why = f"the study goes on where it stopped. Or end below the goal: {exit_in_words(evidence)}"
    return evidence.call("start_tuning", why, search=search)


def room_for(workspace: Workspace, project: str, failure: dict[str, Any] | None, width: int) -> NextCall | None:
    """Name the call that frees the disk for a study that stopped there; None of another failure, or with room.

    Args:
        width: runs side by side, each of which needs room for two checkpoints like those of the run that had none.
    """
    if failure is None or failure["category"] != StorageError.category:
        return None
    run_id = (failure.get("details") or {}).get("run")
    records = list_checkpoints(workspace.run_directory(project, run_id)) if run_id else []
    needed = 2 * width * max((record.bytes for record in records), default=0)
    return make_room(project, workspace.path, needed, "start_tuning with the same search goes on")


def _stops(evidence: Records, study_id: str) -> int:
    """Return how often a study stopped by itself; for want of room on the disk only where it had got no further."""
    count, before = 0, -1
    for _, body in evidence.entries("study"):
        if body["study_id"] != study_id or body["state"] != "stopped" or not body.get("failure"):
            continue
        ended = sum(trial["state"] != "running" for trial in body.get("trials") or [])
        if body["failure"].get("category") != StorageError.category or ended <= before:
            count += 1
        before = ended
    return count


def conclude(evidence: Records, why: str) -> NextCall:
    """Name the agent's exit below the goal, and beside it the owner's."""
    owner = f"The owner may accept or revise instead: {owners_exit(evidence)}" if evidence.baseline else ""
    room = f"prune_checkpoints(project={evidence.name!r}) may give room for a search. " if "disk_bytes" in why else ""
    text = f"{why[: 2 * MAX_CHARACTERS]}. {what_it_takes(evidence)}{room}{owner}"
    return evidence.call("pass_gate", text, phase="optimization", conclude=True)


def costs(evidence: Records, trials: int, repeats: int) -> str:
    """Return the cost of a search, by the times of the configuration's trials, else of its baseline."""
    seconds = seconds_a_trial(evidence)
    if seconds is None:
        return f"{trials} trials and {2 * repeats} repetitions"
    whole = time_in_words((trials + 2 * repeats) * seconds)
    return f"{trials} trials and {2 * repeats} repetitions of {seconds:.3g} s: about {whole}"


def affordable(evidence: Records, trials: int, repeats: int) -> int:
    """Return how many of so many trials fit the limits on trials and time, beside the repetitions; below 1: none."""
    seconds, left = seconds_a_trial(evidence), evidence.seconds_left
    if not seconds or left is None:
        return min(trials, evidence.trials_left)
    return min(trials, evidence.trials_left, int(left / seconds) - 2 * repeats)


def runs_left(evidence: Records) -> int:
    """Return how many runs of the measured time the limits on trials and time leave."""
    seconds, left = seconds_a_trial(evidence), evidence.seconds_left
    return min(evidence.trials_left, int(left / seconds)) if seconds and left is not None else evidence.trials_left


def search_seconds(evidence: Records, arguments: dict[str, Any]) -> float | None:
    """Return how long the search of a call takes by measured runs, without what a stopped one has; None: unknown."""
    search = arguments.get("search") or proposed_search(evidence)
    seconds, trials = seconds_a_trial(evidence), search.get("trials")
    if seconds is None or not isinstance(trials, int):
        return None
    stopped = [body for body in studies_of(evidence).values() if body["state"] == "stopped"]
    done = max((len(body.get("trials") or []) for body in stopped), default=0)
    return seconds * (max(trials - done, 0) + 2 * int(search.get("confirmation_repeats", USUAL_REPEATS)))


def seconds_a_trial(evidence: Records) -> float | None:
    """Return the middle time of the configuration's newest sealed trials; without any, the baseline's."""
    studies = studies_of(evidence)
    ids = [
        run_id
        for run_id, start in evidence.facts.started.items()
        if run_id in evidence.facts.seals and start.study is not None
        and (start.study in studies if start.kind == RunKind.TRIAL else start.kind == RunKind.ABLATION)
    ]  # fmt: skip
    runs = [evidence.run(run_id) for run_id in ids[-MAX_TIMED:]] or [evidence.baseline]
    return middle_seconds([run.row for run in runs if run is not None])


def middle_seconds(runs: Sequence[Run]) -> float | None:
    """Return the median time from a run's order to its end, its process's start included; None where none has ended.

    Not the mean: a run that was stopped and resumed a day later lasted a day by its times.
    """
    times = [(run.ended_at - run.created_at).total_seconds() for run in runs if run.ended_at is not None]
    return max(statistics.median(times), 0.0) if times else None


def proposed_search(evidence: Records) -> dict[str, Any]:
    """Return the configuration's search, the one that confirms what an ablation study found, or one around the rate.

    Where the run makes no use of the rate, one over the task's numbers; of as many trials as the intent asks for.
    """
    search = evidence.config.search
    if search is not None:
        return search.as_asked() | {"trials": search.planned_trials}
    if found := space_to_confirm(evidence):
        return {"method": "grid", "trials": 2 ** len(found), "space": found}
    usual = _usual_space(evidence)
    own = _own_space(evidence) if ignored(evidence, list(usual)) else {}
    asked = asked_search(evidence.project.intent)
    return {"trials": (asked.trials if asked else None) or FIRST_TRIALS, "space": own or usual}


def _usual_space(evidence: Records) -> dict[str, Any]:
    """Search around the learning rate; around the batch size where only the user's optimizer knows the rate."""
    held, batch = evidence.config.optimizer.rate(), evidence.config.loader.batch_size
    if held is None:
        return {"loader.batch_size": {"type": "categorical", "choices": [(batch + 1) // 2, 2 * batch]}}
    low, high = (float(f"{end:.3g}") for end in (held[1] / 10, held[1] * 10))
    return {held[0]: {"type": "float", "low": low, "high": high, "log": True}}


def _own_space(evidence: Records) -> dict[str, Any]:
    """Search over the numbers that the user's task, or the function of the user's trainer, is given."""
    config = evidence.config
    sections = {"task": config.task, "trainer": config.trainer}
    args = {
        f"{section}.args.{name}": value
        for section, own in sections.items()
        for name, value in (own.args if own is not None else {}).items()
    }
    return {
        name: {"type": "float", "low": value / 10, "high": value * 10, "log": True}
        for name, value in args.items()
        if isinstance(value, float) and value > 0 and not ignored(evidence, [name])
    }


def _left(evidence: Records, search: SearchSection) -> str:
    trials = affordable(evidence, _twice(search), search.confirmation_repeats)
    if _twice(search) <= search.trials < evidence.trials_left:
        return "its grid has no further points"
    if trials <= search.trials:
        return f"{min(evidence.trials_left, max(trials, 0))} trials are left of the limits"
    return f"a further one would take {costs(evidence, trials, search.confirmation_repeats)}"


def _twice(search: SearchSection) -> int:
    """Return twice a search's trials, or the points of its grid where these are fewer."""
    return min(2 * search.trials, search.grid_points) if search.method == "grid" else 2 * search.trials


def time_in_words(seconds: float) -> str:
    """Return a time in seconds, minutes or hours."""
    if seconds < 600:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} minutes" if seconds < 7200 else f"{seconds / 3600:.1f} hours"
