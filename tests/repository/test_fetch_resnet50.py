"""Keras' ResNet-50 as our own: the scores that Keras' layers, one after another, would give."""

from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader

import pytest
import torch
from torch.nn import functional

from eyechart.images.labels.imagenet import wordnet_ids
from eyechart.models.adapter import Request
from eyechart.models.checkpoint import Checkpoint, model_of
from places import ROOT

TOOL = ROOT / "tools" / "fetch_resnet50"
MEANS = torch.tensor([103.939, 116.779, 123.68]).view(1, 3, 1, 1)
WIDTHS = {2: 64, 3: 128, 4: 256, 5: 512}
LETTERS = {2: "abc", 3: "abcd", 4: "abcdef", 5: "abc"}


@pytest.fixture(scope="module")
def tool():
    loader = SourceFileLoader("fetch_resnet50", str(TOOL))
    spec = spec_from_loader("fetch_resnet50", loader)
    module = module_from_spec(spec)
    loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def keras():
    """Random weights under Keras' names, in Keras' order of axes."""
    draws = torch.Generator().manual_seed(3)
    found = {}

    def convolution(name, norm, inner, outer, side):
        scale = (2 / (inner * side * side)) ** 0.5
        found[f"{name}/kernel"] = torch.randn(side, side, inner, outer, generator=draws) * scale
        found[f"{name}/bias"] = torch.randn(outer, generator=draws) * 0.1
        found[f"{norm}/gamma"] = torch.rand(outer, generator=draws) * 0.5 + 0.5
        found[f"{norm}/beta"] = torch.randn(outer, generator=draws) * 0.1
        found[f"{norm}/moving_mean"] = torch.randn(outer, generator=draws) * 0.1
        # small ones too, where the ε matters
        found[f"{norm}/moving_variance"] = torch.rand(outer, generator=draws) * 0.02 + 1e-4

    convolution("conv1", "bn_conv1", 3, 64, 7)
    inner = 64
    for group, width in WIDTHS.items():
        for letter in LETTERS[group]:
            own = f"{group}{letter}_branch"
            convolution(f"res{own}2a", f"bn{own}2a", inner, width, 1)
            convolution(f"res{own}2b", f"bn{own}2b", width, width, 3)
            convolution(f"res{own}2c", f"bn{own}2c", width, 4 * width, 1)
            # each block adds about as much as it is given, so that nothing grows out of bounds
            found[f"bn{own}2c/gamma"] *= 0.02
            if letter == "a":
                convolution(f"res{own}1", f"bn{own}1", inner, 4 * width, 1)
                found[f"bn{own}1/gamma"] *= 0.02
            inner = 4 * width
    found["fc1000/kernel"] = torch.randn(2048, 1000, generator=draws) * 0.02
    found["fc1000/bias"] = torch.randn(1000, generator=draws)
    return found


def walk(keras, gray_levels):
    """Return the scores of images in 0…255 by Keras' layers: bias, then normalization, ε 0.001."""

    def layer(x, name, norm, stride=1, padding=0):
        kernel = keras[f"{name}/kernel"].permute(3, 2, 0, 1)
        x = functional.conv2d(x, kernel, keras[f"{name}/bias"], stride, padding)
        moments = keras[f"{norm}/moving_mean"], keras[f"{norm}/moving_variance"]
        scale = keras[f"{norm}/gamma"], keras[f"{norm}/beta"]
        return functional.batch_norm(x, *moments, *scale, eps=0.001)

    x = gray_levels.flip(1) - MEANS
    x = layer(x, "conv1", "bn_conv1", 2, 3).relu()
    x = functional.max_pool2d(functional.pad(x, (1, 1, 1, 1)), 3, 2)
    for group in WIDTHS:
        for letter in LETTERS[group]:
            own = f"{group}{letter}_branch"
            stride = 2 if letter == "a" and group > 2 else 1
            inner = layer(x, f"res{own}2a", f"bn{own}2a", stride).relu()
            inner = layer(inner, f"res{own}2b", f"bn{own}2b", 1, 1).relu()
            inner = layer(inner, f"res{own}2c", f"bn{own}2c")
            beside = layer(x, f"res{own}1", f"bn{own}1", stride) if letter == "a" else x
            x = (inner + beside).relu()
    return x.mean((2, 3)) @ keras["fc1000/kernel"] + keras["fc1000/bias"]


def test_the_checkpoint_gives_the_scores_of_the_layers_it_came_from(tool, keras):
    checkpoint = Checkpoint(
        tool.NETWORK, "", wordnet_ids(), (), tool.convert(keras), None,
        (tool.RED / 255, tool.GREEN / 255, tool.BLUE / 255), (1 / 255,) * 3,
    )  # fmt: skip
    model = model_of(checkpoint, "resnet50", Request(torch.device("cpu"), False), lambda *_: None)
    images = torch.randint(0, 256, (2, 3, 64, 64), generator=torch.Generator().manual_seed(1))
    with torch.inference_mode():
        expected = walk(keras, images.float())
    # random weights make large scores, whose rounding depends on how many threads add them up
    scale = expected.abs().max()
    scores = model(images.to(torch.uint8))
    torch.testing.assert_close(scores / scale, expected / scale, rtol=0, atol=1e-4)
    assert expected.std() > 0.5
    assert model.has_imagenet


def test_weights_lie_behind_one_another_and_none_is_left_over(tool):
    entries = [{"name": "a", "shape": [2, 1]}, {"name": "b", "shape": [3]}]
    content = torch.arange(5, dtype=torch.float32).numpy().tobytes()
    found = dict(tool.split(entries, content))
    assert found["a"].tolist() == [[0], [1]] and found["b"].tolist() == [2, 3, 4]
    with pytest.raises(SystemExit, match="8 bytes of weights, got 20"):
        dict(tool.split(entries[:1], content))


def test_another_package_is_rejected(tool, tmp_path):
    path = tmp_path / "other.tgz"
    path.write_bytes(b"something else")
    with pytest.raises(SystemExit, match="sha-256"):
        tool.read_package(path)
