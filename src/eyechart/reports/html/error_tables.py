"""CE and relative CE in percent, grouped noise, blur, weather, digital as papers print them."""

from collections.abc import Iterator
from typing import Any

from markupsafe import Markup

from eyechart.reports.html.cells import NOTHING, Cell, Numbers, hundredths, marked
from eyechart.reports.html.html_table import Column, Row, Table
from eyechart.reports.html.leaderboard_table import model_label
from eyechart.reports.interval_text import UNDETERMINED
from eyechart.reports.names import short_names
from eyechart.reports.series.report import Part, Report, Shown
from eyechart.reports.trained_on import is_mean_marked, note_on
from eyechart.reports.words import groups_of, space_title, title_below
from eyechart.results.schema import NormalizedErrors

TABLES = {"ce": ("mce", "CE", "mCE"), "relative_ce": ("relative_mce", "Relative CE", "Rel. mCE")}


def error_tables(report: Report, part: Part, place: int) -> Iterator[Table]:
    """Yield the tables of CE and of relative CE in each label space that has them."""
    for space in part.spaces:
        known = {
            shown.name: own.corruption_error
            for shown in part.models
            if (own := shown.space(space)) is not None and own.corruption_error is not None
        }
        for name in TABLES:
            if known and any(getattr(own, name) for own in known.values()):
                yield _table(report, part, place, space, name, known)


def _table(
    report: Report,
    part: Part,
    place: int,
    space: str,
    name: str,
    known: dict[str, NormalizedErrors],
) -> Table:
    mean, title, mean_title = TABLES[name]
    there = {each for own in known.values() for each in getattr(own, name)}
    groups = groups_of(part.suite, [each for each in part.corruptions if each in there])
    order = [(each, group) for group, members in groups for each in members]
    columns = (
        Column("Model", numeric=False),
        Column("Clean error"),
        Column(mean_title),
        *(Column(title_below(group, each), group=group.capitalize()) for each, group in order),
    )
    rows = tuple(
        _row(report, shown, space, name, mean, [each for each, _ in order])
        for shown in part.models
        if shown.name in known
    )
    first = next(iter(known.values()))
    baseline = short_names([first.baseline])[0]
    caption = (
        f"{title} in percent of the errors of {baseline}, and clean error in percent"
        f" ({space_title(space)}); lower is better"
    )
    identity = f"{name.replace('_', '-')}-{place}-{space}"
    note = f"{first.note} {note_on(own.model for own in part.models)}".strip()
    return Table(identity, caption, columns, rows, True, note, kind="dense stacked")


def _row(
    report: Report, shown: Shown, space: str, name: str, mean: str, corruptions: list[str]
) -> Row:
    numbers = Numbers(shown.run, report.runs[shown.run].results)
    home = ("models", shown.place, "spaces", space)
    own = shown.space(space)
    assert own is not None and own.corruption_error is not None
    table = getattr(own.corruption_error, name)
    has_mean = getattr(own.corruption_error, mean) is not None
    overall = numbers.estimate(hundredths, *home, "corruption_error", mean) if has_mean else NOTHING
    is_marked = has_mean and is_mean_marked(report.runs[shown.run], shown.model, space, mean)
    cells = (
        marked(
            _queried(
                numbers.cell(hundredths, *home, "corruption_error", name, each, "value"),
                None in table[each].interval95,
            ),
            each in shown.model.marked,
        )
        if each in table
        else NOTHING
        for each in corruptions
    )
    overall = marked(overall, is_marked)
    return Row((model_label(shown), clean_error(shown, space), overall, *cells), shown.name)


def _queried(cell: Cell, is_undetermined: bool) -> Any:
    """Return a score, with a question mark behind it if its interval is undetermined."""
    if not is_undetermined:
        return cell
    mark = Markup('<abbr class="unsure" title="95 % interval {}">?</abbr>')
    return Markup("{}{}").format(cell, mark.format(UNDETERMINED))


def clean_error(shown: Shown, space: str) -> Cell:
    """Return the share of clean pictures that are not recognised, in percent.

    What clean accuracy leaves, so that the page has one clean error: those behind relative CE are
    of the pictures as often as each was drawn.
    """
    own = shown.space(space)
    if own is None or own.clean_accuracy is None or own.clean_accuracy.value is None:
        return Cell(None, "")
    value = 1 - own.clean_accuracy.value
    return Cell(value, hundredths(value), origin="comparison")
