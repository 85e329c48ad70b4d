"""The comparison with humans that decides the verdict on a model; `verdict` puts it into words."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from eyechart.reports.html.cells import NumberCell, Numbers, Style, numbers_of
from eyechart.reports.series.report import ModelEntry, Part, Report, Steps
from eyechart.results.curve_results import HumanComparison
from eyechart.scores.registry import PROPERTIES
from eyechart.stats.p_values import SIGNIFICANT

BADGES = {
    (False, False): ("even", "no significant difference from humans"),
    (True, False): ("behind", "behind humans"),
    (False, True): ("ahead", "ahead of humans"),
    (True, True): ("mixed", "partly behind and partly ahead of humans"),
}
"""Tone and badge, by whether humans lead significantly anywhere and whether the model does."""

NO_CLAIM = ("unclear", "insufficient data")
NO_HUMANS = ("unclear", "not compared with humans")


@dataclass(frozen=True)
class HumanScores:
    """A model compared with humans under one corruption, and its location in results.json."""

    corruption: str
    humans: HumanComparison
    numbers: Numbers
    path: Steps

    def cell(self, style: Style, *steps: str | int) -> NumberCell:
        """Return the number at this path within the comparison."""
        return self.numbers.cell(style, *self.path, *steps)

    def is_ahead(self, side: str) -> bool:
        """Return whether "humans" or "model" is significantly ahead, Holm-corrected."""
        # Ranges are from the test of one corruption; only the p-value is corrected for their
        # number.
        p_value = self.humans.p_humans if side == "humans" else self.humans.p_model
        return p_value < SIGNIFICANT and any(lead.who == side for lead in self.humans.tested)


Compared = Sequence[HumanScores]
"""Comparisons of one model and property with humans, by corruption."""


@dataclass(frozen=True)
class Basis:
    """The comparison with humans that decides the verdict on a model.

    `tone`: how the verdict is marked, and its badge.
    """

    space: str
    letter: str
    compared: Compared
    numbers: Numbers
    tone: tuple[str, str]

    def n_ahead(self, side: str) -> int:
        """Return the number of corruptions under which "humans" or "model" leads significantly."""
        return n_ahead(self.compared, side)


def basis_of(report: Report, part: Part, model: ModelEntry) -> Basis | None:
    """Return the comparison with humans that decides the verdict; None if there is none."""
    numbers = numbers_of(report, model)
    # Accuracy before consistency; the first comparison with humans decides the verdict.
    for space, letter in ((space, letter) for letter in PROPERTIES for space in part.spaces):
        scores = model.space(space)
        if scores is not None and f"hmri_{letter}" in scores.means:
            compared = list(human_scores(numbers, part, model, space, letter))
            tone = BADGES[n_ahead(compared, "humans") > 0, n_ahead(compared, "model") > 0]
            if not scores.means[f"hmri_{letter}"].is_known:
                tone = NO_HUMANS
            elif scores.verdict:
                tone = NO_CLAIM
            return Basis(space, letter, compared, numbers, tone)
    return None


def human_scores(
    numbers: Numbers, part: Part, model: ModelEntry, space: str, letter: str
) -> Iterator[HumanScores]:
    """Yield how a model compares with humans under each corruption that means include."""
    scores = model.space(space)
    for corruption, results in ({} if scores is None else scores.corruptions).items():
        humans = results.properties[letter].humans if letter in results.properties else None
        if humans is not None and corruption in part.standings.board.counted:
            path = model.path(space, "corruptions", corruption, PROPERTIES[letter], "humans")
            yield HumanScores(corruption, humans, numbers, path)


def n_ahead(compared: Compared, side: str) -> int:
    """Return the number of corruptions under which "humans" or "model" leads significantly."""
    return sum(scores.is_ahead(side) for scores in compared)
