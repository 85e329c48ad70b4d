"""A table of scores for notebooks, with a bar behind each score."""

from collections.abc import Mapping, Sequence
from html import escape

from eyechart.scores.registry import Score
from eyechart.stats.estimate import Estimate

BAR = "rgba(70, 130, 180, 0.3)"
"""Color of bars: transparent, so that the text stays readable on light and on dark pages."""


def html_table(
    head: str,
    rows: Mapping[str, Mapping[str, Estimate]],
    scores: Sequence[Score],
    note: str = "",
) -> str:
    """Return a table with a row per name and a column per score that any of the rows has.

    Args:
        head: Title of the first column.
        rows: Scores of each row, by row name and score name.
        scores: Declarations of the scores, in the order of the columns.
        note: A note on insufficient data, shown above the table.
    """
    columns = [score for score in scores if any(score.name in row for row in rows.values())]
    titles = "".join(f"<th>{escape(score.symbol)}</th>" for score in columns)
    lines = [
        f"<tr><td>{escape(name)}</td>{''.join(_cell(row, score) for score in columns)}</tr>"
        for name, row in rows.items()
    ]
    caption = f"<caption>{escape(note[:1].upper() + note[1:])}</caption>" if note else ""
    return f"<table>{caption}<tr><th>{escape(head)}</th>{titles}</tr>{''.join(lines)}</table>"


def _cell(scores: Mapping[str, Estimate], score: Score) -> str:
    estimate = scores.get(score.name)
    if estimate is None or not estimate.is_known:
        return "<td>–</td>"
    value, low, high = map(score.text, (estimate.value, *estimate.interval()))
    interval = f" ({low}–{high})" if estimate.has_interval else ""
    # A bar shows the value on a scale from 0 to 1, or from 0 to 100 %.
    share = f"{100 * min(1.0, max(0.0, estimate.value)):.0f}%"
    bar = f"linear-gradient(90deg, {BAR} {share}, transparent {share})"
    return f'<td style="background: {bar}">{value}{interval}</td>'
