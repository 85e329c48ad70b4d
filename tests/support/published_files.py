"""Corrupted pictures on disk as others publish them, made with nothing but `corrupt` and Pillow."""

import shutil
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from PIL import Image

import eyechart as ec
from small_models import save_images

TWO = ("gaussian_noise", "fog")
SEVERITIES = (1, 2, 3, 4, 5)


def publish(clean: Path, root: Path, stimulus="native", corruptions=TWO, **save) -> Path:
    """Write ROOT/CORRUPTION/SEVERITY/CLASS/FILE from the stimuli of a class folder."""
    images = ec.load_images(clean, stimulus)
    levels = images.batch(range(len(images))).permute(0, 2, 3, 1).contiguous().numpy()
    for name in corruptions:
        for severity in SEVERITIES:
            made = ec.corrupt(levels, name, severity=severity, keys=list(images.digests))
            for image, pixels in zip(images.listed, made, strict=True):
                target = root / name / str(severity) / image.name
                target = target.with_suffix(f".{save.get('format', 'PNG').lower()}")
                target.parent.mkdir(parents=True, exist_ok=True)
                Image.fromarray(pixels).save(target, **save)
    return root


def cheap_folder(root: Path, classes=4, each=2, corruptions=TWO, suffix=".png") -> Path:
    """Write noise in ImageNet-C's layout: for what does not look at pictures."""
    number = np.random.default_rng(3)
    for name in corruptions:
        for severity in SEVERITIES:
            for label in range(classes):
                folder = root / name / str(severity) / f"c{label}"
                folder.mkdir(parents=True)
                for place in range(each):
                    levels = number.integers(0, 256, (20, 20, 3), dtype=np.uint8)
                    Image.fromarray(levels).save(folder / f"{place}{suffix}")
    return root


def arrays(root: Path, count=8, side=32, corruptions=TWO, labels=None) -> Path:
    """Write CIFAR-10-C's layout with the tinted photographs, and clean.npy outside of it."""
    source = save_images(root.parent / "for arrays", each=count // 4, side=side)
    images = ec.load_images(source, "native")
    levels = images.batch(range(count)).permute(0, 2, 3, 1).contiguous().numpy()
    root.mkdir(parents=True, exist_ok=True)
    own = np.repeat(np.arange(4), count // 4) if labels is None else labels
    np.save(root / "labels.npy", np.tile(own, 5))
    np.save(root.parent / "clean.npy", levels)
    for name in corruptions:
        made = [ec.corrupt(levels, name, severity=severity) for severity in SEVERITIES]
        np.save(root / f"{name}.npy", np.concatenate(made))
    shutil.rmtree(source)
    return root


def recorded(out: Path, name: str) -> dict:
    """Return answer, margin, Δv and pixels of every row, by the picture's digest and severity."""
    rows = pq.read_table(out / "predictions" / f"{name}.parquet").to_pylist()
    return {
        (row["digest"], row["severity"], row["model"]): (
            row["prediction"], row["margin"], row["delta_v"], row["pixels"], row["scales"],
        )
        for row in rows
    }  # fmt: skip
