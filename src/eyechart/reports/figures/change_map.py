"""An image that shows where information was lost: clean, corrupted and loss map, side by side."""

import cv2
import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageOps

from eyechart.reports.figures.gallery_sheet import CAPTION, FAINT, GRAY, INK, NAME, PAPER, font

MARGIN, GAP, BAR = 28, 14, 16
SMALLEST, LARGEST, NARROWEST = 320, 640, 280
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
    column = max(width, NARROWEST)
    top = MARGIN + NAME + 10 + CAPTION + 18
    below = top + height + 8
    size = 2 * MARGIN + 3 * column + 2 * GAP, below + CAPTION + 14 + BAR + 2 * CAPTION + 14 + MARGIN
    sheet = Image.new("RGB", size, PAPER)
    pen = ImageDraw.Draw(sheet)
    pen.text((MARGIN, MARGIN), headline, INK, font(NAME))
    fitting = _fitting(pen, name, size[0] - 2 * MARGIN)
    pen.text((MARGIN, MARGIN + NAME + 10), fitting, GRAY, font(CAPTION))
    for index, caption in enumerate(("clean", "corrupted", "information lost")):
        left = MARGIN + index * (column + GAP)
        if index < len(panels):
            sheet.paste(panels[index], (left, top))
        else:
            pen.rectangle((left, top, left + width, top + height), FAINT)
        pen.text((left, below), caption, GRAY, font(CAPTION))
    _draw_scale(sheet, pen, MARGIN + 2 * (column + GAP), below + CAPTION + 14, column)
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
