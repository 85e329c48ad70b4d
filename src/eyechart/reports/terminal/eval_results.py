"""Scores as evaluation results of the Hugging Face Hub: `.eval_results/eyechart.yaml`.

Format: https://huggingface.co/docs/hub/eval-results. The `model-index` of a card is the older
format; both contain the same scores.
"""

import re
from collections.abc import Iterator
from pathlib import Path, PurePath

import yaml

from eyechart.core.errors import UsageError
from eyechart.core.phrases import plural
from eyechart.core.storage.files import write_text
from eyechart.reports.series.overall_scores import overall_scores
from eyechart.reports.series.report import ModelEntry, Part, Report
from eyechart.reports.terminal.markdown import one_line
from eyechart.reports.terminal.model_index import Block
from eyechart.reports.words import plain_name
from eyechart.results.runs import Run
from eyechart.scores.registry import SCORES
from eyechart.stats.estimate import Estimate

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
        _entry(report.runs[tested.run], part, (dataset, source), (space, name, number))
        for part in report.parts
        for tested in part.models
        if tested.name == model.name
        for space, scores in tested.results.spaces.items()
        for name, number in overall_scores(scores).items()
    ]


def _entry(
    run: Run, part: Part, target: tuple[str, str | None], score: tuple[str, str, Estimate]
) -> Block:
    (dataset, source), (space, name, number) = target, score
    entry: Block = {
        "dataset": {"id": dataset, "task_id": task_id(part.suite, space, name)},
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
