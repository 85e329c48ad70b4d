"""Checkpoints: what is written is read, answers stay, and no file can do harm or a traceback."""

import pickle
import sys
from dataclasses import fields, replace

import numpy as np
import pytest
import torch

from commands import assert_rejected
from eyechart.core.errors import UsageError
from eyechart.models import checkpoint as module
from eyechart.models.checkpoint import Checkpoint, _is_users, read_checkpoint, write_checkpoint
from eyechart.models.find import load_model
from eyechart.models.networks import build_network
from eyechart.training.state import is_finished
from tiny_networks import random_images, tiny
from trap import Trap

CPU = torch.device("cpu")
MEAN, STD = (0.4, 0.5, 0.6), (0.2, 0.25, 0.3)
NAMES = ("cat", "dog", "owl")


def network(seed=0):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        own = build_network("textures:network", 3)
        for value in own.state_dict().values():
            if value.is_floating_point():
                # running means too must not be what a new network has
                value.add_(torch.rand_like(value))
    return own.eval()


def checkpoint_of(own, **changes):
    usual = Checkpoint(
        "textures:network",
        "",
        NAMES,
        ("noc/blur", "fog"),
        own.state_dict(),
        None,
        MEAN,
        STD,
        {"settings": {"epochs": 3, "milestones": [0.5, 0.75], "severity": None}},
        {"torch": str(torch.__version__)},
    )
    return replace(usual, **changes)


@pytest.fixture
def own():
    return network()


@pytest.fixture
def path(tmp_path, own):
    write_checkpoint(checkpoint_of(own), tmp_path / "net.pt")
    return tmp_path / "net.pt"


def normalized(levels):
    mean, std = (torch.tensor(each).reshape(1, 3, 1, 1) for each in (MEAN, STD))
    return (levels.float() / 255 - mean) / std


def reject(path, *words, **given):
    """One sentence from whoever reads the file."""
    for read in (read_checkpoint, lambda own: load_model(str(own), CPU, **given)):
        with pytest.raises(UsageError) as told:
            read(path)
        said = str(told.value)
        assert "\n" not in said and said.endswith("."), said
        assert str(path) in said
    for word in words:
        assert word in said


# What is written is read


def test_what_is_written_is_read_to_the_last_bit(path, own):
    found, expected = read_checkpoint(path), checkpoint_of(own)
    for each in fields(Checkpoint):
        if each.name != "weights":
            assert getattr(found, each.name) == getattr(expected, each.name), each.name
    assert found.weights.keys() == own.state_dict().keys()
    for name, value in own.state_dict().items():
        assert torch.equal(found.weights[name], value) and found.weights[name].dtype == value.dtype


def test_weights_that_are_read_only_when_they_are_used_are_the_same(path, own):
    found = read_checkpoint(path, mapped=True).weights
    assert all(torch.equal(found[name], value) for name, value in own.state_dict().items())


def test_a_checkpoint_is_a_model_that_predicts_as_its_network_does(path, own):
    model = load_model(str(path), CPU, trust=True)
    with torch.no_grad():
        expected = own(normalized(random_images(5, 24)))
    torch.testing.assert_close(model(random_images(5, 24)), expected, atol=1e-5, rtol=1e-5)
    assert model.class_names == NAMES
    assert model.trained_on == ("noc/blur", "fog")
    assert model.preprocessing.mean == MEAN and model.preprocessing.std == STD
    assert model.name == str(path)


def test_images_are_brought_to_the_side_that_a_checkpoint_has(tmp_path, own):
    write_checkpoint(checkpoint_of(own, side=20), tmp_path / "net.pt")
    model = load_model(str(tmp_path / "net.pt"), CPU, trust=True)
    seen = []
    model.module[0].register_forward_hook(lambda part, given, made: seen.append(given[0].shape))
    model(random_images(2, 33))
    assert model.side == 20 and seen == [(2, 3, 20, 20)]


def test_writing_changes_no_weights_and_keeps_no_graph(tmp_path):
    own = torch.nn.Linear(3, 3)
    before = own.weight.clone()
    made = checkpoint_of(own, weights={"weight": own.weight, "part": own.weight[1:]})
    write_checkpoint(made, tmp_path / "net.pt")
    found = read_checkpoint(tmp_path / "net.pt").weights
    assert torch.equal(own.weight, before) and own.weight.requires_grad
    assert not found["weight"].requires_grad and torch.equal(found["part"], before[1:])


def test_a_part_of_a_large_tensor_takes_only_its_own_room(tmp_path):
    large = torch.zeros(100_000)
    write_checkpoint(checkpoint_of(network(), weights={"w": large[:3]}), tmp_path / "net.pt")
    assert (tmp_path / "net.pt").stat().st_size < 10_000


def test_half_precision_predictions_nearly_the_same(path, own):
    model = load_model(str(path), CPU, half=True, trust=True)
    assert {value.dtype for value in model.module.parameters()} == {torch.bfloat16}
    with torch.no_grad():
        expected = own(normalized(random_images(5, 24)))
    found = model(random_images(5, 24))
    assert found.dtype == torch.float32
    assert not torch.equal(found, expected)
    torch.testing.assert_close(found, expected, atol=0.15, rtol=0.05)


def test_loading_leaves_the_random_numbers_of_others_alone(path):
    torch.manual_seed(3)
    expected = torch.rand(4)
    torch.manual_seed(3)
    load_model(str(path), CPU, trust=True)
    assert torch.equal(torch.rand(4), expected)


def test_identities_follow_weights_and_preprocessing_and_nothing_else(tmp_path, own):
    def identity(name, **changes):
        write_checkpoint(checkpoint_of(**{"own": own, **changes}), tmp_path / f"{name}.pt")
        return load_model(str(tmp_path / f"{name}.pt"), CPU, trust=True).identity

    first = identity("a")
    assert identity("b", made={"torch": "0"}, recipe={}) == first
    assert identity("c", own=network(1)) != first
    assert identity("d", mean=(0.4, 0.5, 0.5)) != first
    # the precision is a setting of a run, not another model
    assert load_model(str(tmp_path / "a.pt"), CPU, half=True, trust=True).identity == first


# On another model


def based(tmp_path, base="tiny_base:net"):
    """A checkpoint whose network is that of a module of the user's, trained further."""
    (tmp_path / "tiny_base.py").write_text(
        "from tiny_networks import tiny\nnet = tiny()\nflat = lambda pictures: random_images\n"
    )
    own = tiny(seed=9)
    made = checkpoint_of(own, network="", base=base, class_names=(), side=None)
    write_checkpoint(made, tmp_path / "tuned.pt")
    return own


@pytest.mark.parametrize("half", [False, True])
def test_a_checkpoint_of_another_model_predicts_with_its_own_weights(tmp_path, monkeypatch, half):
    monkeypatch.chdir(tmp_path)
    own = based(tmp_path)
    model = load_model("tuned.pt", CPU, half=half, trust=True)
    with torch.no_grad():
        expected = own(random_images().float() / 255)
        before = tiny()(random_images().float() / 255)
    close = {"atol": 0.02, "rtol": 0.02} if half else {"atol": 1e-5, "rtol": 0}
    torch.testing.assert_close(model(random_images()), expected, **close)
    assert (expected - before).abs().max() > 0.05
    assert model.trained_on == ("noc/blur", "fog") and model.name == "tuned.pt"
    assert model.identity != load_model("tiny_base:net", CPU).identity
    wanted = torch.bfloat16 if half else torch.float32
    assert {value.dtype for value in model.module.parameters()} == {wanted}
    # what it is based on is as it was
    torch.testing.assert_close(load_model("tiny_base:net", CPU)(random_images()), before)


def test_a_checkpoint_may_stand_on_a_checkpoint(tmp_path, path, own):
    other = network(4)
    made = checkpoint_of(other, network="", base=str(path), class_names=(), trained_on=("snow",))
    write_checkpoint(made, tmp_path / "next.pt")
    model = load_model(str(tmp_path / "next.pt"), CPU, trust=True)
    with torch.no_grad():
        # with the preprocessing and the names of what it stands on
        expected = other(normalized(random_images(4, 24)))
    torch.testing.assert_close(model(random_images(4, 24)), expected, atol=1e-5, rtol=1e-5)
    assert model.class_names == NAMES and model.trained_on == ("snow",)


def test_a_base_that_is_gone_or_no_module_is_one_sentence(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for base, words in (
        ("gone.pt", "gone.pt"),
        ("tiny_base:flat", "tiny_base:flat, on which tuned.pt is based, is not a torch module"),
        ("tiny_base:gone", "gone"),
    ):
        based(tmp_path, base)
        with pytest.raises(UsageError) as told:
            load_model("tuned.pt", CPU, trust=True)
        assert words in str(told.value) and "\n" not in str(told.value)


# Code that a file names


@pytest.mark.parametrize(
    "named",
    [
        {"network": "marking:network"},
        {"network": "", "base": "marking:net"},
        {"network": "", "base": "marking:make()"},
        {"network": "", "base": "python:marking:net"},
        {"network": "", "base": "inner.pt"},
    ],
)
def test_code_that_a_file_names_is_called_only_if_it_is_trusted(tmp_path, monkeypatch, run, named):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "marking", raising=False)
    (tmp_path / "marking.py").write_text(
        "from pathlib import Path\nfrom textures import network\n"
        "Path('mark').touch()\nnet = network(3)\nmake = lambda: network(3)\n"
    )
    own = network()
    write_checkpoint(checkpoint_of(own, network="marking:network"), tmp_path / "inner.pt")
    write_checkpoint(checkpoint_of(own, **named), tmp_path / "net.pt")
    with pytest.raises(UsageError) as told:
        load_model("net.pt", CPU)
    said = str(told.value)
    assert "was trained with" in said and "marking" in said and "give --trust" in said
    assert "\n" not in said and said.endswith(".")
    assert_rejected(run("models", "check", "net.pt"), said)
    assert not (tmp_path / "mark").exists() and "marking" not in sys.modules
    # it does make a mark where it may
    load_model("net.pt", CPU, trust=True)
    assert (tmp_path / "mark").exists()
    monkeypatch.delitem(sys.modules, "marking")


def test_networks_of_ours_need_no_trust(tmp_path):
    own = build_network("resnet9", 3)
    write_checkpoint(checkpoint_of(own, network="resnet9"), tmp_path / "net.pt")
    model = load_model(str(tmp_path / "net.pt"), CPU)
    with torch.no_grad():
        expected = own.eval()(normalized(random_images(2, 32)))
    torch.testing.assert_close(model(random_images(2, 32)), expected, atol=1e-4, rtol=1e-4)
    # nor does what stands on one
    made = checkpoint_of(own, network="", base=str(tmp_path / "net.pt"), class_names=())
    write_checkpoint(made, tmp_path / "next.pt")
    assert load_model(str(tmp_path / "next.pt"), CPU).class_names == NAMES


# Files that are something else


@pytest.mark.parametrize("zipped", [True, False])
def test_a_checkpoint_with_code_in_it_is_rejected_and_runs_none(tmp_path, own, zipped):
    mark = tmp_path / "mark"
    made = checkpoint_of(own)
    held = {each.name: getattr(made, each.name) for each in fields(Checkpoint)}
    held = {module.MARK: module.VERSION, **held, "made": Trap(mark)}
    torch.save(held, tmp_path / "trap.pt", _use_new_zipfile_serialization=zipped)
    reject(tmp_path / "trap.pt")
    with pytest.raises(UsageError, match="can run code"):
        load_model(str(tmp_path / "trap.pt"), CPU)
    assert not mark.exists()
    # it is a trap indeed
    torch.load(tmp_path / "trap.pt", weights_only=False)
    assert mark.exists()


@pytest.mark.parametrize("left", [0, 1, 100, 0.5, 0.9, -1])
def test_a_file_that_was_cut_off_is_one_sentence(path, left):
    content = path.read_bytes()
    path.write_bytes(content[: int(left * len(content)) if isinstance(left, float) else left])
    reject(path)


def changed_files(content, count):
    """The file with a few bytes replaced, or cut off anywhere."""
    numbers = np.random.default_rng(5)
    for place in range(count):
        made = bytearray(content)
        for _ in range(numbers.integers(1, 4)):
            made[numbers.integers(len(made))] = numbers.integers(256)
        yield bytes(made[: numbers.integers(len(made))] if place % 3 == 0 else made)


@pytest.mark.parametrize("trust", [False, True])
def test_a_damaged_file_is_a_model_or_one_sentence(path, trust):
    """Damage within a weight cannot be noticed; all else must not be a traceback."""
    for content in changed_files(path.read_bytes(), 60):
        path.write_bytes(content)
        try:
            load_model(str(path), CPU, trust=trust)
        except UsageError as error:
            assert "\n" not in str(error)


def test_a_damaged_file_is_one_sentence_for_a_study_too(path):
    for content in changed_files(path.read_bytes(), 150):
        path.write_bytes(content)
        try:
            read_checkpoint(path)
        except UsageError as error:
            assert "\n" not in str(error)


def test_foreign_files_are_one_sentence(tmp_path):
    torch.save({"state_dict": tiny().state_dict()}, tmp_path / "weights.pt")
    reject(tmp_path / "weights.pt", "module:attribute")
    torch.save(torch.zeros(3), tmp_path / "tensor.pt")
    reject(tmp_path / "tensor.pt")
    (tmp_path / "list.pt").write_bytes(pickle.dumps([1, 2]))
    reject(tmp_path / "list.pt")
    with pytest.raises(UsageError, match="No such file"):
        read_checkpoint(tmp_path / "none.pt")
    with pytest.raises(UsageError, match="Cannot read"):
        load_model(str(tmp_path / "none.pt"), CPU)
    with pytest.raises(UsageError):
        read_checkpoint(tmp_path)


GONE = object()


def edited(path, **changes):
    """The file as another version would write it; what is GONE is left out."""
    held = torch.load(path, weights_only=True) | changes
    torch.save({name: value for name, value in held.items() if value is not GONE}, path)


@pytest.mark.parametrize(
    "changes", [{module.MARK: 2}, {module.MARK: "1"}, {"trained_on": GONE}, {"weights": GONE}]
)
def test_a_checkpoint_of_another_version_is_one_sentence(path, changes, run):
    edited(path, **changes)
    reject(path, "written by a different eyechart version")
    assert_rejected(run("models", "check", path), "different eyechart version")


def test_what_a_later_version_adds_is_left_alone(path):
    edited(path, later="something")
    assert load_model(str(path), CPU, trust=True).class_names == NAMES


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"network": "textures:many_dimensions"}, "do not match textures:many_dimensions"),
        ({"class_names": ("cat", "dog")}, "do not match textures:network"),
        ({"network": "resnet19"}, "resnet18"),
        ({"network": "no_such_module:net"}, "no_such_module"),
        ({"class_names": ("cat",)}, "at least 2 classes"),
    ],
)
def test_weights_of_another_network_are_one_sentence(path, run, changes, words):
    edited(path, **changes)
    with pytest.raises(UsageError) as told:
        load_model(str(path), CPU, trust=True)
    assert words in str(told.value) and "\n" not in str(told.value)
    assert_rejected(run("models", "check", path, "--trust"), words)


def test_a_finished_training_is_known_by_its_settings(path):
    settings = {"epochs": 3, "milestones": [0.5, 0.75], "severity": None}
    assert is_finished(path, settings)
    assert not is_finished(path.with_name("other.pt"), settings)
    with pytest.raises(UsageError, match=r"different configuration \(epochs: 3, now 4\)"):
        is_finished(path, settings | {"epochs": 4})


# Writing


def test_what_cannot_be_written_is_one_sentence_and_leaves_nothing(tmp_path, own):
    for path in (tmp_path / "none" / "net.pt", tmp_path / "taken"):
        (tmp_path / "taken").mkdir(exist_ok=True)
        with pytest.raises(UsageError, match="Cannot write") as told:
            write_checkpoint(checkpoint_of(own), path)
        assert "\n" not in str(told.value)
    assert [each.name for each in tmp_path.iterdir()] == ["taken"]


def test_a_checkpoint_is_whole_or_not_there(path, own, monkeypatch):
    before = path.read_bytes()

    def half(held, where):
        where.write(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(torch, "save", half)
    with pytest.raises(UsageError, match="No space left"):
        write_checkpoint(checkpoint_of(own), path)
    assert path.read_bytes() == before
    assert [each.name for each in path.parent.iterdir()] == ["net.pt"]


def test_neither_the_name_of_a_zoo_nor_a_card_hides_code_that_would_be_called():
    kinds = ("timm", "torchvision")
    assert _is_users("clip:network", kinds) and _is_users("own.yaml", kinds)
    assert not _is_users("timm:resnet18", kinds) and not _is_users("resnet9", kinds)
