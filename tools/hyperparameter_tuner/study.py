"""Starting a study: everything that can be wrong with a search is said before the first trial."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import select

from trainwright.tools import ledger, limits
from trainwright.tools.gates import permits
from trainwright.tools.hyperparameter_tuner.process import ensure_conductor, forget_launches, study_folder
from trainwright.tools.hyperparameter_tuner.views import StudyView, view_study
from trainwright.tools.training_orchestrator.launch import new_id
from trainwright.tools.workspace.records import get_project, latest_config
from trainwright.tools.workspace.tables import Project, Run, Study
from trainwright.trainer.config import (
    SearchSection,
    TrainingConfig,
    apply_changes,
    config_digest,
    parse_config,
    settle,
)
from trainwright.trainer.config.meant import meant_by
from trainwright.trainer.config.objectives import MEASURING
from trainwright.trainer.config.search import Choices
from trainwright.trainer.errors import ConfigurationError
from trainwright.trainer.run import RunKind

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from trainwright.tools.workspace import Workspace
    from trainwright.trainer.config import Range

OBJECTIVE_MEASURES = tuple(f"objective.{key}" for key in MEASURING)
UNSEARCHABLE = (
    "seed", "code_root", "data", "task.use", "loss", "metrics", "returns", "training.device", "selection",
    "reproducibility", "search", "deployment", "checkpoints", "logging", *OBJECTIVE_MEASURES,
)  # fmt: skip
"""Keys that decide what is learned and how a result is judged, or that change nothing about it."""
DOCUMENT = "phases/optimization/workflow.md"
EXAMPLE = (
    '{"trials": 20, "space": {"optimizer.learning_rate": {"type": "float", "low": 0.0001, "high": 0.01, "log": true}}}'
)


def start_study(
    workspace: Workspace, project: str, *, search: dict[str, Any] | None = None, idempotency_key: str | None = None
) -> StudyView:
    """Start a search in a detached conductor and return at once.

    The same key, or the same search on the same configuration, gives the same study; one that was stopped goes on.

    Args:
        search: a search section; by default the configuration's own.

    Raises:
        GateRefusedError: the phase permits no trials.
        LimitReachedError: more trials than the project has left.
        ConfigurationError: no search section, or a space that does not fit the schema.
    """
    with workspace.session() as session:
        row = get_project(session, project)
        values = latest_config(session, project).values
        wanted, config, notes = _with_search(values, search)
        study = _existing(session, workspace, row, config, idempotency_key)
        if study is None or study.state == "stopped":
            permits.permit(session, workspace, row, RunKind.TRIAL)
            limits.require_room(session, workspace, row)
            section = _checked_search(config.search, wanted, project)
            limits.require_trials(session, workspace, row, study.id if study else None, section.trials)
            study = study or _new(session, row, wanted, section, idempotency_key)
            forget_launches(study_folder(workspace, project, study.id))
            study.state, study.failure, study.ended_at = "running", None, None
            body = {"study_id": study.id, "state": study.state, "search": study.search, "objective": study.objective,
                    "base_config_digest": study.base_config_digest, "idempotency_key": study.idempotency_key,
                    "created_at": ledger.as_told(study.created_at)}  # fmt: skip
            ledger.append(session, project, "study", body)
        study_id = study.id
    ensure_conductor(workspace, project, study_id)
    return view_study(workspace, study_id).model_copy(update={"taken_as": notes or None})


def _with_search(
    values: dict[str, Any], search: dict[str, Any] | None
) -> tuple[dict[str, Any], TrainingConfig, list[str]]:
    """Return the configuration with the search that is asked for, and how that was read.

    One with a space of its own takes the place of the configuration's; one without is laid over it.

    Raises:
        ConfigurationError: the search breaks the schema; the remedy gives it whole.
    """
    if search is None:
        return values, parse_config(values), []
    without = {name: value for name, value in values.items() if name != "search"}
    has_space = any(path[:2] == ("search", "space") for path in meant_by({"search": search}, without).leaves)
    try:
        settled = settle({"search": search}, without if has_space else values, argument="search", nested=True)
    except ConfigurationError as error:
        if "amend" in error.details:
            error.details["amend"] = {"search": error.details["amend"]["search"].get("search")}
        raise
    return settled.values, settled.config, settled.notes


def _existing(
    session: Session, workspace: Workspace, project: Project, config: TrainingConfig, key: str | None
) -> Study | None:
    """Return the study of this key, or of this very search on this configuration, data, code and environment."""
    query = select(Study).where(Study.project == project.name).order_by(Study.created_at.desc())
    studies = list(session.scalars(query))
    if key is not None and (named := next((s for s in studies if s.idempotency_key == key), None)) is not None:
        return named
    if config.search is None:
        return None
    wanted, digest = config.search.model_dump(mode="json"), config_digest(config)
    for study in studies:
        same = study.search == wanted and study.base_config_digest == digest and study.state != "failed"
        if (
            same
            and (key is None or study.idempotency_key is None)
            and _rests_on_present(session, workspace, project, study)
        ):
            return study
    return None


def _rests_on_present(session: Session, workspace: Workspace, project: Project, study: Study) -> bool:
    """Whether the trials so far were made under what planning fixes now; a table must not mix two data sets."""
    run = session.scalars(select(Run).where(Run.study == study.id).order_by(Run.created_at).limit(1)).first()
    if run is None:
        return True
    expected = permits.expected_digests(session, workspace, project)
    return workspace.run_directory(project.name, run.id).specification().expected == expected


def _new(session: Session, project: Project, values: dict[str, Any], search: SearchSection, key: str | None) -> Study:
    base = {name: value for name, value in values.items() if name != "search"}
    config = parse_config(base)
    study = Study(
        id=new_id("study", project.name),
        project=project.name,
        search=search.model_dump(mode="json"),
        objective={"metric": config.selection.metric, "direction": config.selection.direction},
        base_values=base,
        base_config_digest=config_digest(config),
        state="running",
        idempotency_key=key,
    )
    session.add(study)
    session.flush()
    return study


def _checked_search(search: SearchSection | None, values: dict[str, Any], project: str) -> SearchSection:
    if search is None:
        raise ConfigurationError(
            "The configuration has no `search` section, and none was given.",
            remedy=f"start_tuning(project='{project}', search={EXAMPLE})",
            document=DOCUMENT,
        )
    _check_comparable(values)
    for key, range_ in search.space.items():
        _check_searchable(key)
        _check_ends(key, range_, values)
    return search


def _check_searchable(key: str) -> None:
    """Refuse a forbidden key, what lies below it, and a section that holds it: searched whole, it would bring it in."""
    held = next((name for name in UNSEARCHABLE if f"{name}.".startswith(f"{key}.") or key.startswith(f"{name}.")), None)
    if held is not None:
        raise ConfigurationError(
            f"`{key}` cannot be searched over: `{held}` decides how results are judged, or has no part in them.",
            remedy="Search over single keys of the model, task.args, optimizer, schedule, loader or training sections.",
            document=DOCUMENT,
        )


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


def _check_ends(key: str, range_: Range, values: dict[str, Any]) -> None:
    ends = range_.choices if isinstance(range_, Choices) else [range_.low, range_.high]
    for end in ends:
        try:
            parse_config(apply_changes(values, {key: end}))
        except ConfigurationError as error:
            meant = [name for name, value in error.details.get("changes", {}).items() if value == end and name != key]
            remedy = f"Correct the range of `{key}`: both ends (or every choice) must be valid configurations."
            raise ConfigurationError(
                f"The search space is not valid at `{key}` = {end!r}: {error.message}",
                remedy=f"Search over `{meant[0]}` instead of `{key}`." if meant else remedy,
                document=DOCUMENT,
                details=error.details,
            ) from None
