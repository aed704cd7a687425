"""The database's rows beside the ledger: they are only an index, so one that tells something else was edited."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from sqlalchemy import select, text

import trainwright
from trainwright.tools.ledger.projection import SINCE_CREATED, changed_columns
from trainwright.tools.verification.findings import Case, Finding, Found, found
from trainwright.tools.workspace.tables import ConfigVersion, GateDecision, Project, RegisteredModel, Study, Trial
from trainwright.trainer.base.errors import TrainwrightError
from trainwright.trainer.config import config_digest, flatten, parse_config

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

TRIGGERS = {
    f"ledger_no_{action.lower()}": f"CREATE TRIGGER ledger_no_{action.lower()} BEFORE {action} ON ledger "
    "BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END"
    for action in ("DELETE", "UPDATE")
}
"""What the migrations made, word for word."""


def verify_projects(case: Case) -> Found:
    """Compare goals, limits and code roots, and name removed projects."""
    rows = {row.name: row for row in case.session.scalars(select(Project))}
    problems = [difference for row in rows.values() for difference in case.project(row.name).project_differences(row)]
    recorded = [entry.project for entry, _ in case.of("project_created")]
    problems += [f"project {name} was removed from the database" for name in recorded if name not in rows]
    return len(rows), found("database", problems)


def verify_configurations(case: Case) -> Found:
    """Compare every configuration version, its digest computed anew."""
    rows = {(row.project, row.number): row for row in case.session.scalars(select(ConfigVersion))}
    problems: list[str] = []
    of_versions: list[Finding] = []
    for (project, number), row in rows.items():
        differences = case.project(project).configuration_differences(row)
        if not differences and _digest_of(row.values) != row.digest:
            told = f"project {project}: configuration version {number} does not have its recorded digest"
            if _is_of_other_version(case, project):
                of_versions.append(Finding(where="version", what=f"{told} in this version's schema", counts=False))
            else:
                differences = [told]
        problems += differences
    recorded = [(entry.project, body["number"]) for entry, body in case.of("config_version")]
    problems += [f"project {p}: configuration version {n} was removed" for p, n in recorded if (p, n) not in rows]
    return len(rows), found("configuration", problems) + of_versions


def _is_of_other_version(case: Case, project: str) -> bool:
    """Whether another version made the project's decisions, and all of its runs trained what its versions say."""
    made_by = {
        body.get("circumstances", {}).get("version") for entry, body in case.of("gate") if entry.project == project
    }
    if not made_by - {trainwright.__version__}:
        return False
    facts = case.project(project)
    values = {body["digest"]: flatten(body["values"]) for body in facts.configurations.values()}
    for run_id, body in facts.started.items():
        wanted, path = (
            values.get(body["config_digest"]),
            case.workspace.run_directory(project, run_id).path / "run.json",
        )
        trained = flatten(json.loads(path.read_bytes())["config"]) if path.is_file() else {}
        if wanted and any(trained.get(key, value) != value for key, value in wanted.items() if key in trained):
            return False
    return True


def verify_decisions(case: Case) -> Found:
    """Compare every gate decision's row with its ledger entry."""
    recorded = {entry.sequence: body for entry, body in case.of("gate")}
    owners = {entry.sequence: entry.project for entry, _ in case.of("gate")}
    rows = {row.ledger_sequence: row for row in case.session.scalars(select(GateDecision))}
    problems = []
    for sequence, row in rows.items():
        body = recorded.get(sequence)
        what = f"project {row.project}: decision on {row.phase} (ledger {sequence})"
        if body is None:
            problems.append(f"{what} has no ledger entry")
        elif (row.project, row.phase, row.passed) != (owners[sequence], body["phase"], body["outcome"] != "refused"):
            problems.append(f"{what} was changed in the database")
        elif row.rested_on != body["rested_on"] or row.report != {key: body[key] for key in ("outcome", "checks")}:
            problems.append(f"{what}: its evidence was changed in the database")
        elif changed_columns(row, body, (), SINCE_CREATED):
            problems.append(f"{what}: its time was changed in the database")
    problems += [f"the decision of ledger entry {s} was removed from the database" for s in recorded if s not in rows]
    return len(rows), found("database", problems)


def verify_studies(case: Case) -> Found:
    """Compare every study with what its entries say, and its trials once it has ended, whatever its row's state is."""
    started = {body["study_id"]: (entry.project, body) for entry, body in case.of("study") if "search" in body}
    recorded = {body["study_id"]: body for _, body in case.of("study")}
    rows = {row.id: row for row in case.session.scalars(select(Study))}
    problems = []
    for study_id, row in rows.items():
        if study_id not in started:
            problems.append(f"study {study_id} has no ledger entry")
            continue
        changed = _changed_study(row, *started[study_id], recorded[study_id])
        problems += [f"study {study_id}: its {name} was changed in the database" for name in changed]
        problems += _changed_trials(case.session, study_id, recorded[study_id].get("trials"))
    problems += [f"study {study_id} was removed from the database" for study_id in recorded if study_id not in rows]
    return len(rows), found("database", problems)


def verify_models(case: Case) -> Found:
    """Compare the model registry."""
    recorded = {(entry.project, body["version"]): body for entry, body in case.of("model_registered")}
    rows = {(row.project, row.version): row for row in case.session.scalars(select(RegisteredModel))}
    columns = {"run": "run_id", "checkpoint_digest": "checkpoint_digest", "metrics": "metrics", "lineage": "lineage"}
    problems = []
    for (project, version), row in rows.items():
        body = recorded.get((project, version))
        what = f"project {project}: registered model {version}"
        if body is None:
            problems.append(f"{what} has no ledger entry")
        elif any(getattr(row, column) != body.get(name) for column, name in columns.items()) or changed_columns(
            row, body, (), SINCE_CREATED
        ):
            problems.append(f"{what} was changed in the database")
    problems += [f"project {p}: registered model {v} was removed" for p, v in recorded if (p, v) not in rows]
    return len(rows), found("database", problems)


def verify_triggers(case: Case) -> Found:
    """Look whether the database still refuses to change the ledger; a trigger of the right name may refuse nothing."""
    query = text("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'")
    present = {name: " ".join(str(sql).split()) for name, sql in case.session.execute(query)}
    problems = [f"the database's trigger {name} was removed" for name in TRIGGERS if name not in present]
    problems += [f"the database's trigger {name} was changed" for name in TRIGGERS.keys() & present.keys()
                 if present[name] != TRIGGERS[name]]  # fmt: skip
    problems += [f"the database's trigger {name} was added" for name in sorted(present.keys() - TRIGGERS.keys())]
    return len(TRIGGERS), found("database", problems)


def _changed_study(row: Study, project: str | None, start: dict[str, Any], last: dict[str, Any]) -> list[str]:
    """Return the columns of a study's row that its first entry, or its latest one, tells otherwise."""
    later = (*SINCE_CREATED, "idempotency_key")
    changed = changed_columns(row, start, ("search", "objective", "base_config_digest"), later)
    changed += [] if row.project == project else ["project"]
    changed += [] if _digest_of(row.base_values) == start.get("base_config_digest") else ["base_values"]
    return changed + changed_columns(row, last, ("state", "confirmation", "failure"))


def _changed_trials(session: Session, study_id: str, recorded: list[dict[str, Any]] | None) -> list[str]:
    if recorded is None:
        return []  # under way, or stopped
    rows = session.scalars(select(Trial).where(Trial.study == study_id).order_by(Trial.number))
    present = [{name: getattr(row, name) for name in recorded[0]} for row in rows] if recorded else []
    if len(present) != len(recorded):
        return [f"study {study_id}: it has {len(present)} trials, the ledger has {len(recorded)}"]
    pairs = zip(present, recorded, strict=True)
    return [f"study {study_id}: trial {b['number']} was changed in the database" for a, b in pairs if a != b]


def _digest_of(values: dict[str, Any]) -> str:
    try:
        return config_digest(parse_config(values))
    except TrainwrightError:
        return "not valid"
