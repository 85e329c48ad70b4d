"""Which single trials do not count, whoever responded: by flags, stamps, the server's clock."""

from collections.abc import Sequence
from datetime import timedelta

from eyechart_experiment.storage.session_records import SessionRecord, TrialResponse
from eyechart_experiment.study_config import StudyConfig

AWAY = ("hidden", "blurred_focus")
DROPPING = ("timing", "slow_decode", *AWAY, "resized", "too_soon", "too_late")
"""Flags of single trials that do not count: the image was shown too long or too briefly, was
decoded later than the stamps say, or had the wrong size, the page was not visible, or the response
time is impossible.
"""

PHASES = ("fixation", "stimulus", "blank", "mask", "response", "end")
"""The stamps of the phases of a trial, in their order."""

FRAMES_OFF = 1.25
"""Tolerance in frames: one frame, plus a quarter of a frame for the jitter of the clock."""

PLAUSIBLE_HZ = (23.0, 1000.0)
"""Refresh rates of displays: from 24 Hz, with some inaccuracy, to more than any display has. A
lower rate would allow an image to be shown for longer, since a frame is the tolerance.
"""

CLOCK_MS = 100.0
"""Tolerance when the durations that a browser claims are compared with the time that passed on the
server: the end of a trial is stamped one frame ahead.
"""

TRIALS = (
    f"A single trial does not count, whoever responded, if it is flagged {', '.join(DROPPING[:-1])}"
    f" or {DROPPING[-1]}, or if its time stamps say that the image was shown for more than a frame"
    " too long or too short. Nor does it count if its time stamps cannot be true (stamps): the"
    " onset of a phase or the refresh rate is missing, the rate is not between"
    f" {PLAUSIBLE_HZ[0]:g} and {PLAUSIBLE_HZ[1]:g} Hz, the phases are not in their order, or the"
    " response came after the end; or if it claims more time than passed on the server (clock). The"
    " stimulus of a dropped trial is shown to the same participant again"
    " if its number of responses allows it, and that response counts."
)


def invalid_reasons(record: SessionRecord, config: StudyConfig) -> dict[int, tuple[str, ...]]:
    """Return the reasons why single trials do not count, by the number of the trial."""
    beyond = beyond_clock(record.responses)
    reasons = {
        response.number: (
            *(flag for flag in DROPPING if flag in response.flags),
            *(("clock",) if response.number in beyond else ()),
            *_stamp_faults(response, config),
        )
        for response in record.responses
    }
    return {number: tuple(dict.fromkeys(found)) for number, found in reasons.items() if found}


def beyond_clock(responses: Sequence[TrialResponse]) -> set[int]:
    """Return the numbers of trials that claim more time than passed on the server.

    A trial begins after it was handed out and after the one before it has ended, and its response
    arrives after its end. How long a response waits to be sent does not matter.
    """
    beyond, ended = set(), None
    for response in responses:
        began = response.served_at if ended is None else max(ended, response.served_at)
        ended = began + timedelta(milliseconds=_stamp(response, "end") or 0.0)
        if ended > response.received_at + timedelta(milliseconds=CLOCK_MS):
            beyond.add(response.number)
            ended = response.received_at
    return beyond


def _stamp_faults(response: TrialResponse, config: StudyConfig) -> list[str]:
    """Return "stamps" if a trial's stamps cannot be true, and "timing" if its exposure is off."""
    is_pair = config.kind == "same-different"
    # While two images are on the screen, a response ends them: there is no phase after it.
    required = ("stimulus", "end") if is_pair else ("stimulus", "blank", "response", "end")
    onsets = {name: at for name in PHASES if (at := _stamp(response, name)) is not None}
    hz, times = _stamp(response, "hz") or 0.0, list(onsets.values())
    is_plausible = PLAUSIBLE_HZ[0] <= hz <= PLAUSIBLE_HZ[1]
    if not is_plausible or not set(required) <= onsets.keys() or times != sorted(times):
        return ["stamps"]
    tolerance = FRAMES_OFF * 1000 / hz
    waited = onsets["end"] - onsets["stimulus" if is_pair else "response"]
    if response.rt_ms is not None and response.rt_ms > waited + tolerance:
        return ["stamps"]
    wanted = config.show_ms if is_pair else config.stimulus_ms
    stop = onsets.get("response" if is_pair else "blank", onsets["end"])
    shown = stop - onsets["stimulus"]
    is_short = shown < wanted - tolerance and not (is_pair and "response" not in onsets)
    return ["timing"] if wanted and (is_short or shown > wanted + tolerance) else []


def _stamp(response: TrialResponse, name: str) -> float | None:
    """Return a stamp of a response, or None if it is missing or no number."""
    value = response.stamps.get(name)
    return float(value) if isinstance(value, int | float) else None
