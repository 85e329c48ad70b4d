"""Store results with MLflow: on its tracking server, or in ./mlflow.db and ./mlruns."""

import os
import time
from importlib import import_module

from eyechart.integrations.loggers.log_results import LogRecord

EXPERIMENT = "eyechart"
"""Experiment that contains the runs, unless MLFLOW_EXPERIMENT_NAME is set."""

MAX_METRICS, MAX_PARAMS = 1000, 100
"""Maximum numbers of metrics and of params in one request."""

MAX_TEXT = 6000
"""Maximum length of a param's value; longer values are complete only in results.json."""


def log(record: LogRecord) -> str:
    """Store the record as one run, which is a child of the active run if there is one."""
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
