"""Store results as TensorBoard event files, in the run folder or in ./runs."""

from importlib import import_module
from pathlib import Path

import numpy as np
from PIL import Image

from eyechart.integrations.loggers.log_results import LogRecord

FOLDER = "tensorboard"
"""Subfolder of a run folder that contains the event files."""

HOME = Path("runs")
"""Folder of the event files if the results have no run folder; it is torch's default."""


def log(record: LogRecord) -> str:
    """Store the record as event files; results.json and the report stay where they are."""
    date = str(record.settings["date"]).replace(":", "")
    folder = HOME / f"{record.name}-{date}" if record.folder is None else record.folder / FOLDER
    with import_module("torch.utils.tensorboard").SummaryWriter(str(folder)) as writer:
        for name, number in record.metrics.items():
            writer.add_scalar(name, number, 0)
        for path in record.figures:
            with Image.open(path) as figure:
                pixels = np.asarray(figure.convert("RGB"))
            writer.add_image(path.stem, pixels, 0, dataformats="HWC")
        writer.add_text("settings", _table(record), 0)
    return f"Logged to TensorBoard: {folder}; view it with  tensorboard --logdir {folder}."


def _table(record: LogRecord) -> str:
    """Return the settings as a Markdown table, which TensorBoard renders."""
    rows = [f"| {name} | {_cell(value)} |" for name, value in record.settings.items()]
    return "\n".join(["| setting | value |", "|---|---|", *rows])


def _cell(value: object) -> str:
    return str(value).replace("|", "\\|").replace("\n", " ")
