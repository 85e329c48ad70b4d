"""Store the completion code of each session."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column `code` to sessions; `connect_study` fills it, because it needs the secret."""
    op.add_column("session", sa.Column("code", sa.String(length=16), nullable=True))
    op.create_index("ix_session_code", "session", ["code"], unique=True)
