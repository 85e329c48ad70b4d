"""Each model zoo's adapter: the zoo's own answers come out, and refusals are one sentence.

Where a zoo cannot be imported, its tests are skipped and only its sentence is tested:
`tests/support/adapters_check.sh` runs them in environments that have it.
"""

import socket
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch
from PIL import Image

from eyechart.core.errors import UsageError
from eyechart.images.labels.imagenet import class_names, wordnet_ids
from eyechart.models.adapter import ADAPTERS, need
from eyechart.models.adapters.classifier_zoos import (
    robustbench_models,
    robustbench_package,
    robustbench_steps,
    torchvision_steps,
)
from eyechart.models.adapters.transformers_models import PROMPT, steps_of, texts_of
from eyechart.models.adapters.zoo import unknown_of_many, zoo
from eyechart.models.find import load_model
from eyechart.models.label_map import meaning_of
from places import ROOT
from tiny_zoo import (
    COLORS,
    CPU,
    as_images,
    quiet,
    random_images,
    save_clip,
    save_dinov2,
    save_open_clip,
    save_vit,
    zoo_of,
)

EXACT = 1e-4


def load(spec: str, **options: object):
    """Load as the command does, on the processor in float32."""
    return load_model(spec, torch.device("cpu"), False, **options)


def assert_close(ours: torch.Tensor, theirs: torch.Tensor) -> None:
    assert ours.shape == theirs.shape
    assert ours.std() > 0
    torch.testing.assert_close(ours, theirs.detach().float(), atol=EXACT, rtol=EXACT)


def rejected(spec: str, *words: str, **options: object) -> None:
    with pytest.raises(UsageError) as error:
        load(spec, **options)
    said = str(error.value)
    assert "\n" not in said and said.endswith((".", "?")), said
    for word in words:
        assert word in said, said


# what is the same for all zoos


@pytest.mark.parametrize(
    ("spec", "package", "extra"),
    [
        ("timm:resnet18", "timm", "timm"),
        ("torchvision:resnet18", "torchvision", "torchvision"),
        ("hf:owner/name", "transformers", "hf"),
        ("clip:ViT-B-32", "open_clip", "clip"),
        ("dinov2:giant", "transformers", "hf"),
        ("robustbench:Standard_R50", "robustbench", "robustbench"),
    ],
)
def test_a_missing_package_is_one_sentence_with_the_line_to_install_it(
    spec, package, extra, monkeypatch
):
    for name in [name for name in sys.modules if name.partition(".")[0] == package]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    rejected(
        spec, f'needs {package}: run  pip install -e ".[{extra}]"  in a clone of eyechart first.'
    )


def test_a_package_that_is_there_but_broken_is_said_to_be_so(tmp_path, monkeypatch):
    (tmp_path / "half_a_zoo.py").write_text(
        "raise RuntimeError('operator torchvision::nms does not exist')"
    )
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(UsageError) as error:
        need("half_a_zoo", "timm")
    assert str(error.value) == (
        "timm: needs half_a_zoo, which is installed but cannot be imported (operator"
        " torchvision::nms does not exist): install matching builds of torch and torchvision."
    )


def test_what_a_package_needs_itself_is_named(tmp_path, monkeypatch):
    (tmp_path / "whole_zoo.py").write_text("import no_such_part_of_it")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(UsageError, match="needs whole_zoo with no_such_part_of_it: run  pip"):
        need("whole_zoo", "timm")


def test_no_connection_is_made_while_a_zoo_loads_unless_that_is_allowed():
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = server.getsockname()
        with (
            pytest.raises(UsageError, match="not on this machine: add --download to download"),
            zoo("timm:x", CPU),
        ):
            socket.create_connection(address)
        with zoo("timm:x", replace(CPU, download=True)):
            socket.create_connection(address).close()
        socket.create_connection(address).close()


def test_only_tensors_are_unpickled_while_a_zoo_loads_unless_that_is_trusted(tmp_path):
    class Mischief:
        def __reduce__(self):
            return (Path.touch, (tmp_path / "run",))

    torch.save({"weights": Mischief()}, tmp_path / "bad.pt")
    with pytest.raises(UsageError, match="can run code when loaded"), zoo("timm:x", CPU):
        torch.load(tmp_path / "bad.pt", weights_only=False)
    assert not (tmp_path / "run").exists()
    with zoo("timm:x", replace(CPU, trust=True)):
        torch.load(tmp_path / "bad.pt")
    assert (tmp_path / "run").exists()


def test_a_zoo_that_fails_otherwise_is_one_sentence_too():
    with pytest.raises(UsageError, match=r"^Cannot load timm:x: first line\.$"), zoo("timm:x", CPU):
        raise ValueError("first line.\nsecond line")


# what outputs mean


def test_a_thousand_outputs_with_imagenets_names_or_none_are_imagenets():
    numbered = [f"LABEL_{place}" for place in range(1000)]
    upper = [name.upper().replace(" ", "_") for name in class_names()]
    synonyms = [f"{name}, Something else" for name in class_names()]
    for labels in (numbered, upper, synonyms, list(wordnet_ids()), list(class_names())):
        assert meaning_of(labels, "x") == (None, None)


def test_the_names_that_other_projects_use_are_known_as_imagenets():
    timm = zoo_of("timm", "timm")
    folder = Path(timm.__file__).parent / "data" / "_info"
    lines = (folder / "imagenet_synset_to_lemma.txt").read_text().splitlines()
    lemmas = dict(line.split("\t", 1) for line in lines)
    labels = [lemmas[wnid] for wnid in wordnet_ids()]
    assert meaning_of(labels, "x") == (None, None)
    assert meaning_of(labels[::-1], "x") == (None, tuple(labels[::-1]))


def test_a_thousand_outputs_in_another_order_or_of_other_things_keep_their_names():
    other = sorted(class_names())
    assert meaning_of(other, "x") == (None, tuple(other))
    assert meaning_of(COLORS, "x") == (None, COLORS)


def test_an_output_for_the_background_in_front_goes():
    label_map, names = meaning_of(["background", *class_names()], "x")
    assert names is None and label_map is not None
    assert label_map.picked == tuple(range(1, 1001))


def test_imagenets_classes_are_picked_out_of_more_wordnet_ids():
    label_map, names = meaning_of(["n00000001", *reversed(wordnet_ids()), "n00000002"], "x")
    assert names is None and label_map is not None
    assert label_map.picked == tuple(range(1000, 0, -1))


def test_an_unknown_name_of_hundreds_is_not_answered_with_all_of_them():
    many = [f"network_{number}" for number in range(500)]
    assert "Did you mean 'network_7'" in str(unknown_of_many("model", "netwrk_7", many, "there"))
    said = str(unknown_of_many("model", "zzz", many, "zoo.list_models()"))
    assert said == "Unknown model 'zzz': zoo.list_models() lists the known names."


# hf


def test_hf_gives_the_logits_and_names_of_transformers(tmp_path):
    folder = save_vit(tmp_path / "vit")
    package = zoo_of("transformers", "hf")
    model = load(f"hf:{folder}")
    batch = random_images(32)
    with quiet():
        network = package.AutoModelForImageClassification.from_pretrained(folder).eval()
        processor = package.AutoImageProcessor.from_pretrained(folder)
        ready = processor(images=as_images(batch), return_tensors="pt")
    assert_close(model(batch), network(**ready).logits)
    assert model.class_names == COLORS
    assert (model.name, model.side) == (f"hf:{folder}", 32)
    assert model.preprocessing.interpolation == "bilinear"
    assert model.preprocessing.mean == pytest.approx((0.4, 0.5, 0.6), abs=1e-6)


def test_hf_draws_no_bar_while_it_loads_and_leaves_the_bars_as_they_were(tmp_path, capfd):
    folder = save_vit(tmp_path / "vit")
    capfd.readouterr()
    load(f"hf:{folder}")
    assert capfd.readouterr().err == ""
    assert zoo_of("transformers", "hf").utils.logging.is_progress_bar_enabled()


def test_hf_resizes_a_stimulus_as_its_processor_does(tmp_path):
    folder = save_vit(tmp_path / "vit")
    package = zoo_of("transformers", "hf")
    batch = random_images(224)
    model = load(f"hf:{folder}")
    with quiet():
        processor = package.AutoImageProcessor.from_pretrained(folder)
        theirs = processor(images=as_images(batch), return_tensors="pt")["pixel_values"]
    levels = torch.tensor([0.2, 0.25, 0.3]).view(1, 3, 1, 1) * 255
    difference = (model.preprocessing(batch) - theirs) * levels
    # The processor rounds to gray levels after each of its two passes.
    assert difference.abs().max() <= 1.01
    assert difference.abs().mean() < 0.4


def test_hf_identity_is_that_of_the_weights_and_the_processor(tmp_path):
    same = [load(f"hf:{save_vit(tmp_path / name)}").identity for name in ("a", "b")]
    assert same[0] == same[1] != ""
    assert load(f"hf:{save_vit(tmp_path / 'c', seed=1)}").identity != same[0]
    labels = ("other", *COLORS[1:])
    assert load(f"hf:{save_vit(tmp_path / 'd', labels)}").identity != same[0]


def test_hf_takes_imagenets_names_for_imagenet(tmp_path):
    model = load(f"hf:{save_vit(tmp_path / 'vit', class_names_apart())}")
    assert model.class_names is None
    assert model(random_images(32)).shape == (3, 1000) and model.has_imagenet


def test_hf_drops_the_background(tmp_path):
    folder = save_vit(tmp_path / "vit", ("background", *class_names_apart()))
    model = load(f"hf:{folder}")
    assert model(random_images(32)).shape == (3, 1000) and model.has_imagenet


def class_names_apart() -> tuple[str, ...]:
    """ImageNet's names, each once: a label is a key in transformers' configuration."""
    return tuple(f"{name}, {wnid}" for name, wnid in zip(class_names(), wordnet_ids(), strict=True))


def test_hf_reads_a_pickle_of_tensors_but_nothing_else(tmp_path):
    folder = save_vit(tmp_path / "vit")
    before = load(f"hf:{folder}").identity
    safetensors = pytest.importorskip("safetensors.torch")
    weights = safetensors.load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    torch.save(weights, folder / "pytorch_model.bin")
    assert load(f"hf:{folder}").identity == before

    class Mischief:
        def __reduce__(self):
            return (Path.touch, (tmp_path / "run",))

    torch.save({**weights, "more": Mischief()}, folder / "pytorch_model.bin")
    rejected(f"hf:{folder}", "can run code when loaded: add --trust")
    assert not (tmp_path / "run").exists()


def test_hf_says_that_a_file_of_weights_is_only_half_there(tmp_path):
    folder = save_vit(tmp_path / "vit")
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:5000])
    rejected(f"hf:{folder}", "is damaged or incomplete: download it again.")


def test_hf_without_weights_on_this_machine_says_how_to_fetch_them(tmp_path, monkeypatch):
    zoo_of("transformers", "hf", "AutoImageProcessor")
    hub = pytest.importorskip("huggingface_hub.constants")
    monkeypatch.setattr(hub, "HF_HUB_CACHE", str(tmp_path))
    rejected(
        "hf:owner/no-such-model",
        "The weights of hf:owner/no-such-model are not on this machine: add --download to download",
    )


def test_hf_rejects_a_folder_without_a_model_and_a_path_to_nothing(tmp_path):
    zoo_of("transformers", "hf", "AutoImageProcessor")
    rejected(f"hf:{tmp_path}", "must be a folder with a config.json")
    rejected(f"hf:{tmp_path}/nothing", "there is no folder")
    save_vit(tmp_path / "vit")
    (tmp_path / "vit" / "model.safetensors").unlink()
    rejected(f"hf:{tmp_path}/vit", "Cannot load hf:")


PROCESSORS = (
    ("ViTImageProcessor", {}, 224),
    ("CLIPImageProcessor", {}, 224),
    ("ConvNextImageProcessor", {"size": {"shortest_edge": 288}}, 288),
    ("BeitImageProcessor", {}, 224),
    ("BitImageProcessor", {"size": {"shortest_edge": 256}}, 224),
    ("EfficientNetImageProcessor", {"rescale_factor": 1 / 127.5, "rescale_offset": True}, 346),
    ("MobileViTImageProcessor", {}, 256),
    ("DeiTImageProcessor", {"do_rescale": False, "do_normalize": False}, 224),
)


@pytest.mark.parametrize(("name", "options", "side"), PROCESSORS)
def test_hf_steps_are_what_the_processor_does_to_any_color(name, options, side):
    package = zoo_of("transformers", "hf", "AutoImageProcessor", name)
    with quiet():
        processor = getattr(package, name)(**options)
        steps = steps_of("hf:x", processor)
        assert steps.side == side
        assert (steps.channels == "bgr") == (name == "MobileViTImageProcessor")
        at_once = replace(steps, side=None)
        for color in ((12, 34, 56), (255, 128, 0), (1, 254, 100)):
            image = Image.new("RGB", (224, 224), color)
            theirs = np.asarray(processor(images=image, return_tensors="np")["pixel_values"][0])
            ours = at_once(torch.tensor(color, dtype=torch.uint8).view(1, 3, 1, 1))
            middle = theirs[:, theirs.shape[1] // 2, theirs.shape[2] // 2]
            np.testing.assert_allclose(ours[0, :, 0, 0], middle, rtol=1e-4, atol=1e-4)


# clip


def test_clip_of_transformers_gives_the_logits_of_its_own_forward(tmp_path):
    folder = save_clip(tmp_path / "clip")
    package = zoo_of("transformers", "clip", "CLIPModel")
    model = load(f"clip:{folder}", class_names=COLORS)
    batch = random_images(32)
    with quiet():
        network = package.CLIPModel.from_pretrained(folder).eval()
        tokenizer = package.AutoTokenizer.from_pretrained(folder)
        processor = package.AutoImageProcessor.from_pretrained(folder)
        tokens = tokenizer(
            [f"a picture of {name}" for name in COLORS], padding=True, return_tensors="pt"
        )
        ready = processor(images=as_images(batch), return_tensors="pt")
        theirs = network(**tokens, **ready).logits_per_image
    assert_close(model(batch), theirs)
    assert model.class_names == COLORS


def test_clip_prompts_and_names_can_be_changed_and_change_the_identity(tmp_path):
    spec = f"clip:{save_clip(tmp_path / 'clip')}"
    plain = load(spec, class_names=COLORS)
    again = load(spec, class_names=COLORS, prompt=PROMPT)
    drawn = load(spec, class_names=COLORS, prompt="a drawing of {}, small")
    other = load(spec, class_names=COLORS[::-1])
    assert plain.identity == again.identity
    assert len({plain.identity, drawn.identity, other.identity}) == 3
    batch = random_images(32)
    assert_close(other(batch), plain(batch).flip(1))
    assert (drawn(batch) - plain(batch)).abs().max() > 0.01
    weights = load(f"clip:{save_clip(tmp_path / 'more', seed=1)}", class_names=COLORS)
    assert weights.identity != plain.identity


def test_clip_has_imagenets_classes_unless_told_otherwise(tmp_path):
    model = load(f"clip:{save_clip(tmp_path / 'clip')}")
    assert model(random_images(32)).shape == (3, 1000)
    assert model.class_names is None and model.has_imagenet


def test_clip_in_bfloat16_keeps_its_text_side_in_full_precision(tmp_path):
    spec = f"clip:{save_clip(tmp_path / 'clip')}"
    batch = random_images(32)
    half = load_model(spec, torch.device("cpu"), True, class_names=COLORS)
    assert half.dtype == torch.bfloat16
    full = load(spec, class_names=COLORS)
    assert half.identity == full.identity
    # Of logits up to 14 here, so a bfloat16 itself would be off by 0.03.
    assert (half(batch) - full(batch)).abs().max() < 0.3


def test_clip_of_open_clip_gives_its_own_features_compared(tmp_path):
    package = zoo_of("open_clip", "clip")
    folder = save_open_clip(tmp_path / "clip")
    model = load(f"clip:{folder}", class_names=COLORS)
    batch = random_images(32)
    with quiet(), torch.no_grad():
        network, _, transform = package.create_model_and_transforms(f"local-dir:{folder}")
        tokenizer = package.get_tokenizer(f"local-dir:{folder}")
        ready = torch.stack([transform(image) for image in as_images(batch)])
        texts = tokenizer([f"a picture of {name}" for name in COLORS])
        network.eval()
        theirs, _ = network.get_logits(ready, texts)
    assert_close(model(batch), theirs)
    assert model.preprocessing.interpolation == "bilinear"


def test_clip_of_open_clip_suggests_names_and_weights():
    zoo_of("open_clip", "clip")
    rejected("clip:ViT-B-33", "Unknown open_clip model 'ViT-B-33'", "Did you mean")
    rejected("clip:ViT-B-32/opnai", "Unknown weights of ViT-B-32 'opnai'", "'openai'")


def test_clip_of_open_clip_without_weights_on_this_machine_says_how_to_fetch_them(
    tmp_path, monkeypatch
):
    zoo_of("open_clip", "clip")
    hub = pytest.importorskip("huggingface_hub.constants")
    monkeypatch.setattr(hub, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    rejected("clip:RN50/openai", "of clip:RN50/openai are not on this machine: add --download")


@pytest.mark.parametrize("prompt", ["a picture", "{} and {}", "a {name}", ""])
def test_a_prompt_must_have_one_place_for_the_name(prompt):
    with pytest.raises(UsageError, match=r"must contain \{\} once"):
        texts_of(replace(CPU, prompt=prompt))


def test_texts_are_the_papers_prompt_and_imagenets_names():
    texts, names = texts_of(CPU)
    assert texts[0] == "a picture of tench" and len(texts) == 1000 and names is None
    texts, names = texts_of(replace(CPU, prompt="{}!", class_names=("a {}", "b")))
    assert texts == ["a {}!", "b!"] and names == ("a {}", "b")


@pytest.mark.parametrize("names", [(), ("one",), ("one", " ")])
def test_class_names_must_be_two_or_more_and_not_empty(names):
    with pytest.raises(UsageError, match="At least two non-empty class names"):
        texts_of(replace(CPU, class_names=names))


# dinov2


def test_dinov2_gives_the_logits_of_transformers(tmp_path):
    folder = save_dinov2(tmp_path / "dinov2")
    package = zoo_of("transformers", "dinov2")
    model = load(f"dinov2:{folder}")
    batch = random_images(28)
    with quiet():
        network = package.Dinov2ForImageClassification.from_pretrained(folder).eval()
        mean = torch.tensor([0.48145466, 0.4578275, 0.40821073]).view(3, 1, 1)
        std = torch.tensor([0.26862954, 0.26130258, 0.27577711]).view(3, 1, 1)
        theirs = network((batch / 255 - mean) / std).logits
    assert_close(model(batch), theirs)
    assert model.side == 28 and model.class_names is None


HUBCONF = """
import torch

def dinov2_vits14_lc():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3 * 224 * 224, 7))
"""


def test_dinov2_runs_a_checkout_only_if_that_is_trusted(tmp_path, monkeypatch):
    (tmp_path / "hubconf.py").write_text(HUBCONF)
    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "home"))
    spec = f"dinov2:{tmp_path}/dinov2_vits14_lc"
    rejected(spec, "runs the code in", "add --trust")
    model = load(spec, trust=True)
    batch = random_images(224)
    torch.manual_seed(0)
    theirs = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3 * 224 * 224, 7))
    mean = torch.tensor([0.485, 0.456, 0.406]).view(3, 1, 1)
    std = torch.tensor([0.229, 0.224, 0.225]).view(3, 1, 1)
    assert_close(model(batch), theirs((batch / 255 - mean) / std))
    rejected(f"dinov2:{tmp_path}", "Cannot load", "dinov2_vitg14_lc", trust=True)


# timm


def hub_of(timm: ModuleType) -> ModuleType:
    """Return the hub's settings; older versions of timm cannot do with newer ones of the hub."""
    if not timm.models._hub.has_hf_hub():
        pytest.skip("this timm cannot use this huggingface_hub")
    return pytest.importorskip("huggingface_hub.constants")


@pytest.fixture
def timm_cache(tmp_path, monkeypatch):
    """A hub cache in which timm finds random weights of one of its tiny test models."""
    timm = zoo_of("timm", "timm")
    if not timm.is_model("test_vit"):
        pytest.skip("this timm has no tiny models")
    hub = hub_of(timm)
    safetensors = pytest.importorskip("safetensors.torch")
    monkeypatch.setattr(hub, "HF_HUB_CACHE", str(tmp_path))
    folder = tmp_path / "models--timm--test_vit.r160_in1k"
    (folder / "snapshots" / "0").mkdir(parents=True)
    (folder / "refs").mkdir()
    (folder / "refs" / "main").write_text("0")

    def save(seed: int) -> Path:
        with quiet():
            torch.manual_seed(seed)
            weights = timm.create_model("test_vit").state_dict()
            safetensors.save_file(weights, folder / "snapshots" / "0" / "model.safetensors")
        return folder

    save(0)
    return save


def test_timm_gives_the_logits_of_its_own_transform_and_model(timm_cache):
    timm = zoo_of("timm", "timm")
    model = load("timm:test_vit.r160_in1k")
    batch = random_images(160)
    with quiet():
        torch.manual_seed(0)
        network = timm.create_model("test_vit").eval()
        config = timm.data.resolve_model_data_config(network)
        transform = timm.data.create_transform(**{**config, "crop_pct": 1.0}, is_training=False)
        theirs = network(torch.stack([transform(image) for image in as_images(batch)]))
    assert_close(model(batch), theirs)
    assert model.name == "timm:test_vit.r160_in1k"
    assert (model.side, model.class_names) == (160, None)


def test_timm_identity_is_that_of_the_weights(timm_cache):
    one = load("timm:test_vit.r160_in1k").identity
    assert load("timm:test_vit").identity == one
    timm_cache(1)
    assert load("timm:test_vit").identity != one


def test_timm_resizes_a_stimulus_as_its_own_transform_does(timm_cache):
    timm = zoo_of("timm", "timm")
    model = load("timm:test_vit.r160_in1k")
    batch = random_images(224)
    with quiet():
        config = timm.data.resolve_model_data_config(timm.create_model("test_vit"))
        transform = timm.data.create_transform(**{**config, "crop_pct": 1.0}, is_training=False)
        theirs = torch.stack([transform(image) for image in as_images(batch)])
    levels = torch.tensor(model.preprocessing.std).view(1, 3, 1, 1) * 255
    difference = (model.preprocessing(batch) - theirs) * levels
    # Two passes are rounded to gray levels, and bicubic weights sum to more than 1 in size.
    assert difference.abs().max() <= 1.25
    assert difference.abs().mean() < 0.4


def test_timm_suggests_names_and_tags():
    zoo_of("timm", "timm")
    rejected("timm:resnet51", "Unknown timm model 'resnet51'", "Did you mean")
    rejected("timm:resnet50.a1_in1", "Unknown timm model 'resnet50.a1_in1'", "'resnet50.a1_in1k'")
    rejected("timm:zzzzzz", "timm.list_models() lists the known names")


def test_timm_without_weights_on_this_machine_says_how_to_fetch_them(tmp_path, monkeypatch):
    hub = hub_of(zoo_of("timm", "timm"))
    monkeypatch.setattr(hub, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    said = "are not on this machine: add --download to download them."
    rejected("timm:resnet18.a1_in1k", f"The weights of timm:resnet18.a1_in1k {said}")
    rejected("timm:hf-hub:timm/resnet18.a1_in1k", said)


# torchvision


@pytest.fixture
def torch_home(tmp_path, monkeypatch):
    """A folder in which torchvision finds random weights of SqueezeNet."""
    models = zoo_of("torchvision.models", "torchvision")
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    weights = models.SqueezeNet1_1_Weights.DEFAULT

    def save(seed: int) -> None:
        with quiet():
            torch.manual_seed(seed)
            path = tmp_path / "hub" / "checkpoints" / weights.url.rsplit("/", 1)[-1]
            path.parent.mkdir(parents=True, exist_ok=True)
            torch.save(models.squeezenet1_1().state_dict(), path)

    save(0)
    return save


def test_torchvision_gives_the_logits_of_its_own_transform_and_model(torch_home):
    models = zoo_of("torchvision.models", "torchvision")
    model = load("torchvision:squeezenet1_1")
    batch = random_images(224)
    weights = models.SqueezeNet1_1_Weights.IMAGENET1K_V1
    with quiet():
        torch.manual_seed(0)
        network = models.squeezenet1_1().eval()
        transform = weights.transforms(resize_size=224)
        theirs = network(torch.stack([transform(image) for image in as_images(batch)]))
    assert_close(model(batch), theirs)
    assert (model.side, model.class_names) == (224, None)
    assert model.published_accuracy == pytest.approx(0.58178)


def test_torchvision_identity_is_that_of_the_weights(torch_home):
    one = load("torchvision:squeezenet1_1").identity
    assert load("torchvision:squeezenet1_1/IMAGENET1K_V1").identity == one
    torch_home(1)
    assert load("torchvision:squeezenet1_1").identity != one


@pytest.mark.parametrize("content", [b"", b"<html>not found</html>", b"PK\x03\x04half of it"])
def test_torchvision_says_that_a_file_of_weights_is_damaged(torch_home, tmp_path, content):
    (path,) = tmp_path.rglob("*.pth")
    path.write_bytes(content)
    rejected("torchvision:squeezenet1_1", "is damaged or incomplete")


def test_torchvision_steps_are_what_every_one_of_its_weights_does_to_a_color():
    models = zoo_of("torchvision.models", "torchvision")
    image = Image.new("RGB", (224, 224), (12, 134, 256 - 7))
    color = torch.tensor([12, 134, 249], dtype=torch.uint8).view(1, 3, 1, 1)
    seen = set()
    for name in models.list_models(module=models):
        for weights in models.get_model_weights(name):
            if weights.meta["categories"] is None:
                assert "FEATURES" in weights.name
                continue
            transform = weights.transforms()
            with quiet():
                theirs = transform(image)
            steps = torchvision_steps("torchvision:one", transform)
            assert theirs.shape[1:] == (steps.side, steps.side), weights
            torch.testing.assert_close(steps(color)[0, :, 0, 0], theirs[:, 90, 90])
            assert meaning_of(weights.meta["categories"], "x") == (None, None), weights
            seen.add((steps.side, steps.interpolation))
    assert len(seen) > 4


def test_torchvision_suggests_names_and_weights():
    zoo_of("torchvision.models", "torchvision")
    rejected("torchvision:resnet51", "Unknown torchvision model 'resnet51'", "'resnet50'")
    rejected("torchvision:resnet50/IMAGENET1K_V3", "Unknown weights of resnet50", "IMAGENET1K_V1")
    # A classifier that was never trained.
    rejected("torchvision:vgg16/IMAGENET1K_FEATURES", "Unknown weights of vgg16", "IMAGENET1K_V1")


def test_torchvision_without_weights_on_this_machine_says_how_to_fetch_them(tmp_path, monkeypatch):
    zoo_of("torchvision.models", "torchvision")
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    rejected(
        "torchvision:squeezenet1_0",
        "The weights of torchvision:squeezenet1_0 are not on this machine: add --download",
    )
    assert not list(tmp_path.rglob("*.pth"))


# robustbench


@pytest.fixture
def robustbench(tmp_path, monkeypatch):
    """The package, in a folder where it finds random weights of its ResNet-18."""
    try:
        utils = robustbench_package()
    except UsageError as error:
        pytest.skip(str(error))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "home"))
    return utils


def test_robustbench_gives_the_logits_of_the_network_behind_its_normalisation(
    robustbench, tmp_path
):
    models = zoo_of("torchvision.models", "torchvision")
    path = tmp_path / "models" / "imagenet" / "Linf" / "Salman2020Do_R18.pt"
    path.parent.mkdir(parents=True)
    with quiet():
        torch.manual_seed(0)
        network = models.resnet18().eval()
        torch.save(network.state_dict(), path)
    model = load("robustbench:Salman2020Do_R18")
    batch = random_images(224)
    mean = torch.tensor([0.485, 0.456, 0.406]).view(3, 1, 1)
    std = torch.tensor([0.229, 0.224, 0.225]).view(3, 1, 1)
    assert_close(model(batch), network((batch / 255 - mean) / std))
    assert model.preprocessing.mean == (0, 0, 0) and model.side == 224


@pytest.mark.slow
def test_robustbench_has_a_side_for_each_of_its_models(robustbench):
    sides = {
        name: robustbench_steps(name, threat).side
        for threat, names in robustbench_models().items()
        for name in names
    }
    assert sides["Wong2020Fast"] == 288
    assert {side for name, side in sides.items() if name != "Wong2020Fast"} == {224}


def test_robustbench_has_the_models_of_the_study(robustbench):
    from eyechart.results.study_models import STUDIES

    known = {name for names in robustbench_models().values() for name in names}
    for model in STUDIES["vcr"]:
        prefix, _, name = model.spec.partition(":")
        assert prefix != "robustbench" or name in known


def test_robustbench_suggests_names_and_says_how_to_fetch(robustbench):
    rejected("robustbench:Standard_R51", "Unknown RobustBench model", "'Standard_R50'")
    said = "are not on this machine: add --download to download them."
    for name in ("Hendrycks2020AugMix", "Standard_R50", "AlexNet", "Tian2022Deeper_DeiT-S"):
        rejected(f"robustbench:{name}", f"The weights of robustbench:{name} {said}")


def test_the_study_is_made_of_models_that_timm_has():
    from eyechart.results.study_models import STUDIES

    timm = zoo_of("timm", "timm")
    names = [model.spec.removeprefix("timm:") for model in STUDIES["vcr"]]
    ours = [name for name in names if name.endswith("_in1k") and ":" not in name]
    assert len(ours) == 2
    assert set(ours) <= set(timm.list_pretrained())


def test_every_adapter_names_a_module_that_is_there():
    folder = ROOT / "src" / "eyechart" / "models" / "adapters"
    for prefix in ADAPTERS:
        module, _, function = ADAPTERS[prefix].home.partition(":")
        assert f"def {function}(" in (folder / f"{module}.py").read_text("utf-8")
