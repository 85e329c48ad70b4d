"""Scores as the `model-index` of Hugging Face's model cards: what other tools read.

The format: https://github.com/huggingface/hub-docs/blob/main/modelcard.md
"""

from collections.abc import Iterator, Mapping
from pathlib import PurePath
from typing import Any

from eyechart.reports.series.report import Part, Report, Shown
from eyechart.reports.terminal.leaderboard import PERCENT, TITLES
from eyechart.reports.terminal.markdown import one_line
from eyechart.reports.words import space_title, suite_title
from eyechart.results.runs import Run
from eyechart.results.schema import Estimate, SpaceResults

METRICS = (
    "clean_accuracy", "r_a", "r_p", "hmri_a", "mrsi_a", "hmri_p", "mrsi_p", "error", "mce",
    "relative_mce",
)  # fmt: skip
"""The overall scores, in the order of a card."""

OF_ERRORS = ("error", "mce", "relative_mce")


def model_index(report: Report) -> list[dict[str, Any]]:
    """Return the block: an entry for each model, with a result for each test and label space."""
    return [
        {
            "name": one_line(shown.short),
            "results": [
                _result(report.runs[own.run], part, space, own, scores)
                for part in report.parts
                for own in part.models
                if own.name == shown.name
                for space, scores in _scored(own)
            ],
        }
        for shown in report.models
    ]


def overall(space: SpaceResults) -> dict[str, Estimate]:
    """Return the scores over a whole test that exist, by their names in `METRICS`."""
    errors = space.corruption_error
    found: Mapping[str, Estimate | None] = {
        **space.means,
        "clean_accuracy": space.clean_accuracy,
        "mce": errors.mce if errors else None,
        "relative_mce": errors.relative_mce if errors else None,
    }
    there = {name: own for name, own in found.items() if own is not None and own.value is not None}
    return {name: there[name] for name in METRICS if name in there}


def averaged(run: Run, space: SpaceResults, name: str) -> tuple[str, ...]:
    """Return the corruptions that an overall score is the mean over; none of clean accuracy."""
    if name == "clean_accuracy":
        return ()
    counted = run.config["means_over"]
    if name in OF_ERRORS:
        return tuple(counted)
    kind, _, letter = name.partition("_")
    found = []
    for corruption in counted:
        own = space.corruptions[corruption].properties.get(letter)
        if own is not None and (own.robustness if kind == "r" else own.people) is not None:
            found.append(corruption)
    return tuple(found)


def _scored(shown: Shown) -> Iterator[tuple[str, SpaceResults]]:
    for name, space in shown.model.spaces.items():
        if overall(space):
            yield name, space


def _result(run: Run, part: Part, name: str, shown: Shown, space: SpaceResults) -> dict[str, Any]:
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
                "seed": config.get("seed"),
                "stimulus": images.stimulus,
                "corruptions": list(map(one_line, part.corruptions)),
                "trained_on": list(map(one_line, shown.model.marked)),
            },
        },
        "metrics": [_metric(run, space, own, number) for own, number in overall(space).items()],
    }


def _metric(run: Run, space: SpaceResults, name: str, number: Estimate) -> dict[str, Any]:
    about: dict[str, Any] = {"interval95": list(number.interval95)}
    if name != "clean_accuracy":
        about["mean_over"] = len(averaged(run, space, name))
    if name in PERCENT:
        about["baseline"] = one_line(run.baseline)
    if space.verdict:
        about["note"] = space.verdict
    return {
        "type": name,
        "value": number.value,
        "name": TITLES[name] + (" as a share, 1 is the baseline" if name in PERCENT else ""),
        "args": about,
    }
