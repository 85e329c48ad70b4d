"""Draw a gallery as one image, a labeled contact sheet."""

from functools import cache
from pathlib import Path

import matplotlib as mpl
from PIL import Image, ImageDraw, ImageFont

from eyechart.reports.series.gallery import Gallery, GalleryImage, GalleryRow, Group

PAPER, INK, GRAY, FAINT = "#fbfaf7", "#22252a", "#80858d", "#dedbd3"
MARGIN, GAP, CORNER = 56, 14, 6
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
        columns = max(len(row.cells) for group in gallery.groups for row in group.rows)
        self.column = max(self.side, NARROWEST)
        self.right = MARGIN + (columns + 1) * self.column + columns * GAP
        self.top = MARGIN
        # Pillow draws shapes without antialiasing: the mask is drawn four times as large, then
        # shrunk.
        rounded = Image.new("L", (4 * self.side, 4 * self.side), 0)
        box = (0, 0, 4 * self.side - 1, 4 * self.side - 1)
        ImageDraw.Draw(rounded).rounded_rectangle(box, 4 * CORNER, fill=255)
        self.mask = rounded.resize((self.side, self.side), Image.Resampling.LANCZOS)

    def draw(self) -> Image.Image:
        self.sheet = Image.new("RGB", (self.right + MARGIN, self._height()), PAPER)
        self.pen = ImageDraw.Draw(self.sheet)
        self._text(MARGIN, self.gallery.title, TITLE, INK)
        self.top += TITLE + 18
        self._text(MARGIN, self.gallery.subtitle, SUBTITLE, GRAY)
        self.top += SUBTITLE + 8
        self._text(MARGIN, self.gallery.ruler, SUBTITLE, GRAY)
        self.top += SUBTITLE + 34
        for group in self.gallery.groups:
            self._group(group)
        self._text(MARGIN, self.gallery.source, SMALL, GRAY)
        return self.sheet

    def _height(self) -> int:
        # The sheet is allocated before anything is drawn, so these must be the steps of `top` in
        # `draw`, `_group` and `_row`.
        groups = self.gallery.groups
        rows = sum(len(group.rows) for group in groups)
        head = MARGIN + TITLE + 18 + SUBTITLE + 8 + SUBTITLE + 34
        return head + len(groups) * self._heading + rows * self._row_height + SMALL + MARGIN

    @property
    def _heading(self) -> int:
        return HEADING + 42

    @property
    def _row_height(self) -> int:
        return NAME + 14 + self.side + self._captions + 34

    @property
    def _captions(self) -> int:
        rows = [row for group in self.gallery.groups for row in group.rows]
        has_notes = any(cell.note for row in rows for cell in row.cells)
        return 10 + CAPTION + (6 + SMALL) * (2 if has_notes else 1)

    def _group(self, group: Group) -> None:
        self.pen.line((MARGIN, self.top, self.right, self.top), FAINT, 2)
        self.top += 16
        self._text(MARGIN, group.name.capitalize(), HEADING, INK)
        self.top += HEADING + 26
        for row in group.rows:
            self._row(row)

    def _row(self, row: GalleryRow) -> None:
        name = " ".join(row.name.split())
        self._text(MARGIN, name, NAME, INK)
        after = MARGIN + self.pen.textlength(name, font(NAME)) + 14
        # Align the baselines of both texts, although their sizes differ.
        self._text(after, f"{row.note} {row.summary}", CAPTION, GRAY, lower=NAME - CAPTION - 1)
        self.top += NAME + 14
        self._paste(MARGIN, self.gallery.clean)
        self._text(MARGIN + 1, "clean", CAPTION, INK, self.side + 10)
        for index, cell in enumerate(row.cells, start=1):
            self._cell(MARGIN + index * (self.column + GAP), cell)
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
