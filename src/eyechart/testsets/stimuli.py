"""Compute the corrupted images of samples and their visual change, one block at a time.

Clean images, and what is computed from them to measure visual change, stay on the device, so that
they are prepared once for all corruptions and draws. Memory use does not grow with the test set.
"""

from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from eyechart.core.arrays import IntArray
from eyechart.core.devices import in_stream, to_device
from eyechart.core.parallel import on_all_cores
from eyechart.corruptions.digital import through_jpeg
from eyechart.corruptions.kernels.arithmetic import copy_planes, pixels_of
from eyechart.corruptions.kernels.jpeg_torch import jpeg_in_torch
from eyechart.corruptions.suites.apply import corrupt_batch, draw_random
from eyechart.corruptions.suites.assets import assets_of
from eyechart.corruptions.suites.strength import Strengths
from eyechart.images.identity import content_keys
from eyechart.images.imageset import ImageSet
from eyechart.testsets.plan import Plan
from eyechart.testsets.samples import Samples
from eyechart.visual_change.registry import find_ruler
from eyechart.visual_change.ruler import CleanDescription, Ruler

CLEAN_PIXELS = {"cpu": 32 * 224 * 224, "cuda": 512 * 224 * 224}
"""Number of pixels of clean images that are in memory at once, by device type."""

JPEG_AT_ONCE = 128
"""Number of images that a GPU compresses as JPEG at once."""

AHEAD = {"cpu": 64, "cuda": 1024}
"""Number of files that are read ahead while earlier files are processed."""

BATCH = {"cpu": 32, "cuda": 256}

BATCH_PIXELS = {"cpu": 32 * 512 * 512, "cuda": 512 * 512 * 512}
"""Maximum number of pixels of a batch by device type, so that large images need little memory."""


@dataclass(frozen=True, eq=False)
class CorruptedImages:
    """Corrupted images, uint8 (B, 3, H, W), with their measurements, on the same device.

    `delta_v`: visual change in 0…1, NaN if there is no clean image or if it contains too little
    information. `pixels`: a 64-bit digest of the 8-bit values. `scales`: number of pyramid scales
    used for the visual change, 0 if it is not measured.
    """

    images: Tensor
    delta_v: Tensor
    pixels: Tensor
    scales: int


@dataclass(frozen=True, eq=False)
class CleanImages:
    """A block of images of one size, ready to be corrupted and compared.

    `clean` and `description` (computed by `ruler`) are None if there are only corrupted images.
    `jpeg`: the quality at which corrupted images are stored and read back, None for no compression.
    """

    indices: IntArray
    clean: Tensor | None
    keys: Tensor
    ruler: Ruler
    description: CleanDescription | None
    device: torch.device
    seed: int
    jpeg: int | None = None

    def make(self, samples: Samples, read: Tensor | None = None) -> CorruptedImages:
        """Return the corrupted images of samples that share a corruption and are in this block.

        `read`: the corrupted images, uint8 (B, 3, H, W), if they come from files.
        """
        # `indices` is sorted, so a binary search gives each sample's position in the block.
        local = torch.from_numpy(np.searchsorted(self.indices, samples.image))
        on_device = to_device(local, self.device)
        if read is not None:
            return self._measured(read.to(self.device, non_blocking=True), on_device)
        assert self.clean is not None, "nothing to corrupt"
        images = self.clean[on_device]
        if samples.entry is None:
            assert self.description is not None, "nothing to compare with"
            # An unchanged image has Δv = 0 by definition; no comparison is needed.
            change = torch.where(self.description.measurable[on_device], 0.0, torch.nan)
            scales = self.description.n_scales
            return CorruptedImages(images, change.to(torch.float64), content_keys(images), scales)
        entry, draws = samples.entry, samples.draw.tolist()
        random = draw_random(entry, self.keys[local], self.seed, draws, images.device)
        strengths = Strengths(samples.severity, samples.values)
        corrupted = corrupt_batch(images, entry, strengths, random, assets_of(entry))
        if self.jpeg is not None:
            corrupted = as_jpeg(corrupted, self.jpeg)
        return self._measured(corrupted, on_device)

    def _measured(self, images: Tensor, local: Tensor) -> CorruptedImages:
        if self.description is None:
            nowhere = torch.full((len(images),), torch.nan, dtype=torch.float64)
            return CorruptedImages(images, nowhere.to(self.device), content_keys(images), 0)
        change = self.ruler.compare(self.description.select(local), images)
        return CorruptedImages(images, change, content_keys(images), self.description.n_scales)


def as_jpeg(images: Tensor, quality: int) -> Tensor:
    """Return uint8 images (B, 3, H, W) after JPEG compression at this quality.

    On a CPU, OpenCV compresses the images; on a GPU, torch runs the same steps and gives the same
    pixels.
    """
    if images.device.type != "cpu":
        starts = range(0, len(images), JPEG_AT_ONCE)
        parts = [images[start : start + JPEG_AT_ONCE] for start in starts]
        return torch.cat(
            [jpeg_in_torch(part, np.full(len(part), float(quality))) for part in parts]
        )
    out = torch.empty_like(images)
    levels, result = images.numpy(), out.numpy()

    def work(position: int) -> None:
        copy_planes(through_jpeg(pixels_of(levels[position]), quality), result[position])

    on_all_cores(work, range(len(levels)))
    return out


def group_by_size(
    images: ImageSet, used: Sequence[int] | IntArray, device: torch.device
) -> list[IntArray]:
    """Return the images in blocks of one size, each small enough to fit into memory."""
    by_size: dict[tuple[int, int], list[int]] = {}
    # Sorted, because `make` finds positions in a block by binary search.
    for position in sorted({int(image) for image in used}):
        by_size.setdefault(images.sizes[position], []).append(position)
    blocks = []
    for (height, width), indices in by_size.items():
        # At least one image per block, however large it is.
        size = max(1, CLEAN_PIXELS.get(device.type, CLEAN_PIXELS["cpu"]) // (height * width))
        blocks += [
            np.array(indices[start : start + size]) for start in range(0, len(indices), size)
        ]
    return blocks


def samples_of(groups: Sequence[Samples], indices: IntArray) -> Iterator[tuple[Samples, IntArray]]:
    """Yield, per corruption, the samples whose image is in `indices`, with their positions."""
    for samples in groups:
        # Samples are not sorted by image, so the positions are found by membership.
        positions = np.flatnonzero(np.isin(samples.image, indices))
        if len(positions):
            yield samples.select(positions), positions


@dataclass(frozen=True, eq=False)
class LoadedSamples:
    """Samples of one corruption with their clean images and, if read from files, corrupted images.

    `from_files`: the corrupted images, uint8 (B, 3, H, W), None if they are computed here.

    `unreadable`: samples whose files could not be read; `samples` excludes them, and `why`
    contains the reasons.
    """

    clean_images: CleanImages
    samples: Samples
    from_files: Tensor | None
    unreadable: Samples
    why: tuple[str, ...] = ()


def iterate_samples(
    images: ImageSet, items: Sequence[Sequence[Samples]], plan: Plan, device: torch.device
) -> Iterator[LoadedSamples]:
    """Yield the samples of all items, image block by image block and corruption by corruption.

    An item is a list of samples of some corruptions. Clean images are never shared between items,
    so that the result for one item does not depend on the others.
    """
    blocks = [
        (groups, indices)
        for groups in items
        for indices in group_by_size(images, images_of(groups), device)
    ]
    with ThreadPoolExecutor(1, "eyechart-files") as reader:
        coming: Future[LoadedSamples] | None = None
        loaded = _iterate_blocks(images, [indices for _, indices in blocks], plan, device)
        for (groups, _), clean_images in zip(blocks, loaded, strict=True):
            for samples, _ in samples_of(groups, clean_images.indices):
                if images.files is None:
                    yield _as_it_is(clean_images, samples)
                    continue
                for part in _pieces(samples, AHEAD.get(device.type, AHEAD["cpu"])):
                    # One part is read ahead: the next is submitted before the previous one is
                    # handed out.
                    ready, coming = coming, reader.submit(_read, images, clean_images, part)
                    if ready is not None:
                        yield ready.result()
        if coming is not None:
            yield coming.result()


def images_at_once(most: int, size: tuple[int, int], device: torch.device) -> int:
    """Return the size of a batch of images of this height and width: `most`, or fewer large ones.

    Example:
        >>> images_at_once(32, (224, 224), torch.device("cpu"))
        32
        >>> images_at_once(32, (4000, 6000), torch.device("cpu"))
        1
    """
    fitting = BATCH_PIXELS.get(device.type, BATCH_PIXELS["cpu"]) // (size[0] * size[1])
    return min(most, max(1, fitting))


def corrupt_samples(
    images: ImageSet, groups: Sequence[Samples], plan: Plan, device: torch.device
) -> Iterator[tuple[Samples, IntArray, CorruptedImages]]:
    """Yield the samples in batches, with their positions in their group and their images."""
    groups = [samples for samples in groups if len(samples)]
    if not groups:
        return
    blocks = group_by_size(images, images_of(groups), device)
    for clean_images in _iterate_blocks(images, blocks, plan, device):
        size = images.sizes[clean_images.indices[0]]
        most = images_at_once(BATCH.get(device.type, BATCH["cpu"]), size, device)
        for samples, positions in samples_of(groups, clean_images.indices):
            for start in range(0, len(samples), most):
                batch = samples.select(np.arange(start, min(start + most, len(samples))))
                yield batch, positions[start : start + most], clean_images.make(batch)


def _pieces(samples: Samples, most: int) -> Iterator[Samples]:
    """Yield the samples in as few parts as possible, of nearly equal size."""
    for indices in np.array_split(np.arange(len(samples)), -(-len(samples) // most)):
        yield samples.select(indices)


def _as_it_is(clean_images: CleanImages, samples: Samples) -> LoadedSamples:
    return LoadedSamples(clean_images, samples, None, samples.select(np.empty(0, dtype=np.int64)))


def _read(images: ImageSet, clean_images: CleanImages, samples: Samples) -> LoadedSamples:
    if samples.entry is None:
        return _as_it_is(clean_images, samples)
    assert images.files is not None
    files = images.files.read(
        samples.entry.name, samples.severity.astype(np.int64).tolist(), samples.image.tolist()
    )
    is_good = np.array([isinstance(file, Tensor) for file in files])
    good, bad = np.flatnonzero(is_good), np.flatnonzero(~is_good)
    stimuli = [file for file in files if isinstance(file, Tensor)]
    # torch.stack rejects an empty list.
    size = images.files.size
    pixels = torch.stack(stimuli) if stimuli else torch.empty(0, 3, *size, dtype=torch.uint8)
    pixels = pixels if clean_images.device.type == "cpu" else pixels.pin_memory()
    why = tuple(file for file in files if isinstance(file, str))
    return LoadedSamples(clean_images, samples.select(good), pixels, samples.select(bad), why)


def images_of(groups: Sequence[Samples]) -> IntArray:
    """Return the positions of the images that samples use, in increasing order."""
    return np.unique(np.concatenate([samples.image for samples in groups]))


def _iterate_blocks(
    images: ImageSet, blocks: Sequence[IntArray], plan: Plan, device: torch.device
) -> Iterator[CleanImages]:
    """Yield the clean images of each block, on the device."""
    ruler = find_ruler(plan.ruler)
    # Copies must be in the same stream as the work that uses them; a new thread has its own.
    stream = torch.cuda.current_stream(device) if device.type == "cuda" else None

    def read(indices: IntArray) -> Tensor | None:
        if not images.has_clean:
            return None
        with in_stream(stream):
            return to_device(images.batch(indices.tolist()), device)

    # The next block is read while the device works on this one.
    with ThreadPoolExecutor(1, "eyechart-read") as reader:
        coming = reader.submit(read, blocks[0])
        for number, indices in enumerate(blocks):
            clean = coming.result()
            if number + 1 < len(blocks):
                coming = reader.submit(read, blocks[number + 1])
            yield CleanImages(
                indices,
                clean,
                images.keys(indices),
                ruler,
                None if clean is None else ruler.describe(clean),
                device,
                plan.seed,
                plan.jpeg,
            )
