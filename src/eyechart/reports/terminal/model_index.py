"""Scores as the `model-index` of Hugging Face's model cards: what other tools read.

The format: https://github.com/huggingface/hub-docs/blob/main/modelcard.md
"""

from collections.abc import Iterator
from pathlib import PurePath
from typing import Any

from eyechart.reports.interval_text import known
from eyechart.reports.series.report import ModelEntry, Part, Report
from eyechart.reports.terminal.markdown import one_line
from eyechart.reports.words import space_title, suite_title
from eyechart.results.runs import Run
from eyechart.results.schema import SpaceResults
from eyechart.scores.registry import BASELINE, OVERALL, SCORES, find
from eyechart.stats.estimate import Estimate


def model_index(report: Report) -> list[dict[str, Any]]:
    """Return the block: an entry for each model, with a result for each test and label space."""
    return [
        {
            "name": one_line(model.short),
            "results": [
                _result(report.runs[tested.run], part, space, tested, scores)
                for part in report.parts
                for tested in part.models
                if tested.name == model.name
                for space, scores in _scored(tested)
            ],
        }
        for model in report.models
    ]


def overall(space: SpaceResults) -> dict[str, Estimate]:
    """Return the scores over a whole test that exist, by name, in the order of a card."""
    collected: dict[str, Estimate | None] = {
        score.name: find(space, score.overall_path) for score in OVERALL
    }
    return {
        name: number for name, number in collected.items() if number is not None and number.is_known
    }


def averaged(run: Run, space: SpaceResults, name: str) -> tuple[str, ...]:
    """Return the corruptions that an overall score is the mean over; none of clean accuracy."""
    counted, score = run.config.means_over, SCORES[name]
    if score.of_test:
        return counted if BASELINE in score.needs else ()
    return tuple(name for name in counted if find(space, score.path(name)) is not None)


def _scored(model: ModelEntry) -> Iterator[tuple[str, SpaceResults]]:
    for name, space in model.results.spaces.items():
        if overall(space):
            yield name, space


def _result(
    run: Run, part: Part, name: str, model: ModelEntry, space: SpaceResults
) -> dict[str, Any]:
    images, config = run.results.images, run.config
    # a card travels, and folders of this machine mean nothing elsewhere
    source = PurePath(images.source).name or "pictures"
    return {
        "task": {"type": "image-classification", "name": "Image classification"},
        "dataset": {
            "name": one_line(f"{suite_title(part.suite)} on {source}, {space_title(name)}"),
            "type": one_line(part.suite),
            "config": name,
            "split": "test",
            "revision": images.digest,
            "args": {
                "pictures": space.pictures,
                "n": run.shown,
                "seed": config.seed,
                "stimulus": images.stimulus,
                "corruptions": list(map(one_line, part.corruptions)),
                "trained_on": list(map(one_line, model.results.marked)),
            },
        },
        "metrics": [
            _metric(run, space, metric, number) for metric, number in overall(space).items()
        ],
    }


def _metric(run: Run, space: SpaceResults, name: str, number: Estimate) -> dict[str, Any]:
    details: dict[str, Any] = {"interval95": [known(end) for end in number.interval95]}
    score = SCORES[name]
    if over := averaged(run, space, name):
        details["mean_over"] = len(over)
    if score.is_percent:
        details["baseline"] = one_line(run.baseline)
    if space.verdict:
        details["note"] = space.verdict
    return {
        "type": name,
        "value": number.value,
        "name": score.title + (" as a share, 1 is the baseline" if score.is_percent else ""),
        "args": details,
    }
