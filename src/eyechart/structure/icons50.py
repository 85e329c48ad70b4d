"""Import the original ICONS-50, from class folders of images or from one .npy file.

File names contain the style, the rendition and the subclass in any order, such as
microsoft_2_small_airplane.png.
"""

import io
import re
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
from numpy.lib import format as npy

from eyechart.core.arguments import regular_file, resolved_path
from eyechart.core.errors import UsageError
from eyechart.core.progress import Progress
from eyechart.core.storage.run_folder import read_settings
from eyechart.images.image_files import find_image_files, read_image
from eyechart.structure.cifar100 import read_pickle
from eyechart.structure.duplicates import Pixels
from eyechart.structure.icon_builder import RECORD, Icon, check_folder, write_icons

ORIGINAL_STYLES = (
    "apple", "microsoft", "google", "samsung", "facebook", "messenger", "twitter", "whatsapp",
    "lg", "htc", "mozilla", "emojidex", "emojione", "emoji_one", "emojipedia", "joypixels",
    "openmoji", "softbank", "docomo", "kddi", "au_by_kddi", "sony", "gmail", "windows",
)  # fmt: skip
"""Styles in ICONS-50, named after the platforms whose emoji it contains."""

KEYS = ("class", "style", "subtype", "rendition", "image")
"""Keys of the .npy file."""

SETTINGS = {"icons": "ICONS-50 as published"}

LICENSE = """# Where the icons come from

These are the images of ICONS-50 (Hendrycks and Dietterich) as published. The rights to each style
belong to those who drew it: do not redistribute the images.
"""


def import_icons50(source: Path, out: Path, progress: Progress) -> int:
    """Write ICONS-50 to class folders and a list; return the number of icons."""
    check_folder(out, SETTINGS)
    if not source.exists():
        raise UsageError(f"No such file or folder: {source}.")
    if source.is_dir() and resolved_path(out).is_relative_to(resolved_path(source)):
        raise UsageError(f"{source} contains the original images: choose another --out.")
    step = progress.begin(
        "reading icons", len(list(find_image_files([source]))) if source.is_dir() else 1
    )
    icons = []
    for icon in read_icons50(source):
        if not (icon.label and icon.style and icon.subclass):
            raise UsageError(
                f"{source} has an icon without a class, style or subclass: add what is missing."
            )
        for name in (icon.label, icon.style, icon.subclass, icon.rendition):
            if "/" in name or "\\" in name or name.startswith("."):
                raise UsageError(
                    f"{source} has the name {name!r}, which is not a valid file name: rename it."
                )
        icons.append(icon)
        # A single file was counted as one step, regardless of its number of icons.
        step(1 if source.is_dir() else 0, "")
    paths = Counter(icon.path for icon in icons)
    twice = [path for path, count in paths.items() if count > 1]
    if twice:
        raise UsageError(
            f"{source} has two images that would be written to the same file {twice[0]}: rename "
            "one of them."
        )
    write_icons(icons, out, LICENSE, SETTINGS, progress)
    return len(icons)


def is_icons50(images: Path) -> bool:
    """Return whether a list or folder of images was written by `import_icons50`."""
    folder = images.parent if images.is_file() else images
    try:
        return read_settings(folder / RECORD) == SETTINGS
    except UsageError:
        return False


def read_icons50(source: Path) -> Iterator[Icon]:
    """Yield the icons in a folder or in the .npy file."""
    if source.is_file():
        yield from _of_array(source)
        return
    has_icons = False
    for file in find_image_files([source]):
        parts = file.relative.parts
        if len(parts) < 2:
            raise UsageError(
                f"{file.path} is not in a class folder: give the folder that contains the class "
                "folders."
            )
        style, rendition, subclass = read_name(Path(parts[-1]).stem, file.path)
        pixels = np.asarray(read_image(file.path).convert("RGB"))
        has_icons = True
        yield Icon(parts[0], style, subclass, partial(_same, pixels), rendition)
    if not has_icons:
        raise UsageError(
            f"{source} has no images: give the folder that contains the class folders."
        )


def read_name(stem: str, path: Path) -> tuple[str, str, str]:
    """Return the style, rendition and subclass in a file name; the rendition may be ""."""
    text = stem.lower().replace("-", "_").replace(" ", "_")
    # Longest first: "emoji_one" and "au_by_kddi" contain other names.
    for style in sorted(ORIGINAL_STYLES, key=len, reverse=True):
        match = re.fullmatch(rf"(?:(.*)_)?{style}(?:_(.*))?", text)
        if match is None:
            continue
        words = [word for part in match.groups() if part for word in part.split("_")]
        # A number at either end is the rendition, not part of the name.
        numbers = [word for word in (words[:1] + words[-1:]) if word.isdigit()]
        rendition = numbers[0] if numbers else ""
        if rendition:
            words = words[1:] if words[0] == rendition else words[:-1]
        if words:
            return style, rendition, "_".join(words)
    raise UsageError(
        f"The name of {path} must contain a style and a subclass, such as "
        "microsoft_2_small_airplane.png: rename it, or list all images in a CSV file with"
        " the columns path, label, style and subclass."
    )


def _of_array(path: Path) -> Iterator[Icon]:
    try:
        file = io.BytesIO(regular_file(path).read_bytes())
        version = npy.read_magic(file)
        read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
        shape, _, kind = read(file)
        # The .npy file contains a pickled dictionary; it is read without executing code.
        held = read_pickle(file.read(), "latin1") if kind.hasobject and shape == () else None
        content = held.item() if isinstance(held, np.ndarray) else held
        if not isinstance(content, dict):
            raise ValueError("it is not a dictionary")
        missing = [key for key in KEYS if key not in content]
        if missing:
            raise ValueError(f"it has no {missing[0]}")
        pixels = np.asarray(content["image"])
        if pixels.ndim != 4 or pixels.dtype != np.uint8:
            raise ValueError("its images are not 8-bit")
        # Channels may come first or last.
        pixels = pixels if pixels.shape[3] == 3 else pixels.transpose(0, 2, 3, 1)
        names = [[str(column) for column in np.asarray(content[key]).ravel()] for key in KEYS[:4]]
        if pixels.shape[3] != 3 or any(len(column) != len(pixels) for column in names):
            raise ValueError("its arrays have different lengths")
    except OSError as error:
        raise UsageError(f"Cannot read {path}: {error.strerror}.") from None
    except ValueError as error:
        raise UsageError(
            f"{path} is not ICONS-50 in NumPy's format ({error}): pass the published file, or the "
            "folder that contains the class folders."
        ) from None
    for label, style, subclass, rendition, one in zip(*names, pixels, strict=True):
        yield Icon(label, style, subclass, partial(_same, one), rendition)


def _same(pixels: Pixels) -> Pixels:
    return pixels
