"""Checks of defenses on a GPU against the CPU: pixels, batch invariance, speed.

`python tests/support/cuda_check_defences.py` prints a line for each and ends with 1 if one is off.
"""

import sys
import time

import torch

from eyechart.models.defenses import apply_defenses, denoise, equalize, noise_level
from eyechart.models.find import load_model
from real_images import real_images
from tiny_networks import tiny

GPU = torch.device("cuda")


def noisy_photos():
    clean = torch.from_numpy(real_images()).permute(0, 3, 1, 2).contiguous()
    noise = torch.randn(clean.shape, generator=torch.Generator().manual_seed(0)) * 15
    return (clean + noise).round().clamp(0, 255).to(torch.uint8)


def speed(function, batch):
    function(batch)
    torch.cuda.synchronize()
    start = time.perf_counter()
    function(batch)
    torch.cuda.synchronize()
    return len(batch) / (time.perf_counter() - start)


def main():
    four = noisy_photos()
    batch = four.to(GPU).repeat(64, 1, 1, 1)
    fine = True
    for name, function in (("equalize", equalize), ("denoise", denoise)):
        own, expected = function(four.to(GPU)).cpu().int(), function(four).int()
        apart = (own - expected).abs()
        same = torch.equal(function(batch)[-4:].cpu().int(), own)
        fine &= same and int(apart.max()) <= 1 and float((apart > 0).float().mean()) < 1e-3
        share = 100 * float((apart > 0).float().mean())
        print(
            f"{name}: {share:.4f} % of values differ, by at most {int(apart.max())}; batch"
            f" {'equal' if same else 'DIFFERS'}; {speed(function, batch):.0f} pictures/s"
        )
    gap = (noise_level(four.to(GPU)).cpu() - noise_level(four)).abs().max()
    fine &= float(gap) < 1e-3
    print(f"noise: differs by at most {float(gap):.1e} levels")
    for name in ("clahe", "nlm", "ten-crop"):
        scores = [
            apply_defenses(load_model(tiny(), device, half=False), [name])(four.to(device)).cpu()
            for device in (torch.device("cpu"), GPU)
        ]
        gap = (scores[0] - scores[1]).abs().max()
        fine &= float(gap) < 1e-2
        print(f"{name}: scores differ by at most {float(gap):.1e}")
    sys.exit(0 if fine else 1)


if __name__ == "__main__":
    main()
