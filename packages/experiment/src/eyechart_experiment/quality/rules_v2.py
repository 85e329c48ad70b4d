"""Quality rules, version 2, fixed before the first response; any change needs a new version.

Version 2 keeps the limits of version 1 for speed, missing responses, buttons, focus and timing. It
adds what version 1 did not look at: whether a participant was checked at all, how much of the
session was done, which trials were dropped, whether the time stamps can be true, and whether the
second half was done as carefully as the first.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import timedelta
from math import ceil, comb, erfc, sqrt

import numpy as np

from eyechart_experiment.quality import rules_v1
from eyechart_experiment.quality.rules_v1 import (
    AWAY,
    AWAY_SHARE,
    CATCH_SHARE,
    DROPPING,
    ENOUGH,
    FAST_MS,
    FAST_SHARE,
    FRAMES_OFF,
    GUESS_RISK,
    SAME_BUTTON,
    SILENT_SHARE,
    TIMING_SHARE,
    QualityRule,
    above,
    number_of,
)
from eyechart_experiment.storage.database_tables import FINISHED
from eyechart_experiment.storage.session_records import (
    MAIN,
    SessionRecord,
    TrialResponse,
    max_delta_v,
)
from eyechart_experiment.study_config import StudyConfig

MIN_CATCH = 4
"""Minimum number of catch trials to count. Of 4, 3 must be correct, which a participant who guesses
among 16 categories reaches in 0.09 % of cases.
"""

MIN_MAIN_SHARE = 0.5
"""Minimum share of the planned main trials that an unfinished session needs to count. Catch trials
are spread evenly, so that half of them have then been shown as well.
"""

DROPPED_SHARE, DROPPED_FREE = 0.1, 6
"""A reload drops the trial on the screen and at most two that were loaded ahead. Two reloads never
exclude a session; after that, at most 10 % of the trials may be dropped.
"""

SELECTIVE_RISK, SELECTIVE_LEAST = 0.01, 3
"""Largest p-value at which dropped stimuli count as harder than the others, and the number of
dropped stimuli from which this is tested. Of participants whose drops do not depend on the
stimulus, at most 1 % are excluded by chance.
"""

PLAUSIBLE_HZ = (23.0, 1000.0)
"""Refresh rates of displays: from 24 Hz, with some inaccuracy, to more than any display has. A
lower rate would allow an image to be shown for longer, since a frame is the tolerance.
"""

CLOCK_MS = 100.0
"""Tolerance when the durations that a browser claims are compared with the time that passed on the
server: the end of a trial is stamped one frame ahead.
"""

FORGED_SHARE = 0.05
"""Maximum share of trials whose stamps cannot be true. A page never sends such stamps; only the
clock of the server, when it is set, makes single trials look like this.
"""

LATE_SHARES, LATE_RISK = (0.25, 0.5), 1e-3
"""The last parts of a session that are compared with what precedes them, and the largest p-value
at which a part is worse. Of participants who keep their accuracy, at most 0.2 % are excluded.
"""

LATE_CATCH_SHARE = 0.25
"""Of the 4 catch trials of the second half, 2 must be correct. A participant who guesses among 16
categories reaches this with probability 2 %; one with an accuracy of 95 % misses it with 0.05 %
(87 %: 0.8 %).
"""

SIMILAR_DELTA_V = 0.2
"""Width of the ranges of Δv within which trials count as equally hard."""


def min_catch(config: StudyConfig) -> int:
    """Return how many catch trials a session needs to count; fewer only if fewer are planned."""
    return min(MIN_CATCH, config.catch)


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
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    if len(counts) < 2 or not n_dropped or not n_others:
        return 1.0
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[place]
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


def _unchecked(record: SessionRecord, config: StudyConfig) -> str | None:
    n_catch, n_needed = len(record.of("catch")), min_catch(config)
    if n_catch >= n_needed:
        return None
    return f"{n_catch} catch trials, {n_needed} needed"


def _catch(record: SessionRecord, config: StudyConfig) -> str | None:
    responses = record.of("catch")
    n_correct = sum(response.correct for response in responses)
    # 1e-9: an exact product must not be rounded up because of floating-point error.
    n_needed = ceil(CATCH_SHARE * len(responses) - 1e-9)
    if n_correct >= n_needed:
        return None
    return f"{n_correct} of {len(responses)} correct, {n_needed} needed"


def _unfinished(record: SessionRecord, config: StudyConfig) -> str | None:
    n_main, n_needed = len(record.of("main")), MIN_MAIN_SHARE * config.trials
    if record.state == FINISHED or n_main >= n_needed:
        return None
    return f"{record.state} with {n_main} of {config.trials} main trials, {n_needed:g} needed"


def _dropped(record: SessionRecord, config: StudyConfig) -> str | None:
    n_dropped = len(record.dropped_of(*MAIN))
    total = n_dropped + len(record.of(*MAIN))
    if n_dropped <= max(DROPPED_FREE, DROPPED_SHARE * total):
        return None
    return f"{n_dropped} of {total} dropped, at most {DROPPED_SHARE:.0%}"


def _selective(record: SessionRecord, config: StudyConfig) -> str | None:
    n_dropped, p_value = selection(record)
    if n_dropped < SELECTIVE_LEAST or p_value >= SELECTIVE_RISK:
        return None
    return f"{n_dropped} dropped stimuli have larger Δv than the others (p = {p_value:.2g})"


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
        ended = began + timedelta(milliseconds=number_of(response, "end") or 0.0)
        if ended > response.received_at + timedelta(milliseconds=CLOCK_MS):
            beyond.add(response.number)
            ended = response.received_at
    return beyond


def _stamp_faults(response: TrialResponse, config: StudyConfig) -> list[str]:
    """Return "stamps" if a trial's stamps cannot be true, and "timing" if its exposure is off."""
    is_pair = config.kind == "same-different"
    # While two images are on the screen, a response ends them: there is no phase after it.
    needed = ("stimulus", "end") if is_pair else ("stimulus", "blank", "response", "end")
    onsets = {name: at for name in PHASES if (at := number_of(response, name)) is not None}
    hz, times = number_of(response, "hz") or 0.0, list(onsets.values())
    is_plausible = PLAUSIBLE_HZ[0] <= hz <= PLAUSIBLE_HZ[1]
    if not is_plausible or not set(needed) <= onsets.keys() or times != sorted(times):
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


PHASES = ("fixation", "stimulus", "blank", "mask", "response", "end")
"""The stamps of the phases of a trial, in their order."""


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


def _second_half(record: SessionRecord, config: StudyConfig) -> str | None:
    catch = record.of("catch")
    late = catch[(len(catch) + 1) // 2 :]
    n_right = sum(response.correct for response in late)
    if len(late) >= MIN_CATCH and n_right <= LATE_CATCH_SHARE * len(late):
        return f"{n_right} of the last {len(late)} catch trials right"
    responses = record.of(*MAIN)
    if len(responses) < ENOUGH:
        return None
    for share in LATE_SHARES:
        p_value = p_late(responses, share)
        if p_value < LATE_RISK:
            return f"the last {share:.0%} worse than what precedes them (p = {p_value:.2g})"
    return None


def _forged(record: SessionRecord, config: StudyConfig) -> str | None:
    reasons, responses = invalid_reasons(record, config), record.of(*MAIN)
    forged = sum(bool({"stamps", "clock"} & {*reasons.get(one.number, ())}) for one in responses)
    return above(forged, len(responses), FORGED_SHARE, "with stamps that cannot be true")


def _timing(record: SessionRecord, config: StudyConfig) -> str | None:
    reasons, responses = invalid_reasons(record, config), record.of(*MAIN)
    off = sum("timing" in reasons.get(one.number, ()) for one in responses)
    return above(off, len(responses), TIMING_SHARE, "off by more than a frame")


_V1 = {rule.name: rule.test for rule in rules_v1.RULES}
_OF = f"of the trials of the main part, once there are {ENOUGH}"
RULES = (
    QualityRule("qualification", "The qualification was not passed.", _V1["qualification"]),
    QualityRule(
        "unchecked",
        f"There are fewer than {MIN_CATCH} catch trials with a response (or fewer than planned, if"
        " the study plans fewer).",
        _unchecked,
    ),
    QualityRule(
        "catch",
        f"Fewer than {CATCH_SHARE:.0%} of the catch trials are correct. A missing response is"
        " incorrect.",
        _catch,
    ),
    QualityRule(
        "guessing",
        "Of qualification and catch trials together, no more are correct than a participant who"
        f" guesses reaches in {GUESS_RISK:.1%} of cases.",
        _V1["guessing"],
    ),
    QualityRule(
        "unfinished",
        f"The session was not finished, and fewer than {MIN_MAIN_SHARE:.0%} of the planned main"
        " trials have a response.",
        _unfinished,
    ),
    QualityRule(
        "dropped",
        f"More than {DROPPED_SHARE:.0%} of the trials of the main part were dropped, and more than"
        f" {DROPPED_FREE}. A trial is dropped if the page is reloaded or left before the response.",
        _dropped,
    ),
    QualityRule(
        "selective",
        f"At least {SELECTIVE_LEAST} stimuli of the main part were dropped, or shown while the page"
        " was hidden or not in front, and their Δv is larger than that of the"
        " other stimuli (one-sided Mann-Whitney test, p <"
        f" {SELECTIVE_RISK:g}).",
        _selective,
    ),
    QualityRule(
        "fast",
        f"More than {FAST_SHARE:.0%} of the responses of the main part, once there are {ENOUGH},"
        f" came within {FAST_MS['categorise']:.0f} ms of the grid (same/different:"
        f" {FAST_MS['same-different']:.0f} ms of the images), or before the image could have been"
        " shown.",
        _V1["fast"],
    ),
    QualityRule(
        "no_response", f"More than {SILENT_SHARE:.0%} {_OF}, have no response.", _V1["no_answer"]
    ),
    QualityRule(
        "one_button",
        f"The entropy of the responses of the main part, once there are {ENOUGH}, is under"
        f" {SAME_BUTTON['categorise']:.0%} (same/different: {SAME_BUTTON['same-different']:.0%})"
        " of that of the correct responses.",
        _V1["one_button"],
    ),
    QualityRule(
        "focus",
        f"In more than {AWAY_SHARE:.0%} {_OF}, the page was hidden or not in front.",
        _V1["focus"],
    ),
    QualityRule(
        "timing",
        f"In more than {TIMING_SHARE:.0%} {_OF}, the image was shown for more than a frame too long"
        " or too short.",
        _timing,
    ),
    QualityRule(
        "forged",
        f"In more than {FORGED_SHARE:.0%} {_OF}, the time stamps cannot be true.",
        _forged,
    ),
    QualityRule(
        "second_half",
        f"Of the catch trials of the second half, {LATE_CATCH_SHARE:.0%} or fewer are correct, once"
        f" there are {MIN_CATCH}; or, once the main part has {ENOUGH} responses, in the last"
        f" {LATE_SHARES[0]:.0%} or {LATE_SHARES[1]:.0%} of them fewer are correct than before,"
        f" compared within ranges of Δv of width {SIMILAR_DELTA_V:g} (exact test, p <"
        f" {LATE_RISK:g}).",
        _second_half,
    ),
)
PROVISIONAL = ("unchecked", "unfinished")
"""Rules that an inactive session violates only until its participant resumes it."""

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
