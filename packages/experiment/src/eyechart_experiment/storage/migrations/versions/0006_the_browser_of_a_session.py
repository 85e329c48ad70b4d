"""Store which browser may resume a session."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column `browser` to sessions; those that began before need the participant code."""
    op.add_column("session", sa.Column("browser", sa.String(length=64), nullable=True))
