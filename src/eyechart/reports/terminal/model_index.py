"""Scores as the `model-index` of Hugging Face's model cards, which other tools read.

Format: https://github.com/huggingface/hub-docs/blob/main/modelcard.md
"""

from pathlib import PurePath

from eyechart.reports.number_text import known
from eyechart.reports.series.overall_scores import averaged, overall_scores
from eyechart.reports.series.report import ModelEntry, Part, Report
from eyechart.reports.terminal.markdown import one_line
from eyechart.reports.words import space_title, suite_title
from eyechart.results.model_results import SpaceResults
from eyechart.results.runs import Run
from eyechart.scores.registry import SCORES
from eyechart.stats.estimate import Estimate

Block = dict[str, object]
"""Part of the `model-index` block, as written to YAML."""


def model_index(report: Report) -> list[Block]:
    """Return the `model-index`: an entry for each model, with a result per test and label space."""
    return [
        {
            "name": one_line(model.short),
            "results": [
                _result(report.runs[tested.run], part, space, tested, scores)
                for part in report.parts
                for tested in part.models
                if tested.name == model.name
                for space, scores in tested.results.spaces.items()
                if overall_scores(scores)
            ],
        }
        for model in report.models
    ]


def _result(run: Run, part: Part, name: str, model: ModelEntry, space: SpaceResults) -> Block:
    images, config = run.results.images, run.config
    # A card is shared, and paths on this machine are meaningless elsewhere.
    source = PurePath(images.source).name or "images"
    return {
        "task": {"type": "image-classification", "name": "Image classification"},
        "dataset": {
            "name": one_line(f"{suite_title(part.suite)} on {source}, {space_title(name)}"),
            "type": one_line(part.suite),
            "config": name,
            "split": "test",
            "revision": images.digest,
            "args": {
                "n_images": space.n_images,
                "n": run.shown,
                "seed": config.seed,
                "stimulus": images.stimulus,
                "corruptions": list(map(one_line, part.corruptions)),
                "trained_on": list(map(one_line, model.results.marked)),
            },
        },
        "metrics": [
            _metric(run, space, metric, number) for metric, number in overall_scores(space).items()
        ],
    }


def _metric(run: Run, space: SpaceResults, name: str, number: Estimate) -> Block:
    details: Block = {"interval95": [known(end) for end in number.interval95]}
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
        "name": score.title + (" as a ratio (1 is the baseline)" if score.is_percent else ""),
        "args": details,
    }
