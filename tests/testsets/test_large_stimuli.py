"""Large images are processed in pieces: the same values, within bounded memory."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import eyechart as ec
from eyechart.core import devices, randomness
from eyechart.core.randomness import ImageRandom
from eyechart.images import identity
from eyechart.predictions.batches import blank_images
from eyechart.visual_change.vif import fidelity, pyramid

LINUX = pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="needs Linux's /proc")


def noise(*shape):
    return torch.from_numpy(np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8))


@pytest.mark.parametrize("ruler", ["vif", "sheikh2006"])
def test_vif_in_strips_is_vif_of_the_whole(monkeypatch, ruler):
    clean = noise(1, 3, 150, 131)
    corrupted = ec.corrupt(clean, "gaussian_blur", severity=2)
    whole = ec.vif(clean, corrupted, ruler=ruler)
    monkeypatch.setattr(pyramid, "LARGE", 1000)
    monkeypatch.setattr(pyramid, "STRIP", 800)
    monkeypatch.setattr(fidelity, "STRIP", 800)
    monkeypatch.setattr(fidelity, "ROWS_AT_ONCE", 10)
    assert len(pyramid.strips(150, 131)) > 10
    torch.testing.assert_close(ec.vif(clean, corrupted, ruler=ruler), whole, rtol=1e-12, atol=0)


def test_strips_are_all_rows_once():
    for height, width, coefficients in ((4000, 6000, 1), (1333, 2000, 9), (3, 5_000_000, 1)):
        rows = [
            row
            for part in pyramid.strips(height, width, coefficients)
            for row in range(part.start, part.stop)
        ]
        assert rows == list(range(height))


def test_poisson_counts_do_not_depend_on_the_pieces(monkeypatch):
    levels = noise(2, 3, 17, 19)
    random = ImageRandom(torch.tensor([3, 4]), [1, 1], torch.device("cpu"))
    whole = random.poisson("noise", levels, np.array([5.0, 60.0]))
    monkeypatch.setattr(randomness, "POISSON_AT_ONCE", 100)
    assert torch.equal(random.poisson("noise", levels, np.array([5.0, 60.0])), whole)


def test_keys_of_images_do_not_depend_on_the_pieces(monkeypatch):
    levels = noise(3, 3, 31, 29)
    whole = identity.content_keys(levels)
    monkeypatch.setattr(identity, "LANES", 7)
    assert torch.equal(identity.content_keys(levels), whole)


def test_images_of_nothing_can_be_made_one_by_one():
    each = [blank_images(20, 30, [place]) for place in range(16)]
    assert torch.equal(torch.cat(each), blank_images(20, 30))


def test_free_memory_is_bounded_by_control_groups(tmp_path):
    root, record = tmp_path / "cgroup", tmp_path / "record"
    (root / "slurm" / "job").mkdir(parents=True)
    (root / "slurm" / "memory.max").write_text("3000\n")
    (root / "slurm" / "job" / "memory.max").write_text("max\n")
    record.write_text("0::/slurm/job\n")
    assert devices._memory_limit(record, root) == 3000
    (root / "slurm" / "job" / "memory.max").write_text("2000\n")
    assert devices._memory_limit(record, root) == 2000
    (root / "memory" / "docker").mkdir(parents=True)
    (root / "memory" / "docker" / "memory.limit_in_bytes").write_text("1000\n")
    record.write_text("4:memory:/docker\n3:cpu:/docker\n0::/\n")
    assert devices._memory_limit(record, root) == 1000
    assert devices._memory_limit(tmp_path / "missing", root) == float("inf")


STAGES = """
import sys
import torch
import eyechart as ec
from eyechart.predictions.batches import blank_images
from eyechart.visual_change.registry import find_ruler


def resident(line):
    lines = open("/proc/self/status").read().splitlines()
    return next(int(each.split()[1]) * 1024 for each in lines if each.startswith(line))


def run(height, width):
    images = torch.arange(3 * height * width, dtype=torch.int32).remainder_(251)
    images = images.to(torch.uint8).reshape(1, 3, height, width)
    ruler = find_ruler("vif")
    described = ruler.describe(images)
    corrupted = ec.corrupt(images, "shot_noise", severity=5)
    ruler.compare(described.select(torch.tensor([0])), corrupted)
    blank_images(height, width, [15])


run(64, 64)  # loads libraries and tables
open("/proc/self/clear_refs", "w").write("5")  # the peak begins anew
before = resident("VmRSS")
run(int(sys.argv[1]), int(sys.argv[2]))
print(resident("VmHWM") - before)
"""


@LINUX
def test_a_large_image_needs_at_most_100_bytes_per_pixel():
    # in addition to buffers of a fixed size; 24 megapixels at this rate are 2.4 GB
    height, width = 1500, 1500
    command = [sys.executable, "-c", STAGES, str(height), str(width)]
    # blocks of this size are otherwise kept when they are freed, unlike those of larger images
    settings = {**os.environ, "MALLOC_MMAP_THRESHOLD_": "1000000"}
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=settings)
    assert float(done.stdout) < 100e6 + 100 * height * width


MODEL = """
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.convolution, self.last = torch.nn.Conv2d(3, 4, 7, 4), torch.nn.Linear(4, 2)

    def forward(self, images):
        return self.last(torch.relu(self.convolution(images)).mean((2, 3)))
"""

CHILD = """
import resource, subprocess, sys
subprocess.run([sys.executable, "-m", "eyechart", *sys.argv[1:]], check=True)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024)
"""

LIMIT = 4e9


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    """Three images of 24 megapixels, and a fully convolutional network."""
    folder = tmp_path_factory.mktemp("large")
    (folder / "net.py").write_text(MODEL)
    (folder / "photos").mkdir()
    rows, columns = np.arange(4000, dtype=np.int32)[:, None], np.arange(6000, dtype=np.int32)
    planes = (rows * columns >> 10, (rows + columns) // 40, (rows * 3 + columns * 2) // 60)
    pixels = np.stack([(plane % 256).astype(np.uint8) for plane in planes], axis=-1)
    for place in range(3):
        image = Image.fromarray(np.roll(pixels, 97 * place, 1))
        image.save(folder / "photos" / f"{place}.jpg", quality=90)
    return folder


def peak(folder, *arguments):
    """Run a command of eyechart; return its peak memory in bytes, which `pytest -rP` prints."""
    command = [sys.executable, "-c", CHILD, *arguments]
    done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=folder)
    most = float(done.stdout.splitlines()[-1])
    print(f"{most / 1e9:.2f} GB: eyechart {' '.join(arguments)}")
    return most


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("stimulus", ["224", "native"])
def test_24_megapixels_are_evaluated_within_4_gb(photos, stimulus):
    evaluated = peak(
        photos, "evaluate", "net:Net()", "--images", "photos", "--labels", "none",
        "--stimulus", stimulus, "--out", f"run-{stimulus}", "--humans", "none", "--n", "2",
        "--sampling", "parameters", "--corruption", "vcr/shot_noise", "--n-bootstrap", "10",
    )  # fmt: skip
    assert evaluated < LIMIT


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", ["shot_noise", "noc/rotation", "elastic_transform", "zoom_blur"])
def test_24_megapixels_are_corrupted_within_4_gb(photos, name):
    out = f"out-{name.replace('/', '-')}"
    assert peak(photos, "corrupt", "photos", "-c", name, "-s", "5", "-o", out) < LIMIT
