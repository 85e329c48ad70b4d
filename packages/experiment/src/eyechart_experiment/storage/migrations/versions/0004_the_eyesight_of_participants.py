"""Add what participants say about their eyesight."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column `eyesight` to sessions; it is empty for those who were not asked."""
    op.add_column("session", sa.Column("eyesight", sa.String(length=16), nullable=True))
