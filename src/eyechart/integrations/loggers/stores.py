"""Store results with MLflow, Weights & Biases and TensorBoard, by default on this machine."""

import os
import shutil
import time
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from eyechart.integrations.loggers.log_results import LogRecord

EXPERIMENT = "eyechart"
"""Experiment that contains the runs, unless MLFLOW_EXPERIMENT_NAME is set."""

MAX_METRICS, MAX_PARAMS = 1000, 100
"""Maximum numbers of metrics and of params in one request."""

MAX_TEXT = 6000
"""Maximum length of a param's value; longer values are complete only in results.json."""


def log_to_mlflow(record: LogRecord) -> str:
    """Store the record as one MLflow run, which is a child of the active run if there is one."""
    mlflow = import_module("mlflow")
    client = mlflow.MlflowClient()
    parent = mlflow.active_run()
    if parent is not None:
        experiment = parent.info.experiment_id
    else:
        title = os.environ.get("MLFLOW_EXPERIMENT_NAME", EXPERIMENT)
        known = client.get_experiment_by_name(title)
        experiment = client.create_experiment(title) if known is None else known.experiment_id
    tags = {} if parent is None else {"mlflow.parentRunId": parent.info.run_id}
    run = client.create_run(experiment, run_name=record.name, tags=tags).info.run_id
    # shown as failed in MLflow unless everything was stored
    status = "FAILED"
    try:
        entities = import_module("mlflow.entities")
        now = int(1000 * time.time())
        metrics = [entities.Metric(*item, now, 0) for item in record.metrics.items()]
        for start in range(0, len(metrics), MAX_METRICS):
            client.log_batch(run, metrics=metrics[start : start + MAX_METRICS])
        params = [
            entities.Param(name, str(value)[:MAX_TEXT]) for name, value in record.settings.items()
        ]
        for start in range(0, len(params), MAX_PARAMS):
            client.log_batch(run, params=params[start : start + MAX_PARAMS])
        for path in (*record.figures, *record.files):
            client.log_artifact(run, str(path))
        status = "FINISHED"
    finally:
        client.set_terminated(run, status)
    return f"Logged to MLflow: run {run}, {mlflow.get_tracking_uri()}."


PROJECT = "eyechart"
"""Project of the runs, unless WANDB_PROJECT is set."""

Untyped = Any
"""Type of W&B objects: not checked, because W&B may not be installed."""

WANDB_FOLDER = "eyechart"
"""Folder in a W&B run that contains the stored files."""


def log_to_wandb(record: LogRecord) -> str:
    """Store the record in the active run of W&B, or in a new run if none is active."""
    wandb = import_module("wandb")
    if wandb.run is not None:
        # Settings of the active run may have the same names.
        wandb.run.config.update({WANDB_FOLDER: dict(record.settings)}, allow_val_change=True)
        _store_in_wandb(wandb.run, record)
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
        _store_in_wandb(run, record)
        folder, url, is_offline = Path(run.dir).parent, run.url, run.offline
        status = 0
    finally:
        run.finish(exit_code=status)
    if is_offline:
        return f"Logged to Weights & Biases: {folder}; upload it with  wandb sync {folder}."
    return f"Logged to Weights & Biases: {url or folder}."


def _store_in_wandb(run: Untyped, record: LogRecord) -> None:
    """Store scores, figures and files in a run."""
    wandb = import_module("wandb")
    images = {path.stem: wandb.Image(str(path)) for path in record.figures}
    run.log({**record.metrics, **images})
    home = Path(run.dir)
    for path in record.files:
        # A copy, because W&B would otherwise keep a link to a file that may be deleted.
        copy = home / WANDB_FOLDER / path.name
        copy.parent.mkdir(exist_ok=True)
        shutil.copyfile(path, copy)
        run.save(str(copy), base_path=str(home), policy="now")


EVENTS = "tensorboard"
"""Subfolder of a run folder that contains the event files."""

RUNS = Path("runs")
"""Folder of the event files if the results have no run folder; it is torch's default."""


def log_to_tensorboard(record: LogRecord) -> str:
    """Store the record as event files; results.json and the report stay where they are."""
    date = str(record.settings["date"]).replace(":", "")
    folder = RUNS / f"{record.name}-{date}" if record.folder is None else record.folder / EVENTS
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
