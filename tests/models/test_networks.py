"""Networks for small pictures: they have the size that was published, and take any picture."""

import sys
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from eyechart.core.errors import UsageError
from eyechart.models.model import Preprocessing
from eyechart.models.networks import build_network
from eyechart.models.registries import NETWORKS
from eyechart.training.training_loop import new_network


def count(module):
    return sum(parameter.numel() for parameter in module.parameters())


def convolution(inner, outer, side=3):
    """Weights of a convolution without a bias."""
    return inner * outer * side * side


def normalization(width):
    """A factor and a shift for each channel."""
    return 2 * width


def resnet18_parameters(classes):
    """He et al., 2016, with a 3 × 3 convolution in front: stem, eight blocks, linear layer."""
    total, inner = convolution(3, 64) + normalization(64), 64
    for outer in (64, 128, 256, 512):
        first = convolution(inner, outer) + convolution(outer, outer) + 2 * normalization(outer)
        skip = convolution(inner, outer, 1) + normalization(outer) if inner != outer else 0
        second = 2 * (convolution(outer, outer) + normalization(outer))
        total, inner = total + first + skip + second, outer
    return total + inner * classes + classes


def wide_parameters(depth, width, classes):
    """Zagoruyko and Komodakis, 2016: normalization comes first, so a block has one inner, one own.

    The skip of a group's first block is a 1 × 1 convolution and nothing else.
    """
    blocks, total, inner = (depth - 4) // 6, convolution(3, 16), 16
    for outer in (16 * width, 32 * width, 64 * width):
        total += convolution(inner, outer, 1)
        for _ in range(blocks):
            total += normalization(inner) + convolution(inner, outer)
            total += normalization(outer) + convolution(outer, outer)
            inner = outer
    return total + normalization(inner) + inner * classes + classes


def resnet9_parameters(classes):
    """Eight convolutions with their normalisations, and a linear layer."""
    widths = [(3, 64), (64, 128), (128, 128), (128, 128), (128, 256), (256, 512), *[(512, 512)] * 2]
    return (
        sum(convolution(*own) + normalization(own[1]) for own in widths) + 512 * classes + classes
    )


@pytest.mark.parametrize(
    ("name", "published", "closed_form"),
    [
        ("resnet18", 11_173_962, resnet18_parameters),
        ("wrn_16_4", 2_748_890, lambda classes: wide_parameters(16, 4, classes)),
        ("wrn_40_2", 2_243_546, lambda classes: wide_parameters(40, 2, classes)),
        ("resnet9", 6_573_130, resnet9_parameters),
    ],
)
def test_a_network_has_as_many_parameters_as_published(name, published, closed_form):
    assert closed_form(10) == published
    assert count(build_network(name, 10)) == published
    assert count(build_network(name, 7)) == closed_form(7)


def test_these_are_all_networks_of_ours():
    small = {"resnet9", "resnet18", "wrn_16_4", "wrn_40_2", "multigrid"}
    assert set(NETWORKS) == small | {"imagenet_resnet18", "imagenet_resnet50"}


@pytest.mark.parametrize(
    ("name", "published"),
    # the parameters that torchvision documents for its ResNets, which have the same shapes
    [("imagenet_resnet18", 11_689_512), ("imagenet_resnet50", 25_557_032)],
)
def test_the_resnets_of_imagenet_have_as_many_parameters_as_published(name, published):
    assert count(build_network(name, 1000)) == published


def test_the_resnets_of_imagenet_shrink_224_px_to_7():
    network = build_network("imagenet_resnet50", 2).eval()
    with torch.inference_mode():
        assert network.body(network.stem(torch.rand(1, 3, 224, 224))).shape == (1, 2048, 7, 7)


def test_a_bottleneck_has_its_stride_in_its_first_convolution():
    first = build_network("imagenet_resnet50", 2).body[3].body
    assert first[0].stride == (2, 2) and first[3].stride == (1, 1)


@pytest.mark.parametrize("name", NETWORKS)
def test_images_of_any_size_get_a_score_for_every_class(name):
    network = build_network(name, 5).eval()
    with torch.inference_mode():
        for shape in ((2, 3, 32, 32), (1, 3, 20, 33)):
            scores = network(torch.rand(shape))
            assert scores.shape == (shape[0], 5) and bool(scores.isfinite().all())


@pytest.mark.parametrize(("name", "side"), [("resnet18", 4), ("wrn_16_4", 8), ("wrn_40_2", 8)])
def test_images_of_32_px_keep_as_much_room_as_published(name, side):
    with torch.inference_mode():
        features = build_network(name, 2).eval().body(torch.rand(1, 3, 32, 32))
    assert features.shape[2:] == (side, side)


def test_wide_networks_drop_features_while_they_learn_and_others_do_not():
    images = torch.rand(4, 3, 32, 32)
    for name, drops in (("wrn_16_4", True), ("resnet9", False)):
        network = build_network(name, 3)
        with torch.no_grad():
            one, two = network(images), network(images)
        assert torch.equal(one, two) != drops
        network.eval()
        with torch.no_grad():
            assert torch.equal(network(images), network(images))


def test_skips_pass_images_on():
    """With all convolutions of a residual branch at nothing, a block returns what it was given."""
    network = build_network("resnet18", 3).eval()
    block = network.body[1]
    features = torch.rand(2, 64, 5, 5)
    nn.init.zeros_(block.body[3].weight)
    with torch.no_grad():
        torch.testing.assert_close(block(features), features)


@pytest.mark.parametrize("name", NETWORKS)
def test_weights_are_torchs_random_numbers(name):
    first = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        first.append(next(build_network(name, 2).parameters()).detach().clone())
    assert torch.equal(first[0], first[1]) and not torch.equal(first[0], first[2])


def test_a_function_of_ones_own_is_called_with_the_number_of_classes(tmp_path, monkeypatch):
    (tmp_path / "my_own_networks.py").write_text(
        "from torch import nn\ndef flat(classes):\n    return nn.Linear(3, classes)\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "my_own_networks", raising=False)
    found = build_network("my_own_networks:flat", 6)
    assert isinstance(found, nn.Linear) and found.out_features == 6
    del sys.modules["my_own_networks"]


def test_what_a_module_draws_when_it_is_imported_changes_no_network(tmp_path, monkeypatch):
    (tmp_path / "drawing_networks.py").write_text(
        "from torch import nn\nspare = nn.Linear(3, 3)\n"
        "def flat(classes):\n    return nn.Linear(3, classes)\n"
    )
    monkeypatch.chdir(tmp_path)
    data = SimpleNamespace(class_names=("cat", "dog"))
    first, second = (
        new_network("drawing_networks:flat", data, 0, Preprocessing()).module for _ in range(2)
    )
    del sys.modules["drawing_networks"]
    assert torch.equal(first.weight, second.weight)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("resnet_18", "Did you mean 'resnet18'"),
        ("wrn-40-2", "wrn_40_2"),
        ("", "resnet18"),
        ("alexnet", "module:function"),
        ("textures:", "module:function"),
        ("textures:netwrk", "network"),
        ("no_such_module_anywhere:net", "There is no module"),
        ("textures:fails", "'textures:fails' failed: no luck."),
        ("textures:counts", "takes the number of classes and returns a torch.nn.Module, got int"),
        ("textures:made", "takes the number of classes and returns a torch.nn.Module, got Seq"),
        ("textures:SIDE", "got int"),
        ("timm:", "timm:NAME"),
    ],
)
def test_what_is_no_network_is_rejected_in_one_sentence(name, words):
    with pytest.raises(UsageError) as told:
        build_network(name, 3)
    assert words in str(told.value) and "\n" not in str(told.value)


@pytest.mark.parametrize("zoo", ["timm", "torchvision"])
def test_a_zoo_that_is_not_installed_is_named(zoo, monkeypatch):
    for name in (zoo, f"{zoo}.models"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(UsageError, match=rf"\.\[{zoo}\]"):
        build_network(f"{zoo}:resnet18", 3)


@pytest.mark.parametrize("zoo", ["timm", "torchvision"])
def test_a_network_of_a_zoo_is_untrained_and_has_the_classes(zoo):
    pytest.importorskip(zoo)
    found = build_network(f"{zoo}:resnet18", 7).eval()
    with torch.inference_mode():
        assert found(torch.rand(1, 3, 64, 64)).shape == (1, 7)
    with pytest.raises(UsageError, match="Did you mean 'resnet18'"):
        build_network(f"{zoo}:resnet_18", 7)


@pytest.mark.parametrize("classes", [1, 0, -3])
def test_one_class_is_none(classes):
    with pytest.raises(UsageError, match=f"at least 2 classes, got {classes}"):
        build_network("resnet9", classes)


def test_a_function_that_quits_is_rejected_as_one_that_fails():
    with pytest.raises(UsageError, match="'textures:quits' failed"):
        build_network("textures:quits", 3)


def test_a_class_is_called_with_the_number_of_classes_too():
    assert isinstance(build_network("textures:Net", 3), nn.Module)
