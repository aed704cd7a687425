"""Data versions: every distinct content that a sealed smoke run of the project saw, in order.

Nothing is stored: a version is read from the run's evidence, and counts only if that is as it was sealed.
"""

from __future__ import annotations

from typing import Any

from pydantic import Field

from trainwright.tools.evaluation import Sealed
from trainwright.tools.ledger import ProjectFacts
from trainwright.tools.workspace import Workspace
from trainwright.trainer.base.errors import NotFoundError, near_matches
from trainwright.trainer.base.records import Frozen
from trainwright.trainer.run import RunKind, RunState
from trainwright.trainer.run.evidence import Data, Split
from trainwright.trainer.run.profile import Origin, Profile

SPLITS = ("train", "validation", "test")
SERIES = "series"
"""What the data of windows over time are understood as."""
LATEST = "latest"


class DataVersion(Frozen):
    """One content of a project's data."""

    number: int
    """1 for the first that was seen."""
    fingerprint: str
    """Digest of every split's content and of the preprocessing."""
    parent: int | None
    """The version that was seen before it."""
    run_id: str
    """The first smoke run that saw it."""
    seen_at: str = ""
    """When that started, in UTC."""
    source: str | None = None
    split: Any = None
    """How rows were divided."""
    splits: dict[str, Split] = Field(default_factory=dict)
    """Size, fingerprint and classes of each split; of test its size and fingerprint."""
    sampled: bool = False
    """Whether of some split only a sample was read for its fingerprint."""
    preprocessing_digest: str | None = None
    files: dict[str, str] = Field(default_factory=dict)
    """Digest of each file by its path below the code root."""
    dvc: dict[str, str] = Field(default_factory=dict)
    """DVC's own digests of those that it tracks."""
    licence: str | None = None
    licence_from: str | None = None
    class_names: list[str] | None = None
    understood: dict[str, Any] = Field(default_factory=dict)
    """What target, pictures and masks were taken for."""
    columns: list[dict[str, str]] | None = None
    """Of a table: name, kind and why of each column."""
    feature_names: list[str] | None = None
    categories: dict[str, list[str]] = Field(default_factory=dict)
    profile: Profile = Profile()
    """Of the train split's columns."""

    @property
    def name(self) -> str:
        """Its short name, `v2`."""
        return f"v{self.number}"

    @property
    def rows(self) -> int:
        """Rows of all splits."""
        return sum(split.size for split in self.splits.values())

    @property
    def told(self) -> str:
        """How much it is, in words: `1797 rows`, or windows of a series."""
        return f"{self.rows} {'windows' if SERIES in self.understood else 'rows'}"

    def __str__(self) -> str:
        """In words: `v2 (blake3:1f0c…)`."""
        return f"{self.name} ({self.fingerprint[:19]}…)"


def data_versions(workspace: Workspace, facts: ProjectFacts, project: str) -> list[DataVersion]:
    """Return the project's versions in order; none before a smoke run has ended."""
    found: dict[str, DataVersion] = {}
    for run_id, start in facts.started.items():
        seal = facts.seals.get(run_id)
        if start.kind != RunKind.SMOKE or seal is None or seal.state != RunState.COMPLETED:
            continue
        run = Sealed(workspace.run_directory(project, run_id), seal.digests)
        data: Data = run.part(Data)
        if data.fingerprint is None or data.fingerprint in found:
            continue
        seen_at = start.created_at.isoformat() if start.created_at is not None else ""
        found[data.fingerprint] = _version(len(found) + 1, run_id, seen_at, data, run)
    return list(found.values())


def version_of(versions: list[DataVersion], fingerprint: str | None) -> DataVersion | None:
    """Return the version with this content; None where there is none."""
    return next((version for version in versions if version.fingerprint == fingerprint), None)


def version_named(versions: list[DataVersion], name: str, project: str) -> DataVersion:
    """Return the version `v2`, `2` or `latest`. Raises NotFoundError."""
    wanted = name.strip().removeprefix("v")
    for version in reversed(versions):
        if name.strip() == LATEST or wanted == str(version.number):
            return version
    names = [version.name for version in versions]
    known = (
        f"There are: {', '.join(names)}." if names else f"start_training(project={project!r}, kind='smoke') makes one."
    )
    raise NotFoundError(
        f"Project {project} has no data version {name[:40]!r}.{near_matches(name, names)}", remedy=known
    )


def _version(number: int, run_id: str, seen_at: str, data: Data, run: Sealed) -> DataVersion:
    origin: Origin = run.part(Origin)
    return DataVersion(
        number=number,
        fingerprint=str(data.fingerprint),
        parent=number - 1 or None,
        run_id=run_id,
        seen_at=seen_at,
        source=data.source,
        split=data.split,
        splits={name: data.splits[name] for name in SPLITS if name in data.splits},
        sampled=data.sampled,
        preprocessing_digest=data.preprocessing_digest,
        files=data.files,
        dvc=origin.dvc,
        licence=origin.licence,
        licence_from=origin.licence_from,
        class_names=data.class_names,
        understood=data.understood,
        columns=data.columns,
        feature_names=data.feature_names,
        categories=data.categories,
        profile=run.part(Profile),
    )
