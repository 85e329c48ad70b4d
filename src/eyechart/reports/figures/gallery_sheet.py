"""Draw a gallery as one image, a labeled contact sheet."""

from functools import cache

from PIL import Image, ImageDraw, ImageFont

from eyechart.reports.series.gallery import Gallery, GalleryImage, GalleryRow, Group

PAPER, INK, GRAY, FAINT = "#fbfaf7", "#22252a", "#80858d", "#dedbd3"
MARGIN, GAP, CORNER = 56, 14, 6
TITLE, SUBTITLE, HEADING, NAME, CAPTION, SMALL = 38, 18, 26, 19, 15, 14

Font = ImageFont.FreeTypeFont | ImageFont.ImageFont


def draw_sheet(gallery: Gallery) -> Image.Image:
    """Return the contact sheet: one row per corruption, starting with the clean image."""
    return _Sheet(gallery).draw()


@cache
def font(size: int) -> Font:
    """Return the font for text in images; `size` is in px."""
    return ImageFont.load_default(size)


class _Sheet:
    """Draws from top to bottom; `top` is the position of the next item."""

    def __init__(self, gallery: Gallery) -> None:
        self.gallery = gallery
        self.side = gallery.clean.width
        columns = max(len(row.cells) for group in gallery.groups for row in group.rows)
        self.right = MARGIN + (columns + 1) * self.side + columns * GAP
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
        head = MARGIN + TITLE + 18 + SUBTITLE + 34
        return head + len(groups) * self._heading + rows * self._row_height + SMALL + MARGIN

    @property
    def _heading(self) -> int:
        return HEADING + 42

    @property
    def _row_height(self) -> int:
        return NAME + 14 + self.side + 10 + CAPTION + 34

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
        self._text(after, row.summary, CAPTION, GRAY, lower=NAME - CAPTION - 1)
        self.top += NAME + 14
        self._cell(MARGIN, self.gallery.clean, "clean", "")
        for index, cell in enumerate(row.cells, start=1):
            left = MARGIN + index * (self.side + GAP)
            self._cell(left, cell.image, _severity(cell), cell.parameter)
        self.top += self.side + 10 + CAPTION + 34

    def _cell(self, left: int, image: Image.Image, caption: str, small: str) -> None:
        self.sheet.paste(image.convert("RGB"), (left, self.top), self.mask)
        self._text(left + 1, caption, CAPTION, INK, lower=self.side + 10)
        room = self.side - self.pen.textlength(caption, font(CAPTION)) - 12
        width = self.pen.textlength(small, font(SMALL))
        if small and width <= room:
            self._text(left + self.side - width - 1, small, SMALL, GRAY, lower=self.side + 11)

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


def _severity(cell: GalleryImage) -> str:
    return f"{cell.severity:.2g}"
