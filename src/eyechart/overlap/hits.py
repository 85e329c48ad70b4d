"""Which test pictures each model of a study was right on, as its folder keeps them.

`tests/SEED/NAME.parquet`: of clean pictures and of each corruption, a column for each model.
"""

from pathlib import Path

import numpy as np

from eyechart.core.errors import UsageError
from eyechart.core.parts import file_name, read_parquet
from eyechart.core.run_folder import RECORD, read_settings
from eyechart.overlap.intervals import Hits
from eyechart.overlap.tables import AccuracyTable

FOLDER = "tests"


def read_hits(folder: Path, table: AccuracyTable, whole: bool = False) -> Hits | None:
    """Return hits (seeds, models, tests, pictures) as `overlap_intervals` takes them.

    None if the folder keeps none. Models and tests are those of the table; the models that were
    trained on whole benchmarks are among them only if `whole` is true.
    """
    seeds = sorted(path for path in (folder / FOLDER).glob("*") if path.is_dir())
    if not seeds:
        return None
    models = list(table.models if whole else table.models[: 1 + len(table.corruptions)])
    found = []
    for seed in seeds:
        for test in table.tests:
            own = read_parquet(seed / f"{file_name(test)}.parquet", models)
            found.append(np.stack([own[name].to_numpy().astype(bool) for name in models]))
    counts = {own.shape[1] for own in found}
    if len(counts) > 1:
        raise UsageError(
            f"{folder / FOLDER} must hold the same pictures for every test, got"
            f" {' and '.join(f'{count:,}' for count in sorted(counts)[:2])} of them."
        )
    shape = (len(seeds), len(table.tests), len(models), counts.pop())
    return np.stack(found).reshape(shape).swapaxes(1, 2)


def count_classes(folder: Path) -> int | None:
    """Return how many classes the pictures of a study have; None if it does not say."""
    if not (folder / RECORD).is_file():
        return None
    classes = read_settings(folder / RECORD).get("classes")
    return len(classes) if isinstance(classes, list) and len(classes) > 1 else None
