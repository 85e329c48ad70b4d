"""What goes over the wire: the bodies of requests and replies, with their bounds."""

from datetime import datetime
from typing import Annotated, Literal
from uuid import UUID

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints

from eyechart.experiment.server.responses import MOST_MS, Given, Stored
from eyechart.experiment.server.sessions import State

Short = Annotated[str, StringConstraints(max_length=512)]
Flag = Literal["timing", "hidden", "blurred_focus", "slow_decode", "resized", "late"]
Stamp = Literal[
    "fixation", "stimulus", "blank", "mask", "response", "end",
    "frames_dropped", "longest_frame", "hz", "stimulus_frames",
]  # fmt: skip
Milliseconds = Annotated[float, Field(ge=0, le=MOST_MS, allow_inf_nan=False, strict=True)]
Pixels = Annotated[int, Field(ge=0, le=100_000, strict=True)]


def _is_true(value: object) -> object:
    # 1 and 1.0 equal True and would do otherwise; agreeing is said in one way
    if value is not True:
        raise ValueError("must be true")
    return value


Agreed = Annotated[Literal[True], BeforeValidator(_is_true)]


class Body(BaseModel):
    """A body that holds what is listed and nothing else."""

    model_config = ConfigDict(extra="forbid")


class Problem(Body):
    """Why something was refused: a code for programs, a sentence for people."""

    code: str
    message: str


class Counts(Body):
    """How many trials each part has; catch trials are counted in the main part."""

    practice: int
    qualification: int
    trials: int


class Timing(Body):
    """Durations in ms; 0 for response_ms and show_ms: until there is an answer."""

    fixation_ms: int
    stimulus_ms: int
    mask_ms: int
    response_ms: int
    show_ms: int


class StudyInfo(Body):
    """What a page must know before anybody has agreed to anything."""

    name: str
    title: str
    kind: Literal["categorise", "same-different"]
    consent: str
    contact: str
    payment: str
    minutes: int
    counts: Counts
    block: int
    timing: Timing
    side: int
    choices: list[str]
    open: bool


class Screen(Body):
    """What the browser says of the screen."""

    width: Pixels = 0
    height: Pixels = 0
    ratio: Annotated[float, Field(ge=0, le=100, allow_inf_nan=False, strict=True)] = 1.0


class Join(Body):
    """Somebody agrees to take part. `ids`: those of the platform, as they stand in the address."""

    platform: Literal["link", "mturk", "prolific"]
    ids: Annotated[
        dict[Annotated[str, StringConstraints(max_length=64)], Short], Field(max_length=8)
    ]
    consent: Agreed
    screen: Screen = Screen()


class Joined(Body):
    """A session's token, to be sent as `Authorization: Bearer TOKEN`."""

    token: str
    expires_at: datetime
    state: str


class Completed(Body):
    """How to go back where one came from."""

    way: Literal["code", "form", "redirect"]
    code: str
    action: str
    url: str
    fields: dict[str, str]


class SessionState(Body):
    """How far a session is."""

    state: Literal["active", "failed", "finished"]
    phase: Literal["practice", "qualification", "main", "finish", "done"]
    answered: dict[str, int]
    planned: dict[str, int]
    right_share: float | None
    participant: str
    completion: Completed | None

    @classmethod
    def of(cls, state: State) -> "SessionState":
        """Return the reply for a state."""
        done = state.completion
        completion = None
        if done is not None:
            completion = Completed(
                way=done.way,
                code=done.code,
                action=done.action,
                url=done.url,
                fields=dict(done.fields or {}),
            )
        return cls.model_validate(
            {
                "state": state.state,
                "phase": state.phase,
                "answered": dict(state.answered),
                "planned": dict(state.planned),
                "right_share": state.right_share,
                "participant": state.participant,
                "completion": completion,
            }
        )


class ClaimTab(Body):
    """A browser tab that goes on with the session, and the frames per second that it measured."""

    tab: UUID
    hz: Annotated[float, Field(gt=0, le=1000, allow_inf_nan=False, strict=True)] | None = None


class Ask(Body):
    """Asks for a trial. The same key gets the same trial."""

    key: UUID


class TrialInfo(Body):
    """A trial: ids that say nothing, and which one it is of how many in its phase."""

    id: str
    phase: Literal["practice", "qualification", "main"]
    pictures: list[str]
    number: int
    of: int


class NextTrial(Body):
    """What to do next, and the trial if it is one."""

    trial: TrialInfo | None
    next: Literal["trial", "wait", "finish", "failed", "done"]


class Answer(Body):
    """An answer. `choice` is empty if none was given in time."""

    uuid: UUID
    choice: Annotated[str, StringConstraints(max_length=32)]
    rt_ms: Milliseconds | None
    stamps: dict[Stamp, Milliseconds]
    flags: Annotated[list[Flag], Field(max_length=16)]

    def given(self) -> Given:
        """Return the answer as it is stored."""
        stamps = {str(name): value for name, value in self.stamps.items()}
        return Given(str(self.uuid), self.choice, self.rt_ms, stamps, self.flags)


class Feedback(Body):
    """Of a practice trial: whether the answer was right, and what would have been."""

    right: bool
    truth: str


class Acknowledged(Body):
    """The answer is on disk."""

    stored: Literal[True] = True
    feedback: Feedback | None
    state: SessionState

    @classmethod
    def of(cls, stored: Stored) -> "Acknowledged":
        """Return the reply for an answer."""
        feedback = None
        if stored.right is not None and stored.truth is not None:
            feedback = Feedback(right=stored.right, truth=stored.truth)
        return cls(feedback=feedback, state=SessionState.of(stored.state))
