"""The folder of a structure study, and the records in its results.json.

The scores are computed by `holdout_scores` and `superclass_scores`.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Literal, Self, TypeVar

from pydantic import Field, ValidationError

from eyechart.core.arguments import regular_file
from eyechart.core.errors import UsageError
from eyechart.core.records import Record, first_problem
from eyechart.core.storage.files import atomic_file
from eyechart.stats.estimate import Estimate
from eyechart.stats.intervals import Interval
from eyechart.structure.structure_settings import FAMILIAR

MODELS, TESTS, RESULTS = "models", "tests", "results.json"
SCHEMA: Literal[1] = 1
SUPERCLASS: Literal["superclass"] = "superclass"


class AccuracyEstimate(Record):
    """An accuracy, or a difference between two accuracies, with its intervals."""

    value: float
    """The accuracy or the difference, as a fraction."""
    interval: Interval
    """95 % interval."""
    narrow_interval: Interval
    """83 % interval."""

    @classmethod
    def of(cls, estimate: Estimate) -> Self:
        """Return the estimate as stored, without its bootstrap replicates."""
        return cls(
            value=estimate.value,
            interval=estimate.interval95,
            narrow_interval=estimate.interval83,
        )


class Confusion(Record):
    """How often held-out images of one class were predicted as another class."""

    label: str
    prediction: str
    share: float
    n_images: int


class HeldOutExample(Record):
    """A held-out image and its prediction."""

    image: str
    """Path of the file within the study's folder."""
    label: str
    prediction: str
    is_right: bool


class FoldScore(Record):
    """One fold: accuracy on held-out and familiar images, and the gap between them.

    `familiar` and `gap` are null if no familiar images are tested, as in the published protocol.
    """

    name: str
    held: tuple[str, ...]
    held_out: AccuracyEstimate
    familiar: AccuracyEstimate | None
    gap: AccuracyEstimate | None
    n_images: tuple[int, int, int]
    """Numbers of held-out, familiar and training images."""
    copies: int
    """Number of near-duplicates of test images that were removed from training."""
    missing: tuple[str, ...]
    """Classes without held-out images."""
    by_class: Mapping[str, float]
    """Accuracy on the held-out images of each class."""
    confusions: tuple[Confusion, ...]
    examples: tuple[HeldOutExample, ...] = ()
    guessing: float = 0.0
    """Accuracy on the familiar images if the most frequent class were always predicted."""


class HoldoutResults(Record):
    """Scores of all folds, and means over folds with intervals that resample folds and images.

    `familiar` and `gap` are null if no familiar images are tested, as in the published protocol.
    """

    kind: str
    network: str
    epochs: int
    seeds: tuple[int, ...]
    classes: int
    folds: tuple[FoldScore, ...]
    held_out: AccuracyEstimate
    familiar: AccuracyEstimate | None
    gap: AccuracyEstimate | None
    protocol: str = FAMILIAR
    """Which images networks are trained on: "familiar" or "published"."""
    resampled: str = "subclasses"
    """What the bootstrap resamples: subclasses, or images if subclasses are unknown."""
    notes: tuple[str, ...] = ()
    """Sentences that tell the reader what was held out."""
    schema_version: Literal[1] = Field(default=SCHEMA, alias="schema")


class SuperclassScore(Record):
    """Accuracy on the seen and unseen subclasses of one superclass.

    `unseen` and `gap` are null if there are no unseen subclasses. If there is only one subclass,
    the bootstrap resamples its images.
    """

    name: str
    wnid: str
    seen: AccuracyEstimate
    unseen: AccuracyEstimate | None
    gap: AccuracyEstimate | None
    synsets: tuple[int, int]
    """Numbers of seen and unseen subclasses tested."""
    n_images: tuple[int, int]
    """Numbers of test images of seen and unseen subclasses."""


class SuperclassModelScore(Record):
    """Accuracy of one model over all images, and its mean over superclasses.

    The gap is the seen minus the unseen accuracy. The fields `mean_…` are means over superclasses
    that have both seen and unseen subclasses. They are reported because seen and unseen images are
    distributed differently over superclasses.
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
    """Confusions between superclasses, on images of unseen subclasses."""


class SuperclassResults(Record):
    """Results of all models in a superclass study."""

    tune: str
    """Which layers were trained: "last" or "all"."""
    epochs: int
    lr: float
    n_images: tuple[int, int, int]
    """Numbers of training images, and of test images from seen and from unseen subclasses."""
    synsets: tuple[int, int]
    """Numbers of seen and unseen subclasses."""
    models: tuple[SuperclassModelScore, ...]
    notes: tuple[str, ...]
    kind: Literal["superclass"] = SUPERCLASS
    schema_version: Literal[1] = Field(default=SCHEMA, alias="schema")


StudyResults = TypeVar("StudyResults", HoldoutResults, SuperclassResults)


def write_results(results: HoldoutResults | SuperclassResults, out: Path) -> None:
    """Write the results of a study atomically."""
    text = results.model_dump_json(indent=1, by_alias=True) + "\n"
    try:
        with atomic_file(out / RESULTS) as temporary:
            temporary.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"Cannot write into {out}: {error.strerror or error}.") from None


def read_study(folder: Path, record: type[StudyResults]) -> StudyResults:
    """Return the results of a finished study: `HoldoutResults` or `SuperclassResults`."""
    path = folder / RESULTS
    try:
        text = regular_file(path).read_text(encoding="utf-8")
        content = json.loads(text)
        # The results of an evaluation have a schema too, but no kind.
        is_study = isinstance(content, dict) and "kind" in content
        version = content.get("schema") if is_study else SCHEMA
        if version == SCHEMA or not isinstance(version, int):
            return record.model_validate_json(text)
    except FileNotFoundError:
        raise UsageError(
            f"{folder} has no finished study ({RESULTS} is missing): re-run the command that "
            "started the study."
        ) from None
    # A `ValidationError` and a `UnicodeDecodeError` are both a `ValueError`.
    except (OSError, ValueError) as error:
        problem = first_problem(error) if isinstance(error, ValidationError) else str(error)
        raise UsageError(
            f"{path} cannot be read ({' '.join(problem.split())}): pass a folder written by "
            "eyechart structure, or run the study again."
        ) from None
    raise UsageError(
        f"{folder} was written by another version of eyechart (schema {version}, not {SCHEMA}): run"
        " the study again."
    )
