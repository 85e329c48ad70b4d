"""Models from ONNX and TensorFlow Lite files, and from pickles: scores, batches, refusals."""

import subprocess
import sys
import warnings

import numpy as np
import pytest
import torch
from torch import nn

import eyechart as ec
from commands import assert_rejected
from eyechart.models.find import load_model
from eyechart.models.label_map import log_probabilities
from outside import outside
from tiny_networks import random_images, tiny
from trap import Trap

CPU = torch.device("cpu")
V1 = "mobilenet_v1_0.25_128_quant"


def lite(name):
    return outside("data", "models", f"{name}.tflite")


@pytest.fixture(autouse=True)
def need_runtimes():
    pytest.importorskip("onnxruntime")
    pytest.importorskip("ai_edge_litert")


def reject(spec, *words, **options):
    with pytest.raises(ec.UsageError) as rejected:
        load_model(str(spec), CPU, **options)
    sentence = str(rejected.value)
    assert "\n" not in sentence and sentence.endswith((".", "?")), sentence
    for word in words:
        assert word in sentence, sentence


# ONNX


def write_onnx(path, network, batch=2, dynamic=False):
    pytest.importorskip("onnxscript")
    shapes = {"dynamic_shapes": ({0: torch.export.Dim.DYNAMIC},)} if dynamic else {}
    with warnings.catch_warnings():
        # The exporter warns of its own parts.
        warnings.simplefilter("ignore")
        torch.onnx.export(
            network, (torch.rand(batch, 3, 16, 16),), str(path), dynamo=True, verbose=False,
            **shapes,
        )  # fmt: skip
    return path


def write_means(path, shape, kind="FLOAT", axes=(2, 3), inputs=1):
    """Write a graph that gives the mean of every channel, as float."""
    onnx = pytest.importorskip("onnx")
    from onnx import TensorProto, helper

    given = getattr(TensorProto, kind)
    nodes = [
        helper.make_node("Cast", ["x0"], ["real"], to=TensorProto.FLOAT),
        helper.make_node("ReduceMean", ["real"], ["y"], axes=list(axes), keepdims=0),
    ]
    graph = helper.make_graph(
        nodes,
        "means",
        [helper.make_tensor_value_info(f"x{i}", given, list(shape)) for i in range(inputs)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    onnx.save(model, str(path))
    return path


@pytest.mark.parametrize("dynamic", [False, True], ids=["two at a time", "any number"])
def test_an_onnx_file_gives_the_logits_of_the_network_it_was_exported_from(tmp_path, dynamic):
    path = write_onnx(tmp_path / "net.onnx", tiny(), dynamic=dynamic)
    bare, named = load_model(str(path), CPU), load_model(f"onnx:{path}", CPU)
    for count in (1, 2, 5):
        with torch.no_grad():
            expected = tiny()(random_images(count).float() / 255)
        torch.testing.assert_close(bare(random_images(count)), expected, atol=1e-5, rtol=0)
        assert torch.equal(bare(random_images(count)), named(random_images(count)))
    assert bare.name == named.name == str(path)
    assert bare.side == 16 and bare(random_images(1, side=40)).shape == (1, 5)


def test_the_identity_of_an_onnx_file_counts_weights_that_lie_beside_it(tmp_path):
    path = write_onnx(tmp_path / "net.onnx", tiny())
    first, again = (load_model(str(path), CPU).identity for _ in range(2))
    assert first == again and len(first) == 64
    weights = tmp_path / "net.onnx.data"
    content = weights.read_bytes()
    weights.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    assert load_model(str(path), CPU).identity != first


@pytest.mark.parametrize(
    ("shape", "kind", "axes"),
    [
        (("n", 3, "h", "w"), "FLOAT", (2, 3)),
        (("n", 3, 8, 8), "FLOAT16", (2, 3)),
        ((1, 8, 8, 3), "FLOAT", (1, 2)),
        (("n", 3, 8, 8), "UINT8", (2, 3)),
        ((4, 8, 8, 3), "UINT8", (1, 2)),
    ],
)
def test_onnx_inputs_of_any_layout_and_number_get_the_same_image(tmp_path, shape, kind, axes):
    found = load_model(str(write_means(tmp_path / "net.onnx", shape, kind, axes)), CPU)
    batch = random_images(5, side=8)
    expected = batch.float().mean(dim=(2, 3)) / (1 if kind == "UINT8" else 255)
    torch.testing.assert_close(found(batch), expected, rtol=2e-3, atol=0)


def test_a_sidecar_beside_an_onnx_file_normalizes(tmp_path):
    path = write_means(tmp_path / "net.onnx", ("n", 3, 8, 8))
    plain = load_model(str(path), CPU)
    path.with_suffix(".yaml").write_text("mean: [0.5, 0.4, 0.3]\nstd: [0.5, 0.25, 1]\n")
    found = load_model(str(path), CPU)
    gray = torch.full((1, 3, 8, 8), 153, dtype=torch.uint8)
    torch.testing.assert_close(found(gray), torch.tensor([[0.2, 0.8, 0.3]]))
    assert found.identity != plain.identity


@pytest.mark.parametrize(
    ("made", "words"),
    [
        ({"shape": ("n", 3, 8, 8), "inputs": 2}, ["must take one batch of images"]),
        ({"shape": ("n", 3)}, ["must take one batch of images", "('n', 3)"]),
        ({"shape": ("n", 1, 8, 8)}, ["must take color images", "three channels"]),
        ({"shape": ("n", 3, 8, 9)}, ["square images, but takes 8 × 9 px"]),
        ({"shape": ("n", 3, 8, 8), "kind": "INT64"}, ["float, float16 or uint8"]),
    ],
)
def test_onnx_models_of_something_else_are_rejected(tmp_path, made, words):
    if len(made["shape"]) == 2:
        made = made | {"axes": (1,)}
    reject(write_means(tmp_path / "net.onnx", **made), *words)


def test_a_card_may_not_ask_an_onnx_model_for_another_side(tmp_path):
    path = write_means(tmp_path / "net.onnx", ("n", 3, 8, 8))
    path.with_suffix(".yaml").write_text("side: 9\n")
    reject(path, "8 × 8 px, but its sidecar has side 9")


# TensorFlow Lite


def own_probabilities(path, batch):
    """What the interpreter says by itself of 8-bit pictures: probabilities in steps of 1/256."""
    from ai_edge_litert.interpreter import Interpreter

    interpreter = Interpreter(model_path=str(path))
    interpreter.allocate_tensors()
    found = []
    for levels in batch.permute(0, 2, 3, 1).numpy():
        interpreter.set_tensor(interpreter.get_input_details()[0]["index"], levels[None])
        interpreter.invoke()
        found.append(interpreter.get_tensor(interpreter.get_output_details()[0]["index"])[0] / 256)
    return torch.from_numpy(np.array(found))


@pytest.mark.parametrize(
    "name",
    [
        "mobilenet_v1_0.25_128_quant",
        "mobilenet_v2_1.0_224_quant",
        "mobilenet_edgetpu_0.75_224_post_training_quant",
        "tf2_mobilenet_v2_1.0_224_ptq",
    ],
)
def test_a_quantized_model_predicts_as_its_interpreter_does_but_unrounded(name):
    path = lite(name)
    found = load_model(str(path), CPU)
    batch = random_images(3, side=found.side)
    scores = found(batch)
    assert scores.shape == (3, 1001)
    ours, own = log_probabilities(scores).exp(), own_probabilities(path, batch)
    # Its softmax rounds to steps of 1/256, and counts with whole numbers on its way.
    assert (ours - own).abs().max() <= 0.5 / 256 + 1e-4
    assert len(ours.unique()) > len(own.unique())
    for place, image in enumerate(batch):
        assert torch.equal(found(image[None])[0], scores[place])


def test_without_the_background_the_others_share_what_it_had():
    path = lite(V1)
    found = load_model(f"tflite:{path}", CPU, label_maps=["background-first"])
    batch = random_images(8, side=128)
    raw = log_probabilities(load_model(f"tflite:{path}", CPU)(batch)).exp()
    kept = raw[:, 1:] / raw[:, 1:].sum(dim=1, keepdim=True)
    torch.testing.assert_close(log_probabilities(found(batch)).exp(), kept, atol=1e-6, rtol=0)
    assert found.classes == 1000 and found.has_imagenet


def test_the_first_of_equally_good_predictions_counts():
    flat = random_images(300, side=1).expand(-1, -1, 128, 128)
    scores = load_model(str(lite(V1)), CPU)(flat)
    best = scores.amax(dim=1, keepdim=True)
    tied = (scores == best).sum(dim=1) > 1
    assert tied.any()
    first = (scores == best).float().argmax(dim=1)
    assert torch.equal(scores.argmax(dim=1), first)


def test_loading_a_tflite_model_prints_nothing():
    code = (
        "import sys, torch; from eyechart.models.find import load_model;"
        "load_model(sys.argv[1], torch.device('cpu'))"
    )
    path = lite("tf2_mobilenet_v2_1.0_224_ptq")
    done = subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_quantized_numbers_are_written_and_read_by_scale_and_zero_point():
    from eyechart.models.adapters.runtime_files import Tensor8, raw_levels

    levels = torch.arange(256, dtype=torch.uint8).reshape(1, 1, 16, 16).expand(1, 3, 16, 16)
    for kind, zero, scale in (("uint8", 128, 1 / 128), ("uint8", 123, 0.01157), ("int8", -1, 0.5)):
        source = Tensor8(0, np.dtype(kind), scale, zero)
        ready = raw_levels(source, None)(levels).numpy()
        lowest = np.iinfo(kind).min
        np.testing.assert_array_equal(source.write(ready), levels.numpy().astype(int) + lowest)
    held = np.array([0, 128, 255], dtype=np.uint8)
    np.testing.assert_allclose(Tensor8(0, held.dtype, 0.5, 128).read(held), [-64, 0, 63.5])
    assert Tensor8(0, held.dtype, 1 / 256, 0).is_softmax
    assert Tensor8(0, np.dtype("int8"), 1 / 256, -128).is_softmax
    assert not Tensor8(0, held.dtype, 0.1, 0).is_softmax
    assert not Tensor8(0, np.dtype("float32"), 0.0, 0).is_softmax


def test_a_row_of_nothing_but_zeros_is_even():
    from eyechart.models.adapters.runtime_files import _normalized

    rows = np.array([[0.0, 0.0, 0.0, 0.0], [0.25, 0.25, 0.0, 0.0]], dtype=np.float32)
    np.testing.assert_allclose(_normalized(rows), [[0.25] * 4, [0.5, 0.5, 0, 0]])


# Pickles


class Marked(nn.Module):
    """A network; with a trap in it, reading it leaves a mark."""

    def __init__(self):
        super().__init__()
        self.network = tiny()

    def forward(self, x):
        return self.network(x)


@pytest.mark.parametrize("zipped", [True, False])
def test_a_pickled_module_is_read_only_if_it_is_trusted(tmp_path, zipped):
    path = tmp_path / "net.pt"
    torch.save(Marked(), path, _use_new_zipfile_serialization=zipped)
    reject(path, "can run code", "--trust")
    found = load_model(str(path), CPU, trust=True)
    with torch.no_grad():
        expected = tiny()(random_images().float() / 255)
    torch.testing.assert_close(found(random_images()), expected, atol=1e-6, rtol=0)
    assert found.name == str(path) and len(found.identity) == 64


def test_weights_alone_are_not_a_model_trusted_or_not(tmp_path):
    torch.save(tiny().state_dict(), tmp_path / "weights.pth")
    for trust in (False, True):
        reject(tmp_path / "weights.pth", "OrderedDict", "module:attribute", trust=trust)


def test_a_trap_in_an_exported_program_does_not_spring(tmp_path):
    import zipfile

    torch.export.save(torch.export.export(tiny(), (torch.rand(2, 3, 16, 16),)), tmp_path / "a.pt2")
    torch.save(Trap(tmp_path / "mark"), tmp_path / "trap")
    trap = (tmp_path / "trap").read_bytes()
    with zipfile.ZipFile(tmp_path / "a.pt2") as good:
        members = {name: good.read(name) for name in good.namelist()}
    inputs = next(name for name in members if "sample_inputs" in name)
    root = inputs.split("/")[0]
    weights = next(name for name in members if name.endswith("weights_config.json"))
    first = next(name for name in members if name.endswith("/weight_0"))
    pickled = members[weights].replace(b'"use_pickle": false', b'"use_pickle": true')
    assert pickled != members[weights]
    for changes in (
        {inputs: trap},
        {f"{root}/data/constants/opaque_obj_0": trap},
        {weights: pickled, first: trap},
    ):
        with zipfile.ZipFile(tmp_path / "bad.pt2", "w") as bad:
            for name, content in (members | changes).items():
                bad.writestr(name, content)
        reject(tmp_path / "bad.pt2")
        assert not (tmp_path / "mark").exists(), list(changes)
    # The last of them is a trap indeed.
    with pytest.raises(ec.UsageError):
        load_model(str(tmp_path / "bad.pt2"), CPU, trust=True)
    assert (tmp_path / "mark").exists()


@pytest.mark.parametrize("ending", [".pt", ".pt2", ".onnx", ".tflite", ".th"])
@pytest.mark.parametrize("content", [b"", b"not a model\n" * 9, b"\x80\x02}q\x00"])
def test_a_file_that_is_no_model_is_one_sentence_and_status_2(tmp_path, run, ending, content):
    path = tmp_path / f"net{ending}"
    path.write_bytes(content)
    reject(path, "net")
    assert_rejected(run("models", "check", path), "net")


@pytest.mark.parametrize("prefix", ["onnx", "tflite"])
def test_a_missing_file_or_runtime_is_one_sentence(tmp_path, prefix, monkeypatch):
    reject(f"{prefix}:{tmp_path}/none.{prefix}", "Cannot read the model", "No such file")
    reject(f"{prefix}:", "does not name a model", "FILE")
    package = {"onnx": "onnxruntime", "tflite": "ai_edge_litert"}[prefix]
    monkeypatch.setitem(sys.modules, package, None)
    reject(f"{tmp_path}/none.{prefix}", f'pip install -e ".[{prefix}]"')


# Kinds


def test_python_may_stand_before_a_module(tmp_path, monkeypatch):
    (tmp_path / "zoo_files.py").write_text("def means(x):\n    return x.mean(dim=(2, 3))\n")
    monkeypatch.chdir(tmp_path)
    try:
        found = load_model("python:zoo_files:means", CPU)
        assert found.name == "zoo_files:means"
        assert torch.equal(
            found(random_images()), load_model("zoo_files:means", CPU)(random_images())
        )
    finally:
        sys.modules.pop("zoo_files", None)


def test_an_unknown_kind_suggests_one_and_names_both_possibilities():
    reject("tim:resnet50", "no module 'tim'", "no kind of model 'tim'", "'timm:resnet50'")
    reject("qqq:net", "no module 'qqq'", "the kinds are timm, ")
