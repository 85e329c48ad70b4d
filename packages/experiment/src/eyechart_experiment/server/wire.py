"""Bodies of requests and replies, with the limits on their values.

tools/write_wire.py generates the pages' TypeScript types from these records, which are not stored.
"""

import hashlib
import json
from datetime import datetime
from typing import Annotated, Literal
from uuid import UUID

from pydantic import AfterValidator, BeforeValidator, Field, StringConstraints, WithJsonSchema
from typing_extensions import TypeAliasType

from eyechart.core.records import Record
from eyechart_experiment.recruiters import RECRUITERS
from eyechart_experiment.recruiters.recruiter import Completion

MAX_MS = 3_600_000.0
"""Maximum reaction time: one hour."""

# Named types, which keep their names in the JSON Schema and in TypeScript.
Phase = TypeAliasType("Phase", Literal["practice", "qualification", "main"])
Flag = TypeAliasType(
    "Flag", Literal["timing", "hidden", "blurred_focus", "slow_decode", "resized", "late"]
)
Stamp = TypeAliasType(
    "Stamp",
    Literal[
        "fixation", "stimulus", "blank", "mask", "response", "end",
        "frames_dropped", "longest_frame", "hz", "stimulus_frames",
    ],
)  # fmt: skip
# Strict, because pydantic would otherwise convert "200" and true to numbers.
Milliseconds = Annotated[float, Field(ge=0, le=MAX_MS, allow_inf_nan=False, strict=True)]
Pixels = Annotated[int, Field(ge=0, le=100_000, strict=True)]
Identifier = Annotated[str, StringConstraints(max_length=512)]


def _is_true(value: object) -> object:
    # 1 and 1.0 equal True and would be accepted by Literal[True]; consent must be unambiguous.
    if value is not True:
        raise ValueError("must be true")
    return value


def _is_recruiter(name: str) -> str:
    if name not in RECRUITERS:
        raise ValueError("must be a recruiter")
    return name


Eyesight = TypeAliasType("Eyesight", Literal["normal", "corrected", "impaired", "undisclosed"])
Agreed = Annotated[Literal[True], BeforeValidator(_is_true)]
Platform = TypeAliasType(
    "Platform",
    Annotated[
        str,
        AfterValidator(_is_recruiter),
        WithJsonSchema({"type": "string", "enum": list(RECRUITERS)}),
    ],
)


class Problem(Record):
    """Why a request was rejected: a code for programs, a sentence for users."""

    code: str
    message: str


class PartCounts(Record):
    """Number of trials in each part of a session; catch trials count as main trials."""

    practice: int
    qualification: int
    trials: int


class TrialTiming(Record):
    """Durations in ms; for response_ms and show_ms, 0 means until the participant responds."""

    fixation_ms: int
    stimulus_ms: int
    mask_ms: int
    response_ms: int
    show_ms: int


class StudyInfo(Record):
    """What a page needs before the participant has given consent.

    `open`: whether new participants are admitted; `closed`: whether the experimenter closed it.
    """

    name: str
    title: str
    kind: Literal["categorise", "same-different"]
    consent: str
    institution: str
    approval: str
    contact: str
    payment: str
    survey: Literal["none", "eyesight"]
    minutes: int
    counts: PartCounts
    block: int
    timing: TrialTiming
    side: int
    choices: list[str]
    open: bool
    closed: bool


class ScreenSize(Record):
    """The screen as the browser reports it."""

    width: Pixels = 0
    height: Pixels = 0
    ratio: Annotated[float, Field(ge=0, le=100, allow_inf_nan=False, strict=True)] = 1.0


class ArrivalRequest(Record):
    """An arriving participant: the recruiter, and its ids from the URL."""

    platform: Platform
    ids: Annotated[
        dict[Annotated[str, StringConstraints(max_length=64)], Identifier], Field(max_length=8)
    ]


class JoinRequest(ArrivalRequest):
    """A request to join, with the participant's consent and the answer about eyesight, if any.

    `browser` is the browser's random id. Another browser needs the participant's `code` to resume a
    session: ids of recruiters are known to others.
    """

    consent: Agreed
    browser: UUID | None = None
    code: Annotated[str, StringConstraints(max_length=64)] = ""
    eyesight: Eyesight | None = None
    screen: ScreenSize = ScreenSize()


class JoinReply(Record):
    """A session's token, to be sent as `Authorization: Bearer TOKEN`."""

    token: str
    expires_at: datetime
    state: str


class PhaseCounts(Record):
    """Number of trials in each phase."""

    practice: int
    qualification: int
    main: int


class SessionState(Record):
    """A session's progress; `responded` counts trials with a response.

    `accuracy` is set only at the end of a block, and `changes`, in which ways the study's images
    were changed, only at the end of the session.
    """

    state: Literal["active", "failed", "finished"]
    phase: Phase | Literal["finish", "done"]
    responded: PhaseCounts
    planned: PhaseCounts
    accuracy: float | None
    participant: str
    completion: Completion | None
    changes: list[str]


class TabClaim(Record):
    """A browser tab that continues the session, and the frame rate measured in it."""

    tab: UUID
    hz: Annotated[float, Field(gt=0, le=1000, allow_inf_nan=False, strict=True)] | None = None


class TrialKey(Record):
    """A request for a trial. Requests with the same key return the same trial."""

    key: UUID


class TrialInfo(Record):
    """A trial: opaque ids, and its position among the session's trials."""

    id: str
    phase: Phase
    images: list[str]
    number: int
    of: int


class NextTrial(Record):
    """What to do next; `trial` is null unless `next` is "trial"."""

    trial: TrialInfo | None
    next: Literal["trial", "wait", "finish", "failed", "done"]


class ResponseBody(Record):
    """A response; `choice` is empty if the participant did not respond in time.

    `stamps` are in ms.
    """

    uuid: UUID
    choice: Annotated[str, StringConstraints(max_length=32)]
    rt_ms: Milliseconds | None
    stamps: dict[Stamp, Milliseconds]
    flags: Annotated[list[Flag], Field(max_length=16)]

    @property
    def digest(self) -> bytes:
        """SHA-256 of the whole body, which identifies a response that is sent again."""
        # Keys are sorted, because a page that sends a response again may order its stamps
        # differently.
        return hashlib.sha256(
            json.dumps(self.model_dump(mode="json"), sort_keys=True).encode()
        ).digest()


class Feedback(Record):
    """Feedback on a practice trial: whether the response was correct, and the correct response."""

    correct: bool
    truth: str


class Acknowledgement(Record):
    """Confirmation that the response is on disk."""

    stored: Literal[True] = True
    feedback: Feedback | None
    state: SessionState


REQUESTS = (ArrivalRequest, JoinRequest, TabClaim, TrialKey, ResponseBody)
REPLIES = (Problem, StudyInfo, JoinReply, SessionState, NextTrial, Acknowledgement)
"""Records that the pages send and receive; TypeScript types are generated for all of them."""
