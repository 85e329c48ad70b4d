"""The leaderboard of a part: ranks, scores with intervals, and significant leads."""

from markupsafe import Markup

from eyechart.reports.html.cells import (
    NOTHING,
    CellContent,
    Estimated,
    Style,
    compared,
    count,
    marked,
    numbers_of,
    style_of,
)
from eyechart.reports.html.html_table import Column, Table, TableRow, text_columns
from eyechart.reports.series.overall_scores import is_mean_marked, mark_note
from eyechart.reports.series.palette import CATEGORY_COLOURS
from eyechart.reports.series.report import ModelEntry, Part, Report
from eyechart.reports.words import listed, space_title
from eyechart.scores.registry import LEADERBOARD, SCORES, Score, find


def leaderboard(report: Report, part: Part, index: int) -> Table:
    """Return the leaderboard of a part: one row per model, best first."""
    standings = part.standings
    scores = [score for score in LEADERBOARD if score.name in standings.scores]
    has_categories = any(model.category for model in part.models)
    columns = (
        *text_columns("Model"),
        Column("Rank", hint="in brackets: 95 % confidence interval of the rank"),
        *(text_columns("Category") if has_categories else ()),
        *(Column(_head(part, score), hint=score.meaning) for score in scores),
        Column("Significantly ahead of", numeric=False, hint="paired test, Holm’s correction, 5 %"),
    )
    rows = []
    for model in part.models:
        name, ranks = model.name, standings.ranks
        rank = _compared_estimate(count, ranks.ranks[name], *ranks.intervals[name])
        behind = [part.short_names[other] for other in standings.worse_than(name)]
        cells = (_score(report, part, model, score.name) for score in scores)
        category = (_category(model.category),) if has_categories else ()
        ahead = listed(behind) or NOTHING
        rows.append(TableRow((model_label(model), rank, *category, *cells, ahead), name))
    caption = f"Models ranked by {SCORES[standings.by].symbol} in {space_title(standings.space)}"
    note = mark_note(model.results for model in part.models)
    if standings.verdict:
        verdict = f"{standings.verdict.capitalize()}: no model is called ahead of another."
        note = f"{verdict} {note}".strip()
    return Table(f"leaderboard-{index}", caption, columns, tuple(rows), True, note, kind="stacked")


def model_label(model: ModelEntry) -> Markup:
    """Return a model's short name after a swatch of its color."""
    text = Markup('<span class="model"><span class="swatch" style="--colour: {}"></span>{}</span>')
    return text.format(model.colour, model.short)


def _head(part: Part, score: Score) -> str:
    """Return a score's title, with its label space if that differs from the board's."""
    standings = part.standings
    title = f"{score.symbol} (%)" if score.is_percent else score.symbol
    return title if standings.homes[score.name] == standings.space else f"{title} (16 categories)"


def _category(name: str) -> str:
    return CATEGORY_COLOURS.get(name, (name, ""))[0] if name else NOTHING


def _score(report: Report, part: Part, model: ModelEntry, name: str) -> CellContent:
    """Return an overall score from the model's results, or from the comparison if they differ.

    They differ if the models have human responses to different corruptions.
    """
    style, home = style_of(SCORES[name]), part.standings.homes[name]
    score = part.standings.scores[name][model.name]
    path = SCORES[name].overall_path
    recorded = find(model.space(home), path)
    if recorded is not None and recorded.value == score.value:
        cell = numbers_of(report, model).estimate(style, *model.path(home, *path))
    else:
        cell = _compared_estimate(style, score.value, *score.interval95)
    return marked(cell, is_mean_marked(report.runs[model.run], model.results, home, name))


def _compared_estimate(style: Style, *values: float) -> Estimated:
    return Estimated(*(compared(style, value) for value in values))
