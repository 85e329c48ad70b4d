"""Store results with a logger: what is logged about a run, and what happens on an error.

The loggers only store a `LogRecord`, so that all of them use the same names.
"""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from tempfile import TemporaryDirectory

from eyechart.core.arguments import resolved_path
from eyechart.core.errors import UsageError
from eyechart.images.labels.spaces import NATIVE
from eyechart.integrations.loggers.registry import LOGGERS
from eyechart.models.model import in_one_line
from eyechart.reports.figures.curve_plot import draw_curves
from eyechart.reports.titles import plain_name, short_names
from eyechart.results.model_results import SpaceResults
from eyechart.results.results_file import to_json
from eyechart.results.schema import RESULTS_FILE, Results
from eyechart.stats.estimate import Estimate

Setting = str | int | float | bool


@dataclass(frozen=True, kw_only=True)
class LogRecord:
    """A run as it is logged.

    Attributes:
        name: Name of the run: the name of its folder, or its suite.
        settings: Settings, images, versions and date, by dotted name.
        metrics: Scores and interval ends by name; see `metrics_of`.
        figures: PNG files with the curves.
        files: results.json, and the report if there is one.
        folder: The run folder; None if the run was not stored.
    """

    name: str
    settings: Mapping[str, Setting]
    metrics: Mapping[str, float]
    figures: Sequence[Path]
    files: Sequence[Path]
    folder: Path | None


def log_results(results: Results, name: str, report: Path | None = None) -> str:
    """Store results with a logger; return a sentence that says where they are.

    Args:
        results: The results.
        name: The logger.
        report: The report to store; by default report.html in the run folder, if it exists.

    Raises:
        UsageError: If the logger is unknown, its package is missing, or it fails.
    """
    logger = LOGGERS[name]
    logger.check()
    with TemporaryDirectory() as scratch:
        try:
            return logger.log(log_record(results, Path(scratch), report))
        # Any error of these packages: a server that does not respond, a full disk, a lost login.
        except Exception as error:
            later = f'the results are unchanged; call results.log("{name}") again'
            if results.folder is not None:
                folder = shlex.quote(str(results.folder))
                later = (
                    f"the results are in {folder}; log them with"
                    f"  eyechart report {folder} --log {name}"
                )
            raise UsageError(
                f"Logging to {name} failed ({in_one_line(error)}): {later}."
            ) from error


def log_record(results: Results, scratch: Path, report: Path | None = None) -> LogRecord:
    """Return the record that is logged for these results.

    Args:
        results: The results.
        scratch: A folder for figures and files, which must exist until the record is stored.
        report: The report; by default report.html in the run folder, if it exists.
    """
    stored = scratch / RESULTS_FILE
    stored.write_text(to_json(results), encoding="utf-8")
    if report is None and results.folder is not None:
        # Where `eyechart report` writes it.
        report = results.folder / "report.html"
    return LogRecord(
        # resolved, because the name of "." is empty
        name=(resolved_path(results.folder).name if results.folder else "") or results.config.suite,
        settings=settings_of(results),
        metrics=metrics_of(results),
        figures=draw_curves(results, scratch),
        files=[stored, *([report] if report is not None and report.is_file() else [])],
        folder=results.folder,
    )


def metrics_of(results: Results) -> dict[str, float]:
    """Return each known score as `MODEL/CORRUPTION/SCORE`, and each mean as `MODEL/SCORE`.

    Both ends of the 95 % interval have the suffixes `_low` and `_high`. Scores in label spaces
    other than the dataset's classes have the label space after the model: `MODEL/entry16/SCORE`.
    """
    names = _distinct(short_names([model.name for model in results.models]))
    return {
        name: number
        for model, prefix in zip(results.models, names, strict=True)
        for space, scores in model.spaces.items()
        for name, number in _in_space(prefix if space == NATIVE else f"{prefix}/{space}", scores)
    }


def _in_space(prefix: str, space: SpaceResults) -> Iterator[tuple[str, float]]:
    for score, estimate in space.scores.items():
        yield from _numbers(f"{prefix}/{score}", estimate)
    bare = [name.rpartition("/")[2] for name in space.corruptions]
    # Two suites may have corruptions of the same name.
    short = bare if len(set(bare)) == len(bare) else list(space.corruptions)
    for corruption, name in zip(space.corruptions, _distinct(short), strict=True):
        for score, estimate in space[corruption].scores.items():
            yield from _numbers(f"{prefix}/{name}/{score}", estimate)


def _numbers(name: str, estimate: Estimate) -> Iterator[tuple[str, float]]:
    """Yield the score and both ends of its interval; undetermined ones are left out."""
    low, high = estimate.interval95
    for suffix, number in (("", estimate.value), ("_low", low), ("_high", high)):
        if isfinite(number):
            yield f"{name}{suffix}", number


def settings_of(results: Results) -> dict[str, Setting]:
    """Return the settings of a run, its images, versions, device, command and date."""
    info, images = results.run, results.images
    written = results.config.written()
    models = written.pop("models")
    parts = {
        **written,
        "models": tuple(models),
        "weights": dict(zip(_distinct(short_names(list(models))), models.values(), strict=True)),
        # the digest, which the settings call "images"
        "images": {
            "source": images.source,
            "digest": images.digest,
            "n_images": images.n_images,
            "used": images.used,
        },
        "versions": info.versions,
        "git": info.git,
        "device": info.device,
        "command": info.command,
        "date": info.made,
    }
    return dict(_flat(parts))


def _flat(values: Mapping[str, object], prefix: str = "") -> Iterator[tuple[str, Setting]]:
    """Yield settings with dotted names; lists become text, and missing values are left out."""
    for key, value in values.items():
        name = f"{prefix}{plain_name(key)}"
        if isinstance(value, Mapping):
            yield from _flat(value, f"{name}.")
        elif isinstance(value, (list, tuple)):
            yield name, ", ".join(map(str, value))
        elif isinstance(value, (bool, int, float)):
            yield name, value
        elif value is not None and value != "":
            yield name, str(value)


def _distinct(names: Sequence[str]) -> list[str]:
    """Return names that every logger accepts, with numbers appended to duplicates.

    Example:
        >>> _distinct(["timm:resnet50", "timm/resnet50", "mine"])
        ['timm_resnet50', 'timm_resnet50_2', 'mine']
    """
    distinct: list[str] = []
    for name in map(plain_name, names):
        number, unused = 2, name
        while unused in distinct:
            number, unused = number + 1, f"{name}_{number}"
        distinct.append(unused)
    return distinct
