"""Superclass studies: fine-tune networks on seen subclasses, test on seen and unseen subclasses.

Each network and its predictions have separate files, so that a study can be stopped and resumed,
and several processes started with the same command share the work.
"""

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import NDArray

from eyechart.core.arrays import IntArray
from eyechart.core.errors import UsageError
from eyechart.core.phrases import count_of, first_names
from eyechart.core.progress import Progress
from eyechart.core.storage.parts import ROW, PartFiles
from eyechart.core.storage.run_folder import open_run_folder
from eyechart.core.storage.shards import Shard, work_off
from eyechart.images.imageset import ImageSet, load_listed
from eyechart.models.checkpoint import find_last_layer, read_checkpoint, replace_layer
from eyechart.models.model import Model, lay_out, prepared
from eyechart.stats.intervals import sum_interval
from eyechart.structure.holdout_scores import count_confusions, estimate_accuracy
from eyechart.structure.study_results import (
    MODELS,
    TESTS,
    AccuracyEstimate,
    SuperclassModelScore,
    SuperclassResults,
    SuperclassScore,
    read_study,
    write_results,
)
from eyechart.structure.superclasses import SeenUnseenSplit, Superclass
from eyechart.training.data import DeviceDataset, LabeledImages, split, training_data
from eyechart.training.image_blocks import predict_held
from eyechart.training.recipe import Recipe
from eyechart.training.retrain import Load, start_of, trainable
from eyechart.training.training_loop import InitialModel, Training, train

HELD_OUT = 0.2
"""Fraction of each seen synset's images kept for testing, if there are no separate test images."""


@dataclass(frozen=True, eq=False)
class Split:
    """Images of seen subclasses for training and testing, and of unseen subclasses for testing.

    The classes are the superclasses; an image's `subclass` is its synset.
    """

    superclasses: tuple[Superclass, ...]
    train: LabeledImages
    seen: LabeledImages
    unseen: LabeledImages
    notes: tuple[str, ...] = ()

    @property
    def synsets(self) -> tuple[str, ...]:
        """Synset of each test image, seen synsets first."""
        listed = (*self.seen.images.listed, *self.unseen.images.listed)
        return tuple(str(image.subclass) for image in listed)


def load_split(
    chosen: SeenUnseenSplit, source: str, stimulus: str, progress: Progress, seen_source: str = ""
) -> Split:
    """Return the decoded images; no training image is among the test images.

    Without `chosen.seen_test`, a fifth of the seen images is kept for testing, and a note says so.

    Args:
        chosen: Images sorted by superclass.
        source: Data source of the images.
        stimulus: How images are resized.
        progress: Where progress is reported.
        seen_source: Data source of `chosen.seen_test`.
    """
    listed = (*chosen.seen, *chosen.unseen)
    is_seen = {item.name for item in chosen.seen}
    images = load_listed(listed, source, stimulus, progress.begin("images", len(listed)))
    # By name: damaged images were left out, so positions have shifted.
    seen, unseen = (
        images.select(
            [p for p, item in enumerate(images.listed) if (item.name in is_seen) == is_wanted]
        )
        for is_wanted in (True, False)
    )
    notes = [*chosen.notes, *_on_damaged(images)]
    if chosen.seen_test:
        step = progress.begin("test images of seen subclasses", len(chosen.seen_test))
        tested = load_listed(chosen.seen_test, seen_source, stimulus, step)
        # Files that are in both sources are removed from training, not from the test.
        learnt, copies = _without(seen, tested)
        notes += _on_damaged(tested)
        if copies:
            notes.append(
                f"Removed from training, because the same files are in {seen_source}: "
                f"{count_of(copies, 'image')} of seen subclasses."
            )
    else:
        # A seen synset may have a single image; only its superclass needs images for training and
        # for testing.
        learnt, tested = split(seen, HELD_OUT, lone=True)
        notes.append(
            f"Seen accuracy is measured on a fifth of the images of seen subclasses in {source}. "
            "Networks"
            " pretrained on ImageNet-1K may have been trained on these images, so seen accuracy and"
            " gap may be too high: pass --seen-images, such as ImageNet-1K's validation images."
        )
    # A file of a seen synset is not an unseen image, even if it is in an unseen synset's folder.
    unseen, copies = _without(unseen, seen, tested)
    if copies:
        notes.append(
            f"Removed from the test images, because the same files are in seen subclasses: "
            f"{count_of(copies, 'image')} of unseen subclasses."
        )
    names = tuple(item.name for item in chosen.superclasses)
    for part, purpose in ((learnt, "train"), (tested, "test")):
        left = {image.subclass for image in part.listed}
        missing = [name for name in names if name not in left]
        if missing:
            raise UsageError(
                f"No images of the superclass {missing[0]!r} are left to {purpose}: add images"
                " of subclasses in ImageNet-1K, or remove it from --superclasses."
            )
    if not len(unseen):
        raise UsageError(
            f"All images of unseen subclasses in {source} are also among the images of seen "
            "subclasses."
        )
    train, test, new = (
        training_data(_relabeled(item), names, min_per_class=1) for item in (learnt, tested, unseen)
    )
    if len({item.size for item in (train, test, new)}) > 1:
        raise UsageError(
            f"Images of seen and unseen subclasses in {source} must have the same size: pass"
            " --stimulus 224, or another size."
        )
    return Split(chosen.superclasses, train, test, new, tuple(notes))


def _on_damaged(images: ImageSet) -> list[str]:
    if not images.damaged:
        return []
    return [
        f"Damaged images were left out: {count_of(len(images.damaged), 'image')}:"
        f" {first_names([image.name for image in images.damaged])}."
    ]


def _without(images: ImageSet, *known_sets: ImageSet) -> tuple[ImageSet, int]:
    """Return the images whose digests are not in `known_sets`, and how many were left out."""
    known = {digest for known_set in known_sets for digest in known_set.digests}
    kept = [index for index, digest in enumerate(images.digests) if digest not in known]
    return images.select(kept), len(images) - len(kept)


def _relabeled(images: ImageSet) -> ImageSet:
    """Return the images with the superclass as label and the synset as subclass."""
    listed = (replace(image, label=image.subclass, subclass=image.label) for image in images.listed)
    return replace(images, listed=tuple(listed))


PREDICTIONS = "predictions"
AT_ONCE = 8192
"""Maximum number of images whose predictions are written at once."""


def settings_of(data: Split, recipe: Recipe) -> dict[str, object]:
    """Return all settings on which the results depend, except for the models, as plain values."""
    return {
        "kind": "superclass",
        **recipe.settings(),
        "stimulus": data.train.images.stimulus.name,
        "superclasses": [
            f"{superclass.wnid} {superclass.name}" for superclass in data.superclasses
        ],
        "to train with": data.train.fingerprint,
        "seen": data.seen.fingerprint,
        "unseen": data.unseen.fingerprint,
    }


def file_of(spec: str) -> str:
    """Return the file name for a model."""
    return re.sub(r"[^\w.-]+", "-", spec).strip("-.")[-100:]


def check_specs(specs: Sequence[str]) -> None:
    """Raise a UsageError unless all models are distinct and have distinct file names."""
    names = [file_of(spec) for spec in specs]
    alike = [spec for spec, name in zip(specs, names, strict=True) if names.count(name) > 1]
    if alike:
        raise UsageError(
            f"Models must have different names, got {alike[0]!r} and {alike[1]!r}: pass each "
            "model only once, or use another --out for one of them."
        )


def run_superclasses(
    specs: Sequence[str],
    data: Split,
    recipe: Recipe,
    *,
    load: Load,
    device: torch.device,
    out: Path,
    progress: Progress,
    shard: Shard | None = None,
) -> dict[str, float | None] | None:
    """Fine-tune and test all models that are missing in `out`, or only those of a shard.

    Returns:
        The published accuracy of each model on ImageNet-1K; None if unknown. With a shard, None
        instead if models of other shards are missing.
    """
    recipe.check()
    check_specs(specs)
    open_run_folder(out, settings_of(data, recipe), work="study", folders=(MODELS, TESTS))
    published: dict[str, float | None] = {}

    def work(spec: str) -> None:
        model = load(spec, half=False)
        start = superclass_start(model, spec, data.train, recipe.seed)
        path, parts = checkpoint_of(spec, out), predictions_in(spec, out)
        parts.folder.mkdir(exist_ok=True)
        if not path.exists():
            # Predictions of a checkpoint that has been deleted since are not valid for a new one.
            parts.drop(PREDICTIONS)
        train(Training(start, data.train, recipe), device, path, progress)
        # A finished training returns at once and leaves the module with its first weights.
        start.module.load_state_dict(dict(read_checkpoint(path).weights))
        tuned = Model(
            spec,
            prepared(start.module, device, torch.float32),
            device,
            classes=len(data.superclasses),
            preprocessing=start.preprocessing,
            class_names=start.class_names,
        )
        _predict(tuned, data, device, parts, progress)
        published[spec] = model.published_accuracy

    work_off(specs, lambda spec: checkpoint_of(spec, out), work, shard)
    # The predictions of a model are merged into one file at the end.
    if not all(predictions_in(spec, out).is_merged(PREDICTIONS) for spec in specs):
        return None
    for spec in specs:
        if spec not in published:
            published[spec] = load(spec, half=False).published_accuracy
    return {spec: published[spec] for spec in specs}


def checkpoint_of(spec: str, out: Path) -> Path:
    """Return the path of a model's fine-tuned network."""
    return out / MODELS / f"{file_of(spec)}.pt"


def superclass_start(model: Model, spec: str, data: LabeledImages, seed: int) -> InitialModel:
    """Return a copy of a model with a new last layer for the classes in the data."""
    trainable(model)
    start = start_of(model, spec)
    module = start.module
    # The memory layout that `train` uses; many networks accept no other.
    lay_out(module, torch.contiguous_format)
    ready = start.preprocessing(data.batch(range(min(2, len(data)))).to(model.device))
    try:
        replace_layer(module, find_last_layer(module, ready), len(data.class_names), seed)
    except UsageError as error:
        raise UsageError(f"{spec}: {error}") from None
    return replace(start, class_names=data.class_names)


def predictions_in(spec: str, out: Path) -> PartFiles:
    """Return the part files with the predictions of a model."""
    return PartFiles(out / TESTS / file_of(spec), [PREDICTIONS])


def _predict(
    model: Model, data: Split, device: torch.device, parts: PartFiles, progress: Progress
) -> None:
    """Write a model's predictions for all test images that do not have one yet."""
    total = len(data.seen) + len(data.unseen)
    # Resume: images with a stored prediction are skipped.
    done = np.isin(np.arange(total), parts.done())
    step = progress.begin(f"testing {model.name}", total)
    step(int(done.sum()), " ".join(parts.notes()))
    # Rows number the seen images first and then the unseen ones, as `score_model` expects.
    first = 0
    for part in (data.seen, data.unseen):
        left = np.flatnonzero(~done[first : first + len(part)])
        for begin in range(0, len(left), AT_ONCE):
            indices = left[begin : begin + AT_ONCE]
            (classes,) = predict_held([model], DeviceDataset(part.select(indices.tolist()), device))
            parts.write(
                PREDICTIONS, pa.table({ROW: first + indices, "prediction": classes.cpu().numpy()})
            )
            step(len(indices), "")
        first += len(part)
    parts.merge()


def score_superclasses(
    specs: Sequence[str],
    data: Split,
    recipe: Recipe,
    accuracies: Mapping[str, float | None],
    out: Path,
) -> SuperclassResults:
    """Score the predictions in `out`, write the scores to results.json, and return them.

    Models fine-tuned by an earlier command in the same study stay in the results.
    """
    # A second command may add models to a study.
    # The folder's settings ensure that earlier scores come from the same images and recipe.
    scores = {}
    with suppress(UsageError):
        scores = {score.name: score for score in read_study(out, SuperclassResults).models}
    for spec in specs:
        predictions = predictions_in(spec, out).read(PREDICTIONS)["prediction"].to_numpy()
        scores[spec] = score_model(spec, predictions, data, accuracies.get(spec))
    n_seen = len(data.seen)
    results = SuperclassResults(
        tune=recipe.tune,
        epochs=recipe.epochs,
        lr=recipe.lr,
        n_images=(len(data.train), n_seen, len(data.unseen)),
        synsets=(len(set(data.synsets[:n_seen])), len(set(data.synsets[n_seen:]))),
        models=tuple(scores.values()),
        notes=data.notes,
    )
    write_results(results, out)
    return results


def score_model(
    name: str, predictions: IntArray, data: Split, imagenet_accuracy: float | None = None
) -> SuperclassModelScore:
    """Return a model's score; `predictions` has the seen images first, then the unseen."""
    labels = np.concatenate([data.seen.labels.numpy(), data.unseen.labels.numpy()])
    correct = (predictions == labels).astype(np.float64)
    groups = np.unique(np.array(data.synsets), return_inverse=True)[1]
    unseen = np.arange(len(labels)) >= len(data.seen)

    def accuracy(images: NDArray[np.bool_], label: int) -> AccuracyEstimate:
        # Independent random numbers for each superclass, and for seen and unseen subclasses.
        seed = (label, int(unseen[images].all()))
        return AccuracyEstimate.of(estimate_accuracy(correct[images], groups[images], seed))

    scores = []
    for label, superclass in enumerate(data.superclasses):
        parts = [(labels == label) & ~unseen, (labels == label) & unseen]
        counts = [int(part.sum()) for part in parts]
        synsets = [len(set(groups[part].tolist())) for part in parts]
        before = accuracy(parts[0], label)
        after = accuracy(parts[1], label) if counts[1] else None
        scores.append(
            SuperclassScore(
                name=superclass.name,
                wnid=superclass.wnid,
                seen=before,
                unseen=after,
                gap=None if after is None else weighted_sum([before, after], [1, -1]),
                synsets=(synsets[0], synsets[1]),
                n_images=(counts[0], counts[1]),
            )
        )
    pairs = [(score.seen, score.unseen) for score in scores if score.unseen is not None]
    before_scores, afters = [seen for seen, _ in pairs], [unseen for _, unseen in pairs]
    # Superclasses without unseen images are left out of both means.
    evenly = [1 / len(pairs)] * len(pairs)
    # A label beyond the superclasses gives the overall accuracy its own random numbers.
    overall = [accuracy(images, len(data.superclasses)) for images in (~unseen, unseen)]
    return SuperclassModelScore(
        name=name,
        imagenet_accuracy=imagenet_accuracy,
        seen=overall[0],
        unseen=overall[1],
        gap=weighted_sum(overall, [1, -1]),
        mean_seen=weighted_sum(before_scores, evenly),
        mean_unseen=weighted_sum(afters, evenly),
        mean_gap=weighted_sum([*before_scores, *afters], [*evenly, *(-share for share in evenly)]),
        superclasses=tuple(scores),
        confusions=count_confusions(
            labels[unseen], predictions[unseen][None], data.seen.class_names
        ),
    )


def weighted_sum(
    estimates: Sequence[AccuracyEstimate], weights: Sequence[float]
) -> AccuracyEstimate:
    """Return a weighted sum of independent accuracies, such as a difference or a mean."""
    pairs = list(zip(weights, estimates, strict=True))
    return AccuracyEstimate(
        value=sum(weight * estimate.value for weight, estimate in pairs),
        interval=sum_interval((weight, term.value, term.interval) for weight, term in pairs),
        narrow_interval=sum_interval(
            (weight, term.value, term.narrow_interval) for weight, term in pairs
        ),
    )
