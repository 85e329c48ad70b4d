"""What is to be drawn: a figure or a table each, its name, its caption, and how it is made."""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import wraps
from typing import ParamSpec

from matplotlib.figure import Figure

from eyechart.reports.series.report import Part, Report

LONGEST = 80
"""Letters of a file's name without its ending."""


@dataclass(frozen=True, eq=False)
class Drawing:
    """One figure or one LaTeX table. `words`: what its file is called after, joined by hyphens."""

    words: tuple[str, ...]
    caption: str
    make: Callable[[], Figure | str]
    endings: tuple[str, ...] = (".svg", ".pdf")


@dataclass(frozen=True, eq=False)
class Drawings:
    """What can be drawn of a report; `notes`: one sentence for each thing that cannot be."""

    drawings: tuple[Drawing, ...] = ()
    notes: tuple[str, ...] = ()


Planned = Iterator[Drawing | str]
"""Drawings, and sentences on what cannot be drawn."""

Arguments = ParamSpec("Arguments")


def planned(plan: Callable[Arguments, Planned]) -> Callable[Arguments, Drawings]:
    """Let a function that yields drawings and notes return both."""

    @wraps(plan)
    def collect(*arguments: Arguments.args, **named: Arguments.kwargs) -> Drawings:
        items = list(plan(*arguments, **named))
        return Drawings(
            tuple(item for item in items if isinstance(item, Drawing)),
            tuple(item for item in items if isinstance(item, str)),
        )

    return collect


def joined(several: Iterable[Drawings]) -> Drawings:
    """Return all drawings and all notes, those said twice once."""
    groups = list(several)
    notes = dict.fromkeys(note for item in groups for note in item.notes)
    return Drawings(tuple(drawing for item in groups for drawing in item.drawings), tuple(notes))


def file_stems(drawings: Iterable[Drawing]) -> list[str]:
    """Return a file name without ending for each drawing: safe in any folder, and all different.

    Also where letters' case counts for nothing.
    """
    taken: set[str] = set()
    stems = []
    for drawing in drawings:
        stem = safe_name("-".join(drawing.words))
        unique, number = stem, 1
        while unique.lower() in taken:
            number += 1
            unique = f"{stem}-{number}"
        taken.add(unique.lower())
        stems.append(unique)
    return stems


def safe_name(text: str) -> str:
    """Return a text with nothing in it but letters, digits, dots, hyphens and underscores."""
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", text)
    return re.sub(r"-{2,}", "-", plain)[:LONGEST].strip("-.") or "figure"


def suite_words(report: Report, part: Part) -> tuple[str, ...]:
    """Return what tells a suite's files from those of the report's others, if it has others."""
    return (part.suite,) if len(report.parts) > 1 else ()
