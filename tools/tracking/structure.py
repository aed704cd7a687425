"""Structure of what trackers show, the same in each: one experiment a project, runs by name, tag and parent."""

from __future__ import annotations

from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from trainwright.tools.workspace import Workspace
from trainwright.tools.workspace.handles import run_handles, study_handles
from trainwright.tools.workspace.tables import Run, Study
from trainwright.trainer.base.records import Frozen
from trainwright.trainer.config import flatten
from trainwright.trainer.config.plain_values import NOT_OF_A_RUN
from trainwright.trainer.run import RunKind

PURPOSES = {
    RunKind.BASELINE: "baseline", RunKind.TRIAL: "hyperparameter-search", RunKind.ABLATION: "ablation",
    RunKind.FINAL: "production-candidate", RunKind.EXPORT: "production-candidate",
}  # fmt: skip
"""Tag by kind; the other kinds are their own."""
REPETITION = "repetition"
OF_A_RUN = "run"
"""Kind of a parent that is a run itself: of one that repeats it, exports it, or tries to cure it."""
MAX_KEYS = 2
"""Differing keys that a name shows."""
LONGEST_VALUE = 24


class Parent(Frozen):
    """What holds a run: a study, the repetitions of one configuration over seeds, or the run that it came from."""

    id: str
    name: str
    kind: str


class Place(Frozen):
    """Where a run stands: its experiment, its name, its tags, and its parents from the outermost in."""

    experiment: str
    name: str
    tags: list[str]
    parents: list[Parent]
    changed: dict[str, Any]
    """Configuration keys that differ from the baseline's, with this run's values."""


def place_of(session: Session, workspace: Workspace, run: Run) -> Place:
    """Return where a run stands."""
    names = {run_id: handle for handle, run_id in run_handles(session).items()}
    changed = _changed(session, workspace, run)
    handle = names.get(run.id, run.id).rpartition("/")[2]
    kind = RunKind(run.kind)
    tags = [PURPOSES.get(kind, kind.value)]
    if _repeated_side(run):
        tags.append(REPETITION)
    return Place(
        experiment=run.project,
        name=" ".join([handle, *_shown(changed)]),
        tags=tags,
        parents=_parents(session, workspace, run, changed),
        changed=changed,
    )


def _changed(session: Session, workspace: Workspace, run: Run) -> dict[str, Any]:
    """Return what differs from the baseline before this run: the source's of a run that repeats or exports one."""
    values = _values(workspace, run)
    before = _baseline_before(session, run)
    if before is None:
        return {}
    others = _values(workspace, before)
    return {key: value for key, value in values.items() if others.get(key) != value}


def _baseline_before(session: Session, run: Run) -> Run | None:
    if run.source_run is not None:
        return session.get(Run, run.source_run)
    query = select(Run).where(Run.project == run.project, Run.kind == RunKind.BASELINE.value, Run.id != run.id)
    earlier = query.where(Run.created_at <= run.created_at, Run.study.is_(None))
    return session.scalars(earlier.order_by(Run.created_at.desc(), Run.id.desc())).first()


def _values(workspace: Workspace, run: Run) -> dict[str, Any]:
    config = workspace.run_directory(run.project, run.id).specification().config.model_dump(mode="json")
    sections = NOT_OF_A_RUN.items()
    left_out = tuple(f"{section}.{key}" for section, keys in sections for key in (("",) if keys is True else keys))
    return {key: value for key, value in flatten(config).items() if not key.startswith(left_out)}


def _shown(changed: dict[str, Any]) -> list[str]:
    """Return the first differing keys by their last part, and how many more there are."""
    shown = [f"{key.rpartition('.')[2]}={_short(value)}" for key, value in sorted(changed.items())[:MAX_KEYS]]
    more = len(changed) - len(shown)
    return [*shown, f"(+{more})"] if more else shown


def _short(value: Any) -> str:
    text = f"{value:.4g}" if isinstance(value, float) else str(value)
    return text if len(text) <= LONGEST_VALUE else f"{text[: LONGEST_VALUE - 1]}…"


def _repeated_side(run: Run) -> str | None:
    """Return of which side of a study's confirmation a run is a repetition."""
    key = run.idempotency_key or ""
    start = f"{run.study}/confirmation-"
    return key.removeprefix(start).rpartition("-")[0] if run.study and key.startswith(start) else None


def _parents(session: Session, workspace: Workspace, run: Run, changed: dict[str, Any]) -> list[Parent]:
    if run.study is None:
        source = session.get(Run, run.source_run) if run.source_run is not None else None
        if source is None:
            return []
        place = place_of(session, workspace, source)
        return [*place.parents, Parent(id=source.id, name=place.name, kind=OF_A_RUN)]
    named = {study_id: handle for handle, study_id in study_handles(session).items()}
    study = session.get(Study, run.study)
    assert study is not None  # noqa: S101 - a foreign key
    name = named.get(study.id, study.id).rpartition("/")[2]
    parents = [Parent(id=study.id, name=name, kind="study")]
    side = _repeated_side(run)
    if side:
        keys = {key: value for key, value in changed.items() if key != "seed"}
        title = " ".join([f"{name} {side} over seeds", *_shown(keys)])
        parents.append(Parent(id=f"{study.id}/{side}", name=title, kind="repetitions"))
    return parents
