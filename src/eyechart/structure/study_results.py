"""Folder of a study of structural robustness, and the records of its results.json.

The numbers are computed in `holdout_scores` and `superclass_scores`.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Literal, Self, TypeVar

from pydantic import Field, ValidationError

from eyechart.core.errors import UsageError
from eyechart.core.files import atomic_file
from eyechart.core.records import Record, first_problem
from eyechart.core.run_folder import Settings, open_run_folder
from eyechart.stats.estimate import Estimate
from eyechart.stats.intervals import Interval

MODELS, TESTS, RESULTS = "models", "tests", "results.json"
SCHEMA: Literal[2] = 2
SUPERCLASS: Literal["superclass"] = "superclass"


class AccuracyEstimate(Record):
    """An accuracy, or a difference of two, with its intervals."""

    value: float
    """Value as a ratio."""
    interval: Interval
    """95 % interval."""
    narrow_interval: Interval
    """83 % interval."""

    @classmethod
    def of(cls, estimate: Estimate) -> Self:
        """Return the stored part of an estimate: everything except its replicates."""
        return cls(
            value=estimate.value,
            interval=estimate.interval95,
            narrow_interval=estimate.interval83,
        )


class Confusion(Record):
    """How often held-out images of one class were predicted as another."""

    label: str
    prediction: str
    share: float
    n_images: int


class HeldOutExample(Record):
    """A held-out image and its prediction."""

    image: str
    """File within the study's folder."""
    label: str
    prediction: str
    is_right: bool


class FoldScore(Record):
    """One fold: accuracy on held-out and familiar images, and the gap between them."""

    name: str
    held: tuple[str, ...]
    held_out: AccuracyEstimate
    familiar: AccuracyEstimate
    gap: AccuracyEstimate
    n_images: tuple[int, int, int]
    """Numbers of held-out, familiar and training images."""
    copies: int
    """Number of images removed from training as near-duplicates of test images."""
    missing: tuple[str, ...]
    """Classes without held-out images."""
    by_class: Mapping[str, float]
    """Accuracy on the held-out images of each class."""
    confusions: tuple[Confusion, ...]
    examples: tuple[HeldOutExample, ...] = ()
    guessing: float = 0.0
    """Accuracy on the familiar images of always predicting their most frequent class."""


class HoldoutResults(Record):
    """All folds, and their means with intervals over folds and images."""

    kind: str
    network: str
    epochs: int
    seeds: tuple[int, ...]
    classes: int
    folds: tuple[FoldScore, ...]
    held_out: AccuracyEstimate
    familiar: AccuracyEstimate
    gap: AccuracyEstimate
    resampled: str = "subclasses"
    """Unit of resampling: subclasses with all their images, or images if subclasses are unknown."""
    notes: tuple[str, ...] = ()
    """Sentences on what was held out."""
    schema_version: Literal[2] = Field(default=SCHEMA, alias="schema")


class SuperclassScore(Record):
    """Accuracy on the subclasses of one superclass; null without unseen ones.

    The interval of a single synset is over its images only.
    """

    name: str
    wnid: str
    seen: AccuracyEstimate
    unseen: AccuracyEstimate | None
    gap: AccuracyEstimate | None
    synsets: tuple[int, int]
    """Numbers of seen and unseen subclasses in the test."""
    n_images: tuple[int, int]
    """Numbers of test images of seen and unseen subclasses."""


class SuperclassModelScore(Record):
    """Accuracy of one model: over all images, and as a mean over superclasses.

    The gap is seen minus unseen. `mean_…` is over superclasses that have both, since seen and
    unseen images are distributed differently over superclasses.
    """

    name: str
    imagenet_accuracy: float | None
    """Accuracy on ImageNet-1K before fine-tuning; null if unknown."""
    seen: AccuracyEstimate
    unseen: AccuracyEstimate
    gap: AccuracyEstimate
    mean_seen: AccuracyEstimate
    mean_unseen: AccuracyEstimate
    mean_gap: AccuracyEstimate
    superclasses: tuple[SuperclassScore, ...]
    confusions: tuple[Confusion, ...]
    """Confusions of unseen subclasses."""


class SuperclassResults(Record):
    """All models of a study of superclasses."""

    tune: str
    """Which parameters were trained."""
    epochs: int
    lr: float
    n_images: tuple[int, int, int]
    """Numbers of training images, and of test images of seen and unseen subclasses."""
    synsets: tuple[int, int]
    """Numbers of seen and unseen subclasses."""
    models: tuple[SuperclassModelScore, ...]
    notes: tuple[str, ...]
    kind: Literal["superclass"] = SUPERCLASS
    schema_version: Literal[2] = Field(default=SCHEMA, alias="schema")


StudyResults = TypeVar("StudyResults", HoldoutResults, SuperclassResults)


def open_study_folder(settings: Settings, out: Path) -> None:
    """Create the folder of a study, or check that it contains the same study."""
    open_run_folder(out, settings, work="study", folders=(MODELS, TESTS))


def write_results(results: HoldoutResults | SuperclassResults, out: Path) -> None:
    """Write the results of a study atomically."""
    text = results.model_dump_json(indent=1, by_alias=True) + "\n"
    try:
        with atomic_file(out / RESULTS) as temporary:
            temporary.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"Cannot write into {out}: {error.strerror or error}.") from None


def read_holdout_results(folder: Path) -> HoldoutResults:
    """Return the results of a finished study of held-out styles or subclasses."""
    return _read(HoldoutResults, folder)


def read_superclass_results(folder: Path) -> SuperclassResults:
    """Return the results of a finished study of superclasses."""
    return _read(SuperclassResults, folder)


def _read(record: type[StudyResults], folder: Path) -> StudyResults:
    path = folder / RESULTS
    try:
        text = path.read_text(encoding="utf-8")
        version = _version_of(text)
        if version == SCHEMA:
            return record.model_validate_json(text)
    except FileNotFoundError:
        raise UsageError(
            f"{folder} has no finished study ({RESULTS} is missing): run the command that started "
            "it again."
        ) from None
    # A `ValidationError` and a `UnicodeDecodeError` are both a `ValueError`.
    except (OSError, ValueError) as error:
        problem = first_problem(error) if isinstance(error, ValidationError) else str(error)
        raise UsageError(
            f"{path} cannot be read ({' '.join(problem.split())}): give a folder that eyechart "
            "structure wrote, or run the study again."
        ) from None
    raise UsageError(
        f"{folder} was written by another version of eyechart (schema {version}, not {SCHEMA}): run"
        " the study again."
    )


def _version_of(text: str) -> int:
    """Return the schema of a study's results; if it is missing, the current one is assumed."""
    content = json.loads(text)
    # The results of an evaluation have a schema too, but no kind.
    is_study = isinstance(content, dict) and "kind" in content
    version = content.get("schema") if is_study else None
    return version if isinstance(version, int) else SCHEMA
