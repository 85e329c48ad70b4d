"""The areas under the human curve and a model's curve, and where one is ahead of the other.

A panel is one model under one corruption; charts and figures arrange panels side by side.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from eyechart.reports.number_text import estimate_text
from eyechart.reports.series.curves import Range, curve_panel
from eyechart.reports.series.palette import AREAS
from eyechart.reports.series.report import ModelEntry, OfCorruption, Part, lacks_data
from eyechart.reports.words import listed, places
from eyechart.results.curve_results import HumanComparison
from eyechart.scores.curve_significance import Lead
from eyechart.scores.registry import PROPERTIES, SCORES


@dataclass(frozen=True, eq=False)
class AreaPanel(OfCorruption):
    """A model compared with humans under one corruption, by one property ("a" or "p").

    `at` is the path to the comparison in the model's results.
    """

    model: ModelEntry
    space: str
    corruption: str
    letter: str
    comparison: HumanComparison
    at: tuple[str, ...]

    @property
    def areas(self) -> tuple[tuple[str, str], ...]:
        """The four areas with their labels, formatted like the score R."""
        areas, text = self.comparison.areas, SCORES[f"r_{self.letter}"].text
        return (
            ("human area", text(areas.human)),
            ("model area", text(areas.model)),
            (AREAS["humans"][0], text(areas.human_ahead)),
            (AREAS["model"][0], text(areas.model_ahead)),
        )

    @property
    def scores(self) -> tuple[tuple[str, str], ...]:
        """HMRI and MRSI with their labels."""
        hmri, mrsi = (SCORES[f"{name}_{self.letter}"] for name in ("hmri", "mrsi"))
        return (
            ("HMRI", estimate_text(self.comparison.hmri, hmri)),
            ("MRSI", estimate_text(self.comparison.mrsi, mrsi)),
        )

    def significant(self, side: str) -> list[Range]:
        """Return the ranges in which "humans" or "model" is ahead and 83 % bands are disjoint."""
        return _ranges(self.comparison.significant, side)

    def in_words(self) -> str:
        """Return a sentence that says who is ahead in which ranges of Δv."""
        sentences = [
            f"{verb} ahead at Δv {places(ranges)}"
            for side, verb in (("humans", "humans are"), ("model", "the model is"))
            if (ranges := _ranges(self.comparison.leads, side))
        ]
        return f"{self.model.short}: {listed(sentences) or 'neither is ahead'}"


def _ranges(leads: Iterable[Lead], side: str) -> list[Range]:
    return [(lead.start, lead.end) for lead in leads if lead.who == side]


def area_panels(part: Part, space: str, corruption: str, letter: str) -> list[AreaPanel]:
    """Return a panel for each model that is compared with humans under a corruption.

    There is none with insufficient data, which do not show who is ahead.
    """
    if lacks_data(part.models, space):
        return []
    return [
        AreaPanel(curve.model, space, corruption, letter, curve.score.humans, (*curve.at, "humans"))
        for curve in curve_panel(part.models, space, corruption, letter).curves
        if curve.score.humans is not None
    ]


def area_panels_of(part: Part, model: ModelEntry) -> list[AreaPanel]:
    """Return all panels of one model: accuracy first, corruptions in the part's order."""
    return [
        panel
        for letter in PROPERTIES
        for corruption in part.corruptions
        for space in part.spaces
        for panel in area_panels(part, space, corruption, letter)
        if panel.model is model
    ]
