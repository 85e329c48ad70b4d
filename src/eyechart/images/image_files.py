"""Picture files: finding them, decoding them to RGB or grey, and writing them so that none is half.

What a picture is resized or cropped to is decided elsewhere.
"""

import os
import struct
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageOps, PngImagePlugin, UnidentifiedImageError

from eyechart.core.errors import UsageError
from eyechart.core.files import atomic_file

IMAGE_SUFFIXES = (".bmp", ".gif", ".jpeg", ".jpg", ".png", ".ppm", ".tif", ".tiff", ".webp")
UNREAD = (
    *(".avif", ".avifs", ".heic", ".heif", ".jfif", ".jp2", ".jpe", ".jxl", ".pbm", ".pgm", ".pnm"),
    *(".psd", ".svg", ".tga", ".arw", ".cr2", ".cr3", ".dng", ".nef", ".orf", ".raf", ".rw2"),
)
"""What images of other formats end in: they are not read, since not every Pillow decodes them, and
those that do need not agree to the pixel; but nobody is to miss them unawares."""

GREY_MODES = ("1", "L", "LA", "La")
NOTE = "eyechart"
JPEG_QUALITY = 85
ENDS = {"PNG": b"IEND\xaeB`\x82", "JPEG": b"\xff\xd9"}

# What Pillow's decoders raise on files that are cut off or damaged.
DAMAGE = (OSError, SyntaxError, ValueError, EOFError, struct.error, zlib.error, IndexError)
# What it raises on files of somebody else besides.
UNREADABLE = (*DAMAGE, Image.DecompressionBombError)


@dataclass(frozen=True)
class ImageFile:
    """An image file, and its path relative to the folder in which it was found."""

    path: Path
    relative: Path


def find_pictures(paths: Iterable[Path], leave_out: Path | None = None) -> list[ImageFile]:
    """Return the picture files among `paths` and, sorted, in the folders among them.

    Files named one by one are taken whatever their suffix. Nothing in `leave_out` (the folder into
    which results go) counts, nor do hidden files.
    """
    images: list[ImageFile] = []
    for path in paths:
        if path.is_dir():
            inside = pictures_in(path, leave_out)
            if not inside:
                searched = f"looked for files ending in {', '.join(IMAGE_SUFFIXES)}."
                notes = unread_notes(path, leave_out)
                raise UsageError(" ".join((f"No pictures in {path}: {searched}", *notes)))
            images += inside
        elif path.exists():
            images.append(ImageFile(path, Path(path.name)))
        else:
            raise UsageError(f"No such file or folder: {path}.")
    return images


def pictures_in(folder: Path, leave_out: Path | None = None) -> list[ImageFile]:
    """Return the picture files in a folder, sorted; there may be none."""
    paths = _files_in(folder, IMAGE_SUFFIXES, leave_out)
    return [ImageFile(path, path.relative_to(folder)) for path in paths]


def unread_notes(folder: Path, leave_out: Path | None = None) -> tuple[str, ...]:
    """Return a sentence if a folder holds images in formats that are not read; none of a file."""
    unread = _files_in(folder, UNREAD, leave_out) if folder.is_dir() else []
    if not unread:
        return ()
    kinds = ", ".join(sorted({path.suffix.lower() for path in unread}))
    count = "1 file is" if len(unread) == 1 else f"{len(unread)} files are"
    return (
        f"{count} not read and left out ({kinds}), such as {unread[0]}: convert them to PNG to use"
        " them.",
    )


def _files_in(folder: Path, suffixes: tuple[str, ...], leave_out: Path | None) -> list[Path]:
    """Return the files in a folder that end so, sorted; hidden ones and results do not count."""
    skipped = None if leave_out is None else leave_out.resolve()

    def refuse(error: OSError) -> None:
        raise UsageError(f"Cannot read the folder {error.filename}: {error.strerror}.")

    paths = []
    for parent, folders, names in os.walk(folder, onerror=refuse):
        current = Path(parent)
        if skipped is not None:
            folders[:] = [name for name in folders if (current / name).resolve() != skipped]
        paths += [
            current / name
            for name in names
            if name.lower().endswith(suffixes) and not name.startswith(".")
        ]
    return sorted(paths)


def read_picture(path: Path) -> Image.Image:
    """Return the picture upright, in mode L where the file is grey and RGB where it is not.

    Transparency is dropped, palettes are looked up, 16 bits become 8.
    """
    try:
        with Image.open(path) as picture:
            # Until all of it is decoded, a file that is cut off looks like a good one.
            picture.load()
            # `exif_transpose` copies: the picture outlives its file.
            return _eight_bit(ImageOps.exif_transpose(picture), path)
    except UnidentifiedImageError:
        raise UsageError(f"{path} is not a picture in a known format.") from None
    except (PermissionError, FileNotFoundError, IsADirectoryError) as error:
        raise UsageError(f"Cannot read {path}: {error.strerror}.") from None
    except Image.DecompressionBombError:
        raise UsageError(f"{path} is too large to decode safely.") from None
    except UsageError:
        raise
    except DAMAGE as error:
        reason = " ".join(str(error).split()).rstrip(".") or type(error).__name__
        raise UsageError(f"{path} is damaged or cut off: {reason}.") from None


def _eight_bit(picture: Image.Image, path: Path) -> Image.Image:
    if picture.mode in ("L", "RGB"):
        return picture
    if picture.mode in GREY_MODES:
        return picture.convert("L")
    if picture.mode == "I" or picture.mode.startswith("I;16"):
        # Pillow's own conversion would clip everything above 255.
        levels = np.asarray(picture).astype(np.int64)
        if levels.min() < 0 or levels.max() > 65_535:
            raise UsageError(f"{path} has values beyond 16 bits; convert it to 8 bits first.")
        return Image.fromarray(((levels + 128) // 257).astype(np.uint8))
    if picture.mode == "F":
        raise UsageError(f"{path} holds floating-point values; convert it to 8 bits first.")
    return picture.convert("RGB")


def write_picture(
    picture: Image.Image, path: Path, *, quality: int | None = None, note: str = ""
) -> None:
    """Write the picture as PNG, or as JPEG of that `quality`, with a `note` that `read_note` finds.

    The file appears whole or not at all.
    """
    options: dict[str, Any]
    if quality is None:
        info = PngImagePlugin.PngInfo()
        if note:
            info.add_text(NOTE, note)
        # The fastest level: corrupted pictures hardly get smaller with more effort.
        options = {"format": "PNG", "pnginfo": info, "compress_level": 1}
    else:
        options = {"format": "JPEG", "quality": quality}
        if note:
            options["comment"] = f"{NOTE} {note}".encode()
    with atomic_file(path) as temporary:
        picture.save(temporary, **options)


def read_note(path: Path) -> str | None:
    """Return the note inside a picture that `write_picture` wrote; None where there is none."""
    try:
        with Image.open(path) as picture:
            text = picture.info.get(NOTE)
            comment = picture.info.get("comment", b"")
    except UNREADABLE:
        return None
    if isinstance(text, str):
        return text
    if isinstance(comment, bytes) and comment.startswith(f"{NOTE} ".encode()):
        return comment.decode("utf-8", "replace").removeprefix(f"{NOTE} ")
    return None


def is_damaged(path: Path) -> bool:
    """Whether the file is empty or no picture, or carries our note but lacks its end.

    Nothing is decoded, and without our note the end says nothing: cameras append to their files.
    """
    if not path.is_file():
        return False
    try:
        with Image.open(path) as picture:
            end = ENDS.get(picture.format or "", b"")
        with path.open("rb") as file:
            file.seek(-len(end), os.SEEK_END)
            cut_off = file.read() != end
    except (PermissionError, Image.DecompressionBombError):
        return False
    except DAMAGE:
        return True
    return cut_off and read_note(path) is not None
