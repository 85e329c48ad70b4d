"""Checks network rulers on a GPU against the CPU: values, batches, memory, speed.

`python tests/support/cuda_check_rulers.py FOLDER` reads converted weights from FOLDER, prints a
line for each ruler, and ends with 1 if the values of one are off.
FOLDER is that of `eyechart rulers install`, with its `.safetensors` files; rulers whose weights are
not in it are left out. Names of rulers after it choose those alone.
"""

import os
import sys
import tempfile
import time
from pathlib import Path

import torch

from eyechart.visual_change.ms_ssim import MS_SSIM_RULER
from eyechart.visual_change.networks import network_rulers
from eyechart.visual_change.networks.network_rulers import NetworkRuler
from eyechart.visual_change.registry import RULERS
from published_rulers import pairs

GPU = torch.device("cuda")
LARGEST_GAP, LARGEST_BATCH_GAP = 1e-3, 1e-5
N_IMAGES, REPEATS = 256, 10
IMAGES_PER_SECOND = {"alexnet": 15_000, "vgg16": 4_000}
"""What an H200 must reach at 224 px, in batches of 256, with the clean side described once."""

BATCHES = (64, 128, 256)
"""Numbers of images that pass through the network at once."""


def values(ruler, clean, corrupted):
    """Δv of the pairs; each clean image is described once, for ten changes."""
    places = torch.arange(len(clean), device=clean.device).repeat_interleave(10)
    return ruler.compare(ruler.describe(clean).select(places), corrupted)


def speed(ruler, clean, corrupted):
    """Images per second, with the clean side described before."""
    description = ruler.describe(clean)
    ruler.compare(description, corrupted)
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(REPEATS):
        ruler.compare(description, corrupted)
    torch.cuda.synchronize()
    return REPEATS * len(corrupted) / (time.perf_counter() - start)


def check(ruler, cpu, clean, corrupted):
    """Print values, batches and speed of a ruler; return whether its values are within bounds."""
    change = values(ruler, clean, corrupted)
    gap = float((change.cpu() - cpu).abs().max())
    places = range(0, len(corrupted), 7)
    alone = torch.cat(
        [
            ruler.compare(ruler.describe(clean[k // 10 : k // 10 + 1]), corrupted[k : k + 1])
            for k in places
        ]
    )
    batch_gap = float((alone - change[list(places)]).abs().max())
    rates = {}
    large = (clean.repeat(N_IMAGES // 4, 1, 1, 1), corrupted[:4].repeat(N_IMAGES // 4, 1, 1, 1))
    for size in BATCHES if isinstance(ruler, NetworkRuler) else BATCHES[-1:]:
        network_rulers.BATCH_PIXELS = size * 224 * 224
        torch.cuda.reset_peak_memory_stats()
        rate = speed(ruler, *large)
        rates[size] = f"{size}: {rate:,.0f} ({torch.cuda.max_memory_allocated() / 1e9:.1f} GB)"
    precision = "float16" if isinstance(ruler, NetworkRuler) else "float64"
    print(
        f"{ruler.name}, {precision}: CPU and GPU differ by {gap:.1e}, batches by {batch_gap:.1e};"
        f" images/s by batch {', '.join(rates.values())}",
        flush=True,
    )
    return gap < LARGEST_GAP and batch_gap < LARGEST_BATCH_GAP


def main(folder, names):
    with tempfile.TemporaryDirectory() as cache:
        (Path(cache) / "rulers").symlink_to(Path(folder).resolve())
        os.environ["EYECHART_CACHE"] = cache
        print(torch.cuda.get_device_name(), torch.__version__, f"goals: {IMAGES_PER_SECOND}")
        _, before, after = pairs()
        before, after = before[::10].contiguous(), after.contiguous()
        clean, corrupted = before.to(GPU), after.to(GPU)
        rulers = [ruler for ruler in RULERS.values() if isinstance(ruler, NetworkRuler)]
        fine = check(MS_SSIM_RULER, values(MS_SSIM_RULER, before, after), clean, corrupted)
        for ruler in rulers:
            if not ruler.is_installed or (names and ruler.name not in names):
                print(f"{ruler.name}: not checked")
                continue
            fine &= check(ruler, values(ruler, before, after), clean, corrupted)
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
