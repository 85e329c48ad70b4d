"""Can people tell two corruptions apart? From single judgements, same or different, of pairs.

Answers of one person are not independent. So beside the pooled binomial test stands one in which
people are what is exchanged, and the interval of the accuracy allows for how much people differ.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path

import numpy as np
from scipy.stats import binomtest, norm

from eyechart.core.csv_table import CsvRow, column_names, read_rows
from eyechart.core.errors import UsageError
from eyechart.core.registry import unknown_name
from eyechart.humans.records import DIFFERENT, SAME, Judgement
from eyechart.stats.intervals import clustered_interval
from eyechart.stats.p_values import holm, sign_flip

FILE = "judgements.csv"
COLUMNS = ("a", "b", "subject", "shown", "said")
"""Of a study's own file of judgements."""

IMPORTED = ("a", "b", "shown_same", "same")
"""Of a table of judgements from elsewhere, with 1 or 0; `subject` is optional."""

YES_NO = {
    "1": SAME, "yes": SAME, "true": SAME, "same": SAME,
    "0": DIFFERENT, "no": DIFFERENT, "false": DIFFERENT, "different": DIFFERENT,
}  # fmt: skip
LEVEL = 0.95

BIASED = 1.0
"""Who says one of the two much oftener than the other is right half of the time, whatever is seen:
beyond this criterion (standard deviations) nothing is called alike."""

ALIKE = 0.6
"""Two corruptions are taken to look alike if the whole interval of the accuracy is below this.

Near chance with few answers is no sign of likeness: then the interval is wide, and nothing is said.
"""

LEAST_PEOPLE, LEAST_ANSWERS = 6, 30
"""With five people who all lean to one side, exchanging signs gives 2/2⁵ = 0.06 at best."""

RISK = 0.05
TOLD_APART, HARDLY, NOT_TOLD, UNDECIDED, TOO_FEW = (
    "told apart", "hardly told apart", "not told apart", "undecided", "too few answers",
)  # fmt: skip


@dataclass(frozen=True)
class PairResult:
    """What people could tell of a pair.

    `said_same`: how often that was said of pictures with the same corruption and of others.
    `pooled`: p-value of the binomial test against one half; `by_people`: of the test by people;
    `pooled_holm`, `by_people_holm`: the same, corrected over all pairs. `sensitivity`, `bias`: d′
    and criterion of saying "different" (positive: it is said too rarely), in standard deviations.
    """

    a: str
    b: str
    answers: int
    unanswered: int
    people: int
    right: int
    interval: tuple[float, float]
    said_same: tuple[float, float]
    sensitivity: float
    bias: float
    pooled: float
    by_people: float
    pooled_holm: float
    by_people_holm: float

    @property
    def accuracy(self) -> float:
        """The share of right answers."""
        return self.right / self.answers

    @property
    def verdict(self) -> str:
        """What may be said of the pair, by the test by people and the interval."""
        if self.people < LEAST_PEOPLE or self.answers < LEAST_ANSWERS:
            return TOO_FEW
        is_alike = self.interval[1] < ALIKE
        if self.by_people_holm < RISK and self.accuracy > 0.5:
            return HARDLY if is_alike else TOLD_APART
        # reliably wrong, or nearly always the same answer: that says nothing of what was seen
        is_odd = self.by_people_holm < RISK or abs(self.bias) > BIASED
        return NOT_TOLD if is_alike and not is_odd else UNDECIDED


def read_single_judgements(path: Path) -> list[Judgement]:
    """Return the judgements in a CSV file, one row for each.

    Columns: those of a study (a, b, subject, shown, said), or a, b, shown_same, same. What was
    shown is needed, for it is the accuracy that tells whether a pair can be told apart: whoever
    always says "same" tells nothing apart.
    """
    columns = column_names(path)
    if {"shown", "said"} & columns or not {"a", "b", "same"} <= columns:
        return [_judgement(row) for row in read_rows(path, COLUMNS)]
    if "shown_same" not in columns:
        raise UsageError(
            f"{path} does not say what was shown: add the column shown_same, 1 where both images"
            " had the same corruption, 0 where one had a and the other b."
        )
    return [_imported(row) for row in read_rows(path, IMPORTED)]


def _judgement(row: CsvRow) -> Judgement:
    if row["shown"] not in (SAME, DIFFERENT):
        raise row.refusal(f"shown must be same or different, got '{row['shown']}'")
    if row["said"] not in (SAME, DIFFERENT, ""):
        raise row.refusal(f"said must be same, different or empty, got '{row['said']}'")
    first, second = sorted((row.filled("a"), row.filled("b")))
    return Judgement(first, second, row.filled("subject"), row["shown"], row["said"])


def _imported(row: CsvRow) -> Judgement:
    first, second = sorted((row.filled("a"), row.filled("b")))
    if first == second:
        raise row.refusal(f"a and b must be two corruptions, got {first} twice")
    subject = row.cells.get("subject", "")
    said = _yes_no(row, "same") if row["same"] else ""
    return Judgement(first, second, subject, _yes_no(row, "shown_same"), said)


def _yes_no(row: CsvRow, column: str) -> str:
    text = row[column].lower()
    if text not in YES_NO:
        raise row.refusal(f"{column} must be 1 or 0, got '{row[column]}'")
    return YES_NO[text]


def analyse(judgements: Iterable[Judgement]) -> list[PairResult]:
    """Return what people could tell of every pair, by name; p-values corrected over all of them."""
    by_pair = sorted(judgements, key=lambda each: (each.a, each.b))
    groups = groupby(by_pair, lambda each: (each.a, each.b))
    found = [result for pair, own in groups if (result := _pair(*pair, list(own))) is not None]
    pooled = holm([each.pooled for each in found]).tolist()
    by_people = holm([each.by_people for each in found]).tolist()
    return [
        replace(each, pooled_holm=one, by_people_holm=two)
        for each, one, two in zip(found, pooled, by_people, strict=True)
    ]


def _pair(a: str, b: str, judgements: Sequence[Judgement]) -> PairResult | None:
    given = [each for each in judgements if each.said]
    if not given:
        return None
    # who is unknown counts as a person for each answer, as if answers were independent
    names = [each.subject or f"answer {number}" for number, each in enumerate(given)]
    people = sorted(set(names))
    place = {name: number for number, name in enumerate(people)}
    owner = [place[name] for name in names]
    counts = np.bincount(owner)
    right = np.bincount(owner, [each.correct for each in given]).astype(np.int64)
    of_same, of_other = ([e for e in given if e.shown == kind] for kind in (SAME, DIFFERENT))
    said = [_said_different(own) for own in (of_same, of_other)]
    total, hits = len(given), int(right.sum())
    alarms, found = (norm.ppf((said_so + 0.5) / (asked + 1)) for said_so, asked in said)
    pooled, by_people = float(binomtest(hits, total, 0.5).pvalue), sign_flip(2 * right - counts)
    return PairResult(
        a,
        b,
        total,
        len(judgements) - total,
        len(people),
        hits,
        clustered_interval(right, counts, LEVEL),
        (_rate(said[0]), _rate(said[1])),
        float(found - alarms),
        float(-(found + alarms) / 2),
        pooled,
        by_people,
        pooled,
        by_people,
    )


def _said_different(judgements: Sequence[Judgement]) -> tuple[int, int]:
    return sum(each.said == DIFFERENT for each in judgements), len(judgements)


def _rate(said_different: tuple[int, int]) -> float:
    count, total = said_different
    return 1 - count / total if total else float("nan")


def judgements_file(path: Path) -> Path | None:
    """Return the file of single judgements in a study's or an export's folder, if there is one."""
    for own in (path / FILE, path / "export" / FILE):
        if own.is_file():
            return own
    return None


def pick(results: Sequence[PairResult], a: str, b: str) -> PairResult:
    """Return the result of one pair; a pair of which nobody was asked is refused."""
    names = {name for each in results for name in (each.a, each.b)}
    for name in (a, b):
        if name not in names:
            raise unknown_name("corruption", name, names)
    for result in results:
        if {result.a, result.b} == {a, b}:
            return result
    raise UsageError(f"Nobody was asked whether {a} and {b} are the same: give another pair.")
