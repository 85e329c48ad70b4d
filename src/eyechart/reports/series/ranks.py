"""Models ranked by fixed and by continuous severities: scores, ranks, and rank changes.

Scores and ranks come from comparing runs; no results.json contains them.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from eyechart.core.phrases import listed
from eyechart.reports.number_text import estimate_text
from eyechart.reports.series.report import ModelEntry, Report
from eyechart.reports.titles import corruption_words
from eyechart.results.ranking_comparison import Rankings
from eyechart.scores.registry import CURVE_SCORES, SCORES
from eyechart.stats.estimate import Estimate

DECLARED = {score.title: score for score in CURVE_SCORES}
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
        return estimate_text(self.score(way, model), DECLARED.get(way, SCORES["error"]))

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
