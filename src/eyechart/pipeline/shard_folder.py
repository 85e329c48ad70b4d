"""Folders of the shards of an evaluation: what each process writes, and what a merge reads."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from eyechart.core.errors import UsageError
from eyechart.core.records import Record
from eyechart.core.storage.files import atomic_file
from eyechart.core.storage.run_folder import Settings, open_run_folder, read_settings
from eyechart.core.storage.shards import Shard, shards_of
from eyechart.images.imageset import ImageSet
from eyechart.models.model import Model, Preprocessing
from eyechart.pipeline.settings import EvaluateSettings
from eyechart.predictions.loop import PredictionTask
from eyechart.results.schema import PREDICTIONS_FOLDER

SHARDS_FOLDER = "shards"
SHARD_FILE = "shard.json"
SHARD_VERSION = 1
"""Version of the record of a finished shard."""

INDEX_FILE = "images.parquet"
"""Index of the images, shared by all shards of a run."""

NOT_STORED = (
    *("model", "label_maps", "defenses", "baseline", "images"),
    *("device", "batch_size", "engine", "trust", "download", "minutes", "watts"),
    *("check", "strict", "dry_run", "out", "shard"),
)
"""Settings that a merge does not need, or that are stored in another form."""

_NAME = re.compile(r"\d+-of-(\d+)")


def _not_loaded(_images: Tensor) -> Tensor:
    raise AssertionError("a model that is known from a record makes no predictions")


class ModelRecord(Record):
    """Everything about a model that scoring needs."""

    name: str
    """Name of the model."""
    identity: str
    """SHA-256 of the weights; "" if there are none."""
    dtype: str
    """Precision, such as "torch.float32"."""
    classes: int | None
    """Number of classes."""
    class_names: tuple[str, ...] | None
    """Names of the classes; null if they are ImageNet's."""
    side: int | None
    """Height and width of its input in px; null if it takes images of any size."""
    trained_on: tuple[str, ...]
    """Corruptions that the model is known to be trained on."""

    @classmethod
    def of(cls, model: Model) -> "ModelRecord":
        """Return the record of a model that has made predictions."""
        return cls(
            name=model.name,
            identity=model.identity,
            dtype=str(model.dtype),
            classes=model.classes,
            class_names=model.class_names,
            side=model.side,
            trained_on=model.trained_on,
        )

    def model(self) -> Model:
        """Return a model with these properties, which cannot be called."""
        model = Model(
            self.name,
            _not_loaded,
            identity=self.identity,
            classes=self.classes,
            preprocessing=Preprocessing(side=self.side),
            dtype=getattr(torch, self.dtype.removeprefix("torch.")),
            class_names=self.class_names,
        )
        model.trained_on = self.trained_on
        return model


class ShardRecord(Record):
    """What a finished shard leaves for the merge, besides its predictions."""

    version: int = SHARD_VERSION
    """Version of this format."""
    shard: str
    """The shard, such as "2/7"."""
    working_folder: str
    """Folder to which the paths in `settings` are relative."""
    settings: Mapping[str, Any]
    """Settings of the evaluation that scoring needs."""
    images: str | None
    """Path of the images; null for the demo images."""
    baseline: str
    """Name of the baseline of CE."""
    defenses: tuple[str, ...]
    """Defenses of the models."""
    models: tuple[ModelRecord, ...]
    """The models."""
    devices: tuple[str, ...]
    """The devices on which the models ran."""
    warnings: tuple[str, ...]
    """Warnings of the self-test."""
    n_samples: int
    """Number of samples that the shard has predicted."""


def part_of(task: PredictionTask, shard: Shard) -> PredictionTask:
    """Return the part of a task that belongs to a shard: all samples of its images.

    Images are assigned by digest, never by corruption, so that the samples of an image, which the
    bootstrap resamples together, are computed together.
    """
    inside = has_images(task.images, shard)
    groups = [samples.select(np.flatnonzero(inside[samples.image])) for samples in task.groups]
    return replace(task, groups=[samples for samples in groups if len(samples)])


def has_images(images: ImageSet, shard: Shard) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Return whether each image belongs to a shard."""
    return np.array([shard.has(digest) for digest in images.digests], dtype=bool)


def open_shard(out: Path, settings: Settings, shard: Shard, files: Sequence[str]) -> Path:
    """Return the predictions folder of a shard; `files` are the other files of a run in `out`.

    Raises:
        UsageError: If `out` or the folder of the shard belongs to another run, or the run is split
            into another number of shards.
    """
    open_run_folder(
        out,
        settings,
        work="run",
        folders=(SHARDS_FOLDER,),
        files=(*files, PREDICTIONS_FOLDER),
    )
    for path in shard_folders(out):
        match = _NAME.fullmatch(path.name)
        if match and int(match[1]) != shard.count:
            raise UsageError(
                f"{out} contains a shard of {match[1]} ({path}), not of {shard.count}: give the"
                " same number of shards to every process, or choose another --out."
            )
    folder = out / SHARDS_FOLDER / shard.folder
    open_run_folder(
        folder, {**settings, "shard": str(shard)}, work="shard", folders=(PREDICTIONS_FOLDER,)
    )
    return folder / PREDICTIONS_FOLDER


def shard_folders(out: Path) -> list[Path]:
    """Return everything in the folder of shards, except for hidden files."""
    folder = out / SHARDS_FOLDER
    paths = sorted(folder.iterdir()) if folder.is_dir() else []
    return [path for path in paths if not path.name.startswith(".")]


def storable(settings: EvaluateSettings) -> dict[str, Any]:
    """Return the settings that a merge needs as plain values.

    Raises:
        UsageError: If a setting is an object of Python, which no other process can read.
    """
    values = {}
    for field in fields(settings):
        if field.name in NOT_STORED:
            continue
        value = getattr(settings, field.name)
        values[field.name] = _plain(value, field.name)
    return values


def _plain(value: object, name: str) -> object:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, Mapping):
        return {str(key): _plain(item, name) for key, item in value.items()}
    if isinstance(value, Sequence):
        return [_plain(item, name) for item in value]
    raise UsageError(f"{name} must be a name, a number or a path in a run that is split.")


def write_shard(folder: Path, record: ShardRecord) -> None:
    """Write the record of a finished shard."""
    with atomic_file(folder / SHARD_FILE) as temporary:
        temporary.write_text(record.model_dump_json(indent=1) + "\n", encoding="utf-8")


def read_shards(out: Path) -> dict[Shard, ShardRecord]:
    """Return the records of all shards of a run.

    Raises:
        UsageError: If a shard is missing, unfinished, present twice or in the wrong folder.
    """
    if not out.is_dir():
        raise UsageError(f"No such folder: {out}.")
    paths = shard_folders(out)
    if not paths:
        raise UsageError(
            f"{out} has no shards to merge: give the --out folder of eyechart evaluate --shard."
        )
    counts = set()
    for path in paths:
        match = _NAME.fullmatch(path.name)
        if match is None or not path.is_dir():
            raise UsageError(f"{path} is not the folder of a shard: move it to another folder.")
        counts.add(int(match[1]))
    if len(counts) > 1:
        raise UsageError(
            f"{out} contains shards of {' and of '.join(map(str, sorted(counts)))}: keep one"
            " number of shards, and delete the folders of the others."
        )
    shards = shards_of(counts.pop())
    missing = [shard for shard in shards if out / SHARDS_FOLDER / shard.folder not in paths]
    if missing:
        raise UsageError(
            f"{out} lacks shard {_listed(missing)}: run the same command with --shard {missing[0]}."
        )
    return {shard: _read(out / SHARDS_FOLDER / shard.folder, shard) for shard in shards}


def _read(folder: Path, shard: Shard) -> ShardRecord:
    path = folder / SHARD_FILE
    if not path.is_file():
        raise UsageError(
            f"Shard {shard} is not finished: run the same command with --shard {shard} to resume."
        )
    plain = read_settings(path)
    if plain.get("version") != SHARD_VERSION:
        raise UsageError(
            f"{path} was written by another version of eyechart (version {plain.get('version')},"
            f" not {SHARD_VERSION}): run shard {shard} again."
        )
    try:
        record = ShardRecord.model_validate(plain)
    except ValueError:
        raise UsageError(f"{path} is damaged: run shard {shard} again.") from None
    if record.shard != str(shard):
        raise UsageError(
            f"{folder} is a copy of shard {record.shard}, not shard {shard}: delete it, and run the"
            f" same command with --shard {shard}."
        )
    return record


def _listed(shards: Sequence[Shard]) -> str:
    texts = [str(shard) for shard in shards]
    return texts[0] if len(texts) == 1 else f"{', '.join(texts[:-1])} and {texts[-1]}"
