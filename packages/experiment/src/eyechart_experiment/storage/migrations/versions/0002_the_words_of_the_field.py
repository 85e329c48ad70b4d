"""Rename the table of images and a state of trials as in version 2."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

FORMER = "picture"
COLUMNS = 'id, stimulus_id, place, source_id, "row", corruption, parameters, delta_v, sha256'


def upgrade() -> None:
    """Copy `picture` to `stimulus_image`, and call trials with a response "responded"."""
    # A copy, not a rename: SQLite cannot rename the constraints, which carry the table's name.
    op.create_table(
        "stimulus_image",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("stimulus_id", sa.Integer(), nullable=False),
        sa.Column("place", sa.Integer(), nullable=False),
        sa.Column("source_id", sa.Integer(), nullable=False),
        sa.Column("row", sa.Integer(), nullable=False),
        sa.Column("corruption", sa.String(), nullable=False),
        sa.Column("parameters", sa.JSON(), nullable=False),
        sa.Column("delta_v", sa.Double(), nullable=True),
        sa.Column("sha256", sa.String(length=64), nullable=False),
        sa.ForeignKeyConstraint(
            ["source_id"], ["source_image.id"], name=op.f("fk_stimulus_image_source_id")
        ),
        sa.ForeignKeyConstraint(
            ["stimulus_id"], ["stimulus.id"], name=op.f("fk_stimulus_image_stimulus_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_stimulus_image")),
        sa.UniqueConstraint(
            "stimulus_id", "place", name=op.f("uq_stimulus_image_stimulus_id_place")
        ),
    )
    op.execute(f"INSERT INTO stimulus_image ({COLUMNS}) SELECT {COLUMNS} FROM {FORMER}")
    op.create_index(op.f("ix_stimulus_image_source_id"), "stimulus_image", ["source_id"])
    if op.get_bind().dialect.name == "postgresql":
        # The ids were copied: the new table's sequence continues after the largest.
        op.execute(
            "SELECT setval(pg_get_serial_sequence('stimulus_image', 'id'), max(id))"
            " FROM stimulus_image HAVING max(id) IS NOT NULL"
        )
    op.drop_table(FORMER)
    op.execute("UPDATE trial SET state = 'responded' WHERE state = 'answered'")
