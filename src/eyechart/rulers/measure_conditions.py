"""Measure rulers in the conditions of the human experiments, in part files that can be resumed.

For example images also the reverse: the strength of a condition at which a ruler has a given Δv.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from eyechart.core.arrays import FloatArray
from eyechart.core.progress import Advance, no_advance
from eyechart.core.storage.parts import ROW, Parts
from eyechart.images.imageset import ImageSet
from eyechart.rulers import conditions
from eyechart.rulers.conditions import Clean, Condition, amplitudes, make_clean, to_shown
from eyechart.rulers.human_experiments import EXPERIMENTS
from eyechart.rulers.vif_fit import compare_terms, describe_terms
from eyechart.visual_change.gray import to_gray
from eyechart.visual_change.ruler import Ruler

BATCH = 8
"""Number of images measured at once; a stopped study repeats at most this many."""

CONDITIONS = tuple(
    (experiment.name, name) for experiment in EXPERIMENTS.values() for name in experiment.parameters
)
"""All conditions; a condition's place here is part of the row numbers in part files."""

Columns = Mapping[str, FloatArray]


class Meter(Protocol):
    """Measures corrupted images against clean ones; its columns go into one table."""

    @property
    def table(self) -> str:
        """The name of the table, which differs between versions of a ruler."""

    def measure(self, clean: Tensor, corrupted: Sequence[Tensor]) -> list[Columns]:
        """Return the columns, one row per image, for each batch of corrupted gray images.

        Images are uint8 (B, H, W).
        """


@dataclass(frozen=True)
class RulerMeter:
    """A ruler's Δv, in the column `value`."""

    ruler: Ruler

    @property
    def table(self) -> str:
        """The name and version of the ruler."""
        return f"{self.ruler.name}-v{self.ruler.version}"

    def measure(self, clean: Tensor, corrupted: Sequence[Tensor]) -> list[Columns]:
        """Return Δv of each image."""
        description = self.ruler.describe(_color(clean))
        return [
            {"value": self.ruler.compare(description, _color(gray)).cpu().numpy()}
            for gray in corrupted
        ]


@dataclass(frozen=True)
class TermsMeter:
    """The terms of VIF after registration, in the columns `kept`, `total` and `angle`."""

    @property
    def table(self) -> str:
        """The name and version of the terms."""
        return "vif-terms-v2"

    def measure(self, clean: Tensor, corrupted: Sequence[Tensor]) -> list[Columns]:
        """Return the terms of each image."""
        description = describe_terms(clean)
        rows: list[Columns] = []
        for gray in corrupted:
            terms = compare_terms(description, gray)
            rows.append(
                {
                    "kept": terms.kept.cpu().numpy(),
                    "total": description.total.cpu().numpy(),
                    "angle": terms.angle.cpu().numpy(),
                }
            )
        return rows


def measure_conditions(
    images: ImageSet,
    experiments: Sequence[str],
    meters: Sequence[Meter],
    folder: Path,
    device: torch.device,
    advance: Advance = no_advance,
) -> None:
    """Measure every image in every condition, and write part files to a folder.

    Rows that are already in the folder are not measured again.

    Args:
        images: The images, all of the same size.
        experiments: The experiments whose conditions are regenerated.
        meters: What to measure.
        folder: The folder of the part files, which must exist.
        device: Where images are corrupted and measured.
        advance: Called with the number of conditions measured in a batch of images.
    """
    places = [place for place, (name, _) in enumerate(CONDITIONS) if name in experiments]
    done = {meter.table: set(Parts(folder, [meter.table]).done().tolist()) for meter in meters}
    mean_amplitude = _mean_amplitude(images, device)
    for start in range(0, len(images), BATCH):
        batch = list(range(start, min(start + BATCH, len(images))))
        # batches are written whole, so that the first image of a batch stands for all of it
        missing = {
            meter.table: [
                place for place in places if row_of(start, place) not in done[meter.table]
            ]
            for meter in meters
        }
        levels = to_gray(images.batch(batch).to(device))
        clean = make_clean(levels, mean_amplitude)
        # all meters see the same images
        needed = sorted({place for some in missing.values() for place in some})
        shown = {place: to_shown(_condition(place, clean)) for place in needed}
        for meter in meters:
            new = missing[meter.table]
            if new:
                columns = meter.measure(levels, [shown[place] for place in new])
                Parts(folder).write(meter.table, _rows(batch, new, columns))
            advance(len(places) * len(batch), "")


def read_measured(
    folder: Path, table: str, n_images: int, conditions: Sequence[tuple[str, str]]
) -> dict[str, FloatArray]:
    """Return the columns of a table as arrays (images, conditions, …)."""
    measured = Parts(folder, [table]).read(table)
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


def _condition(place: int, clean: Clean) -> Tensor:
    experiment, name = CONDITIONS[place]
    declared = EXPERIMENTS[experiment]
    return declared.condition(clean, declared.parameters[name])


def _color(gray: Tensor) -> Tensor:
    """Return gray images (B, H, W) with three equal channels, which networks expect."""
    return gray[:, None].expand(-1, 3, -1, -1)


def _mean_amplitude(images: ImageSet, device: torch.device) -> Tensor:
    """Return the mean amplitude spectrum of all images, for power equalisation."""
    total = None
    for start in range(0, len(images), BATCH):
        batch = images.batch(range(start, min(start + BATCH, len(images))))
        part = amplitudes(to_gray(batch.to(device))).sum(dim=0)
        total = part if total is None else total + part
    assert total is not None
    return total / len(images)


def _rows(batch: Sequence[int], places: Sequence[int], columns: Sequence[Columns]) -> pa.Table:
    numbers = np.array([row_of(image, place) for place in places for image in batch])
    # measured condition by condition, but numbered image by image
    order = np.argsort(numbers, kind="stable")
    table = {ROW: pa.array(numbers[order])}
    for name in columns[0]:
        values = np.concatenate([column[name] for column in columns])[order]
        flat = values.reshape(len(values), -1)
        if values.ndim == 1:
            table[name] = pa.array(values)
        else:
            table[name] = pa.FixedSizeListArray.from_arrays(pa.array(flat.ravel()), flat.shape[1])
    return pa.table(table)


EXAMPLE_CHANGE = 0.8
"""Δv of the example images; in the human experiments, rulers differ most around it."""

STEPS = 10
"""Number of halvings of the range of strengths."""

TOLERANCE = 0.02
"""Difference from the target up to which it counts as reached."""


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


@dataclass(frozen=True, eq=False)
class EqualRow:
    """One ruler's images at the same Δv.

    Attributes:
        ruler: The ruler's name.
        images: A gray image, uint8 (H, W), for each series; None if no strength reaches the Δv.
        captions: The strength of each image.
    """

    ruler: str
    images: tuple[Tensor | None, ...]
    captions: tuple[str, ...]


def equal_rows(
    gray: Tensor, rulers: Sequence[Ruler], delta_v: float, advance: Advance = no_advance
) -> list[EqualRow]:
    """Return an image, uint8 (H, W), at the same Δv by each ruler in every series.

    Rulers run on the device of `gray`; `advance` is called for each image.
    """
    rows = []
    for ruler in rulers:
        cells = []
        for series in SERIES:
            cells.append(at_equal_change(gray, ruler, series, delta_v))
            advance(1, "")
        rows.append(
            EqualRow(
                ruler.name,
                tuple(None if cell is None else cell[0] for cell in cells),
                tuple("" if cell is None else cell[1] for cell in cells),
            )
        )
    return rows


def at_equal_change(
    gray: Tensor, ruler: Ruler, series: Series, delta_v: float
) -> tuple[Tensor, str] | None:
    """Return an image, uint8 (H, W), at a Δv by a ruler, and its strength as text.

    Return None if no strength reaches the Δv. The ruler's value must rise with the strength; it is
    found by bisection.
    """
    clean = make_clean(gray[None])
    description = ruler.describe(gray[None, None].expand(-1, 3, -1, -1))

    def image(share: float) -> Tensor:
        return to_shown(series.condition(clean, (series.parameter(share),)))

    def change(share: float) -> float:
        return float(ruler.compare(description, image(share)[:, None].expand(-1, 3, -1, -1))[0])

    low, high = 0.0, 1.0
    for _ in range(STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if change(middle) < delta_v else (low, middle)
    found = min((low, high), key=lambda share: abs(change(share) - delta_v))
    if abs(change(found) - delta_v) > TOLERANCE:
        return None
    return image(found)[0].cpu(), series.text.format(series.parameter(found))
