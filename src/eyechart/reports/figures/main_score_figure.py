"""Figure of every model's main score under every corruption, worst first, next to human areas."""

from functools import partial

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from eyechart.reports.figures.drawings import Drawing, Planned, planned, suite_words
from eyechart.reports.figures.panels import key
from eyechart.reports.figures.paper_style import COLUMN, Look, drawable, legend, looks_of
from eyechart.reports.series.main_score import MainScore, main_score
from eyechart.reports.series.palette import HUMAN_COLOR
from eyechart.reports.series.report import Report
from eyechart.reports.words import corruption_title, suite_title

ROW, MORE, AROUND = 0.19, 0.05, 0.55
"""Height in inches of a corruption's row, of each further model in it, and of the axis."""

APART, SPREAD = 4, 0.6
"""Maximum number of models drawn side by side, and the fraction of a row that they occupy."""


@planned
def plan_main_scores(report: Report) -> Planned:
    """Return a figure for each test in which at least one corruption has a score."""
    for part in report.parts:
        main = main_score(part)
        if not main.corruptions:
            yield f"No scores by corruption for {suite_title(part.suite)}: no corruption has one."
            continue
        caption = f"{main.title}; {main.axis_title}; lines: 95 % intervals."
        words = ("scores", *suite_words(report, part))
        yield Drawing(words, caption, partial(draw_main_scores, main))


def draw_main_scores(main: MainScore) -> Figure:
    """Return a figure with a row for each corruption, the worst at the top."""
    assert main.score is not None
    looks = looks_of(main.part.models)
    rows = {name: row for row, name in enumerate(main.corruptions)}
    is_apart = len(main.models) <= APART
    height = (ROW + MORE * (len(main.models) - 1 if is_apart else 0)) * len(rows) + AROUND
    figure = Figure(figsize=(COLUMN, height))
    axes = figure.subplots()
    # The inner points of an even division: a single model is on the row itself.
    offsets = np.linspace(-0.5, 0.5, len(main.models) + 2)[1:-1] * SPREAD * is_apart
    for model, offset in zip(main.models, offsets, strict=True):
        look = looks[model.name]
        scores = main.of(model)
        places = np.array([rows[score.corruption] for score in scores]) + offset
        scale = main.score.scale
        values = [scale * score.number.value for score in scores]
        axes.plot(values, places, look.marker, color=look.color, markersize=4)
        if is_apart:
            ends = np.array([score.number.interval95 for score in scores]) * scale
            axes.hlines(places, *ends.T, color=look.color, linewidth=0.9)
    for area in main.humans:
        axes.plot(area.value, rows[area.corruption], "|", color=HUMAN_COLOR, markersize=9, mew=2)
    axes.set_yticks(list(rows.values()), [drawable(corruption_title(name)) for name in rows])
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.set_xlim(0, None if main.score.is_percent else 1)
    axes.set_xlabel(drawable(main.axis_title))
    legend(figure, [*map(_key, looks.values()), *([_human_key()] if main.humans else [])])
    return figure


def _key(look: Look) -> Line2D:
    return key(look.name, look.color, marker=look.marker, markersize=4, linewidth=0.9)


def _human_key() -> Line2D:
    return key("Humans", HUMAN_COLOR, marker="|", markersize=9, mew=2, linestyle="")
