"""Analyze same/different judgements: can humans tell two corruptions apart?

One participant's responses are not independent. A sign-flip test over participants is therefore
computed in addition to the VCR paper's binomial test, which pools responses; each test has its own
verdict. The interval of the accuracy accounts for differences between participants.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path

import numpy as np
from scipy.special import ndtri

from eyechart.core.csv_table import CsvRow, column_names, read_rows
from eyechart.core.errors import UsageError
from eyechart.core.registry import unknown_name
from eyechart.humans.human_responses import DIFFERENT, SAME, Judgement
from eyechart.stats.intervals import CONFIDENCE, clustered_interval
from eyechart.stats.p_values import SIGNIFICANT, holm, sign_flip

FILE = "judgements.csv"
COLUMNS = ("a", "b", "subject", "shown", "response")
"""Columns of the judgement file that a study exports."""

YES_NO = {
    "1": SAME, "yes": SAME, "true": SAME, "same": SAME,
    "0": DIFFERENT, "no": DIFFERENT, "false": DIFFERENT, "different": DIFFERENT,
}  # fmt: skip

BIASED = 1.0
"""Response criterion (in standard deviations) beyond which a pair is never called alike, because a
participant who nearly always gives the same response is correct half of the time by chance.
"""

ALIKE = 0.6
"""Two corruptions are alike if the whole interval of the accuracy is below this value.

An accuracy near chance is not enough: with few responses the interval is wide, and the pair stays
undecided.
"""

MIN_OBSERVERS, MIN_RESPONSES = 6, 30
"""Minimum numbers of participants and responses. Even if five participants all deviate from chance
in the same direction, the sign-flip test gives only p = 2/2⁵ = 0.06.
"""

TOLD_APART, HARDLY, NOT_TOLD, UNDECIDED, TOO_FEW = (
    "told apart", "hardly told apart", "not told apart", "undecided", "too few responses",
)  # fmt: skip


@dataclass(frozen=True)
class PairResult:
    """Result for a pair of corruptions.

    Attributes:
        a: First corruption.
        b: Second corruption.
        n_judgements: Number of responses.
        n_missing: Number of trials without a response.
        n_participants: Number of known participants.
        n_anonymous: Number of responses whose participant is unknown. Each is tested as if it
            came from a different participant.
        n_correct: Number of correct responses.
        interval: 95 % interval of the accuracy.
        said_same: Rate of "same" responses when the corruptions were the same, and when they
            differed.
        sensitivity: d′ of responding "different", in standard deviations.
        bias: Criterion of responding "different", in standard deviations; positive if participants
            respond "different" too rarely.
        pooled: P-value of the binomial test against 0.5.
        by_participant: P-value of the sign-flip test over participants.
        by_participant_holm: `by_participant`, corrected over all pairs (Holm).
    """

    a: str
    b: str
    n_judgements: int
    n_missing: int
    n_participants: int
    n_anonymous: int
    n_correct: int
    interval: tuple[float, float]
    said_same: tuple[float, float]
    sensitivity: float
    bias: float
    pooled: float
    by_participant: float
    by_participant_holm: float

    @property
    def accuracy(self) -> float:
        """Fraction of responses that are correct."""
        return self.n_correct / self.n_judgements

    @property
    def verdict(self) -> str:
        """Verdict on the pair, based on the test over participants and the interval."""
        if (
            self.n_participants + self.n_anonymous < MIN_OBSERVERS
            or self.n_judgements < MIN_RESPONSES
        ):
            return TOO_FEW
        # The upper limit decides: evidence of similarity is a narrow interval, not a large p-value.
        is_alike = self.interval[1] < ALIKE
        if self.by_participant_holm < SIGNIFICANT and self.accuracy > 0.5:
            return HARDLY if is_alike else TOLD_APART
        # Significantly below chance, or nearly always the same response: no evidence of similarity.
        is_odd = self.by_participant_holm < SIGNIFICANT or abs(self.bias) > BIASED
        return NOT_TOLD if is_alike and not is_odd else UNDECIDED

    @property
    def published_verdict(self) -> str:
        """Verdict by the VCR paper's rule: told apart if the binomial test is significant.

        The paper pools the responses of all participants and does not correct for the number of
        pairs; few responses are therefore enough for two corruptions to count as similar.
        """
        return TOLD_APART if self.pooled < SIGNIFICANT else NOT_TOLD


def read_single_judgements(path: Path) -> list[Judgement]:
    """Return the judgements in a CSV file, one per row.

    The columns are a, b, subject, shown, response, as in a study's export, or a, b, shown_same,
    same. The table must say what was shown, because participants tell a pair apart only if their
    responses are accurate, not if they always give the same response.
    """
    columns = column_names(path)
    # The columns of a study take precedence; other tables must have a, b and same.
    if {"shown", "response"} & columns or not {"a", "b", "same"} <= columns:
        return [_judgement(row) for row in read_rows(path, COLUMNS)]
    if "shown_same" not in columns:
        raise UsageError(
            f"{path} must have the column shown_same: 1 if both images"
            " had the same corruption, 0 if they had different corruptions."
        )
    # The last two contain 1 or 0.
    return [_imported(row) for row in read_rows(path, ("a", "b", "shown_same", "same"))]


def _judgement(row: CsvRow) -> Judgement:
    if row["shown"] not in (SAME, DIFFERENT):
        raise row.rejection(f"shown must be same or different, got '{row['shown']}'")
    if row["response"] not in (SAME, DIFFERENT, ""):
        raise row.rejection(f"response must be same, different or empty, got '{row['response']}'")
    first, second = sorted((row.filled("a"), row.filled("b")))
    return Judgement(first, second, row.filled("subject"), row["shown"], row["response"])


def _imported(row: CsvRow) -> Judgement:
    first, second = sorted((row.filled("a"), row.filled("b")))
    if first == second:
        raise row.rejection(f"a and b must be different corruptions, got {first} twice")
    return Judgement(
        first,
        second,
        # Known only in some tables.
        row.cells.get("subject", ""),
        truth=_yes_no(row, "shown_same"),
        response=_yes_no(row, "same") if row["same"] else "",
    )


def _yes_no(row: CsvRow, column: str) -> str:
    text = row[column].lower()
    if text not in YES_NO:
        raise row.rejection(f"{column} must be 1 or 0, got '{row[column]}'")
    return YES_NO[text]


def analyze(judgements: Iterable[Judgement]) -> list[PairResult]:
    """Return the result for every pair, sorted by name.

    P-values over participants are also corrected over all pairs; the published test is not.
    """
    by_pair = sorted(judgements, key=lambda judgement: (judgement.a, judgement.b))
    groups = groupby(by_pair, lambda judgement: (judgement.a, judgement.b))
    results = [
        result for pair, group in groups if (result := _pair(*pair, list(group))) is not None
    ]
    corrected = holm([result.by_participant for result in results]).tolist()
    return [
        replace(result, by_participant_holm=p) for result, p in zip(results, corrected, strict=True)
    ]


def _pair(a: str, b: str, judgements: Sequence[Judgement]) -> PairResult | None:
    responded = [judgement for judgement in judgements if judgement.response]
    if not responded:
        return None
    # Each response of an unknown participant is tested as a separate participant, as if responses
    # were independent.
    names = [
        judgement.subject or f"response {number}" for number, judgement in enumerate(responded)
    ]
    _, owner = np.unique(names, return_inverse=True)
    counts = np.bincount(owner)
    # Counts per participant, the unit of the sign-flip test and of the interval.
    correct = np.bincount(owner, [judgement.correct for judgement in responded]).astype(np.int64)
    n_judgements, n_correct = len(responded), int(correct.sum())
    of_same = _n_different([one for one in responded if one.truth == SAME])
    of_different = _n_different([one for one in responded if one.truth == DIFFERENT])
    alarms, hits = (
        # Log-linear correction: rates of 0 and 1 would have infinite z-scores.
        float(ndtri((count + 0.5) / (asked + 1)))
        for count, asked in (of_same, of_different)
    )
    # imported here, because it takes a second: see eyechart.stats.intervals
    from scipy.stats import binomtest

    pooled = float(binomtest(n_correct, n_judgements, 0.5).pvalue)
    # Correct minus incorrect responses per participant, symmetric around 0 at chance level.
    by_participant = sign_flip(2 * correct - counts)
    return PairResult(
        a,
        b,
        n_judgements=n_judgements,
        n_missing=len(judgements) - n_judgements,
        n_participants=len({judgement.subject for judgement in responded} - {""}),
        n_anonymous=sum(not judgement.subject for judgement in responded),
        n_correct=n_correct,
        interval=clustered_interval(correct, counts, CONFIDENCE),
        said_same=(_rate(of_same), _rate(of_different)),
        sensitivity=float(hits - alarms),
        bias=float(-(hits + alarms) / 2),
        pooled=pooled,
        by_participant=by_participant,
        by_participant_holm=by_participant,
    )


def _n_different(judgements: Sequence[Judgement]) -> tuple[int, int]:
    return sum(judgement.response == DIFFERENT for judgement in judgements), len(judgements)


def _rate(n_different: tuple[int, int]) -> float:
    count, total = n_different
    return 1 - count / total if total else float("nan")


def judgements_file(path: Path) -> Path | None:
    """Return the judgement file in the folder of a study or an export, or None if it is missing."""
    for file in (path / FILE, path / "export" / FILE):
        if file.is_file():
            return file
    return None


def pick(results: Sequence[PairResult], a: str, b: str) -> PairResult:
    """Return the result for one pair; raise a UsageError if there are no judgements of it."""
    names = {name for result in results for name in (result.a, result.b)}
    for name in (a, b):
        if name not in names:
            raise unknown_name("corruption", name, names)
    for result in results:
        if {result.a, result.b} == {a, b}:
            return result
    raise UsageError(f"There are no judgements of {a} and {b}: choose another pair.")
