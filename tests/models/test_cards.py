"""Cards and sidecars, and label maps: what a model is, and what its outputs stand for."""

import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import eyechart as ec
from commands import assert_rejected
from eyechart.images.labels.imagenet import wordnet_ids
from eyechart.images.labels.matching import native_labels
from eyechart.models.find import load_model, reject_unused
from eyechart.models.label_map import find_map, log_probabilities, map_of
from eyechart.models.model import Model, Preprocessing
from small_models import save_images

CPU = torch.device("cpu")


def random_images(count=3, side=16):
    generator = torch.Generator().manual_seed(0)
    return torch.randint(0, 256, (count, 3, side, side), dtype=torch.uint8, generator=generator)


def means(x):
    return x.mean(dim=(2, 3))


def outputs(count, seed=0):
    """A model whose scores are the same random logits for every picture."""
    scores = torch.randn(count, generator=torch.Generator().manual_seed(seed))
    return Model("mine", lambda x: scores.expand(len(x), -1), CPU, identity="abc"), scores


def reject(call, *words):
    with pytest.raises(ec.UsageError) as rejected:
        call()
    sentence = str(rejected.value)
    assert "\n" not in sentence and sentence.endswith((".", "?")), sentence
    for word in words:
        assert word in sentence, sentence


@pytest.fixture
def zoo(tmp_path, monkeypatch):
    """A folder with a module in it, which is the current one."""
    (tmp_path / "zoo_cards.py").write_text(
        "import torch\n"
        "def means(x):\n    return x.mean(dim=(2, 3))\n"
        "class Means(torch.nn.Module):\n"
        "    def __init__(self):\n        super().__init__()\n"
        "        self.register_buffer('one', torch.ones(1))\n"
        "    def forward(self, x):\n        return x.mean(dim=(2, 3)) * self.one\n"
    )
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    sys.modules.pop("zoo_cards", None)


# Cards


def test_a_card_says_all_of_a_model(zoo):
    (zoo / "mine.yaml").write_text(
        "model: zoo_cards:Means()\nname: my means\nside: 8\nmean: [0.5, 0.4, 0.3]\n"
        "std: [0.5, 0.25, 1]\ninterpolation: bilinear\nchannels: bgr\ntop1: 0.61\n"
        "class_names: [red, green, blue]\n"
    )
    found = load_model("mine.yaml", CPU)
    gray = torch.full((2, 3, 20, 30), 153, dtype=torch.uint8)
    torch.testing.assert_close(found(gray), torch.tensor([[0.3, 0.8, 0.2]]).expand(2, -1))
    assert (found.name, found.published_accuracy, found.side) == ("my means", 0.61, 8)
    assert found.class_names == ("red", "green", "blue") and found.classes == 3
    assert found.preprocessing.interpolation == "bilinear"


def test_a_card_without_a_name_gives_its_own_path_and_says_half(zoo):
    (zoo / "mine.yml").write_text("model: zoo_cards:Means()\nhalf: true\n")
    found = load_model("mine.yml", CPU)
    assert found.name == "mine.yml" and found.dtype == torch.bfloat16
    assert load_model("mine.yml", CPU, half=False).dtype == torch.float32


def test_a_cards_paths_begin_in_its_folder(zoo):
    from tiny_networks import tiny, write_script

    (zoo / "deep").mkdir()
    write_script(zoo / "deep" / "net.pt", tiny())
    (zoo / "deep" / "names.txt").write_text("a\nb\nc\nd\ne\n")
    (zoo / "deep" / "card.yaml").write_text("model: net.pt\nclass_names: names.txt\n")
    found = load_model("deep/card.yaml", CPU)
    assert found(random_images()).shape == (3, 5)
    assert (found.name, found.class_names) == ("deep/card.yaml", ("a", "b", "c", "d", "e"))


def test_a_card_with_the_name_of_its_file_is_its_sidecar_too(zoo):
    from tiny_networks import tiny, write_script

    write_script(zoo / "net.pt", tiny())
    (zoo / "net.yaml").write_text("model: net.pt\nmean: [0.5, 0.5, 0.5]\n")
    card, file = load_model("net.yaml", CPU), load_model("net.pt", CPU)
    assert card.identity == file.identity and card.preprocessing == file.preprocessing
    assert torch.equal(card(random_images()), file(random_images()))
    (zoo / "net.yaml").write_text("model: other.pt\n")
    reject(lambda: load_model("net.pt", CPU), "names a different model")


def test_a_card_beside_a_sidecar_has_the_last_word(zoo):
    from tiny_networks import tiny, write_script

    write_script(zoo / "net.pt", tiny())
    (zoo / "net.yaml").write_text("mean: [0.5, 0.5, 0.5]\nside: 20\n")
    (zoo / "card.yaml").write_text("model: net.pt\nside: 30\n")
    found = load_model("card.yaml", CPU)
    assert found.preprocessing == Preprocessing(30, (0.5, 0.5, 0.5))


def test_other_settings_make_another_model(zoo):
    identities = set()
    for line in ("", "side: 8", "channels: bgr", "mean: [0.1, 0, 0]", "class_names: [a, b, c]"):
        (zoo / "mine.yaml").write_text(f"model: zoo_cards:Means()\n{line}\n")
        found = load_model("mine.yaml", CPU)
        found(random_images())
        identities.add(found.identity)
    assert len(identities) == 5


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("side: 224", ["does not name a model", "model: NAME"]),
        ("model: 3", ["model in", "must be a string"]),
        ("model: other.yaml", ["another card"]),
        ("model: zoo_cards:means\nmena: [0, 0, 0]", ["Unknown entry", "'mean'"]),
        ("model: zoo_cards:means\ntop1: 75", ["number from 0 to 1, got 75"]),
        ("model: zoo_cards:means\nhalf: yes please", ["true or false"]),
        ("model: zoo_cards:means\ninterpolation: bicubik", ["'bicubic'"]),
        ("model: zoo_cards:means\nchannels: grb", ["channels in"]),
        (
            "model: zoo_cards:means\noutputs: none.txt",
            ["background-first", "does not exist", "none.txt"],
        ),
        ("model: zoo_cards:means\nclass_names: 7", ["list of names or a file"]),
        ("model: zoo_cards:means\nclass_names: none.txt", ["Cannot read none.txt"]),
        ("model: zoo_cards:means\nclass_names: [a, b]", ["2 lines", "3 outputs"]),
        ("model: zoo_cards:means\noutputs: imagenet\nclass_names: [a, b, c]", ["has both"]),
        ("model: zoo_cards:means\noutputs: background-first", ["1,001 lines", "3 outputs"]),
        ("model: tim:resnet50", ["'timm:resnet50'"]),
        ("model: nowhere.onnx", ["Cannot read the model nowhere.onnx"]),
        ("model: [", ["not well-formed YAML"]),
    ],
)
def test_a_card_that_makes_no_sense_is_one_sentence_and_status_2(zoo, run, text, words):
    (zoo / "mine.yaml").write_text(text)
    reject(lambda: load_model("mine.yaml", CPU)(random_images()), *words)
    assert_rejected(run("models", "check", "mine.yaml"), *words)


def test_a_card_that_is_not_there_is_one_sentence(run):
    assert_rejected(run("models", "check", "nothing.yaml"), "Cannot read nothing.yaml")


# Interpolation and channels


@pytest.mark.parametrize("how", ["bicubic", "bilinear", "nearest"])
def test_resizing_is_as_pillow_does_it(how):
    from PIL import Image

    (shown,) = random_images(1, side=40)
    ready = Preprocessing(16, interpolation=how)(shown[None])[0]
    image = Image.fromarray(shown.permute(1, 2, 0).numpy())
    pillow = np.asarray(image.resize((16, 16), getattr(Image.Resampling, how.upper())))
    # Pillow rounds to whole levels, once for the rows and once for the columns.
    most = 0 if how == "nearest" else 1.1
    np.testing.assert_allclose(ready.permute(1, 2, 0) * 255, pillow, atol=most)


def test_bgr_turns_the_channels_round_after_normalising():
    steps = Preprocessing(mean=(0.1, 0.2, 0.3), std=(0.5, 0.6, 0.7))
    from dataclasses import replace

    turned = replace(steps, channels="bgr")(random_images())
    assert torch.equal(turned, steps(random_images())[:, [2, 1, 0]])


# Label maps


def test_background_first_drops_the_first_output():
    model, scores = outputs(1001)
    model.use_map(find_map("background-first"))
    found = log_probabilities(model(random_images()))
    torch.testing.assert_close(found[0], scores[1:].log_softmax(0))
    assert model.classes == 1000 and model.has_imagenet and model.identity != "abc"


def test_probabilities_without_some_outputs_sum_to_1_again():
    _, scores = outputs(1001)
    shares = scores.softmax(0)
    given = Model("mine", lambda x: shares.expand(len(x), -1), CPU)
    given.offer_maps([find_map("background-first")])
    found = log_probabilities(given(random_images())).exp()
    torch.testing.assert_close(found[0], shares[1:] / shares[1:].sum())


@given(seed=st.integers(0, 1000), extra=st.integers(0, 40), numbers=st.booleans())
def test_a_map_puts_outputs_in_imagenets_order_wherever_they_are(seed, extra, numbers):
    random = np.random.default_rng(seed)
    entries = [*map(str, range(1000))] if numbers else list(wordnet_ids())
    lines = [*entries, *["-"] * (extra // 2), *["something"] * (extra - extra // 2)]
    order = random.permutation(len(lines))
    shuffled = [lines[place] for place in order]
    own = map_of(shuffled, "lines")
    assert own.length == len(lines) and own.names is None
    assert [shuffled[place] for place in own.picked] == entries


def test_a_file_of_21843_lines_picks_the_thousand(tmp_path):
    lines = [f"n{number:08d}" for number in range(90_000_000, 90_020_843)]
    lines[7:7] = wordnet_ids()
    (tmp_path / "all.txt").write_text("\n".join(lines) + "\n")
    model, scores = outputs(21843)
    model.offer_maps([find_map("background-first"), find_map(str(tmp_path / "all.txt"))])
    torch.testing.assert_close(
        log_probabilities(model(random_images()))[0], scores[7:1007].log_softmax(0)
    )
    assert model.has_imagenet


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("map.csv", "output,wnid\n0,cat\n1,-\n2,dog\n"),
        ("map.csv", 'cat,a\n,\n"dog",b\n'),
        ("map.txt", "cat\n\ndog\n"),
    ],
)
def test_outputs_with_names_are_matched_by_name(tmp_path, name, text):
    (tmp_path / name).write_text(text)
    own = find_map(str(tmp_path / name))
    assert (own.length, own.picked, own.names) == (3, (0, 2), ("cat", "dog"))
    model, scores = outputs(3)
    model.use_map(own)
    torch.testing.assert_close(model(random_images())[0], scores.log_softmax(0)[[0, 2]])
    assert (model.classes, model.class_names) == (2, ("cat", "dog"))
    assert native_labels(["dog", None, "cat"], 2, ("cat", "dog")).tolist() == [1, -1, 0]
    assert native_labels(["1", "0"], 2, ("cat", "dog")).tolist() == [1, 0]


@pytest.mark.parametrize(
    ("labels", "names", "words"),
    [
        (["cat", "cow"], ("cat", "dog"), ["'cow'", "names of its outputs (cat, dog, …)"]),
        (["n01440764", "n01443537"], ("cat", "dog"), ["'n01440764'", "names of its outputs"]),
        (["cow", "pig"], ("cat", "dog"), ["'cow'"]),
        (["crane"], ("crane", "dog", "crane"), ["'crane' is the name of 2 outputs"]),
    ],
)
def test_labels_that_no_output_is_called_are_rejected(labels, names, words):
    reject(lambda: native_labels(labels, len(names), names), *words)


def test_a_map_is_for_the_models_with_as_many_outputs():
    maps = [find_map("background-first")]
    models = [outputs(1001)[0], outputs(5)[0]]
    for model in models:
        model.offer_maps(maps)
        model(random_images())
    assert [model.classes for model in models] == [1000, 5]
    reject_unused(maps, models)
    reject(lambda: reject_unused(maps, models[1:]), "1,001 lines", "5 outputs")


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        (["n01440764", "", "n01440764"], ["n01440764 in lines 1 and 3"]),
        (["5", "n01440764", "0"], ["0 in lines 2 and 3"]),
        (["-", "", "cat"], ["at least 2 outputs, got 1"]),
        ([], ["at least 2 outputs, got 0"]),
    ],
)
def test_a_map_that_makes_no_sense_is_rejected(lines, words):
    reject(lambda: map_of(lines, "map.txt"), "map.txt", *words)


def test_a_map_of_the_wrong_length_is_one_sentence_and_status_2(tmp_path, run, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("map.txt").write_text("\n".join(f"class {number}" for number in range(999)))
    save_images(tmp_path / "photos", 2)
    Path("card.yaml").write_text("model: small_models:Blocks()\noutputs: map.txt\n")
    result = run("models", "check", "card.yaml", "--images", "photos")
    assert_rejected(result, "map.txt has 999 lines", "1,000 outputs")
    result = run(
        "models", "check", "small_models:colors", "--images", "photos", "--label-map", "map.txt"
    )
    assert_rejected(result, "map.txt has 999 lines", "the models have 4 outputs")
    Path("bytes.txt").write_bytes(b"\xff\xfe\x00")
    result = run("models", "check", "small_models:colors", "--label-map", "bytes.txt")
    assert_rejected(result, "text file in UTF-8")


@pytest.mark.parametrize(("classes", "hint"), [(1001, "background-first"), (21843, "FILE")])
@pytest.mark.parametrize("labels", ["native", "entry16"])
def test_more_outputs_than_imagenet_has_classes_need_a_map(tmp_path, run, classes, hint, labels):
    model, _ = outputs(classes)
    from eyechart.images.imageset import load_images
    from eyechart.pipeline.prepare import check_labels
    from eyechart.testsets.plan import Plan

    save_images(tmp_path, 3, tints=("red", "green"))
    for tint, wnid in (("red", "n02123045"), ("green", "n02105855")):
        (tmp_path / tint).rename(tmp_path / wnid)
    model(random_images())
    images = load_images(tmp_path)
    reject(
        lambda: check_labels(Plan(labels=labels), [model], images),
        f"--label-map {hint}",
        "ImageNet's",
    )
