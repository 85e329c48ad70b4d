"""What is asked of a server by many participants at once, and what came of it."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np


@dataclass(frozen=True)
class Load:
    """What is asked of a server. `think_s`: between two responses of one participant.

    `arrive_s`: within how many seconds all have come, for nobody reads what comes first alike fast.
    `key`: a JSON file with what each image shows, by the SHA-256 of its pixels, as [correct
    response, number of the image]. `others`: further responses for those who guess. `guessers`: one
    in so many passes the qualification and guesses from then on, 0 for nobody; `leavers`: one in
    so many closes the page in the middle. `patience_s`: how long a study must be full before all
    go home. `stop`: a file; all go home as soon as it is there.
    """

    base: str
    study: str
    key: str
    seconds: float
    participants: int = 64
    think_s: float = 2.0
    arrive_s: float = 6.0
    others: tuple[str, ...] = ("cat", "dog")
    guessers: int = 0
    leavers: int = 0
    patience_s: float = 0.0
    stop: str = ""


@dataclass
class Result:
    """What came of it.

    `latencies`: of each reply to a request for a trial, [time, ms]. `acknowledged` and `sent`:
    trial → [uuid, choice]. `seen`: for each participant the images, in order. `statuses`: how
    often each reply came, "lost" for none. `ends`: what became of participants. `moments`: trial →
    when its response was acknowledged.
    """

    latencies: list[tuple[float, float]] = field(default_factory=list)
    acknowledged: dict[str, list[str]] = field(default_factory=dict)
    sent: dict[str, list[str]] = field(default_factory=dict)
    seen: list[list[int]] = field(default_factory=list)
    statuses: Counter[str] = field(default_factory=Counter)
    ends: Counter[str] = field(default_factory=Counter)
    moments: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Summary:
    """Figures of a run; times in ms, of replies to requests for a trial, as the client saw them.

    `p50` and `p99` leave out the seconds after a kill, when all that had waited comes at once;
    `p99_all` and `worst` leave out nothing.
    """

    requests: int
    p50: float
    p99: float
    p99_all: float
    worst: float
    acknowledged: int
    lost: int
    kills: int

    def __str__(self) -> str:
        return (
            f"{self.requests} requests for a trial, p50 {self.p50:.0f} ms, p99 {self.p99:.0f} ms"
            f" ({self.p99_all:.0f} ms with restarts), longest {self.worst:.0f} ms;"
            f" {self.acknowledged} responses acknowledged,"
            f" {self.lost} replies lost, {self.kills} kills"
        )


def summarize(result: Result, away: Sequence[tuple[float, float]]) -> Summary:
    """Return the figures; `away`: from when to when the server was killed and came back."""
    everything = [ms for _, ms in result.latencies]
    usual = [ms for at, ms in result.latencies if not any(start < at < end for start, end in away)]
    p50, p99 = np.percentile(usual, [50, 99])
    return Summary(
        requests=len(everything),
        p50=float(p50),
        p99=float(p99),
        p99_all=float(np.percentile(everything, 99)),
        worst=max(everything),
        acknowledged=len(result.acknowledged),
        lost=result.statuses.get("lost", 0),
        kills=len(away),
    )
