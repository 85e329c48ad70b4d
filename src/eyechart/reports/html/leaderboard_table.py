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
from eyechart.reports.html.html_table import Column, Row, Table
from eyechart.reports.series.palette import CATEGORY_COLOURS
from eyechart.reports.series.report import Part, Report, Shown
from eyechart.reports.trained_on import is_mean_marked, note_on
from eyechart.reports.words import listed, space_title
from eyechart.scores.registry import LEADERBOARD, SCORES, Score, find


def leaderboard(report: Report, part: Part, place: int) -> Table:
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
    if not any(shown.category for shown in part.models):
        columns = tuple(column for column in columns if column.title != "Category")
    rows = tuple(_row(report, part, shown, scores) for shown in part.models)
    where = space_title(standings.space)
    caption = f"Models ranked by {SCORES[standings.by].symbol} in {where}"
    note = f"{standings.verdict.capitalize()}: no model is called ahead of another."
    note = note if standings.verdict else ""
    note = f"{note} {note_on(own.model for own in part.models)}".strip()
    return Table(f"leaderboard-{place}", caption, columns, rows, True, note, kind="stacked")


def model_label(shown: Shown) -> Markup:
    """Return a model's short name after a swatch of its colour."""
    text = Markup('<span class="model"><span class="swatch" style="--colour: {}"></span>{}</span>')
    return text.format(shown.colour, shown.short)


def _head(part: Part, score: Score) -> str:
    """Return a score's title, with the label space where that is another than the board's."""
    standings = part.standings
    title = f"{score.symbol} (%)" if score.is_percent else score.symbol
    return title if standings.homes[score.name] == standings.space else f"{title} (16 categories)"


def _row(report: Report, part: Part, shown: Shown, scores: list[Score]) -> Row:
    standings = part.standings
    low, high = standings.ranks.intervals[shown.name]
    rank = Estimated(
        compared(count, standings.ranks.ranks[shown.name]),
        compared(count, low),
        compared(count, high),
    )
    short = {own.name: own.short for own in part.models}
    behind = [short[name] for name in standings.worse_than(shown.name)]
    category: tuple[Any, ...] = ()
    if any(own.category for own in part.models):
        category = (_category(shown.category),)
    cells = (_marked_score(report, part, shown, score.name) for score in scores)
    ahead = listed(behind) or NOTHING
    return Row((model_label(shown), rank, *category, *cells, ahead), shown.name)


def _category(name: str) -> str | Markup:
    return CATEGORY_COLOURS.get(name, (name, ""))[0] if name else NOTHING


def _marked_score(report: Report, part: Part, shown: Shown, name: str) -> Any:
    run, home = report.runs[shown.run], part.standings.homes[name]
    own = _score(report, part, shown, name)
    return marked(own, is_mean_marked(run, shown.model, home, name))


def _score(report: Report, part: Part, shown: Shown, name: str) -> Estimated:
    """Return an overall score from the model's results, or from the comparison where they differ.

    They do where models have people's answers to different corruptions.
    """
    style = style_of(SCORES[name])
    own = part.standings.scores[name][shown.name]
    numbers = Numbers(shown.run, report.runs[shown.run].results)
    path = _place(shown, part.standings.homes[name], name)
    if path and numbers.get(*path, "value") == own.value:
        return numbers.estimate(style, *path)
    low, high = own.interval95
    return _estimated(style, own.value, low, high)


def _estimated(style: Style, *values: float) -> Estimated:
    return Estimated(*(compared(style, value) for value in values))


def _place(shown: Shown, space: str, name: str) -> tuple[str | int, ...]:
    """Return where a model's overall score stands in its results, () if nowhere."""
    own = shown.space(space)
    home: tuple[str | int, ...] = ("models", shown.place, "spaces", space)
    if own is None:
        return ()
    path = SCORES[name].overall_path
    return (*home, *path) if find(own, path) is not None else ()
