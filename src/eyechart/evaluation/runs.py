"""Finished runs read back, and runs of one test put together into a board of models."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from eyechart.core.errors import UsageError
from eyechart.evaluation.scores_file import CLEAN_ACCURACY, SCORES_FILE, WHOLE, Key, read_scores
from eyechart.scores.estimate import Estimate, mean_estimate
from eyechart.scores.evaluation import SCHEMA_VERSION

RESULTS_FILE = "results.json"
OF_WHOLE = (CLEAN_ACCURACY, "mce", "relative_mce")
"""Scores that a run has once, not for every corruption."""


@dataclass(frozen=True, eq=False)
class Run:
    """What one `eyechart evaluate` found: what was asked for, and every score.

    `baseline`: by whose errors those of the models were divided, "" if by nobody's.
    """

    folder: Path
    config: Mapping[str, Any]
    coverage: Mapping[str, Mapping[str, Any]]
    pictures: int
    baseline: str
    models: tuple[str, ...]
    scores: Mapping[Key, Estimate]
    verdicts: Mapping[str, str]

    @property
    def test(self) -> dict[str, Any]:
        """All of the settings that two runs must share for their models to be compared."""
        return {name: own for name, own in self.config.items() if name != "models"}


def read_run(folder: Path) -> Run:
    """Return the finished run in a folder."""
    results, scores = folder / RESULTS_FILE, folder / SCORES_FILE
    if not results.is_file():
        raise UsageError(
            f"{folder} holds no finished run (there is no {RESULTS_FILE}): give the --out of an"
            " eyechart evaluate that came to its end."
        )
    try:
        found = json.loads(results.read_text(encoding="utf-8"))
        schema = found["schema"]
    except (OSError, ValueError, KeyError, TypeError):
        raise UsageError(f"{results} cannot be read: run the evaluation again.") from None
    if schema != SCHEMA_VERSION or not scores.is_file():
        raise UsageError(
            f"{folder} was written by another version of eyechart: run the same evaluation again,"
            " its predictions are kept."
        )
    spaces = {name: own for model in found["models"] for name, own in model["spaces"].items()}
    return Run(
        folder,
        found["config"],
        found["coverage"],
        max((own["pictures"] for own in spaces.values()), default=0),
        found["config"].get("baseline") or "",
        tuple(model["name"] for model in found["models"]),
        read_scores(scores),
        {name: own["verdict"] for name, own in spaces.items()},
    )


@dataclass(frozen=True, eq=False)
class Board:
    """Models that answered one and the same test, from one run or several."""

    runs: tuple[Run, ...]

    @property
    def suite(self) -> str:
        """The suite of the test."""
        return str(self.runs[0].config["suite"])

    @property
    def models(self) -> tuple[str, ...]:
        """All models, in the order of the runs."""
        return tuple(name for run in self.runs for name in run.models)

    @property
    def corruptions(self) -> tuple[str, ...]:
        """The corruptions of the test."""
        return tuple(self.runs[0].config["corruptions"])

    @property
    def baseline(self) -> str:
        """By whose errors those of the models were divided."""
        return self.runs[0].baseline

    @property
    def pictures(self) -> int:
        """How many pictures were shown."""
        return self.runs[0].pictures

    @cached_property
    def scores(self) -> dict[Key, Estimate]:
        """Every score of every model."""
        return {key: own for run in self.runs for key, own in run.scores.items()}

    @property
    def spaces(self) -> tuple[str, ...]:
        """The label spaces in which all models were scored."""
        there = [{key[1] for key in run.scores} for run in self.runs]
        return tuple(name for name in ("native", "entry16") if all(name in own for own in there))

    def each(self, space: str, score: str) -> dict[str, dict[str, Estimate]]:
        """Return a score of every model by corruption, of those corruptions that all have it in."""
        found = {
            corruption: {
                model: own
                for model in self.models
                if (own := self.scores.get((model, space, corruption, score))) is not None
            }
            for corruption in (WHOLE, *self.corruptions)
        }
        return {name: own for name, own in found.items() if len(own) == len(self.models)}

    def overall(self, space: str, score: str) -> dict[str, Estimate]:
        """Return a score of every model over the whole test: clean accuracy, mCE, or a mean.

        Empty where a corruption lacks it, but for scores next to people, whom not all have.
        """
        found = self.each(space, score)
        if score in OF_WHOLE:
            return found.get(WHOLE, {})
        is_whole = score.startswith(("hmri", "mrsi")) or len(found) == len(self.corruptions)
        if not found or not is_whole:
            return {}
        return {
            model: mean_estimate([own[model] for own in found.values()], self.pictures)
            for model in self.models
        }


def make_boards(runs: Sequence[Run]) -> list[Board]:
    """Return the runs by the test they are of; models of one test must not be there twice.

    Runs of one suite on other pictures or with other settings cannot be compared and are refused.
    """
    groups: dict[str, list[Run]] = {}
    for run in runs:
        groups.setdefault(str(run.config["suite"]), []).append(run)
    for own in groups.values():
        for other in own[1:]:
            _check_same_test(own[0], other)
        names = [name for run in own for name in run.models]
        for name in names:
            if names.count(name) > 1:
                raise UsageError(
                    f"The model {name} is in two of the runs of {own[0].config['suite']}: leave one"
                    " of them out."
                )
    return [Board(tuple(own)) for own in groups.values()]


def _check_same_test(first: Run, second: Run) -> None:
    if first.baseline != second.baseline:
        one, two = (run.baseline or "no baseline" for run in (first, second))
        raise UsageError(
            f"Errors divided by different baselines cannot be compared: {first.folder} has {one},"
            f" {second.folder} has {two}; evaluate both with the same --baseline."
        )
    for name, own in first.test.items():
        if second.test.get(name) != own:
            raise UsageError(
                f"{first.folder} and {second.folder} are runs of different tests ({name} differs):"
                " only models that saw the same pictures can be compared."
            )
