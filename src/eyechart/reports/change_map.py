"""A picture of where information was lost: clean, corrupted and the map, side by side."""

import cv2
import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from eyechart.reports.gallery_sheet import CAPTION, GREY, INK, NAME, PAPER, font

MARGIN, GAP, BAR = 28, 14, 16
SHOWN_SIDE = 320
"""Smaller pictures are enlarged to this, so that the captions fit."""

BRIGHTEST = 1.5
"""The brightest colour: half as much again as the picture holds per pixel on average."""


def draw_map(
    clean: Image.Image, corrupted: Image.Image, lost: NDArray[np.float64], headline: str
) -> Image.Image:
    """Return the two pictures and the map `lost` (H, W) of `loss_map`, with its scale.

    The scale is the same for all pictures, so that maps can be compared.
    """
    panels = [clean.convert("RGB"), corrupted.convert("RGB"), _coloured(lost)]
    factor = max(1, -(-SHOWN_SIDE // clean.width))
    size = clean.width * factor, clean.height * factor
    top = MARGIN + NAME + 18
    below = top + size[1] + 8
    sheet = Image.new(
        "RGB",
        (2 * MARGIN + 3 * size[0] + 2 * GAP, below + CAPTION + 22 + BAR + CAPTION + 12 + MARGIN),
        PAPER,
    )
    pen = ImageDraw.Draw(sheet)
    pen.text((MARGIN, MARGIN), headline, INK, font(NAME))
    captions = ("clean", "corrupted", "information lost")
    for place, (panel, caption) in enumerate(zip(panels, captions, strict=True)):
        left = MARGIN + place * (size[0] + GAP)
        sheet.paste(panel.resize(size, Image.Resampling.NEAREST), (left, top))
        pen.text((left, below), caption, GREY, font(CAPTION))
    _draw_scale(sheet, pen, MARGIN + 2 * (size[0] + GAP), below + CAPTION + 22, size[0])
    return sheet


def _coloured(lost: NDArray[np.float64]) -> Image.Image:
    levels = np.clip(np.rint(lost / BRIGHTEST * 255), 0, 255).astype(np.uint8)
    colours = cv2.applyColorMap(levels, cv2.COLORMAP_INFERNO)
    return Image.fromarray(cv2.cvtColor(colours, cv2.COLOR_BGR2RGB))


def _draw_scale(
    sheet: Image.Image, pen: ImageDraw.ImageDraw, left: int, top: int, width: int
) -> None:
    ramp = np.tile(np.linspace(0, BRIGHTEST, width), (BAR, 1))
    sheet.paste(_coloured(ramp), (left, top))
    under = top + BAR + 4
    for value, anchor in ((0.0, "la"), (BRIGHTEST / 2, "ma"), (BRIGHTEST, "ra")):
        place = left + width * value / BRIGHTEST
        pen.text((place, under), f"{value:g}", GREY, font(CAPTION), anchor=anchor)
    text = "1 is what the clean picture holds on average"
    pen.text((left - GAP, top), text, GREY, font(CAPTION), anchor="ra")
