"""Quality rules, version 1, fixed before the first response; any change needs a new version.

A rule either excludes a whole session or does nothing, and needs a minimum number of trials to
decide. Single trials are judged separately. Nothing is ever deleted.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from math import ceil, log2

from scipy.special import bdtrc

from eyechart_experiment.storage.database_tables import FAILED
from eyechart_experiment.storage.session_records import MAIN, SessionRecord, TrialResponse
from eyechart_experiment.study_config import StudyConfig

CHOICES = {"categorise": 16, "same-different": 2}

CATCH_SHARE, CATCH_LEAST = 0.6, 4
"""Of 8 catch trials 5 must be correct. A participant who guesses among 16 categories passes with
probability 0.005 %; one with an accuracy of 95 % fails with 0.04 % (87 %: 1.3 %).
"""

CHECKS_LEAST = 4
"""Minimum number of qualification and catch trials to judge a participant's attention."""

GUESS_RISK = 1e-3
"""Largest probability with which guessing may pass. With two choices, 8 catch trials are too few (8
of 8 are guessed in 0.4 % of cases), so qualification and catch trials are pooled: of 24, 20 must be
correct, which guessing reaches in 0.08 % of cases; 0.6 % of participants with an accuracy of 95 %
fail.
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

AWAY = ("hidden", "blurred_focus")
DROPPING = ("timing", "slow_decode", *AWAY, "resized", "too_soon", "too_late")
"""Flags of single trials that do not count: the image was shown too long or too briefly, was
decoded later than the stamps say, or had the wrong size, the page was not visible, or the response
time is impossible.
"""

FRAMES_OFF = 1.25
"""Tolerance in frames: one frame, plus a quarter of a frame for the jitter of the clock."""

USUAL_HZ = 60.0


@dataclass(frozen=True)
class QualityRule:
    """A rule; `test` returns the reason why a session is excluded, or None if it is not."""

    name: str
    text: str
    test: Callable[[SessionRecord, StudyConfig], str | None]


@cache
def needed(trials: int, choices: int) -> int | None:
    """Return the smallest number of correct responses reached by guessing in under 0.1 % of cases.

    Return None if guessing reaches even a full score more often.
    """
    for right in range(trials + 1):
        # Binomial survival function: the probability of at least `right` correct by guessing.
        if bdtrc(right - 1, trials, 1 / choices) < GUESS_RISK:
            return right
    return None


def entropy(texts: Iterable[str]) -> float:
    """Return the entropy of the distribution of texts, in bits."""
    counts = Counter(texts)
    total = sum(counts.values())
    return sum(count / total * log2(total / count) for count in counts.values())


def odd(response: TrialResponse, hz: float | None, config: StudyConfig) -> tuple[str, ...]:
    """Return the reasons why a single trial does not count; there are none if it counts."""
    reasons = [flag for flag in DROPPING if flag in response.flags]
    if "timing" not in reasons and _is_off(response, hz, config):
        reasons.insert(0, "timing")
    return tuple(reasons)


def _is_off(response: TrialResponse, hz: float | None, config: StudyConfig) -> bool:
    """Return whether, according to the stamps, the image was not shown for the planned duration."""
    # Two images are followed only by the buttons, which are visible already: "response" ends them.
    wanted, after = (
        (config.stimulus_ms, "blank")
        if config.kind == "categorise"
        else (config.show_ms, "response")
    )
    start, stop = (number_of(response, name) for name in ("stimulus", after))
    if not wanted or start is None or stop is None:
        return False
    # The refresh rate measured in this trial, or else in this session, or else the usual one.
    frame = 1000 / (number_of(response, "hz") or hz or USUAL_HZ)
    return abs(stop - start - wanted) > FRAMES_OFF * frame


def number_of(response: TrialResponse, name: str) -> float | None:
    """Return a stamp of a response, or None if it is missing or no number."""
    value = response.stamps.get(name)
    return float(value) if isinstance(value, int | float) else None


def _unchecked(record: SessionRecord, config: StudyConfig) -> str | None:
    if config.qualification + config.catch < 2 * CHECKS_LEAST:
        return None
    seen = len(record.of("qualification", "catch"))
    if seen >= CHECKS_LEAST or len(record.of("main")) < ENOUGH:
        return None
    return f"{seen} qualification and catch trials, {CHECKS_LEAST} needed"


def _qualification(record: SessionRecord, config: StudyConfig) -> str | None:
    responses = record.of("qualification")
    right = _right(responses)
    failed = bool(responses) and right / len(responses) < config.pass_share
    if record.state == FAILED or (failed and len(responses) >= config.qualification):
        return f"{right} of {len(responses)} right, {config.pass_share:.0%} needed"
    return None


def _catch(record: SessionRecord, config: StudyConfig) -> str | None:
    responses = record.of("catch")
    # 1e-9: an exact product must not be rounded up because of floating-point error.
    wanted = ceil(CATCH_SHARE * len(responses) - 1e-9)
    if len(responses) < CATCH_LEAST or _right(responses) >= wanted:
        return None
    return f"{_right(responses)} of {len(responses)} right, {wanted} needed"


def _guessing(record: SessionRecord, config: StudyConfig) -> str | None:
    responses = record.of("catch", "qualification")
    wanted = needed(len(responses), CHOICES[config.kind])
    if len(responses) < CATCH_LEAST or wanted is None or _right(responses) >= wanted:
        return None
    return f"{_right(responses)} of {len(responses)} right, {wanted} needed"


def _fast(record: SessionRecord, config: StudyConfig) -> str | None:
    floor = FAST_MS[config.kind]
    responses = [response for response in record.of(*MAIN) if response.choice]
    fast = sum(
        "too_soon" in response.flags or (response.rt_ms is not None and response.rt_ms < floor)
        for response in responses
    )
    return above(fast, len(responses), FAST_SHARE, f"faster than {floor:.0f} ms")


def _no_answer(record: SessionRecord, config: StudyConfig) -> str | None:
    responses = record.of(*MAIN)
    silent = sum(not response.choice for response in responses)
    return above(silent, len(responses), SILENT_SHARE, "without an answer")


def _one_button(record: SessionRecord, config: StudyConfig) -> str | None:
    responses = [response for response in record.of(*MAIN) if response.choice]
    if len(responses) < ENOUGH:
        return None
    chosen = entropy(response.choice for response in responses)
    bound = SAME_BUTTON[config.kind] * entropy(response.truth for response in responses)
    return None if chosen >= bound else f"{chosen:.2f} bits, {bound:.2f} needed"


def _focus(record: SessionRecord, config: StudyConfig) -> str | None:
    responses = record.of(*MAIN)
    away = sum(any(flag in response.flags for flag in AWAY) for response in responses)
    return above(away, len(responses), AWAY_SHARE, "with the page hidden or left")


def _timing(record: SessionRecord, config: StudyConfig) -> str | None:
    responses = record.of(*MAIN)
    off = sum("timing" in odd(response, record.hz, config) for response in responses)
    return above(off, len(responses), TIMING_SHARE, "off by more than a frame")


def above(count: int, total: int, max_share: float, fault: str) -> str | None:
    """Return the detail of a rule if more than a share of enough responses has a fault."""
    if total < ENOUGH or count <= max_share * total:
        return None
    return f"{count} of {total} {fault}, at most {max_share:.0%}"


def _right(responses: Sequence[TrialResponse]) -> int:
    return sum(response.correct for response in responses)


_OF = f"of the trials of the main part, once there are {ENOUGH}"
RULES = (
    QualityRule("qualification", "The qualification was not passed.", _qualification),
    QualityRule(
        "unchecked",
        f"There are {ENOUGH} answers of the main part and fewer than {CHECKS_LEAST} qualification"
        " and catch trials, as of somebody who saw their photographs in an earlier study.",
        _unchecked,
    ),
    QualityRule(
        "catch",
        f"Fewer than {CATCH_SHARE:.0%} of the catch trials are right, once there are"
        f" {CATCH_LEAST}. A trial without an answer counts as wrong.",
        _catch,
    ),
    QualityRule(
        "guessing",
        "Of qualification and catch trials together no more are right than somebody who guesses"
        f" reaches in {GUESS_RISK:.1%} of cases.",
        _guessing,
    ),
    QualityRule(
        "fast",
        f"More than {FAST_SHARE:.0%} of the answers of the main part, once there are {ENOUGH}, came"
        f" within {FAST_MS['categorise']:.0f} ms of the grid (same/different:"
        f" {FAST_MS['same-different']:.0f} ms of the pictures), or before the picture could have"
        " been shown.",
        _fast,
    ),
    QualityRule("no_answer", f"More than {SILENT_SHARE:.0%} {_OF}, have no answer.", _no_answer),
    QualityRule(
        "one_button",
        f"The entropy of the answers of the main part, once there are {ENOUGH}, is under"
        f" {SAME_BUTTON['categorise']:.0%} (same/different: {SAME_BUTTON['same-different']:.0%})"
        " of that of the right answers.",
        _one_button,
    ),
    QualityRule(
        "focus",
        f"In more than {AWAY_SHARE:.0%} {_OF}, the page was hidden or not in front.",
        _focus,
    ),
    QualityRule(
        "timing",
        f"In more than {TIMING_SHARE:.0%} {_OF}, the picture was shown for more than a frame too"
        " long or too short.",
        _timing,
    ),
)
TRIALS = (
    "A single trial does not count, whoever answered it, if it is flagged"
    f" {', '.join(DROPPING[:-1])} or {DROPPING[-1]}, or if its own time stamps say that the picture"
    " was shown for more than a frame too long or too short."
)
