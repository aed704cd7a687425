"""Starting an ablation study: everything wrong with it is reported before its first run."""

from __future__ import annotations

from typing import Any

from sqlalchemy import select

from trainwright.tools import ledger, limits
from trainwright.tools.gates import permits
from trainwright.tools.gates.call_history import ignored
from trainwright.tools.gates.evidence import Evidence
from trainwright.tools.gates.phase_status import phase_status_of
from trainwright.tools.gates.phases import Phase
from trainwright.tools.gates.planned_code import require_planned_code
from trainwright.tools.hyperparameter_tuner.ablation.section import (
    DOCUMENT,
    AblationSearch,
    checked_ablation,
    recorded_search,
    refusal,
)
from trainwright.tools.hyperparameter_tuner.process import ensure_conductor, forget_launches, study_folder
from trainwright.tools.hyperparameter_tuner.start_points import depends_on_present
from trainwright.tools.ledger.events import AblationChanged
from trainwright.tools.training_orchestrator.launch import new_id
from trainwright.tools.workspace import Workspace
from trainwright.tools.workspace.records import latest_config
from trainwright.tools.workspace.tables import Study, now
from trainwright.trainer.base.errors import ConflictError, LimitReachedError
from trainwright.trainer.config import config_digest, parse_config
from trainwright.trainer.run import RunKind


def start_ablation(
    workspace: Workspace, project: str, search: dict[str, Any], idempotency_key: str | None = None
) -> tuple[str, list[str]]:
    """Start an ablation study in a detached conductor; return its id and how the call was read.

    The same key, or the same study of the same configuration, gives the same one; one that was stopped is resumed.

    Raises:
        ConfigurationError: `checked_ablation`, or factors of which the runs make no use.
        GateRefusedError: the project has no baseline yet whose gate has passed.
        LimitReachedError: more runs, or by the baseline's time more seconds, than the limits leave.
        ConflictError: the key names a search, or a level code that planning has not seen.
    """
    with workspace.session() as session:
        evidence = Evidence(session, workspace, project)
        base, is_settled = reference_of(evidence)
        asked, notes = checked_ablation(search, base, project)
        study = _existing(evidence, asked, base, idempotency_key)
        if study is None or study.state == "stopped":
            permits.permit(evidence, RunKind.ABLATION)
            if study is None:
                _require_use(evidence, asked, base)
                arms = [arm.changes for arm in asked.design.arms]
                require_planned_code(evidence, arms, called="An ablation study")
            limits.require_room(session, workspace, evidence.project)
            limits.require_trials(session, workspace, evidence.project, study.id if study else None, asked.runs)
            _require_time(evidence, asked, study)
            begun = _again(study) if study else begun_by(evidence, asked, base, is_settled, idempotency_key)
            forget_launches(study_folder(workspace, project, begun.study_id))
            ledger.record(session, project, begun)
            study_id = begun.study_id
        else:
            study_id = study.id
    ensure_conductor(workspace, project, study_id)
    return study_id, notes


def reference_of(evidence: Evidence) -> tuple[dict[str, Any], bool]:
    """Return the values that levels are compared with, and whether the optimization gate settled them."""
    values, settled = latest_config(evidence.session, evidence.name).values, None
    if phase_status_of(evidence).phase is Phase.FINALIZATION:
        settled = evidence.final_values
    chosen = values if settled is None else settled
    return {name: value for name, value in chosen.items() if name != "search"}, settled is not None


def _existing(evidence: Evidence, asked: AblationSearch, base: dict[str, Any], key: str | None) -> Study | None:
    """Return the study of this key, or this very one of this configuration, data, code and environment."""
    digest = config_digest(parse_config(base))
    query = select(Study).where(Study.project == evidence.name).order_by(Study.created_at.desc())
    studies = list(evidence.session.scalars(query))
    named = next((study for study in studies if key is not None and study.idempotency_key == key), None)
    if named is not None and not named.is_ablation:
        raise ConflictError(
            f"The idempotency key {key!r} already names the search {named.id}.",
            remedy="Use another key for the ablation study.",
        )
    if named is not None:
        return named
    for study in studies:
        is_of_base = study.base_config_digest == digest
        same = is_of_base and study.is_ablation and study.state != "failed" and recorded_search(study.search) == asked
        if same and (key is None or study.idempotency_key is None) and depends_on_present(evidence, study):
            return study
    return None


def _require_use(evidence: Evidence, asked: AblationSearch, base: dict[str, Any]) -> None:
    """Refuse factors that the baseline reported as keys without effect: their runs would only repeat it."""
    factors, combinations = asked.ablation.factors, asked.ablation.combinations
    unused = ignored(evidence, list(dict.fromkeys(key for changed in (factors, *combinations) for key in changed)))
    if not unused:
        return
    left = {key: levels for key, levels in factors.items() if key not in unused}
    whole = [one for one in combinations if not one.keys() & set(unused)]
    section = asked.ablation.model_copy(update={"factors": left, "combinations": whole, "design": "one_at_a_time"})
    raise refusal(
        f"The run makes no use of {', '.join(unused)}: leaving it out changes nothing.",
        asked.model_copy(update={"ablation": section}) if not section.is_repetition else None,
        base,
        evidence.name,
    )


def _require_time(evidence: Evidence, asked: AblationSearch, study: Study | None) -> None:
    """Refuse a study that by the baseline's measured time exceeds what is left; one that goes on takes the rest."""
    baseline = evidence.baseline
    if study is not None or baseline is None or not baseline.is_complete:
        return
    seconds = baseline.summary.train_seconds * asked.runs
    lines = limits.limit_table(evidence.session, evidence.workspace, evidence.project)["wall_clock_seconds"]
    least = min(lines, key=lambda line: line.left)
    if seconds > least.left:
        fitting = int(max(least.left, 0.0) / max(baseline.summary.train_seconds, 1e-9))
        raise LimitReachedError(
            f"{asked.runs} runs of {baseline.summary.train_seconds:.3g} s, as the baseline took, are {seconds:.4g} s; "
            f"{least.name} has {max(least.left, 0.0):.4g} s left of {least.allowed:.6g}.",
            remedy=f"At most {fitting} runs fit: fewer factors or repeats.",
            document=DOCUMENT,
            details={"limit": least.name, "used": least.used, "reserved": least.reserved, "allowed": least.allowed},
        )


def _again(study: Study) -> AblationChanged:
    return AblationChanged(study_id=study.id, state="running", search=study.search)


def begun_by(
    evidence: Evidence, asked: AblationSearch, base: dict[str, Any], is_settled: bool, key: str | None
) -> AblationChanged:
    """Return the entry by which a study, or an experiment, begins on its reference's values."""
    config = parse_config(base)
    return AblationChanged(
        study_id=new_id("ablation", evidence.name),
        state="running",
        search=asked.recorded(),
        objective={"metric": config.selection.metric, "direction": config.selection.direction},
        base_config_digest=config_digest(config),
        **({"base_values": base} if is_settled else {}),
        idempotency_key=key,
        created_at=now(),
    )
