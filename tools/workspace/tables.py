"""The workspace's tables. Anything that can be derived from the ledger or a run directory is only an index here."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import JSON, DateTime, ForeignKey, Integer, String, Text, UniqueConstraint
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column


def now() -> datetime:
    """Return the current time in UTC."""
    return datetime.now(UTC)


class Base(DeclarativeBase):
    """Maps Python types to columns once for all tables."""

    type_annotation_map = {  # noqa: RUF012 - SQLAlchemy reads it as a class attribute
        dict[str, Any]: JSON,
        datetime: DateTime(timezone=True),
    }


class Project(Base):
    """One problem to solve. Its phase is not stored: it follows from the ledger's gate decisions."""

    __tablename__ = "projects"

    name: Mapped[str] = mapped_column(String(64), primary_key=True)
    intent: Mapped[str] = mapped_column(Text, default="")
    goal: Mapped[dict[str, Any]]
    """{metric, direction, target}: fixed when the project is made."""
    limits: Mapped[dict[str, Any]]
    code_root: Mapped[str] = mapped_column(Text)
    created_at: Mapped[datetime] = mapped_column(default=now)


class ConfigVersion(Base):
    """One version of a project's configuration; the highest number holds."""

    __tablename__ = "config_versions"
    __table_args__ = (UniqueConstraint("project", "number"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    project: Mapped[str] = mapped_column(ForeignKey("projects.name"))
    number: Mapped[int] = mapped_column(Integer)
    values: Mapped[dict[str, Any]]
    """As given: template, then changes. Validates as a TrainingConfig."""
    digest: Mapped[str] = mapped_column(String(80))
    reason: Mapped[str] = mapped_column(Text, default="")
    created_at: Mapped[datetime] = mapped_column(default=now)


class Run(Base):
    """One training execution: an index over its run directory."""

    __tablename__ = "runs"
    __table_args__ = (UniqueConstraint("project", "idempotency_key"),)

    id: Mapped[str] = mapped_column(String(80), primary_key=True)
    project: Mapped[str] = mapped_column(ForeignKey("projects.name"), index=True)
    kind: Mapped[str] = mapped_column(String(16))
    label: Mapped[str | None] = mapped_column(String(80), default=None)
    config_digest: Mapped[str] = mapped_column(String(80))
    """Digest of the configuration that the run trains with (seed and trial changes included)."""
    base_config_digest: Mapped[str] = mapped_column(String(80))
    """Digest of the project's configuration version it was derived from."""
    seed: Mapped[int] = mapped_column(Integer)
    source_run: Mapped[str | None] = mapped_column(String(80), default=None)
    study: Mapped[str | None] = mapped_column(ForeignKey("studies.id"), default=None, index=True)
    idempotency_key: Mapped[str | None] = mapped_column(String(128), default=None)
    state: Mapped[str] = mapped_column(String(16), default="created")
    sealed: Mapped[bool] = mapped_column(default=False)
    """Whether the ended run's digests are in the ledger."""
    summary: Mapped[dict[str, Any] | None] = mapped_column(JSON, default=None)
    created_at: Mapped[datetime] = mapped_column(default=now)
    ended_at: Mapped[datetime | None] = mapped_column(default=None)


class Study(Base):
    """A hyperparameter search, the parent of its trial runs."""

    __tablename__ = "studies"
    __table_args__ = (UniqueConstraint("project", "idempotency_key"),)

    id: Mapped[str] = mapped_column(String(80), primary_key=True)
    project: Mapped[str] = mapped_column(ForeignKey("projects.name"), index=True)
    search: Mapped[dict[str, Any]]
    """A SearchSection; of an ablation study its `ablation`, `trials` (runs) and `width`."""
    objective: Mapped[dict[str, Any]]
    """{metric, direction}."""
    base_values: Mapped[dict[str, Any]]
    """The configuration that trials change."""
    base_config_digest: Mapped[str] = mapped_column(String(80))
    state: Mapped[str] = mapped_column(String(16), default="running")
    """running, confirming, completed, failed, stopped."""
    confirmation: Mapped[dict[str, Any] | None] = mapped_column(JSON, default=None)
    failure: Mapped[dict[str, Any] | None] = mapped_column(JSON, default=None)
    idempotency_key: Mapped[str | None] = mapped_column(String(128), default=None)
    created_at: Mapped[datetime] = mapped_column(default=now)
    ended_at: Mapped[datetime | None] = mapped_column(default=None)

    lists_trials = False
    """Of a row that a replay of the ledger made: whether its newest entry lists its trials."""

    @property
    def is_ablation(self) -> bool:
        """Whether it compares given configurations over seeds, and searches for none."""
        return "ablation" in self.search


class Trial(Base):
    """One suggestion of a study and its result: all that the sampler sees."""

    __tablename__ = "trials"
    __table_args__ = (UniqueConstraint("study", "number"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    study: Mapped[str] = mapped_column(ForeignKey("studies.id"), index=True)
    number: Mapped[int] = mapped_column(Integer)
    parameters: Mapped[dict[str, Any]]
    """Dotted configuration key to value."""
    run: Mapped[str | None] = mapped_column(ForeignKey("runs.id"), default=None)
    state: Mapped[str] = mapped_column(String(16), default="running")
    """running, completed, pruned, failed."""
    value: Mapped[float | None] = mapped_column(default=None)
    intermediate: Mapped[dict[str, Any]] = mapped_column(default=dict)
    """Epoch (as text) to the objective's value, up to the epoch at which it was pruned."""
    further: Mapped[dict[str, Any]] = mapped_column(default=dict, server_default="{}")
    """Further objectives' values, at the epoch of `value`."""
    attributes: Mapped[dict[str, Any]] = mapped_column(default=dict)
    """Optuna's system attributes, carried so that samplers and pruners stay pure."""


class RaisedAlert(Base):
    """One alert of a run, with its life: raised, cleared, raised again, fixed by a later configuration."""

    __tablename__ = "alerts"

    run: Mapped[str] = mapped_column(ForeignKey("runs.id"), primary_key=True)
    id: Mapped[str] = mapped_column(String(64), primary_key=True)
    """The diagnostic document's."""
    project: Mapped[str] = mapped_column(ForeignKey("projects.name"), index=True)
    severity: Mapped[str] = mapped_column(String(16))
    message: Mapped[str] = mapped_column(Text)
    document: Mapped[str] = mapped_column(Text)
    fix: Mapped[str] = mapped_column(Text, default="")
    """The call of the first fix that a key of the configuration can make, else in words what the code can change."""
    step: Mapped[int] = mapped_column(default=0)
    epoch: Mapped[int | None] = mapped_column(default=None)
    times: Mapped[int] = mapped_column(default=1)
    """How often it was raised."""
    is_back: Mapped[bool] = mapped_column(default=False)
    """Whether an earlier configuration had fixed it."""
    raised_at: Mapped[float]
    """Unix seconds, as below."""
    cleared_at: Mapped[float | None] = mapped_column(default=None)
    fixed_by: Mapped[str | None] = mapped_column(String(80), default=None)
    """The later run, under another configuration, in which it did not fire."""
    seen: Mapped[bool] = mapped_column(default=False, index=True)
    """Whether an answer has carried it."""
    owed: Mapped[str] = mapped_column(String(32), default="", index=True)
    """The owner's ways of notification that it still has to take, with commas."""
    attempts: Mapped[int] = mapped_column(default=0)
    due_at: Mapped[float | None] = mapped_column(default=None)
    """When the next attempt to notify is made."""
    notice: Mapped[str] = mapped_column(Text, default="")
    """Result of the last attempt to notify the owner."""
    revision: Mapped[int] = mapped_column(index=True)
    """Number of its last change, counted over the workspace."""


class LedgerEntry(Base):
    """One link of the hash chain. Triggers refuse UPDATE and DELETE."""

    __tablename__ = "ledger"

    sequence: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    time: Mapped[str] = mapped_column(String(40))
    """ISO 8601, UTC."""
    project: Mapped[str | None] = mapped_column(String(64), index=True)
    kind: Mapped[str] = mapped_column(String(32))
    body: Mapped[str] = mapped_column(Text)
    """Canonical JSON, exactly the bytes that were hashed."""
    previous: Mapped[str] = mapped_column(String(80))
    digest: Mapped[str] = mapped_column(String(80), unique=True)
    signature: Mapped[str | None] = mapped_column(Text, default=None)
    """`ed25519:<key id>:<base64>` over the digest, where the owner has a key."""


class RegisteredModel(Base):
    """A version in the model registry."""

    __tablename__ = "registered_models"
    __table_args__ = (UniqueConstraint("project", "version"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    project: Mapped[str] = mapped_column(ForeignKey("projects.name"), index=True)
    version: Mapped[int] = mapped_column(Integer)
    run: Mapped[str] = mapped_column(ForeignKey("runs.id"))
    checkpoint_digest: Mapped[str] = mapped_column(String(80))
    metrics: Mapped[dict[str, Any]]
    lineage: Mapped[dict[str, Any]]
    created_at: Mapped[datetime] = mapped_column(default=now)
