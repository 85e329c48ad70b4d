"""Why does the coverage of Δv differ from the published table? Measured candidate by candidate.

`python -m benchmarks.coverage IMAGES --out FILE` draws samples of VCR's 14 corruptions under one
changed condition at a time (docs/how-to/testsets.md has the table) and writes a histogram of Δv for
each.
A GPU is recommended: all conditions together take 8 million samples.
"""

import argparse
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from PIL import Image
from torch import Tensor

import eyechart as ec
from eyechart.core.arrays import FloatArray
from eyechart.corruptions.suites.apply import corrupt_batch, draw_random
from eyechart.corruptions.suites.assets import assets_of
from eyechart.corruptions.suites.strength import Strengths, draw_from_domain
from eyechart.corruptions.suites.suite import Entry, find_variant, load_suite

BINS, MIN_PER_BIN = 39, 20
CHUNK_VALUES = 2048 * 3 * 224 * 224

IN_THE_TABLE = (
    *("brightness", "gaussian_blur", "defocus_blur", "shot_noise", "frost", "gaussian_noise"),
    *("impulse_noise", "motion_blur", "glass_blur"),
)
"""Corruptions of ImageNet-C whose coverage is published; their pixels are known."""


@dataclass(frozen=True)
class Condition:
    """How samples are made and measured.

    Attributes:
        title: What differs from VCR's procedure as eyechart runs it.
        suite: Suite of the corruptions.
        n: Samples per corruption.
        images: Which images: all, a number of them, or only those larger than the stimulus.
        size: Whether images are corrupted and measured as the stimulus of 224 px, or at their
            original size, with lengths in their own pixels.
        eight_bit: How corrupted values become gray levels; "none" measures them as floats.
        domains: Other parameter domains, by corruption.
        jpeg: JPEG quality of the corrupted image, None for no compression.
        ruler: Which variant of VIF measures Δv.
    """

    title: str
    suite: str = "vcr"
    n: int = 50_000
    images: int | Literal["all", "large"] = "all"
    size: Literal["stimulus", "original"] = "stimulus"
    eight_bit: Literal["round", "truncate", "none"] = "round"
    domains: Mapping[str, Mapping[str, tuple[float, float]]] = field(default_factory=dict)
    jpeg: int | None = None
    ruler: str = "vif"


def _photons(high: float) -> Condition:
    domains = {"vcr/shot_noise": {"photons": (1.0, high)}}
    return Condition(f"photons from 1 to {high:g}", domains=domains)


def _blurs(high: float) -> Condition:
    domains = {"vcr/gaussian_blur": {"sigma": (0.00001, high)}}
    return Condition(f"blur with σ to {high:g}", domains=domains)


CONDITIONS = (
    Condition("50,000 samples, all images"),
    Condition("16,000 samples, all images", n=16_000),
    Condition("16,000 samples, 265 images", n=16_000, images=265),
    Condition("50,000 samples, 265 images", images=265),
    Condition("original size", size="original"),
    Condition("large images, as stimuli", images="large"),
    Condition("large images, original size", images="large", size="original"),
    Condition(
        "large images, original size, truncated",
        images="large",
        size="original",
        eight_bit="truncate",
    ),
    Condition("truncated to 8 bits", eight_bit="truncate"),
    Condition("measured before 8 bits", eight_bit="none"),
    Condition("vcr@paper", suite="vcr@paper"),
    *map(_photons, (10.0, 20.0, 60.0, 80.0, 100.0, 500.0)),
    Condition("σ from 0.08 to 0.9", domains={"vcr/gaussian_noise": {"sigma": (0.08, 0.9)}}),
    *map(_blurs, (7.07, 10.0, 15.0, 20.0)),
    Condition("VIF as published in 2006", ruler="sheikh2006"),
    Condition("VIF of pixels", ruler="vif-pixel"),
    Condition("ImageNet-C", suite="imagenet-c"),
    Condition("ImageNet-C, JPEG 85", suite="imagenet-c", jpeg=85),
    Condition("ImageNet-C, VIF as published in 2006", suite="imagenet-c", ruler="sheikh2006"),
    Condition("ImageNet-C, VIF of pixels", suite="imagenet-c", ruler="vif-pixel"),
)


def read_images(folder: Path) -> list[Tensor]:
    """Return all images below a folder as uint8 tensors (3, H, W), in the order of their names."""
    files = sorted(path for path in folder.rglob("*") if path.suffix.lower() in (".jpeg", ".jpg"))
    arrays = [np.array(Image.open(path).convert("RGB")) for path in files]
    # Shuffled, so that the first N are a random subset of all classes.
    order = np.random.default_rng(0).permutation(len(arrays))
    return [torch.from_numpy(arrays[index]).permute(2, 0, 1) for index in order]


def as_stimulus(image: Tensor) -> Tensor:
    """Return an image with its shorter side resized to 256 px, and its center of 224 px."""
    height, width = image.shape[-2:]
    scale = 256 / min(height, width)
    picture = Image.fromarray(image.permute(1, 2, 0).numpy())
    size = round(width * scale), round(height * scale)
    resized = np.array(picture.resize(size, Image.Resampling.BILINEAR))
    top, left = (size[1] - 224) // 2, (size[0] - 224) // 2
    return torch.from_numpy(resized[top : top + 224, left : left + 224]).permute(2, 0, 1)


def entries_of(condition: Condition) -> list[Entry]:
    """Return the corruptions of a condition; of ImageNet-C, those in the published table."""
    if condition.suite == "imagenet-c":
        entries = [find_variant(name) for name in IN_THE_TABLE]
    else:
        entries = list(load_suite(condition.suite))
        if condition.domains:
            entries = [entry for entry in entries if entry.name in condition.domains]
    if condition.size == "original":
        entries = [replace(entry, reference_side=None) for entry in entries]
    if condition.eight_bit == "truncate":
        entries = [replace(entry, eight_bit="truncate") for entry in entries]
    return [
        replace(entry, domain={**entry.domain, **condition.domains.get(entry.name, {})})
        for entry in entries
    ]


def batches(
    images: list[Tensor], n: int, device: str
) -> Iterator[tuple[Tensor, Tensor, list[int]]]:
    """Yield clean images of one size, their indices and draws: `n` samples over all images."""
    sizes: dict[tuple[int, ...], list[int]] = {}
    for index, image in enumerate(images):
        sizes.setdefault(tuple(image.shape), []).append(index)
    for size, indices in sizes.items():
        clean = torch.stack([images[index] for index in indices]).to(device)
        keys = torch.tensor(indices)
        first, rest = divmod(n, len(images))
        samples = [
            (place, draw)
            for place, index in enumerate(indices)
            for draw in range(first + (index < rest))
        ]
        step = max(1, CHUNK_VALUES // int(np.prod(size)))
        for start in range(0, len(samples), step):
            places, draws = zip(*samples[start : start + step], strict=True)
            chosen = torch.tensor(places)
            yield clean[chosen.to(device)], keys[chosen], list(draws)


def measure(condition: Condition, entry: Entry, images: list[Tensor], device: str) -> FloatArray:
    """Return Δv of all samples of a corruption."""
    values, assets = [], assets_of(entry)
    for clean, keys, draws in batches(images, condition.n, device):
        random = draw_random(entry, keys, 0, draws, clean.device)
        if entry.levels:
            severity = 1.0 + np.array(draws) % 5
            strengths = Strengths(severity)
        else:
            strengths = Strengths(np.full(len(keys), np.nan), draw_from_domain(entry, random))
        shown = clean.float() / 255 if condition.eight_bit == "none" else clean
        corrupted = corrupt_batch(shown, entry, strengths, random, assets)
        if condition.jpeg is not None:
            corrupted = ec.corrupt(corrupted, "jpeg_compression", quality=condition.jpeg)
        values.append(ec.delta_v(shown, corrupted, ruler=condition.ruler).cpu().numpy())
    joined = np.concatenate(values).astype(np.float64)
    return joined[np.isfinite(joined)]


def run(folder: Path, device: str, n_per_condition: int | None, out: Path) -> None:
    """Measure all conditions; write histograms of 390 bins after each of them."""
    originals = read_images(folder)
    stimuli = [as_stimulus(image) for image in originals]
    large = [index for index, image in enumerate(originals) if min(image.shape[-2:]) >= 300]
    histograms: dict[str, dict[str, list[int]]] = {}
    print(f"{len(originals)} images, {len(large)} of them large", flush=True)
    for condition in CONDITIONS:
        if n_per_condition is not None:
            condition = replace(condition, n=n_per_condition)
        images = originals if condition.size == "original" else stimuli
        if condition.images == "large":
            images = [images[index] for index in large]
        elif condition.images != "all":
            images = images[: condition.images]
        line = []
        for entry in entries_of(condition):
            name = entry.name.rpartition("/")[2]
            delta_v = measure(condition, entry, images, device)
            # ten fine bins to a bin, so that other bins can be counted later
            fine = np.bincount(np.minimum((delta_v * 390).astype(int), 389), minlength=390)
            histograms.setdefault(condition.title, {})[name] = fine.tolist()
            share = (fine.reshape(BINS, 10).sum(axis=1) >= MIN_PER_BIN).mean()
            line.append(f"{name} {share:.3f}")
        print(f"{condition.title}: {', '.join(line)}", flush=True)
        out.write_text(json.dumps(histograms))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("images", type=Path, help="Folder of JPEG images.")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--n", type=int, help="Samples per corruption in every condition.")
    parser.add_argument("--out", type=Path, required=True, help="JSON file of histograms.")
    given = parser.parse_args()
    run(given.images, given.device, given.n, given.out)
