"""Checks of the GPU against the CPU: equal pixels, batch invariance, speed, memory.

`python tests/support/cuda_check.py reference FILE` writes CPU results; `… compare FILE` checks a
GPU. Names of corruptions after it choose those alone.
"""

import sys
import time

import numpy as np
import torch

import eyechart as ec
from eyechart.corruptions.suites.assets import is_ready
from eyechart.corruptions.suites.suite import find_variant
from real_images import real_images

SEVERITIES = (1, 3, 5)
NAMES = ["a", "b", "c", "d"]


def usable_corruptions():
    """Return all corruptions that need no trained network."""
    return [name for name in ec.list_corruptions() if is_ready(find_variant(name))]


def names():
    return sys.argv[3:] or usable_corruptions()


def photos():
    return torch.from_numpy(real_images()).permute(0, 3, 1, 2).contiguous()


def reference(path):
    results = {
        f"{name}@{severity}": ec.corrupt(
            photos()[:2], name, severity=severity, keys=NAMES[:2]
        ).numpy()
        for name in names()
        for severity in SEVERITIES
    }
    np.savez_compressed(path, **results)


def compare(path):
    stored = np.load(path)
    device = torch.device("cuda")
    four = photos().to(device)
    batch = four.repeat(64, 1, 1, 1)
    keys = [f"{key}{place // 4}" if place >= 4 else key for place, key in enumerate(NAMES * 64)]
    print(torch.cuda.get_device_name(), torch.__version__)
    print(f"{'':28} differ %  max  mean   batch  img/s 1   3   5       MB")
    for name in names():
        shares, most, mean = [], 0, []
        for severity in SEVERITIES:
            own = ec.corrupt(four[:2], name, severity=severity, keys=NAMES[:2]).cpu().numpy()
            gap = np.abs(own.astype(int) - stored[f"{name}@{severity}"])
            shares.append(100 * (gap > 0).mean())
            most = max(most, gap.max())
            mean.append(gap.mean())
        whole = ec.corrupt(batch, name, severity=2.5, keys=keys)
        alone = ec.corrupt(batch[:3], name, severity=2.5, keys=keys[:3])
        last = ec.corrupt(batch[-1:], name, severity=2.5, keys=keys[-1:])
        same = torch.equal(whole[:3], alone) and torch.equal(whole[-1:], last)
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        speeds = [
            256 / seconds(lambda s=s, n=name: ec.corrupt(batch, n, severity=s)) for s in SEVERITIES
        ]
        memory = (torch.cuda.max_memory_allocated() - before) / 2**20
        print(
            f"{name:28} {max(shares):7.3f} {most:4d} {max(mean):7.4f} {same!s:6}"
            f" {speeds[0]:8.0f} {speeds[1]:8.0f} {speeds[2]:8.0f} {memory:7.0f}",
            flush=True,
        )


def seconds(work, repeats=5):
    work()
    times = []
    for _ in range(repeats):
        torch.cuda.synchronize()
        start = time.perf_counter()
        work()
        torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    return float(np.median(times))


if __name__ == "__main__":
    {"reference": reference, "compare": compare}[sys.argv[1]](sys.argv[2])
