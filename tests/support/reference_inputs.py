"""Inputs of the reference runs on real data: 60 photographs, drawn waves and tinted patches."""

import csv
from pathlib import Path

import numpy as np
from PIL import Image

TINTS = {"blue": (-60, -60, 60), "green": (-60, 60, -60), "red": (60, -60, -60)}
NOISES = ("vcr/gaussian_noise", "vcr/impulse_noise")


def make_inputs(data: Path, inputs: Path) -> None:
    """Choose 60 photographs of 13 categories, and draw waves and tinted patches."""
    if (inputs / "kinds.csv").exists():
        return
    inputs.mkdir(parents=True, exist_ok=True)
    choose_images(data / "photos", inputs / "photos.csv")
    draw_waves(inputs / "waves" / "train", 60, seed=1)
    draw_waves(inputs / "waves" / "test", 40, seed=2)
    (inputs / "noises.yaml").write_text(
        "name: noises\ntitle: Two noises\nsource: drawn\ncorruptions:\n"
        + "".join(f"  - same_as: vcr:{name}\n" for name in NOISES)
    )
    draw_kinds(inputs)


def choose_images(photos: Path, path: Path) -> None:
    with (photos / "manifest.csv").open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["category16"]]
    chosen: list[dict[str, str]] = []
    for row in rows:
        same = sum(other["category16"] == row["category16"] for other in chosen)
        if row["imagenet_index"] not in ("", "-1") and same < 6:
            chosen.append(row)
    with path.open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(["path", "label"])
        table.writerows([photos / row["path"], row["wnid"]] for row in chosen[:60])


def draw_waves(folder: Path, n_images: int, seed: int, side: int = 20) -> None:
    """Draw stripes, checks and rings of random color, contrast, width and phase.

    Mirror images are of the same class, since training mirrors.
    """
    numbers = np.random.default_rng(seed)
    rows, columns = np.mgrid[:side, :side] - (side - 1) / 2
    for label in ("across", "checks", "down", "rings"):
        (folder / label).mkdir(parents=True, exist_ok=True)
        for number in range(n_images):
            phase, width = numbers.uniform(0, 2 * np.pi), numbers.uniform(4, 7)
            across, down, rings = (
                np.sin(2 * np.pi * distance / width + phase)
                for distance in (rows, columns, np.hypot(rows, columns))
            )
            wave = {"across": across, "checks": across * down, "down": down, "rings": rings}[label]
            noise = numbers.normal(0, 6, (side, side, 3))
            contrast = numbers.uniform(25, 60)
            levels = numbers.uniform(80, 175, 3) + contrast * wave[..., None] + noise
            path = folder / label / f"{number}.png"
            Image.fromarray(levels.clip(0, 255).astype(np.uint8)).save(path)


def draw_kinds(inputs: Path) -> None:
    """Draw patches of random brightness, tinted by class, in three styles and subclasses."""
    (inputs / "kinds").mkdir()
    with (inputs / "kinds.csv").open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(["path", "label", "style", "subclass"])
        kinds = [
            (label, style, subclass)
            for label in TINTS
            for style in ("inverted", "pale", "plain")
            for subclass in ("calm", "wild", "odd")
            for _ in range(5)
        ]
        for number, (label, style, subclass) in enumerate(kinds):
            light = np.random.default_rng([2, number]).uniform(70, 185, (4, 4, 1))
            levels = (light + np.array(TINTS[label])).clip(0, 255)
            if style != "plain":
                levels = 255 - levels if style == "inverted" else 0.7 * levels + 0.3 * 255
            path = inputs / "kinds" / f"{number}.png"
            Image.fromarray(levels.astype(np.uint8).repeat(5, 0).repeat(5, 1)).save(path)
            table.writerow([path, label, style, f"{label}-{subclass}"])
