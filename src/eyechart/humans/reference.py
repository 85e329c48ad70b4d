"""People's curves to compare models with: the published ones, or those of an imported file."""

from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np

from eyechart.core.errors import UsageError
from eyechart.core.registry import unknown_name
from eyechart.curves.anchors import right_end
from eyechart.curves.bins import bin_edges, bin_index
from eyechart.curves.curve import Curve, fit_curve
from eyechart.curves.curve_settings import BINS, LEAST
from eyechart.humans.agreement import check_rule, consistency, find_rule, is_clean
from eyechart.humans.chance import corrected_curve, corrected_for_chance
from eyechart.humans.geirhos import geirhos_answers
from eyechart.humans.placement import EXPERIMENTS
from eyechart.humans.records import CLEAN, Answers, Numbers, joined, read_answers
from eyechart.humans.same_different import judgements_file
from eyechart.humans.single import anchor_of, apart_if_unknown, clusters_of, one_by_one
from eyechart.humans.transfer import SimilarClasses, bare_name, is_direct, published_classes
from eyechart.labels.categories import CATEGORIES
from eyechart.stats.intervals import wilson_interval

Which = Literal["accuracy", "consistency"]
WHICH = ("accuracy", "consistency")
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
    answers: int
    hits: float

    @property
    def rate(self) -> float:
        """The share of hits."""
        return self.hits / self.answers

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """Return the binomial interval of the rate (Wilson), as if answers were independent."""
        return wilson_interval(round(self.hits) / self.answers, self.answers, level)


@dataclass(frozen=True)
class LeftEnd:
    """How often clean pictures are hits, and whether the experiment itself showed them."""

    rate: float
    own: bool


@dataclass(frozen=True, eq=False)
class Reference:
    """Answers of people, and which corruptions they speak for.

    `clean_answers`: see `agreement.RULES`. `corrected`: whether curves are corrected for chance.
    `similar`: which corruptions look alike, so that responses to one stand for the others.
    """

    name: str
    answers: Answers
    clean_answers: str = "given"
    corrected: bool = False
    similar: SimilarClasses = field(default_factory=published_classes)
    _fitted: dict[Any, Curve | None] = field(default_factory=dict, repr=False)

    @property
    def choices(self) -> int:
        """How many answers people could choose between."""
        return self.answers.choices

    @property
    def label_space(self) -> str:
        """What the labels are: "entry16" for the 16 categories."""
        return self.answers.label_space

    @property
    def citation(self) -> str:
        """Whose data it is."""
        return self.answers.citation

    @cached_property
    def experiments(self) -> tuple[str, ...]:
        """The experiments that make curves: those whose answers have a Δv."""
        measured = set(self.answers.corruption[~np.isnan(self.answers.delta_v)].tolist())
        return tuple(name for name in self.answers.experiments if name in measured)

    def match(self, corruption: str) -> str | None:
        """Return the experiment that speaks for a corruption; None if none does.

        People's answers to the corruption itself come first (by its very name, then by its bare
        name, then as a published experiment), then those to the corruption of its class with the
        most answers.
        """
        direct = [each for each in self.experiments if is_direct(each, corruption)]
        if direct:
            bare = bare_name(corruption)
            return max(direct, key=lambda own: (own == corruption, own == bare, self.count(own)))
        kind = self.similar.name_of(corruption)
        if kind is None:
            return None
        alike = [each for each in self.experiments if self.similar.name_of(each) == kind]
        return max(alike, key=self.count, default=None)

    @property
    def parts(self) -> "tuple[Reference, ...]":
        """Itself, as the only one of several references."""
        return (self,)

    def source(self, corruption: str, which: str = "accuracy") -> "Reference | None":
        """Return this reference if it holds a property of a corruption; None otherwise."""
        experiment = self.match(corruption)
        if experiment is None or np.isnan(_hits(self._rows(experiment), which)).all():
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
        if not self.experiments and self.answers.experiments:
            raise UsageError(
                f"{self.name} holds no visual change, so there is no curve: import it with a"
                " placement or a column delta_v."
            )
        if not self.experiments:
            raise UsageError(f"{self.name} holds answers to clean pictures only.")

    def curve(self, corruption: str, which: str = "accuracy", **fit: Any) -> Curve | None:
        """Return people's curve for a corruption; None where there is no human reference.

        `fit` goes to `fit_curve`. `bins`: None, as without it, for as many as a model has, or fewer
        where there are too few responses for those. `right_anchor`: as of a model's curve; nobody
        was shown destroyed images, so "measured" is chance. What was fitted once is kept.
        """
        if which not in WHICH:
            raise unknown_name("property", str(which), WHICH)
        experiment = self.match(corruption)
        if experiment is None:
            return None
        key = (experiment, which, tuple(sorted(fit.items())))
        try:
            known = key in self._fitted
        except TypeError:  # of lists and arrays among the options nothing is kept
            return self._fit(experiment, which, fit)
        if not known:
            self._fitted[key] = self._fit(experiment, which, fit)
        return self._fitted[key]

    def about(self, corruption: str) -> str:
        """Return one line: whose answers stand for a corruption, how many, and how."""
        experiment = self.match(corruption)
        if experiment is None:
            return "no human reference"
        how = "shown to people directly"
        if self.kind(corruption) == "transferred":
            found = self.similar.find(corruption)
            assert found is not None
            how = f"transferred within the {found.name} class ({found.evidence})"
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
        return self.name, experiment, self.people(experiment)

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
        own = self.answers.only(self.answers.corruption == experiment)
        known = (~np.isnan(own.correct), ~np.isnan(own.consistent))
        return max(int(own.trials[rows].sum()) for rows in known)

    def people(self, experiment: str) -> int:
        """Return how many people took part, 0 if that is unknown."""
        own = set(self.answers.subject[self.answers.corruption == experiment].tolist())
        return len(own - {""})

    def size_in_words(self, experiment: str) -> str:
        """Return how many people gave how many answers."""
        people = self.people(experiment)
        who = f"{people:,} {'person' if people == 1 else 'people'}, " if people else ""
        return f"{who}{self.count(experiment):,} answers"

    def points(self, experiment: str, which: str = "accuracy") -> list[Point]:
        """Return the rates of an experiment by condition, or by bin where it names none."""
        own = self._rows(experiment)
        hits, seen = _hits(own, which), ~np.isnan(own.delta_v)
        keep = seen & ~np.isnan(hits)
        own, hits = own.only(keep), hits[keep]
        by_name = own.condition
        if not (by_name != "").all():
            by_name = bin_index(own.delta_v, bin_edges("paper", 40)).astype(np.str_)
        found = []
        for name in np.unique(by_name):
            rows = by_name == name
            change = np.repeat(own.delta_v[rows], own.trials[rows])
            low, middle, high = np.percentile(change, [5, 50, 95])
            total = float((hits[rows] * own.trials[rows]).sum())
            found.append(Point((low, middle, high), int(own.trials[rows].sum()), total))
        return sorted(found, key=lambda point: point.delta_v[1])

    def left_end(self, experiment: str, which: str = "accuracy") -> LeftEnd | None:
        """Return how often clean pictures are hits, if people saw any."""
        clean = self._clean(self._rows(experiment), which)
        if not len(clean):
            return None
        rate = float(np.average(_hits(clean, which), weights=clean.trials))
        own = self._rows(experiment)
        is_own = bool((clean.corruption == experiment).all()) or _same_pictures(own, clean)
        return LeftEnd(rate, is_own)

    def _rows(self, experiment: str) -> Answers:
        return self.judged.only(self.judged.corruption == experiment)

    @cached_property
    def judged(self) -> Answers:
        """The answers with the consistency of this reference's rule."""
        return replace(self.answers, consistent=consistency(self.answers, self.clean_answers))

    def _clean(self, own: Answers, which: str) -> Answers:
        """Return the answers to clean pictures: the experiment's own, or else those apart.

        Both, if those apart are to the same photographs: then a study has asked for them, and a few
        pictures that a corruption happened to leave as they were do not stand for all.
        """
        theirs = own.only(is_clean(own) & ~np.isnan(_hits(own, which)))
        apart = (self.judged.corruption == CLEAN) & np.isin(self.judged.study, own.study)
        others = self.judged.only(apart & ~np.isnan(_hits(self.judged, which)))
        if len(theirs) and len(others) and _same_pictures(own, others):
            return joined([theirs, others])
        return theirs if len(theirs) else others

    def _fit(self, experiment: str, which: str, fit: dict[str, Any]) -> Curve | None:
        own = self._rows(experiment)
        own = own.only(~np.isnan(_hits(own, which)))
        if not len(own):
            return None
        rows, hits = one_by_one(own, _hits(own, which))
        clusters = clusters_of(own)[rows]
        clean = self._clean(own, which)
        anchor = anchor_of(clean, _hits(clean, which), clusters)
        options: dict[str, Any] = {"anchor": anchor, "clusters": apart_if_unknown(clusters)}
        if not np.isin(hits, (0, 1)).all():
            options["smoothing"] = BY_CONDITION.get(fit.get("method", "least-squares"))
        options |= fit
        if options.get("bins") is None:
            binning, least = options.get("binning", "paper"), options.get("least", LEAST)
            options["bins"] = _bins_for(own.delta_v[rows], binning, least)
        if isinstance(options.get("right_anchor"), str | float | int):
            start = _mean_anchor(options["anchor"], own.delta_v[rows])
            options["right_anchor"] = self._right_end(options["right_anchor"], start)
        try:
            curve = fit_curve(own.delta_v[rows], hits, **options)
        except UsageError as error:
            raise UsageError(f"{self.name}, {experiment}: {error}") from None
        return corrected_curve(curve, self.choices) if self.corrected else curve

    def _right_end(self, anchor: str | float, start: float | None) -> Any:
        """Return where humans' curve ends, before it is corrected for chance."""
        if self.corrected and not isinstance(anchor, str):
            # a number is a rate among the model's choices; corrected, both curves end at the same
            above = float(corrected_for_chance(anchor, len(CATEGORIES)))
            anchor = 1 / self.choices + above * (1 - 1 / self.choices)
        return right_end(anchor, start, 1 / self.choices)


def find_reference(name_or_path: str, clean_answers: str | None = None) -> Reference:
    """Return the reference "geirhos", of a Parquet file made by an import, or of a study's folder.

    `clean_answers`: which clean answer consistency compares with, "given", "majority" or "random".
    """
    if clean_answers is not None:
        check_rule(clean_answers)
    if name_or_path in PACKAGED:
        return _geirhos()
    path = Path(name_or_path)
    if not path.exists() and not path.suffix:
        raise unknown_name("reference", str(name_or_path), PACKAGED)
    file = _exported(path) if path.is_dir() else path
    answers = read_answers(file)
    name = path.stem if file == path else study_name(path)
    return Reference(name, answers, find_rule(clean_answers, answers))


def study_name(folder: Path) -> str:
    """Return what a study is called by its folder, or by that of its export within it."""
    whole = folder.resolve()
    return whole.parent.name if whole.name == EXPORT else whole.name


def _exported(folder: Path) -> Path:
    """Return the file of answers in a study's or an export's folder."""
    for own in (folder / ANSWERS, folder / EXPORT / ANSWERS):
        if own.is_file():
            return own
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
    return Reference("geirhos", geirhos_answers())


def _same_pictures(own: Answers, others: Answers) -> bool:
    """Whether some answers are to the same photographs, as far as those are known."""
    return bool(np.isin(others.picture, own.picture[own.picture != ""]).any())


def _bins_for(delta_v: Numbers, binning: str, least: float) -> int:
    """Return as many bins as models have, or fewer if most responses were in bins of too few."""
    counts = np.bincount(bin_index(delta_v[~np.isnan(delta_v)], bin_edges(binning, BINS)))
    if counts[counts < least].sum() <= counts.sum() / 2:
        return BINS
    return max(FEWEST_BINS, int(len(delta_v) // (PER_LEAST * least)))


def _mean_anchor(anchor: Any, delta_v: Numbers) -> float | None:
    """Return where a curve starts: a number as it is, or the mean over responses with a Δv."""
    if anchor is None:
        return None
    values = np.asarray(anchor, dtype=np.float64)
    return float(values[~np.isnan(delta_v)].mean() if values.ndim else values)


def _hits(answers: Answers, which: str) -> Numbers:
    return answers.correct if which == "accuracy" else answers.consistent
