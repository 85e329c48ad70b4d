"""Sheets of images: a gallery under all corruptions, and a map of where information was lost."""

from collections.abc import Sequence
from functools import cache
from pathlib import Path

import cv2
import matplotlib as mpl
import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont, ImageOps

from eyechart.reports.series.gallery import Gallery, GalleryImage, GalleryRow

PAPER, INK, GRAY, FAINT = "#fbfaf7", "#22252a", "#80858d", "#dedbd3"
SHEET_MARGIN, SHEET_GAP, CORNER = 56, 14, 6
TITLE, SUBTITLE, HEADING, NAME, CAPTION, SMALL = 38, 18, 26, 19, 15, 14

NARROWEST = 170
"""Minimum width of a column in px, so that captions fit below small images."""


def draw_sheet(gallery: Gallery) -> Image.Image:
    """Return the contact sheet: one row per corruption, starting with the clean image."""
    return _Sheet(gallery).draw()


@cache
def font(size: int) -> ImageFont.FreeTypeFont:
    """Return the font for text in images; `size` is in px."""
    # Pillow's own font has no Greek letters, and no minus sign.
    return ImageFont.truetype(Path(mpl.get_data_path(), "fonts", "ttf", "DejaVuSans.ttf"), size)


class _Sheet:
    """Draws from top to bottom; `top` is the position of the next item."""

    def __init__(self, gallery: Gallery) -> None:
        self.gallery = gallery
        self.side = gallery.clean.width
        columns = max(len(row.cells) for rows in gallery.groups.values() for row in rows)
        self.column = max(self.side, NARROWEST)
        self.right = SHEET_MARGIN + (columns + 1) * self.column + columns * SHEET_GAP
        self.top = SHEET_MARGIN
        # Pillow draws shapes without antialiasing: the mask is drawn four times as large, then
        # shrunk.
        rounded = Image.new("L", (4 * self.side, 4 * self.side), 0)
        box = (0, 0, 4 * self.side - 1, 4 * self.side - 1)
        ImageDraw.Draw(rounded).rounded_rectangle(box, 4 * CORNER, fill=255)
        self.mask = rounded.resize((self.side, self.side), Image.Resampling.LANCZOS)

    def draw(self) -> Image.Image:
        self.sheet = Image.new("RGB", (self.right + SHEET_MARGIN, self._height()), PAPER)
        self.pen = ImageDraw.Draw(self.sheet)
        self._text(SHEET_MARGIN, self.gallery.title, TITLE, INK)
        self.top += TITLE + 18
        self._text(SHEET_MARGIN, self.gallery.subtitle, SUBTITLE, GRAY)
        self.top += SUBTITLE + 8
        self._text(SHEET_MARGIN, self.gallery.ruler, SUBTITLE, GRAY)
        self.top += SUBTITLE + 34
        for name, rows in self.gallery.groups.items():
            self._group(name, rows)
        self._text(SHEET_MARGIN, self.gallery.source, SMALL, GRAY)
        return self.sheet

    def _height(self) -> int:
        # The sheet is allocated before anything is drawn, so these must be the steps of `top` in
        # `draw`, `_group` and `_row`.
        groups = self.gallery.groups
        rows = sum(map(len, groups.values()))
        head = SHEET_MARGIN + TITLE + 18 + SUBTITLE + 8 + SUBTITLE + 34
        row = NAME + 14 + self.side + self._captions + 34
        return head + len(groups) * (HEADING + 42) + rows * row + SMALL + SHEET_MARGIN

    @property
    def _captions(self) -> int:
        rows = [row for rows in self.gallery.groups.values() for row in rows]
        has_notes = any(cell.note for row in rows for cell in row.cells)
        return 10 + CAPTION + (6 + SMALL) * (2 if has_notes else 1)

    def _group(self, name: str, rows: Sequence[GalleryRow]) -> None:
        self.pen.line((SHEET_MARGIN, self.top, self.right, self.top), FAINT, 2)
        self.top += 16
        self._text(SHEET_MARGIN, name.capitalize(), HEADING, INK)
        self.top += HEADING + 26
        for row in rows:
            self._row(row)

    def _row(self, row: GalleryRow) -> None:
        name = " ".join(row.name.split())
        self._text(SHEET_MARGIN, name, NAME, INK)
        after = SHEET_MARGIN + self.pen.textlength(name, font(NAME)) + 14
        # Align the baselines of both texts, although their sizes differ.
        self._text(after, f"{row.note} {row.summary}", CAPTION, GRAY, lower=NAME - CAPTION - 1)
        self.top += NAME + 14
        self._paste(SHEET_MARGIN, self.gallery.clean)
        self._text(SHEET_MARGIN + 1, "clean", CAPTION, INK, self.side + 10)
        for index, cell in enumerate(row.cells, start=1):
            self._cell(SHEET_MARGIN + index * (self.column + SHEET_GAP), cell)
        self.top += self.side + self._captions + 34

    def _cell(self, left: int, cell: GalleryImage) -> None:
        self._paste(left, cell.image)
        lower = self.side + 10
        self._text(left + 1, cell.delta_v_text, CAPTION, INK, lower)
        after = left + self.column - self.pen.textlength(cell.severity_text, font(SMALL)) - 1
        self._text(after, cell.severity_text, SMALL, GRAY, lower + 1)
        lower += CAPTION + 6
        self._text(left + 1, cell.parameter, SMALL, GRAY, lower)
        self._text(left + 1, cell.note, SMALL, INK, lower + SMALL + 6)

    def _paste(self, left: int, image: Image.Image) -> None:
        self.sheet.paste(image.convert("RGB"), (left, self.top), self.mask)

    def _text(self, left: float, text: str, size: int, color: str, lower: int = 0) -> None:
        fitting = self._fit(text, size, self.right - left)
        self.pen.text((left, self.top + lower), fitting, color, font(size))

    def _fit(self, text: str, size: int, room: float) -> str:
        """Return the text on one line, or as many words as fit followed by an ellipsis."""
        words = text.split()
        text = " ".join(words)
        if self.pen.textlength(text, font(size)) <= room:
            return text
        while words and self.pen.textlength(" ".join(words) + " …", font(size)) > room:
            words.pop()
        return " ".join(words) + " …" if words else ""


MAP_MARGIN, MAP_GAP, BAR = 28, 14, 16
SMALLEST, LARGEST, NARROWEST_CAPTION = 320, 640, 280
"""Minimum and maximum of an image's longer side, and minimum width of its caption, in px."""

BRIGHTEST = 1.5
"""Upper limit of the color scale: 1.5 times the image's mean information per pixel."""


def draw_map(
    clean: Image.Image,
    corrupted: Image.Image,
    lost: NDArray[np.float64] | None,
    headline: str,
    name: str,
) -> Image.Image:
    """Return one image that shows both images, the map `lost` (H, W) from `loss_map` and its scale.

    The scale is the same for all images, so that maps can be compared. Without a map (for
    example, for a constant image) its panel is left empty.
    """
    panels = [_shown(clean.convert("RGB")), _shown(corrupted.convert("RGB"))]
    if lost is not None:
        panels.append(_shown(_colored(lost)))
    width, height = panels[0].size
    column = max(width, NARROWEST_CAPTION)
    top = MAP_MARGIN + NAME + 10 + CAPTION + 18
    below = top + height + 8
    size = (
        2 * MAP_MARGIN + 3 * column + 2 * MAP_GAP,
        below + CAPTION + 14 + BAR + 2 * CAPTION + 14 + MAP_MARGIN,
    )
    sheet = Image.new("RGB", size, PAPER)
    pen = ImageDraw.Draw(sheet)
    pen.text((MAP_MARGIN, MAP_MARGIN), headline, INK, font(NAME))
    fitting = _fitting(pen, name, size[0] - 2 * MAP_MARGIN)
    pen.text((MAP_MARGIN, MAP_MARGIN + NAME + 10), fitting, GRAY, font(CAPTION))
    for index, caption in enumerate(("clean", "corrupted", "information lost")):
        left = MAP_MARGIN + index * (column + MAP_GAP)
        if index < len(panels):
            sheet.paste(panels[index], (left, top))
        else:
            pen.rectangle((left, top, left + width, top + height), FAINT)
        pen.text((left, below), caption, GRAY, font(CAPTION))
    _draw_scale(sheet, pen, MAP_MARGIN + 2 * (column + MAP_GAP), below + CAPTION + 14, column)
    return sheet


def _shown(image: Image.Image) -> Image.Image:
    longer = max(image.size)
    if longer > LARGEST:
        return ImageOps.contain(image, (LARGEST, LARGEST), Image.Resampling.LANCZOS)
    # Enlarge by whole factors without interpolation, so that single pixels stay visible.
    factor = max(1, SMALLEST // longer)
    width, height = image.size
    return image.resize((width * factor, height * factor), Image.Resampling.NEAREST)


def _fitting(pen: ImageDraw.ImageDraw, name: str, width: int) -> str:
    """Return as much of the name as fits, using only characters that the font has."""
    text = "".join(c if c.isascii() and c.isprintable() else "?" for c in name)
    while pen.textlength(text, font(CAPTION)) > width:
        # Three dots replace four characters, so that every round shortens the text by one.
        text = text[: len(text) // 2 - 2] + "..." + text[len(text) // 2 + 2 :]
    return text


def _colored(lost: NDArray[np.float64]) -> Image.Image:
    levels = np.clip(np.rint(lost / BRIGHTEST * 255), 0, 255).astype(np.uint8)
    colors = cv2.applyColorMap(levels, cv2.COLORMAP_INFERNO)
    # OpenCV's color maps are BGR.
    return Image.fromarray(cv2.cvtColor(colors, cv2.COLOR_BGR2RGB))


def _draw_scale(
    sheet: Image.Image, pen: ImageDraw.ImageDraw, left: int, top: int, width: int
) -> None:
    ramp = np.tile(np.linspace(0, BRIGHTEST, width), (BAR, 1))
    sheet.paste(_colored(ramp), (left, top))
    under = top + BAR + 4
    for value, anchor in ((0.0, "la"), (0.5, "ma"), (1.0, "ma"), (BRIGHTEST, "ra")):
        index = left + width * value / BRIGHTEST
        pen.text((index, under), f"{value:g}", GRAY, font(CAPTION), anchor=anchor)
    text = "1: the average information of a pixel"
    pen.text((left, under + CAPTION + 6), text, GRAY, font(CAPTION))
