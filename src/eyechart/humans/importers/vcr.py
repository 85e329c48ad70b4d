"""Import tables with the columns of the VCR study, one row per response."""

from collections.abc import Sequence
from pathlib import Path

from eyechart.core.csv_table import read_rows
from eyechart.humans.human_responses import HumanResponses, make_responses
from eyechart.humans.import_settings import ImportSettings
from eyechart.humans.importing import corruption_of, read_labels, response_of

COLUMNS = ("orig_pred", "transf_pred", "label", "vd_score")


def read(paths: Sequence[Path], options: ImportSettings) -> HumanResponses:
    """Return the responses in tables with the columns of the VCR study.

    `transf_pred` is the response to the corrupted image, `orig_pred` is another participant's
    response to the clean image, and `vd_score` is Δv.
    """
    rows = [row for path in paths for row in read_rows(path, COLUMNS)]
    clean = [response_of(row["orig_pred"]) for row in rows]
    raw_responses = [row["transf_pred"] for row in rows]
    labeled = read_labels(rows, "label", raw_responses, options, clean)
    return make_responses(
        len(rows),
        source="vcr",
        corruption=[corruption_of(row, options) for row in rows],
        subject=[row.cells.get("subject", "") for row in rows],
        image=[row.cells.get("image", "") for row in rows],
        label=labeled.labels,
        response=labeled.responses,
        clean_response=clean,
        # The study's code does not clamp Δv at 0, so small negative values are valid.
        delta_v=[row.share("vd_score", unknown=True, below=True) for row in rows],
        choices=labeled.choices,
        label_space=labeled.label_space,
    )
