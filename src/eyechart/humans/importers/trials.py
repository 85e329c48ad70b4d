"""Import tables of trials with eyechart's own columns, one row per trial."""

from collections.abc import Sequence
from pathlib import Path

from eyechart.core.csv_table import read_rows
from eyechart.humans.human_responses import HumanResponses, are_simulated, make_responses
from eyechart.humans.import_settings import ImportSettings
from eyechart.humans.importing import corruption_of, read_labels, response_of

COLUMNS = ("corruption", "subject", "image", "label", "response", "delta_v")


def read(paths: Sequence[Path], options: ImportSettings) -> HumanResponses:
    """Return the responses in eyechart's tables of trials, one row per trial."""
    rows = [row for path in paths for row in read_rows(path, COLUMNS)]
    clean = [response_of(row["clean_response"]) if "clean_response" in row else "" for row in rows]
    raw_responses = [row["response"] for row in rows]
    labeled = read_labels(rows, "label", raw_responses, options, clean)
    return make_responses(
        len(rows),
        source="trials",
        corruption=[corruption_of(row, options) for row in rows],
        subject=[row["subject"] for row in rows],
        image=[row["image"] for row in rows],
        label=labeled.labels,
        response=labeled.responses,
        clean_response=clean,
        delta_v=[row.share("delta_v", unknown=True) for row in rows],
        choices=labeled.choices,
        label_space=labeled.label_space,
        simulated=are_simulated(rows),
    )
