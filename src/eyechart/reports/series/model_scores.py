"""Scores of a test's models: overall, under every corruption, compared with humans, and ranks.

The main score is the one by which models are ranked. If models are compared with humans, the score
in the 16 human categories is used, so that the human areas can be drawn next to it. Models are also
ranked by fixed and by continuous severities: these scores and ranks come from comparing runs.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean

from eyechart.core.phrases import listed, plural
from eyechart.images.labels.spaces import ENTRY16
from eyechart.pipeline.scoring.caveats import MARK, MEANING
from eyechart.reports.number_text import estimate_text, with_unit
from eyechart.reports.series.report import ModelEntry, Report, TestSection, lacks_data
from eyechart.reports.titles import corruption_title, corruption_words, space_title
from eyechart.results.model_results import ModelResults, SpaceResults
from eyechart.results.ranking_comparison import Rankings
from eyechart.results.runs import Run
from eyechart.scores.registry import (
    BASELINE,
    CURVE_SCORES,
    DECLARED,
    PROPERTIES,
    RANKED_ELSEWHERE,
    SCORES,
    Score,
    find,
)
from eyechart.stats.estimate import Estimate


def overall_scores(space: SpaceResults) -> dict[str, Estimate]:
    """Return the overall scores that exist, by name, in the order of a model card."""
    return {name: estimate for name, estimate in space.scores.items() if estimate.is_known}


def averaged(run: Run, space: SpaceResults, name: str) -> tuple[str, ...]:
    """Return the corruptions that an overall score averages; none for clean accuracy."""
    counted, score = run.config.means_over, SCORES[name]
    if score.of_test:
        # mCE is one score of the whole test, but still a mean over the counted corruptions.
        return counted if BASELINE in score.needs else ()
    return tuple(name for name in counted if find(space, score.path(name)) is not None)


def is_mean_marked(run: Run, model: ModelResults, space: str, score: str) -> bool:
    """Return whether an overall score averages a corruption that the model was trained on."""
    if not model.marked or space not in model.spaces:
        return False
    return not set(model.marked).isdisjoint(averaged(run, model.spaces[space], score))


def mark_note(models: Iterable[ModelResults]) -> str:
    """Return the footnote that explains the mark; "" if no model is marked."""
    return f"{MARK} {MEANING}." if any(model.marked for model in models) else ""


@dataclass(frozen=True, eq=False)
class MainScore:
    """The main scores of one test: `overall` for each model, `score` under every corruption.

    `space`: label space of the scores.
    """

    section: TestSection
    overall: Score
    score: Score
    space: str

    def of(self, model: ModelEntry) -> dict[str, Estimate]:
        """Return a model's scores by corruption, in the suite's order, where there is one."""
        scores, path = model.space(self.space), self.score.path
        numbers = {name: find(scores, path(name)) for name in self.section.corruptions}
        return {
            name: number
            for name, number in numbers.items()
            if number is not None and number.is_known
        }

    def worst(self, model: ModelEntry) -> str | None:
        """Return a model's worst corruption; None if fewer than two corruptions have a score.

        Insufficient data do not show which one is the worst.
        """
        scores = self.of(model)
        if len(scores) < 2 or self.lacks_data:
            return None
        return min(scores, key=lambda name: self._sign * scores[name].value)

    def text(self, value: float) -> str:
        """Return a score under a corruption as text, with its unit."""
        return with_unit(value, self.score)

    @property
    def corruptions(self) -> list[str]:
        """The corruptions that have a score, worst first by the mean over models.

        With insufficient data, they are in the suite's order.
        """
        if self.lacks_data:
            return [name for name in self.section.corruptions if name in self._values]
        return sorted(self._values, key=lambda name: self._sign * fmean(self._values[name]))

    @property
    def lacks_data(self) -> bool:
        """Whether the data are insufficient for a claim."""
        return lacks_data(self.section.models, self.space)

    @property
    def models(self) -> list[ModelEntry]:
        """The models that have a score under any corruption."""
        return [model for model in self.section.models if self.of(model)]

    @property
    def humans(self) -> dict[str, float]:
        """The human areas that are on the same scale as the models' scores, by corruption."""
        collected: dict[str, float] = {}
        for model in self.section.models if self.score is SCORES["r_a"] else ():
            scores = model.space(self.space)
            for name, results in ({} if scores is None else scores.corruptions).items():
                humans = None if results.accuracy is None else results.accuracy.humans
                # Areas that are corrected for chance are on a different scale from R_a.
                if humans is None or humans.corrected_for_chance or name not in self._values:
                    continue
                collected.setdefault(name, humans.areas.human)
        return {name: collected[name] for name in self.corruptions if name in collected}

    @property
    def title(self) -> str:
        """Title of the chart."""
        scores = "Rₐ" if self.score.name == "r_a" else self.score.symbol
        order = "" if self.lacks_data else ", worst first"
        return f"{scores} by corruption{order} ({space_title(self.space)})"

    @property
    def axis_title(self) -> str:
        """Title of the score's axis."""
        return self.score.axis or self.score.symbol

    def in_words(self) -> str:
        """Return the worst corruption of each model, and where the human area is larger.

        With insufficient data, the range of each model's scores is returned instead.
        """
        sentences = []
        for model in self.models:
            scores = self.of(model)
            if self.lacks_data:
                values = [number.value for number in scores.values()]
                ends = dict.fromkeys(map(self.text, (min(values), max(values))))
                sentences.append(f"{model.short} {' to '.join(ends)}")
                continue
            worst = self.worst(model) or next(iter(scores))
            sentences.append(
                f"{model.short} {self.text(scores[worst].value)} ({corruption_words(worst)})"
            )
        count = len(self.corruptions)
        selection = f"; worst of {count}"
        if self.lacks_data:
            selection = f" under {count} {plural(count, 'corruption')}"
        text = f"{self.axis_title}{selection}: {listed(sentences)}"
        if self.humans:
            areas = [
                f"{corruption_title(name)} {self.text(area)}" for name, area in self.humans.items()
            ]
            text += f"; Humans: {', '.join(areas)}"
        return f"{text}."

    @property
    def _sign(self) -> int:
        """1 if the lowest value is the worst, −1 if the highest value is the worst."""
        return 1 if self.score.higher_is_better else -1

    @cached_property
    def _values(self) -> dict[str, list[float]]:
        values: dict[str, list[float]] = {}
        for model in self.section.models:
            for name, number in self.of(model).items():
                values.setdefault(name, []).append(number.value)
        return values


def main_score(section: TestSection) -> MainScore:
    """Return the score by which a test's models are judged."""
    overall = SCORES[section.standings.by]
    space = section.standings.space
    # Humans chose among the 16 categories, and scores of two label spaces are not comparable.
    if overall.name == "r_a" and space != ENTRY16 and _are_compared(section):
        space = ENTRY16
    # CE and its mean have different names; other scores have the same name as their mean.
    name = next((score.name for score in DECLARED if score.mean == overall.name), overall.name)
    # A score of the whole test has no value under a corruption.
    scores = [SCORES[other] for other in (name, *RANKED_ELSEWHERE) if not SCORES[other].of_test]
    available = (
        score
        for score in scores
        for model in section.models
        for corruption in section.corruptions
        if find(model.space(space), score.path(corruption)) is not None
    )
    return MainScore(section, overall, next(available, scores[0]), space)


def _are_compared(section: TestSection) -> bool:
    """Return whether every model has R_a and HMRI in the human categories, on sufficient data."""
    for model in section.models:
        scores = model.space(ENTRY16)
        if ENTRY16 not in section.spaces or scores is None or scores.verdict:
            return False
        hmri = scores.means.get("hmri_a")
        if hmri is None or not hmri.is_known:
            return False
        areas = (find(scores, SCORES["r_a"].path(name)) for name in section.corruptions)
        if not all(area is not None and area.is_known for area in areas):
            return False
    return True


@dataclass(frozen=True, eq=False)
class ScoreBar:
    """A model's score, or None if it is missing."""

    model: ModelEntry
    score: Score
    number: Estimate | None

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


def human_index(
    section: TestSection, space: str, letter: str, corruption: str = ""
) -> HumanIndex | None:
    """Return the models' HMRI and MRSI in a label space; None if it has no human comparison."""
    bars = (
        score_bars(section.models, space, SCORES[f"{name}_{letter}"], corruption)
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
    return [ScoreBar(model, score, find(model.space(space), path)) for model in models]


RANKED_BY = {score.title: score for score in CURVE_SCORES}
"""The curve scores by which models are ranked, by title."""

WAY_TITLES = {"R_a": "Rₐ on VCR", "R_p": "Rₚ on VCR"}


@dataclass(frozen=True, eq=False)
class RankPanel:
    """Models ranked by several methods under one corruption, in the order of the first method.

    `changed`: names of the models that change ranks significantly; `perhaps`: names of those that
    change ranks, but not significantly.
    """

    rankings: Rankings
    models: tuple[ModelEntry, ...]
    changed: frozenset[str]
    perhaps: frozenset[str]

    @property
    def ways(self) -> tuple[str, ...]:
        """The names of the ranking methods."""
        return tuple(self.rankings.ranks)

    def score(self, way: str, model: ModelEntry) -> Estimate:
        """Return the score by which a model is ranked."""
        return self.rankings.scores[way][model.name]

    def score_text(self, way: str, model: ModelEntry) -> str:
        """Return a model's ranking score as text; accuracies are formatted like error rates."""
        return estimate_text(self.score(way, model), RANKED_BY.get(way, SCORES["error"]))

    def in_words(self) -> str:
        """Return which model each method ranks first, and which models change ranks."""
        short = {model.name: model.short for model in self.models}
        leaders = []
        for way, ranking in self.rankings.ranks.items():
            best = min(ranking.ranks, key=lambda name: ranking.ranks[name])
            leaders.append(f"{way_title(way)} puts {short[best]} first")
        moved = [model.short for model in self.models if model.name in self.changed]
        more = "no two models change ranks significantly"
        if moved:
            more = f"{listed(moved)} change ranks significantly"
        return f"Under {corruption_words(self.rankings.subject)}: {', '.join(leaders)}; {more}."


def swap_sentences(
    rankings: Iterable[Rankings],
    short: Mapping[str, str],
    *,
    title: Callable[[str], str],
    way_title: Callable[[str], str],
) -> Iterator[str]:
    """Yield a sentence for each pair of models whose order significantly differs between methods.

    `short` maps each model to its short name. `title` and `way_title` return the names of a
    ranking's subject and of a method.
    """
    for comparison in rankings:
        for one, two, swap in comparison.swaps:
            if swap.significant:
                yield (
                    f"{title(comparison.subject)}: {way_title(one)} ranks {short[swap.first]} "
                    f"before {short[swap.second]}, {way_title(two)} the other way around."
                )


def way_title(way: str) -> str:
    """Return the name of a ranking method as shown in a legend."""
    return WAY_TITLES.get(way, way)


def rank_panels(report: Report) -> list[RankPanel]:
    """Return a panel for each corruption that ImageNet-C and VCR share."""
    if report.discrete is None:
        return []
    return [rank_panel(report, rankings) for rankings in report.discrete.corruptions]


def rank_panel(report: Report, rankings: Rankings) -> RankPanel:
    """Return a panel with the models of a report, ranked as in a comparison."""
    first = next(iter(rankings.ranks.values())).ranks
    models = {model.name: model for model in report.models}
    pairs = [(swap.significant, {swap.first, swap.second}) for *_, swap in rankings.swaps]
    changed = frozenset(name for is_sure, pair in pairs if is_sure for name in pair)
    moved = frozenset(name for _, pair in pairs for name in pair)
    order = tuple(models[name] for name in sorted(first, key=lambda name: first[name]))
    # A model with both kinds of change counts as significant.
    return RankPanel(rankings, order, changed, moved - changed)
