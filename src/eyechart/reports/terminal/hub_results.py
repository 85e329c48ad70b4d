"""Scores in the formats of the Hugging Face Hub.

`model-index` of a card: https://github.com/huggingface/hub-docs/blob/main/modelcard.md;
`.eval_results/eyechart.yaml`: https://huggingface.co/docs/hub/eval-results. Both contain the same
scores.
"""

import re
from collections.abc import Iterator
from pathlib import Path, PurePath

import yaml

from eyechart.core.errors import UsageError
from eyechart.core.phrases import plural
from eyechart.core.storage.files import write_text
from eyechart.reports.number_text import known
from eyechart.reports.series.model_scores import averaged, overall_scores
from eyechart.reports.series.report import ModelEntry, Report, TestSection
from eyechart.reports.terminal.markdown import one_line
from eyechart.reports.titles import plain_name, space_title, suite_title
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
                _result(report.runs[tested.run], section, space, tested, scores)
                for section in report.sections
                for tested in section.models
                if tested.name == model.name
                for space, scores in tested.results.spaces.items()
                if overall_scores(scores)
            ],
        }
        for model in report.models
    ]


def _result(
    run: Run, section: TestSection, name: str, model: ModelEntry, space: SpaceResults
) -> Block:
    images, config = run.results.images, run.config
    # A card is shared, and paths on this machine are meaningless elsewhere.
    source = PurePath(images.source).name or "images"
    return {
        "task": {"type": "image-classification", "name": "Image classification"},
        "dataset": {
            "name": one_line(f"{suite_title(section.suite)} on {source}, {space_title(name)}"),
            "type": one_line(section.suite),
            "config": name,
            "split": "test",
            "revision": images.digest,
            "args": {
                "n_images": space.n_images,
                "n": run.shown,
                "seed": config.seed,
                "stimulus": images.stimulus,
                "corruptions": list(map(one_line, section.corruptions)),
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


FILE = ".eval_results/eyechart.yaml"
"""Path of the file in a model's repository on the Hub."""

DATASET = re.compile(r"[\w.-]+/[\w.-]+", re.ASCII)
"""Name of a dataset on the Hub: OWNER/NAME."""


def check_dataset(dataset: str, source: str | None = None) -> None:
    """Raise a UsageError if a dataset or the address of a source is invalid.

    Example:
        >>> check_dataset("our-team/imagenet-c", "https://example.org/report.html")
    """
    if not DATASET.fullmatch(dataset):
        raise UsageError(
            f"--hub-dataset must be OWNER/NAME, such as our-team/imagenet-c, got '{dataset}'."
        )
    if source is not None and not re.match(r"https?://\S+$", source):
        raise UsageError(f"--source-url must start with https:// or http://, got '{source}'.")


def write_eval_results(
    report: Report, folder: Path, dataset: str, source: str | None = None
) -> list[Path]:
    """Write the evaluation results of each model and return the paths.

    A file on the Hub belongs to one model, so each model gets its own folder if there are several.

    Args:
        report: The report.
        folder: Folder for `.eval_results`; several models each get a folder in it.
        dataset: The benchmark on the Hub to which the scores belong: OWNER/NAME.
        source: Address of the report or the logs, for readers.
    """
    check_dataset(dataset, source)
    paths = []
    for model in report.models:
        home = folder if len(report.models) == 1 else folder / plain_name(model.short)
        path = home / FILE
        entries = eval_results(report, model, dataset, source)
        text = yaml.safe_dump(entries, sort_keys=False, allow_unicode=True, width=100)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            paths.append(write_text(path, text))
        except OSError as error:
            raise UsageError(f"Cannot write {path}: {error.strerror or error}.") from None
    return paths


def eval_results(
    report: Report, model: ModelEntry, dataset: str, source: str | None = None
) -> list[Block]:
    """Return an entry for each overall score of a model, in each test and label space."""
    return [
        _entry(report.runs[tested.run], section, (dataset, source), (space, name, number))
        for section in report.sections
        for tested in section.models
        if tested.name == model.name
        for space, scores in tested.results.spaces.items()
        for name, number in overall_scores(scores).items()
    ]


def _entry(
    run: Run, section: TestSection, target: tuple[str, str | None], score: tuple[str, str, Estimate]
) -> Block:
    (dataset, source), (space, name, number) = target, score
    entry: Block = {
        "dataset": {"id": dataset, "task_id": task_id(section.suite, space, name)},
        "value": number.value,
    }
    # without the date of the run, the Hub shows that of the upload
    if run.results.run.made:
        entry["date"] = run.results.run.made
    if source is not None:
        entry["source"] = {"url": source, "name": "eyechart report"}
    entry["notes"] = "; ".join(_notes(run, space, name, number))
    return entry


def task_id(suite: str, space: str, score: str) -> str:
    """Return the name of a task, which the benchmark's eval.yaml must contain.

    Example:
        >>> task_id("imagenet-c", "native", "mce")
        'imagenet-c_native_mce'
    """
    # A custom suite is a YAML file, whose folder is meaningless elsewhere.
    return f"{plain_name(PurePath(suite).stem)}_{space}_{score}"


def _notes(run: Run, space: str, name: str, number: Estimate) -> Iterator[str]:
    yield SCORES[name].title
    if number.has_interval:
        low, high = number.interval95
        yield f"95 % confidence interval {low:.4f} to {high:.4f}"
    n_images = run.results.images.used
    yield f"{n_images} {plural(n_images, 'image')}, {run.shown} samples per corruption"
    yield f"seed {run.config.seed}"
    if SCORES[name].is_percent:
        yield one_line(f"a ratio to {run.baseline}")
    yield f"eyechart {run.config.eyechart}"
