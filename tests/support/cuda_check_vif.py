"""Checks VIF on a GPU against the CPU: values, batches, memory; fails where they do not hold.

`python tests/support/cuda_check_vif.py reference FILE` writes pictures and CPU values;
`… compare FILE` checks a GPU.
"""

import sys

import numpy as np
import torch

import eyechart as ec
from cuda_check import usable_corruptions
from eyechart.visual_change.gray import to_gray
from hard_images import HARD_IMAGES, corrupted_copies
from real_images import real_images

LARGEST_GAP = {
    ("float64", "real_images"): 1e-9,
    # on one linear gradient, which is all rounding error, two CPU methods differ by 1.4e-8
    ("float64", "hard"): 2e-8,
    ("float32", "real_images"): 1e-6,
    ("float32", "hard"): 2e-4,
}
MOST_MEGABYTES = {"clean side": 4.0, "corrupted side": 1.5}

PARTS = ("vif", "information", "measurable", "ill_conditioned")


def gray(rgb):
    return to_gray(torch.from_numpy(rgb).permute(0, 3, 1, 2)).numpy()


def pairs():
    """Hard pictures and photographs, each with several corruptions: (group, clean, corrupted)."""
    for make in HARD_IMAGES.values():
        clean = make()
        for corrupted in corrupted_copies(clean).values():
            yield "hard", clean, corrupted
    photos = real_images()
    for place, name in enumerate(usable_corruptions()):
        changed = ec.corrupt(photos, name, severity=1 + place % 5)
        for clean, corrupted in zip(gray(photos), gray(changed), strict=True):
            yield "real_images", clean, corrupted


def reference(path):
    groups, clean, corrupted = zip(*pairs(), strict=True)
    before, after = np.stack(clean)[..., None], np.stack(corrupted)[..., None]
    change = ec.measure_change(before, after)
    values = {name: getattr(change, name) for name in PARTS}
    np.savez_compressed(path, groups=groups, clean=before, corrupted=after, **values)


def compare(path):
    stored = np.load(path)
    clean, corrupted = (
        torch.from_numpy(stored[name]).permute(0, 3, 1, 2).cuda() for name in ("clean", "corrupted")
    )
    print(torch.cuda.get_device_name(), torch.__version__)
    for dtype in ("float64", "float32"):
        change = ec.measure_change(clean, corrupted, dtype=dtype)
        gap = np.abs(change.vif.cpu().numpy() - stored["vif"])
        for group in ("real_images", "hard"):
            own = (stored["groups"] == group) & stored["measurable"]
            print(f"{dtype} {group}: {own.sum()} pairs, largest difference {gap[own].max():.2e}")
            assert gap[own].max() < LARGEST_GAP[dtype, group]
        for flag in ("measurable", "ill_conditioned"):
            assert np.array_equal(getattr(change, flag).cpu(), stored[flag]), flag
        alone = torch.cat(
            [ec.vif(clean[k : k + 1], corrupted[k : k + 1], dtype=dtype) for k in range(20)]
        )
        apart = (alone - change.vif[:20]).abs().max().item()
        print(f"  alone and in the batch: {apart:.1e}")
        assert apart < 1e-12
        _memory(clean[:256], corrupted[:256], dtype)


def _memory(clean, corrupted, dtype):
    for what in ("clean side", "corrupted side"):
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        if what == "clean side":
            statistics = ec.clean_statistics(clean, dtype=dtype)
        else:
            ec.vif(statistics, corrupted)
        peak = (torch.cuda.max_memory_allocated() - before) / len(clean) / 1e6
        print(f"  {what}: at most {peak:.2f} MB a picture beyond what was there")
        assert peak < MOST_MEGABYTES[what]


if __name__ == "__main__":
    {"reference": reference, "compare": compare}[sys.argv[1]](sys.argv[2])
