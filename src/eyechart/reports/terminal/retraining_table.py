"""Retrainings of several models in one table: Table 3 of the VCR paper, also as LaTeX."""

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from eyechart.core.errors import UsageError
from eyechart.reports.figures.latex import lines_of_table, row, tex
from eyechart.reports.words import corruption_title
from eyechart.scores.registry import CURVE_SCORES, SCORES, Score

COLUMNS = ("before", "after", "space", "corruption", "trained_on", "score", "p_corrected")
LEVEL = 0.05
CAPTION = (
    "VCR before and after retraining. Bold: better after retraining, p below 0.05 in a paired"
    " test with Holm's correction."
)
CLEAN = "clean"


@dataclass(frozen=True)
class BeforeAfter:
    """One score before and after retraining. `is_better`: by a test with Holm's correction."""

    before: float
    after: float
    is_better: bool


@dataclass(frozen=True)
class RetrainedRow:
    """The scores of one model under one corruption that it was retrained on, by name."""

    model: str
    space: str
    corruption: str
    scores: dict[str, BeforeAfter]


def read_retrainings(paths: Sequence[Path]) -> list[RetrainedRow]:
    """Return a row per model, label space and corruption that was trained on.

    Raises:
        UsageError: a file is missing, or is no table that `eyechart train retrain` wrote.
    """
    collected: dict[tuple[str, str, str], dict[str, BeforeAfter]] = {}
    for path in paths:
        for line in _lines(path):
            if line["corruption"] == CLEAN or line["trained_on"] != "yes":
                continue
            index = (line["before"], line["space"], line["corruption"])
            scores = collected.setdefault(index, {})
            if line["score"] in scores:
                raise UsageError(
                    f"{index[0]} was retrained on {index[2]} in two of the folders: give one."
                )
            scores[line["score"]] = _score(line, path)
    return [RetrainedRow(*index, scores) for index, scores in collected.items()]


def _lines(path: Path) -> list[dict[str, str]]:
    try:
        with path.open(newline="", encoding="utf-8") as file:
            lines = list(csv.DictReader(file))
    except FileNotFoundError:
        raise UsageError(
            f"{path.parent} must be a folder that eyechart train retrain wrote: it has no"
            f" {path.name}."
        ) from None
    except (OSError, UnicodeDecodeError, csv.Error):
        lines = []
    if not lines or any(name not in lines[0] for name in COLUMNS):
        raise UsageError(f"{path} must be a table that eyechart train retrain wrote.")
    return lines


def _score(line: dict[str, str], path: Path) -> BeforeAfter:
    try:
        before, after = float(line["before_value"]), float(line["after_value"])
        p_value, difference = float(line["p_corrected"]), float(line["difference"])
    except (KeyError, TypeError, ValueError):
        raise UsageError(f"{path} must be a table that eyechart train retrain wrote.") from None
    return BeforeAfter(before, after, p_value < LEVEL and difference > 0 and not line.get("note"))


def shown_scores(rows: Sequence[RetrainedRow]) -> list[Score]:
    """Return the scores of Table 3 that any row has: without human data there are two."""
    return [score for score in CURVE_SCORES if any(score.name in row.scores for row in rows)]


def retrained_cells(rows: Sequence[RetrainedRow]) -> list[list[str]]:
    """Return the cells of each row as text, scores first before, then after retraining."""
    names = [score.name for score in shown_scores(rows)]
    return [
        [_label(row, rows), row.corruption, *(_cell(row.scores.get(name), when)
                                              for when in (0, 1) for name in names)]
        for row in rows
    ]  # fmt: skip


def retrained_latex(rows: Sequence[RetrainedRow]) -> str:
    """Return the LaTeX table; what is better after retraining by its test is bold."""
    names = [score.name for score in shown_scores(rows)]
    count = len(names)
    heads = [
        row(["", "", *(rf"\multicolumn{{{count}}}{{c}}{{{when}}}"
                       for when in ("Before retraining", "After retraining"))]),
        rf"\cmidrule(lr){{3-{count + 2}}}\cmidrule(lr){{{count + 3}-{2 * count + 2}}}",
        row(["Model", "Corruption", *[SCORES[name].latex for name in names] * 2]),
    ]  # fmt: skip
    cells = [
        [
            tex(_label(row, rows)),
            tex(corruption_title(row.corruption)),
            *(_cell(row.scores.get(name), 0) for name in names),
            *(_bold(row.scores.get(name)) for name in names),
        ]
        for row in rows
    ]
    return lines_of_table(CAPTION, "ll" + "r" * 2 * count, heads, cells)


def _label(retrained: RetrainedRow, rows: Sequence[RetrainedRow]) -> str:
    """Return what a row is called: the model, and its label space where rows have several."""
    several = len({row.space for row in rows}) > 1
    return f"{retrained.model} ({retrained.space})" if several else retrained.model


def _cell(score: BeforeAfter | None, when: int) -> str:
    return "--" if score is None else f"{(score.before, score.after)[when]:.3f}"


def _bold(score: BeforeAfter | None) -> str:
    text = _cell(score, 1)
    return rf"\textbf{{{text}}}" if score is not None and score.is_better else text
