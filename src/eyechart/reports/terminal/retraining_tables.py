"""Tables of the effects of retraining: on the terminal, as CSV, and as in the VCR paper's Table 3.

Each retraining writes retraining.csv; several such files can be combined into one table or LaTeX.
"""

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import nan
from pathlib import Path
from typing import TYPE_CHECKING

from eyechart.core.arguments import regular_file
from eyechart.core.csv_table import csv_text
from eyechart.core.errors import UsageError
from eyechart.core.phrases import plural
from eyechart.core.storage.files import write_text
from eyechart.pipeline.scoring.caveats import MARK
from eyechart.reports.latex import table_file, table_line, tex
from eyechart.reports.number_text import p_value_text
from eyechart.reports.terminal.columns import stacked
from eyechart.reports.terminal.result_tables import score_with_interval
from eyechart.reports.titles import corruption_title, space_title
from eyechart.scores.registry import CURVE_SCORES, SCORES, Score
from eyechart.stats.p_values import SIGNIFICANT

if TYPE_CHECKING:
    from rich.table import Table

    from eyechart.results.schema import Results
    from eyechart.training.retrain import ScoreChange

HEAD = ("corruption", "score", "before", "after", "after − before", "p, Holm", "95 % intervals")
COLUMNS = ("before", "after", "space", "corruption", "trained_on", "score", "p_corrected")
CAPTION = (
    "VCR before and after retraining. Bold: better after retraining, p below 0.05 in a paired"
    " test with Holm's correction."
)
CLEAN = "clean"


def retraining_tables(
    results: "Results", changes: "Sequence[ScoreChange]", width: int
) -> Iterator[tuple[str, list["Table"]]]:
    """Yield a title and tables no wider than `width` for each label space."""
    before, after = results.models
    for space in dict.fromkeys(change.space for change in changes):
        scores = before.space(space)
        rows = [
            _change_row(change, change.corruption in after.marked, scores.verdict)
            for change in changes
            if change.space == space
        ]
        images = f"{scores.n_images} {plural(scores.n_images, 'image')}"
        title = f"Before and after retraining, {space_title(space)} ({images})"
        yield title, list(stacked(HEAD, rows, width=width, kept=2, left=(0, 1, 6)))


def _change_row(change: "ScoreChange", is_marked: bool, verdict: str) -> list[str]:
    from rich.markup import escape

    score = SCORES[change.score]
    difference = score.text(change.difference.difference, is_signed=True)
    low, high = (
        score.text(end, is_short=True, is_signed=True) for end in change.difference.interval
    )
    return [
        escape(change.corruption or CLEAN) + (f" {MARK}" if is_marked else ""),
        score.title,
        score_with_interval(change.before, score),
        score_with_interval(change.after, score),
        f"{difference} [dim]{low} to {high}[/dim]",
        "no claim" if verdict else p_value_text(change.corrected),
        "no claim" if verdict else "apart" if change.is_apart else "overlap",
    ]


def write_changes(results: "Results", changes: "Sequence[ScoreChange]", path: Path) -> Path:
    """Write one row per label space, corruption and score, and return the path."""
    return write_text(path, csv_text(_line(results, change) for change in changes))


def _line(results: "Results", change: "ScoreChange") -> dict[str, object]:
    before, after = results.models
    verdict = before.spaces[change.space].verdict
    numbers = {}
    for when, estimate in (("before", change.before), ("after", change.after)):
        numbers[f"{when}_value"] = estimate.value
        numbers[f"{when}_low95"], numbers[f"{when}_high95"] = estimate.interval95
    numbers["difference"] = change.difference.difference
    numbers["low95"], numbers["high95"] = change.difference.interval
    tests: dict[str, object] = {"p_value": None, "p_corrected": None, "intervals_overlap": None}
    if not verdict:
        tests = {
            "p_value": round(change.difference.p_value, 6),
            "p_corrected": round(change.corrected, 6),
            "intervals_overlap": "no" if change.is_apart else "yes",
        }
    return {
        "before": before.name,
        "after": after.name,
        "space": change.space,
        "corruption": change.corruption or CLEAN,
        "trained_on": "yes" if change.corruption in after.marked else "no",
        "score": change.score,
        **{name: round(number, 6) for name, number in numbers.items()},
        **tests,
        "note": verdict,
    }


# Several retrainings


@dataclass(frozen=True)
class BeforeAfter:
    """One score before and after retraining.

    `is_better`: whether the score improved significantly, with Holm's correction.
    """

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
        UsageError: If a file is missing, or was not written by `eyechart train retrain`.
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
                    f"{index[0]} was retrained on {index[2]} in two of the folders: give only one."
                )
            scores[line["score"]] = _score(line, path)
    return [RetrainedRow(*index, scores) for index, scores in collected.items()]


def _lines(path: Path) -> list[dict[str, str]]:
    try:
        with regular_file(path).open(newline="", encoding="utf-8") as file:
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
        # There is no p-value with insufficient data.
        p_value, difference = float(line["p_corrected"] or nan), float(line["difference"])
    except (KeyError, TypeError, ValueError):
        raise UsageError(f"{path} must be a table that eyechart train retrain wrote.") from None
    # The curve scores that are shown are all better if higher. A note means insufficient data, for
    # which no claim is made.
    return BeforeAfter(
        before, after, p_value < SIGNIFICANT and difference > 0 and not line.get("note")
    )


def shown_scores(rows: Sequence[RetrainedRow]) -> list[Score]:
    """Return the scores of Table 3 that at least one row has; only two do not need human data."""
    return [score for score in CURVE_SCORES if any(score.name in row.scores for row in rows)]


def retrained_cells(rows: Sequence[RetrainedRow]) -> list[list[str]]:
    """Return the cells of each row as text: the scores before, then after retraining."""
    scores = shown_scores(rows)
    return [
        [_label(row, rows), row.corruption, *(_cell(row, score, when)
                                              for when in (0, 1) for score in scores)]
        for row in rows
    ]  # fmt: skip


def retrained_latex(rows: Sequence[RetrainedRow]) -> str:
    """Return the LaTeX table; significantly better scores after retraining are bold."""
    scores = shown_scores(rows)
    count = len(scores)
    heads = [
        table_line(["", "", *(rf"\multicolumn{{{count}}}{{c}}{{{when}}}"
                       for when in ("Before retraining", "After retraining"))]),
        rf"\cmidrule(lr){{3-{count + 2}}}\cmidrule(lr){{{count + 3}-{2 * count + 2}}}",
        table_line(["Model", "Corruption", *[score.latex for score in scores] * 2]),
    ]  # fmt: skip
    cells = [
        [
            tex(_label(row, rows)),
            tex(corruption_title(row.corruption)),
            *(_cell(row, score, 0) for score in scores),
            *(_bold(row, score) for score in scores),
        ]
        for row in rows
    ]
    return table_file(CAPTION, heads, cells, n_text=2)


def _label(retrained: RetrainedRow, rows: Sequence[RetrainedRow]) -> str:
    """Return the label of a row: the model, and its label space if there are several."""
    several = len({row.space for row in rows}) > 1
    return f"{retrained.model} ({retrained.space})" if several else retrained.model


def _cell(row: RetrainedRow, score: Score, when: int) -> str:
    values = row.scores.get(score.name)
    return "--" if values is None else score.text((values.before, values.after)[when])


def _bold(row: RetrainedRow, score: Score) -> str:
    values, text = row.scores.get(score.name), _cell(row, score, 1)
    return rf"\textbf{{{text}}}" if values is not None and values.is_better else text
