"""For a machine with a GPU: the same rows in other batches, and on the CPU.

Prints how many pixels, visual changes and answers differ. Run it with
`python tests/support/cuda_check_loop.py IMAGES`, a class folder or manifest.
"""

import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import torch

from benchmarks.loop import ResNet50
from eyechart.core.storage.parts import PartFiles
from eyechart.images.imageset import load_images
from eyechart.models.find import load_model
from eyechart.predictions.engine import predict
from eyechart.predictions.loop import PredictionTask
from eyechart.testsets.plan import Plan
from eyechart.testsets.samples import plan_samples


def rows(images, plan, module, device, batch, half=None):
    where = torch.device(device)
    models = [load_model(module, where, half=half)]
    groups = plan_samples(images, plan)
    with tempfile.TemporaryDirectory() as folder:
        predict(
            PredictionTask(images, plan, groups, models, where, batch),
            Path(folder),
            lambda *_: None,
        )
        parts = PartFiles(Path(folder))
        return pa.concat_tables([parts.read(samples.name) for samples in groups])


def compare(name, one, two):
    change = np.abs(one["delta_v"].to_numpy() - two["delta_v"].to_numpy())
    other = one["prediction"].to_numpy() != two["prediction"].to_numpy()
    margin = np.minimum(one["margin"].to_numpy(), two["margin"].to_numpy())[other]
    pixels = one["pixels"].to_numpy() != two["pixels"].to_numpy()
    print(
        f"{name}: {len(one)} rows, other pixels {pixels.sum()}, largest difference of Δv"
        f" {np.nanmax(change):.1e}, other answers {other.sum()}, largest margin among them"
        f" {margin.max() if len(margin) else 0:.3f}; parameters"
        f" {'equal' if one['parameters'].equals(two['parameters']) else 'DIFFER'}"
    )


if __name__ == "__main__":
    torch.manual_seed(0)
    module = ResNet50()
    images = load_images(sys.argv[1])
    plan = Plan(n=140)
    first = rows(images, plan, module, "cuda", 512)
    compare("CUDA, batches of 512 and 37", first, rows(images, plan, module, "cuda", 37))
    compare("CUDA and CPU", first, rows(images, plan, module, "cpu", 32, half=False))
