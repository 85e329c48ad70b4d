"""The quality rules: whose responses count. Fixed before the first response of a study.

A rule either excludes a whole session or does nothing. Rules about rates need a minimum number of
trials to decide. Nothing is ever deleted. `trial_checks` judges single trials.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from math import ceil, log2

from scipy.special import bdtrc

from eyechart_experiment.quality.trial_checks import (
    AWAY,
    SIMILAR_DELTA_V,
    TRIALS,
    invalid_reasons,
    p_late,
    selection,
)
from eyechart_experiment.storage.database_tables import FAILED, FINISHED
from eyechart_experiment.storage.session_records import MAIN, SessionRecord, TrialResponse
from eyechart_experiment.study_config import StudyConfig

RULES_VERSION = 1
"""Stated in every export; a change of the rules needs another version."""

CHOICES = {"categorise": 16, "same-different": 2}

MIN_CATCH = 4
"""Minimum number of catch trials to count. Of 4, 3 must be correct, which a participant who guesses
among 16 categories reaches in 0.09 % of cases.
"""

CATCH_SHARE = 0.6
"""Of 8 catch trials 5 must be correct. A participant who guesses among 16 categories passes with
probability 0.005 %; one with an accuracy of 95 % fails with 0.04 % (87 %: 1.3 %).
"""

GUESS_RISK, MIN_CHECKS = 1e-3, 4
"""Largest probability with which guessing may pass, and the number of trials from which this is
judged. With two choices, 8 catch trials are too few (8 of 8 are guessed in 0.4 % of cases), so
qualification and catch trials are pooled: of 24, 20 must be correct, which guessing reaches in
0.08 % of cases; 0.6 % of participants with an accuracy of 95 % fail.
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

ENOUGH = 20
"""Minimum number of responses in the main part for a rate to be meaningful."""

FAST_MS, FAST_SHARE = {"categorise": 150.0, "same-different": 200.0}, 0.1
"""Reacting to any light takes about 200 ms. In categorization the image is seen 400 ms before the
grid, so the hand may already be moving; the limit there is 150 ms. None of the 11 published
observers of low-pass filtering and noise (14,080 trials) ever took less than 200 ms; 10 % leaves
room for slips.
"""

SILENT_SHARE = 0.3
"""The slowest of those observers missed 6 % of responses in the same 1.5 s. A study may be harder,
and participants at home have less practice.
"""

SAME_BUTTON = {"categorise": 0.3, "same-different": 0.1}
"""Minimum entropy of the responses, relative to the entropy of the correct responses. With 16
equally frequent categories this is 1.2 bits, the entropy if one button is pressed 85 % of the time
(published observers: at least 3.7 bits). Two corruptions may truly look the same, so the limit for
same/different excludes only participants who almost always press the same button.
"""

AWAY_SHARE, TIMING_SHARE = 0.2, 0.2

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


@dataclass(frozen=True)
class QualityRule:
    """A rule; `test` returns the reason why a session is excluded, or None if it is not."""

    name: str
    text: str
    test: Callable[[SessionRecord, StudyConfig], str | None]


def min_catch(config: StudyConfig) -> int:
    """Return how many catch trials a session needs to count; fewer only if fewer are planned."""
    return min(MIN_CATCH, config.catch)


@cache
def min_correct(trials: int, choices: int) -> int | None:
    """Return the smallest number of correct responses reached by guessing in under 0.1 % of cases.

    Return None if guessing reaches even a full score more often.
    """
    for n_correct in range(trials + 1):
        # Binomial survival function: the probability of at least `n_correct` by guessing.
        if bdtrc(n_correct - 1, trials, 1 / choices) < GUESS_RISK:
            return n_correct
    return None


def entropy(texts: Iterable[str]) -> float:
    """Return the entropy of the distribution of texts, in bits."""
    counts = Counter(texts)
    total = sum(counts.values())
    return sum(count / total * log2(total / count) for count in counts.values())


def _n_correct(responses: Sequence[TrialResponse]) -> int:
    return sum(response.correct for response in responses)


def _above(has_fault: Sequence[bool], max_share: float, fault: str) -> str | None:
    """Return the detail of a rule if more than a share of enough responses has a fault."""
    total = len(has_fault)
    if total < ENOUGH or sum(has_fault) <= max_share * total:
        return None
    return f"{sum(has_fault)} of {total} {fault}, at most {max_share:.0%}"


def _qualification(record: SessionRecord, config: StudyConfig) -> str | None:
    responses = record.of("qualification")
    n_correct = _n_correct(responses)
    failed = bool(responses) and n_correct / len(responses) < config.pass_share
    if record.state == FAILED or (failed and len(responses) >= config.qualification):
        return f"{n_correct} of {len(responses)} right, {config.pass_share:.0%} needed"
    return None


def _unchecked(record: SessionRecord, config: StudyConfig) -> str | None:
    n_catch, n_needed = len(record.of("catch")), min_catch(config)
    if n_catch >= n_needed:
        return None
    return f"{n_catch} catch trials, {n_needed} needed"


def _catch(record: SessionRecord, config: StudyConfig) -> str | None:
    responses = record.of("catch")
    # 1e-9: an exact product must not be rounded up because of floating-point error.
    n_needed = ceil(CATCH_SHARE * len(responses) - 1e-9)
    if _n_correct(responses) >= n_needed:
        return None
    return f"{_n_correct(responses)} of {len(responses)} correct, {n_needed} needed"


def _guessing(record: SessionRecord, config: StudyConfig) -> str | None:
    responses = record.of("catch", "qualification")
    n_needed = min_correct(len(responses), CHOICES[config.kind])
    if len(responses) < MIN_CHECKS or n_needed is None or _n_correct(responses) >= n_needed:
        return None
    return f"{_n_correct(responses)} of {len(responses)} right, {n_needed} needed"


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


def _fast(record: SessionRecord, config: StudyConfig) -> str | None:
    floor = FAST_MS[config.kind]
    is_fast = [
        "too_soon" in response.flags or (response.rt_ms is not None and response.rt_ms < floor)
        for response in record.of(*MAIN)
        if response.choice
    ]
    return _above(is_fast, FAST_SHARE, f"faster than {floor:.0f} ms")


def _no_response(record: SessionRecord, config: StudyConfig) -> str | None:
    is_silent = [not response.choice for response in record.of(*MAIN)]
    return _above(is_silent, SILENT_SHARE, "without a response")


def _one_button(record: SessionRecord, config: StudyConfig) -> str | None:
    responses = [response for response in record.of(*MAIN) if response.choice]
    if len(responses) < ENOUGH:
        return None
    chosen = entropy(response.choice for response in responses)
    bound = SAME_BUTTON[config.kind] * entropy(response.truth for response in responses)
    return None if chosen >= bound else f"{chosen:.2f} bits, {bound:.2f} needed"


def _focus(record: SessionRecord, config: StudyConfig) -> str | None:
    is_away = [any(flag in response.flags for flag in AWAY) for response in record.of(*MAIN)]
    return _above(is_away, AWAY_SHARE, "with the page hidden or left")


def _timing(record: SessionRecord, config: StudyConfig) -> str | None:
    reasons = invalid_reasons(record, config)
    is_off = ["timing" in reasons.get(response.number, ()) for response in record.of(*MAIN)]
    return _above(is_off, TIMING_SHARE, "off by more than a frame")


def _forged(record: SessionRecord, config: StudyConfig) -> str | None:
    reasons = invalid_reasons(record, config)
    is_forged = [
        bool({"stamps", "clock"} & {*reasons.get(response.number, ())})
        for response in record.of(*MAIN)
    ]
    return _above(is_forged, FORGED_SHARE, "with stamps that cannot be true")


def _second_half(record: SessionRecord, config: StudyConfig) -> str | None:
    catch = record.of("catch")
    late = catch[(len(catch) + 1) // 2 :]
    if len(late) >= MIN_CATCH and _n_correct(late) <= LATE_CATCH_SHARE * len(late):
        return f"{_n_correct(late)} of the last {len(late)} catch trials right"
    responses = record.of(*MAIN)
    if len(responses) < ENOUGH:
        return None
    for share in LATE_SHARES:
        p_value = p_late(responses, share)
        if p_value < LATE_RISK:
            return f"the last {share:.0%} worse than what precedes them (p = {p_value:.2g})"
    return None


_OF = f"of the trials of the main part, once there are {ENOUGH}"
RULES = (
    QualityRule("qualification", "The qualification was not passed.", _qualification),
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
        _guessing,
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
        _fast,
    ),
    QualityRule(
        "no_response", f"More than {SILENT_SHARE:.0%} {_OF}, have no response.", _no_response
    ),
    QualityRule(
        "one_button",
        f"The entropy of the responses of the main part, once there are {ENOUGH}, is under"
        f" {SAME_BUTTON['categorise']:.0%} (same/different: {SAME_BUTTON['same-different']:.0%})"
        " of that of the correct responses.",
        _one_button,
    ),
    QualityRule(
        "focus",
        f"In more than {AWAY_SHARE:.0%} {_OF}, the page was hidden or not in front.",
        _focus,
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


def rules_text() -> str:
    """Return the rules in words."""
    lines = [f"{rule.name}: {rule.text}" for rule in RULES]
    head = f"Quality rules, version {RULES_VERSION}. A session does not count if:"
    return "\n".join([head, "", *lines, "", TRIALS, ""])
