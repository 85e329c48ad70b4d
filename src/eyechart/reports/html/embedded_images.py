"""Images embedded in the page as data URIs, small enough for all of them to fit."""

from base64 import b64encode
from collections.abc import Iterable, Mapping
from io import BytesIO
from pathlib import Path

from PIL import Image, UnidentifiedImageError

from eyechart.results.runs import Run
from eyechart.results.schema import EXAMPLES_FOLDER

SIDES = ((224, 75), (160, 70), (160, 50), (128, 45), (96, 45), (80, 40), (56, 35))
"""Pairs of a maximum side in px and a JPEG quality; the first that saves enough is used."""

Key = tuple[int, str]
"""Key of an image: the index of its run, and its file name."""


def embedded(runs: Mapping[int, Run], wanted: Iterable[Key], most: int) -> dict[Key, str]:
    """Return data URIs of example images, if possible with at most `most` bytes in total.

    A file that is missing or not an image is left out.
    """
    opened = {}
    for key in dict.fromkeys(wanted):
        # The name alone: a results.json from elsewhere must not lead out of the folder.
        image = _open(runs[key[0]].folder / EXAMPLES_FOLDER / Path(key[1]).name)
        if image is not None:
            opened[key] = image
    collected: dict[Key, str] = {}
    for side, quality in SIDES:
        collected = {key: _uri(image, side, quality) for key, image in opened.items()}
        # Data URIs are ASCII, so that characters are bytes.
        if sum(map(len, collected.values())) <= most:
            break
    return collected


def _open(path: Path) -> Image.Image | None:
    try:
        with Image.open(path) as file:
            return file.convert("RGB")
    except (OSError, UnidentifiedImageError, ValueError):
        return None


def _uri(image: Image.Image, side: int, quality: int) -> str:
    small = image.copy()
    small.thumbnail((side, side), Image.Resampling.LANCZOS)
    return image_uri(small, quality=quality, optimize=True)


def image_uri(image: Image.Image, kind: str = "jpeg", **options: int) -> str:
    """Return an image as a data URI; `options` are passed to Pillow's writer."""
    buffer = BytesIO()
    image.save(buffer, kind, **options)
    return data_uri(buffer.getvalue(), kind)


def data_uri(content: bytes, kind: str) -> str:
    """Return the content of a file as a data URI."""
    return f"data:image/{kind};base64,{b64encode(content).decode()}"
