"""How much memory corrupting takes beyond the images: many small ones, and one of 24 megapixels."""

import subprocess
import sys
from pathlib import Path

import pytest

import eyechart as ec
from eyechart.corruptions.suites.suite import all_entries

LIMIT = 1.5e9

MEASURE = """
import resource, sys
import torch
import eyechart as ec

images = torch.randint(0, 256, (256, 3, 224, 224), dtype=torch.uint8)
ec.corrupt(images[:1], sys.argv[1], severity=5)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
ec.corrupt(images, sys.argv[1], severity=5)
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024)
"""


@pytest.mark.slow
@pytest.mark.parametrize("name", ec.list_corruptions())
def test_256_images_need_little_memory_beyond_themselves(name, with_styles):
    command = [sys.executable, "-c", MEASURE, name]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    assert float(done.stdout) < LIMIT


LARGE_LIMIT = 3e9

MEASURE_LARGE = """
import sys
import torch
import eyechart as ec

rows, columns = (torch.arange(side, dtype=torch.int32) for side in (4000, 6000))
rows = rows[:, None]
planes = ((rows * columns) >> 10, (rows + columns) // 40, (rows * 3 + columns * 2) // 60)
images = torch.stack([(plane % 256).to(torch.uint8) for plane in planes])[None]
del rows, columns, planes
name, variant = sys.argv[1], sys.argv[2] or None


def resident(line):
    lines = open("/proc/self/status").read().splitlines()
    return next(int(each.split()[1]) * 1024 for each in lines if each.startswith(line))


ec.corrupt(images[..., :64, :64], name, severity=5, variant=variant)
open("/proc/self/clear_refs", "w").write("5")  # the peak begins anew
before = resident("VmRSS")
ec.corrupt(images, name, severity=float(sys.argv[3]), variant=variant, keys=["large"])
print(resident("VmHWM") - before)
"""

CASES = [
    (name, variant)
    for name, entry in all_entries().items()
    for variant in (None, *entry.variants)
    # a network's activations grow with the image, whatever is done here
    if name != "style_transfer"
]


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="needs Linux's /proc")
@pytest.mark.parametrize("severity", [1, 5])
@pytest.mark.parametrize(("name", "variant"), CASES)
def test_24_megapixels_need_less_than_3_gb_beyond_themselves(name, variant, severity):
    command = [sys.executable, "-c", MEASURE_LARGE, name, variant or "", str(severity)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    assert float(done.stdout) < LARGE_LIMIT
