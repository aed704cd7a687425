"""The first schema. Written out, not taken from tables.py: a migration must never change."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

TIME = sa.DateTime(timezone=True)


def upgrade() -> None:
    """Create all tables and the triggers that keep the ledger append-only."""
    _create_projects()
    _create_runs()
    _create_ledger()
    op.create_table(
        "registered_models",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("project", sa.String(64), sa.ForeignKey("projects.name"), nullable=False, index=True),
        sa.Column("version", sa.Integer, nullable=False),
        sa.Column("run", sa.String(80), sa.ForeignKey("runs.id"), nullable=False),
        sa.Column("checkpoint_digest", sa.String(80), nullable=False),
        sa.Column("metrics", sa.JSON, nullable=False),
        sa.Column("lineage", sa.JSON, nullable=False),
        sa.Column("created_at", TIME, nullable=False),
        sa.UniqueConstraint("project", "version"),
    )


def _create_projects() -> None:
    op.create_table(
        "projects",
        sa.Column("name", sa.String(64), primary_key=True),
        sa.Column("intent", sa.Text, nullable=False),
        sa.Column("goal", sa.JSON, nullable=False),
        sa.Column("limits", sa.JSON, nullable=False),
        sa.Column("code_root", sa.Text, nullable=False),
        sa.Column("created_at", TIME, nullable=False),
    )
    op.create_table(
        "config_versions",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("project", sa.String(64), sa.ForeignKey("projects.name"), nullable=False),
        sa.Column("number", sa.Integer, nullable=False),
        sa.Column("values", sa.JSON, nullable=False),
        sa.Column("digest", sa.String(80), nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("created_at", TIME, nullable=False),
        sa.UniqueConstraint("project", "number"),
    )


def _create_runs() -> None:
    op.create_table(
        "studies",
        sa.Column("id", sa.String(80), primary_key=True),
        sa.Column("project", sa.String(64), sa.ForeignKey("projects.name"), nullable=False, index=True),
        sa.Column("search", sa.JSON, nullable=False),
        sa.Column("objective", sa.JSON, nullable=False),
        sa.Column("base_values", sa.JSON, nullable=False),
        sa.Column("base_config_digest", sa.String(80), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("confirmation", sa.JSON),
        sa.Column("failure", sa.JSON),
        sa.Column("idempotency_key", sa.String(128)),
        sa.Column("created_at", TIME, nullable=False),
        sa.Column("ended_at", TIME),
        sa.UniqueConstraint("project", "idempotency_key"),
    )
    op.create_table(
        "runs",
        sa.Column("id", sa.String(80), primary_key=True),
        sa.Column("project", sa.String(64), sa.ForeignKey("projects.name"), nullable=False, index=True),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("label", sa.String(80)),
        sa.Column("config_digest", sa.String(80), nullable=False),
        sa.Column("base_config_digest", sa.String(80), nullable=False),
        sa.Column("seed", sa.Integer, nullable=False),
        sa.Column("source_run", sa.String(80)),
        sa.Column("study", sa.String(80), sa.ForeignKey("studies.id"), index=True),
        sa.Column("idempotency_key", sa.String(128)),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("sealed", sa.Boolean, nullable=False),
        sa.Column("summary", sa.JSON),
        sa.Column("created_at", TIME, nullable=False),
        sa.Column("ended_at", TIME),
        sa.UniqueConstraint("project", "idempotency_key"),
    )
    op.create_table(
        "trials",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("study", sa.String(80), sa.ForeignKey("studies.id"), nullable=False, index=True),
        sa.Column("number", sa.Integer, nullable=False),
        sa.Column("parameters", sa.JSON, nullable=False),
        sa.Column("run", sa.String(80), sa.ForeignKey("runs.id")),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("value", sa.Double),
        sa.Column("intermediate", sa.JSON, nullable=False),
        sa.Column("attributes", sa.JSON, nullable=False),
        sa.UniqueConstraint("study", "number"),
    )


def _create_ledger() -> None:
    op.create_table(
        "ledger",
        sa.Column("sequence", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("time", sa.String(40), nullable=False),
        sa.Column("project", sa.String(64), index=True),
        sa.Column("kind", sa.String(32), nullable=False),
        sa.Column("body", sa.Text, nullable=False),
        sa.Column("previous", sa.String(80), nullable=False),
        sa.Column("digest", sa.String(80), nullable=False, unique=True),
    )
    op.create_table(
        "gate_decisions",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("project", sa.String(64), sa.ForeignKey("projects.name"), nullable=False, index=True),
        sa.Column("phase", sa.String(16), nullable=False),
        sa.Column("passed", sa.Boolean, nullable=False),
        sa.Column("report", sa.JSON, nullable=False),
        sa.Column("rested_on", sa.JSON, nullable=False),
        sa.Column("ledger_sequence", sa.Integer, sa.ForeignKey("ledger.sequence"), nullable=False),
        sa.Column("created_at", TIME, nullable=False),
    )
    for action in ("UPDATE", "DELETE"):
        op.execute(
            f"CREATE TRIGGER ledger_no_{action.lower()} BEFORE {action} ON ledger "
            "BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END"
        )
