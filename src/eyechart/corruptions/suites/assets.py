"""Data that some corruptions need besides the image: frost textures, style transfer networks.

Frost textures are read from a folder of images, or generated from published statistics: each is a
random field that has the same contrast in every octave of detail as one of the frost images of
ImageNet-C, mapped to its gray-level percentiles and tinted with its colors. The images themselves
have no clear license and are not included.
"""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from eyechart.core.arguments import regular_file
from eyechart.core.errors import UsageError
from eyechart.core.randomness import ImageRandom, hash64
from eyechart.core.storage.files import write_torch
from eyechart.corruptions.declaration import Assets
from eyechart.corruptions.style import Styles, StyleTransfer
from eyechart.corruptions.suites.suite import Entry, Suite
from eyechart.images.identity import file_digest
from eyechart.images.image_files import find_image_files, read_image

WIDTHS = (0.0, 0.7, 1.4, 2.8, 5.6, 11.2, 22.4)
"""Standard deviations in px of the Gaussians that separate the octaves of detail."""
SLOW = 90.0
"""Standard deviation in px of the Gaussian for slow brightness changes across the texture."""
CALM, SPREAD, FALL = 6.0, 250.0, -1.6
"""Minimum and maximum size in px of patches with equal contrast, and their spectrum's exponent."""
PERCENTILES = (0.0, 1.0, 25.0, 50.0, 75.0, 99.0, 100.0)


@dataclass(frozen=True)
class FrostStatistics:
    """The statistics of one frost image, and the parameters of a texture that matches it.

    Attributes:
        size: height and width in px.
        mean: mean of red, green and blue in gray levels.
        deviation: standard deviation of red, green and blue in gray levels.
        gray: percentiles 1, 25, 50, 75 and 99 of the gray levels.
        octaves: strength of the detail between adjacent WIDTHS, from fine to coarse, relative to
            slow changes with strength 1.
        unevenness: standard deviation of the logarithm of the local contrast. `unevenness` and
            `octaves` were fitted together, so that the contrast of every octave, its unevenness and
            the visual change Δv of frosted images match the original.
    """

    size: tuple[int, int]
    mean: tuple[float, float, float]
    deviation: tuple[float, float, float]
    gray: tuple[float, float, float, float, float]
    octaves: tuple[float, ...]
    unevenness: float


FROST = (
    FrostStatistics(
        (600, 900), (78, 149, 166), (27, 17, 15), (95, 116, 128, 141, 177),
        (0.226, 0.68, 0.346, 0.19, 0.25, 0.4), 0.28,
    ),
    # two of the published images are identical, so this one is drawn twice as often
    *[
        FrostStatistics(
            (315, 560), (201, 205, 215), (21, 22, 23), (140, 193, 208, 220, 244),
            (0.264, 0.985, 0.694, 0.826, 0.485, 0.709), 0.29,
        )
    ] * 2,
    FrostStatistics(
        (350, 527), (138, 153, 165), (29, 29, 30), (81, 132, 150, 167, 231),
        (0.523, 1.9, 1.137, 1.048, 0.581, 0.831), 0.5,
    ),
    FrostStatistics(
        (495, 660), (112, 123, 135), (44, 43, 42), (43, 89, 117, 149, 237),
        (0.542, 0.78, 0.869, 0.832, 0.692, 1.091), 0.45,
    ),
)  # fmt: skip


@lru_cache(maxsize=5)
def frost_textures(folder: str | None = None) -> tuple[Tensor, ...]:
    """Return the frost textures, uint8 (3, H, W): generated, or the images in `folder`."""
    if folder is None:
        return tuple(make_frost(statistics, number) for number, statistics in enumerate(FROST))
    images = [read_image(file.path).convert("RGB") for file in find_image_files([Path(folder)])]
    return tuple(torch.from_numpy(np.array(image)).permute(2, 0, 1) for image in images)


def make_frost(statistics: FrostStatistics, number: int) -> Tensor:
    """Return one texture, uint8 (3, H, W), which is the same on every machine."""
    field = _field(statistics, number)
    # histogram matching by rank: the field's values are mapped to the original's percentiles
    ranks = np.empty(field.size)
    # stable, so that equal values get the same ranks on every machine
    ranks[np.argsort(field, axis=None, kind="stable")] = (np.arange(field.size) + 0.5) / field.size
    known = statistics.gray
    # the extremes were not measured; they are extrapolated from the nearest percentiles
    low = max(0.0, known[0] - (known[1] - known[0]) / 2)
    high = min(255.0, known[-1] + (known[-1] - known[-2]) / 4)
    gray = np.interp(ranks * 100, PERCENTILES, [low, *known, high])
    shade = ((gray - gray.mean()) / gray.std()).reshape(statistics.size)
    colors = [
        np.clip(np.floor(mean + deviation * shade + 0.5), 0, 255)
        for mean, deviation in zip(statistics.mean, statistics.deviation, strict=True)
    ]
    return torch.from_numpy(np.stack(colors).astype(np.uint8))


def _field(statistics: FrostStatistics, number: int) -> NDArray[np.float64]:
    """Return a random field: slow changes plus detail whose strength varies locally.

    Real frost is not rough everywhere; there is smooth ice between crystals.
    """
    height, width = statistics.size
    random = ImageRandom(
        torch.tensor([number]), [hash64("frost texture", number)], torch.device("cpu")
    )
    frequency = np.hypot(np.fft.fftfreq(height)[:, None], np.fft.rfftfreq(width))

    def blur(sigma: float) -> NDArray[np.float64]:
        # the Fourier transform of a Gaussian; frequencies are in cycles per px
        return np.asarray(np.exp(-2 * (np.pi * sigma * frequency) ** 2))

    def shaped(stream: str, gain: NDArray[np.float64]) -> NDArray[np.float64]:
        white = random.normal(stream, (height, width))[0].numpy().astype(np.float64)
        field = np.fft.irfft2(np.fft.rfft2(white) * gain, s=(height, width))
        return np.asarray(field - field.mean())

    gain = np.zeros_like(frequency)
    # WIDTHS has one number more than there are octaves between them
    for strength, fine, coarse in zip(statistics.octaves, WIDTHS, WIDTHS[1:], strict=False):
        # white noise has less power in coarser octaves; `coarse` compensates for this
        gain += strength * coarse * (blur(fine) - blur(coarse))
    detail = shaped("detail", gain)
    slow = shaped("slow", blur(SLOW))
    patches = shaped("patches", np.maximum(frequency, 1 / SPREAD) ** FALL * blur(CALM))
    # log-normal local contrast
    uneven = np.exp(statistics.unevenness * patches / patches.std())
    return np.asarray(detail * uneven + slow / slow.std())


VARIABLE = "EYECHART_STYLE_TRANSFER"
"""The environment variable with the path of a trained style transfer network."""

MARK, VERSION = "eyechart_style_transfer", 1


def assets_of(entry: Entry, frost: str | None = None) -> Assets:
    """Return an entry's assets; `frost`: a texture folder to use instead of generated textures."""
    needs = entry.corruption.needs
    if needs == "textures":
        return {"textures": frost_textures(frost)}
    if needs == "styles":
        return {"styles": read_styles(style_file())}
    return {}


def is_ready(entry: Entry) -> bool:
    """Return whether an entry can be used; style transfer needs a trained network."""
    return entry.corruption.needs != "styles" or bool(os.environ.get(VARIABLE))


def ready_entries(suite: Suite) -> list[Entry]:
    """Return the entries of a suite that can be used."""
    return [entry for entry in suite if is_ready(entry)]


def assets_mark(entry: Entry) -> str:
    """Return the identifier of an entry's assets; "" if it needs no trained network."""
    return file_digest(style_file()) if entry.corruption.needs == "styles" else ""


def entry_mark(entry: Entry) -> str:
    """Return an identifier computed from an entry's declaration in the suite and its assets."""
    return f"{entry.fingerprint}{assets_mark(entry)}"


def left_out(suite: Suite) -> list[str]:
    """Return the names of the entries that cannot be used."""
    return [entry.name for entry in suite if not is_ready(entry)]


def left_out_notes(names: Iterable[str]) -> list[str]:
    """Return a note for each corruption that is left out because its assets are missing."""
    return [
        f"{name} is left out because it needs a trained network (see docs/how-to/structure.md)."
        for name in dict.fromkeys(names)
    ]


def style_file() -> Path:
    """Return the path of the style transfer network; raise a UsageError if none is configured."""
    name = os.environ.get(VARIABLE)
    if not name:
        raise UsageError(
            "style_transfer needs a trained network: train one with eyechart train style-transfer,"
            f" and set the environment variable {VARIABLE} to its file."
        )
    return Path(name)


def write_styles(styles: Styles, path: Path) -> None:
    """Write a trained style transfer network atomically."""
    channels = styles.means.shape[1]
    weights = {name: value.cpu() for name, value in styles.network.state_dict().items()}
    moments = {"means": styles.means.cpu(), "deviations": styles.deviations.cpu()}
    write_torch({MARK: VERSION, "channels": channels, "weights": weights, **moments}, path)


def read_styles(path: Path) -> Styles:
    """Return the trained style transfer network in a file."""
    try:
        changed = path.stat().st_mtime_ns
    except OSError as error:
        raise UsageError(
            f"Cannot read the style transfer network {path}, which the environment variable"
            f" {VARIABLE} names: {error.strerror}."
        ) from None
    # the time of the last change is part of the cache key, so that a new file is read again
    return _read_styles(path, changed)


@lru_cache(maxsize=2)
def _read_styles(path: Path, changed: int) -> Styles:
    try:
        # weights_only: a pickle from elsewhere must not run code
        held = torch.load(regular_file(path), map_location="cpu", weights_only=True)
        if held[MARK] != VERSION:
            raise ValueError
        network = StyleTransfer(held["channels"])
        network.load_state_dict(held["weights"])
        styles = Styles(network.eval().requires_grad_(False), held["means"], held["deviations"])
        if not len(styles) or styles.means.shape != styles.deviations.shape:
            raise ValueError
        return styles
    # torch.load raises many types of exceptions for other files
    except Exception:
        raise UsageError(
            f"{path} is not a style transfer network that this version can read: train one with"
            " eyechart train style-transfer."
        ) from None
