"""Confirmation of the best configuration: it and the baseline again, on several seeds (PHASE-5, TUNE-5)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from trainwright.tools import ledger
from trainwright.tools.gates.evidence import Evidence
from trainwright.tools.gates.improvement import compare, confirmation_seeds, look_number, repeated_values
from trainwright.tools.gates.study_check import exceeded, place
from trainwright.tools.hyperparameter_tuner.follow_run import run_to_end, start_when_there_is_room
from trainwright.tools.hyperparameter_tuner.start_points import earlier_runs
from trainwright.tools.hyperparameter_tuner.trials import COMPLETED, TrialRecord, best_trial, side_by_side, trials_of
from trainwright.tools.ledger.events import StudyChanged
from trainwright.tools.training_orchestrator.run_plan import CONFIRMATION
from trainwright.tools.workspace import Workspace
from trainwright.tools.workspace.records import require_active
from trainwright.tools.workspace.tables import Study
from trainwright.trainer.base.errors import ConfigurationError, UserCodeError
from trainwright.trainer.config import SearchSection, apply_changes, config_digest, parse_config
from trainwright.trainer.config.search import ObjectiveSection
from trainwright.trainer.run import RunKind, RunState
from trainwright.trainer.run.evidence import Data

CONFIRMING = "confirming"
SIDES = (RunKind.BASELINE, RunKind.TRIAL)


def confirm(workspace: Workspace, study_id: str) -> dict[str, Any]:
    """Repeat the best trial's configuration and the baseline's on seeds of the server's, and compare in pairs.

    Runs that exist already (same configuration, seed, data, code and environment; completed and unchanged since) are
    not repeated.

    Raises:
        ConflictError: the study was stopped meanwhile.
        UserCodeError: no trial completed, a repetition failed, or what it reported is not what its program gives.
        GateRefusedError, LimitReachedError: no permit for a repetition.
    """
    with workspace.session() as session:
        study = require_active(session, study_id)
        trials = trials_of(session, study_id)
        objectives = SearchSection.model_validate(study.search).objectives
        best = best_trial(trials, study.objective["direction"], objectives)
        if study.state != CONFIRMING:
            ledger.record(session, study.project, StudyChanged(study_id=study_id, state=CONFIRMING))
    if best is None:
        raise _none_within(study, trials, objectives) or _none_completed(study, trials)
    base = parse_config(study.base_values)
    seeds = confirmation_seeds(study.base_config_digest, study.search["confirmation_repeats"], own_seed=base.seed)
    sides = _repeated(workspace, study, best.parameters, seeds)
    values, is_certified = _values(workspace, study, sides)
    samples = _samples(workspace, study, sides["baseline"][0])
    with workspace.session() as session:
        bodies = [body for _, body in ledger.entries(session, study.project, "study")]
    look = look_number(bodies, study_id, seeds, best.parameters)
    return {
        **study.objective,
        "seeds": seeds,
        "best_trial": best.number,
        "best_parameters": best.parameters,
        "best_value": best.value,
        **values,
        **({} if is_certified is None else {"certified": is_certified}),
        "baseline_runs": sides["baseline"],
        "best_runs": sides["best"],
        **compare(values["baseline"], values["best"], study.objective["direction"], samples=samples, look=look),
    }


def _none_completed(study: Study, trials: list[TrialRecord]) -> UserCodeError:
    """Return the error of a study without a best configuration, with the last cause there is."""
    causes = [trial.attributes["cause"] for trial in trials if trial.attributes.get("cause")]
    last = f" The last one: {causes[-1].get('message')}" if causes else ""
    return UserCodeError(
        f"None of the study's {len(trials)} trials completed, so there is no best configuration.{last}",
        remedy=f"tuning_status(study_id='{study.id}', detail='full') shows the rest; widen or correct the space.",
        details={"causes": [cause.get("category") for cause in causes]},
    )


def _none_within(
    study: Study, trials: list[TrialRecord], objectives: Sequence[ObjectiveSection]
) -> ConfigurationError | None:
    """Return the error of a study whose completed trials all break the bounds; None where none completed."""
    completed = [trial for trial in trials if trial.state == COMPLETED]
    if not completed:
        return None
    direction = study.objective["direction"]
    nearest = min(
        completed,
        key=lambda trial: (
            [exceeded(trial.further, one) for one in objectives],
            place(trial.value or 0.0, trial.further, direction, objectives),
        ),
    )
    found = ", ".join(f"{metric} {value:g}" for metric, value in nearest.further.items())
    said = "; ".join(one.bounds for one in objectives if one.bounds)
    wanted = {one.metric: one.model_dump(mode="json", exclude_none=True) for one in objectives}
    for one in objectives:
        value = nearest.further[one.metric]
        wanted[one.metric] |= {"at_most": value} if one.at_most is not None and value > one.at_most else {}
        wanted[one.metric] |= {"at_least": value} if one.at_least is not None and value < one.at_least else {}
    again = SearchSection.model_validate(study.search).as_asked() | {"objectives": list(wanted.values())}
    return ConfigurationError(
        f"None of the {len(completed)} completed trials keeps the bounds ({said}); the nearest is trial "
        f"{nearest.number} with {found}.",
        remedy="start_tuning with the bounds below takes its trials over and trains none again; or widen the space.",
        document="configs/searches.md",
        details={"next": {"tool": "start_tuning", "arguments": {"project": study.project, "search": again}}},
    )


def baseline_values(workspace: Workspace, study: Study) -> tuple[list[float], int]:
    """Return the baseline's values over the study's seeds, and the samples they were measured on.

    Its repetitions are those of the confirmation, made sooner: nothing is trained twice. Raises as `confirm` does.
    """
    base = parse_config(study.base_values)
    seeds = confirmation_seeds(study.base_config_digest, study.search["confirmation_repeats"], own_seed=base.seed)
    tasks = [partial(_run_of, workspace, study, RunKind.BASELINE, {}, seed) for seed in seeds]
    runs = side_by_side(SearchSection.model_validate(study.search).width, tasks)
    return _values(workspace, study, {"baseline": runs})[0]["baseline"], _samples(workspace, study, runs[0])


def _samples(workspace: Workspace, study: Study, run_id: str) -> int:
    return workspace.run_directory(study.project, run_id).part(Data).sizes.get("validation", 0)


def _repeated(workspace: Workspace, study: Study, parameters: dict[str, Any], seeds: list[int]) -> dict[str, list[str]]:
    """Return the runs of each side in the order of the seeds, as many side by side as the trials were."""
    best = config_digest(parse_config(apply_changes(study.base_values, parameters)))
    if best == config_digest(parse_config(study.base_values)):  # the present one: it improves on itself by nothing
        tasks = [partial(_run_of, workspace, study, RunKind.BASELINE, {}, seed) for seed in seeds]
        runs = side_by_side(SearchSection.model_validate(study.search).width, tasks)
        return {"baseline": runs, "best": runs}
    order: list[tuple[RunKind, dict[str, Any]]] = [(RunKind.BASELINE, {}), (RunKind.TRIAL, parameters)]
    tasks = [partial(_run_of, workspace, study, kind, changes, seed) for seed in seeds for kind, changes in order]
    runs = side_by_side(SearchSection.model_validate(study.search).width, tasks)
    return {"baseline": runs[::2], "best": runs[1::2]}


def _run_of(workspace: Workspace, study: Study, kind: RunKind, parameters: dict[str, Any], seed: int) -> str:
    """Return a completed run of this configuration and seed: one that exists, or a new one followed to its end."""
    config = parse_config(apply_changes(study.base_values, {**parameters, "seed": seed}))
    existing = _existing_run(workspace, study, config_digest(config))
    if existing is not None:
        return existing
    side = "best" if kind is RunKind.TRIAL else "baseline"
    view = start_when_there_is_room(
        workspace,
        study.project,
        kind,
        base=study.base_values,
        changes=parameters,
        seed=seed,
        study_id=study.id,
        label=CONFIRMATION,
        idempotency_key=f"{study.id}/{CONFIRMATION}-{side}-{seed}",
    )
    most = SearchSection.model_validate(study.search).stalled_seconds
    seen = run_to_end(workspace, view.run_id, lambda _directory, _seen: None, stalled_seconds=most)
    if seen.state is not RunState.COMPLETED:
        reason = seen.failure.message if seen.failure else f"it was stopped ({seen.status.stop_reason})"
        raise UserCodeError(
            f"The repetition of the {side} configuration with seed {seed} did not complete: {reason}",
            remedy=f"run_status(run_id='{view.run_id}') tells why; a configuration that fails on a seed is not better.",
        )
    return view.run_id


def _existing_run(workspace: Workspace, study: Study, digest: str) -> str | None:
    for row, directory in earlier_runs(workspace, study.project, digest, *SIDES, study=study.id):
        if row.state == RunState.COMPLETED and directory.specification().exports_program:
            return row.id
    return None


def _values(workspace: Workspace, study: Study, sides: dict[str, list[str]]) -> tuple[dict[str, list[float]], bool]:
    """Return each side's values over the seeds, and whether they are certified.

    Raises:
        UserCodeError: figures that are certified of some repetitions alone, that differ, or that are missing.
    """
    with workspace.session() as session:
        evidence = Evidence(session, workspace, study.project)
        runs = {side: [run for run_id in ids if (run := evidence.run(run_id))] for side, ids in sides.items()}
        values, is_certified, problems = repeated_values(runs, study.objective["metric"])
    if problems:
        raise UserCodeError(
            f"The repetitions cannot be compared: {problems[0]}.",
            remedy="run_status(run_id=…) of that run shows both figures; select by a metric that is computed.",
        )
    return values, is_certified
