"""Human reference curves for comparison with models, from published data or imported files."""

from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np

from eyechart.core.arguments import resolved_path
from eyechart.core.arrays import FloatArray
from eyechart.core.errors import UsageError
from eyechart.core.phrases import count_of
from eyechart.core.registry import unknown_name
from eyechart.humans.human_fit import (
    FitOptions,
    check_rule,
    consistency,
    fit_responses,
    is_clean,
    own_clean_responses,
)
from eyechart.humans.human_responses import (
    CLEAN,
    HumanResponses,
    join_responses,
    read_responses,
)
from eyechart.humans.placement import EXPERIMENTS, geirhos_responses
from eyechart.humans.same_different import judgements_file
from eyechart.humans.transfer import SimilarClasses, bare_name, is_direct, published_classes
from eyechart.stats.bins import bin_edges, bin_index
from eyechart.stats.curve import Curve
from eyechart.stats.intervals import CONFIDENCE, wilson_interval

METRICS = ("accuracy", "consistency")

PACKAGED = ("geirhos",)
EXPORT, RESPONSES = "export", "responses.parquet"
"""Names of a study's export folder and of its response file."""


@dataclass(frozen=True)
class Point:
    """Responses in one condition or bin: their Δv, their number, and the number of hits.

    `delta_v` contains the 5th, 50th and 95th percentiles of Δv.
    """

    delta_v: tuple[float, float, float]
    n_responses: int
    hits: float

    @property
    def rate(self) -> float:
        """Fraction of responses that are hits."""
        return self.hits / self.n_responses

    def interval(self, level: float = CONFIDENCE) -> tuple[float, float]:
        """Return the Wilson interval of the rate, which treats responses as independent."""
        # `hits` is a sum of rates, which have rounding errors.
        return wilson_interval(round(self.hits) / self.n_responses, self.n_responses, level)


@dataclass(frozen=True, eq=False)
class Reference:
    """A set of human responses, and the corruptions for which they can be used.

    Attributes:
        name: Name in tables and results.
        responses: The responses.
        clean_rule: Rule that determines consistency, one of `CLEAN_RESPONSES`.
        corrected: Whether curves are corrected for chance.
        similar: Classes of similar corruptions, within which responses are transferred.
    """

    name: str
    responses: HumanResponses
    clean_rule: str = "given"
    corrected: bool = False
    similar: SimilarClasses = field(default_factory=published_classes)
    _fitted: dict[object, Curve | None] = field(default_factory=dict, repr=False)

    @property
    def choices(self) -> int:
        """Number of choices that participants had."""
        return self.responses.choices

    @property
    def label_space(self) -> str:
        """Label space of the responses: "entry16" for the 16 categories."""
        return self.responses.label_space

    @property
    def citation(self) -> str:
        """Citation of the data."""
        return self.responses.citation

    @cached_property
    def experiments(self) -> tuple[str, ...]:
        """Experiments that have curves because their responses have a Δv."""
        measured = set(self.responses.corruption[~np.isnan(self.responses.delta_v)].tolist())
        return tuple(name for name in self.responses.experiments if name in measured)

    def match(self, corruption: str) -> str | None:
        """Return the experiment used for a corruption, or None if there is none.

        Responses to the corruption itself are preferred: first under its exact name, then under its
        name without the suite, then from a published experiment. Otherwise the similar corruption
        with the most responses is used.
        """
        direct = [
            experiment for experiment in self.experiments if is_direct(experiment, corruption)
        ]
        if direct:
            bare = bare_name(corruption)
            return max(
                direct,
                key=lambda experiment: (
                    # Tuples compare from left to right: exact name, then bare name, then number of
                    # responses.
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
        """A tuple that contains only this reference; combined references contain several."""
        return (self,)

    def source(self, corruption: str, metric: str = "accuracy") -> "Reference | None":
        """Return this reference if it has responses for a corruption and metric, otherwise None."""
        return self if (self.match(corruption), metric) in self._answered else None

    @cached_property
    def _answered(self) -> set[tuple[str | None, str]]:
        """The experiments and metrics with at least one known response."""
        return {
            (experiment, metric)
            for experiment in self.experiments
            for metric in METRICS
            if not np.isnan(_hits(self._rows(experiment), metric)).all()
        }

    def kind(self, corruption: str) -> Literal["direct", "transferred"] | None:
        """Return whether humans saw this corruption ("direct") or a similar one ("transferred").

        The result is None if humans saw neither.
        """
        experiment = self.match(corruption)
        if experiment is None:
            return None
        return "direct" if is_direct(experiment, corruption) else "transferred"

    def check_curves(self) -> None:
        """Raise a UsageError if there is no experiment to which a curve can be fitted."""
        if not self.experiments and self.responses.experiments:
            raise UsageError(
                f"The responses in {self.name} lack visual changes (Δv), so no curve can be fitted:"
                " import them with a placement or a delta_v column."
            )
        if not self.experiments:
            raise UsageError(f"{self.name} has responses to clean images only.")

    def curve(self, corruption: str, metric: str = "accuracy", **fit: Any) -> Curve | None:
        """Return the human curve for a corruption, or None if there is no human reference.

        Fitted curves are cached.

        Args:
            corruption: Name of a corruption.
            metric: "accuracy" or "consistency".
            **fit: Arguments of `fit_curve`. With `bins` None (the default), there are as many bins
                as for models, or fewer if there are too few responses. `right_anchor` has the same
                meaning as for models, except that "measured" means chance level, because no human
                was shown destroyed images.
        """
        if metric not in METRICS:
            raise unknown_name("property", str(metric), METRICS)
        experiment = self.match(corruption)
        if experiment is None:
            return None
        key = (experiment, metric, tuple(sorted(fit.items())))
        try:
            hash(key)
        except TypeError:
            # Options that are lists or arrays cannot be hashed; their curves are not cached.
            return self._fit(experiment, metric, fit)
        if key not in self._fitted:
            self._fitted[key] = self._fit(experiment, metric, fit)
        return self._fitted[key]

    def describe(self, corruption: str, metric: str | None = None) -> str:
        """Return one line that says which responses are used for a corruption, and how many.

        Args:
            corruption: Name of a corruption.
            metric: "accuracy" or "consistency", to count only the responses that count for it.
        """
        experiment = self.match(corruption)
        if experiment is None:
            return "no human reference"
        how = "shown to humans directly"
        if self.kind(corruption) == "transferred":
            similar_class = self.similar.find(corruption)
            assert similar_class is not None
            how = f"transferred within the {similar_class.name} class ({similar_class.evidence})"
        chance = f", corrected for chance ({self.choices} choices)" if self.corrected else ""
        return (
            f"{title(experiment)} of {self.name} ({self.size_in_words(experiment, metric)}),"
            f" {how}{chance}"
        )

    def for_choices(self, choices: int, chance_correct: bool = False) -> "Reference":
        """Return a reference that can be compared with a model that has this number of choices.

        If participants had a different number of choices, the reference is corrected for chance,
        provided `chance_correct` is True; the model's curve must then be corrected as well
        (`corrected_curve`).

        Raises:
            UsageError: If the number of choices differs and `chance_correct` is False.
        """
        if choices == self.choices:
            return self
        if not chance_correct:
            raise UsageError(
                f"Humans had {self.choices} choices in {self.name}, not {choices}: request a "
                "correction for chance (match_choices), or use another reference."
            )
        # The cache contains curves without correction.
        return replace(self, corrected=True, _fitted={})

    def count(self, experiment: str, metric: str | None = None) -> int:
        """Return the number of responses in an experiment, or of those that count for a property.

        A response counts for accuracy or consistency, and is part of its curve, if it is known
        whether it is a hit, and at which Δv.
        """
        if metric is not None:
            return int(self.rows_behind(experiment, metric).trials.sum())
        # Needed for every corruption and model, again and again.
        if experiment not in self._counted:
            rows = self.responses.only(self.responses.corruption == experiment)
            # Tables of counts have the accuracy and the consistency of the same responses in
            # separate rows; adding both would count every response twice.
            known = (~np.isnan(rows.correct), ~np.isnan(rows.consistent))
            self._counted[experiment] = max(int(rows.trials[hits].sum()) for hits in known)
        return self._counted[experiment]

    @cached_property
    def _counted(self) -> dict[str, int]:
        return {}

    def n_participants(self, experiment: str, metric: str | None = None) -> int:
        """Return the number of participants in an experiment, or 0 if it is unknown.

        With a property, only participants whose responses count for it.
        """
        rows = self._rows(experiment) if metric is None else self.rows_behind(experiment, metric)
        return len(set(rows.subject.tolist()) - {""})

    def rows_behind(self, experiment: str, metric: str) -> HumanResponses:
        """Return the responses to which the curve of a property is fitted."""
        key = (experiment, metric)
        if key not in self._behind:
            rows = self._rows(experiment)
            known = ~np.isnan(_hits(rows, metric)) & ~np.isnan(rows.delta_v)
            self._behind[key] = rows.only(known)
        return self._behind[key]

    @cached_property
    def _behind(self) -> dict[tuple[str, str], HumanResponses]:
        return {}

    def size_in_words(self, experiment: str, metric: str | None = None) -> str:
        """Return the numbers of participants and responses as text.

        With a property, only of those that count for it; otherwise, the number of responses that
        count for each property is added where it is not all of them.
        """
        total, n = self.count(experiment), self.n_participants(experiment, metric)
        size = count_of(total, "response")
        if metric is not None and self.count(experiment, metric) < total:
            size = f"{metric} known for {self.count(experiment, metric):,} of {size}"
        elif metric is None and experiment in self.experiments:
            known = [(name, self.count(experiment, name)) for name in METRICS]
            size += "".join(f", {name} known for {n:,}" for name, n in known if 0 < n < total)
        if self.responses.simulated:
            return f"{n:,} simulated participants (robots), {size}"
        return f"{count_of(n, 'human')}, {size}" if n else size

    def points(self, experiment: str, metric: str = "accuracy") -> list[Point]:
        """Return an experiment's rates per condition, or per bin if it has no conditions."""
        responses = self.rows_behind(experiment, metric)
        hits = _hits(responses, metric)
        by_name = responses.condition
        if not (by_name != "").all():
            # Without named conditions, points are the bins of VCR's Algorithm 1.
            by_name = bin_index(responses.delta_v, bin_edges("paper", 40)).astype(np.str_)
        points = []
        for name in np.unique(by_name):
            rows = by_name == name
            change = np.repeat(responses.delta_v[rows], responses.trials[rows])
            # A condition has a distribution of Δv values; the percentiles are drawn as its
            # horizontal extent.
            low, middle, high = np.percentile(change, [5, 50, 95])
            total = float((hits[rows] * responses.trials[rows]).sum())
            points.append(Point((low, middle, high), int(responses.trials[rows].sum()), total))
        return sorted(points, key=lambda point: point.delta_v[1])

    def left_end(self, experiment: str, metric: str = "accuracy") -> tuple[float, bool] | None:
        """Return the hit rate on clean images, and whether the experiment itself showed these.

        Return None if participants saw no clean images.
        """
        clean = self._clean(self._rows(experiment), metric)
        if not len(clean):
            return None
        # Rows of counts represent several responses each.
        rate = float(np.average(_hits(clean, metric), weights=clean.trials))
        is_own = bool((clean.corruption == experiment).all())
        return rate, is_own or _same_images(self._rows(experiment), clean)

    def _rows(self, experiment: str) -> HumanResponses:
        return self.judged.only(self.judged.corruption == experiment)

    @cached_property
    def judged(self) -> HumanResponses:
        """The responses, with consistency determined by this reference's rule."""
        return replace(self.responses, consistent=consistency(self.responses, self.clean_rule))

    def _clean(self, responses: HumanResponses, metric: str) -> HumanResponses:
        """Return the responses to clean images, from the experiment or else from a separate test.

        If the separate test used the experiment's images, the responses from both are returned: the
        study then collected clean responses deliberately, and few images in the experiment itself
        are clean. Without a separate test, accuracy on clean images also comes from the clean
        responses that the rows themselves contain.
        """
        # Clean images may be a condition of the experiment or a separate set.
        within = responses.only(is_clean(responses) & ~np.isnan(_hits(responses, metric)))
        # In merged files, clean images from other studies do not count.
        apart = (self.judged.corruption == CLEAN) & np.isin(self.judged.study, responses.study)
        beside = self.judged.only(apart & ~np.isnan(_hits(self.judged, metric)))
        if not len(beside) and metric == "accuracy":
            # Tables such as VCR's repeat the response to the clean image in each row.
            return join_responses([within, own_clean_responses(responses)])
        if len(within) and len(beside) and _same_images(responses, beside):
            return join_responses([within, beside])
        return within if len(within) else beside

    def _fit(self, experiment: str, metric: str, fit: FitOptions) -> Curve | None:
        responses = self._rows(experiment)
        hits = _hits(responses, metric)
        known = ~np.isnan(hits)
        responses, hits = responses.only(known), hits[known]
        if not len(responses):
            return None
        clean = self._clean(responses, metric)
        clean_hits = _hits(clean, metric)
        try:
            return fit_responses((responses, hits), (clean, clean_hits), fit, self.corrected)
        except UsageError as error:
            raise UsageError(f"{self.name}, {experiment}: {error}") from None


def find_reference(name_or_path: str, clean_rule: str | None = None) -> Reference:
    """Return a human reference, given its name ("geirhos"), a Parquet file or a study folder.

    Args:
        name_or_path: Name, file or folder.
        clean_rule: Which response to the clean image determines consistency: "given", "majority"
            or "random"; by default "given" if consistency is known, and "majority" otherwise.
    """
    if clean_rule is not None:
        check_rule(clean_rule)
    if name_or_path in PACKAGED:
        return _geirhos()
    path = Path(name_or_path)
    if not path.exists() and not path.suffix:
        raise unknown_name("reference", str(name_or_path), PACKAGED)
    # A study is specified by its folder, imported data by their file.
    file = _exported(path) if path.is_dir() else path
    responses = read_responses(file)
    name = path.stem if file == path else study_name(path)
    if clean_rule is None:
        clean_rule = "majority" if np.isnan(responses.consistent).all() else "given"
    return Reference(name, responses, clean_rule)


def study_name(folder: Path) -> str:
    """Return a study's name, given the study's folder or the folder of its export."""
    resolved = resolved_path(folder)
    return resolved.parent.name if resolved.name == EXPORT else resolved.name


def _exported(folder: Path) -> Path:
    """Return the response file in the folder of a study or an export."""
    for file in (folder / RESPONSES, folder / EXPORT / RESPONSES):
        if file.is_file():
            return file
    if judgements_file(folder) is not None:
        raise UsageError(
            f"{folder} contains same/different judgements, to which no curves can be fitted: "
            "use eyechart humans similar."
        )
    raise UsageError(
        f"{folder} has no exported responses: run eyechart experiment export {folder} first."
    )


def title(experiment: str) -> str:
    """Return an experiment's name for use in sentences."""
    return EXPERIMENTS[experiment].title if experiment in EXPERIMENTS else experiment


@cache
def _geirhos() -> Reference:
    # One object for all callers, because fitted curves are kept in it.
    return Reference("geirhos", geirhos_responses())


def _same_images(responses: HumanResponses, clean: HumanResponses) -> bool:
    """Return whether any image occurs in both sets of responses; unknown images are ignored."""
    return bool(np.isin(clean.image, responses.image[responses.image != ""]).any())


def _hits(responses: HumanResponses, metric: str) -> FloatArray:
    return responses.correct if metric == "accuracy" else responses.consistent
