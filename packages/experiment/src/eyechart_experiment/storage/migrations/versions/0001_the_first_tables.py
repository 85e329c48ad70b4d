"""Create the first tables."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the first tables."""
    op.create_table(
        "installation",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("secret", sa.String(length=64), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_installation")),
    )
    op.create_table(
        "participant",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("code", sa.String(length=32), nullable=False),
        sa.Column("platform", sa.String(length=16), nullable=False),
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_participant")),
        sa.UniqueConstraint("code", name=op.f("uq_participant_code")),
        sa.UniqueConstraint("digest", name=op.f("uq_participant_digest")),
    )
    op.create_table(
        "source_image",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("category", sa.String(length=32), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_source_image")),
        sa.UniqueConstraint("digest", name=op.f("uq_source_image_digest")),
    )
    op.create_table(
        "study",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.Column("config", sa.JSON(), nullable=False),
        sa.Column("config_hash", sa.String(length=16), nullable=False),
        sa.Column("status", sa.String(length=16), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_study")),
        sa.UniqueConstraint("name", name=op.f("uq_study_name")),
    )
    op.create_table(
        "consent",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("participant_id", sa.Integer(), nullable=False),
        sa.Column("study_id", sa.Integer(), nullable=False),
        sa.Column("text_hash", sa.String(length=64), nullable=False),
        sa.Column("agreed_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["participant_id"], ["participant.id"], name=op.f("fk_consent_participant_id")
        ),
        sa.ForeignKeyConstraint(["study_id"], ["study.id"], name=op.f("fk_consent_study_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_consent")),
    )
    with op.batch_alter_table("consent", schema=None) as batch_op:
        batch_op.create_index(
            batch_op.f("ix_consent_participant_id"), ["participant_id"], unique=False
        )

    op.create_table(
        "exposure",
        sa.Column("participant_id", sa.Integer(), nullable=False),
        sa.Column("source_id", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(
            ["participant_id"], ["participant.id"], name=op.f("fk_exposure_participant_id")
        ),
        sa.ForeignKeyConstraint(
            ["source_id"], ["source_image.id"], name=op.f("fk_exposure_source_id")
        ),
        sa.PrimaryKeyConstraint("participant_id", "source_id", name=op.f("pk_exposure")),
    )
    op.create_table(
        "session",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("study_id", sa.Integer(), nullable=False),
        sa.Column("participant_id", sa.Integer(), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("token_hash", sa.String(length=64), nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("tab", sa.String(length=36), nullable=True),
        sa.Column("seed", sa.Integer(), nullable=False),
        sa.Column("screen", sa.JSON(), nullable=False),
        sa.Column("hz", sa.Double(), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("finished_at", sa.DateTime(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(
            ["participant_id"], ["participant.id"], name=op.f("fk_session_participant_id")
        ),
        sa.ForeignKeyConstraint(["study_id"], ["study.id"], name=op.f("fk_session_study_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_session")),
        sa.UniqueConstraint(
            "study_id", "participant_id", name=op.f("uq_session_study_id_participant_id")
        ),
    )
    with op.batch_alter_table("session", schema=None) as batch_op:
        batch_op.create_index(
            batch_op.f("ix_session_participant_id"), ["participant_id"], unique=False
        )
        batch_op.create_index(batch_op.f("ix_session_token_hash"), ["token_hash"], unique=False)

    op.create_table(
        "stimulus",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("study_id", sa.Integer(), nullable=False),
        sa.Column("role", sa.String(length=16), nullable=False),
        sa.Column("truth", sa.String(length=32), nullable=False),
        sa.Column("capacity", sa.Integer(), nullable=True),
        sa.Column("taken", sa.Integer(), nullable=False),
        sa.Column("shuffle", sa.Double(), nullable=False),
        sa.Column("pair", sa.String(), nullable=True),
        sa.ForeignKeyConstraint(["study_id"], ["study.id"], name=op.f("fk_stimulus_study_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_stimulus")),
    )
    with op.batch_alter_table("stimulus", schema=None) as batch_op:
        batch_op.create_index(
            "next_stimulus", ["study_id", "role", "taken", "shuffle"], unique=False
        )

    op.create_table(
        "exclusion",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("session_id", sa.Integer(), nullable=False),
        sa.Column("rule", sa.String(length=32), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("detail", sa.String(), nullable=False),
        sa.Column("decided_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["session_id"], ["session.id"], name=op.f("fk_exclusion_session_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_exclusion")),
        sa.UniqueConstraint(
            "session_id", "rule", "version", name=op.f("uq_exclusion_session_id_rule_version")
        ),
    )
    op.create_table(
        "identity",
        sa.Column("session_id", sa.Integer(), nullable=False),
        sa.Column("participant_id", sa.Integer(), nullable=False),
        sa.Column("ids", sa.JSON(), nullable=False),
        sa.ForeignKeyConstraint(
            ["participant_id"], ["participant.id"], name=op.f("fk_identity_participant_id")
        ),
        sa.ForeignKeyConstraint(
            ["session_id"], ["session.id"], name=op.f("fk_identity_session_id")
        ),
        sa.PrimaryKeyConstraint("session_id", name=op.f("pk_identity")),
    )
    with op.batch_alter_table("identity", schema=None) as batch_op:
        batch_op.create_index(
            batch_op.f("ix_identity_participant_id"), ["participant_id"], unique=False
        )

    op.create_table(
        "picture",
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
            ["source_id"], ["source_image.id"], name=op.f("fk_picture_source_id")
        ),
        sa.ForeignKeyConstraint(
            ["stimulus_id"], ["stimulus.id"], name=op.f("fk_picture_stimulus_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_picture")),
        sa.UniqueConstraint("stimulus_id", "place", name=op.f("uq_picture_stimulus_id_place")),
    )
    with op.batch_alter_table("picture", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_picture_source_id"), ["source_id"], unique=False)

    op.create_table(
        "trial",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("public_id", sa.String(length=32), nullable=False),
        sa.Column("session_id", sa.Integer(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("key", sa.String(length=36), nullable=False),
        sa.Column("role", sa.String(length=16), nullable=False),
        sa.Column("stimulus_id", sa.Integer(), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("served_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["session_id"], ["session.id"], name=op.f("fk_trial_session_id")),
        sa.ForeignKeyConstraint(
            ["stimulus_id"], ["stimulus.id"], name=op.f("fk_trial_stimulus_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_trial")),
        sa.UniqueConstraint("public_id", name=op.f("uq_trial_public_id")),
        sa.UniqueConstraint("session_id", "key", name=op.f("uq_trial_session_id_key")),
        sa.UniqueConstraint("session_id", "number", name=op.f("uq_trial_session_id_number")),
    )
    with op.batch_alter_table("trial", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_trial_stimulus_id"), ["stimulus_id"], unique=False)
        batch_op.create_index("lease", ["state", "expires_at"], unique=False)

    op.create_table(
        "response",
        sa.Column("trial_id", sa.Integer(), nullable=False),
        sa.Column("client_uuid", sa.String(length=36), nullable=False),
        sa.Column("choice", sa.String(length=32), nullable=False),
        sa.Column("correct", sa.Boolean(), nullable=False),
        sa.Column("rt_ms", sa.Double(), nullable=True),
        sa.Column("stamps", sa.JSON(), nullable=False),
        sa.Column("flags", sa.JSON(), nullable=False),
        sa.Column("body_hash", sa.LargeBinary(length=32), nullable=False),
        sa.Column("received_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["trial_id"], ["trial.id"], name=op.f("fk_response_trial_id")),
        sa.PrimaryKeyConstraint("trial_id", name=op.f("pk_response")),
    )
