"""The tables of the database and the meaning of their columns."""

from datetime import UTC, datetime

from sqlalchemy import (
    JSON,
    DateTime,
    ForeignKey,
    Index,
    LargeBinary,
    String,
    UniqueConstraint,
)
from sqlalchemy.engine import Dialect
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column, relationship
from sqlalchemy.types import TypeDecorator

LIVE, RESPONDED, DROPPED = "live", "responded", "dropped"
"""States of a trial: handed out, responded to, lost (lease expired, page closed or reloaded)."""

CLEAN = "clean"
"""Corruption of clean images, as in test sets; stated here because those import torch."""

RELOADED, EXPIRED, ENDED = "reloaded", "expired", "ended"
"""Why a trial was dropped: the page was reloaded or opened in another tab; there was no response
before the lease expired; the session ended first.
"""

ACTIVE, FAILED, FINISHED = "active", "failed", "finished"
"""States of a session: in progress, ended by the qualification, complete."""


ROBOT = "robot"
"""Platform of simulated participants, whichever page they used."""

JsonObject = dict[str, object]


class Moment(TypeDecorator[datetime]):
    """A time in UTC, regardless of how the database handles time zones."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Return the time as UTC."""
        return value if value is None else value.astimezone(UTC)

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Return the time with its time zone."""
        if value is None or value.tzinfo is not None:
            return value
        # SQLite does not store the zone; everything that was written is UTC.
        return value.replace(tzinfo=UTC)


class Base(DeclarativeBase):
    """Base class of all tables."""

    type_annotation_map = {  # noqa: RUF012
        datetime: Moment,
        JsonObject: JSON,
        dict[str, float]: JSON,
        dict[str, str]: JSON,
        list[str]: JSON,
    }


class SchemaRow(Base):
    """A table with one row: the version of the tables."""

    __tablename__ = "schema_version"
    version: Mapped[int] = mapped_column(primary_key=True)


class InstallationRow(Base):
    """A table with one row: the fingerprint of the secret key for participants' pseudonyms.

    `simulated`: whether the database is a rehearsal, in which all participants are robots.
    """

    __tablename__ = "installation"
    id: Mapped[int] = mapped_column(primary_key=True)
    secret: Mapped[str] = mapped_column(String(64))
    simulated: Mapped[bool] = mapped_column(default=False)


class StudyRow(Base):
    """A study; `config` contains the fields of StudyConfig, and `status` is open or closed.

    `visits`: how often the page was opened.
    """

    __tablename__ = "study"
    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(String(64), unique=True)
    config: Mapped[JsonObject]
    config_hash: Mapped[str] = mapped_column(String(16))
    status: Mapped[str] = mapped_column(String(16), default="open")
    created_at: Mapped[datetime]
    visits: Mapped[int] = mapped_column(default=0)


class SourceImageRow(Base):
    """A source image, identified across all studies by its file's digest."""

    __tablename__ = "source_image"
    id: Mapped[int] = mapped_column(primary_key=True)
    digest: Mapped[str] = mapped_column(String(64), unique=True)
    name: Mapped[str]
    category: Mapped[str] = mapped_column(String(32))


class StimulusRow(Base):
    """What one trial shows: one image to categorize, or two to compare.

    `truth`: the correct response (a category, "same" or "different"). `capacity`: how many
    responses are wanted, None for unlimited (practice, qualification, catch). `taken`: number of
    live trials plus responses that count. `shuffle`: random rank among stimuli with the same
    `taken`. `pair`: for same/different, the two corruptions compared, as "a|b" in alphabetical
    order, even if the trial shows one of them twice.
    """

    __tablename__ = "stimulus"
    # In the order in which the next stimulus is searched, so that nothing needs to be sorted.
    __table_args__ = (Index("next_stimulus", "study_id", "role", "taken", "shuffle"),)
    id: Mapped[int] = mapped_column(primary_key=True)
    study_id: Mapped[int] = mapped_column(ForeignKey("study.id"))
    role: Mapped[str] = mapped_column(String(16))
    truth: Mapped[str] = mapped_column(String(32))
    capacity: Mapped[int | None]
    taken: Mapped[int] = mapped_column(default=0)
    shuffle: Mapped[float]
    pair: Mapped[str | None]
    images: Mapped[list["StimulusImageRow"]] = relationship(order_by="StimulusImageRow.place")


class StimulusImageRow(Base):
    """An image of a stimulus.

    `corruption`: the corruption's name in the test set, or "clean"; `row`: the image's row in the
    manifest; `sha256`: digest of its pixels, height × width × 3 bytes, and name of its file.
    """

    __tablename__ = "stimulus_image"
    __table_args__ = (UniqueConstraint("stimulus_id", "place"),)
    id: Mapped[int] = mapped_column(primary_key=True)
    stimulus_id: Mapped[int] = mapped_column(ForeignKey("stimulus.id"))
    place: Mapped[int]
    source_id: Mapped[int] = mapped_column(ForeignKey("source_image.id"), index=True)
    row: Mapped[int]
    corruption: Mapped[str]
    parameters: Mapped[dict[str, float]]
    delta_v: Mapped[float | None]
    sha256: Mapped[str] = mapped_column(String(64))
    source: Mapped[SourceImageRow] = relationship()


class ParticipantRow(Base):
    """A participant, whose identity is not verified.

    `code`: the pseudonym used in all exports. `platform`: the recruiter's name, or `ROBOT` in a
    simulation. `digest`: keyed hash of the platform and the participant's id there.
    """

    __tablename__ = "participant"
    id: Mapped[int] = mapped_column(primary_key=True)
    code: Mapped[str] = mapped_column(String(32), unique=True)
    platform: Mapped[str] = mapped_column(String(16))
    digest: Mapped[str] = mapped_column(String(64), unique=True)
    created_at: Mapped[datetime]


class IdentityRow(Base):
    """Platform ids as received, kept in a separate table so that they can be deleted.

    `ids`: the ids received for a session, such as assignmentId, hitId and workerId.
    """

    __tablename__ = "identity"
    session_id: Mapped[int] = mapped_column(ForeignKey("session.id"), primary_key=True)
    participant_id: Mapped[int] = mapped_column(ForeignKey("participant.id"), index=True)
    ids: Mapped[dict[str, str]]


class ConsentRow(Base):
    """A participant's consent: the time, and the SHA-256 of the text agreed to."""

    __tablename__ = "consent"
    id: Mapped[int] = mapped_column(primary_key=True)
    participant_id: Mapped[int] = mapped_column(ForeignKey("participant.id"), index=True)
    study_id: Mapped[int] = mapped_column(ForeignKey("study.id"))
    text_hash: Mapped[str] = mapped_column(String(64))
    agreed_at: Mapped[datetime]


class SessionRow(Base):
    """One participant's session in one study.

    `token_hash`: SHA-256 of the only valid token. `tab`: the browser tab that continues the
    session; requests from other tabs are rejected. `screen`: the screen as reported by the browser;
    `hz`: its measured refresh rate. `seed`: determines the positions of catch trials. `eyesight`:
    what the participant says about it, None if not asked. `code`: the random completion code, which
    is shown only once the session has ended. `browser`: hash of the random id of the browser that
    may resume the session without the participant code.
    """

    __tablename__ = "session"
    # Lets the second of two concurrent joins fail, which `join` then retries.
    __table_args__ = (UniqueConstraint("study_id", "participant_id"),)
    id: Mapped[int] = mapped_column(primary_key=True)
    study_id: Mapped[int] = mapped_column(ForeignKey("study.id"))
    participant_id: Mapped[int] = mapped_column(ForeignKey("participant.id"), index=True)
    state: Mapped[str] = mapped_column(String(16), default=ACTIVE)
    token_hash: Mapped[str] = mapped_column(String(64), index=True)
    expires_at: Mapped[datetime]
    tab: Mapped[str | None] = mapped_column(String(36))
    seed: Mapped[int]
    screen: Mapped[JsonObject]
    hz: Mapped[float | None]
    eyesight: Mapped[str | None] = mapped_column(String(16))
    code: Mapped[str] = mapped_column(String(16), unique=True, index=True)
    browser: Mapped[str | None] = mapped_column(String(64))
    created_at: Mapped[datetime]
    finished_at: Mapped[datetime | None]
    participant: Mapped[ParticipantRow] = relationship()


class ExposureRow(Base):
    """A source image that a participant has seen in any study; it is never shown to them again."""

    __tablename__ = "exposure"
    # Both columns are the key, so that the database itself rejects a second exposure.
    participant_id: Mapped[int] = mapped_column(ForeignKey("participant.id"), primary_key=True)
    source_id: Mapped[int] = mapped_column(ForeignKey("source_image.id"), primary_key=True)


class TrialRow(Base):
    """A stimulus handed to a session. `public_id`: the only id that is sent to the browser.

    `number`: position in the session, starting at 0; dropped trials are counted. `key`: the id that
    the browser gave the request, so that repeating the request returns the same trial.
    `drop_reason` and `dropped_at`: why and when it was dropped, if it ever was.
    """

    __tablename__ = "trial"
    __table_args__ = (
        UniqueConstraint("session_id", "number"),
        # Concurrent requests with the same key cannot both get a trial.
        UniqueConstraint("session_id", "key"),
        # Every request for a trial looks for expired leases.
        Index("lease", "state", "expires_at"),
    )
    id: Mapped[int] = mapped_column(primary_key=True)
    public_id: Mapped[str] = mapped_column(String(32), unique=True)
    session_id: Mapped[int] = mapped_column(ForeignKey("session.id"))
    number: Mapped[int]
    key: Mapped[str] = mapped_column(String(36))
    role: Mapped[str] = mapped_column(String(16))
    stimulus_id: Mapped[int] = mapped_column(ForeignKey("stimulus.id"), index=True)
    state: Mapped[str] = mapped_column(String(16), default=LIVE)
    served_at: Mapped[datetime]
    expires_at: Mapped[datetime]
    drop_reason: Mapped[str | None] = mapped_column(String(16))
    dropped_at: Mapped[datetime | None]
    stimulus: Mapped[StimulusRow] = relationship()


class ResponseRow(Base):
    """The response to a trial.

    `choice`: a category, "same" or "different", or "" if there was no response in time. `rt_ms`:
    reaction time since the onset of the response grid, or of two images to compare. `stamps`:
    onset of each phase in ms since the fixation, frames dropped, the longest frame, and whether the
    tab was visible. `flags`: anomalies reported by the browser or found by the server. `body_hash`:
    identifies a response that is sent again.
    """

    __tablename__ = "response"
    trial_id: Mapped[int] = mapped_column(ForeignKey("trial.id"), primary_key=True)
    client_uuid: Mapped[str] = mapped_column(String(36))
    choice: Mapped[str] = mapped_column(String(32))
    correct: Mapped[bool]
    rt_ms: Mapped[float | None]
    stamps: Mapped[JsonObject]
    flags: Mapped[list[str]]
    body_hash: Mapped[bytes] = mapped_column(LargeBinary(32))
    received_at: Mapped[datetime]


class ExclusionRow(Base):
    """An excluded session: the rule it violates, and the details."""

    __tablename__ = "exclusion"
    __table_args__ = (UniqueConstraint("session_id", "rule"),)
    id: Mapped[int] = mapped_column(primary_key=True)
    session_id: Mapped[int] = mapped_column(ForeignKey("session.id"))
    rule: Mapped[str] = mapped_column(String(32))
    detail: Mapped[str]
    decided_at: Mapped[datetime]
