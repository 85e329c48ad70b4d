"""Every corruption by every model, one table per score, shaded by how far it is from the best."""

from collections.abc import Iterator
from typing import Any

from eyechart.reports.html.cells import NOTHING, Cell, Estimated, Numbers, marked, score
from eyechart.reports.html.html_table import MANY, Choice, Column, Row, Shaded, Table
from eyechart.reports.series.report import Part, Report, Shown
from eyechart.reports.trained_on import is_mean_marked, note_on
from eyechart.reports.words import MEANINGS, SCORES, corruption_title, space_title
from eyechart.scores.evaluation import PROPERTIES

Path = tuple[str | int, ...]

SHOWN = ("hmri_a", "mrsi_a", "r_a", "r_p", "error", "hmri_p", "mrsi_p")
"""In the order in which they answer what a reader asks."""

ENDS = {"r": ("bounds",), "hmri": ("people", "hmri_bounds")}
"""Where the bounds of a score stand in a property."""


def overviews(report: Report, part: Part, place: int) -> list[Choice]:
    """Return a table of each score that any corruption has, in each label space."""
    found = []
    for name in SHOWN:
        for space in part.spaces:
            rows = tuple(
                _row(report, part, space, corruption, name) for corruption in part.corruptions
            )
            if any(cell is not NOTHING for row in rows for cell in row.cells[1:]):
                title = f"{SCORES[name]}, {space_title(space)}"
                table = Table(
                    f"overview-{place}-{name}-{space}",
                    f"{SCORES[name]} by corruption: {MEANINGS[name]} ({space_title(space)})",
                    _columns(part),
                    (*rows, _mean_row(report, part, space, name)),
                    True,
                    note_on(own.model for own in part.models),
                    kind="stacked by-model",
                )
                found.append(Choice(title, table))
    return found


def bounds(report: Report, part: Part, place: int) -> list[Choice]:
    """Return tables of what scores may be whatever happens where nothing was observed."""
    found = []
    for score_name in ("hmri", "r"):
        for letter in PROPERTIES if len(part.models) <= MANY else "a":
            for space in part.spaces:
                rows = tuple(
                    Row(
                        (
                            corruption_title(name),
                            *_spans(report, part, space, name, score_name, letter),
                        )
                    )
                    for name in part.corruptions
                )
                if any(cell is not NOTHING for row in rows for cell in row.cells[1:]):
                    title = f"{SCORES[f'{score_name}_{letter}']}, {space_title(space)}"
                    caption = (
                        f"Between what {title}, lies whatever happens where nothing was observed"
                    )
                    identity = f"bounds-{place}-{score_name}-{letter}-{space}"
                    columns = _columns(part)
                    found.append(
                        Choice(title, Table(identity, caption, columns, rows, kind="by-model"))
                    )
    return found


def path_of(shown: Shown, space: str, corruption: str, name: str) -> Path:
    """Return where a model's score under a corruption stands in its results, () if nowhere."""
    own = shown.space(space)
    found = None if own is None else own.corruptions.get(corruption)
    if found is None:
        return ()
    home: Path = ("models", shown.place, "spaces", space, "corruptions", corruption)
    if name == "error":
        return (*home, name) if found.error is not None else ()
    kind, letter = name.split("_")
    own_property = found.properties.get(letter)
    home = (*home, PROPERTIES[letter])
    if own_property is None:
        return ()
    if kind == "r":
        return (*home, "robustness") if own_property.robustness is not None else ()
    return (*home, "people", kind) if own_property.people is not None else ()


def _columns(part: Part) -> tuple[Column, ...]:
    return (Column("Corruption", numeric=False), *(Column(own.short) for own in part.models))


def _row(report: Report, part: Part, space: str, corruption: str, name: str) -> Row:
    cells = [_cell(report, part, own, path_of(own, space, corruption, name)) for own in part.models]
    shown = (
        _shaded(cell, name, corruption in own.model.marked)
        for cell, own in zip(cells, part.models, strict=True)
    )
    return Row((corruption_title(corruption), *shown))


def _cell(report: Report, part: Part, shown: Shown, path: Path) -> Estimated | Cell | None:
    if not path:
        return None
    numbers = Numbers(shown.run, report.runs[shown.run].results)
    if len(part.models) > MANY:
        return numbers.cell(score, *path, "value")
    return numbers.estimate(score, *path)


def _shaded(cell: Estimated | Cell | None, name: str, is_marked: bool) -> Any:
    number = cell.value if isinstance(cell, Estimated) else cell
    if number is None or number.value is None:
        return NOTHING
    share = number.value if name in ("error", "mrsi_a", "mrsi_p") else 1 - number.value
    return Shaded(marked(cell, is_marked), min(1.0, max(0.0, share)))


def _mean_row(report: Report, part: Part, space: str, name: str) -> Row:
    cells = []
    for shown in part.models:
        own = shown.space(space)
        has = own is not None and name in own.means
        path = ("models", shown.place, "spaces", space, "means", name) if has else ()
        is_marked = is_mean_marked(report.runs[shown.run], shown.model, space, name)
        cell = _cell(report, part, shown, path)
        cells.append(NOTHING if cell is None else marked(cell, is_marked))
    has_all = all(
        path_of(shown, space, corruption, name)
        for shown in part.models
        for corruption in part.corruptions
    )
    return Row(("Mean" if has_all else "Mean of those known", *cells), is_total=True)


def _spans(
    report: Report, part: Part, space: str, corruption: str, kind: str, letter: str
) -> Iterator[Any]:
    for shown in part.models:
        path = path_of(shown, space, corruption, f"{kind}_{letter}")
        numbers = Numbers(shown.run, report.runs[shown.run].results)
        if not path:
            yield NOTHING
            continue
        home = path[:-1] if kind == "r" else path[:-2]
        place = (*home, *ENDS[kind])
        ends = numbers.get(*place)
        known = ends is not None and None not in ends
        yield numbers.span(score, *place) if known else NOTHING
