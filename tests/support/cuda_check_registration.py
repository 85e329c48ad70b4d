"""Checks registration and the ruler vif-human on a GPU; fails where the bounds do not hold.

Values on the GPU equal those on the CPU, an image alone has the value that it has in a batch, and
registration takes at most as long as VIF, on batches of 256 images of 224 px:
`python tests/support/cuda_check_registration.py`.
"""

import time

import numpy as np
import torch

import eyechart as ec
from eyechart.visual_change.gray import to_gray
from eyechart.visual_change.registration.estimate import describe_copies
from eyechart.visual_change.registration.human_ruler import HUMAN_RULER
from eyechart.visual_change.registration.registered import register
from eyechart.visual_change.vif.rulers import VCR_RULER
from moved_images import LINEAR, NEAREST, map_of, move
from real_images import real_images

LARGEST_GAP = 1e-3
WANTED_GAP = 1e-5
BATCH = 256
ROUNDS = 10
CORRUPTIONS = ("gaussian_noise", "motion_blur", "fog", "contrast", "jpeg_compression")


def moved_pairs():
    """Yield a name, a photograph and a moved copy, uint8 (3, 224, 224)."""
    backs = {
        "1 px": map_of(across=1),
        "1 degree": map_of(1),
        "30 degrees": map_of(30),
        "half": map_of(scale=0.5),
        "double": map_of(scale=2),
        "shift": map_of(across=40, down=-25),
        "mirror": map_of(150, is_mirrored=True),
        "shear": map_of(shear=0.3),
    }
    for place, (name, back) in enumerate(backs.items()):
        for rgb in real_images():
            planes = rgb.transpose(2, 0, 1)
            order = (LINEAR, NEAREST)[place % 2]
            yield name, planes, np.stack([move(plane, back, order) for plane in planes])


def pairs():
    """Return names, clean and corrupted images of moved and unmoved pairs."""
    table = list(moved_pairs())
    rgb = real_images()
    for name in CORRUPTIONS:
        for clean, corrupted in zip(rgb, ec.corrupt(rgb, name, severity=3), strict=True):
            table.append((name, clean.transpose(2, 0, 1), corrupted.transpose(2, 0, 1)))
    names, clean, corrupted = zip(*table, strict=True)
    return names, torch.from_numpy(np.stack(clean)), torch.from_numpy(np.stack(corrupted))


def check_values():
    names, clean, corrupted = pairs()
    on_cpu = HUMAN_RULER.compare(HUMAN_RULER.describe(clean), corrupted)
    clean, corrupted = clean.cuda(), corrupted.cuda()
    description = HUMAN_RULER.describe(clean)
    on_gpu = HUMAN_RULER.compare(description, corrupted)
    gaps = (on_gpu.cpu() - on_cpu).abs()
    for name in dict.fromkeys(names):
        rows = [index for index, other in enumerate(names) if other == name]
        print(f"{name}: Δv {on_cpu[rows].mean():.4f}, CPU and GPU differ by {gaps[rows].max():.1e}")
    print(f"{(gaps <= WANTED_GAP).sum()} of {len(gaps)} within {WANTED_GAP}")
    assert gaps.max() <= LARGEST_GAP
    places = range(0, len(clean), 5)
    alone = torch.cat(
        [
            HUMAN_RULER.compare(HUMAN_RULER.describe(clean[k : k + 1]), corrupted[k : k + 1])
            for k in places
        ]
    )
    apart = (alone - on_gpu[list(places)]).abs().max().item()
    print(f"alone and in the batch: {apart:.1e}")
    assert apart <= LARGEST_GAP
    reverse = torch.arange(len(clean) - 1, -1, -1)
    backwards = HUMAN_RULER.compare(description.select(reverse.cuda()), corrupted[reverse.cuda()])
    assert (backwards.flip(0) - on_gpu).abs().max() <= LARGEST_GAP


def seconds(work):
    work()
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(ROUNDS):
        work()
    torch.cuda.synchronize()
    return (time.perf_counter() - start) / ROUNDS


def time_of(before, after):
    """Return the seconds of each part for one batch of gray images on the GPU."""
    described, copies = VCR_RULER.describe_gray(before), describe_copies(before)
    return {
        "VIF, clean side reused": seconds(lambda: VCR_RULER.fidelity(described, after)),
        "VIF": seconds(lambda: VCR_RULER.fidelity(VCR_RULER.describe_gray(before), after)),
        "registration, clean side reused": seconds(lambda: register(copies, after)),
        "registration": seconds(lambda: register(describe_copies(before), after)),
    }


def check_time():
    names, clean, corrupted = pairs()
    n_moved = sum(name not in CORRUPTIONS for name in names)
    for title, rows in (
        ("unmoved", range(n_moved, len(names))),
        ("moved", range(n_moved)),
        ("half of each", range(n_moved - (len(names) - n_moved), len(names))),
    ):
        index = torch.tensor([rows[place % len(rows)] for place in range(BATCH)])
        times = time_of(to_gray(clean[index].cuda()), to_gray(corrupted[index].cuda()))
        for name, duration in times.items():
            print(f"{title}: {name}: {BATCH / duration:,.0f} images/s")
        ratio = times["registration"] / times["VIF"]
        print(f"{title}: registration takes {ratio:.2f} times as long as VIF")
        yield title, ratio


if __name__ == "__main__":
    print(torch.cuda.get_device_name(), torch.__version__)
    check_values()
    slow = [(title, ratio) for title, ratio in check_time() if ratio > 1]
    assert not slow, f"registration takes longer than VIF: {slow}"
