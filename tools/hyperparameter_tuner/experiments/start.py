"""Starting an experiment: what it is compared with, the snapshot of its code, and all that is wrong with it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, ValidationError
from sqlalchemy import select

from trainwright.tools import ledger, limits
from trainwright.tools.gates import permits
from trainwright.tools.gates.evidence import Evidence
from trainwright.tools.gates.ideas import (
    CRASHED,
    DOCUMENT,
    PLANNED,
    UNDECIDED,
    Experiment,
    digests_of_snapshot,
    experiments_of,
    incumbent_of,
)
from trainwright.tools.hyperparameter_tuner.ablation.section import (
    AblationSearch,
    AblationSection,
    ExperimentSection,
    checked_changes,
    recorded_search,
)
from trainwright.tools.hyperparameter_tuner.ablation.start import begun_by, reference_of
from trainwright.tools.hyperparameter_tuner.experiments.verdict import LEAST_KEPT
from trainwright.tools.hyperparameter_tuner.process import ensure_conductor, forget_launches, study_folder
from trainwright.tools.ledger.events import AblationChanged
from trainwright.tools.training_orchestrator.snapshots import (
    changed_lines,
    code_of,
    meaning_of_code,
    of_accepted_code,
    snapshot_folder,
    take_snapshot,
)
from trainwright.tools.workspace import Workspace
from trainwright.tools.workspace.records import get_study
from trainwright.tools.workspace.tables import Study
from trainwright.trainer.base.errors import ConfigurationError, ConflictError, NotFoundError, near_matches
from trainwright.trainer.base.imports import imported_files
from trainwright.trainer.base.records import Closed
from trainwright.trainer.config import config_digest, flatten, parse_config
from trainwright.trainer.run import RunKind
from trainwright.trainer.user_code.entries import entry_file, is_entry

KEY = "experiment"
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
    """`experiment-3` or `planned`: code and changes of then; by default the code root, with the incumbent's changes."""
    against: str | None = None
    """`experiment-3` or `planned`; by default the newest that was kept."""
    max_repeats: Annotated[int, Field(ge=LEAST_KEPT, le=20)] = 8
    """Seeds that it may take, on each of which the incumbent is trained too."""
    margin: Annotated[float, Field(ge=0.0, allow_inf_nan=False)] = 0.0
    """How much worse than the incumbent it may be, in the metric, where it has fewer lines or parameters."""
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
        ConflictError: a file that makes rows or judges results was edited, or the key names another study.
        GateRefusedError: the project has no baseline whose gate has passed, or none whose code was kept.
        LimitReachedError: more runs than the limits leave.
        NotFoundError: there is no such experiment.
    """
    asked, width = _read(search, project)
    with workspace.session() as session:
        evidence = Evidence(session, workspace, project)
        if (named := _of_key(evidence, idempotency_key)) is not None:
            study_id, notes = _go_on(evidence, named), list[str]()
        else:
            evidence = of_accepted_code(evidence)
            base, is_settled = reference_of(evidence)
            permits.permit(evidence, RunKind.ABLATION)
            section, notes = _settled(evidence, asked, base)
            bounds = AblationSection(factors={}, combinations=[], repeats=asked.max_repeats)
            same = _same(evidence, section, config_digest(parse_config(base)))
            section = section.model_copy(update={"look": 1 + sum(one.verdict not in {"", CRASHED} for one in same)})
            whole = AblationSearch(ablation=bounds, experiment=section, width=width)
            earlier = _judged_before(evidence, same, section, asked.max_repeats)
            study_id = _begin(evidence, whole, base, idempotency_key, is_settled) if earlier is None else earlier
    ensure_conductor(workspace, project, study_id)
    return study_id, notes


def _of_key(evidence: Evidence, key: str | None) -> Experiment | None:
    """Return the experiment of a key. Raises ConflictError where the key names another kind of study."""
    query = select(Study).where(Study.project == evidence.name, Study.idempotency_key == key)
    row = evidence.session.scalars(query).first() if key is not None else None
    if row is None:
        return None
    found = next((one for one in experiments_of(evidence) if one.study == row.id), None)
    if found is None:
        raise ConflictError(
            f"The idempotency key {key!r} already names the study {row.id}.",
            remedy="Use another key for the experiment.",
        )
    return found


def _go_on(evidence: Evidence, one: Experiment) -> str:
    """Let an experiment that was stopped go on; return its study's id."""
    if one.state == "stopped":
        study = get_study(evidence.session, one.study)
        limits.require_room(evidence.session, evidence.workspace, evidence.project)
        limits.require_trials(
            evidence.session, evidence.workspace, evidence.project, one.study, recorded_search(study.search).runs
        )
        forget_launches(study_folder(evidence.workspace, evidence.name, one.study))
        again = AblationChanged(study_id=one.study, state="running", search=study.search)
        ledger.record(evidence.session, evidence.name, again)
    return one.study


def _judged_before(evidence: Evidence, same: Sequence[Experiment], section: ExperimentSection, most: int) -> str | None:
    """Return the study that judges the very same already; None: there is none, or more seeds are asked for."""
    if not same or (same[-1].verdict == UNDECIDED and most > len(same[-1].results["seeds"])):
        return None
    if same[-1].state == "failed" or same[-1].verdict == CRASHED or (section.confirms and not same[-1].confirms):
        return None
    return _go_on(evidence, same[-1])


def _same(evidence: Evidence, section: ExperimentSection, base: str) -> list[Experiment]:
    """Return the experiments that compare the same on a configuration, by what the codes do: a comment is no idea."""
    wanted = (base, section.meanings, section.changes, section.against_changes)
    return [
        one
        for one in experiments_of(evidence)
        if (one.base_config_digest, one.meanings, one.changes, one.against_changes) == wanted
    ]


def _settled(evidence: Evidence, asked: AskedExperiment, base: dict[str, Any]) -> tuple[ExperimentSection, list[str]]:
    """Return the experiment with its states of code and configuration, and how its changes were read."""
    accepted, every = str(evidence.code_state), experiments_of(evidence)
    before = _incumbent(evidence, asked.against, config_digest(parse_config(base)))
    named = None if asked.code is None else _state(evidence, asked.code)
    varied = (before if named is None else named).changes
    changes, notes = checked_changes(_other_than(base, {**varied, **asked.changes}), base, evidence.name)
    root = Path(evidence.project.code_root)
    code = take_snapshot(evidence.workspace, evidence.name, root) if named is None else named.code
    for state in dict.fromkeys((code, before.code)):
        _require_same_judge(evidence, accepted, state)
    then, here = (code_of(snapshot_folder(evidence.workspace, evidence.name, one)) for one in (before.code, code))
    meanings = (meaning_of_code(then), meaning_of_code(here))
    _require_another(meanings, changes, before)
    if asked.changes and named is None and meanings[0] != meanings[1]:
        alone = f"code={before.name!r} tries the changes alone"
        notes = [*notes, f"the folder's code differs from that of {before.name} too, and both are tried: {alone}"]
    return ExperimentSection(
        idea=asked.idea, number=len(every) + 1, code=code, changes=changes, against=before.name,
        against_code=before.code, against_changes=before.changes, confirms=asked.confirm,
        margin=asked.margin,
        lines=changed_lines(then, here), meanings=meanings,
    ), notes  # fmt: skip


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


def _incumbent(evidence: Evidence, named: str | None, base: str) -> Experiment:
    """Return what the experiment is compared with. Raises ConflictError: it was judged on another configuration."""
    if named is None:
        return incumbent_of(evidence, base, str(evidence.code_state))
    found = _state(evidence, named)
    if named != PLANNED and found.base_config_digest != base:
        raise ConflictError(
            f"{found.name} was judged on another configuration than the present one.",
            remedy=f"Compare with {PLANNED!r}, or give its changes again: changes={found.changes!r}.",
        )
    return found


def _state(evidence: Evidence, name: str) -> Experiment:
    return Experiment.of_plan(str(evidence.code_state)) if name == PLANNED else _named(evidence, name)


def _named(evidence: Evidence, name: str) -> Experiment:
    known = {one.name: one for one in experiments_of(evidence)}
    if name not in known:
        raise NotFoundError(
            f"There is no {name!r} in {evidence.name}.{near_matches(name, list(known))}",
            remedy=f"Name {PLANNED!r}{''.join(f', {one!r}' for one in [*known][-3:])}, or leave it out.",
        )
    return known[name]


def _require_another(meanings: tuple[str, str], changes: dict[str, Any], before: Experiment) -> None:
    if meanings[0] == meanings[1] and changes == before.changes:
        raise ConfigurationError(
            f"Code and configuration do what those of {before.name} do: there is nothing to compare.",
            remedy="Edit the code first, or give `changes`; the same again on other seeds is an ablation study without "
            'factors, {"ablation": {"repeats": 5}}.',
            document=DOCUMENT,
        )


def _require_same_judge(evidence: Evidence, accepted: str, code: str) -> None:
    """Refuse code whose rows or judge are edited: a gain by another question is none. Raises ConflictError."""
    then, here = (snapshot_folder(evidence.workspace, evidence.name, one).resolve() for one in (accepted, code))
    kept, found = digests_of_snapshot(then), digests_of_snapshot(here)
    config = evidence.config.model_dump(mode="json", include=set(JUDGING))
    names = _judging(config, then) | _judging(config, here)  # a new file may come before the one that was imported
    if edited := sorted(name for name in names if kept.get(name) != found.get(name)):
        raise ConflictError(
            f"{', '.join(edited)} makes the rows or judges the results, and was edited: an experiment leaves that as "
            "planning fixed it.",
            remedy="Put it back, and what you try into another file; another way of judging is a plan of its own: "
            f"start_training(project={evidence.name!r}, kind='smoke').",
            document=DOCUMENT,
        )


def _judging(config: dict[str, Any], root: Path) -> set[str]:
    """Return the files below a resolved root that make the rows or judge the results, and what they import."""
    entries = [entry_file(use, root, key="use") for use in _entries(config)]
    files = {file.resolve() for entry in entries if entry.is_file() for file in imported_files(entry, root)}
    return {file.relative_to(root).as_posix() for file in files if file.is_relative_to(root)}


def _entries(config: dict[str, Any]) -> list[str]:
    """Return the entries of the user's code by which rows are made and results are judged."""
    data, loss, gate = config.get("data") or {}, config.get("loss"), config.get("evaluation_gate") or {}
    parts = [data, *(data.get(name) for name in ("prepare", "present")), loss, *config.get("metrics", [])]
    named = [part.get("use") if isinstance(part, dict) else part for part in [*parts, gate.get("reference")]]
    return [use for use in named if isinstance(use, str) and is_entry(use)]


def _begin(evidence: Evidence, asked: AblationSearch, base: dict[str, Any], key: str | None, is_settled: bool) -> str:
    """Record a new experiment within the limits; return its study's id."""
    limits.require_room(evidence.session, evidence.workspace, evidence.project)
    limits.require_trials(evidence.session, evidence.workspace, evidence.project, None, asked.runs)
    begun = begun_by(evidence, asked, base, is_settled, key)
    ledger.record(evidence.session, evidence.name, begun)
    return begun.study_id
