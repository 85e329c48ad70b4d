"""Measure rulers in the conditions of the human experiments, in part files that can be resumed.

For example images also the reverse: the strength of a condition at which a ruler has a given Δv.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from eyechart.core.arrays import FloatArray
from eyechart.core.progress import Advance, no_advance
from eyechart.core.storage.parts import ROW, PartFiles
from eyechart.images.imageset import ImageSet
from eyechart.rulers import conditions
from eyechart.rulers.conditions import Condition, amplitudes, make_clean, to_shown
from eyechart.rulers.human_experiments import EXPERIMENTS
from eyechart.visual_change.gray import to_gray
from eyechart.visual_change.ruler import Ruler

BATCH = 8
"""Number of images measured at once; a stopped study repeats at most this many."""

EXAMPLE_CHANGE = 0.8
"""Δv of the example images; in the human experiments, rulers differ most around it."""

STEPS = 10
"""Number of halvings of the range of strengths."""

TOLERANCE = 0.02
"""Difference from the target up to which it counts as reached."""

CONDITIONS = tuple(
    (experiment.name, name) for experiment in EXPERIMENTS.values() for name in experiment.parameters
)
"""All conditions; a condition's place here is part of the row numbers in part files."""

Measure = Callable[[Tensor, Sequence[Tensor]], list[dict[str, FloatArray]]]
"""Measures batches of corrupted gray images, uint8 (B, H, W), against the clean ones.

Returns the columns of a table for each batch, with a row per image.
"""

TERMS_TABLE = "vif-terms-v2"
"""The table of the terms of VIF after registration, as `vif_fit.measure_terms` returns them."""


def ruler_table(ruler: Ruler) -> str:
    """Return the name of the table of a ruler's Δv, which differs between its versions."""
    return f"{ruler.name}-v{ruler.version}"


def measure_ruler(
    ruler: Ruler, clean: Tensor, corrupted: Sequence[Tensor]
) -> list[dict[str, FloatArray]]:
    """Return a ruler's Δv of each image, in the column `value`."""
    description = ruler.describe(_color(clean))
    return [{"value": ruler.compare(description, _color(gray)).cpu().numpy()} for gray in corrupted]


def measure_conditions(
    images: ImageSet,
    experiments: Sequence[str],
    measures: Mapping[str, Measure],
    folder: Path,
    device: torch.device,
    advance: Advance = no_advance,
) -> None:
    """Measure every image in every condition, and write part files to a folder.

    Rows that are already in the folder are not measured again.

    Args:
        images: The images, all of the same size.
        experiments: The experiments whose conditions are regenerated.
        measures: What to measure, by the name of its table.
        folder: The folder of the part files, which must exist.
        device: Where images are corrupted and measured.
        advance: Called with the number of conditions measured in a batch of images.
    """
    places = [place for place, (name, _) in enumerate(CONDITIONS) if name in experiments]
    done = {table: set(PartFiles(folder, [table]).done().tolist()) for table in measures}
    mean_amplitude = _mean_amplitude(images, device)
    for start in range(0, len(images), BATCH):
        batch = list(range(start, min(start + BATCH, len(images))))
        # batches are written whole, so that the first image of a batch stands for all of it
        missing = {
            table: [place for place in places if row_of(start, place) not in done[table]]
            for table in measures
        }
        levels = to_gray(images.batch(batch).to(device))
        clean = make_clean(levels, mean_amplitude)
        # everything is measured on the same images
        needed = sorted({place for some in missing.values() for place in some})
        shown = {}
        for place in needed:
            experiment = EXPERIMENTS[CONDITIONS[place][0]]
            parameters = experiment.parameters[CONDITIONS[place][1]]
            shown[place] = to_shown(experiment.condition(clean, *parameters))
        for table, measure in measures.items():
            new = missing[table]
            if new:
                columns = measure(levels, [shown[place] for place in new])
                PartFiles(folder).write(table, _rows(batch, new, columns))
            advance(len(places) * len(batch), "")


def read_measured(
    folder: Path, table: str, n_images: int, conditions: Sequence[tuple[str, str]]
) -> dict[str, FloatArray]:
    """Return the columns of a table as arrays (images, conditions, …)."""
    measured = PartFiles(folder, [table]).read(table)
    places = [CONDITIONS.index(condition) for condition in conditions]
    rows = [row_of(image, place) for image in range(n_images) for place in places]
    # sorted by row number, which `read` guarantees
    index = np.searchsorted(measured[ROW].to_numpy(), rows)
    columns = {}
    for name in measured.column_names:
        if name != ROW:
            values = measured[name].to_numpy()
            if values.dtype == object:
                # a column of lists
                values = np.stack(values)
            columns[name] = values[index].reshape(n_images, len(places), *values.shape[1:])
    return columns


def row_of(image: int, place: int) -> int:
    """Return the row number of an image in a condition."""
    return image * len(CONDITIONS) + place


def _color(gray: Tensor) -> Tensor:
    """Return gray images (B, H, W) with three equal channels, which networks expect."""
    return gray[:, None].expand(-1, 3, -1, -1)


def _mean_amplitude(images: ImageSet, device: torch.device) -> Tensor:
    """Return the mean amplitude spectrum of all images, for power equalisation."""
    total = torch.zeros((), dtype=torch.float64, device=device)
    for start in range(0, len(images), BATCH):
        batch = images.batch(range(start, min(start + BATCH, len(images))))
        total = total + amplitudes(to_gray(batch.to(device))).sum(dim=0)
    return total / len(images)


def _rows(
    batch: Sequence[int], places: Sequence[int], columns: Sequence[Mapping[str, FloatArray]]
) -> pa.Table:
    numbers = np.array([row_of(image, place) for place in places for image in batch])
    # measured condition by condition, but numbered image by image
    order = np.argsort(numbers, kind="stable")
    table = {ROW: pa.array(numbers[order])}
    for name in columns[0]:
        values = np.concatenate([column[name] for column in columns])[order]
        flat = pa.array(values.ravel())
        if values.ndim == 1:
            table[name] = flat
        else:
            table[name] = pa.FixedSizeListArray.from_arrays(flat, values[0].size)
    return pa.table(table)


@dataclass(frozen=True)
class Series:
    """A condition whose strength rises with a share from 0 to 1."""

    title: str
    condition: Condition
    parameter: Callable[[float], float]
    text: str


SERIES = (
    Series("contrast", conditions.contrast, lambda share: 0.01**share, "{:.0%}"),
    Series("low-pass", conditions.low_pass, lambda share: 0.3 * 150**share, "σ {:.1f}"),
    Series("high-pass", conditions.high_pass, lambda share: 8 * 0.05**share, "σ {:.2f}"),
    Series("uniform noise", conditions.uniform_noise, lambda share: 0.9 * share, "± {:.2f}"),
    Series("phase", conditions.phase_scrambling, lambda share: 180 * share, "± {:.0f}°"),
)
"""The experiments with a continuous strength, from weak to strong."""


EqualImage = tuple[Tensor, str]
"""A gray image, uint8 (H, W), and its strength as text."""


def equal_rows(
    gray: Tensor, rulers: Sequence[Ruler], delta_v: float, advance: Advance = no_advance
) -> dict[str, list[EqualImage | None]]:
    """Return images at the same Δv by each ruler, in every series.

    Rulers run on the device of `gray`, uint8 (H, W); `advance` is called for each image.

    Returns:
        For each ruler's name an image for each series; None if no strength reaches the Δv.
    """
    rows: dict[str, list[EqualImage | None]] = {}
    for ruler in rulers:
        row = rows.setdefault(ruler.name, [])
        for series in SERIES:
            row.append(at_equal_change(gray, ruler, series, delta_v))
            advance(1, "")
    return rows


def at_equal_change(
    gray: Tensor, ruler: Ruler, series: Series, delta_v: float
) -> EqualImage | None:
    """Return an image at a Δv by a ruler, and its strength as text.

    Return None if no strength reaches the Δv. The ruler's value must rise with the strength; it is
    found by bisection.
    """
    clean = make_clean(gray[None])
    description = ruler.describe(_color(gray[None]))

    def image(share: float) -> Tensor:
        return to_shown(series.condition(clean, series.parameter(share)))

    def change(share: float) -> float:
        return float(ruler.compare(description, _color(image(share)))[0])

    low, high = 0.0, 1.0
    for _ in range(STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if change(middle) < delta_v else (low, middle)
    found = min((low, high), key=lambda share: abs(change(share) - delta_v))
    if abs(change(found) - delta_v) > TOLERANCE:
        return None
    return image(found)[0].cpu(), series.text.format(series.parameter(found))
