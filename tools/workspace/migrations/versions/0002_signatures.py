"""Ledger entries may carry a signature."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Add the column; existing entries stay unsigned."""
    op.add_column("ledger", sa.Column("signature", sa.Text))
