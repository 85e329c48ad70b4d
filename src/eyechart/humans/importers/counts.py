"""Import tables of counts by Δv: number of responses and number of hits."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from eyechart.core.csv_table import column_names, read_rows
from eyechart.core.errors import UsageError
from eyechart.humans.human_responses import HumanResponses, make_responses
from eyechart.humans.import_settings import ImportSettings

COUNTED = {"accuracy": ("num_accs", "correct"), "preserved": ("num_pre", "consistent")}
"""Maps each column of rates to its column of hit counts and to the field that it fills."""

CHOICES = 2
"""Number of choices in the experiment for which this format was made."""


def read(paths: Sequence[Path], options: ImportSettings) -> HumanResponses:
    """Return the responses in tables that count correct or consistent responses by Δv."""
    rows: list[tuple[str, float, int, dict[str, float]]] = []
    for path in paths:
        rate = next((name for name in COUNTED if name in column_names(path)), None)
        if rate is None:
            raise UsageError(f"{path} lacks the column Accuracy or Preserved.")
        number, known = COUNTED[rate]
        for row in read_rows(path, ("iqa", rate, "count", number)):
            total, hits = row.whole("count"), row.whole(number)
            # The tables also list empty bins.
            if not total:
                continue
            # Rates in these tables are rounded; a larger difference means an inconsistent row.
            if abs(hits / total - row.share(rate)) > 1e-3:
                raise row.rejection(f"{rate} is not {number} / count: fix the row or remove it")
            corruption = row.cells.get("corruption") or options.corruption
            if not corruption:
                raise UsageError(
                    f"{path} does not name the corruption of the images: pass a corruption."
                )
            rows.append((corruption, row.share("iqa"), total, {known: hits / total}))
    if not rows:
        raise UsageError(f"{paths[0]} contains no responses.")
    corruptions, delta_v, trials, rates = zip(*rows, strict=True)
    return make_responses(
        len(rows),
        source="counts",
        choices=options.choices or CHOICES,
        label_space=options.label_space or f"{options.choices or CHOICES} choices",
        corruption=corruptions,
        delta_v=delta_v,
        trials=trials,
        correct=[rate.get("correct", np.nan) for rate in rates],
        consistent=[rate.get("consistent", np.nan) for rate in rates],
    )
