"""What VIF needs in memory for each picture of 224 px beyond the pictures themselves."""

import subprocess
import sys

import pytest
import torch

import eyechart as ec

COUNT = 64

# on one thread, for every further one has a few pictures of its own in work
MEASURE = f"""
import resource, sys
import torch
import eyechart as ec

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

torch.set_num_threads(1)
images = torch.randint(0, 256, ({COUNT}, 3, 224, 224), dtype=torch.uint8)
statistics = ec.clean_statistics(images[:1])
ec.vif(statistics, images[:1])
before = peak()
if sys.argv[1] == "describe":
    statistics = ec.clean_statistics(images)
else:
    ec.vif(statistics, images)
print((peak() - before) / {COUNT})
"""


@pytest.mark.slow
@pytest.mark.parametrize(("work", "limit"), [("describe", 4.0e6), ("compare", 0.4e6)])
def test_an_image_needs_few_megabytes_beyond_itself(work, limit):
    command = [sys.executable, "-c", MEASURE, work]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    assert float(done.stdout) < limit


@pytest.mark.parametrize(("dtype", "limit"), [("float64", 1.34e6), ("float32", 0.77e6)])
@pytest.mark.parametrize("ruler", ["vif", "sheikh2006"])
def test_the_statistics_of_an_image_are_as_small_as_documented(ruler, dtype, limit):
    images = torch.randint(0, 256, (3, 1, 224, 224), dtype=torch.uint8)
    statistics = ec.clean_statistics(images, ruler=ruler, dtype=dtype)
    held = {
        tensor.untyped_storage().data_ptr(): tensor.untyped_storage().nbytes()
        for scale in statistics.scales
        for tensor in scale
    }
    assert statistics.bytes == sum(held.values())
    assert statistics.bytes / len(statistics) <= limit
