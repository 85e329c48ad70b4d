"""People's curves to compare models with: the published ones, or those of an imported file."""

from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from eyechart.core.arrays import FloatArray
from eyechart.core.errors import UsageError
from eyechart.core.registry import unknown_name
from eyechart.curves.anchors import right_end
from eyechart.curves.bins import bin_edges, bin_index
from eyechart.curves.curve import Curve, fit_curve
from eyechart.curves.curve_settings import BINS
from eyechart.curves.method_registry import DEFAULT_METHOD
from eyechart.humans.chance import corrected_curve, corrected_for_chance
from eyechart.humans.consistency import check_rule, consistency, find_rule, is_clean
from eyechart.humans.human_responses import (
    CLEAN,
    HumanResponses,
    anchor_of,
    apart_if_unknown,
    clusters_of,
    join_responses,
    one_by_one,
    read_responses,
)
from eyechart.humans.placement import EXPERIMENTS, geirhos_responses
from eyechart.humans.same_different import judgements_file
from eyechart.humans.transfer import SimilarClasses, bare_name, is_direct, published_classes
from eyechart.labels.categories import CATEGORIES
from eyechart.stats.intervals import CONFIDENCE, wilson_interval
from eyechart.testsets.testset_settings import LEAST

METRICS = ("accuracy", "consistency")
FitOptions = dict[str, Any]
"""Arguments of `fit_curve`, by name."""

PACKAGED = ("geirhos",)
EXPORT, ANSWERS = "export", "answers.parquet"
"""Where in a study's folder its export is, and the file of answers in it."""

PER_LEAST, FEWEST_BINS = 1.5, 5
"""Where most responses fall into bins with fewer than the minimum count, and no number of bins is
asked for, bins are made to hold about 1.5 times the minimum."""

BY_CONDITION = {"least-squares": 0.01, "cobs": 0.3}
"""How strongly curves are smoothed where responses come with the rate of their condition.

Bins within a condition are then equal but for others' responses, which a criterion over bins takes
for precision. Leaving out whole conditions errs least with 0.01 to 0.03, with 0.1 to 0.3 for cobs.
"""


@dataclass(frozen=True)
class Point:
    """The answers of one condition or bin: where on the axis, how many, how many hits.

    `delta_v`: the 5th, 50th and 95th percentile.
    """

    delta_v: tuple[float, float, float]
    n_responses: int
    hits: float

    @property
    def rate(self) -> float:
        """The share of hits."""
        return self.hits / self.n_responses

    def interval(self, level: float = CONFIDENCE) -> tuple[float, float]:
        """Return the binomial interval of the rate (Wilson), as if answers were independent."""
        return wilson_interval(round(self.hits) / self.n_responses, self.n_responses, level)


@dataclass(frozen=True)
class LeftEnd:
    """How often clean pictures are hits, and whether the experiment itself showed them."""

    rate: float
    is_own: bool


@dataclass(frozen=True, eq=False)
class Reference:
    """Answers of people, and which corruptions they speak for.

    `clean_rule`: see `consistency.RULES`. `corrected`: whether curves are corrected for chance.
    `similar`: which corruptions look alike, so that responses to one stand for the others.
    """

    name: str
    responses: HumanResponses
    clean_rule: str = "given"
    corrected: bool = False
    similar: SimilarClasses = field(default_factory=published_classes)
    _fitted: dict[object, Curve | None] = field(default_factory=dict, repr=False)

    @property
    def choices(self) -> int:
        """How many answers people could choose between."""
        return self.responses.choices

    @property
    def label_space(self) -> str:
        """What the labels are: "entry16" for the 16 categories."""
        return self.responses.label_space

    @property
    def citation(self) -> str:
        """Whose data it is."""
        return self.responses.citation

    @cached_property
    def experiments(self) -> tuple[str, ...]:
        """The experiments that make curves: those whose answers have a Δv."""
        measured = set(self.responses.corruption[~np.isnan(self.responses.delta_v)].tolist())
        return tuple(name for name in self.responses.experiments if name in measured)

    def match(self, corruption: str) -> str | None:
        """Return the experiment that speaks for a corruption; None if none does.

        People's answers to the corruption itself come first (by its very name, then by its bare
        name, then as a published experiment), then those to the corruption of its class with the
        most answers.
        """
        direct = [
            experiment for experiment in self.experiments if is_direct(experiment, corruption)
        ]
        if direct:
            bare = bare_name(corruption)
            return max(
                direct,
                key=lambda experiment: (
                    experiment == corruption,
                    experiment == bare,
                    self.count(experiment),
                ),
            )
        kind = self.similar.name_of(corruption)
        if kind is None:
            return None
        alike = [
            experiment
            for experiment in self.experiments
            if self.similar.name_of(experiment) == kind
        ]
        return max(alike, key=self.count, default=None)

    @property
    def parts(self) -> "tuple[Reference, ...]":
        """Itself, as the only one of several references."""
        return (self,)

    def source(self, corruption: str, metric: str = "accuracy") -> "Reference | None":
        """Return this reference if it holds a property of a corruption; None otherwise."""
        experiment = self.match(corruption)
        if experiment is None or np.isnan(_hits(self._rows(experiment), metric)).all():
            return None
        return self

    def kind(self, corruption: str) -> Literal["direct", "transferred"] | None:
        """Return whether people saw this corruption or one of its class; None if neither."""
        experiment = self.match(corruption)
        if experiment is None:
            return None
        return "direct" if is_direct(experiment, corruption) else "transferred"

    def check_curves(self) -> None:
        """Raise a UsageError unless there are experiments that curves can be fitted to."""
        if not self.experiments and self.responses.experiments:
            raise UsageError(
                f"{self.name} holds no visual change, so there is no curve: import it with a"
                " placement or a column delta_v."
            )
        if not self.experiments:
            raise UsageError(f"{self.name} holds answers to clean pictures only.")

    def curve(self, corruption: str, metric: str = "accuracy", **fit: Any) -> Curve | None:
        """Return people's curve for a corruption; None where there is no human reference.

        `fit` goes to `fit_curve`. `bins`: None, as without it, for as many as a model has, or fewer
        where there are too few responses for those. `right_anchor`: as of a model's curve; nobody
        was shown destroyed images, so "measured" is chance. What was fitted once is kept.
        """
        if metric not in METRICS:
            raise unknown_name("property", str(metric), METRICS)
        experiment = self.match(corruption)
        if experiment is None:
            return None
        key = (experiment, metric, tuple(sorted(fit.items())))
        try:
            known = key in self._fitted
        except TypeError:  # of lists and arrays among the options nothing is kept
            return self._fit(experiment, metric, fit)
        if not known:
            self._fitted[key] = self._fit(experiment, metric, fit)
        return self._fitted[key]

    def describe(self, corruption: str) -> str:
        """Return one line: whose answers stand for a corruption, how many, and how."""
        experiment = self.match(corruption)
        if experiment is None:
            return "no human reference"
        how = "shown to people directly"
        if self.kind(corruption) == "transferred":
            similar_class = self.similar.find(corruption)
            assert similar_class is not None
            how = f"transferred within the {similar_class.name} class ({similar_class.evidence})"
        chance = f", corrected for chance ({self.choices} choices)" if self.corrected else ""
        return (
            f"{title(experiment)} of {self.name} ({self.size_in_words(experiment)}), {how}{chance}"
        )

    def stands_for(self, corruption: str) -> tuple[str, str, int]:
        """Return the names of the reference and of the experiment for a corruption, and observers.

        Their number is 0 if it is unknown.
        """
        experiment = self.match(corruption)
        if experiment is None:
            return self.name, "", 0
        return self.name, experiment, self.n_participants(experiment)

    def meeting(self, choices: int, match_choices: bool = False) -> "Reference":
        """Return the reference to use with answers among so many choices.

        Where people had another number of choices it is refused, or, with `match_choices`,
        corrected for chance; the other side must then be corrected too (`corrected_curve`).
        """
        if choices == self.choices:
            return self
        if not match_choices:
            raise UsageError(
                f"People chose between {self.choices} answers in {self.name}, not {choices}: ask"
                " for a correction for chance (match_choices) or take another reference."
            )
        return replace(self, corrected=True, _fitted={})

    def count(self, experiment: str) -> int:
        """Return how many answers an experiment holds.

        Tables of counts have accuracy and consistency of the same answers in rows of their own.
        """
        responses = self.responses.only(self.responses.corruption == experiment)
        known = (~np.isnan(responses.correct), ~np.isnan(responses.consistent))
        return max(int(responses.trials[rows].sum()) for rows in known)

    def n_participants(self, experiment: str) -> int:
        """Return how many people took part, 0 if that is unknown."""
        participants = set(self.responses.subject[self.responses.corruption == experiment].tolist())
        return len(participants - {""})

    def size_in_words(self, experiment: str) -> str:
        """Return how many people gave how many answers."""
        answers, n = f"{self.count(experiment):,} answers", self.n_participants(experiment)
        return f"{n:,} {'person' if n == 1 else 'people'}, {answers}" if n else answers

    def points(self, experiment: str, metric: str = "accuracy") -> list[Point]:
        """Return the rates of an experiment by condition, or by bin where it names none."""
        responses = self._rows(experiment)
        hits, seen = _hits(responses, metric), ~np.isnan(responses.delta_v)
        keep = seen & ~np.isnan(hits)
        responses, hits = responses.only(keep), hits[keep]
        by_name = responses.condition
        if not (by_name != "").all():
            by_name = bin_index(responses.delta_v, bin_edges("paper", 40)).astype(np.str_)
        points = []
        for name in np.unique(by_name):
            rows = by_name == name
            change = np.repeat(responses.delta_v[rows], responses.trials[rows])
            low, middle, high = np.percentile(change, [5, 50, 95])
            total = float((hits[rows] * responses.trials[rows]).sum())
            points.append(Point((low, middle, high), int(responses.trials[rows].sum()), total))
        return sorted(points, key=lambda point: point.delta_v[1])

    def left_end(self, experiment: str, metric: str = "accuracy") -> LeftEnd | None:
        """Return how often clean pictures are hits, if people saw any."""
        clean = self._clean(self._rows(experiment), metric)
        if not len(clean):
            return None
        rate = float(np.average(_hits(clean, metric), weights=clean.trials))
        responses = self._rows(experiment)
        is_own = bool((clean.corruption == experiment).all()) or _same_pictures(responses, clean)
        return LeftEnd(rate, is_own)

    def _rows(self, experiment: str) -> HumanResponses:
        return self.judged.only(self.judged.corruption == experiment)

    @cached_property
    def judged(self) -> HumanResponses:
        """The answers with the consistency of this reference's rule."""
        return replace(self.responses, consistent=consistency(self.responses, self.clean_rule))

    def _clean(self, responses: HumanResponses, metric: str) -> HumanResponses:
        """Return the answers to clean pictures: the experiment's own, or else those apart.

        Both, if those apart are to the same photographs: then a study has asked for them, and a few
        pictures that a corruption happened to leave as they were do not stand for all.
        """
        within = responses.only(is_clean(responses) & ~np.isnan(_hits(responses, metric)))
        apart = (self.judged.corruption == CLEAN) & np.isin(self.judged.study, responses.study)
        beside = self.judged.only(apart & ~np.isnan(_hits(self.judged, metric)))
        if len(within) and len(beside) and _same_pictures(responses, beside):
            return join_responses([within, beside])
        return within if len(within) else beside

    def _fit(self, experiment: str, metric: str, fit: FitOptions) -> Curve | None:
        responses = self._rows(experiment)
        responses = responses.only(~np.isnan(_hits(responses, metric)))
        if not len(responses):
            return None
        rows, hits = one_by_one(responses, _hits(responses, metric))
        clusters = clusters_of(responses)[rows]
        clean = self._clean(responses, metric)
        anchor = anchor_of(clean, _hits(clean, metric), clusters)
        options: FitOptions = {"anchor": anchor, "clusters": apart_if_unknown(clusters)}
        if not np.isin(hits, (0, 1)).all():
            options["smoothing"] = BY_CONDITION.get(fit.get("method", DEFAULT_METHOD))
        options |= fit
        if options.get("bins") is None:
            binning, least = options.get("binning", "paper"), options.get("least", LEAST)
            options["bins"] = _bins_for(responses.delta_v[rows], binning, least)
        if isinstance(options.get("right_anchor"), str | float | int):
            start = _mean_anchor(options["anchor"], responses.delta_v[rows])
            options["right_anchor"] = self._right_end(options["right_anchor"], start)
        try:
            curve = fit_curve(responses.delta_v[rows], hits, **options)
        except UsageError as error:
            raise UsageError(f"{self.name}, {experiment}: {error}") from None
        return corrected_curve(curve, self.choices) if self.corrected else curve

    def _right_end(self, anchor: str | float, start: float | None) -> float | FloatArray | None:
        """Return where humans' curve ends, before it is corrected for chance."""
        if self.corrected and not isinstance(anchor, str):
            # a number is a rate among the model's choices; corrected, both curves end at the same
            above = float(corrected_for_chance(anchor, len(CATEGORIES)))
            anchor = 1 / self.choices + above * (1 - 1 / self.choices)
        return right_end(anchor, start, 1 / self.choices)


def find_reference(name_or_path: str, clean_rule: str | None = None) -> Reference:
    """Return the reference "geirhos", of a Parquet file made by an import, or of a study's folder.

    `clean_rule`: which clean answer consistency compares with, "given", "majority" or "random".
    """
    if clean_rule is not None:
        check_rule(clean_rule)
    if name_or_path in PACKAGED:
        return _geirhos()
    path = Path(name_or_path)
    if not path.exists() and not path.suffix:
        raise unknown_name("reference", str(name_or_path), PACKAGED)
    file = _exported(path) if path.is_dir() else path
    responses = read_responses(file)
    name = path.stem if file == path else study_name(path)
    return Reference(name, responses, find_rule(clean_rule, responses))


def study_name(folder: Path) -> str:
    """Return what a study is called by its folder, or by that of its export within it."""
    resolved = folder.resolve()
    return resolved.parent.name if resolved.name == EXPORT else resolved.name


def _exported(folder: Path) -> Path:
    """Return the file of answers in a study's or an export's folder."""
    for file in (folder / ANSWERS, folder / EXPORT / ANSWERS):
        if file.is_file():
            return file
    if judgements_file(folder) is not None:
        raise UsageError(
            f"{folder} holds same/different judgements, which make no curves: see eyechart humans"
            " similar."
        )
    raise UsageError(
        f"{folder} holds no exported answers: run eyechart experiment export {folder} first."
    )


def title(experiment: str) -> str:
    """Return what an experiment is called in text."""
    return EXPERIMENTS[experiment].title if experiment in EXPERIMENTS else experiment


@cache
def _geirhos() -> Reference:
    return Reference("geirhos", geirhos_responses())


def _same_pictures(responses: HumanResponses, clean: HumanResponses) -> bool:
    """Whether some answers are to the same photographs, as far as those are known."""
    return bool(np.isin(clean.picture, responses.picture[responses.picture != ""]).any())


def _bins_for(delta_v: FloatArray, binning: str, least: float) -> int:
    """Return as many bins as models have, or fewer if most responses were in bins of too few."""
    counts = np.bincount(bin_index(delta_v[~np.isnan(delta_v)], bin_edges(binning, BINS)))
    if counts[counts < least].sum() <= counts.sum() / 2:
        return BINS
    return max(FEWEST_BINS, int(len(delta_v) // (PER_LEAST * least)))


def _mean_anchor(anchor: ArrayLike | None, delta_v: FloatArray) -> float | None:
    """Return where a curve starts: a number as it is, or the mean over responses with a Δv."""
    if anchor is None:
        return None
    values = np.asarray(anchor, dtype=np.float64)
    return float(values[~np.isnan(delta_v)].mean() if values.ndim else values)


def _hits(responses: HumanResponses, metric: str) -> FloatArray:
    return responses.correct if metric == "accuracy" else responses.consistent
