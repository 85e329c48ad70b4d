"""Seen and unseen kinds of superclasses: WordNet, the last layer, the study, the command."""

import json
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn
from torch.nn.functional import cross_entropy

import tinted_contrasts
from commands import assert_rejected
from eyechart.core.errors import UsageError
from eyechart.core.progress import NO_PROGRESS
from eyechart.images.image_list import ListedImage
from eyechart.images.image_sources import find_images
from eyechart.images.labels.imagenet import wordnet_ids
from eyechart.models.checkpoint import find_last_layer, read_checkpoint, replace_layer
from eyechart.models.efficientnet_lite import SIZES, EfficientNetLite, folded
from eyechart.models.find import load_model
from eyechart.models.registries import NETWORKS
from eyechart.stats.intervals import wilson_interval
from eyechart.structure import superclass_study
from eyechart.structure.structure_settings import SUPERCLASS_RECIPE
from eyechart.structure.study_results import AccuracyEstimate, SuperclassResults, read_study
from eyechart.structure.superclass_study import (
    file_of,
    load_split,
    predictions_in,
    run_superclasses,
    score_model,
    score_superclasses,
    weighted_sum,
)
from eyechart.structure.superclasses import (
    PUBLISHED,
    Superclass,
    find_cycle,
    nearest,
    read_hypernyms,
    read_superclasses,
    read_synsets,
    sort_images,
    with_seen_test,
)
from eyechart.training.recipe import Recipe
from eyechart.training.training_loop import InitialModel, Training, train
from trainable import CPU, SIDE

MODEL = "tinted_contrasts:untrained_thousand"
OWN = {each.name: each.wnid for each in PUBLISHED}
COLORS = {"bird": (200, 70, 60), "dog": (70, 190, 70), "fish": (60, 80, 210)}
SEEN = {
    "n01514668": "bird", "n01518878": "bird", "n02085620": "dog", "n02085782": "dog",
    "n01440764": "fish", "n01443537": "fish",
}  # fmt: skip
"""Cock, ostrich, Chihuahua, Japanese spaniel, tench and goldfish: all of ImageNet-1K."""
UNSEEN = {"n90000001": "bird", "n90000002": "dog", "n90000003": "fish", "n90000004": "fish"}
LEARN = {"epochs": 12, "batch_size": 8, "lr": 0.5}

APPENDIX = """Amphibian (n01627424), Appliance (n02729837), Aquatic Mammal (n02062017), Bird
(n01503061), Bear (n02131653), Beverage (n07881800), Big cat (n02127808), Building (n02913152), Cat
(n02121620), Clothing (n03051540), Dog (n02084071), Electronic Equipment (n03278248), Fish
(n02512053), Footwear (n03380867), Fruit (n13134947), Fungus (n12992868), Geological Formation
(n09287968), Hoofed Animal (n02370806), Insect (n02159955), Musical Instrument (n03800933), Primate
(n02469914), Reptile (n01661091), Utensil (n04516672), Vegetable (n07707451), Vehicle (n04576211)"""


def write_pairs(path, pairs):
    path.write_text("".join(f"{above} {below}\n" for above, below in pairs), encoding="utf-8")
    return path


def usual_pairs():
    """All superclasses below one root; a kind of a kind of fish, besides kinds of each."""
    root = "n00001740"
    pairs = [(root, each.wnid) for each in PUBLISHED]
    pairs += [(OWN[name], synset) for synset, name in {**SEEN, **UNSEEN}.items()]
    pairs.remove((OWN["fish"], "n90000004"))
    return [*pairs, ("n01440764", "n90000004")]


def paint(path, color, numbers, side=SIDE):
    path.parent.mkdir(parents=True, exist_ok=True)
    levels = numbers.normal(np.array(color), 25, (side, side, 3))
    Image.fromarray(levels.clip(0, 255).astype(np.uint8)).save(path)


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """Folders of seen and unseen kinds, one besides, and WordNet's pairs."""
    folder = tmp_path_factory.mktemp("superclass")
    numbers = np.random.default_rng(3)
    for synset, name in {**SEEN, **UNSEEN}.items():
        # unseen kinds are paler, and so harder
        pale = 0.75 if synset in UNSEEN else 0.0
        color = [(1 - pale) * own + pale * 110 for own in COLORS[name]]
        for number in range(10):
            paint(folder / "images" / synset / f"{number}.png", color, numbers)
    paint(folder / "images" / "n02504458" / "elephant.png", (99, 99, 99), numbers)
    write_pairs(folder / "is_a.txt", usual_pairs())
    return folder


@pytest.fixture(scope="module")
def hypernyms(home):
    return read_hypernyms(home / "is_a.txt")


@pytest.fixture(scope="module")
def data(home, hypernyms):
    listed = find_images(home / "images")
    chosen = sort_images(listed, "images", hypernyms)
    return load_split(chosen, "images", "native", NO_PROGRESS)


def load(spec, half=None):
    return load_model(spec, CPU, half)


def tune(data, out, progress=None, **changes):
    recipe = replace(SUPERCLASS_RECIPE, **{**LEARN, **changes})
    published_accuracies = run_superclasses(
        [MODEL], data, recipe, load=load, device=CPU, out=out, progress=progress or NO_PROGRESS
    )
    return score_superclasses([MODEL], data, recipe, published_accuracies, out)


@pytest.fixture(scope="module")
def finished(data, tmp_path_factory):
    """A study that nothing stopped."""
    out = tmp_path_factory.mktemp("finished") / "out"
    return out, tune(data, out)


# WordNet's order


def random_dag(numbers, count=14, chance=0.2):
    order = numbers.permutation(count)
    edges = np.triu(numbers.random((count, count)) < chance, 1)
    matrix = np.zeros((count, count), dtype=bool)
    matrix[np.ix_(order, order)] = edges
    return matrix


def as_kinds(matrix):
    names = [f"n{place:08d}" for place in range(len(matrix))]
    return {
        name: tuple(names[p] for p in np.flatnonzero(matrix[n])) for n, name in enumerate(names)
    }


def fewest_steps(matrix):
    """By powers of the matrix: there is a way of k steps where the k-th power is not 0."""
    steps = np.full(matrix.shape, np.inf)
    power = np.eye(len(matrix), dtype=bool)
    for count in range(len(matrix) + 1):
        steps[power & np.isinf(steps)] = count
        power = (power.astype(int) @ matrix.astype(int)) > 0
    return steps


def nearest_of(kinds, tops):
    names = [f"n{top:08d}" for top in tops]
    return nearest(nx.DiGraph(kinds), [Superclass(name, name) for name in names])


@pytest.mark.parametrize("seed", range(8))
def test_what_is_below_a_synset_is_what_powers_of_the_matrix_say(seed):
    matrix = random_dag(np.random.default_rng(seed))
    kinds, steps = as_kinds(matrix), fewest_steps(matrix)
    for place, name in enumerate(kinds):
        found, ties = nearest(nx.DiGraph(kinds), [Superclass(name, name)])
        below = [f"n{p:08d}" for p, s in enumerate(steps[place]) if np.isfinite(s)]
        assert found == dict.fromkeys(below, Superclass(name, name)) and not ties


@pytest.mark.parametrize("seed", range(8))
def test_a_synset_counts_for_the_nearest_superclass_and_for_none_if_two_are_as_near(seed):
    matrix = random_dag(np.random.default_rng(seed), chance=0.3)
    kinds, steps = as_kinds(matrix), fewest_steps(matrix)
    tops = [0, 3, 5, 8]
    found, ties = nearest_of(kinds, tops)
    for place, name in enumerate(kinds):
        away = steps[tops, place]
        near = [f"n{top:08d}" for top, own in zip(tops, away, strict=True) if own == away.min()]
        if np.isinf(away.min()):
            assert name not in found and name not in ties
        elif len(near) == 1:
            assert found[name].wnid == near[0] and name not in ties
        else:
            assert ties[name] == tuple(near) and name not in found


def test_the_random_orders_have_ties_and_shared_kinds():
    counts = Counter()
    for seed in range(8):
        kinds = as_kinds(random_dag(np.random.default_rng(seed), chance=0.3))
        found, ties = nearest_of(kinds, (0, 3, 5, 8))
        counts.update(found=len(found), ties=len(ties))
    assert counts["found"] > 20 and counts["ties"] > 2


@pytest.mark.parametrize("seed", range(20))
def test_a_cycle_is_found_where_there_is_one_and_only_there(seed):
    numbers = np.random.default_rng(seed)
    matrix = numbers.random((9, 9)) < 0.14
    power, has_cycle = matrix.copy(), bool(matrix.trace())
    for _ in range(9):
        power = (power.astype(int) @ matrix.astype(int)) > 0
        has_cycle |= bool(power.trace())
    kinds = as_kinds(matrix)
    cycle = find_cycle(nx.DiGraph(kinds))
    assert bool(cycle) == has_cycle
    assert len(set(cycle)) == len(cycle)
    for above, below in zip(cycle, cycle[1:] + cycle[:1], strict=True):
        assert below in kinds[above]


def test_the_25_superclasses_are_those_of_the_papers_appendix():
    told = re.findall(r"([A-Z][A-Za-z ]+?)\s\((n\d{8})\)", APPENDIX)
    assert len(told) == 25
    assert {each.name: each.wnid for each in PUBLISHED} == {
        name.lower(): wnid for name, wnid in told
    }


# What is seen and what is not


def test_seen_kinds_are_those_of_imagenet_and_no_unseen_one_is(data):
    synsets = np.array(data.synsets)
    assert set(synsets[: len(data.seen)]) == set(SEEN)
    assert set(synsets[len(data.seen) :]) == set(UNSEEN)
    trained = {each.subclass for each in data.train.images.listed}
    assert trained == set(SEEN) <= set(wordnet_ids())
    assert not set(UNSEEN) & set(wordnet_ids())


def test_every_image_has_the_superclass_above_its_synset(data):
    of = {**SEEN, **UNSEEN}
    for part in (data.train, data.seen, data.unseen):
        for image, label in zip(part.images.listed, part.labels.tolist(), strict=True):
            assert part.class_names[label] == image.label == of[image.subclass]
    assert data.seen.class_names == ("bird", "dog", "fish")


def test_a_fifth_of_every_seen_synset_is_tested_with_and_never_trained_with(data):
    counts = Counter(each.subclass for each in data.seen.images.listed)
    assert set(counts.values()) == {2}
    digests = [set(part.images.digests) for part in (data.train, data.seen, data.unseen)]
    assert not digests[0] & digests[1] and not (digests[0] | digests[1]) & digests[2]


def test_superclasses_without_images_are_told_and_left_out(data):
    (note,) = (each for each in data.notes if "they have no images of seen subclasses" in each)
    assert "vehicle" in note and "22 of 25" in note and "bird" not in note


def listed(*synsets):
    return [ListedImage(Path(f"{name}/{n}.png"), f"{name}/{n}.png",
    name) for name in synsets for n in
            range(3)]  # fmt: skip


def test_a_superclass_is_a_kind_of_itself(hypernyms):
    chosen = sort_images(listed(*SEEN, OWN["bird"]), "here", hypernyms)
    assert {each.label for each in chosen.unseen} == {OWN["bird"]}
    assert {each.subclass for each in chosen.unseen} == {"bird"}


def test_a_superclass_without_unseen_images_is_taught_but_told(hypernyms):
    chosen = sort_images(listed(*SEEN, "n90000002"), "here", hypernyms)
    assert {each.name for each in chosen.superclasses} == {"bird", "dog", "fish"}
    assert any("unseen subclasses" in note and "bird, fish" in note for note in chosen.notes)


def test_a_superclass_without_seen_images_is_not_tested(hypernyms):
    own = [name for name, above in SEEN.items() if above != "dog"]
    chosen = sort_images(listed(*own, *UNSEEN), "here", hypernyms)
    assert "dog" not in {each.subclass for each in chosen.unseen}
    assert {each.name for each in chosen.superclasses} == {"bird", "fish"}


def test_a_tie_between_superclasses_is_told_and_left_out(tmp_path):
    tie = [(OWN["bird"], "n91000000"), (OWN["fish"], "n91000000")]
    known = read_hypernyms(write_pairs(tmp_path / "is_a.txt", [*usual_pairs(), *tie]))
    chosen = sort_images(listed(*SEEN, *UNSEEN, "n91000000"), "here", known)
    assert "n91000000" not in {each.label for each in (*chosen.seen, *chosen.unseen)}
    assert any("n91000000 (bird and fish)" in note for note in chosen.notes)


def test_at_most_so_many_images_of_each_unseen_synset(hypernyms):
    usual, few = (
        sort_images(listed(*SEEN, *UNSEEN), "here", hypernyms, most=most) for most in (None, 2)
    )
    assert Counter(each.label for each in few.unseen) == dict.fromkeys(UNSEEN, 2)
    assert few.seen == usual.seen and set(few.unseen) < set(usual.unseen)


def test_the_ids_of_what_is_seen_may_come_from_a_file_with_names_behind_them(tmp_path, hypernyms):
    path = tmp_path / "seen.txt"
    path.write_text("n90000001 some bird, any bird\n\nn90000003\n", encoding="utf-8")
    chosen = sort_images(listed(*SEEN, *UNSEEN), "here", hypernyms, imagenet=read_synsets(path))
    assert {each.label for each in chosen.seen} == {"n90000001", "n90000003"}
    assert len(read_synsets(None)) == 1000


def test_a_folder_that_is_no_wordnet_id_is_told_and_left_out(hypernyms):
    chosen = sort_images(listed(*SEEN, *UNSEEN, "readme"), "here", hypernyms)
    assert any("1 folder" in note and "'readme'" in note for note in chosen.notes)
    assert "readme" not in {each.label for each in (*chosen.seen, *chosen.unseen)}


def test_a_seen_synset_of_one_image_is_trained_with(home, hypernyms):
    images = home / "images"
    found = [
        each for each in find_images(images) if each.label != "n02085782" or each.path.stem == "0"
    ]
    made = load_split(sort_images(found, "here", hypernyms), "here", "native", NO_PROGRESS)
    trained, tested = (
        Counter(each.subclass for each in part.images.listed) for part in (made.train, made.seen)
    )
    assert trained["n02085782"] == 1 and tested["n02085782"] == 0
    assert trained["n02085620"] == 8 and tested["n02085620"] == 2


def test_a_superclass_of_which_nothing_can_be_tested_is_rejected(home, hypernyms):
    found = [
        each
        for each in find_images(home / "images")
        if SEEN.get(each.label) != "dog" or each.path.stem == "0"
    ]
    chosen = sort_images(found, "here", hypernyms)
    with pytest.raises(UsageError, match="No images of the superclass 'dog' are left to test"):
        load_split(chosen, "here", "native", NO_PROGRESS)


def test_files_of_seen_and_unseen_kinds_are_told_and_no_file_is_on_both_sides(
    home, hypernyms, data, tmp_path
):
    for each in find_images(home / "images"):
        path = tmp_path / "images" / each.name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(each.path.read_bytes())
    # an unseen file that is a seen one, and a synset of files that are trained with elsewhere
    own = (tmp_path / "images" / "n01440764" / "3.png").read_bytes()
    (tmp_path / "images" / "n90000003" / "copy.png").write_bytes(own)
    for path in (tmp_path / "images" / "n02085782").iterdir():
        path.unlink()
    for each in data.train.images.listed:
        if each.subclass == "n02085620":
            path = tmp_path / "images" / "n02085782" / each.path.name
            path.write_bytes(each.path.read_bytes())
    chosen = sort_images(find_images(tmp_path / "images"), "here", hypernyms)
    made = load_split(chosen, "here", "native", NO_PROGRESS)
    digests = [set(part.images.digests) for part in (made.train, made.seen, made.unseen)]
    assert not digests[0] & digests[1] and not (digests[0] | digests[1]) & digests[2]
    assert any("Removed from the test" in note and "1 image of" in note for note in made.notes)
    # equal files of two synsets are on one side, and nothing of the superclass is lost
    assert {"n02085620", "n02085782"} <= {each.subclass for each in made.train.images.listed}


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("n01440764", ("line 3", "two WordNet ids")),
        ("n01440764 n01440765 n01440766", ("line 3", "two WordNet ids")),
        ("fish tench", ("line 3", "'fish tench'")),
        ("n00000003 n00000003", ("cycle", "n00000003 > n00000003")),
        ("n00000002 n00000001", ("cycle", "n00000001 > n00000002 > n00000001")),
    ],
)
def test_a_bad_line_of_wordnet_is_one_sentence(tmp_path, line, words):
    path = tmp_path / "is_a.txt"
    path.write_text(f"n00000001 n00000002\n\n{line}\n", encoding="utf-8")
    with pytest.raises(UsageError) as error:
        read_hypernyms(path)
    assert all(word in str(error.value) for word in words), error.value


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("n01503061\nn02084071 dog", "line 1"),
        ("bird n01503061", "line 1"),
        ("n01503061 bird\nn01503061 fowl", "twice"),
        ("n01503061 bird\nn02084071 bird", "twice"),
        ("n01503061 bird\n", "at least 2"),
    ],
)
def test_a_bad_list_of_superclasses_is_one_sentence(tmp_path, text, words):
    path = tmp_path / "superclasses.txt"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(UsageError, match=words):
        read_superclasses(path)


def test_a_list_of_superclasses_keeps_its_order_and_long_names(tmp_path):
    path = tmp_path / "superclasses.txt"
    path.write_text("n02127808  big cat\n\nn01503061 bird\n", encoding="utf-8")
    expected = (Superclass("big cat", "n02127808"), Superclass("bird", "n01503061"))
    assert read_superclasses(path) == expected


def test_a_superclass_that_wordnets_file_has_not_is_rejected(tmp_path):
    pairs = [pair for pair in usual_pairs() if OWN["insect"] not in pair]
    known = read_hypernyms(write_pairs(tmp_path / "is_a.txt", pairs))
    with pytest.raises(UsageError, match=r"'insect' \(n02159955\) is not in"):
        sort_images(listed(*SEEN, *UNSEEN), "here", known)


@pytest.mark.parametrize(
    ("synsets", "words"),
    [
        (("train", "val"), "got 'train'"),
        ((), "must contain image folders"),
        (tuple(UNSEEN), "subclasses in ImageNet-1K of"),
        (tuple(SEEN), "subclasses outside ImageNet-1K of"),
        (("n01440764", "n90000003"), "only one superclass"),
        (("n01440764", "n01514668", "n90000002"), "no superclass has both"),
    ],
)
def test_images_that_make_no_study_are_rejected(hypernyms, synsets, words):
    with pytest.raises(UsageError, match=words):
        sort_images(listed(*synsets), "here", hypernyms)


# The last layer


class LastFirst(nn.Module):
    """Lists its last layer first, and one with as many outputs last."""

    def __init__(self, classes=7):
        super().__init__()
        self.scores = nn.Linear(classes, classes)
        self.body = nn.Sequential(nn.Conv2d(3, classes, 3), nn.BatchNorm2d(classes))

    def forward(self, images):
        return self.scores(self.body(images).mean(dim=(2, 3)))


class ByConvolution(nn.Module):
    """Ends in a convolution, as SqueezeNet does."""

    def __init__(self, classes=7):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 5, 3), nn.ReLU(), nn.Conv2d(5, classes, 1))

    def forward(self, images):
        return self.body(images).mean(dim=(2, 3))


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda: folded(EfficientNetLite(SIZES["efficientnet_lite0"])), "classifier"),
        (lambda: NETWORKS["resnet9"](10), "head"),
        (lambda: NETWORKS["wrn_16_4"](10), "head"),
        (LastFirst, "scores"),
        (ByConvolution, "body.2"),
    ],
)
def test_the_last_layer_is_found_and_replaced_and_nothing_else(make, name):
    network, images = make().train(), torch.rand(2, 3, 32, 32)
    before = {key: value.clone() for key, value in network.state_dict().items()}
    assert find_last_layer(network, images) == name
    assert network.training
    replace_layer(network, name, 25)
    assert network.eval()(images).shape == (2, 25)
    for key, value in network.state_dict().items():
        if key.rpartition(".")[0] == name:
            assert value.shape[0] == 25
        else:
            assert torch.equal(value, before[key]), key
    assert find_last_layer(network, images) == name


def test_a_new_last_layer_follows_from_the_seed_and_leaves_torchs_random_state():
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    made = []
    for seed in (0, 0, 1):
        network = LastFirst()
        torch.manual_seed(5)
        replace_layer(network, "scores", 4, seed)
        made.append(network.scores.weight)
        assert torch.equal(torch.rand(3), expected)
    assert torch.equal(made[0], made[1]) and not torch.equal(made[0], made[2])


def test_a_network_that_ends_otherwise_is_rejected_in_a_sentence():
    images = torch.rand(2, 3, 16, 16)
    with pytest.raises(UsageError, match="probabilities"):
        find_last_layer(tinted_contrasts.with_softmax, images)
    with pytest.raises(UsageError, match="No linear layer"):
        find_last_layer(nn.Sequential(nn.Conv2d(3, 4, 3), nn.AvgPool2d(7), nn.Flatten()), images)
    with pytest.raises(UsageError, match="failed on a batch"):
        find_last_layer(nn.Sequential(nn.Flatten(), nn.Linear(5, 2)), images)


# Training it alone


def small():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        return nn.Sequential(
            *(nn.Conv2d(3, 6, 3, 2), nn.BatchNorm2d(6), nn.ReLU(), nn.Dropout(0.2)),
            *(nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(24, 3)),
        )


def trained(data, path, **recipe):
    start = InitialModel(small(), base="nowhere:none")
    own = Recipe(**{"epochs": 2, "batch_size": 8, "lr": 0.1, **recipe})
    train(Training(start, data, own), CPU, path, NO_PROGRESS)
    return read_checkpoint(path).weights


def test_tuning_the_last_layer_leaves_all_else_as_it_was_bit_by_bit(data, tmp_path):
    before, after = small().state_dict(), trained(data.train, tmp_path / "net.pt", tune="last")
    for key, value in after.items():
        assert torch.equal(value, before[key]) == (not key.startswith("6.")), key


def test_tuning_everything_changes_everything(data, tmp_path):
    before, after = small().state_dict(), trained(data.train, tmp_path / "net.pt", tune="all")
    assert not any(torch.equal(value, before[key]) for key, value in after.items())


def test_one_step_of_the_last_layer_is_one_step_of_gradient_descent_on_fixed_features(
    data, tmp_path
):
    count = len(data.train)
    after = trained(
        data.train, tmp_path / "net.pt", tune="last", epochs=1, batch_size=count, flip=0.0,
        lr=0.3, weight_decay=0.01, schedule="constant",
    )  # fmt: skip
    network = small().eval()
    images = data.train.batch(range(count)).float() / 255
    with torch.no_grad():
        features = network[:-1](images)
    layer = network[-1]
    cross_entropy(layer(features), data.train.labels).backward()
    for name, own in (("weight", layer.weight), ("bias", layer.bias)):
        expected = own - 0.3 * (own.grad + 0.01 * own)
        torch.testing.assert_close(after[f"6.{name}"], expected.detach(), atol=1e-6, rtol=0)


def test_what_is_tuned_is_one_of_two_things_and_part_of_the_settings():
    with pytest.raises(UsageError, match=r"Unknown value of tune 'lst'\. Did you mean 'last'"):
        Recipe(tune="lst").check()
    assert Recipe(tune="last").settings()["tune"] == "last"


@pytest.mark.parametrize(("first", "then"), [("last", "all"), ("all", "last")])
def test_a_training_of_one_part_is_never_taken_for_one_of_another(data, tmp_path, first, then):
    trained(data.train, tmp_path / "net.pt", tune=first)
    with pytest.raises(UsageError, match="different configuration"):
        trained(data.train, tmp_path / "net.pt", tune=then)


class Stopping:
    """Somebody presses Ctrl-C after so many calls of a step whose title begins so."""

    def __init__(self, title, after):
        self.title, self.left = title, after

    def begin(self, title, total):
        def step(count, message):
            if title.startswith(self.title):
                self.left -= 1
                if self.left < 0:
                    raise KeyboardInterrupt

        return step


# The study


def same_weights(one, two):
    one, two = (read_checkpoint(path).weights for path in (one, two))
    return one.keys() == two.keys() and all(torch.equal(one[key], two[key]) for key in one)


@pytest.mark.parametrize(("title", "after"), [("training", 1), ("training", 9), ("testing", 2)])
def test_a_study_that_was_stopped_ends_as_one_that_was_not(
    data, finished, tmp_path, monkeypatch, title, after
):
    monkeypatch.setattr(superclass_study, "AT_ONCE", 5)
    with pytest.raises(KeyboardInterrupt):
        tune(data, tmp_path, Stopping(title, after))
    assert not (tmp_path / "results.json").exists()
    assert tune(data, tmp_path) == finished[1]
    name = f"{file_of(MODEL)}.pt"
    assert same_weights(tmp_path / "models" / name, finished[0] / "models" / name)


def test_what_was_done_is_not_done_again(data, finished, monkeypatch):
    def never(*given):
        raise AssertionError("asked again")

    monkeypatch.setattr(superclass_study, "predict_held", never)
    stopping = Stopping("training", 0)
    assert tune(data, finished[0], stopping) == finished[1]


def test_predictions_of_a_network_that_was_deleted_are_not_kept(data, tmp_path):
    tune(data, tmp_path, epochs=1)
    parts = predictions_in(MODEL, tmp_path)
    first = parts.read("predictions")
    (tmp_path / "models" / f"{file_of(MODEL)}.pt").unlink()
    parts.drop("predictions")
    parts.write("predictions", first.set_column(1, "prediction", [[99] * len(first)]))
    tune(data, tmp_path, epochs=1)
    assert predictions_in(MODEL, tmp_path).read("predictions").equals(first)


def test_another_study_in_the_same_folder_is_rejected(data, finished):
    with pytest.raises(UsageError, match=r"another study \(tune: last, now all\)"):
        tune(data, finished[0], tune="all")


def test_images_of_another_size_are_another_study(ask, finished):
    told = ask(*LEARNT, "--stimulus", 32, out=finished[0])
    assert_rejected(told, "another study (stimulus: native, now 32)")


def test_predictions_are_those_of_the_checkpoint_that_was_written(data, finished):
    out, results = finished
    model = load_model(str(out / "models" / f"{file_of(MODEL)}.pt"), CPU, trust=True)
    assert model.class_names == ("bird", "dog", "fish") and not model.has_imagenet
    predictions = predictions_in(MODEL, out).read("predictions")["prediction"].to_numpy()
    right = []
    for part in (data.seen, data.unseen):
        scores = model(part.batch(range(len(part))))
        assert scores.shape == (len(part), 3)
        right.append((scores.argmax(dim=1) == part.labels).double().mean().item())
        own, predictions = predictions[: len(part)], predictions[len(part) :]
        assert np.array_equal(scores.argmax(dim=1).numpy(), own)
    (score,) = results.models
    assert (score.seen.value, score.unseen.value) == pytest.approx(tuple(right))
    assert score.gap.value == pytest.approx(right[0] - right[1])


def test_the_network_learns_the_superclasses(finished):
    # a third would be chance
    assert finished[1].models[0].seen.value > 0.8


def test_only_the_last_layer_of_the_model_was_tuned(finished):
    out = finished[0]
    after = read_checkpoint(out / "models" / f"{file_of(MODEL)}.pt").weights
    before = tinted_contrasts.untrained_thousand.state_dict()
    for key, value in before.items():
        if not key.startswith("last."):
            assert torch.equal(after[key], value), key
    assert after["last.weight"].shape == (3, 16)


def test_a_model_can_be_tuned_from_a_checkpoint_of_ours(data, finished, tmp_path):
    path = finished[0] / "models" / f"{file_of(MODEL)}.pt"

    def trusted(spec, half=None):
        return load_model(spec, CPU, half, trust=True)

    recipe = replace(SUPERCLASS_RECIPE, **LEARN)
    run_superclasses(
        [str(path)], data, recipe, load=trusted, device=CPU, out=tmp_path, progress=NO_PROGRESS
    )
    (made,) = (tmp_path / "models").glob("*.pt")
    assert read_checkpoint(made).base == MODEL
    assert load_model(str(made), CPU, trust=True).classes == 3


def test_a_pretrained_efficientnet_learns_superclasses_and_is_loaded_again(data, tmp_path):
    spec = "efficientnet_lite0"
    few = replace(
        data, train=data.train.select(range(0, 48, 6)), unseen=data.unseen.select(range(4))
    )
    recipe = replace(SUPERCLASS_RECIPE, batch_size=4)
    published_accuracies = run_superclasses(
        [spec], few, recipe, load=load, device=CPU, out=tmp_path, progress=NO_PROGRESS
    )
    assert published_accuracies == {spec: SIZES[spec].published_accuracy}
    before, after = load(spec), load(str(tmp_path / "models" / f"{spec}.pt"))
    assert (after.classes, after.published_accuracy, after.class_names) == (
        3,
        None,
        ("bird", "dog", "fish"),
    )
    predictions = predictions_in(spec, tmp_path).read("predictions")["prediction"].to_numpy()
    found = after(data.seen.batch(range(len(data.seen)))).argmax(dim=1).numpy()
    assert np.array_equal(found, predictions[: len(data.seen)])
    old, new = before.module.state_dict(), after.module.state_dict()
    changed = {key for key in old if not torch.equal(old[key], new[key])}
    assert changed == {"classifier.weight", "classifier.bias"}


def test_results_are_read_back_as_they_were_written(finished):
    out, results = finished
    assert read_study(out, SuperclassResults) == results
    told = json.loads((out / "results.json").read_text(encoding="utf-8"))
    assert told["kind"] == "superclass" and told["schema"] == 1


@pytest.mark.parametrize("text", ["{", "[]", '{"kind": "style"}', '{"kind": "superclass"}'])
def test_results_that_are_none_are_rejected_in_a_sentence(tmp_path, text):
    with pytest.raises(UsageError, match="no finished study"):
        read_study(tmp_path, SuperclassResults)
    (tmp_path / "results.json").write_text(text, encoding="utf-8")
    with pytest.raises(UsageError, match="cannot be read"):
        read_study(tmp_path, SuperclassResults)


# Scores


def test_scores_are_shares_of_right_predictions_by_superclass_and_over_all(data):
    seen, unseen = data.seen.labels.numpy(), data.unseen.labels.numpy()
    # all seen pictures right; of unseen ones birds wrong as dogs, the others right
    predictions = np.concatenate([seen, np.where(unseen == 0, 1, unseen)])
    score = score_model("it", predictions, data, 0.7)
    assert score.seen.value == 1 and score.unseen.value == pytest.approx(0.75)
    assert score.gap.value == pytest.approx(0.25)
    assert score.mean_unseen.value == pytest.approx(2 / 3)
    assert score.mean_gap.value == pytest.approx(1 / 3)
    by = {each.name: each for each in score.superclasses}
    assert by["bird"].unseen.value == 0 and by["bird"].gap.value == 1
    assert by["fish"].synsets == (2, 2) and by["fish"].n_images == (4, 20)
    (confusion,) = score.confusions
    assert (confusion.label, confusion.prediction, confusion.share) == ("bird", "dog", 1.0)
    for each in (score.seen, score.unseen, score.gap, score.mean_gap, by["dog"].gap):
        assert each.interval[0] <= each.narrow_interval[0] <= each.value
        assert each.value <= each.narrow_interval[1] <= each.interval[1]
        assert each.interval[0] < each.interval[1]


def test_synsets_are_resampled_and_not_images(data):
    # two of four unseen synsets wrong as a whole: as unsure as two of four, not as 20 of 40
    wrong = {"n90000001", "n90000003"}
    unseen = data.unseen.labels.numpy()
    names = np.array([each.subclass for each in data.unseen.images.listed])
    predictions = np.where(np.isin(names, list(wrong)), (unseen + 1) % 3, unseen)
    score = score_model("it", np.concatenate([data.seen.labels.numpy(), predictions]), data)
    low, high = score.unseen.interval
    assert score.unseen.value == pytest.approx(0.5)
    assert (low, high) == (0.0, 1.0)
    assert wilson_interval(0.5, 40, 0.95)[0] > 0.3


def test_a_weighted_sum_has_both_intervals_of_independent_terms():
    half = AccuracyEstimate(value=0.5, interval=(0.3, 0.7), narrow_interval=(0.4, 0.6))
    mean = weighted_sum([half] * 4, [0.25] * 4)
    assert mean.value == 0.5
    assert mean.interval == pytest.approx((0.4, 0.6))
    assert mean.narrow_interval == pytest.approx((0.45, 0.55))


# The command


@pytest.fixture
def ask(run, home, tmp_path):
    def call(*words, models=(MODEL,), images=None, hypernyms=None, out=None):
        return run(
            *("structure", "superclass", *models, "--images", images or home / "images"),
            *("--hypernyms", hypernyms or home / "is_a.txt", "--stimulus", "native"),
            *("--out", out or tmp_path / "out", *words),
        )

    return call


LEARNT = ("--epochs", 12, "--batch-size", 8, "--lr", 0.5)


def test_the_command_prints_the_numbers_of_its_results(ask, data, finished, tmp_path):
    told = ask(*LEARNT, "--imagenet-accuracy", f"{MODEL}=0.712")
    assert told.status == 0, told.err
    results = read_study(tmp_path / "out", SuperclassResults)
    (score,) = results.models
    assert score.imagenet_accuracy == 0.712
    assert score.model_copy(update={"imagenet_accuracy": None}) == finished[1].models[0]
    (line,) = (text for text in told.out.splitlines() if text.strip().startswith(MODEL + " "))
    for value in (0.712, score.seen.value, score.unseen.value, score.gap.value):
        assert f"{100 * value:.1f}" in line
    assert "because they have no images of seen subclasses" in told.out
    assert re.search(r"^ *fish +2 +2 ", told.out, re.MULTILINE)
    assert "Written:" in told.out


def paint_seen(folder, taken_for, each=3):
    """Images of seen kinds that look as those of another superclass."""
    numbers = np.random.default_rng(11)
    for synset, name in SEEN.items():
        for number in range(each):
            paint(folder / synset / f"{number}.png", COLORS[taken_for[name]], numbers)
    return folder


def test_seen_kinds_are_tested_with_the_images_that_are_given_for_that(ask, tmp_path):
    names = sorted(COLORS)
    alike = paint_seen(tmp_path / "alike", dict(zip(names, names, strict=True)))
    swapped = paint_seen(tmp_path / "swapped", dict(zip(names, names[1:] + names[:1], strict=True)))
    found = {}
    for where in (alike, swapped):
        told = ask(*LEARNT, "--seen-images", where, out=tmp_path / f"out-{where.name}")
        assert told.status == 0, told.err
        assert "--seen-images" not in told.out
        found[where] = read_study(tmp_path / f"out-{where.name}", SuperclassResults)
        # all of --images' 60 seen ones are trained with
        assert found[where].n_images == (60, 18, 40) and found[where].synsets == (6, 4)
        assert not any("--seen-images" in note for note in found[where].notes)
    # what looks as another superclass is taken for that
    assert found[alike].models[0].seen.value > 0.9 > 0.1 > found[swapped].models[0].seen.value
    assert found[alike].models[0].unseen == found[swapped].models[0].unseen


def test_without_images_of_their_own_it_is_said_that_models_may_know_the_seen_ones(ask, tmp_path):
    told = ask("--epochs", 1)
    assert told.status == 0, told.err
    results = read_study(tmp_path / "out", SuperclassResults)
    (note,) = (n for n in results.notes if "--seen-images" in n)
    assert "may have been trained on these images" in note and f"Note: {note}" in told.out


def test_images_to_test_seen_kinds_with_are_not_trained_with(home, hypernyms, tmp_path):
    names = sorted(COLORS)
    folder = paint_seen(tmp_path / "test", dict(zip(names, names, strict=True)))
    own = (home / "images" / "n01440764" / "3.png").read_bytes()
    (folder / "n01440764" / "copy.png").write_bytes(own)
    chosen = sort_images(find_images(home / "images"), "images", hypernyms)
    chosen = with_seen_test(chosen, find_images(folder), "test", hypernyms)
    made = load_split(chosen, "images", "native", NO_PROGRESS, "test")
    digests = [set(part.images.digests) for part in (made.train, made.seen, made.unseen)]
    assert list(map(len, digests)) == [59, 19, 40]
    assert not digests[0] & digests[1] and not (digests[0] | digests[1]) & digests[2]
    assert any("Removed from training" in note and "1 image of" in note for note in made.notes)


def test_images_for_seen_kinds_that_lack_a_superclass_are_one_sentence(ask, home, tmp_path):
    names = sorted(COLORS)
    folder = paint_seen(tmp_path / "test", dict(zip(names, names, strict=True)), each=1)
    for synset in ("n01514668", "n01518878"):
        (folder / synset / "0.png").unlink()
    assert_rejected(ask("--seen-images", folder), "has none for 'bird'", "--superclasses")
    assert_rejected(ask("--seen-images", home), "WordNet ids")
    assert_rejected(ask("--seen-images", tmp_path / "none"), "none")
    assert not (tmp_path / "out").exists()


def test_a_second_model_is_added_to_the_first(ask, tmp_path):
    assert ask("--epochs", 1).status == 0
    made = tmp_path / "out" / "models" / f"{file_of(MODEL)}.pt"
    before = made.stat().st_mtime_ns
    other = "trainable_thousand:other"
    (tmp_path / "trainable_thousand.py").write_text(
        "from tinted_contrasts import _new\nother = _new(1000)\n", encoding="utf-8"
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(tmp_path)
        told = ask("--epochs", 1, models=(MODEL, other))
    assert told.status == 0, told.err
    names = [each.name for each in read_study(tmp_path / "out", SuperclassResults).models]
    assert names == [MODEL, other] and made.stat().st_mtime_ns == before
    # a command for one of them leaves the other among the results
    assert ask("--epochs", 1).status == 0
    assert [each.name for each in read_study(tmp_path / "out", SuperclassResults).models] == names


def test_superclasses_of_ones_own_and_full_tuning(ask, tmp_path):
    own = tmp_path / "own.txt"
    own.write_text(f"{OWN['fish']} swimmer\n{OWN['bird']} flyer\n", encoding="utf-8")
    told = ask("--superclasses", own, "--tune", "all", "--epochs", 1, "--max-images", 4)
    assert told.status == 0, told.err
    results = read_study(tmp_path / "out", SuperclassResults)
    assert results.tune == "all" and results.n_images == (32, 8, 12)
    assert [each.name for each in results.models[0].superclasses] == ["swimmer", "flyer"]


@pytest.mark.parametrize(
    ("words", "models", "said"),
    [
        (("--tune", "first"), (MODEL,), ("Unknown value of tune 'first'",)),
        (("--epochs", 0), (MODEL,), ("epochs must be",)),
        (("--max-images", 0), (MODEL,), ("max_images must be",)),
        (("--imagenet-accuracy", "0.7"), (MODEL,), ("MODEL=ACCURACY",)),
        (("--imagenet-accuracy", f"{MODEL}=77"), (MODEL,), ("from 0 to 1",)),
        (("--imagenet-accuracy", "resnet=0.7"), (MODEL,), ("Unknown model 'resnet'",)),
        ((), (MODEL, MODEL), ("must have different names",)),
        ((), ("small_models:colors",), ("no parameters to train",)),
        ((), ("tinted_contrasts:with_softmax",), ("with_softmax", "probabilities")),
        ((), ("nothing",), ("Unknown model 'nothing'",)),
    ],
)
def test_what_cannot_be_done_is_rejected_in_a_sentence(ask, words, models, said):
    assert_rejected(ask(*words, models=models), *said)


def test_missing_files_are_rejected_in_a_sentence(ask, home, tmp_path):
    assert_rejected(ask(hypernyms=tmp_path / "none.txt"), "none.txt", "No such file")
    assert_rejected(ask(images=tmp_path / "none"), "none")
    (tmp_path / "bytes").write_bytes(b"\xff\xfe\x00")
    assert_rejected(ask(hypernyms=tmp_path / "bytes"), "not a text file")
    assert_rejected(ask("--superclasses", tmp_path / "none.txt"), "none.txt")
    assert_rejected(ask("--imagenet-1k", home / "images"), "images")
    assert_rejected(ask(out=home / "is_a.txt"), "is a file")
    assert_rejected(ask(out=home / "images"), "contains the images")


def test_a_stop_keeps_what_was_done_and_says_so(ask, monkeypatch, tmp_path):
    def stop(*given):
        raise KeyboardInterrupt

    monkeypatch.setattr(superclass_study, "predict_held", stop)
    told = ask("--epochs", 1)
    assert told.status == 130 and "run the same command again to resume" in told.err
    monkeypatch.undo()
    path = tmp_path / "out" / "models" / f"{file_of(MODEL)}.pt"
    before = path.stat().st_mtime_ns
    assert ask("--epochs", 1).status == 0 and path.stat().st_mtime_ns == before
