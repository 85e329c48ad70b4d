"""Overlap studies, which train a network on each corruption and test it on all corruptions.

Every training and every test is a job with a separate file, so that a study can be stopped,
resumed, and distributed over several devices.
"""

from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from pathlib import Path

import pyarrow as pa
import torch

from eyechart.core.errors import UsageError
from eyechart.core.progress import Advance, JointProgress
from eyechart.core.randomness import hash64
from eyechart.core.storage.parts import file_name, read_header, read_parquet, write_parquet
from eyechart.core.storage.shards import Shard, jobs_of
from eyechart.corruptions.suites.assets import entry_mark
from eyechart.corruptions.suites.suite import Entry
from eyechart.images.imageset import ImageSet
from eyechart.models.checkpoint import read_checkpoint
from eyechart.models.find import load_model
from eyechart.models.model import Model, Preprocessing
from eyechart.overlap.accuracy_table import ALL, CLEAN, STANDARD
from eyechart.pipeline.prepare import check_models
from eyechart.training.corruption_mixture import Mixture
from eyechart.training.data import DeviceDataset, LabeledImages, mean_and_deviation, training_data
from eyechart.training.image_blocks import predict_held
from eyechart.training.recipe import Recipe
from eyechart.training.retrain import (
    checkpoint_at,
    data_for,
    reject_softmax,
    start_of,
    trainable,
)
from eyechart.training.training_loop import InitialModel, Training, new_network, train

MODELS, TESTS = "models", "tests"

IMAGES = "eyechart test images"
"""Key in the header of a shard's tests: a digest of the test images."""


@dataclass(frozen=True)
class TrainingJob:
    """One training: its seed, name and corruptions; the training "standard" has no corruptions."""

    seed: int
    name: str
    mixture: Mixture

    def path(self, out: Path) -> Path:
        """Return the path of the checkpoint."""
        return out / MODELS / str(self.seed) / f"{file_of(self.name)}.pt"


@dataclass(frozen=True)
class TestJob:
    """Test of all models of a seed on one corruption, or on clean images if `entry` is None."""

    seed: int
    entry: Entry | None

    @property
    def name(self) -> str:
        """Name of the corruption, or "clean"."""
        return CLEAN if self.entry is None else self.entry.name

    def path(self, out: Path, shard: Shard | None = None) -> Path:
        """Return the path of the predictions: of all models, or of the models of a shard."""
        part = "" if shard is None else f".{shard.folder}"
        return out / TESTS / str(self.seed) / f"{file_name(self.name)}{part}.parquet"

    def shard_paths(self, out: Path) -> list[Path]:
        """Return the paths of predictions that shards have written."""
        path = self.path(out)
        # names of corruptions contain no dots
        return sorted(path.parent.glob(f"{path.stem}.*-of-*.parquet"))


@dataclass(frozen=True)
class OverlapStudy:
    """Definition of a study. Test images are the same in all repetitions.

    Attributes:
        entries: Corruptions.
        recipe: Training recipe; its seed is ignored.
        network: Architecture to train from scratch; "" if a model is tuned.
        start: Model to tune instead of training from scratch, also for the standard network; a
            string that `load_model` accepts.
        together: Benchmarks with their corruptions; for each benchmark, one more network is trained
            on all its corruptions.
        seeds: Seeds; all trainings and tests are repeated for each.
        trust: Whether custom code that a checkpoint refers to may be run.
        download: Whether weights of the model may be downloaded.
    """

    entries: tuple[Entry, ...]
    recipe: Recipe
    network: str = ""
    start: str = ""
    together: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    seeds: tuple[int, ...] = (0,)
    trust: bool = False
    download: bool = False

    def check(self) -> None:
        """Raise a UsageError if the definition is invalid."""
        self.recipe.check()
        if len(self.entries) < 2:
            raise UsageError("Overlap needs at least two corruptions: use a suite with more.")
        names = [entry.name for entry in self.entries]
        # Different names may map to one file name, and jobs would overwrite each other.
        files = [file_of(name) for name in (STANDARD, CLEAN, *names)]
        for name in files:
            if files.count(name) > 1:
                raise UsageError(
                    f"Two corruptions would be written to the same file {name}: omit one of them."
                )

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the corruptions."""
        return tuple(entry.name for entry in self.entries)

    @property
    def models(self) -> tuple[str, ...]:
        """Networks trained for every seed: "standard", each corruption, then each benchmark."""
        return (STANDARD, *self.names, *(f"{ALL}{name}" for name in self.together))

    def jobs(self) -> Iterator[TrainingJob]:
        """Yield all trainings, starting with the standard models for all seeds."""
        entries = {entry.name: entry for entry in self.entries}
        mixtures = {STANDARD: Mixture()}
        mixtures |= {name: Mixture((entry,)) for name, entry in entries.items()}
        for name, members in self.together.items():
            mixtures[f"{ALL}{name}"] = Mixture(tuple(entries[member] for member in members))
        for model in self.models:
            for seed in self.seeds:
                yield TrainingJob(seed, model, mixtures[model])

    def tests(self) -> Iterator[TestJob]:
        """Yield all tests, seed by seed, clean images first."""
        for seed in self.seeds:
            for entry in (None, *self.entries):
                yield TestJob(seed, entry)

    def settings(self, train_data: LabeledImages, test_data: LabeledImages) -> dict[str, object]:
        """Return all settings on which the results depend, as plain values.

        Networks trained on whole benchmarks are not included, because they may be added later.
        """
        return {
            "kind": "overlap study",
            "network": self.network,
            "start": self.start,
            "stimulus": train_data.images.stimulus.name,
            "train": train_data.fingerprint,
            "test": test_data.fingerprint,
            "corruptions": list(self.names),
            "strengths": f"{hash64(*map(entry_mark, self.entries)):016x}",
            "seeds": list(self.seeds),
            "classes": list(train_data.class_names),
            **{k: v for k, v in self.recipe.settings().items() if k != "seed"},
        }


def file_of(name: str) -> str:
    """Return the file name for a model or a test."""
    return file_name(name.replace(":", "/"))


class Trainer:
    """Runs the trainings of a study on a device."""

    def __init__(
        self, study: OverlapStudy, data: LabeledImages, device: torch.device, out: Path
    ) -> None:
        self.study, self.data, self.device, self.out = study, data, device, out
        self.held: DeviceDataset | None = None
        self.begun: InitialModel | None = None
        self.steps: Preprocessing | None = None

    def training(self, job: TrainingJob) -> Training:
        """Return the training of a job."""
        recipe = replace(self.study.recipe, seed=job.seed)
        return Training(self.start(job.seed), self.data, recipe, job.mixture)

    def __call__(self, job: TrainingJob, step: Advance) -> None:
        """Run one training if it is not finished; `step` is called for every image."""
        self.held = self.held or DeviceDataset(self.data, self.device)
        path = job.path(self.out)
        path.parent.mkdir(parents=True, exist_ok=True)
        train(self.training(job), self.device, path, JointProgress(step), self.held)

    def start(self, seed: int) -> InitialModel:
        """Return the initial network; raise a UsageError if it cannot be loaded or created."""
        if self.study.network:
            if self.steps is None:
                # Once for all networks: the statistics read up to 10,000 images.
                self.steps = Preprocessing(None, *mean_and_deviation(self.data))
            return new_network(self.study.network, self.data, seed, self.steps)
        if self.begun is None:
            self.begun = start_from(self.study, self.data)
        # Training changes the weights; every job starts from the same ones.
        return replace(self.begun, module=deepcopy(self.begun.module))


def start_from(study: OverlapStudy, data: LabeledImages) -> InitialModel:
    """Return the network to be tuned; its classes must match the data."""
    spec = study.start
    checkpoint = checkpoint_at(spec)
    if checkpoint is not None:
        if checkpoint.class_names != data.class_names:
            raise UsageError(
                f"The classes of {spec} ({len(checkpoint.class_names)}) differ from the classes of"
                f" the images ({len(data.class_names)}): train a standard network on these images"
                " first."
            )
        _check_clean(spec, checkpoint.trained_on)
    model = _load_start(study)
    _check_clean(spec, model.trained_on)
    return start_of(model, spec)


def _load_start(study: OverlapStudy) -> Model:
    # In full precision, because it is tuned.
    return load_model(
        study.start, torch.device("cpu"), half=False, trust=study.trust, download=study.download
    )


def _check_clean(spec: str, trained_on: Sequence[str]) -> None:
    # Gains are measured against a network that has seen no corruption.
    if trained_on:
        raise UsageError(
            f"{spec} was trained on {trained_on[0]}, but a study must start from a network trained"
            " on clean images only."
        )


def data_to_train_on(study: OverlapStudy, train: ImageSet, test: ImageSet) -> LabeledImages:
    """Return the training images with labels that match the outputs of the network."""
    # New networks and eyechart's checkpoints have the classes of the images.
    if not study.start or checkpoint_at(study.start) is not None:
        return training_data(train)
    model = _load_start(study)
    trainable(model)
    check_models([model], test, model.device)
    reject_softmax(model, test)
    return data_for(model, train, test.labels)


class Tester:
    """Runs the tests of a study on a device, keeping the models of the current seed loaded.

    With a shard, only the models that the shard trains are tested, and written to its files.
    """

    def __init__(
        self,
        study: OverlapStudy,
        data: LabeledImages,
        device: torch.device,
        out: Path,
        shard: Shard | None = None,
    ) -> None:
        self.study, self.data, self.device, self.out = study, data, device, out
        self.shard = shard
        self.images = data.fingerprint
        self.jobs = list(study.jobs()) if shard is None else jobs_of(study.jobs(), shard)
        self.held: DeviceDataset | None = None
        self.seed: int | None = None
        self.models: dict[str, Model] = {}
        self.paths: dict[str, Path] = {}
        self.marks: dict[str, str] = {}

    def __call__(self, test: TestJob, step: Advance) -> None:
        """Run one test unless it is finished; write a row per image and a column per model."""
        self._load_seed(test.seed)
        hits = self._known(test)
        # Networks that have been retrained are tested again.
        wanted = [name for name in self.marks if name not in hits]
        # Models that are already tested count as done.
        step(len(self.marks) - len(wanted), "")
        if not wanted and (self.shard is not None or self._is_complete(test)):
            return
        if wanted:
            self.held = self.held or DeviceDataset(self.data, self.device)
            for name in wanted:
                if name not in self.models:
                    # Trained by this study, so its code has already been run.
                    self.models[name] = load_model(str(self.paths[name]), self.device, trust=True)
            # No seed: every repetition is tested on the same corrupted images.
            mixture = Mixture() if test.entry is None else Mixture((test.entry,))
            classes = predict_held([self.models[name] for name in wanted], self.held, mixture)
            for name, predicted in zip(wanted, classes, strict=True):
                hits[name] = pa.array((predicted == self.held.labels).cpu().numpy())
        path = test.path(self.out, self.shard)
        path.parent.mkdir(parents=True, exist_ok=True)
        # The digests in the header tell later runs which network each column belongs to.
        header = self.marks if self.shard is None else {**self.marks, IMAGES: self.images}
        table = pa.table({name: hits[name] for name in self.marks})
        write_parquet(table.replace_schema_metadata(header), path)
        step(len(wanted), "")

    def is_tested(self, test: TestJob) -> bool:
        """Return whether all models are trained and tested, here or by other shards."""
        if not all(job.path(self.out).exists() for job in self.jobs):
            return False
        self._load_seed(test.seed)
        return len(self._known(test)) == len(self.marks)

    def _is_complete(self, test: TestJob) -> bool:
        """Return whether the file of a test has a column for every model."""
        path = test.path(self.out)
        header = read_header(path) if path.exists() else {}
        return all(header.get(name) == mark for name, mark in self.marks.items())

    def _known(self, test: TestJob) -> dict[str, pa.Array]:
        """Return the columns of the models that are already tested."""
        path = test.path(self.out)
        # Another process may remove the files of shards once the file of the test is complete.
        others = [] if self._is_complete(test) else test.shard_paths(self.out)
        hits: dict[str, pa.Array] = {}
        for known in (path, *others) if path.exists() else others:
            table, header = read_parquet(known), read_header(known)
            if header.get(IMAGES, self.images) != self.images:
                raise UsageError(
                    f"{known} is from a study with other test images: delete it, and run its shard"
                    " again."
                )
            for name, mark in self.marks.items():
                if name not in hits and header.get(name) == mark:
                    hits[name] = table[name].combine_chunks()
        return hits

    def _load_seed(self, seed: int) -> None:
        """Find the networks trained with this seed, and a digest that identifies each of them."""
        if seed == self.seed:
            return
        self.seed, self.models = seed, {}
        self.paths = {job.name: job.path(self.out) for job in self.jobs if job.seed == seed}
        self.marks = {
            # Memory-mapped, because reading all weights of every network would take long.
            name: f"{hash64(repr(read_checkpoint(path, mapped=True).recipe)):016x}"
            for name, path in self.paths.items()
        }
