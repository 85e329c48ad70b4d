"""Figures and tables to draw: their names, captions, and the functions that draw them."""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import wraps
from typing import ParamSpec

from matplotlib.figure import Figure

from eyechart.reports.series.report import Part, Report

LONGEST = 80
"""Maximum length of a file's name without its suffix."""


@dataclass(frozen=True, eq=False)
class Drawing:
    """One figure or LaTeX table; its file name is `words` joined by hyphens."""

    words: tuple[str, ...]
    caption: str
    make: Callable[[], Figure | str]
    endings: tuple[str, ...] = (".svg", ".pdf")


@dataclass(frozen=True, eq=False)
class Drawings:
    """The drawings of a report; `notes` has one sentence for each missing drawing."""

    drawings: tuple[Drawing, ...] = ()
    notes: tuple[str, ...] = ()


Planned = Iterator[Drawing | str]
"""Drawings, and a sentence for each drawing that is not possible."""

Arguments = ParamSpec("Arguments")


def planned(plan: Callable[Arguments, Planned]) -> Callable[Arguments, Drawings]:
    """Decorate a function that yields drawings and notes, so that it returns `Drawings`."""

    @wraps(plan)
    def collect(*arguments: Arguments.args, **named: Arguments.kwargs) -> Drawings:
        items = list(plan(*arguments, **named))
        return Drawings(
            tuple(item for item in items if isinstance(item, Drawing)),
            tuple(item for item in items if isinstance(item, str)),
        )

    return collect


def joined(several: Iterable[Drawings]) -> Drawings:
    """Return all drawings and all notes, without duplicate notes."""
    groups = list(several)
    notes = dict.fromkeys(note for item in groups for note in item.notes)
    return Drawings(tuple(drawing for item in groups for drawing in item.drawings), tuple(notes))


def file_stems(drawings: Iterable[Drawing]) -> list[str]:
    """Return a unique, portable file name without suffix for each drawing.

    Names are unique even on case-insensitive file systems.
    """
    taken: set[str] = set()
    stems = []
    for drawing in drawings:
        stem = safe_name("-".join(drawing.words))
        unique, number = stem, 1
        # Compared in lower case, because macOS and Windows ignore case.
        while unique.lower() in taken:
            number += 1
            unique = f"{stem}-{number}"
        taken.add(unique.lower())
        stems.append(unique)
    return stems


def safe_name(text: str) -> str:
    """Return a text with only letters, digits, dots, hyphens and underscores.

    Example:
        >>> safe_name("curves of vcr/fog")
        'curves-of-vcr-fog'
    """
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", text)
    # Stripped after cutting, which may leave a separator at the end.
    return re.sub(r"-{2,}", "-", plain)[:LONGEST].strip("-.") or "figure"


def suite_words(report: Report, part: Part) -> tuple[str, ...]:
    """Return the words of a file name that name the suite; empty if a report has only one suite."""
    return (part.suite,) if len(report.parts) > 1 else ()
