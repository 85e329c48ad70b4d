"""A gallery: one image under every corruption of a suite, at increasing severity or at given Δv.

This module computes the cells; `image_sheets` arranges them as an image, `html.page` as a page.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isnan, nan

import numpy as np
import torch
from PIL import Image, ImageOps

from eyechart.core.arguments import as_int
from eyechart.core.arrays import FloatArray, IntArray
from eyechart.core.errors import UsageError
from eyechart.core.phrases import listed, plural
from eyechart.core.randomness import ImageRandom
from eyechart.core.registry import one_of
from eyechart.corruptions.declaration import Parameter, Values
from eyechart.corruptions.suites.apply import corrupt_batch, draw_random
from eyechart.corruptions.suites.assets import assets_of, ready_entries
from eyechart.corruptions.suites.strength import Strengths, resolve
from eyechart.corruptions.suites.suite import STRONGEST, Entry, Suite
from eyechart.images.identity import named_keys
from eyechart.images.image_types import MAX_SIDE, SMALLEST_SIDE, Batch, to_rgb_levels
from eyechart.reports.number_text import delta_v_text
from eyechart.testsets.samples import LEVELS, mildest
from eyechart.visual_change.registry import (
    DEFAULT_RULER,
    find_ruler,
    geometry_rulers,
    measures_geometry,
)
from eyechart.visual_change.ruler import CleanDescription, Ruler

SYMBOLS = {"sigma": "σ"}
"""Parameters that have a symbol."""

UNITS = {"px": " px", "degrees": "°", "degree": "°", "°": "°", "%": " %", "percent": " %"}
"""Units that are short enough for a caption."""

MAX_COLUMNS = 50
"""Maximum number of severities side by side."""

FEW_LEVELS = 12
"""Maximum number of strength levels for which every level is measured."""

CLOSE = 0.004
"""Tolerance of Δv around its target: about a sixth of a bin."""

MOST_STEPS = 14
"""Maximum number of steps per sample; with integer kernel sizes, Δv may never get close enough."""

NARROWEST = 1e-4
"""Width of the bracket, in severities, below which the search stops."""

Measure = Callable[[IntArray, FloatArray], FloatArray]
"""A function that returns Δv for rows and their severities."""


@dataclass(frozen=True)
class GalleryImage:
    """One corrupted image with its captions.

    Attributes:
        image: The corrupted image.
        severity: Its severity.
        delta_v: Its visual change; NaN if it is undefined.
        parameter: The value of its main parameter, such as "σ = 0.4"; "" if there is none.
        note: How its Δv differs from the requested one; "" if it does not.
    """

    image: Image.Image
    severity: float
    delta_v: float
    parameter: str
    note: str = ""

    @property
    def severity_text(self) -> str:
        """The severity as shown in captions."""
        return f"severity {self.severity:.2g}"

    @property
    def delta_v_text(self) -> str:
        """Δv as shown in captions."""
        return f"Δv {delta_v_text(None if isnan(self.delta_v) else self.delta_v)}"


@dataclass(frozen=True)
class GalleryRow:
    """One corruption with increasing strength; `note` states why it has no Δv, "" if it has one."""

    name: str
    summary: str
    cells: tuple[GalleryImage, ...]
    note: str = ""


@dataclass(frozen=True)
class Gallery:
    """A complete gallery; `ruler` states in words by which ruler Δv was measured.

    `groups`: the rows of each published group (noise, blur, …).
    """

    title: str
    subtitle: str
    ruler: str
    source: str
    clean: Image.Image
    groups: Mapping[str, tuple[GalleryRow, ...]]


@dataclass(frozen=True, eq=False)
class _CleanImage:
    """The image to corrupt, uint8 (1, C, H, W), with what corrupts and measures it.

    `description` is None if the image is too small for the ruler.
    """

    pixels: Batch
    key: str
    seed: int
    ruler: Ruler
    description: CleanDescription | None

    def random(self, entry: Entry, count: int) -> ImageRandom:
        """Return random numbers that are equal for all of `count` images."""
        # One key for all images: random numbers do not depend on severity, so that along a row only
        # the strength changes.
        keys = named_keys([self.key] * count, count)
        return draw_random(entry, keys, self.seed, 0, keys.device)

    def corrupt(self, entry: Entry, severity: Values) -> Batch:
        """Return the image at each severity."""
        count = len(severity)
        batch = self.pixels.expand(count, *self.pixels.shape[1:])
        random = self.random(entry, count)
        return corrupt_batch(batch, entry, Strengths(severity), random, assets_of(entry))

    def measure(self, corrupted: Batch) -> FloatArray:
        """Return Δv of each corrupted image; NaN where it is undefined."""
        if self.description is None:
            return np.full(len(corrupted), nan)
        return self.ruler.compare(self.description, to_rgb_levels(corrupted)).numpy()

    def measure_at(self, entry: Entry, severity: Values) -> FloatArray:
        """Return Δv of the image at each severity."""
        return self.measure(self.corrupt(entry, severity))

    def why_undefined(self, entry: Entry) -> str:
        """Return why Δv is undefined under a corruption; "" if it is defined."""
        if self.description is None:
            return f"{self.ruler.name} needs images of at least {self.ruler.smallest_side} px"
        if entry.geometric and not measures_geometry(self.ruler.name):
            rulers = one_of(geometry_rulers())
            return f"the corruption moves image content, which needs --ruler {rulers}"
        return "" if self.description.measurable.all() else "the image is nearly constant"


def make_gallery(
    image: Image.Image,
    suite: Suite,
    *,
    name: str,
    key: str,
    columns: int,
    size: int,
    seed: int,
    ruler: str = DEFAULT_RULER,
    delta_v: Sequence[float] = (),
) -> Gallery:
    """Return the gallery of an image (RGB or L), cropped to a square of `size` px.

    `name` is the title of the image; `key` identifies it for random number generation. The images
    are at `columns` severities, or at each Δv of `delta_v` by the ruler.
    """
    as_int(columns, "columns", 1, MAX_COLUMNS)
    as_int(size, "size", SMALLEST_SIDE, MAX_SIDE)
    targets = _targets(delta_v)
    clean = ImageOps.fit(image, (size, size), Image.Resampling.LANCZOS)
    planes = np.atleast_3d(np.array(clean)).transpose(2, 0, 1)
    pixels, measured_by = torch.from_numpy(planes.copy())[None], find_ruler(ruler)
    is_large = min(clean.size) >= measured_by.smallest_side
    description = measured_by.describe(to_rgb_levels(pixels)) if is_large else None
    subject = _CleanImage(pixels, key, seed, measured_by, description)
    entries = ready_entries(suite)
    reasons = [subject.why_undefined(entry) for entry in entries]
    if len(targets) and all(reasons):
        raise UsageError(f"--delta-v needs a defined Δv, but {reasons[0]}.")
    rows: dict[str, list[GalleryRow]] = {}
    for entry in entries:
        rows.setdefault(entry.group, []).append(_row(subject, entry, columns, targets))
    what = "at increasing severity"
    if len(targets):
        what = f"at Δv {listed([f'{target:g}' for target in targets])}"
    return Gallery(
        title=suite.title,
        subtitle=f"{name}, {size} px, under {len(entries)} {plural(len(entries), 'corruption')}"
        f" {what}",
        ruler=_ruler_text(subject),
        source=suite.source,
        clean=clean,
        groups={group: tuple(members) for group, members in rows.items()},
    )


def _targets(delta_v: Sequence[float]) -> FloatArray:
    as_int(len(delta_v), "The number of --delta-v", 0, MAX_COLUMNS)
    for target in delta_v:
        if not 0 < target <= 1:
            raise UsageError(f"--delta-v must be above 0 and at most 1, got {target:g}.")
    return np.array(delta_v, dtype=np.float64)


def _ruler_text(clean: _CleanImage) -> str:
    text = f"Δv by the ruler {clean.ruler.name}"
    if clean.description is not None and min(clean.pixels.shape[-2:]) < clean.ruler.full_side:
        n_scales = clean.description.n_scales
        text += f" at {n_scales} {plural(n_scales, 'scale')}, as images are small"
    return f"{text}. {clean.ruler.summary}"


def severities(entry: Entry, columns: int) -> Values:
    """Return increasing severities up to 5: published levels if there are any, else equal steps.

    Without published levels, severity 1 is the mild end of the range, which is hardly visible, so
    the steps start above it.
    """
    if entry.levels and columns > 1:
        return np.linspace(1, 5, columns)
    return 1 + 4 * np.arange(1, columns + 1) / columns


def _row(clean: _CleanImage, entry: Entry, columns: int, targets: FloatArray) -> GalleryRow:
    name, summary, why = entry.name, entry.corruption.summary, clean.why_undefined(entry)
    note = f"Δv undefined: {why}." if why else ""
    if not len(targets):
        return GalleryRow(name, summary, _cells(clean, entry, severities(entry, columns)), note)
    if why:
        return GalleryRow(name, summary, (), note)
    severity, notes = _find_targets(clean, entry, targets)
    cells = _cells(clean, entry, severity)
    noted = (replace(cell, note=note) for cell, note in zip(cells, notes, strict=True))
    return GalleryRow(name, summary, tuple(noted))


def _cells(clean: _CleanImage, entry: Entry, severity: Values) -> tuple[GalleryImage, ...]:
    corrupted = clean.corrupt(entry, severity)
    delta_v = clean.measure(corrupted)
    if clean.why_undefined(entry):
        delta_v = np.full_like(delta_v, nan)
    side = min(clean.pixels.shape[-2:])
    values = resolve(entry, severity, {}, side, clean.random(entry, len(severity)))
    captions = _captions(entry, values, len(severity))
    # Pillow takes (H, W) or (H, W, 3).
    images = (Image.fromarray(one.permute(1, 2, 0).squeeze().numpy()) for one in corrupted)
    return tuple(
        GalleryImage(image, float(level), float(change), caption)
        for image, level, change, caption in zip(images, severity, delta_v, captions, strict=True)
    )


def _find_targets(
    clean: _CleanImage, entry: Entry, targets: FloatArray
) -> tuple[Values, list[str]]:
    """Return the severity whose Δv is nearest to each target, and how it differs, in words."""

    def measure(rows: IntArray, severity: FloatArray) -> FloatArray:
        return clean.measure_at(entry, severity)

    severity = _measured_severities(entry)
    delta_v = clean.measure_at(entry, severity)
    if not entry.is_single and len(_path_severities(entry)) == 2:
        # Both ends of a continuous path: the strength for each target is between them.
        lowest, reach = (np.full(len(targets), end) for end in (delta_v[0], delta_v[-1]))
        found = find_strengths(targets, mildest(entry), lowest, reach, measure)
        severity, delta_v = np.append(severity, found[0]), np.append(delta_v, found[1])
    nearest = np.abs(delta_v[:, None] - targets).argmin(axis=0)
    notes = []
    for target, reached in zip(targets, delta_v[nearest], strict=True):
        is_within = delta_v.min() <= target <= delta_v.max()
        missed = f"nearest to {target:g}" if is_within else f"{target:g} not reached"
        notes.append("" if abs(reached - target) <= CLOSE else missed)
    return severity[nearest], notes


def _measured_severities(entry: Entry) -> Values:
    """Return the severities to measure first: all levels if there are few, else ends and levels."""
    if entry.is_single:
        return LEVELS[:1]
    few = _path_severities(entry)
    # Where Δv falls with severity, an end is not the largest Δv: a level may come closer.
    return few if len(few) > 2 else np.unique([*few, *LEVELS])


def _path_severities(entry: Entry) -> FloatArray:
    """Return the severities of all levels if they are few, else of both ends of the path."""
    if len(entry.path) == 1 and mildest(entry):
        ((name, ends),) = entry.path.items()
        # Odd kernel sizes advance in steps of two.
        step = 2 if entry.corruption.parameter(name).odd else 1
        levels = abs(int((float(ends[1]) - float(ends[0])) / step)) + 1
        if 1 < levels <= FEW_LEVELS:
            return np.linspace(1.0, STRONGEST, levels)
    return np.array([mildest(entry), STRONGEST])


def find_strengths(
    target: FloatArray, mildest: float, lowest: FloatArray, reach: FloatArray, measure: Measure
) -> tuple[FloatArray, FloatArray]:
    """Return, for each row, the severity whose Δv is nearest to the target, and that Δv.

    Δv is `lowest` at severity `mildest` and `reach` at the end of the path. Bisection alternates
    with the method of false position until Δv is close enough; the best of all tried severities is
    returned.
    """
    count = len(target)
    low, high = np.full(count, mildest), np.full(count, STRONGEST)
    below, above = lowest.copy(), reach.copy()
    # Start with the closer end of the path, in case no step comes closer.
    nearer = np.abs(target - lowest) < np.abs(target - reach)
    best, nearest = np.where(nearer, low, high), np.where(nearer, lowest, reach)
    for step in range(MOST_STEPS):
        with np.errstate(invalid="ignore"):
            open_rows = (np.abs(nearest - target) > CLOSE) & (high - low > NARROWEST)
        rows = np.flatnonzero(open_rows)
        if not len(rows):
            break
        middle = (low[rows] + high[rows]) / 2
        # False position alone may creep towards the root from one side; bisection halves the
        # bracket.
        if step % 2:
            # Δv may be equal at both ends; the quotient is clipped below.
            share = (target[rows] - below[rows]) / np.maximum(above[rows] - below[rows], 1e-9)
            # Away from both ends, since a step onto an end would not shorten the bracket.
            middle = low[rows] + np.clip(share, 0.05, 0.95) * (high[rows] - low[rows])
        delta_v = measure(rows, middle)
        under = delta_v < target[rows]
        low[rows[under]], below[rows[under]] = middle[under], delta_v[under]
        high[rows[~under]], above[rows[~under]] = middle[~under], delta_v[~under]
        closer = np.abs(delta_v - target[rows]) < np.abs(nearest[rows] - target[rows])
        best[rows[closer]], nearest[rows[closer]] = middle[closer], delta_v[closer]
    return best, nearest


def _captions(entry: Entry, values: dict[str, Values], columns: int) -> Sequence[str]:
    """Return, for each column, the value of the parameter with the most distinct values."""
    moved = {*entry.path, *(name for table in entry.levels.values() for name in table)}
    candidates = [parameter for parameter in entry.corruption.parameters if parameter.name in moved]
    if not candidates:
        return [""] * columns

    def varies(parameter: Parameter) -> tuple[int, int]:
        column = values[parameter.name]
        # Others may be constant over several columns, or at their clean value in some.
        return len(np.unique(column)), int(np.sum(column != parameter.clean))

    best = max(candidates, key=varies)
    return [_caption(best, float(value)) for value in values[best.name]]


def _caption(parameter: Parameter, value: float) -> str:
    number = f"{value:.0f}" if parameter.integer or abs(value) >= 100 else f"{value:.3g}"
    number = number.replace("-", "−") + UNITS.get(parameter.unit, "")
    if parameter.name == parameter.unit and parameter.unit in UNITS:
        return number
    return f"{SYMBOLS.get(parameter.name, parameter.name.replace('_', ' '))} = {number}"
