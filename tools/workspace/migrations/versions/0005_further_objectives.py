"""Trials have the values of further objectives."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Add their column."""
    op.add_column("trials", sa.Column("further", sa.JSON, nullable=False, server_default="{}"))
