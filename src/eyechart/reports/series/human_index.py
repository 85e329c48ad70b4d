"""HMRI and MRSI of each model, or robustness if there are no human data.

This module provides numbers with their locations in results; renderers draw them as bars.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from eyechart.images.labels.spaces import ENTRY16
from eyechart.reports.number_text import estimate_text
from eyechart.reports.series.report import ModelEntry, Part, lacks_data
from eyechart.reports.words import corruption_title, corruption_words, listed
from eyechart.scores.registry import PROPERTIES, SCORES, Score, find
from eyechart.stats.estimate import Estimate


@dataclass(frozen=True, eq=False)
class ScoreBar:
    """A model's score, or None if it is missing, and its location in the results."""

    model: ModelEntry
    score: Score
    number: Estimate | None
    at: str

    @property
    def value(self) -> float | None:
        """The score."""
        return None if self.number is None or not self.number.is_known else self.number.value

    @property
    def interval95(self) -> tuple[float | None, float | None]:
        """The limits of the 95 % interval."""
        return (None, None) if self.number is None else self.number.interval95

    @property
    def text(self) -> str:
        """The score as text, or a dash if there is none."""
        return estimate_text(self.number, self.score)


@dataclass(frozen=True, eq=False)
class HumanIndex:
    """HMRI and MRSI of the models compared with humans, in descending order.

    `corruption`: "" for the mean over corruptions. `letter`: the property, "a" or "p".
    """

    corruption: str
    letter: str
    hmri: tuple[ScoreBar, ...]
    mrsi: tuple[ScoreBar, ...]

    @property
    def models(self) -> list[ModelEntry]:
        """The models, in descending order."""
        return [bar.model for bar in self.hmri]

    @property
    def title(self) -> str:
        """Title of the comparison with humans."""
        title = corruption_title(self.corruption) if self.corruption else "Mean over corruptions"
        return f"{title}: {PROPERTIES[self.letter]} compared with humans"

    def in_words(self) -> str:
        """Return which models are nearest to and farthest from humans, and which are ahead.

        With insufficient data, scores are listed and models are not compared.
        """
        where = "averaged over corruptions"
        if self.corruption:
            where = f"under {corruption_words(self.corruption)}"
        first, last = self.hmri[0], self.hmri[-1]
        if len(self.hmri) == 1 or lacks_data(self.models, ENTRY16):
            scores = [
                f"{hmri.model.short} has HMRI {hmri.text} and MRSI {mrsi.text}"
                for hmri, mrsi in zip(self.hmri, self.mrsi, strict=True)
            ]
            return f"Compared with humans, {where}: {listed(scores)} for {PROPERTIES[self.letter]}."
        text = f"{first.model.short} comes closest to human {PROPERTIES[self.letter]}, HMRI"
        text += f" {first.text}; {last.model.short} is farthest, {last.text}"
        ahead = max(self.mrsi, key=lambda bar: bar.value or 0.0)
        more = "no model is ahead of humans"
        if ahead.value:
            more = f"{ahead.model.short} is farthest ahead of humans, MRSI {ahead.text}"
        return f"Compared with humans, {where}: {text}; {more}."


def human_index(part: Part, space: str, letter: str, corruption: str = "") -> HumanIndex | None:
    """Return the models' HMRI and MRSI in a label space; None if it has no human comparison."""
    bars = (
        score_bars(part.models, space, SCORES[f"{name}_{letter}"], corruption)
        for name in ("hmri", "mrsi")
    )
    # The means of both scores must exist.
    ranked = [
        (one, two)
        for one, two in zip(*bars, strict=True)
        if one.value is not None and two.number is not None
    ]
    if not ranked:
        return None
    ranked.sort(key=lambda pair: -(pair[0].value or 0.0))
    hmri, mrsi = zip(*ranked, strict=True)
    return HumanIndex(corruption, letter, hmri, mrsi)


def score_bars(
    models: Sequence[ModelEntry], space: str, score: Score, corruption: str
) -> list[ScoreBar]:
    """Return a score of each model, in the same order; `corruption` is "" for the mean over all."""
    path = score.path(corruption) if corruption else score.overall_path
    return [
        ScoreBar(
            model,
            score,
            find(model.space(space), path),
            model.pointer("spaces", space, *path, "value"),
        )
        for model in models
    ]
