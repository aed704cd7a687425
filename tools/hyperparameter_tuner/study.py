"""Starting a study: every error of a search is reported before the first trial."""

from __future__ import annotations

from typing import Any

from sqlalchemy import select

from trainwright.tools import ledger, limits
from trainwright.tools.gates import permits
from trainwright.tools.gates.evidence import Evidence
from trainwright.tools.gates.planned_code import require_planned_code
from trainwright.tools.gates.searches import proposed_call
from trainwright.tools.hyperparameter_tuner.ablation.section import is_ablation
from trainwright.tools.hyperparameter_tuner.ablation.start import start_ablation
from trainwright.tools.hyperparameter_tuner.experiments.start import is_experiment, start_experiment
from trainwright.tools.hyperparameter_tuner.found_bounds import with_found_bounds
from trainwright.tools.hyperparameter_tuner.process import ensure_conductor, forget_launches, study_folder
from trainwright.tools.hyperparameter_tuner.room_notes import room_notes
from trainwright.tools.hyperparameter_tuner.space import DOCUMENT, checked_search, require_reported, with_search
from trainwright.tools.hyperparameter_tuner.space_rules import objective_notes
from trainwright.tools.hyperparameter_tuner.start_points import begins_with, depends_on_present
from trainwright.tools.hyperparameter_tuner.suggest import made_by
from trainwright.tools.hyperparameter_tuner.views import StudyView, view_study
from trainwright.tools.hyperparameter_tuner.warm_start import settled_warm_start
from trainwright.tools.ledger.events import StudyChanged
from trainwright.tools.training_orchestrator.launch import new_id
from trainwright.tools.workspace import Workspace
from trainwright.tools.workspace.records import get_project, latest_config
from trainwright.tools.workspace.tables import Study, now
from trainwright.trainer.base.errors import ConfigurationError, ConflictError
from trainwright.trainer.config import (
    SearchSection,
    TrainingConfig,
    config_digest,
    parse_config,
)
from trainwright.trainer.config.search_words import asked_search
from trainwright.trainer.run import RunKind


def start_study(
    workspace: Workspace, project: str, *, search: dict[str, Any] | None = None, idempotency_key: str | None = None
) -> StudyView:
    """Start a search in a detached conductor and return at once.

    The same key, or the same search on the same configuration, gives the same study; one that was stopped is resumed.

    Args:
        search: a search section, by default the configuration's own; or `{"ablation": {…}}`, an ablation study; or
            `{"experiment": {"idea": …}}`, an experiment with the code as it stands.

    Raises:
        GateRefusedError: the phase permits no trials.
        LimitReachedError: more trials than the project has left.
        ConfigurationError: no search section, or a space that does not fit the schema.
        ConflictError: the key names a study of the other kind, or no probe has found the bounds that it asks for.
    """
    if is_experiment(search):
        study_id, notes = start_experiment(workspace, project, search or {}, idempotency_key)
        return view_study(workspace, study_id, estimate=True).model_copy(update={"taken_as": notes or None})
    if is_ablation(search):
        study_id, notes = start_ablation(workspace, project, search or {}, idempotency_key)
        return view_study(workspace, study_id, estimate=True).model_copy(update={"taken_as": notes or None})
    with workspace.session() as session:
        row = get_project(session, project)
        values = latest_config(session, project).values
        evidence = Evidence(session, workspace, project)
        search, bounds, found = with_found_bounds(evidence, search)
        wanted, config, notes = with_search(values, search)
        whole = config.search
        if whole is None:
            permits.permit(evidence, RunKind.TRIAL)
            raise _no_search(evidence)
        if search is not None:  # its errors are reported before the phase is asked to permit it
            whole = _as_large_as_asked(whole, evidence, notes)
            trials = checked_search(whole, wanted, project).trials  # a grid has no more than its points
            whole = whole if whole.is_whole_grid else whole.model_copy(update={"trials": trials})
            config = config.model_copy(update={"search": whole})
        study = _existing(evidence, config, idempotency_key)
        if study is None or study.state == "stopped":
            permits.permit(evidence, RunKind.TRIAL)
            limits.require_room(session, workspace, row)
            section = checked_search(whole, wanted, project)
            require_reported(evidence, config)
            choices = [{key: one} for key, range_ in section.space.items() for one in getattr(range_, "choices", [])]
            require_planned_code(evidence, choices, called="A search")
            own = section if study is None else SearchSection.model_validate(_going_on(study, section))
            notes += _notes(evidence, own, wanted, study)
            limits.require_trials(session, workspace, row, study.id if study else None, own.trials)
            notes += room_notes(evidence, own, study.base_values if study else wanted, study.id if study else None)
            begun = _again(study, section) if study else _new(evidence, wanted, section, idempotency_key, bounds)
            study_id = begun.study_id
            forget_launches(study_folder(workspace, project, study_id))
            ledger.record(session, project, begun)
        else:
            study_id = study.id
    ensure_conductor(workspace, project, study_id)
    return view_study(workspace, study_id, estimate=True).model_copy(update={"taken_as": [*notes, *found] or None})


def _no_search(evidence: Evidence) -> ConfigurationError:
    call = proposed_call(evidence, "the one that is proposed")
    return ConfigurationError(
        "The configuration has no `search` section, and none was given.",
        remedy=str(call),
        document=DOCUMENT,
        details={"amend": {"search": call.arguments["search"]}},
    )


def _as_large_as_asked(search: SearchSection, evidence: Evidence, notes: list[str]) -> SearchSection:
    """Return a search with as many trials as the intent asks for, where the call names no number, and note it."""
    asked = asked_search(evidence.project.intent)
    if asked is None or asked.trials is None or "trials" in search.model_fields_set or search.method == "grid":
        return search
    notes.append(f"trials {asked.trials}: the intent asks for {asked.words!r}")
    return search.model_copy(update={"trials": asked.trials})


def _existing(evidence: Evidence, config: TrainingConfig, key: str | None) -> Study | None:
    """Return the study of this key, or of this very search on this configuration, data, code and environment."""
    query = select(Study).where(Study.project == evidence.name).order_by(Study.created_at.desc())
    studies = list(evidence.session.scalars(query))
    if key is not None and (named := next((s for s in studies if s.idempotency_key == key), None)) is not None:
        if named.is_ablation:
            raise ConflictError(
                f"The idempotency key {key!r} already names the ablation study {named.id}.",
                remedy="Use another key for the search.",
            )
        return named
    if config.search is None:
        return None
    for study in studies:
        if study.is_ablation:
            continue
        same = (
            study.base_config_digest == evidence.config_digest
            and study.state != "failed"
            and config.search.is_answered_by(study.search)
        )
        if same and (key is None or study.idempotency_key is None) and depends_on_present(evidence, study):
            return study
    return None


def _notes(evidence: Evidence, search: SearchSection, values: dict[str, Any], study: Study | None) -> list[str]:
    """Return what a search takes for granted; of a study that goes on, by its own objective and configuration."""
    if study is not None:
        goal = study.objective["metric"]
        return begins_with(search, study.base_values) + objective_notes(search, {}, goal)
    goal = evidence.config.selection.metric
    return begins_with(search, values) + objective_notes(search, values.get("search") or {}, goal)


def _going_on(study: Study, asked: SearchSection) -> dict[str, Any]:
    """Return the search of a study that goes on: its own, on GPUs shared as is asked for now."""
    is_asked = "trials_per_gpu" in asked.model_fields_set
    return study.search | ({"trials_per_gpu": asked.trials_per_gpu} if is_asked else {})


def _again(study: Study, asked: SearchSection) -> StudyChanged:
    return StudyChanged(
        study_id=study.id, state="running", search=_going_on(study, asked), objective=study.objective,
        base_config_digest=study.base_config_digest, idempotency_key=study.idempotency_key,
        created_at=study.created_at, made_by=made_by(),
    )  # fmt: skip


def _new(
    evidence: Evidence,
    values: dict[str, Any],
    search: SearchSection,
    key: str | None,
    bounds: dict[str, Any] | None = None,
) -> StudyChanged:
    base = {name: value for name, value in values.items() if name != "search"}
    config = parse_config(base)
    objective = {"metric": config.selection.metric, "direction": config.selection.direction}
    if search.warm_start is not False:
        search = search.model_copy(update={"warm_start": settled_warm_start(evidence, search, base, objective)})
    return StudyChanged(
        study_id=new_id("study", evidence.name),
        state="running",
        search=search.model_dump(mode="json"),
        objective=objective,
        base_config_digest=config_digest(config),
        idempotency_key=key,
        created_at=now(),
        made_by=made_by(),
        **({"bounds": bounds} if bounds else {}),
    )
