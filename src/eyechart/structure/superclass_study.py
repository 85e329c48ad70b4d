"""Superclass studies: fine-tune networks on seen subclasses, test on seen and unseen subclasses.

Each network and its predictions have separate files, so that a study can be stopped and resumed,
and several processes started with the same command share the work.
"""

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import torch

from eyechart.core.errors import UsageError
from eyechart.core.progress import Progress
from eyechart.core.storage.job_queue import work_off
from eyechart.core.storage.parts import ROW, Parts
from eyechart.core.storage.shards import Shard
from eyechart.models.checkpoint import read_checkpoint
from eyechart.models.last_layer import find_last_layer, replace_layer
from eyechart.models.model import Model, lay_out, prepared
from eyechart.structure.study_results import MODELS, TESTS, open_study_folder
from eyechart.structure.superclass_images import Split
from eyechart.training.data import Held, LabeledImages
from eyechart.training.image_blocks import predict_held
from eyechart.training.recipe import Recipe
from eyechart.training.retrain import Load, start_of, trainable
from eyechart.training.training_loop import Start, Training, train

PREDICTIONS = "predictions"
AT_ONCE = 8192
"""Maximum number of images whose predictions are written at once."""


def settings_of(data: Split, recipe: Recipe) -> dict[str, object]:
    """Return all settings on which the results depend, except for the models, as plain values."""
    return {
        "kind": "superclass",
        **recipe.settings(),
        "tune": recipe.tune,
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
    open_study_folder(settings_of(data, recipe), out)
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


def superclass_start(model: Model, spec: str, data: LabeledImages, seed: int) -> Start:
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


def predictions_in(spec: str, out: Path) -> Parts:
    """Return the part files with the predictions of a model."""
    return Parts(out / TESTS / file_of(spec), [PREDICTIONS])


def _predict(
    model: Model, data: Split, device: torch.device, parts: Parts, progress: Progress
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
            places = left[begin : begin + AT_ONCE]
            (classes,) = predict_held([model], Held(part.take(places.tolist()), device))
            parts.write(
                PREDICTIONS, pa.table({ROW: first + places, "prediction": classes.cpu().numpy()})
            )
            step(len(places), "")
        first += len(part)
    parts.merge()
