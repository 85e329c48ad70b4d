"""Small real runs that reports are made of: models that tell hues apart, next to people."""

import fcntl
import shutil
from collections.abc import Callable
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor, nn

from eyechart.cli.app import main
from eyechart.images.image_sources import demo_images
from eyechart.images.labels.imagenet import wordnet_ids
from small_models import save_images

HUES = {
    404: (1.0, 0.45, 0.45), 294: (1.0, 0.85, 0.4), 444: (0.6, 1.0, 0.4), 8: (0.4, 1.0, 0.75),
    472: (0.4, 0.9, 1.0), 440: (0.45, 0.5, 1.0), 436: (0.8, 0.45, 1.0), 281: (1.0, 0.5, 0.85),
}  # fmt: skip
"""Classes of ImageNet, each of another of people's categories, and the hue of their pictures."""

HOSTILE = '<img src=x onerror="window.hacked=1">'

SHARP, DULL, BLIND = (f"report_runs:{name}" for name in ("sharp_hues", "dull_hues", "blind_hues"))
MODELS = (SHARP, DULL, BLIND)
CORRUPTIONS = {
    "vcr": ("gaussian_noise", "gaussian_blur", "brightness"),
    "imagenet-c": ("gaussian_noise", "brightness"),
}
AT_LEVELS = ("--bins", 9, "--min-per-bin", 3, "--n-bootstrap", 40, "--stimulus", "native")
# leaves ranges of visual change unobserved, which pages must show
SMALL = (*AT_LEVELS, "--sampling", "parameters")


class Hues(nn.Module):
    """A thousand classes, of which eight have a hue: the nearest to that of the picture.

    `glare`: how much the brightest spots count against the mean, which noise and light mislead.
    """

    def __init__(self, glare: float) -> None:
        super().__init__()
        hues = torch.tensor(list(HUES.values()))
        self.register_buffer("hues", hues / hues.mean(dim=1, keepdim=True))
        self.register_buffer("places", torch.tensor(list(HUES)))
        self.glare = glare

    def forward(self, images: Tensor) -> Tensor:
        spots = nn.functional.adaptive_max_pool2d(images, 2).mean(dim=(2, 3))
        seen = self.glare * spots + (1 - self.glare) * images.mean(dim=(2, 3))
        own = seen / seen.mean(dim=1, keepdim=True).clamp(min=1e-6)
        scores = torch.full((len(images), 1000), -5.0, device=images.device)
        scores[:, self.places] = -4 * torch.cdist(own, self.hues)
        return scores


sharp_hues, dull_hues, blind_hues = Hues(0.1), Hues(0.6), Hues(0.9)


def save_enough(folder: Path) -> Path:
    """Write the demo images, which the toy models know, and as many others as a claim needs.

    With fewer there are no ranks, no tests and no verdicts, and nothing of them in the files.
    """
    save_hues(folder, each=5)
    for image in demo_images():
        home = folder / wordnet_ids()[int(image.label)]
        home.mkdir(exist_ok=True)
        shutil.copy(image.path, home)
    return folder


def evaluate(
    images: Path,
    out: Path,
    *arguments: object,
    models: tuple[object, ...],
    small: tuple[object, ...] = SMALL,
) -> Path:
    """Run `eyechart evaluate` to its end and return the folder of the run."""
    words = ("evaluate", *models, "--images", images, "--out", out, *small, *arguments)
    with pytest.raises(SystemExit) as stop, redirect_stdout(StringIO()):
        main([str(word) for word in words])
    assert stop.value.code == 0
    return out


def chosen(suite: str) -> list[str]:
    """Return the arguments that ask for a suite and a few of its corruptions."""
    return ["--suite", suite, *(w for name in CORRUPTIONS[suite] for w in ("--corruption", name))]


def save_hues(folder: Path, each: int = 6, side: int = 80) -> Path:
    """Write parts of photographs in eight hues, a folder for each class, and return the folder."""
    gray = save_images(folder.with_name("grey"), each=each, side=side, tints=("grey",)) / "grey"
    for place, hue in HUES.items():
        home = folder / wordnet_ids()[place]
        home.mkdir(parents=True)
        for path in sorted(gray.glob("*.png")):
            levels = np.asarray(Image.open(path), dtype=np.float64) * np.array(hue)
            Image.fromarray(levels.clip(0, 255).astype(np.uint8)).save(home / path.name)
    return folder


def human_run(home: Path) -> Path:
    """Three models under VCR's continuous corruptions, in both label spaces, next to people."""
    return evaluate(_hues(home), home / "vcr", "--n", 90, *chosen("vcr"), models=MODELS)


def levels_run(home: Path) -> Path:
    """The same models under the five levels of ImageNet-C, one of them the baseline."""
    asked = ("--n", 120, *chosen("imagenet-c"), "--baseline", BLIND, "--humans", "none")
    return evaluate(_hues(home), home / "imagenet-c", *asked, models=MODELS, small=AT_LEVELS)


def hostile_run(home: Path) -> Path:
    """A run in which a model, a class, a picture and all paths have names that are HTML."""
    folder = home / HOSTILE
    # as many images as a claim needs, so that the page has all its tables
    images = save_images(folder / "images", each=10)
    (images / "red").rename(images / f"red {HOSTILE}")
    for path in sorted((images / "blue").iterdir()):
        path.rename(path.with_stem(f"{HOSTILE} {path.stem}"))
    model = save_onnx(folder / f"{HOSTILE}.onnx")
    few = ("--n", 40, "--corruption", "gaussian_noise", "--corruption", "brightness")
    return evaluate(images, folder / "run", *few, models=(model, "small_models:colors"))


def save_onnx(path: Path) -> Path:
    """Write a network of four classes, a fixed linear map of the mean colour, as ONNX."""
    onnx = pytest.importorskip("onnx", reason="onnx is not installed")
    from onnx import TensorProto, helper, numpy_helper

    weights = np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32)
    nodes = [
        helper.make_node("GlobalAveragePool", ["images"], ["means"]),
        helper.make_node("Flatten", ["means"], ["flat"]),
        helper.make_node("MatMul", ["flat", "weights"], ["scores"]),
    ]
    graph = helper.make_graph(
        nodes, "linear",
        [helper.make_tensor_value_info("images", TensorProto.FLOAT, ["n", 3, "h", "w"])],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["n", 4])],
        [numpy_helper.from_array(weights, "weights")],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, str(path))
    return path


def _hues(home: Path) -> Path:
    images = home / "photos"
    return images if images.exists() else save_hues(images)


def make_once(factory: pytest.TempPathFactory, make: Callable[[Path], Path]) -> Path:
    """Return what `make` makes in a folder; all test processes of a session share it."""
    base = factory.getbasetemp()
    # under xdist every process has a folder of its own within that of the session
    home = (base.parent if base.name.startswith("popen-") else base) / "report_runs"
    home.mkdir(exist_ok=True)
    with (home / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = home / f"{make.__name__}.done"
        if not done.exists():
            done.write_text(str(make(home)))
        return Path(done.read_text())
