"""Devices by name: auto is the best one that exists, and nothing needs Triton."""

import subprocess
import sys

import pytest
import torch

import eyechart as ec
from eyechart.core.devices import find_device, image_device

MPS = torch.device("mps")

WITHOUT_TRITON = """
import sys
sys.modules["triton"] = None  # what an import of a missing package finds
import eyechart as ec
def mean_color(images):
    return images.mean(dim=(2, 3))
results = ec.evaluate(mean_color, n=15, corruptions=["gaussian_noise", "frost"], labels="none",
                      max_images=2, bins=4, min_per_bin=2, n_bootstrap=10, device="auto")
print(results.predictions().num_rows, results.run.device)
from eyechart.core.devices import has_triton
import torch
print(has_triton(torch.device("cuda")))
"""


@pytest.mark.parametrize(
    ("has_cuda", "has_mps", "can_be_mps", "device"),
    [
        (True, True, True, "cuda"),
        (False, True, True, "mps"),
        # what needs 64-bit floats does not run on MPS
        (False, True, False, "cpu"),
        (False, False, True, "cpu"),
    ],
)
def test_auto_is_the_best_device_that_exists(monkeypatch, has_cuda, has_mps, can_be_mps, device):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: has_cuda)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: int(has_cuda))
    monkeypatch.setattr(torch.cuda, "set_device", lambda index: None)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: has_mps)
    assert find_device("auto", can_be_mps) == torch.device(device)


def test_mps_that_is_missing_or_of_no_use_is_one_sentence(monkeypatch):
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    with pytest.raises(ec.UsageError, match=r"^Device 'mps' is not available .*; use cpu\.$"):
        find_device("mps", can_be_mps=True)
    with pytest.raises(ec.UsageError, match=r"^Device 'mps' is not supported: use auto, cpu or"):
        find_device("mps")


def test_images_of_networks_on_mps_stay_on_the_cpu():
    assert image_device(MPS) == torch.device("cpu")
    assert image_device(torch.device("cuda:1")) == torch.device("cuda:1")


@pytest.mark.skipif(torch.cuda.is_available(), reason="auto is CUDA here")
def test_everything_runs_without_triton_and_auto_is_recorded_as_the_real_device():
    ran = subprocess.run(
        [sys.executable, "-c", WITHOUT_TRITON], capture_output=True, text=True, check=False
    )
    assert ran.stdout.split() == ["30", "cpu", "False"], ran.stderr
