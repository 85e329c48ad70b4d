"""Read finished runs, and combine runs of the same test into a leaderboard."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, pairwise
from pathlib import Path, PurePath

from eyechart.core.errors import UsageError
from eyechart.images.labels.spaces import SCORED_SPACES
from eyechart.results.model_results import ModelResults
from eyechart.results.results_file import read_results
from eyechart.results.run_config import RunConfig, check_same_ruler
from eyechart.results.schema import Results
from eyechart.results.scores_file import SCORES_FILE, WHOLE, Key, read_scores, scores_of
from eyechart.scores.registry import HUMANS, SCORES
from eyechart.stats.estimate import Estimate, mean_estimate
from eyechart.testsets.coverage import CorruptionCoverage, fewest_in_covered


@dataclass(frozen=True, eq=False)
class Run:
    """A finished run of `eyechart evaluate`: its results, and all scores with their replicates."""

    folder: Path
    results: Results
    scores: Mapping[Key, Estimate]

    @property
    def config(self) -> RunConfig:
        """Settings of the run."""
        return self.results.config

    @property
    def coverage(self) -> Mapping[str, CorruptionCoverage]:
        """Coverage of visual change by corruption."""
        return self.results.coverage

    @property
    def fewest_in_covered(self) -> int:
        """Minimum number of samples in a covered bin of visual change."""
        return fewest_in_covered(self.config.fit.min_per_bin)

    @cached_property
    def names(self) -> frozenset[str]:
        """Names of the images, without extension."""
        digests = self.results.images.digests
        # Extensions may differ between copies of a dataset.
        return frozenset(PurePath(name).with_suffix("").as_posix() for name in digests)

    @property
    def models(self) -> tuple[str, ...]:
        """Names of the models."""
        return tuple(model.name for model in self.results.models)

    @property
    def baseline(self) -> str:
        """Baseline used for CE; "" for none."""
        return self.config.baseline

    @property
    def test(self) -> dict[str, object]:
        """Settings that two runs must share for their models to be comparable."""
        return {name: value for name, value in vars(self.config).items() if name != "models"}

    @property
    def shown(self) -> int:
        """Maximum number of samples per corruption.

        All published severities are used, regardless of the requested number of samples.
        """
        predictions = (
            record.n_samples
            for space in self.results.models[0].spaces.values()
            for score in space.corruptions.values()
            for record in score.properties.values()
        )
        return max(
            # Coverage counts samples; runs without Δv have none and fall back on the scores.
            (coverage.rows for coverage in self.coverage.values()),
            default=max(predictions, default=0),
        )

    def n_images(self, space: str) -> int:
        """Return the number of images scored in a label space."""
        return max((model.spaces[space].n_images for model in self._in(space)), default=0)

    def verdict(self, space: str) -> str:
        """Return a note on insufficient data in a label space; "" if the data suffice."""
        verdicts = (model.spaces[space].verdict for model in self._in(space))
        return next(filter(None, verdicts), "")

    def _in(self, space: str) -> list[ModelResults]:
        return [model for model in self.results.models if space in model.spaces]

    def identity(self, model: str) -> str:
        """Return an identifier of a model's weights and precision, "" if unknown."""
        # A model without a digest of its weights is stored with its precision alone, without a
        # space.
        weights, _, precision = self.config.models.get(model, "").rpartition(" ")
        # The same weights in a different precision count as a different model: predictions differ.
        return f"{weights} {precision}" if weights else ""


def read_run(folder: Path) -> Run:
    """Return the finished run in a folder."""
    results, scores = read_results(folder), folder / SCORES_FILE
    _check_complete(results, str(folder))
    if not scores.is_file():
        raise UsageError(
            f"{folder} has no {SCORES_FILE}: run the same evaluation again; its predictions were "
            "kept."
        )
    return Run(folder, results, read_scores(scores))


def run_of(results: Results, name: str = "") -> Run:
    """Return results in memory as a run, which has no examples if the results have no folder.

    `name`: the name of a run without a folder, for messages.
    """
    _check_complete(results, "Results")
    scores = dict(scores_of(results))
    # Paired tests between models need the replicates.
    if not all(len(estimate.replicates) for estimate in scores.values()):
        raise UsageError(f"Results lack bootstrap replicates: load a folder with {SCORES_FILE}.")
    if results.folder is None:
        return Run(Path(name), results.model_copy(update={"examples": ()}), scores)
    return Run(results.folder, results, scores)


def _check_complete(results: Results, name: str) -> None:
    """Raise a UsageError for results without any score."""
    if not results.models:
        raise UsageError(f"{name} has a run without any model: evaluate again.")
    spaces = [space for model in results.models for space in model.spaces.values()]
    if not all(space.corruptions for space in spaces) or not all(m.spaces for m in results.models):
        raise UsageError(f"{name} has a run without any score: run the evaluation again.")


@dataclass(frozen=True, eq=False)
class Leaderboard:
    """Models evaluated on the same test, from one or several runs."""

    runs: tuple[Run, ...]

    @property
    def suite(self) -> str:
        """Suite of the test."""
        return self.runs[0].config.suite

    @property
    def models(self) -> tuple[str, ...]:
        """All models in the order of the runs, without duplicates."""
        return tuple(dict.fromkeys(name for run in self.runs for name in run.models))

    @property
    def corruptions(self) -> tuple[str, ...]:
        """Corruptions of the test."""
        return self.runs[0].config.corruptions

    @property
    def baseline(self) -> str:
        """Baseline used for CE."""
        return self.runs[0].baseline

    @property
    def averaged_corruptions(self) -> tuple[str, ...]:
        """Corruptions over which means are taken, as recorded in the settings of the runs."""
        return self.runs[0].config.means_over

    def marked(self, model: str) -> tuple[str, ...]:
        """Return the corruptions that a model was trained on and that are included in means."""
        records = (record for run in self.runs if (record := run.results.model(model)) is not None)
        return tuple(name for name in next(records).marked if name in self.averaged_corruptions)

    def n_images(self, space: str) -> int:
        """Return the number of images scored in a label space."""
        return self.runs[0].n_images(space)

    def verdict(self, space: str) -> str:
        """Return a note on insufficient data in a label space; "" if the data suffice."""
        return next(filter(None, (run.verdict(space) for run in self.runs)), "")

    @cached_property
    def scores(self) -> dict[Key, Estimate]:
        """Every score of every model."""
        return {key: estimate for run in self.runs for key, estimate in run.scores.items()}

    @property
    def spaces(self) -> tuple[str, ...]:
        """Label spaces in which all models were scored."""
        spaces = [{key[1] for key in run.scores} for run in self.runs]
        return tuple(name for name in SCORED_SPACES if all(name in names for names in spaces))

    def each(self, space: str, score: str) -> dict[str, dict[str, Estimate]]:
        """Return a score of every model by corruption, for corruptions where all models have it."""
        by_corruption = {
            corruption: {
                model: estimate
                for model in self.models
                if (estimate := self.scores.get((model, space, corruption, score))) is not None
            }
            for corruption in (WHOLE, *self.corruptions)
        }
        return {
            name: estimates
            for name, estimates in by_corruption.items()
            if len(estimates) == len(self.models)
        }

    def overall(self, space: str, score: str) -> dict[str, Estimate]:
        """Return a score of every model over the whole test: clean accuracy, mCE, or a mean.

        The mapping is empty if the score is missing for a corruption. Human-relative scores are an
        exception, because not all corruptions have human data.
        """
        # Only corruptions for which every model has the score, so that all means cover the same
        # ones.
        by_corruption = self.each(space, score)
        declared = SCORES[score]
        if declared.of_test:
            return by_corruption.get(WHOLE, {})
        by_corruption = {
            name: estimates
            for name, estimates in by_corruption.items()
            if name in self.averaged_corruptions
        }
        # A mean over fewer corruptions than the suite has would not be comparable.
        is_whole = HUMANS in declared.needs or len(by_corruption) == len(self.averaged_corruptions)
        if not by_corruption or not is_whole:
            return {}
        return {
            model: mean_estimate(
                [estimates[model] for estimates in by_corruption.values()], self.n_images(space)
            )
            for model in self.models
        }


def make_leaderboards(runs: Sequence[Run]) -> list[Leaderboard]:
    """Return the runs grouped by test.

    Raises:
        UsageError: If runs of one suite differ in images or settings, two different models have the
            same name, or visual change was measured by different rulers.
    """
    # Comparing neighbors is enough: equality is transitive.
    for first, second in pairwise(runs):
        check_same_ruler((first.folder, first.config), (second.folder, second.config))
    groups: dict[str, list[Run]] = {}
    for run in runs:
        # One board per suite: scores of different suites are not comparable.
        groups.setdefault(run.config.suite, []).append(run)
    for group in groups.values():
        for one, two in combinations(group, 2):
            _check_same_test(one, two)
    return [Leaderboard(tuple(group)) for group in groups.values()]


def _check_same_test(first: Run, second: Run) -> None:
    if first.baseline != second.baseline:
        one, two = (run.baseline or "no baseline" for run in (first, second))
        raise UsageError(
            f"Errors divided by different baselines cannot be compared: {first.folder} has {one},"
            f" {second.folder} has {two}; evaluate both with the same --baseline."
        )
    for name in set(first.models) & set(second.models):
        # The same name may belong to two checkpoints; their scores must not be merged.
        if first.identity(name) != second.identity(name) or not first.identity(name):
            raise UsageError(
                f"Two models are named {name}, in {first.folder} and in {second.folder}, and may "
                "differ: omit one of them."
            )
    for name in first.test | second.test:
        if second.test.get(name) == first.test.get(name):
            continue
        if name == "fit":
            raise _other_curves(first, second)
        raise UsageError(
            f"{first.folder} and {second.folder} are runs of different tests ({name} differs):"
            " only models tested on the same images can be compared."
        )


def _other_curves(first: Run, second: Run) -> UsageError:
    one, two = (vars(run.config.fit) for run in (first, second))
    name = next(key for key in one | two if one.get(key) != two.get(key))
    return UsageError(
        f"Areas of curves that were fitted differently cannot be compared: {name} is"
        f" {one.get(name)} in {first.folder} and {two.get(name)} in {second.folder}; evaluate both"
        " with the same options."
    )
