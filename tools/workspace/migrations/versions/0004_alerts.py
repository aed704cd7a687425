"""Alerts of runs have a life, which the workspace keeps."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Create their table."""
    op.create_table(
        "alerts",
        sa.Column("run", sa.String(80), sa.ForeignKey("runs.id"), primary_key=True),
        sa.Column("id", sa.String(64), primary_key=True),
        sa.Column("project", sa.String(64), sa.ForeignKey("projects.name"), nullable=False, index=True),
        sa.Column("severity", sa.String(16), nullable=False),
        sa.Column("message", sa.Text, nullable=False),
        sa.Column("document", sa.Text, nullable=False),
        sa.Column("fix", sa.Text, nullable=False),
        sa.Column("step", sa.Integer, nullable=False),
        sa.Column("epoch", sa.Integer),
        sa.Column("times", sa.Integer, nullable=False),
        sa.Column("is_back", sa.Boolean, nullable=False),
        sa.Column("raised_at", sa.Double, nullable=False),
        sa.Column("cleared_at", sa.Double),
        sa.Column("fixed_by", sa.String(80)),
        sa.Column("seen", sa.Boolean, nullable=False, index=True),
        sa.Column("owed", sa.String(32), nullable=False, index=True),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("due_at", sa.Double),
        sa.Column("notice", sa.Text, nullable=False),
        sa.Column("revision", sa.Integer, nullable=False, index=True),
    )
