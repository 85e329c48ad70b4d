"""Engines, which determine the process that runs each work item, and the in-process engine.

An engine gets the remaining work of a run and one callback; the loop is in `loop`.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from eyechart.core.progress import Advance
from eyechart.core.storage.locks import lock_folder
from eyechart.core.storage.parts import PartFiles
from eyechart.predictions.compute_settings import ENGINES, ComputeSettings
from eyechart.predictions.loop import PredictionTask, WorkItem, predict_items
from eyechart.predictions.reading import UNREADABLE, left_out, reject_unless_few


class Engine(Protocol):
    """Runs all work items, each once, in any order and in any process.

    Tasks and items can be pickled and mean the same in every process. Each process that writes
    part files needs a different `writer` number: `part_files(task, folder, writer)`.
    """

    def run(
        self,
        task: PredictionTask,
        items: Sequence[WorkItem],
        folder: Path,
        advance: Advance,
        settings: ComputeSettings,
    ) -> None:
        """Run the items; their predictions are in part files when this returns.

        Args:
            task: What to predict.
            items: The remaining work items of the task.
            folder: Folder for part files.
            advance: Called in the calling process with the number of samples newly written to disk,
                and a message or "".
            settings: The devices and machines that the engine may use.
        """


class InProcess:
    """Runs all items in this process, on the task's device."""

    def run(
        self,
        task: PredictionTask,
        items: Sequence[WorkItem],
        folder: Path,
        advance: Advance,
        settings: ComputeSettings,
    ) -> None:
        """Run all items in one loop, so that images are read ahead across items."""
        predict_items(task, items, part_files(task, folder).write, advance)


IN_PROCESS_ENGINE = InProcess()


def predict(
    task: PredictionTask,
    folder: Path,
    advance: Advance,
    settings: ComputeSettings = ComputeSettings(),  # noqa: B008 (frozen)
) -> None:
    """Predict every sample that is not in `folder` yet; `advance` receives each stored sample."""
    engine = ENGINES[settings.engine_name]
    # Two runs in one folder would predict the same samples and merge each other's part files.
    with lock_folder(folder):
        parts = part_files(task, folder)
        for note in parts.notes():
            advance(0, note)
        # Files that could not be read may have been fixed since: try them again.
        parts.drop(UNREADABLE)
        done = parts.done()
        items = task.items(done)
        # Images without content have negative row numbers and are not samples.
        n_left = sum(int((item >= 0).sum()) for item in items)
        advance(task.n_samples - n_left, "")
        if items:
            engine.run(task, items, folder, advance, settings)
        # Counted over all writers of part files, because a loop counts only its own.
        reject_unless_few(left_out(folder), task.images)
        parts.merge()


def part_files(task: PredictionTask, folder: Path, writer: int = 0) -> PartFiles:
    """Return the part files of a task's predictions; Parquet files with other names are ignored."""
    return PartFiles(folder, task.names, writer)
