"""Measures registration on photographs: errors of recovered maps, and what it must not align.

    EYECHART_TEST_DATA=FOLDER python tests/support/registration_figures.py errors [N]
    EYECHART_TEST_DATA=FOLDER python tests/support/registration_figures.py unmoved [N]

`errors` prints quantiles over N photographs (200) for each kind of motion; `unmoved` prints every
corruption of vcr and imagenet-c that does not move images and that registration changes by more
than 0.005, on N photographs (50).
"""

import csv
import os
import sys
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from scipy import ndimage

import eyechart as ec
from eyechart.corruptions.suites.suite import load_suite
from eyechart.visual_change.gray import to_gray
from eyechart.visual_change.registration.estimate import (
    centered,
    describe_copies,
    estimate,
    is_geometric,
    levels_of,
    register,
)
from eyechart.visual_change.registration.human_ruler import HUMAN_RULER
from eyechart.visual_change.vif.rulers import SubbandRuler
from moved_images import CUBIC, LINEAR, NEAREST, eight_bits, errors, map_of, move
from real_images import stimulus

SIZE = (224, 224)
SHIFT = 0.2 * 224
PLAIN, NOISY, BLURRED = "no other change", "noise, σ 20", "blur, σ 2"


def photographs(count):
    """Evenly chosen photographs as stimuli of 224 px, uint8 (N, 224, 224, 3)."""
    folder = Path(os.environ["EYECHART_TEST_DATA"], "data", "photos")
    with (folder / "manifest.csv").open() as file:
        paths = [row["path"] for row in csv.DictReader(file)]
    chosen = [paths[index * len(paths) // count] for index in range(count)]
    images = [np.asarray(Image.open(folder / path).convert("RGB")) for path in chosen]
    return np.stack([stimulus(image) for image in images])


def gray_of(images):
    return to_gray(torch.from_numpy(np.ascontiguousarray(images)).permute(0, 3, 1, 2))


def motions(random):
    """Ways to draw a map, by their title."""
    uniform = random.uniform
    return {
        "rotation to 45°": lambda: map_of(uniform(-45, 45)),
        "scale 0.5–2": lambda: map_of(scale=2 ** uniform(-1, 1)),
        "shift to 20 %": lambda: map_of(across=uniform(-SHIFT, SHIFT), down=uniform(-SHIFT, SHIFT)),
        "all three": lambda: map_of(
            uniform(-45, 45), 2 ** uniform(-1, 1), uniform(-SHIFT, SHIFT), uniform(-SHIFT, SHIFT)
        ),
        "rotation to 180°": lambda: map_of(uniform(-180, 180)),
        "quarter turns": lambda: map_of(random.choice([90, 180, 270])),
        "mirror and rotation": lambda: map_of(uniform(-180, 180), is_mirrored=True),
        "shear to 0.5": lambda: map_of(shear=uniform(-0.5, 0.5)),
    }


def spoiled(image, kind, random):
    if kind == NOISY:
        return eight_bits(image + random.normal(0, 20, image.shape))
    if kind == BLURRED:
        return eight_bits(ndimage.gaussian_filter(image.astype(np.float64), 2))
    return image


def measure_errors(count):
    torch.set_num_threads(1)
    random = np.random.default_rng(1)
    regimes = [(title, PLAIN) for title in motions(random)]
    spoiled_motions = ("all three", "rotation to 45°")
    regimes += [(title, kind) for kind in (NOISY, BLURRED) for title in spoiled_motions]
    table = {regime: [] for regime in regimes}
    for index, image in enumerate(gray_of(photographs(count))):
        copies = describe_copies(image[None])
        order = (LINEAR, CUBIC, NEAREST)[index % 3]
        fill = ("constant", "reflect")[index // 3 % 2]
        for title, kind in regimes:
            truth = motions(random)[title]()
            if order == NEAREST:
                # pixels taken from the nearest ones show no fraction of a pixel
                truth[:, 2] = np.rint(truth[:, 2])
            moved = spoiled(move(image.numpy(), truth, order, fill), kind, random)
            levels = levels_of(centered(torch.from_numpy(moved)[None]))
            found = estimate(copies, levels, SIZE)
            is_used = bool(is_geometric(copies.levels, levels, found, SIZE))
            table[title, kind].append((*errors(found[0].numpy(), truth, SIZE), is_used))
        if (index + 1) % 20 == 0 or index + 1 == count:
            print_errors(table, index + 1)


def print_errors(table, count):
    print(f"{count} photographs; quantiles 50, 90, 95, 99 and 100 %")
    for (title, kind), rows in table.items():
        pixels, degrees, is_used = np.array(rows).T
        is_recovered = (pixels <= 0.5) & (degrees <= 0.2)
        quantiles = (
            " ".join(f"{value:.3f}" for value in np.quantile(values, [0.5, 0.9, 0.95, 0.99, 1]))
            for values in (pixels, degrees)
        )
        wrong = np.flatnonzero(~is_recovered)
        print(
            f"{title}, {kind}: {is_recovered.sum()} recovered, {is_used[is_recovered].sum():.0f} of"
            f" them and {is_used[~is_recovered].sum():.0f} others used | px, degrees:",
            " | ".join(quantiles), "| wrong:", *wrong, flush=True,
        )  # fmt: skip


def measure_unmoved(count):
    torch.set_num_threads(1)
    images = photographs(count)
    plain = SubbandRuler(HUMAN_RULER.definition)
    names = [
        entry.name
        for suite in ("vcr", "imagenet-c")
        for entry in load_suite(suite).entries
        if entry.name != "elastic_transform"
    ]
    compared = changed = 0
    for index in range(count):
        clean = gray_of(images[index : index + 1])
        copies = describe_copies(clean)
        for name in names:
            for severity in (1, 3, 5):
                corrupted = gray_of(ec.corrupt(images[index : index + 1], name, severity=severity))
                is_moved = (register(copies, corrupted) != torch.eye(2, 3)).any()
                compared += 1
                if is_moved:
                    rgb = [x[:, None].expand(-1, 3, -1, -1) for x in (clean, corrupted)]
                    by_ruler = HUMAN_RULER.compare(HUMAN_RULER.describe(rgb[0]), rgb[1])
                    gap = 1 - plain.fidelity(plain.describe_gray(clean), corrupted) - by_ruler
                    changed += bool(gap.abs() > 0.005)
                    print(f"{name} {severity}, image {index}: {gap.item():.4f}", flush=True)
        print(f"{index + 1} images, {compared} pairs, {changed} changed by over 0.005", flush=True)


if __name__ == "__main__":
    numbers = [int(word) for word in sys.argv[2:]]
    {"errors": measure_errors, "unmoved": measure_unmoved}[sys.argv[1]](
        numbers[0] if numbers else {"errors": 200, "unmoved": 50}[sys.argv[1]]
    )
