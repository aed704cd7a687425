"""Gate decisions are in the ledger alone."""

from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Drop their table, which was an index of the ledger's entries."""
    op.drop_table("gate_decisions")
