"""Retrain a model on corruptions as in the VCR study, and compare its scores before and after."""

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

import torch
from torch import nn

from eyechart.core.arguments import resolved_path
from eyechart.core.errors import UsageError
from eyechart.core.phrases import count_of
from eyechart.core.progress import Progress
from eyechart.images.image_files import unread_notes
from eyechart.images.image_sources import find_images
from eyechart.images.imageset import ImageSet, load_listed
from eyechart.images.labels.matching import native_labels
from eyechart.images.labels.spaces import ENTRY16
from eyechart.models.card import CARD_SUFFIXES
from eyechart.models.checkpoint import Checkpoint, read_checkpoint
from eyechart.models.find import reject_unused
from eyechart.models.label_map import reject_probabilities
from eyechart.models.model import Model, in_one_line
from eyechart.pipeline.evaluate import predict_and_score
from eyechart.pipeline.human_references import find_humans
from eyechart.pipeline.image_source import ImageSource
from eyechart.pipeline.prepare import EvaluationInputs, check_labels, check_models
from eyechart.pipeline.settings import EvaluateSettings
from eyechart.predictions.batches import blank_images
from eyechart.results.model_results import SpaceResults
from eyechart.results.schema import Results
from eyechart.scores.registry import SCORES
from eyechart.stats.estimate import Estimate
from eyechart.stats.p_values import PairedDifference, holm, paired_difference
from eyechart.testsets.plan import Plan
from eyechart.testsets.samples import choose_images
from eyechart.training.corruption_mixture import Mixture
from eyechart.training.data import LabeledImages, reject_shared, training_data
from eyechart.training.distributed import is_first_process
from eyechart.training.recipe import Recipe
from eyechart.training.training_loop import InitialModel, Training, train

CHECKPOINT, EVALUATION, TABLE = "retrained.pt", "evaluation", "retraining.csv"
"""The files that are written into the output folder."""

CLEAN_ACCURACY = "clean_accuracy"


@dataclass(frozen=True, eq=False)
class ScoreChange:
    """One score before and after retraining, on the same images.

    `corruption`: the corruption's name, or "" for clean accuracy. `difference`: after minus before,
    with a paired test. `corrected`: the p-value of the difference, corrected by Holm's method over
    all changes in the table.
    """

    space: str
    corruption: str
    score: str
    before: Estimate
    after: Estimate
    difference: PairedDifference
    corrected: float

    @property
    def is_apart(self) -> bool:
        """Whether the two 95 % intervals do not overlap."""
        one, two = sorted((self.before.interval95, self.after.interval95))
        return one[1] < two[0]


def changes_of(results: Results) -> tuple[ScoreChange, ...]:
    """Return the change of every score from the first model to the second model."""
    before, after = results.models
    pairs = []
    for space in before.spaces:
        scores_after = _scores(after.spaces[space]) if space in after.spaces else {}
        for (corruption, score), estimate in _scores(before.spaces[space]).items():
            if (corruption, score) in scores_after:
                pairs.append((space, corruption, score, estimate, scores_after[corruption, score]))
    tests = [paired_difference(after, before) for *_, before, after in pairs]
    # All scores in the table are tested, so their p-values are corrected together.
    corrected = holm([test.p_value for test in tests])
    return tuple(
        ScoreChange(*pair, test, float(p))
        for pair, test, p in zip(pairs, tests, corrected, strict=True)
    )


def _scores(space: SpaceResults) -> dict[tuple[str, str], Estimate]:
    """Return the main scores of a label space by corruption and name."""
    scores = {}
    if space.clean_accuracy is not None:
        scores["", CLEAN_ACCURACY] = space.clean_accuracy
    for corruption, record in space.corruptions.items():
        scores |= {
            (corruption, name): estimate
            for name, estimate in record.scores.items()
            if SCORES[name].is_main and SCORES[name].has_mean
        }
    return scores


class Load(Protocol):
    """A function that loads a model, like `load_model`; in full precision if `half` is False."""

    def __call__(self, spec: str, half: bool | None = None) -> Model:
        """Return the model."""


@dataclass(frozen=True, eq=False)
class Retraining:
    """The settings for retraining a model.

    `spec`: the model, as a string that `load_model` accepts. `train_images`: the training images;
    a class-balanced subset of at most `max_train_images` is used. `source` and `settings`: the test
    images and settings for both models. `out`: the output folder.
    """

    spec: str
    train_images: Path
    source: ImageSource
    settings: EvaluateSettings
    mixture: Mixture
    out: Path
    recipe: Recipe
    max_train_images: int

    def check(self) -> None:
        """Raise a UsageError unless the settings are valid; images are not checked."""
        if self.max_train_images < 2:
            raise UsageError(
                f"max_train_images must be a whole number of at least 2, got "
                f"{self.max_train_images}."
            )
        if self.source.published is not None:
            raise UsageError(
                f"{self.source.published.root} contains corrupted images: give clean images as "
                "--images; eyechart corrupts them."
            )
        if self.out.exists() and not self.out.is_dir():
            raise UsageError(f"Cannot write into {self.out}: it is a file, not a folder.")
        self.recipe.check()
        if self.recipe.share == 0:
            raise UsageError("share must be above 0, got 0: the training needs corrupted images.")
        self.mixture.check()
        self.settings.checked()


def retrain(
    retraining: Retraining, load: Load, device: torch.device, progress: Progress
) -> tuple[Results, tuple[ScoreChange, ...]] | None:
    """Train the model on corruptions; return its results before and after, and the changes.

    Steps that an earlier run finished in the same folder are not repeated. Under torchrun only the
    first process runs the test; the others return None.
    """
    retraining.check()
    # Compared with published results, whose strengths are sampled like this.
    retraining = replace(retraining, settings=retraining.settings.at_published_strengths())
    model = load(retraining.spec, half=False)
    trainable(model)
    test = retraining.source.load(retraining.settings.plan, progress)
    images = training_images(retraining, test, progress)
    # Check everything that can fail before the training starts.
    reject_shared(images, test)
    check_models([model], test, device)
    reject_unused(retraining.settings.loaded_maps, [model])
    check_labels(retraining.settings.plan, [model], test)
    find_humans(retraining.settings)
    reject_softmax(model, test)
    data = data_for(
        model, images, () if retraining.settings.plan.labels == ENTRY16 else test.labels
    )
    path = retraining.out / CHECKPOINT
    training = Training(
        start_of(model, retraining.spec), data, retraining.recipe, retraining.mixture
    )
    train(training, device, path, progress)
    if not is_first_process():
        return None
    # Loaded again, because the first copy is in full precision and the test uses the default.
    both = [load(retraining.spec), load(str(path))]
    inputs = EvaluationInputs(both, test, device)
    results = predict_and_score(retraining.settings, inputs, retraining.out / EVALUATION, progress)
    changes = changes_of(results)
    notes = on_clean(changes, retraining.recipe.lr)
    if len(data) < retraining.max_train_images:
        notes.insert(
            0,
            f"Trained with {count_of(len(data), 'image')} instead of"
            f" {retraining.max_train_images:,}, because {data.images.source} has no more usable"
            " images.",
        )
    return results.with_warnings(*notes), changes


def trainable(model: Model) -> nn.Module:
    """Return the module of a model, or raise a UsageError if it cannot be trained."""
    module = model.module
    if module is None or isinstance(module, torch.jit.ScriptModule):
        raise UsageError(
            f"Only torch modules can be trained, but {model.name} is a function, an exported "
            "program, TorchScript, ONNX or TensorFlow Lite: give the original network."
        )
    if not any(parameter.is_floating_point() for parameter in module.parameters()):
        raise UsageError(f"{model.name} has no parameters to train: give another model.")
    return module


def training_images(retraining: Retraining, test: ImageSet, progress: Progress) -> ImageSet:
    """Return a class-balanced set of training images, decoded in the same way as test images."""
    listed = find_images(retraining.train_images, retraining.out)
    most = min(retraining.max_train_images, len(listed))
    plan = Plan(seed=retraining.recipe.seed, max_images=most)
    chosen = [listed[position] for position in choose_images(listed, plan)]
    step = progress.begin("training images", len(chosen))
    notes = unread_notes(retraining.train_images, retraining.out)
    return load_listed(chosen, str(retraining.train_images), test.stimulus.name, step, notes)


def data_for(model: Model, images: ImageSet, beside: Sequence[str | None] = ()) -> LabeledImages:
    """Return the images with labels mapped to the outputs of a model, as in an evaluation.

    `beside`: the labels of the test set, which must be mapped to the same outputs.
    """
    # Mapped together, because names are numbered in the alphabetical order of all of them.
    labels = (*images.labels, *beside)
    classes = native_labels(labels, model.classes or 0, model.class_names)[: len(images)]
    outputs, kept = model.classes or 0, model.label_map
    if kept is not None:
        outputs = kept.length
    # Outputs without training images need names as well.
    names = {
        int(position) if kept is None else kept.picked[int(position)]: label
        for position, label in zip(classes, images.labels, strict=True)
        if label is not None
    }
    all_names = [names.get(n, f"output {n}") for n in range(outputs)]
    # The network knows its classes already, and nothing is split: one image of a class is enough.
    return training_data(images, all_names, min_per_class=1)


def start_of(model: Model, spec: str) -> InitialModel:
    """Return a copy of the model to start training from, since the model may be in use elsewhere.

    If the model is an eyechart checkpoint, the new checkpoint refers to the same network or base
    model.
    """
    held, base = checkpoint_at(spec), spec
    if held is None and Path(spec).is_file():
        base = str(resolved_path(Path(spec)))  # so that it is found from any working directory
    original = trainable(model)
    try:
        module = deepcopy(original)
    except Exception as error:
        raise UsageError(f"{model.name} cannot be copied: {in_one_line(error)}.") from error
    names = ("", base, ()) if held is None else (held.network, held.base, held.class_names)
    return InitialModel(module, *names, model.preprocessing, model.trained_on)


def checkpoint_at(spec: str) -> Checkpoint | None:
    """Return the eyechart checkpoint in a file; None for other files or if a sidecar changes it."""
    path = Path(spec)
    if not path.is_file() or path.with_suffix(CARD_SUFFIXES[0]).exists():
        return None
    try:
        return read_checkpoint(path)
    except UsageError:
        return None


def reject_softmax(model: Model, images: ImageSet) -> None:
    """Raise a UsageError if a model returns probabilities, since the loss needs logits."""
    blank = blank_images(*images.sizes[0], range(2)).to(model.device)
    with torch.inference_mode():
        reject_probabilities(trainable(model)(model.preprocessing(blank)), model.name)


def on_clean(changes: Sequence[ScoreChange], lr: float) -> list[str]:
    """Return a note for each label space in which clean accuracy fell significantly."""
    return [
        f"{change.space}: clean accuracy fell by {-change.difference.difference:.3f}. An --lr below"
        f" {lr:g} or more images may prevent this; networks without normalization need a far lower"
        " --lr."
        for change in changes
        if change.score == CLEAN_ACCURACY and change.difference.interval[1] < 0
    ]
