"""Quality rules, version 2, fixed before the first response; any change needs a new version.

Version 2 keeps the limits of version 1 for speed, missing responses, buttons, focus and timing. It
adds what version 1 did not look at: whether a participant was checked at all, how much of the
session was done, and which trials were dropped.
"""

from collections.abc import Sequence
from math import ceil, erfc, sqrt

import numpy as np

from eyechart.experiment.quality import rules_v1
from eyechart.experiment.quality.rules_v1 import (
    AWAY,
    AWAY_SHARE,
    CATCH_SHARE,
    DROPPING,
    ENOUGH,
    FAST_MS,
    FAST_SHARE,
    GUESS_RISK,
    SAME_BUTTON,
    SILENT_SHARE,
    TIMING_SHARE,
    QualityRule,
)
from eyechart.experiment.storage.database_tables import FINISHED
from eyechart.experiment.storage.session_records import MAIN, SessionRecord, max_delta_v
from eyechart.experiment.study_config import StudyConfig

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


odd = rules_v1.odd
"""Single trials are judged as in version 1."""

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
        _V1["timing"],
    ),
)
PROVISIONAL = ("unchecked", "unfinished")
"""Rules that an inactive session violates only until its participant resumes it."""

TRIALS = (
    f"A single trial does not count, whoever responded, if it is flagged {', '.join(DROPPING[:-1])}"
    f" or {DROPPING[-1]}, or if its time stamps say that the image was shown for more than a frame"
    " too long or too short. The stimulus of a dropped trial is shown to the same participant again"
    " if its number of responses allows it, and that response counts."
)
