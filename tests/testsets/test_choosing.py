"""`--pictures N`: as many of every class, the same ones whatever the order, folder or suffix."""

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import eyechart as ec
from commands import assert_refused
from eyechart.images.image_list import Picture
from eyechart.testsets.plan import Plan
from eyechart.testsets.published_files import find_published, load_published
from eyechart.testsets.samples import choose_pictures
from published_files import arrays, cheap_folder
from small_models import save_pictures

MODEL = "small_models:pale_colours"


def listed(counts, suffix=".JPEG", folder=""):
    return [
        Picture(Path(name), name, label)
        for label, count in counts.items()
        for place in range(count)
        if (name := f"{folder}{label}/{label}_{place}{suffix}")
    ]


def names(pictures, places):
    return {Path(pictures[place].name).stem for place in places}


@settings(max_examples=60, deadline=None)
@given(
    st.dictionaries(st.sampled_from("abcdefgh"), st.integers(1, 9), min_size=1),
    st.integers(0, 3),
    st.randoms(),
    st.data(),
)
def test_classes_differ_by_one_as_far_as_they_have_pictures(counts, seed, random, data):
    pictures = listed(counts)
    n = data.draw(st.integers(1, len(pictures)))
    plan = Plan(seed=seed, pictures=n)
    chosen = choose_pictures(pictures, plan)
    assert len(chosen) == n and (np.diff(chosen) > 0).all()
    own = Counter(pictures[place].label for place in chosen)
    most = max(own.values())
    for label, count in counts.items():
        assert own[label] >= min(count, most - 1)
    mixed = random.sample(pictures, len(pictures))
    assert names(mixed, choose_pictures(mixed, plan)) == names(pictures, chosen)
    moved = listed(counts, ".png", "elsewhere/")
    assert names(moved, choose_pictures(moved, plan)) == names(pictures, chosen)


def test_a_larger_choice_holds_the_smaller_and_another_seed_gives_another():
    pictures = listed({"a": 30, "b": 30})
    few, more = (set(choose_pictures(pictures, Plan(pictures=n)).tolist()) for n in (10, 20))
    assert few < more
    assert few != set(choose_pictures(pictures, Plan(seed=1, pictures=10)).tolist())


def test_everyday_categories_are_chosen_evenly_and_others_not_at_all():
    dogs, birds, other = ("n02085782", "n01530575", "n01440764")
    pictures = listed({dogs: 9, birds: 3, other: 9})
    chosen = choose_pictures(pictures, Plan(labels="entry16", pictures=6))
    assert Counter(pictures[place].label for place in chosen) == {dogs: 3, birds: 3}


def test_without_labels_any_picture_may_be_chosen():
    pictures = listed({"a": 40, "b": 2})
    chosen = choose_pictures(pictures, Plan(labels="none", pictures=10))
    assert Counter(pictures[place].label for place in chosen)["b"] < 5


@pytest.mark.parametrize("n", [0, -1, True, 2.5, "3"])
def test_a_number_of_pictures_is_a_whole_number(n):
    with pytest.raises(ec.UsageError, match="pictures must be a whole number"):
        Plan(pictures=n).check()


def test_only_the_chosen_pictures_are_read_and_the_run_says_so(run, tmp_path):
    folder = save_pictures(tmp_path / "photos", each=3)
    given = (
        "evaluate",
        MODEL,
        "--images",
        folder,
        "--out",
        tmp_path / "out",
        "--stimulus",
        "native",
    )
    small = ("--corruption", "blur", "--n", 40, "--bins", 9, "--least", 3, "--replicates", 5)
    assert run(*given, *small, "--pictures", 8).status == 0
    found = json.loads((tmp_path / "out" / "results.json").read_text("utf-8"))
    assert found["config"]["pictures"] == 8
    assert found["images"]["pictures"] == found["images"]["used"] == 8
    assert Counter(name.split("/")[0] for name in found["images"]["digests"]) == {
        "blue": 2, "green": 2, "grey": 2, "red": 2,
    }  # fmt: skip
    assert_refused(run(*given, *small, "--pictures", 7), "holds another run", "pictures: 8, now 7")
    assert_refused(run(*given, *small, "--pictures", 13), "pictures must be at most 12, got 13")
    assert_refused(run(*given, *small, "--pictures", 0), "pictures must be a whole number")
    assert_refused(run(*given, *small, "--pictures", 3, "--testset", "t.parquet"), "its own images")


def test_loaded_pictures_are_chosen_from_too(tmp_path):
    folder = save_pictures(tmp_path / "photos", each=3)
    options = {
        "corruptions": ["blur"], "n": 40, "bins": 9, "least": 3, "replicates": 5, "humans": None,
        "pictures": 4,
    }  # fmt: skip
    loaded = ec.load_images(folder, "native")
    one = ec.evaluate(MODEL, loaded, **options)
    two = ec.evaluate(MODEL, folder, stimulus="native", **options)
    assert one.images.digests == two.images.digests and len(one.images.digests) == 4
    assert one.coverage == two.coverage


def test_published_files_are_chosen_from_as_clean_ones_are(tmp_path):
    root = cheap_folder(tmp_path / "files", each=5)
    clean = tmp_path / "clean"
    (root / "fog" / "1").rename(clean)
    for severity in ("2", "3", "4", "5"):
        (root / "fog" / severity).rename(tmp_path / f"gone{severity}")
    (root / "fog").rmdir()
    plan = Plan(pictures=8)
    published = find_published(root)
    own = published.plan(plan)
    with_clean = load_published(published, own, clean, "native")
    without = load_published(published, own, None)
    on_the_fly = ec.load_images(clean, "native")
    chosen = [
        on_the_fly.pictures[place].name for place in choose_pictures(on_the_fly.pictures, plan)
    ]
    assert [picture.name for picture in with_clean.pictures] == chosen
    assert [picture.name for picture in without.pictures] == chosen
    assert with_clean.files.pictures == without.files.pictures
    assert len(chosen) == 8


def test_arrays_are_chosen_from_too(tmp_path):
    root = arrays(tmp_path / "c")
    found = ec.evaluate(MODEL, root, pictures=4, replicates=5, humans=None)
    assert found.images.pictures == 4
    published = find_published(root)
    plan = published.plan(Plan(pictures=4))
    images = load_published(published, plan, tmp_path / "clean.npy")
    whole, clean = np.load(root / "fog.npy"), np.load(tmp_path / "clean.npy")
    places = [int(picture.name) for picture in images.pictures]
    assert sorted(images.labels) == ["0", "1", "2", "3"]
    read = images.files.read("fog", [2] * 4, range(4)).pictures.permute(0, 2, 3, 1).numpy()
    assert (read == whole[8 + np.array(places)]).all()
    assert (images.batch(range(4)).permute(0, 2, 3, 1).numpy() == clean[places]).all()


def test_a_test_set_of_chosen_pictures_is_made_again_from_all(run, tmp_path):
    folder = save_pictures(tmp_path / "photos", each=3)
    out = tmp_path / "t.parquet"
    small = ("--corruption", "blur", "--n", 8, "--stimulus", "native", "--pictures", 4)
    assert run("testset", "make", folder, "--out", out, *small).status == 0
    assert len(ec.read_testset(out).table["digest"].unique()) == 4
    assert run("testset", "render", out, folder, "--out", tmp_path / "pngs").status == 0
