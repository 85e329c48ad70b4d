"""The leaderboard of a part: ranks, scores with intervals, and whom a model is clearly ahead of."""

from typing import Any

from markupsafe import Markup

from eyechart.reports.html.cells import (
    NOTHING,
    Estimated,
    Numbers,
    Style,
    compared,
    count,
    marked,
    style_of,
)
from eyechart.reports.html.html_table import Column, Table, TableRow
from eyechart.reports.series.overall_scores import is_mean_marked, mark_note
from eyechart.reports.series.palette import CATEGORY_COLOURS
from eyechart.reports.series.report import ModelEntry, Part, Report
from eyechart.reports.words import listed, space_title
from eyechart.scores.registry import LEADERBOARD, SCORES, Score, find


def leaderboard(report: Report, part: Part, index: int) -> Table:
    """Return the leaderboard of a part: one row per model, best first."""
    standings = part.standings
    scores = [score for score in LEADERBOARD if score.name in standings.scores]
    columns = (
        Column("Model", numeric=False),
        Column("Rank", hint="in brackets: between what the rank lies in 95 % of resampled sets"),
        Column("Category", numeric=False),
        *(Column(_head(part, score), hint=score.meaning) for score in scores),
        Column("Clearly ahead of", numeric=False, hint="paired test, Holm’s correction, 5 %"),
    )
    if not any(model.category for model in part.models):
        columns = tuple(column for column in columns if column.title != "Category")
    rows = tuple(_row(report, part, model, scores) for model in part.models)
    where = space_title(standings.space)
    caption = f"Models ranked by {SCORES[standings.by].symbol} in {where}"
    note = f"{standings.verdict.capitalize()}: no model is called ahead of another."
    note = note if standings.verdict else ""
    note = f"{note} {mark_note(model.results for model in part.models)}".strip()
    return Table(f"leaderboard-{index}", caption, columns, rows, True, note, kind="stacked")


def model_label(model: ModelEntry) -> Markup:
    """Return a model's short name after a swatch of its colour."""
    text = Markup('<span class="model"><span class="swatch" style="--colour: {}"></span>{}</span>')
    return text.format(model.colour, model.short)


def _head(part: Part, score: Score) -> str:
    """Return a score's title, with the label space where that is another than the board's."""
    standings = part.standings
    title = f"{score.symbol} (%)" if score.is_percent else score.symbol
    return title if standings.homes[score.name] == standings.space else f"{title} (16 categories)"


def _row(report: Report, part: Part, model: ModelEntry, scores: list[Score]) -> TableRow:
    standings = part.standings
    low, high = standings.ranks.intervals[model.name]
    rank = Estimated(
        compared(count, standings.ranks.ranks[model.name]),
        compared(count, low),
        compared(count, high),
    )
    short = {model.name: model.short for model in part.models}
    behind = [short[name] for name in standings.worse_than(model.name)]
    category: tuple[Any, ...] = ()
    if any(model.category for model in part.models):
        category = (_category(model.category),)
    cells = (_marked_score(report, part, model, score.name) for score in scores)
    ahead = listed(behind) or NOTHING
    return TableRow((model_label(model), rank, *category, *cells, ahead), model.name)


def _category(name: str) -> str | Markup:
    return CATEGORY_COLOURS.get(name, (name, ""))[0] if name else NOTHING


def _marked_score(report: Report, part: Part, model: ModelEntry, name: str) -> Any:
    run, home = report.runs[model.run], part.standings.homes[name]
    score = _score(report, part, model, name)
    return marked(score, is_mean_marked(run, model.results, home, name))


def _score(report: Report, part: Part, model: ModelEntry, name: str) -> Estimated:
    """Return an overall score from the model's results, or from the comparison where they differ.

    They do where models have people's answers to different corruptions.
    """
    style = style_of(SCORES[name])
    score = part.standings.scores[name][model.name]
    numbers = Numbers(model.run, report.runs[model.run].results)
    path = _place(model, part.standings.homes[name], name)
    if path and numbers.get(*path, "value") == score.value:
        return numbers.estimate(style, *path)
    low, high = score.interval95
    return _estimated(style, score.value, low, high)


def _estimated(style: Style, *values: float) -> Estimated:
    return Estimated(*(compared(style, value) for value in values))


def _place(model: ModelEntry, space: str, name: str) -> tuple[str | int, ...]:
    """Return where a model's overall score stands in its results, () if nowhere."""
    scores = model.space(space)
    home: tuple[str | int, ...] = ("models", model.index, "spaces", space)
    if scores is None:
        return ()
    path = SCORES[name].overall_path
    return (*home, *path) if find(scores, path) is not None else ()
