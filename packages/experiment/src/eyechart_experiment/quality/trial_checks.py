"""Tests of trials: which single ones do not count, and whether dropped or late ones differ."""

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import timedelta
from math import ceil, comb, erfc, sqrt

import numpy as np

from eyechart_experiment.storage.session_records import (
    MAIN,
    SessionRecord,
    TrialResponse,
    max_delta_v,
)
from eyechart_experiment.study_config import StudyConfig

SIMILAR_DELTA_V = 0.2
"""Width of the ranges of Δv within which trials count as equally hard."""


def p_harder(dropped: Sequence[float], others: Sequence[float]) -> float:
    """Return the p-value of the one-sided Mann-Whitney test that `dropped` has larger values.

    By the normal approximation with corrections for ties and continuity; 1 if there is nothing to
    compare. Not from SciPy, whose statistics take a second to load, in which participants wait.

    Example:
        >>> p_harder([0.8, 0.9, 0.7], [0.1, 0.2, 0.3, 0.4, 0.5]) < 0.05
        True
    """
    n_dropped, n_others = len(dropped), len(others)
    total = n_dropped + n_others
    values = np.concatenate([np.asarray(dropped, float), np.asarray(others, float)])
    _, indices, counts = np.unique(values, return_inverse=True, return_counts=True)
    if len(counts) < 2 or not n_dropped or not n_others:
        return 1.0
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[indices]
    u = float(ranks[:n_dropped].sum()) - n_dropped * (n_dropped + 1) / 2
    ties = float((counts.astype(float) ** 3 - counts).sum()) / (total * (total - 1))
    spread = sqrt(n_dropped * n_others / 12 * (total + 1 - ties))
    z = (u - n_dropped * n_others / 2 - 0.5) / spread
    return 0.5 * erfc(z / sqrt(2))


def selection(record: SessionRecord) -> tuple[int, float]:
    """Return how many different stimuli of the main part were dropped, and whether by their Δv.

    The second value is the p-value of the test that dropped stimuli have larger Δv than those to
    which the participant responded at once. A stimulus that was dropped and responded to when it
    came back counts as dropped. So does one during which the participant left the page, since its
    trial does not count either.
    """
    away = [response for response in record.of(*MAIN) if set(AWAY) & set(response.flags)]
    dropped = {trial.stimulus: max_delta_v(trial.images) for trial in record.dropped_of(*MAIN)}
    dropped |= {response.stimulus: max_delta_v(response.images) for response in away}
    others = [
        max_delta_v(response.images)
        for response in record.of(*MAIN)
        if response.stimulus not in dropped
    ]
    return len(dropped), p_harder(list(dropped.values()), others)


def p_fewer(groups: Iterable[tuple[int, int, int, int]]) -> float:
    """Return the p-value of the exact test that fewer are correct late than before, in all groups.

    A group of equally hard trials has the numbers of correct and of all trials before, and of
    correct and of all late trials. Given its number of correct trials, how many of them are late
    follows a hypergeometric distribution; the sum over the groups is tested.

    Example:
        >>> round(p_fewer([(9, 10, 1, 4), (10, 10, 0, 1)]), 4)
        0.0046
    """
    distribution, n_late = np.ones(1), 0
    for correct_before, before, correct_late, late in groups:
        correct, total = correct_before + correct_late, before + late
        weights = [comb(correct, n) * comb(total - correct, late - n) for n in range(late + 1)]
        distribution = np.convolve(distribution, np.asarray(weights) / comb(total, late))
        n_late += correct_late
    return float(distribution[: n_late + 1].sum())


def p_late(responses: Sequence[TrialResponse], share: float) -> float:
    """Return the p-value of the test that the last `share` of the responses is worse."""
    first = len(responses) - ceil(share * len(responses))
    counts: dict[tuple[str, int], Counter[str]] = {}
    for index, response in enumerate(responses):
        hardness = int(max_delta_v(response.images) / SIMILAR_DELTA_V)
        count = counts.setdefault((response.role, hardness), Counter())
        part = "late" if index >= first else "before"
        count[part] += 1
        count[f"correct {part}"] += response.correct
    return p_fewer(
        (count["correct before"], count["before"], count["correct late"], count["late"])
        for count in counts.values()
    )


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
