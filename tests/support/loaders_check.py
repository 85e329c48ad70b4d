"""Do RobustBench's, timm's and torchvision's loaders read what `eyechart corrupt --layout` wrote?

    python tests/support/loaders_check.py [--robustbench CHECKOUT] [--folder FOLDER]

Not a test: it needs torchvision, timm and, for its loaders, a checkout of RobustBench. Images are
made on the spot: 5,000 with the names that RobustBench looks for, and 10,000 as CIFAR-10 has.
"""

import argparse
import importlib
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType

import numpy as np
from PIL import Image

NAMES = "robustbench/helper_files/imagenet_test_image_ids.txt"
CORRUPTION = "brightness"


def main() -> None:
    asked = argparse.ArgumentParser()
    asked.add_argument("--robustbench", type=Path)
    asked.add_argument("--folder", type=Path)
    given = asked.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        home = given.folder or Path(temporary)
        listed = image_names(given.robustbench)
        make_imagenet(home, listed)
        make_cifar(home)
        check_torchvision(home, listed)
        check_timm(home, listed)
        check_tv_tensors()
        if given.robustbench is not None:
            check_robustbench(home, given.robustbench, len(listed))


def image_names(checkout: Path | None) -> list[str]:
    """Return CLASS/NAME.JPEG of every image."""
    if checkout is not None:
        return (checkout / NAMES).read_text().split()
    return [f"n{label:08}/ILSVRC2012_val_{label:08}.JPEG" for label in range(1000)]


def corrupt(source: Path, out: Path, *more: str) -> None:
    command = [sys.executable, "-m", "eyechart", "corrupt", source, "--out", out, *more]
    subprocess.run([str(each) for each in (*command, "--corruption", CORRUPTION)], check=True)


def make_imagenet(home: Path, listed: list[str]) -> None:
    def make(number: int) -> None:
        path = home / "val" / listed[number]
        path.parent.mkdir(parents=True, exist_ok=True)
        levels = np.random.default_rng(number).integers(0, 200, (8, 10, 3), dtype=np.uint8)
        Image.fromarray(levels).resize((100, 80)).save(path, quality=90)

    with ThreadPoolExecutor() as pool:
        list(pool.map(make, range(len(listed))))
    corrupt(home / "val", home / "ImageNet-C", "--layout", "imagenet-c", "--stimulus", "224")


def make_cifar(home: Path) -> None:
    numbers = np.random.default_rng(0)
    (home / "cifar").mkdir(exist_ok=True)
    np.save(home / "cifar" / "test.npy", numbers.integers(0, 256, (10_000, 32, 32, 3), np.uint8))
    np.save(home / "cifar" / "labels.npy", numbers.integers(0, 10, 10_000))
    corrupt(home / "cifar" / "test.npy", home / "CIFAR-10-C", "--layout", "cifar-c")


def check_torchvision(home: Path, listed: list[str]) -> None:
    from torchvision.datasets import ImageFolder

    for severity in range(1, 6):
        found = ImageFolder(home / "ImageNet-C" / CORRUPTION / str(severity))
        assert len(found) == len(listed), len(found)
        assert found.classes == sorted({name.split("/")[0] for name in listed})
        assert found[0][0].size == (224, 224)
    print(f"torchvision's ImageFolder: {len(listed)} images at each of 5 severities")


def check_timm(home: Path, listed: list[str]) -> None:
    from timm.data import create_dataset

    for severity in range(1, 6):
        found = create_dataset("", root=str(home / "ImageNet-C" / CORRUPTION / str(severity)))
        assert len(found) == len(listed), len(found)
        image, label = found[len(listed) - 1]
        assert image.size == (224, 224) and label == len({n.split("/")[0] for n in listed}) - 1
    print(f"timm's ImageFolder: {len(listed)} images at each of 5 severities")


def check_tv_tensors() -> None:
    import torch
    from torchvision import tv_tensors
    from torchvision.transforms import v2

    import eyechart as ec

    image = tv_tensors.Image(torch.randint(0, 256, (3, 64, 48), dtype=torch.uint8))
    for given in (image, v2.functional.to_dtype(image, torch.float32, scale=True)):
        found = ec.corrupt(given, "fog", severity=3)
        assert type(found) is tv_tensors.Image, type(found)
        assert (found.shape, found.dtype) == (given.shape, given.dtype)
        assert torch.equal(
            found.as_subclass(torch.Tensor),
            ec.corrupt(given.as_subclass(torch.Tensor), "fog", severity=3),
        )
        # transforms go on with it as an image
        assert v2.Resize((32, 32))(found).shape == (3, 32, 32)
    print("torchvision's tv_tensors.Image keeps its class")


def check_robustbench(home: Path, checkout: Path, count: int) -> None:
    """Call load_imagenetc and load_cifar10c of the checkout; its model zoo is not imported."""
    for name in ("robustbench", "robustbench.model_zoo"):
        package = ModuleType(name)
        package.__path__ = [str(checkout / name.replace(".", "/"))]
        sys.modules[name] = package
    sys.modules["robustbench.model_zoo"].model_dicts = {}
    try:
        import pkg_resources  # noqa: F401
    except ImportError:
        # gone from setuptools; it only finds the list of names
        stand_in = ModuleType("pkg_resources")
        stand_in.resource_filename = lambda _, name: str(checkout / "robustbench" / name)
        sys.modules["pkg_resources"] = stand_in
    try:
        import requests  # noqa: F401
    except ImportError:
        # only downloads need it
        sys.modules["requests"] = ModuleType("requests")
    data = importlib.import_module("robustbench.data")
    for severity in range(1, 6):
        images, labels = data.load_imagenetc(
            count, severity, str(home), corruptions=(CORRUPTION,), prepr=data.PREPROCESSINGS[None]
        )
        assert (
            images.shape == (count, 3, 224, 224) and len(set(labels.tolist())) == labels.max() + 1
        )
        images, labels = data.load_cifar10c(10_000, severity, str(home), corruptions=(CORRUPTION,))
        truth = np.load(home / "cifar" / "labels.npy")
        assert images.shape == (10_000, 3, 32, 32) and (labels.numpy() == truth).all()
    print(f"RobustBench: load_imagenetc {count} images, load_cifar10c 10,000, at 5 severities")


if __name__ == "__main__":
    main()
