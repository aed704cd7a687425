"""Starting an experiment: what it is compared with, the snapshot of its code, and all that is wrong with it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, ValidationError

from trainwright.tools import ledger, limits
from trainwright.tools.gates import permits
from trainwright.tools.gates.evidence import Evidence
from trainwright.tools.hyperparameter_tuner.ablation.section import (
    AblationSearch,
    AblationSection,
    ExperimentSection,
    checked_changes,
)
from trainwright.tools.hyperparameter_tuner.experiments.journal import (
    DOCUMENT,
    Experiment,
    experiments_of,
    incumbent_of,
)
from trainwright.tools.hyperparameter_tuner.experiments.verdict import LEAST_KEPT
from trainwright.tools.hyperparameter_tuner.process import ensure_conductor
from trainwright.tools.ledger.events import AblationChanged
from trainwright.tools.training_orchestrator.launch import new_id
from trainwright.tools.training_orchestrator.snapshots import code_of, of_accepted_code, snapshot_folder, take_snapshot
from trainwright.tools.workspace import Workspace
from trainwright.tools.workspace.records import latest_config
from trainwright.tools.workspace.tables import now
from trainwright.trainer.base.errors import ConfigurationError, ConflictError, NotFoundError, near_matches
from trainwright.trainer.base.records import Closed
from trainwright.trainer.config import config_digest, flatten, parse_config
from trainwright.trainer.config.schema import FUNCTION
from trainwright.trainer.run import RunKind
from trainwright.trainer.user_code.entries import entry_file

KEY = "experiment"
PLANNED = "planned"
EXAMPLE = {KEY: {"idea": "batch norm after each convolution"}}
JUDGING = ("data", "metrics", "loss", "evaluation_gate")
"""Sections that name the user's code by which rows are made and results are judged."""


class AskedExperiment(Closed):
    """An experiment as `start_tuning` is given one."""

    idea: Annotated[str, Field(min_length=3, max_length=300)]
    """What is changed, in words."""
    changes: dict[str, Any] = Field(default_factory=dict)
    """Dotted configuration keys that differ from the incumbent's."""
    code: str | None = None
    """`experiment-3` or `planned`: the code of then; by default the code root as it stands."""
    against: str | None = None
    """`experiment-3` or `planned`; by default the newest that was kept."""
    max_repeats: Annotated[int, Field(ge=LEAST_KEPT, le=20)] = 8
    """Seeds that it may take, on each of which the incumbent is trained too."""
    confirm: bool = False
    """Take all of them before the only look, which leaves the difference unbiased."""


def is_experiment(search: dict[str, Any] | None) -> bool:
    """Return whether a search that is asked for is an experiment."""
    return isinstance(search, dict) and KEY in search


def start_experiment(
    workspace: Workspace, project: str, search: dict[str, Any], idempotency_key: str | None = None
) -> tuple[str, list[str]]:
    """Take the snapshot, record the experiment and start its conductor; return its id and how the call was read.

    The gates stay as they are: they belong to the code that planning and baseline accepted.

    Raises:
        ConfigurationError: it breaks the form, changes a key that decides how results are judged, or nothing.
        ConflictError: no baseline whose code was kept, or a file that judges results was edited.
        GateRefusedError: the project has no baseline yet whose gate has passed.
        LimitReachedError: more runs than the limits leave.
        NotFoundError: there is no such experiment.
    """
    asked, width = _read(search, project)
    with workspace.session() as session:
        evidence = Evidence(session, workspace, project)
        named = next((one for one in experiments_of(evidence) if idempotency_key and one.key == idempotency_key), None)
        if named is not None:
            return named.study, []
        evidence = of_accepted_code(evidence)
        root, accepted = Path(evidence.project.code_root), str(evidence.code_state)
        permits.permit(evidence, RunKind.ABLATION)
        base = {name: one for name, one in latest_config(session, project).values.items() if name != "search"}
        before = _incumbent(evidence, asked.against, accepted)
        changes, notes = checked_changes(_other_than(base, {**before.changes, **asked.changes}), base, project)
        code = take_snapshot(workspace, project, root) if asked.code is None else _code(evidence, asked.code, accepted)
        _require_another(code, changes, before, asked)
        _require_same_judge(evidence, accepted, code)
        section = ExperimentSection(
            idea=asked.idea, number=len(experiments_of(evidence)) + 1, code=code, changes=changes, against=before.name,
            against_code=before.code, against_changes=before.changes, confirms=asked.confirm,
        )  # fmt: skip
        whole = AblationSearch(
            ablation=AblationSection(factors={}, combinations=[], repeats=asked.max_repeats),
            experiment=section,
            width=width,
        )
        limits.require_room(session, workspace, evidence.project)
        limits.require_trials(session, workspace, evidence.project, None, whole.runs)
        begun = _begun(evidence, whole, base, idempotency_key)
        ledger.record(session, project, begun)
    ensure_conductor(workspace, project, begun.study_id)
    return begun.study_id, notes


def _other_than(base: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """Return the changes without those that give back what the configuration has: of the incumbent's, say."""
    present = flatten(parse_config(base).model_dump(mode="json"))
    return {key: value for key, value in changes.items() if key not in present or present[key] != value}


def _read(search: dict[str, Any], project: str) -> tuple[AskedExperiment, int]:
    given = search[KEY]
    try:
        found = AskedExperiment.model_validate({"idea": given} if isinstance(given, str) else given or {})
        return found, int(search.get("width", 1))
    except (ValidationError, TypeError, ValueError) as error:
        problems = error.errors(include_url=False)[:4] if isinstance(error, ValidationError) else []
        named = "; ".join(f"`{'.'.join(map(str, one['loc']))}`: {one['msg']}" for one in problems) or str(error)
        raise ConfigurationError(
            f"The experiment is not valid: {named}.",
            remedy=f"start_tuning(project={project!r}, search={EXAMPLE!r}).",
            document=DOCUMENT,
            details={"amend": {"search": EXAMPLE}},
        ) from error


def _incumbent(evidence: Evidence, named: str | None, accepted: str) -> Experiment:
    planned = Experiment.of_plan(accepted)
    if named is None:
        return incumbent_of(evidence) or planned
    return planned if named == PLANNED else _named(evidence, named)


def _code(evidence: Evidence, named: str, accepted: str) -> str:
    return accepted if named == PLANNED else _named(evidence, named).code


def _named(evidence: Evidence, name: str) -> Experiment:
    known = {one.name: one for one in experiments_of(evidence)}
    if name not in known:
        raise NotFoundError(
            f"There is no {name!r} in {evidence.name}.{near_matches(name, list(known))}",
            remedy=f"Name {PLANNED!r}{''.join(f', {one!r}' for one in [*known][-3:])}, or leave it out.",
        )
    return known[name]


def _require_another(code: str, changes: dict[str, Any], before: Experiment, asked: AskedExperiment) -> None:
    if (code, changes) == (before.code, before.changes):
        raise ConfigurationError(
            f"Code and configuration are those of {before.name}: there is nothing to compare.",
            remedy="Edit the code first, or give `changes`; the same again on other seeds is an ablation study without "
            'factors, {"ablation": {"repeats": 5}}.',
            document=DOCUMENT,
            details={"idea": asked.idea},
        )


def _require_same_judge(evidence: Evidence, accepted: str, code: str) -> None:
    """Refuse code whose rows or judge are edited: a gain by another question is none. Raises ConflictError."""
    folders = [snapshot_folder(evidence.workspace, evidence.name, one) for one in (accepted, code)]
    then, here = map(code_of, folders)
    named = _entries(evidence.config.model_dump(mode="json", include=set(JUDGING)))
    judging = {entry_file(use, folders[0], key="use").relative_to(folders[0].resolve()).as_posix() for use in named}
    if edited := sorted(name for name in judging if then.get(name) != here.get(name)):
        raise ConflictError(
            f"{', '.join(edited)} makes the rows or judges the results, and was edited: an experiment leaves that as "
            "planning fixed it.",
            remedy="Put it back, and what you try into another file; another way of judging is a plan of its own: "
            f"start_training(project={evidence.name!r}, kind='smoke').",
            document=DOCUMENT,
        )


def _entries(value: Any) -> list[str]:
    """Return the entries of the user's code among nested values."""
    if isinstance(value, dict | list):
        inner = value.values() if isinstance(value, dict) else value
        return [entry for one in inner for entry in _entries(one)]
    return [value] if isinstance(value, str) and re.match(FUNCTION, value) else []


def _begun(evidence: Evidence, asked: AblationSearch, base: dict[str, Any], key: str | None) -> AblationChanged:
    config = parse_config(base)
    return AblationChanged(
        study_id=new_id("ablation", evidence.name),
        state="running",
        search=asked.recorded(),
        objective={"metric": config.selection.metric, "direction": config.selection.direction},
        base_config_digest=config_digest(config),
        idempotency_key=key,
        created_at=now(),
    )
