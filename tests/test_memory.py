"""256 pictures of 224 px need less than 1.5 GB beyond themselves, whatever the corruption."""

import subprocess
import sys

import pytest

import eyechart as ec

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
def test_256_pictures_need_little_memory_beyond_themselves(name, with_styles):
    command = [sys.executable, "-c", MEASURE, name]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    assert float(done.stdout) < LIMIT
