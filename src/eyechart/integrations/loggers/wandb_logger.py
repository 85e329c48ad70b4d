"""Store results with Weights & Biases: by default offline, in the folder wandb."""

import os
import shutil
from importlib import import_module
from pathlib import Path
from typing import Any

from eyechart.integrations.loggers.log_results import LogRecord

PROJECT = "eyechart"
"""Project of the runs, unless WANDB_PROJECT is set."""

Untyped = Any
"""Type of W&B objects: not checked, because W&B may not be installed."""

FOLDER = "eyechart"
"""Folder in a W&B run that contains the stored files."""


def log(record: LogRecord) -> str:
    """Store the record in the active W&B run, or in a new run if none is active."""
    wandb = import_module("wandb")
    if wandb.run is not None:
        # Settings of the active run may have the same names.
        wandb.run.config.update({FOLDER: dict(record.settings)}, allow_val_change=True)
        _store(wandb.run, record)
        return f"Logged to Weights & Biases: the active run {wandb.run.name}."
    run = wandb.init(
        project=os.environ.get("WANDB_PROJECT", PROJECT),
        name=record.name,
        config=dict(record.settings),
        # W&B would otherwise use the working directory of the first run of the process.
        dir=os.environ.get("WANDB_DIR", os.getcwd()),
        # Nothing is sent unless the user asks for it.
        mode=os.environ.get("WANDB_MODE", "offline"),
        settings=wandb.Settings(silent=True, console="off"),
    )
    # shown as failed unless everything was stored
    status = 1
    try:
        _store(run, record)
        folder, url, is_offline = Path(run.dir).parent, run.url, run.offline
        status = 0
    finally:
        run.finish(exit_code=status)
    if is_offline:
        return f"Logged to Weights & Biases: {folder}; upload it with  wandb sync {folder}."
    return f"Logged to Weights & Biases: {url or folder}."


def _store(run: Untyped, record: LogRecord) -> None:
    """Store scores, figures and files in a run."""
    wandb = import_module("wandb")
    images = {path.stem: wandb.Image(str(path)) for path in record.figures}
    run.log({**record.metrics, **images})
    home = Path(run.dir)
    for path in record.files:
        # A copy, because W&B would otherwise keep a link to a file that may be deleted.
        copy = home / FOLDER / path.name
        copy.parent.mkdir(exist_ok=True)
        shutil.copyfile(path, copy)
        run.save(str(copy), base_path=str(home), policy="now")
