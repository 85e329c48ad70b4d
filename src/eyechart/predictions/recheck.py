"""Recompute some samples of a run and compare them with what was recorded."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from eyechart.core.errors import UsageError
from eyechart.core.progress import no_advance
from eyechart.core.storage.locks import lock_folder
from eyechart.core.storage.parts import PartFiles
from eyechart.models.model import Model
from eyechart.predictions.loop import PredictionTask, predict_items
from eyechart.predictions.reading import UNREADABLE

SHARE = 0.01
FEWEST = 20
"""Minimum number of samples that are recomputed for each corruption."""

CLOSE = 1e-5
"""Tolerance between two values of Δv for the same pixels."""

MARGIN = 0.1
"""Predicted classes may differ if the two best log-probabilities are closer than this."""


MOST_CLOSE = 0.1
"""Maximum fraction of predictions that may differ within the margin; a random model exceeds it."""


N_REPEATED = 16
"""Number of recorded samples that are predicted again before a run resumes."""

MARGIN_CHANGE = 0.05
"""Tolerance between two margins for the same pixels, as a fraction of 1 + the margin."""


@dataclass(frozen=True)
class Comparison:
    """Outcome of a recheck: how many predictions were compared, and how many differ.

    `pixels`, `delta_v` and `other`: numbers of differences in pixels, Δv and predicted class.
    `close_calls`: number of predicted classes that differ where the two best scores are nearly
    equal; a few such differences are expected.
    """

    n_predictions: int
    pixels: int
    delta_v: int
    other: int
    close_calls: int

    @property
    def passed(self) -> bool:
        """Whether everything is as recorded, except for a few close calls."""
        are_too_many = self.close_calls > MOST_CLOSE * self.n_predictions
        return not (self.pixels or self.delta_v or self.other or are_too_many)

    def sentence(self) -> str:
        """Return the outcome of the comparison as one sentence."""
        return (
            f"Check: {self.n_predictions} predictions recomputed; {self.pixels} differ in pixels,"
            f" {self.delta_v} in Δv, {self.other} in the predicted class, and {self.close_calls}"
            " more in the predicted class when the two best scores were nearly equal."
        )


def check(task: PredictionTask, folder: Path, share: float = SHARE, seed: int = 1) -> Comparison:
    """Recompute a random fraction of each corruption's samples in different batches, and compare.

    Raises:
        UsageError: If recorded samples are missing, or a file can no longer be read.
    """
    chance = np.random.default_rng(seed)
    chosen, parts = [], PartFiles(folder)
    never = parts.read(UNREADABLE, ["row"])["row"] if UNREADABLE in parts.names() else []
    for samples in task.groups:
        # Samples without a prediction have nothing to compare with.
        rows = samples.row[~np.isin(samples.row, np.asarray(never, dtype=np.int64))]
        count = min(len(rows), max(FEWEST, round(share * len(rows))))
        chosen.append(chance.choice(rows, count, replace=False))
    again: dict[str, list[pa.Table]] = defaultdict(list)
    predict_items(
        task,
        [np.concatenate(chosen)],
        lambda name, table: again[name].append(table),
        no_advance,
    )
    if UNREADABLE in again:
        reason = again[UNREADABLE][0]["why"][0]
        raise UsageError(f"A file that was read before cannot be read now: {reason}")
    total = np.zeros(5, dtype=np.int64)
    for name, tables in again.items():
        repeated, recorded = pa.concat_tables(tables), parts.read(name)
        kept = recorded.filter(pc.is_in(recorded["row"], repeated["row"].combine_chunks()))
        if len(kept) != len(repeated):
            raise UsageError(f"{folder} lacks samples for {name}: re-run the evaluation first.")
        # Part files are in the order of completion, so both tables are sorted in the same way.
        order = [("row", "ascending"), ("model", "ascending")]
        total += _compare(kept.sort_by(order), repeated.sort_by(order))
    return Comparison(*(int(number) for number in total))


def reject_changed(task: PredictionTask, folder: Path, models: Sequence[Model]) -> None:
    """Predict a few recorded samples again with these models, and compare.

    This is called before a run resumes, for models given as Python objects, whose recorded identity
    misses a change of their code.

    Raises:
        UsageError: If a model no longer gives its recorded predictions.
    """
    with lock_folder(folder):
        parts = PartFiles(folder, task.names)
        never = parts.read(UNREADABLE, ["row"])["row"] if UNREADABLE in parts.names() else []
        recorded_rows = np.setdiff1d(parts.done(), np.asarray(never, dtype=np.int64))
        rows = np.intersect1d(np.concatenate([s.row for s in task.groups]), recorded_rows)
        if not models or not len(rows):
            return
        chosen = np.random.default_rng(1).choice(rows, min(len(rows), N_REPEATED), replace=False)
        again: dict[str, list[pa.Table]] = defaultdict(list)
        predict_items(
            replace(task, models=models),
            [chosen],
            lambda name, table: again[name].append(table),
            no_advance,
        )
        for model in models:
            n_compared = n_other = 0
            for name, tables in again.items():
                if name == UNREADABLE:
                    continue
                repeated = pa.concat_tables(tables)
                old = _of_model(parts.read(name), model.name, repeated["row"])
                new = _of_model(repeated, model.name, old["row"])
                other = _are_other(old, new)
                n_compared, n_other = n_compared + len(other), n_other + int(other.sum())
            if n_other > MOST_CLOSE * n_compared:
                raise UsageError(
                    f"{folder.parent} contains a run of a different version of {model.name}:"
                    f" {n_other} of {n_compared} recorded samples are predicted differently now;"
                    " choose another --out, or delete this folder."
                )


def _of_model(table: pa.Table, model: str, rows: pa.ChunkedArray) -> pa.Table:
    """Return a model's predictions for these rows, sorted by row."""
    is_wanted = pc.and_(
        pc.equal(table["model"], model), pc.is_in(table["row"], rows.combine_chunks())
    )
    return table.filter(is_wanted).sort_by("row")


def _are_other(old: pa.Table, new: pa.Table) -> NDArray[np.bool_]:
    """Return, for samples with equal pixels, whether predictions differ by more than rounding."""
    # Another type of device may give other pixels, which say nothing about the model.
    same = old["pixels"].to_numpy() == new["pixels"].to_numpy()
    before, after = (table["margin"].to_numpy()[same] for table in (old, new))
    largest = np.maximum(before, after)
    is_class = (old["prediction"].to_numpy() != new["prediction"].to_numpy())[same]
    # Margins tell networks apart that agree on the class of every image.
    is_margin = np.abs(before - after) > MARGIN_CHANGE * (1 + largest)
    is_other: NDArray[np.bool_] = (is_class & (np.minimum(before, after) > MARGIN)) | is_margin
    return is_other


def _compare(old: pa.Table, new: pa.Table) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    before, after = (table["delta_v"].to_numpy() for table in (old, new))
    pixels = old["pixels"].to_numpy() != new["pixels"].to_numpy()
    nowhere = np.isnan(before) & np.isnan(after)
    # Written so that a NaN in only one of the tables counts as a difference.
    change = ~nowhere & ~(np.abs(before - after) <= CLOSE)
    other = old["prediction"].to_numpy() != new["prediction"].to_numpy()
    close = np.minimum(old["margin"].to_numpy(), new["margin"].to_numpy()) <= MARGIN
    return np.array(
        [len(pixels), pixels.sum(), change.sum(), (other & ~close).sum(), (other & close).sum()]
    )
