"""What is held out, what is familiar and what is trained with, against a count by hand."""

from collections import Counter
from dataclasses import replace
from itertools import combinations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from hypothesis import given, reject, settings
from hypothesis import strategies as st

import eyechart as ec
from commands import image_file
from eyechart.core.errors import UsageError
from eyechart.core.progress import NO_PROGRESS
from eyechart.images.image_sources import find_images
from eyechart.models.model import Model
from eyechart.structure.folds import named_fold, style_folds, subclass_folds
from eyechart.structure.holdout_images import load_holdout_images
from eyechart.training.data import DeviceDataset, training_data
from eyechart.training.image_blocks import predict_held
from kinds_data import Row, colors, drawn, in_memory, tinted, write_rows
from tiny_networks import tiny

CPU = torch.device("cpu")

# names that are classes, styles and subclasses at once, and parts of one another
LABELS = ("books", "cat", "cats")
STYLES = ("books", "cat", "noto", "noto-v1")
SUBCLASSES = ("books", "cat", "red cat", "red")


@st.composite
def data_sets(draw):
    """Rows in which every class has all styles and subclasses, and some drawings occur again."""
    rows = [
        Row(label, style, subclass)
        for label in LABELS
        for style, subclass in zip(STYLES * 2, SUBCLASSES + SUBCLASSES[::-1], strict=True)
    ]
    more = st.builds(Row, *map(st.sampled_from, (LABELS, STYLES, SUBCLASSES)))
    rows += draw(st.lists(more, max_size=12))
    rows = [replace(row, drawing=number) for number, row in enumerate(rows)]
    places = st.integers(0, len(rows) - 1)
    for one, two in draw(st.lists(st.tuples(places, places), max_size=8)):
        rows[two] = replace(rows[two], drawing=rows[one].drawing)
    return draw(st.permutations(rows))


def names_of(rows, trait):
    return [row.style if trait == "style" else f"{row.label}/{row.subclass}" for row in rows]


def same_drawing(rows, place, others):
    return any(rows[place].drawing == rows[other].drawing for other in others)


def assert_nothing_leaks(rows, fold, names, to_test=()):
    """Go through every pair of pictures by what is known of how they were made."""
    split = any(to_test)
    to_test = list(to_test) or [False] * len(rows)
    train, held_out, familiar = (
        part.tolist() for part in (fold.train, fold.held_out, fold.familiar)
    )
    every = train + held_out + familiar
    assert len(set(every)) == len(every)
    held = [place for place, name in enumerate(names) if name in fold.held]
    assert held_out == [place for place in held if to_test[place] or not split]
    for place in train:
        assert names[place] not in fold.held and not to_test[place]
        assert not same_drawing(rows, place, held + familiar)
    for place in familiar:
        assert names[place] not in fold.held and to_test[place] == split
        assert not same_drawing(rows, place, held)
    # nothing is left out of training without a reason
    left_out = [p for p in range(len(rows)) if not to_test[p] and p not in {*every, *held}]
    assert all(same_drawing(rows, place, held + familiar) for place in left_out)
    assert fold.copies == len(left_out)
    for label in {row.label for row in rows}:
        others = [
            place
            for place, row in enumerate(rows)
            if row.label == label
            and place not in held
            and to_test[place] == split
            and not same_drawing(rows, place, held)
        ]
        wanted = sum(rows[place].label == label for place in held_out)
        most = len(others) if split else len(others) // 2
        assert sum(rows[place].label == label for place in familiar) == min(wanted, most)


def folds_or_reject(make, *given, **more):
    try:
        return make(*given, **more)
    except UsageError as error:
        # copies of what is tested can leave a class with nothing to train with
        assert "No training images" in str(error)
        reject()


# Leakage


@settings(max_examples=40)
@given(data_sets(), st.integers(0, 5))
def test_nothing_of_a_held_out_style_nor_a_copy_of_it_is_trained_with(rows, seed):
    folds = folds_or_reject(style_folds, in_memory(rows), seed=seed)
    assert [fold.held for fold in folds] == [(style,) for style in sorted(STYLES)]
    for fold in folds:
        assert_nothing_leaks(rows, fold, names_of(rows, "style"))


@settings(max_examples=40)
@given(data_sets(), st.integers(1, 3), st.integers(1, 4), st.integers(0, 5))
def test_nothing_of_held_out_subclasses_nor_a_copy_is_trained_with(rows, per_class, count, seed):
    # of four subclasses two at a time, the third fold would be the first again
    count = min(count, 2) if per_class == 2 else count
    folds = folds_or_reject(subclass_folds, in_memory(rows), per_class, folds=count, seed=seed)
    assert len(folds) == count
    for fold in folds:
        assert Counter(name.split("/")[0] for name in fold.held) == dict.fromkeys(LABELS, per_class)
        assert_nothing_leaks(rows, fold, names_of(rows, "subclass"))


@settings(max_examples=40)
@given(data_sets(), st.data())
def test_images_that_are_only_for_tests_are_never_trained_with(rows, data):
    to_test = data.draw(st.lists(st.booleans(), min_size=len(rows), max_size=len(rows)))
    # every subclass is among both: its first picture and its second
    seen = Counter()
    for place, name in enumerate(names_of(rows, "subclass")):
        if seen[name] < 2:
            to_test[place] = seen[name] == 1
        seen[name] += 1
    kinds = in_memory(rows, to_test)
    for fold in folds_or_reject(subclass_folds, kinds, 1, folds=2):
        assert_nothing_leaks(rows, fold, names_of(rows, "subclass"), to_test)


# The published protocol


@settings(max_examples=40)
@given(data_sets(), st.integers(0, 5), st.sampled_from(["style", "subclass"]))
def test_published_training_set_is_the_complement_of_the_held_out_set(rows, seed, trait):
    kinds, names = in_memory(rows), names_of(rows, trait)
    if trait == "style":
        folds = style_folds(kinds, seed=seed, protocol="published")
    else:
        folds = subclass_folds(kinds, 1, folds=3, seed=seed, protocol="published")
    for fold in folds:
        held = [place for place, name in enumerate(names) if name in fold.held]
        assert held and fold.held_out.tolist() == held
        assert fold.train.tolist() == [place for place in range(len(rows)) if place not in held]
        # near-duplicates stay in training
        assert len(fold.familiar) == 0 and fold.copies == 0


def test_published_training_set_of_named_subclasses_is_the_complement_of_the_held_out_set():
    rows = [Row("a", "p", kind, 0) for kind in "xy"] + [Row("b", "p", "x", 0)] * 3
    fold = named_fold(in_memory(rows), ["a/x"], protocol="published")
    assert (fold.held_out.tolist(), fold.train.tolist()) == ([0], [1, 2, 3, 4])
    # all of them show one drawing, so none would be left for training
    with pytest.raises(UsageError, match="no familiar images"):
        named_fold(in_memory(rows), ["a/x"])


def test_own_test_images_stay_familiar_images_with_the_published_protocol():
    rows = [Row(label, "p", kind) for label in "ab" for kind in "xy" for _ in range(4)]
    rows = [replace(row, drawing=number) for number, row in enumerate(rows)]
    to_test = [number % 2 == 1 for number in range(16)]
    # an image of the training part that is also in the test part
    rows[4] = replace(rows[4], drawing=rows[5].drawing)
    fold = named_fold(in_memory(rows, to_test), ["a/x"], protocol="published")
    assert (fold.held_out.tolist(), fold.train.tolist()) == ([1, 3], [4, 6, 8, 10, 12, 14])
    assert fold.familiar.tolist() == [5, 7]


def test_a_class_without_training_images_is_rejected_with_the_published_protocol():
    rows = [Row(label, "p", kind) for label, kind in ("ax", "ax", "bx", "by")]
    with pytest.raises(UsageError, match="No training images of the class 'a'"):
        named_fold(in_memory(rows), ["a/x"], protocol="published")


# Near-duplicates


def test_the_copies_that_were_planted_are_those_that_are_found():
    rows = [Row("a", drawing=n // 2) for n in range(20)] + [Row("b", drawing=n) for n in range(8)]
    pairs = {tuple(pair) for pair in in_memory(rows).copies.tolist()}
    assert pairs == {
        (one, two)
        for one, two in combinations(range(28), 2)
        if rows[one].drawing == rows[two].drawing
    }
    # they are no longer the same pixels
    assert (drawn(rows[0], 0) != drawn(rows[1], 1)).any()


def test_copies_of_copies_are_all_found():
    rows = [Row("a", drawing=0)] * 4 + [Row("b", drawing=n) for n in range(1, 5)]
    kinds = in_memory(rows)
    assert kinds.with_copies(np.array([2])).tolist() == [0, 1, 2, 3]
    assert kinds.with_copies(np.array([5])).tolist() == [5]
    assert kinds.with_copies(np.array([], dtype=np.int64)).tolist() == []


def test_a_copy_in_another_class_is_not_trained_with_either():
    rows = [
        Row(label, style, "x", number)
        for number, (label, style) in enumerate(
            (label, style) for label in "ab" for style in "pq" for _ in range(4)
        )
    ]
    rows[-1] = replace(rows[-1], drawing=rows[0].drawing)
    (fold, _) = style_folds(in_memory(rows))
    assert fold.held == ("p",) and 0 in fold.held_out
    assert len(rows) - 1 not in {*fold.train.tolist(), *fold.familiar.tolist()}
    assert fold.copies == 1


def test_a_mirrored_copy_is_not_trained_with_since_training_mirrors_too():
    rows = [
        Row(label, style, "x", number)
        for number, (label, style) in enumerate(
            (label, style) for label in "ab" for style in "pq" for _ in range(4)
        )
    ]
    rows[-1] = replace(rows[-1], drawing=rows[0].drawing, is_mirrored=True)
    (fold, _) = style_folds(in_memory(rows))
    assert 0 in fold.held_out
    assert len(rows) - 1 not in {*fold.train.tolist(), *fold.familiar.tolist()}


# Names


def test_a_held_out_style_called_like_a_class_removes_nothing_else():
    rows = [
        Row(label, style, "x", number)
        for number, (label, style) in enumerate(
            (label, style) for label in LABELS for style in ("cat", "plain") for _ in range(6)
        )
    ]
    (fold,) = style_folds(in_memory(rows), ["cat"])
    assert {rows[place].style for place in fold.held_out} == {"cat"} and len(fold.held_out) == 18
    trained = Counter(rows[place].label for place in fold.train)
    assert trained == {"books": 3, "cat": 3, "cats": 3}


def test_a_held_out_subclass_called_like_its_class_removes_nothing_else(tmp_path):
    # the published code looked for the name anywhere in the path, and the whole class was gone
    rows = [
        Row(label, "plain", subclass, number)
        for number, (label, subclass) in enumerate(
            (label, subclass)
            for label in ("books", "cats")
            for subclass in ("books", "cat", "green books")
            for _ in range(4)
        )
    ]
    kinds = load_holdout_images(write_rows(tmp_path, rows), "subclass", "native", NO_PROGRESS)
    images = kinds.data.images.listed
    seen = set()
    for fold in subclass_folds(kinds, 1, folds=3):
        held = {(images[p].label, images[p].subclass) for p in fold.held_out}
        kept = {(images[p].label, images[p].subclass) for p in fold.train}
        assert {f"{label}/{subclass}" for label, subclass in held} == set(fold.held)
        assert len(fold.held_out) == 8 and len(held) == 2
        # all others are still there, with the pictures that are not familiar ones
        assert held | kept == {(row.label, row.subclass) for row in rows}
        assert len(fold.train) + len(fold.familiar) == 16
        seen |= held
    assert seen == {(row.label, row.subclass) for row in rows}


def test_subclasses_of_two_classes_may_share_a_name():
    rows = [
        Row(label, "plain", subclass, number)
        for number, (label, subclass) in enumerate(
            (label, subclass) for label in "ab" for subclass in ("big", "small") for _ in range(3)
        )
    ]
    kinds = in_memory(rows)
    assert set(kinds.names("subclass")) == {"a/big", "a/small", "b/big", "b/small"}
    for seed in range(20):
        (fold,) = subclass_folds(kinds, in_all=1, folds=1, seed=seed)
        assert len(fold.held) == 1 and len(fold.held_out) == 3


def test_classes_and_subclasses_with_slashes_stay_apart():
    rows = [
        Row(label, "plain", subclass, number)
        for number, (label, subclass) in enumerate(
            (label, subclass)
            for label, own in (("a", ("b/c", "d")), ("a/b", ("c", "d")))
            for subclass in own
            for _ in range(3)
        )
    ]
    kinds = in_memory(rows)
    for seed in range(20):
        (fold,) = subclass_folds(kinds, in_all=1, folds=1, seed=seed)
        assert len({(rows[p].label, rows[p].subclass) for p in fold.held_out}) == 1


# Which subclasses are held out


def grid(counts):
    """Classes with so many subclasses, of three pictures each."""
    rows = [
        Row(label, "plain", f"kind {kind}")
        for label, count in zip("abcdefgh", counts, strict=False)
        for kind in range(count)
        for _ in range(3)
    ]
    return in_memory([replace(row, drawing=number) for number, row in enumerate(rows)])


@pytest.mark.parametrize(("per_class", "folds"), [(1, 5), (1, 3), (2, 2), (3, 1), (4, 1)])
def test_no_subclass_is_held_out_twice_while_there_are_others(per_class, folds):
    for seed in range(3):
        made = subclass_folds(grid([5, 6, 7]), per_class, folds=folds, seed=seed)
        assert [fold.name for fold in made] == [f"fold {n}" for n in range(1, folds + 1)]
        every = [name for fold in made for name in fold.held]
        assert len(set(every)) == len(every) == 3 * per_class * folds


def test_over_five_folds_each_of_five_subclasses_is_held_out_once():
    made = subclass_folds(grid([5, 5]), 1, folds=5)
    every = sorted(name for fold in made for name in fold.held)
    assert every == [f"{label}/kind {kind}" for label in "ab" for kind in range(5)]


def test_which_subclasses_follows_from_the_seed():
    kinds = grid([6, 6, 6])
    chosen = [subclass_folds(kinds, 2, folds=1, seed=seed)[0].held for seed in range(12)]
    assert chosen[0] == subclass_folds(kinds, 2, folds=1, seed=0)[0].held
    assert len(set(chosen)) > 6
    # and each class has its own: not the same kinds in all of them
    kinds_held = [{name.split("/")[1] for name in held} for held in chosen]
    assert max(map(len, kinds_held)) > 2


@settings(max_examples=40)
@given(st.lists(st.integers(1, 5), min_size=2, max_size=5), st.integers(1, 4), st.data())
def test_over_all_classes_every_class_keeps_one_and_new_ones_come_first(counts, folds, data):
    kinds = grid(counts)
    room = sum(counts) - len(counts)
    if not room:
        with pytest.raises(UsageError, match="can be held out"):
            subclass_folds(kinds, in_all=1, folds=folds)
        return
    count = data.draw(st.integers(1, room))
    known = {name: name.split("/")[0] for name in kinds.names("subclass")}
    size = Counter(known.values())
    used = set()
    for fold in subclass_folds(kinds, in_all=count, folds=folds, seed=data.draw(st.integers(0, 9))):
        assert len(set(fold.held)) == len(fold.held) == count
        of_class = Counter(known[name] for name in fold.held)
        assert all(of_class[label] < size[label] for label in size)
        if set(fold.held) & used:
            # held out again only if every class with a new one has given all it can
            fresh = Counter(known[name] for name in set(fold.held) - used)
            for name in set(known) - used - set(fold.held):
                assert fresh[known[name]] == size[known[name]] - 1
        used |= set(fold.held)


def test_over_all_classes_differs_from_fold_to_fold_and_by_seed():
    kinds = grid([9, 9, 9])
    held = [fold.held for seed in range(3) for fold in subclass_folds(kinds, in_all=4, seed=seed)]
    assert len(held) == 9 and len(set(held)) == 9


@pytest.mark.parametrize("count", [0, -1, 7])
def test_more_subclasses_over_all_than_there_are_is_rejected(count):
    with pytest.raises(UsageError, match=f"Between 1 and 6 subclasses .* got {count}"):
        subclass_folds(grid([3, 5]), in_all=count)


def test_more_subclasses_of_each_class_than_there_are_is_rejected():
    with pytest.raises(UsageError, match="'a' has 3 subclasses, so 3 cannot be held out"):
        subclass_folds(grid([3, 5]), 3)
    with pytest.raises(UsageError, match="'b' has 1 subclass, so 1 cannot be held out"):
        subclass_folds(grid([3, 1]), 1)
    for number in (0, -2):
        with pytest.raises(UsageError, match=f"whole number of at least 1, got {number}"):
            subclass_folds(grid([3, 5]), number)
        with pytest.raises(UsageError, match=f"whole number of at least 1, got {number}"):
            subclass_folds(grid([3, 5]), folds=number)


def test_folds_that_would_all_be_the_same_again_are_rejected():
    with pytest.raises(UsageError, match="folds"):
        subclass_folds(grid([2, 2]), 1, folds=3)


# Familiar pictures


def test_familiar_images_are_others_in_every_fold_and_with_every_seed():
    rows = [
        Row(label, style, "x", number)
        for number, (label, style) in enumerate(
            (label, style) for label in "ab" for style in "pqrs" for _ in range(6)
        )
    ]
    kinds = in_memory(rows)
    chosen = {
        tuple(fold.familiar.tolist()) for seed in range(3) for fold in style_folds(kinds, seed=seed)
    }
    assert len(chosen) == 12
    again = style_folds(kinds, seed=2)[-1]
    assert tuple(again.familiar.tolist()) in chosen


def test_familiar_images_are_of_all_other_styles():
    rows = [
        Row(label, style, "x", number)
        for number, (label, style) in enumerate(
            (label, style) for label in "ab" for style in "pqrs" for _ in range(12)
        )
    ]
    for fold in style_folds(in_memory(rows)):
        found = Counter(rows[place].style for place in fold.familiar)
        assert set(found) == set("pqrs") - set(fold.held) and sum(found.values()) == 24


def test_a_fold_without_familiar_images_is_rejected():
    # one picture of each class and style: none can be spared
    rows = [Row(label, style, "x", n) for n, (label, style) in enumerate(["ap", "aq", "bp", "bq"])]
    with pytest.raises(UsageError, match="familiar"):
        style_folds(in_memory(rows))


def test_a_fold_of_which_nothing_is_there_to_test_with_is_rejected():
    rows = [
        Row(label, "plain", subclass, number)
        for number, (label, subclass) in enumerate(
            (label, subclass) for label in "ab" for subclass in "xy" for _ in range(3)
        )
    ]
    # nothing of x is among the pictures to test with
    to_test = [row.subclass == "y" and number % 3 == 0 for number, row in enumerate(rows)]
    order = [["a/x", "a/y"], ["b/x", "b/y"]]
    with pytest.raises(UsageError, match="no test images"):
        subclass_folds(in_memory(rows, to_test), 1, folds=1, order=order)


def test_a_class_whose_other_images_are_one_drawing_is_rejected():
    rows = [Row(label, style, "x") for label in "ab" for style in "ppqqqq"]
    rows = [replace(row, drawing=number) for number, row in enumerate(rows)]
    for place in range(2, 6):
        rows[place] = replace(rows[place], drawing=2)
    with pytest.raises(UsageError, match="No training images of the class 'a' are left"):
        style_folds(in_memory(rows), ["p"])


# Styles


def test_a_class_with_one_style_is_rejected_unless_another_style_is_held_out():
    rows = [Row("a", style, "x") for style in "pppqqq"] + [Row("b", "q", "x")] * 4
    kinds = in_memory([replace(row, drawing=number) for number, row in enumerate(rows)])
    with pytest.raises(UsageError, match="'b' has images of only one style, 'q'"):
        style_folds(kinds)
    (fold,) = style_folds(kinds, ["p"])
    assert fold.held == ("p",) and len(fold.held_out) == 3


def test_one_style_alone_and_an_unknown_one_are_rejected():
    rows = [Row(label, "p", "x", n) for n, label in enumerate("aaabbb")]
    with pytest.raises(UsageError, match="the same style, 'p'"):
        style_folds(in_memory(rows))
    two = [replace(row, style="noto" if n % 3 else "twemoji") for n, row in enumerate(rows)]
    with pytest.raises(UsageError, match=r"Unknown style 'tweemoji'.*'twemoji'"):
        style_folds(in_memory(two), ["tweemoji"])
    # part of a name is no name
    with pytest.raises(UsageError, match="Unknown style 'not'"):
        style_folds(in_memory(two), ["not"])


# Lists and folders


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_list_says_style_and_subclass_in_columns_of_any_case(tmp_path, kind):
    names = ["path", "label", "Style", " SUBCLASS "]
    rows = [("a.png", "x", "flat", "one"), ("b.png", "x", "", "two"), ("c.png", "y", "3d", "-1")]
    where = tmp_path / f"list.{kind}"
    if kind == "csv":
        where.write_text("\n".join(",".join(row) for row in (names, *rows)) + "\n")
    else:
        columns = dict(zip(names, zip(*rows, strict=True), strict=True))
        pq.write_table(pa.table({name: list(own) for name, own in columns.items()}), where)
    found = [(p.label, p.style, p.subclass) for p in find_images(where)]
    assert found == [("x", "flat", "one"), ("x", None, "two"), ("y", "3d", None)]


def test_folders_within_class_folders_are_subclasses(tmp_path):
    for place in ("top.png", "cat/one.png", "cat/tabby/two.png", "cat/tabby/old/three.png"):
        image_file(tmp_path / place)
    found = {p.name: (p.label, p.subclass, p.style) for p in find_images(tmp_path)}
    assert found == {
        "top.png": (None, None, None),
        "cat/one.png": ("cat", None, None),
        "cat/tabby/two.png": ("cat", "tabby", None),
        "cat/tabby/old/three.png": ("cat", "tabby", None),
    }


def test_images_without_the_trait_are_counted_and_one_is_named(tmp_path):
    rows = [Row(label, style, "x", n) for n, (label, style) in enumerate(["ap", "aq", "bp", "bq"])]
    where = write_rows(tmp_path, rows, columns=())
    # before a single picture is read
    for path in tmp_path.rglob("*.png"):
        path.write_bytes(b"")
    for trait, hint in (("style", "column named style"), ("subclass", "folders class/subclass/")):
        with pytest.raises(UsageError, match=f"4 images in .* have no {trait}.*{hint}"):
            load_holdout_images(where, trait, "native", NO_PROGRESS)


# Some of the pictures, and answers to them


def test_some_of_the_images_keep_all_that_belongs_to_them(tmp_path):
    where = write_rows(tmp_path, colors(2), tinted)
    whole = training_data(ec.load_images(where, "native"))
    assert whole.pixels is not None
    # as where memory is short: pictures are read from their files as they are needed
    read = replace(whole, pixels=None)
    places = [30, 3, 17, 3, 0]
    for data in (whole, read):
        some = data.select(places)
        assert len(some) == 5 and some.class_names == data.class_names
        assert torch.equal(some.batch(range(5)), data.batch(places))
        assert torch.equal(some.batch([4, 2]), data.batch([0, 17]))
        assert some.labels.tolist() == [data.labels.tolist()[place] for place in places]
        assert some.keys.tolist() == [data.keys.tolist()[place] for place in places]
        assert [p.name for p in some.images.listed] == [
            data.images.listed[place].name for place in places
        ]
        assert some.fingerprint != data.fingerprint
    assert whole.select(places).fingerprint == read.select(places).fingerprint
    assert read.select(places).pixels is None


def test_predictions_to_blocks_are_those_to_single_images(tmp_path, monkeypatch):
    data = training_data(ec.load_images(write_rows(tmp_path, colors(2), tinted), "native"))
    module = tiny(3, seed=4)
    # scores around nought, so that not all pictures get one answer
    module[-1].bias.data -= module(data.batch(range(len(data))).float() / 255).mean(dim=0).detach()
    model = Model("tiny", module, CPU)
    expected = [
        int(module(data.batch([place]).float() / 255).argmax()) for place in range(len(data))
    ]
    assert len(set(expected)) > 1
    for images in (1, 5, 1000):
        monkeypatch.setattr(
            "eyechart.training.image_blocks.BLOCK_PIXELS", {"cpu": images * data.size[0] ** 2}
        )
        assert predict_held([model], DeviceDataset(data, CPU))[0].tolist() == expected
