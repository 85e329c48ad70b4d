"""Hold-out studies: one network per fold and seed, tested on held-out and familiar images.

Every training and test has a separate file, so that a study can be stopped and resumed, and several
processes started with the same command share the work.
"""

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import torch

from eyechart.core.errors import UsageError
from eyechart.core.phrases import count_of
from eyechart.core.progress import JointProgress, Progress, counted_to
from eyechart.core.randomness import hash64
from eyechart.core.storage.parts import file_name, write_parquet
from eyechart.core.storage.run_folder import open_run_folder
from eyechart.core.storage.shards import Shard, jobs_of, work_off
from eyechart.models.find import load_model
from eyechart.models.model import Preprocessing
from eyechart.structure.folds import Fold
from eyechart.structure.holdout_images import HoldoutImages, Trait
from eyechart.structure.structure_settings import FAMILIAR
from eyechart.structure.study_results import MODELS, TESTS
from eyechart.training.data import DeviceDataset, mean_and_deviation
from eyechart.training.image_blocks import predict_held
from eyechart.training.recipe import Recipe
from eyechart.training.training_loop import Training, new_network, train


@dataclass(frozen=True)
class HoldoutStudy:
    """Definition of a hold-out study.

    `kind` is "style" or "subclass", `network` is the architecture. In every fold, one network is
    trained for each of the `seeds`; the recipe's seed is ignored. `normalize`: whether images are
    standardized to mean 0 and standard deviation 1. `notes`: sentences for readers of the results.
    `protocol`: the protocol of the folds, one of `PROTOCOLS`.
    """

    kind: Trait
    folds: tuple[Fold, ...]
    network: str
    recipe: Recipe
    seeds: tuple[int, ...] = (0,)
    normalize: bool = False
    notes: tuple[str, ...] = ()
    protocol: str = FAMILIAR

    def settings(self, kinds: HoldoutImages) -> dict[str, object]:
        """Return all settings on which the results depend, as plain values."""
        # The seeds of a study replace the recipe's seed and are listed separately.
        recipe = {name: value for name, value in self.recipe.settings().items() if name != "seed"}
        digests = kinds.data.images.digests
        parts = {
            fold.name: [
                # Digests rather than indices: the order of files must not change the identity of a
                # study.
                f"{hash64(*(digests[index] for index in indices)):016x}"
                for indices in (fold.train, fold.held_out, fold.familiar)
            ]
            for fold in self.folds
        }
        return {
            "kind": self.kind,
            "protocol": self.protocol,
            "network": self.network,
            "seeds": list(self.seeds),
            **recipe,
            "normalize": self.normalize,
            "images": kinds.data.fingerprint,
            "stimulus": kinds.data.images.stimulus.name,
            "size": list(kinds.data.size),
            "held out": [fold.name for fold in self.folds],
            **{f"held out in {fold.name}": list(fold.held) for fold in self.folds},
            "folds": parts,
        }


@dataclass(frozen=True)
class HoldoutJob:
    """One network to train, identified by its fold and seed."""

    fold: Fold
    seed: int

    def model(self, out: Path) -> Path:
        """Return the path of the network's checkpoint."""
        return out / MODELS / str(self.seed) / f"{file_of(self.fold.name)}.pt"

    def test(self, out: Path) -> Path:
        """Return the path of the network's predictions."""
        return out / TESTS / str(self.seed) / f"{file_of(self.fold.name)}.parquet"


def file_of(name: str) -> str:
    """Return a safe file name for a fold, which cannot point outside its folder."""
    return file_name(name).lstrip(".") or "fold"


def run_study(
    study: HoldoutStudy,
    kinds: HoldoutImages,
    device: torch.device,
    out: Path,
    progress: Progress,
    shard: Shard | None = None,
) -> bool:
    """Run all trainings and tests that are missing in `out`, or only those of a shard.

    Returns:
        Whether all are done; with a shard, others may be missing.
    """
    open_study(study, kinds, out)
    jobs = [HoldoutJob(fold, seed) for seed in study.seeds for fold in study.folds]
    totals = {job.model(out): study.recipe.length(len(job.fold.train)).images for job in jobs}
    todo = jobs if shard is None else jobs_of(jobs, shard)
    title = f"training {count_of(len(todo), 'network')}"
    advance = progress.begin(title, sum(totals[job.model(out)] for job in todo))

    def work(job: HoldoutJob) -> None:
        with counted_to(totals[job.model(out)], advance) as count:
            # The predictions are written last, so if their file exists, training is complete.
            if not job.test(out).exists():
                _train_and_test(
                    study, kinds, job, device=device, out=out, progress=JointProgress(count)
                )

    work_off(jobs, lambda job: job.model(out), work, shard)
    return all(job.test(out).exists() for job in jobs)


def open_study(study: HoldoutStudy, kinds: HoldoutImages, out: Path) -> None:
    """Create the study's folder, or check that it holds the same study.

    Raises:
        UsageError: If the study is invalid, before anything is written, or another one is in `out`.
    """
    for seed in study.seeds:
        replace(study.recipe, seed=seed).check()
    files = [file_of(fold.name) for fold in study.folds]
    for name in files:
        if files.count(name) > 1:
            raise UsageError(
                f"Two {study.kind}s would be written to the same file {name}: rename one of them."
            )
    # Creating a network once shows early whether the architecture fits the data.
    new_network(study.network, kinds.data, study.seeds[0], Preprocessing())
    open_run_folder(out, study.settings(kinds), work="study", folders=(MODELS, TESTS))


def _train_and_test(
    study: HoldoutStudy,
    kinds: HoldoutImages,
    job: HoldoutJob,
    *,
    device: torch.device,
    out: Path,
    progress: Progress,
) -> None:
    """Train one network and write its predictions."""
    path, predictions = job.model(out), job.test(out)
    predictions.parent.mkdir(parents=True, exist_ok=True)
    data = kinds.data.select(job.fold.train.tolist())
    preprocessing = Preprocessing()
    if study.normalize:
        # Use statistics of training images only: held-out images must not leak into them.
        preprocessing = Preprocessing(None, *mean_and_deviation(data))
    start = new_network(study.network, data, job.seed, preprocessing)
    recipe = replace(study.recipe, seed=job.seed)
    train(Training(start, data, recipe), device, path, progress)
    # Trained by this study, so its code has already been run.
    model = load_model(str(path), device, trust=True)
    indices = np.concatenate([job.fold.held_out, job.fold.familiar])
    tested = kinds.data.select(indices.tolist())
    table = pa.table(
        {
            "place": indices,
            "held_out": np.arange(len(indices)) < len(job.fold.held_out),
            "label": tested.labels.numpy(),
            "prediction": predict_held([model], DeviceDataset(tested, device))[0].cpu().numpy(),
        }
    )
    write_parquet(table, predictions)
