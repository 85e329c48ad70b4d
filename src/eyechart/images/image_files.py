"""Image files: find them, decode them to RGB or grayscale, and write them atomically.

Resizing and cropping are defined in `stimulus`.
"""

import logging
import os
import struct
import threading
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps, PngImagePlugin, UnidentifiedImageError

from eyechart.core.arguments import regular_file, resolved_path
from eyechart.core.errors import UsageError, reason_of
from eyechart.core.phrases import count_of, verb
from eyechart.core.storage.files import atomic_file

Window = tuple[float, float]
"""The gray values that become black and white in images of more than 8 bits."""

READERS = 8
"""Number of threads that read and decode files."""

DECODED_PIXELS = 48_000_000
"""Number of pixels that are decoded at once: large images wait for each other (`PixelRoom`)."""

IMAGE_SUFFIXES = (".bmp", ".gif", ".jpeg", ".jpg", ".png", ".ppm", ".tif", ".tiff", ".webp")
UNREAD = (
    *(".avif", ".avifs", ".heic", ".heif", ".jfif", ".jp2", ".jpe", ".jxl", ".pbm", ".pgm", ".pnm"),
    *(".psd", ".svg", ".tga", ".arw", ".cr2", ".cr3", ".dng", ".nef", ".orf", ".raf", ".rw2"),
)
"""Suffixes of image formats that are not read: not every Pillow build decodes them, and builds that
do may disagree on pixel values. Files with these suffixes are reported, so that no image is
skipped silently.
"""

LOG = logging.getLogger("eyechart.images")
"""Logger for notes to users about their images, which the command line prints (`cli/shared`)."""

GRAY_MODES = ("1", "L", "LA", "La")
NOTE = "eyechart"
JPEG_QUALITY = 85
# The last bytes of a complete file: PNG's IEND chunk with its checksum, JPEG's end marker.
ENDS = {"PNG": b"IEND\xaeB`\x82", "JPEG": b"\xff\xd9"}

# Exceptions that Pillow's decoders raise on truncated or damaged files.
DAMAGE = (OSError, SyntaxError, ValueError, EOFError, struct.error, zlib.error, IndexError)
# Files from other sources can also trip Pillow's limit on the number of pixels.
UNREADABLE = (*DAMAGE, Image.DecompressionBombError)


@dataclass(frozen=True)
class ImageFile:
    """An image file and its path relative to the folder in which it was found."""

    path: Path
    relative: Path


def find_image_files(paths: Iterable[Path], leave_out: Path | None = None) -> list[ImageFile]:
    """Return the image files in `paths`; files from the same folder are sorted.

    Files that are named individually are accepted with any suffix. Hidden files and everything in
    `leave_out` (the output folder) are skipped. Images in unsupported formats are logged, and every
    command prints this log.

    Raises:
        UsageError: If a path does not exist or a folder contains no images.
    """
    images: list[ImageFile] = []
    for path in paths:
        if path.is_dir():
            inside, notes = _split_by_format(path, leave_out)
            if not inside:
                searched = f"looked for files ending in {', '.join(IMAGE_SUFFIXES)}."
                raise UsageError(" ".join((f"No images in {path}: {searched}", *notes)))
            for note in notes:
                LOG.info(note)
            images += inside
        elif path.exists():
            images.append(ImageFile(path, Path(path.name)))
        else:
            raise UsageError(f"No such file or folder: {path}.")
    return images


def images_in(folder: Path, leave_out: Path | None = None) -> list[ImageFile]:
    """Return the image files in a folder, sorted; the list may be empty."""
    return _split_by_format(folder, leave_out)[0]


def unread_notes(folder: Path, leave_out: Path | None = None) -> tuple[str, ...]:
    """Return a note if a folder contains images in unsupported formats.

    The result is empty if there are none, or if `folder` is a file.
    """
    return _split_by_format(folder, leave_out)[1] if folder.is_dir() else ()


def _split_by_format(
    folder: Path, leave_out: Path | None
) -> tuple[list[ImageFile], tuple[str, ...]]:
    """Return the image files in a folder, sorted, and a note on those in unsupported formats.

    Hidden files and the output folder are left out.
    """
    skipped = None if leave_out is None else resolved_path(leave_out)

    def reject(error: OSError) -> None:
        raise UsageError(f"Cannot read the folder {error.filename}: {error.strerror}.")

    # one walk for both, as folders can have millions of files
    paths: list[Path] = []
    for parent, folders, names in os.walk(folder, onerror=reject):
        current = Path(parent)
        if skipped is not None:
            # Assigning in place prunes the walk: os.walk does not descend into removed folders.
            folders[:] = [name for name in folders if resolved_path(current / name) != skipped]
        paths += [
            current / name
            for name in names
            if name.lower().endswith((*IMAGE_SUFFIXES, *UNREAD)) and not name.startswith(".")
        ]
    # os.walk's order depends on the file system, and the order of images identifies a run.
    paths.sort()
    unread = [path for path in paths if path.name.lower().endswith(UNREAD)]
    images = [
        ImageFile(path, path.relative_to(folder))
        for path in paths
        if not path.name.lower().endswith(UNREAD)
    ]
    if not unread:
        return images, ()
    kinds = ", ".join(sorted({path.suffix.lower() for path in unread}))
    note = (
        f"{count_of(len(unread), 'file')} {verb(len(unread), 'is')} skipped because the format is"
        f" not supported ({kinds}); the first is {unread[0]}. Convert such files to PNG to use"
        " them."
    )
    return images, (note,)


class PixelRoom:
    """Room for a number of pixels, which threads share: it bounds the memory for large images.

    Example:
        >>> room = PixelRoom(100)
        >>> with room.hold(60), room.hold(40):
        ...     room.n_held
        100
    """

    def __init__(self, n_pixels: int) -> None:
        self.n_pixels = n_pixels
        self.n_held = 0
        self._changed = threading.Condition()

    @contextmanager
    def hold(self, n_pixels: int) -> Iterator[None]:
        """Wait until there is room for `n_pixels`; an image that never fits waits to be alone."""
        n_pixels = min(n_pixels, self.n_pixels)
        with self._changed:
            self._changed.wait_for(lambda: self.n_held + n_pixels <= self.n_pixels)
            self.n_held += n_pixels
        try:
            yield
        finally:
            with self._changed:
                self.n_held -= n_pixels
                self._changed.notify_all()


DECODING = PixelRoom(DECODED_PIXELS)
"""Room for the images that are being decoded and resized in this process."""


class WindowError(UsageError):
    """An image has more than 8 bits and no window, or a window is stated for an 8-bit image.

    The error concerns the whole dataset, so it is raised at once, and the image is not counted
    as damaged.
    """


def read_image(path: Path, window: Window | None = None) -> Image.Image:
    """Return the image upright, in mode L if the file is grayscale and RGB otherwise.

    Transparency is dropped and palettes are expanded. Gray values of more than 8 bits are mapped
    linearly from `window` to 0…255.

    Raises:
        UsageError: If the file is missing, damaged, too large or not an image.
        WindowError: If the image has more than 8 bits and there is no window, or if it has 8 bits
            and there is one.
    """
    return decode_image(path, path, window)


def decode_image(file: Path | BinaryIO, name: object, window: Window | None = None) -> Image.Image:
    """Return the image in an open file or at a path; messages call it `name`."""
    try:
        with _open(file) as image:
            # Decode everything here: a truncated file is only noticed while decoding. The decoded
            # pixels outlive the file handle.
            image.load()
            # In place, because a copy would double the memory of a large image.
            ImageOps.exif_transpose(image, in_place=True)
            return eight_bit(image, name, window)
    except UnidentifiedImageError:
        raise UsageError(f"{name} is not an image in a known format.") from None
    except (PermissionError, FileNotFoundError, IsADirectoryError) as error:
        raise UsageError(f"Cannot read {name}: {error.strerror}.") from None
    except Image.DecompressionBombError:
        raise UsageError(f"{name} is too large to decode safely.") from None
    # Raised by `eight_bit`, with a complete message.
    except UsageError:
        raise
    except DAMAGE as error:
        raise UsageError(f"{name} is damaged or truncated: {reason_of(error)}.") from None


def _open(file: Path | BinaryIO) -> Image.Image:
    return Image.open(regular_file(file) if isinstance(file, Path) else file)


def image_size(file: Path | BinaryIO) -> tuple[int, int] | None:
    """Return the height and width of an image file in px, or None if it cannot be read.

    Nothing is decoded. If the file's metadata rotates the image, height and width may be swapped.
    """
    try:
        with _open(file) as image:
            return image.height, image.width
    except UNREADABLE:
        return None


def n_pixels(file: Path | BinaryIO) -> int:
    """Return the number of pixels of an image file, or 0 if it cannot be read."""
    size = image_size(file)
    return 0 if size is None else size[0] * size[1]


def eight_bit(image: Image.Image, name: object, window: Window | None = None) -> Image.Image:
    """Return the image in mode L or RGB; `window` is required if it has more than 8 bits.

    Example:
        >>> deep = Image.fromarray(np.array([[0, 100, 300, 500, 900]], dtype=np.uint16))
        >>> np.asarray(eight_bit(deep, "deep", (100, 500))).tolist()
        [[0, 0, 128, 255, 255]]
    """
    if image.mode == "F" or image.mode.startswith("I"):
        return _windowed(np.asarray(image).astype(np.float64), name, window)
    if window is not None:
        low, high = window
        raise WindowError(
            f"The window {low:.12g} to {high:.12g} applies to gray images of more than 8 bits, but"
            f" {name} has 8 bits per channel: omit the window, or leave out such images."
        )
    if image.mode in ("L", "RGB"):
        return image
    return image.convert("L" if image.mode in GRAY_MODES else "RGB")


def _windowed(values: NDArray[np.float64], name: object, window: Window | None) -> Image.Image:
    """Return 8-bit levels: the window's low end becomes 0, and its high end becomes 255."""
    if not np.isfinite(values).all():
        raise UsageError(f"{name} has values that are not finite: replace them first.")
    if window is None:
        raise WindowError(
            f"{name} has gray values of more than 8 bits, from {values.min():.12g} to"
            f" {values.max():.12g}, which need a window: give the values that become black and"
            " white as --window LOW HIGH (Python: window=(low, high)), or convert it to 8 bits."
        )
    low, high = window
    levels = np.round(np.clip((values - low) / (high - low), 0, 1) * 255)
    return Image.fromarray(levels.astype(np.uint8))


def write_image(
    image: Image.Image, path: Path, *, quality: int | None = None, note: str = ""
) -> None:
    """Write an image atomically as PNG, or as JPEG if `quality` is given.

    `note` is stored in the file's metadata and can be read with `read_note`.
    """
    # With an explicit format, which Pillow cannot tell from the name of a temporary file.
    options: dict[str, Any]
    if quality is None:
        info = PngImagePlugin.PngInfo()
        if note:
            info.add_text(NOTE, note)
        # The fastest level: corrupted images hardly shrink with more effort.
        options = {"format": "PNG", "pnginfo": info, "compress_level": 1}
    else:
        options = {"format": "JPEG", "quality": quality}
        if note:
            options["comment"] = f"{NOTE} {note}".encode()
    with atomic_file(path) as temporary:
        image.save(temporary, **options)


def read_note(path: Path) -> str | None:
    """Return the note that `write_image` stored in an image file, or None if there is none."""
    try:
        with _open(path) as image:
            text, comment = image.info.get(NOTE), image.info.get("comment")
    except UNREADABLE:
        return None
    if isinstance(text, str):
        return text
    mark = f"{NOTE} ".encode()
    if isinstance(comment, bytes) and comment.startswith(mark):
        return comment.removeprefix(mark).decode("utf-8", "replace")
    return None


def is_damaged(path: Path) -> bool:
    """Return whether the file is empty, not an image, or a truncated image written by eyechart.

    Nothing is decoded. The end of the file is only checked if the file contains the note that
    eyechart writes, because cameras append data to their files.
    """
    if not path.is_file():
        return False
    try:
        with _open(path) as image:
            end = ENDS.get(image.format or "", b"")
        with path.open("rb") as file:
            # For formats without a known end marker, no bytes are read or compared.
            file.seek(-len(end), os.SEEK_END)
            cut_off = file.read() != end
    except (PermissionError, Image.DecompressionBombError):
        return False
    except DAMAGE:
        return True
    return cut_off and read_note(path) is not None
