"""Image sources: list the images that a user gives, before any of them is decoded.

Each kind of source has its own module; this module only decides which kind a source is. Without a
source, the 20 demo images are used.
"""

import os
import re
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

from eyechart.core.arguments import as_path, brief
from eyechart.core.errors import UsageError, install_hint
from eyechart.core.storage.remote import RemoteFile, as_shown, is_remote_file, is_url, remote_files
from eyechart.images.hf_images import HUB, is_hf, is_saved_dataset, list_hf, list_hub, list_saved
from eyechart.images.image_files import images_in, unread_notes
from eyechart.images.image_list import (
    MANIFESTS,
    ImageListing,
    ListedImage,
    list_folder,
    list_manifest,
    list_remote_folder,
    list_remote_manifest,
)
from eyechart.images.memory_images import (
    ARRAYS,
    is_arrays,
    is_map_style,
    list_array_file,
    list_arrays,
    list_map_style,
)
from eyechart.images.parquet_images import PARQUET, image_column, list_parquet
from eyechart.images.tar_shards import TAR, expand_braces, find_shards, list_shards

EXPECTED = "the path of a folder or a list"


class ImageData(Protocol):
    """Images in memory: a dataset of (image, label) pairs, an array, or images with labels."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: Any, /) -> Any: ...


def find_listing(
    source: str | os.PathLike[str] | ImageData,
    leave_out: Path | None = None,
    *,
    download: bool = False,
) -> ImageListing:
    """Return the images of a source; nothing is decoded yet, except to find labels or sizes.

    Args:
        source: A path, `hf:NAME[:SPLIT]`, or images in memory: see `load_images`.
        leave_out: A folder inside `source` to skip, such as the output folder.
        download: Whether a dataset may be downloaded from the Hugging Face hub.

    Raises:
        UsageError: If there are no images, or the source is invalid.
    """
    if isinstance(source, str | os.PathLike):
        return _of_path(Path(as_path(source, "images", EXPECTED)), leave_out, download)
    if is_hf(source):
        return list_hf(source)
    if is_arrays(source):
        return list_arrays(source)
    if is_map_style(source):
        return list_map_style(source)
    raise wrong_source(source)


def wrong_source(source: object) -> UsageError:
    """Return the error for something that is not a source of images."""
    return UsageError(
        f"images must be {EXPECTED}, an array of images, (images, labels), or a dataset of"
        f" (image, label) pairs, got {brief(source)}."
    )


def source_name(source: str) -> str:
    """Return the name of a source without its path, which differs between machines.

    Example:
        >>> source_name("/data/imagenet/val/"), source_name("hf:owner/name:test")
        ('val', 'hf:owner/name:test')
    """
    return source if source.startswith(HUB) else Path(os.path.abspath(source)).name


def find_images(source: Path, leave_out: Path | None = None) -> list[ListedImage]:
    """Return the images at a path: a folder, a list of images, tar shards or an array."""
    return list(find_listing(source, leave_out).images)


def _of_path(source: Path, leave_out: Path | None, download: bool) -> ImageListing:
    name = as_shown(source)
    if is_url(name) and not source.exists():
        return _of_url(name)
    if name.startswith(HUB):
        return list_hub(name, download=download)
    suffix = source.suffix.lower()
    if suffix == TAR and not source.is_dir():
        return list_shards(find_shards(source), name)
    if source.is_file():
        if suffix in ARRAYS:
            return list_array_file(source)
        if suffix == PARQUET and image_column(source) is not None:
            return list_parquet([source], name)
        if suffix in MANIFESTS:
            return ImageListing(name, list_manifest(source))
        raise UsageError(
            f"{source} is not a list of images: give a folder, a .csv or .parquet file with the"
            " columns path and label, a .tar file, or a .npz or .npy file."
        )
    if is_saved_dataset(source):
        return list_saved(source)
    shards = sorted(source.glob(f"*{TAR}")) if source.is_dir() else []
    tables = sorted(source.glob(f"*{PARQUET}")) if source.is_dir() else []
    # An archive beside class folders is their original rather than more images.
    if (shards or tables) and not images_in(source, leave_out):
        return list_shards(shards, name) if shards else list_parquet(tables, name)
    notes = unread_notes(source, leave_out)
    return ImageListing(name, list_folder(source, leave_out), notes=notes)


def _of_url(url: str) -> ImageListing:
    """Return the images at a URL: tar shards, Parquet files, a list of images, or a folder."""
    files = [RemoteFile(name) for name in expand_braces(url)]
    suffix = files[0].suffix.lower()
    if suffix == TAR:
        return list_shards(files, url)
    if suffix == PARQUET and image_column(files[0]) is not None:
        return list_parquet(files, url)
    if is_remote_file(url):
        if suffix in MANIFESTS:
            return ImageListing(url, list_remote_manifest(files[0]))
        raise UsageError(
            f"{url} is not a list of images: give a folder, a .csv or .parquet file with the"
            " columns path and label, or a .tar file."
        )
    images = list_remote_folder(url)
    if images:
        return ImageListing(url, images)
    shards = [file for file, _ in remote_files(url, (TAR,))]
    tables = [file for file, _ in remote_files(url, (PARQUET,))]
    if not shards and not tables:
        raise UsageError(f"No images in {url}: give a folder of images, {TAR} or {PARQUET} files.")
    return list_shards(shards, url) if shards else list_parquet(tables, url)


NAME = re.compile(r"imagenet_\d+_(\d+)\.jpg")
# Do not reword: stored in results, and compared when their images are shown again.
SOURCE = "20 demo images"


def demo_images() -> list[ListedImage]:
    """Return the ImageNet images that ship with foolbox, labeled with ImageNet class indices.

    Only the package's files are read; foolbox itself is not imported.
    """
    spec = find_spec("foolbox")
    if spec is None or spec.origin is None:
        raise UsageError(
            f"The demo images are not installed: {install_hint('demo')}, or give --images FOLDER."
        )
    folder = Path(spec.origin).parent / "data"
    matches = [(path, NAME.fullmatch(path.name)) for path in sorted(folder.glob("imagenet_*.jpg"))]
    return [ListedImage(path, path.name, match[1]) for path, match in matches if match]
