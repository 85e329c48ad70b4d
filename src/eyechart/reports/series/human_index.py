"""How near models come to humans: HMRI and MRSI of each, or robustness where there are no humans.

Numbers with where they stand in results; bars and colours are left to whoever draws them.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from eyechart.reports.series.curves import property_of
from eyechart.reports.series.report import ModelEntry, Part
from eyechart.reports.words import corruption_title, corruption_words
from eyechart.scores.registry import PROPERTIES
from eyechart.stats.estimate import Estimate


@dataclass(frozen=True, eq=False)
class ScoreBar:
    """A model's score, None if it has none, and where its value stands in the report's results."""

    model: ModelEntry
    number: Estimate | None
    at: str

    @property
    def value(self) -> float | None:
        """The score."""
        return None if self.number is None or not self.number.is_known else self.number.value

    @property
    def interval95(self) -> tuple[float | None, float | None]:
        """The ends of its interval."""
        return (None, None) if self.number is None else self.number.interval95


@dataclass(frozen=True, eq=False)
class HumanIndex:
    """HMRI and MRSI of the models compared with humans, the nearest to humans first.

    `corruption`: "" for the mean over corruptions. `letter`: of the property, "a" or "p".
    """

    corruption: str
    letter: str
    hmri: tuple[ScoreBar, ...]
    mrsi: tuple[ScoreBar, ...]

    @property
    def models(self) -> list[ModelEntry]:
        """The models, the nearest to humans first."""
        return [bar.model for bar in self.hmri]

    @property
    def title(self) -> str:
        """What is compared with humans."""
        title = corruption_title(self.corruption) if self.corruption else "Mean over corruptions"
        return f"{title}: {PROPERTIES[self.letter]} next to people"

    def in_words(self) -> str:
        """Return who comes nearest to humans, who least, and who is ahead of them."""
        where = "in the mean of corruptions"
        if self.corruption:
            where = f"under {corruption_words(self.corruption)}"
        first, last = self.hmri[0], self.hmri[-1]
        text = f"{first.model.short} comes nearest to people's {PROPERTIES[self.letter]}, HMRI"
        text += f" {first.value or 0.0:.3f}"
        if len(self.hmri) > 1:
            text += f"; {last.model.short} least, {last.value or 0.0:.3f}"
        ahead = max(self.mrsi, key=lambda bar: bar.value or 0.0)
        most = ahead.value or 0.0
        more = f"; {ahead.model.short} is most ahead of people, MRSI {most:.3f}"
        return (
            f"Next to people, {where}: {text}{more if most > 0 else '; none is ahead of people'}."
        )


def human_index(part: Part, space: str, letter: str, corruption: str = "") -> HumanIndex | None:
    """Return the models' HMRI and MRSI in a label space, None if none is compared with humans."""
    pairs = list(
        zip(
            score_bars(part.models, space, letter, corruption, "hmri"),
            score_bars(part.models, space, letter, corruption, "mrsi"),
            strict=True,
        )
    )
    # of the means both must be there
    ranked = [(one, two) for one, two in pairs if one.value is not None and two.number is not None]
    if not ranked:
        return None
    ranked.sort(key=lambda pair: -(pair[0].value or 0.0))
    hmri, mrsi = zip(*ranked, strict=True)
    return HumanIndex(corruption, letter, hmri, mrsi)


def score_bars(
    models: Sequence[ModelEntry], space: str, letter: str, corruption: str, score: str
) -> list[ScoreBar]:
    """Return "hmri", "mrsi" or "robustness" of each model, in their order.

    `corruption`: "" for the mean over corruptions, of HMRI and MRSI alone.
    """
    return [_bar(model, space, letter, corruption, score) for model in models]


def _bar(model: ModelEntry, space: str, letter: str, corruption: str, score: str) -> ScoreBar:
    if not corruption:
        scores, name = model.space(space), f"{score}_{letter}"
        number = None if scores is None else scores.means.get(name)
        return ScoreBar(model, number, model.pointer("spaces", space, "means", name, "value"))
    scored = property_of(model, space, corruption, letter)
    steps = ["spaces", space, "corruptions", corruption, PROPERTIES[letter]]
    if score == "robustness":
        number = None if scored is None else scored.robustness
    else:
        people = None if scored is None else scored.people
        number = None if people is None else people.hmri if score == "hmri" else people.mrsi
        steps.append("people")
    return ScoreBar(model, number, model.pointer(*steps, score, "value"))
