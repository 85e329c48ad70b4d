"""An overlap study: one network trained with each corruption, each tested on every corruption.

Every training and every test is a job with a file of its own, so that a study can be stopped, goes
on, and can be shared between devices.
"""

from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, field, replace
from pathlib import Path

import pyarrow as pa
import torch

from eyechart.core.errors import UsageError
from eyechart.core.parts import file_name, read_header, read_parquet, write_parquet
from eyechart.core.progress import Advance, JointProgress
from eyechart.core.randomness import hash64
from eyechart.models.checkpoint import read_checkpoint
from eyechart.models.find import load_model
from eyechart.models.model import Model
from eyechart.models.preprocessing import Preprocessing
from eyechart.overlap.accuracy_table import ALL, CLEAN, STANDARD
from eyechart.suites.assets import entry_mark
from eyechart.suites.suite import Entry
from eyechart.training.corruption_mixture import Mixture
from eyechart.training.data import Held, LabelledImages, mean_and_deviation
from eyechart.training.image_blocks import predict_held
from eyechart.training.recipe import Recipe
from eyechart.training.state import is_finished
from eyechart.training.training_loop import Start, Training, new_network, train

MODELS, TESTS = "models", "tests"


@dataclass(frozen=True)
class TrainingJob:
    """One training: which seed, and with which corruptions; "standard" has none."""

    seed: int
    name: str
    mixture: Mixture

    def path(self, out: Path) -> Path:
        """Return where its checkpoint goes."""
        return out / MODELS / str(self.seed) / f"{file_of(self.name)}.pt"


@dataclass(frozen=True)
class TestJob:
    """All models of a seed on one corruption, or on clean pictures if that is None."""

    seed: int
    entry: Entry | None

    @property
    def name(self) -> str:
        """The corruption's name, or "clean"."""
        return CLEAN if self.entry is None else self.entry.name

    def path(self, out: Path) -> Path:
        """Return where the answers go."""
        return out / TESTS / str(self.seed) / f"{file_name(self.name)}.parquet"


@dataclass(frozen=True)
class OverlapStudy:
    """What is to be found out.

    `entries`: the corruptions. `together`: benchmarks on whose corruptions, all of them, one more
    network each is trained. `network`: the architecture, trained from scratch; or `start`: the
    checkpoint from which all of them, also the standard one, are tuned. `seeds`: one repetition of
    everything for each; the recipe's own seed counts for nothing. `trust`: whether code may be
    called that the start names. Test pictures are the same in all repetitions.
    """

    entries: tuple[Entry, ...]
    recipe: Recipe
    network: str = ""
    start: str = ""
    together: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    seeds: tuple[int, ...] = (0,)
    trust: bool = False

    def check(self) -> None:
        """Raise a UsageError unless the study can be made."""
        self.recipe.check()
        if bool(self.network) == bool(self.start):
            raise UsageError(
                "Give an architecture to train from scratch, or a checkpoint to tune, not both."
            )
        if len(self.entries) < 2:
            raise UsageError("Overlap needs at least two corruptions: give a suite with more.")
        if not self.seeds or len(set(self.seeds)) < len(self.seeds):
            raise UsageError(f"Every seed must be another, got {self.seeds}.")
        names = [entry.name for entry in self.entries]
        files = [file_of(name) for name in (STANDARD, CLEAN, *names)]
        for name in files:
            if files.count(name) > 1:
                raise UsageError(
                    f"Two corruptions would be in files called {name}: leave one of them out."
                )

    @property
    def names(self) -> tuple[str, ...]:
        """The corruptions, by name."""
        return tuple(entry.name for entry in self.entries)

    @property
    def models(self) -> tuple[str, ...]:
        """What is trained for every seed: "standard", each corruption, then each benchmark."""
        return (STANDARD, *self.names, *(f"{ALL}{name}" for name in self.together))

    def jobs(self) -> Iterator[TrainingJob]:
        """Yield all trainings, the standard ones of all seeds first."""
        entries = {entry.name: entry for entry in self.entries}
        mixtures = {STANDARD: Mixture()}
        mixtures |= {name: Mixture((entry,)) for name, entry in entries.items()}
        for name, members in self.together.items():
            mixtures[f"{ALL}{name}"] = Mixture(tuple(entries[member] for member in members))
        for model in self.models:
            for seed in self.seeds:
                yield TrainingJob(seed, model, mixtures[model])

    def tests(self) -> Iterator[TestJob]:
        """Yield all tests, seed by seed, clean pictures first."""
        for seed in self.seeds:
            for entry in (None, *self.entries):
                yield TestJob(seed, entry)

    def settings(self, train_data: LabelledImages, test_data: LabelledImages) -> dict[str, object]:
        """Return all that decides the results, as plain values.

        Networks trained on whole benchmarks may be added later, so they are none of it.
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
    """Return the name of a model or a test as that of a file."""
    return file_name(name.replace(":", "/"))


class Trainer:
    """Makes the trainings of a study on a device."""

    def __init__(
        self, study: OverlapStudy, data: LabelledImages, device: torch.device, out: Path
    ) -> None:
        self.study, self.data, self.device, self.out = study, data, device, out
        self.held: Held | None = None
        self.begun: Start | None = None
        self.steps: Preprocessing | None = None

    def check(self, job: TrainingJob) -> None:
        """Raise a UsageError if the checkpoint of a job is there and of another configuration."""
        is_finished(job.path(self.out), self._training(job).settings())

    def begin(self) -> None:
        """Raise a UsageError if there is nothing to train."""
        self._start(self.study.seeds[0])

    def _training(self, job: TrainingJob) -> Training:
        recipe = replace(self.study.recipe, seed=job.seed)
        return Training(self._start(job.seed), self.data, recipe, job.mixture)

    def __call__(self, job: TrainingJob, step: Advance) -> None:
        """Make one training, if it is not made; `step` is told of every picture."""
        self.held = self.held or Held(self.data, self.device)
        path = job.path(self.out)
        path.parent.mkdir(parents=True, exist_ok=True)
        train(self._training(job), self.device, path, JointProgress(step), self.held)

    def _start(self, seed: int) -> Start:
        if self.study.network:
            if self.steps is None:
                self.steps = Preprocessing(None, *mean_and_deviation(self.data))
            return new_network(self.study.network, self.data, seed, self.steps)
        if self.begun is None:
            self.begun = start_from(self.study.start, self.data, self.study.trust)
        return replace(self.begun, module=deepcopy(self.begun.module))


def start_from(path: str, data: LabelledImages, trust: bool = False) -> Start:
    """Return the network in a checkpoint, to be tuned; it must know the classes of the data."""
    checkpoint = read_checkpoint(Path(path))
    if checkpoint.class_names != data.class_names:
        raise UsageError(
            f"{path} knows other classes ({len(checkpoint.class_names)}) than the pictures have"
            f" ({len(data.class_names)}): train a standard network on these pictures first."
        )
    if checkpoint.trained_on:
        raise UsageError(
            f"{path} was trained on {checkpoint.trained_on[0]}, but a study must start from a"
            " network that has met no corruption: give one trained on clean pictures."
        )
    model = load_model(path, torch.device("cpu"), half=False, trust=trust)
    assert model.module is not None, "a checkpoint is a module"
    return Start(
        model.module,
        checkpoint.network,
        checkpoint.base,
        checkpoint.class_names,
        model.preprocessing,
        checkpoint.trained_on,
    )


class Tester:
    """Makes the tests of a study on a device; the models of a seed stay loaded."""

    def __init__(
        self, study: OverlapStudy, data: LabelledImages, device: torch.device, out: Path
    ) -> None:
        self.study, self.data, self.device, self.out = study, data, device, out
        self.held: Held | None = None
        self.seed: int | None = None
        self.models: dict[str, Model] = {}
        self.paths: dict[str, Path] = {}
        self.marks: dict[str, str] = {}

    def __call__(self, test: TestJob, step: Advance) -> None:
        """Make one test, if it is not made: a row per picture, a column per model, right or not."""
        path = test.path(self.out)
        self._look_at(test.seed)
        known = read_parquet(path) if path.exists() else pa.table({})
        header = read_header(path) if path.exists() else {}
        # a network that was trained anew is tested anew
        wanted = [name for name in self.study.models if header.get(name) != self.marks[name]]
        step(len(self.study.models) - len(wanted), "")
        if not wanted:
            return
        self.held = self.held or Held(self.data, self.device)
        for name in wanted:
            if name not in self.models:
                # trained here, so its code was called before
                self.models[name] = load_model(str(self.paths[name]), self.device, trust=True)
        # every repetition is tested on the same pictures: their draw has no seed
        mixture = Mixture() if test.entry is None else Mixture((test.entry,))
        classes = predict_held([self.models[name] for name in wanted], self.held, mixture)
        right = [(predicted == self.held.labels).cpu().numpy() for predicted in classes]
        hits = dict(zip(wanted, right, strict=True))
        old = {name: known[name] for name in known.column_names}
        path.parent.mkdir(parents=True, exist_ok=True)
        table = pa.table({**old, **hits}).replace_schema_metadata({**header, **self.marks})
        write_parquet(table, path)
        step(len(wanted), "")

    def _look_at(self, seed: int) -> None:
        """Find the networks of a seed, and what tells each from others of its name."""
        if seed == self.seed:
            return
        self.seed, self.models = seed, {}
        jobs = [job for job in self.study.jobs() if job.seed == seed]
        self.paths = {job.name: job.path(self.out) for job in jobs}
        self.marks = {
            name: f"{hash64(repr(read_checkpoint(path, mapped=True).recipe)):016x}"
            for name, path in self.paths.items()
        }
