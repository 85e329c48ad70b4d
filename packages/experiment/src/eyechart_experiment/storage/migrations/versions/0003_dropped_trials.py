"""Store why and when trials were dropped, page visits, and whether participants are robots."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the columns; what was not recorded before stays unknown."""
    op.add_column("trial", sa.Column("drop_reason", sa.String(length=16), nullable=True))
    op.add_column("trial", sa.Column("dropped_at", sa.DateTime(timezone=True), nullable=True))
    op.add_column("study", sa.Column("visits", sa.Integer(), nullable=True))
    op.add_column(
        "installation",
        sa.Column("simulated", sa.Boolean(), nullable=False, server_default=sa.false()),
    )
