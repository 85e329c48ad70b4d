"""`--max-images N`: as many of every class, the same ones whatever the order, folder or suffix."""

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import eyechart as ec
from commands import assert_rejected
from eyechart.images.image_list import ListedImage
from eyechart.testsets.plan import Plan
from eyechart.testsets.published_files import find_published, load_published
from eyechart.testsets.samples import choose_images
from published_files import arrays, cheap_folder
from small_models import save_images

MODEL = "small_models:pale_colors"


def listed(counts, suffix=".JPEG", folder=""):
    return [
        ListedImage(Path(name), name, label)
        for label, count in counts.items()
        for place in range(count)
        if (name := f"{folder}{label}/{label}_{place}{suffix}")
    ]


def names(images, places):
    return {Path(images[place].name).stem for place in places}


@settings(max_examples=60, deadline=None)
@given(
    st.dictionaries(st.sampled_from("abcdefgh"), st.integers(1, 9), min_size=1),
    st.integers(0, 3),
    st.randoms(),
    st.data(),
)
def test_classes_differ_by_one_as_far_as_they_have_images(counts, seed, random, data):
    images = listed(counts)
    n = data.draw(st.integers(1, len(images)))
    plan = Plan(seed=seed, max_images=n)
    chosen = choose_images(images, plan)
    assert len(chosen) == n and (np.diff(chosen) > 0).all()
    own = Counter(images[place].label for place in chosen)
    most = max(own.values())
    for label, count in counts.items():
        assert own[label] >= min(count, most - 1)
    mixed = random.sample(images, len(images))
    assert names(mixed, choose_images(mixed, plan)) == names(images, chosen)
    moved = listed(counts, ".png", "elsewhere/")
    assert names(moved, choose_images(moved, plan)) == names(images, chosen)


def test_a_larger_choice_holds_the_smaller_and_another_seed_gives_another():
    images = listed({"a": 30, "b": 30})
    few, more = (set(choose_images(images, Plan(max_images=n)).tolist()) for n in (10, 20))
    assert few < more
    assert few != set(choose_images(images, Plan(seed=1, max_images=10)).tolist())


def test_everyday_categories_are_chosen_evenly_and_others_not_at_all():
    dogs, birds, other = ("n02085782", "n01530575", "n01440764")
    images = listed({dogs: 9, birds: 3, other: 9})
    chosen = choose_images(images, Plan(labels="entry16", max_images=6))
    assert Counter(images[place].label for place in chosen) == {dogs: 3, birds: 3}


def test_without_labels_any_image_may_be_chosen():
    images = listed({"a": 40, "b": 2})
    chosen = choose_images(images, Plan(labels="none", max_images=10))
    assert Counter(images[place].label for place in chosen)["b"] < 5


@pytest.mark.parametrize("n", [0, -1, True, 2.5, "3"])
def test_a_number_of_images_is_a_whole_number(n):
    with pytest.raises(ec.UsageError, match="max_images must be a whole number"):
        Plan(max_images=n).check()


def test_only_the_chosen_images_are_read_and_the_run_says_so(run, tmp_path):
    folder = save_images(tmp_path / "photos", each=3)
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
    small = ("--corruption", "blur", "--n", 40, "--bins", 9, "--min-per-bin", 3, "--n-bootstrap", 5)
    assert run(*given, *small, "--max-images", 8).status == 0
    found = json.loads((tmp_path / "out" / "results.json").read_text("utf-8"))
    assert found["config"]["max_images"] == 8
    assert found["images"]["n_images"] == found["images"]["used"] == 8
    assert Counter(name.split("/")[0] for name in found["images"]["digests"]) == {
        "blue": 2, "green": 2, "grey": 2, "red": 2,
    }  # fmt: skip
    assert_rejected(
        run(*given, *small, "--max-images", 7), "holds another run", "max_images: 8, now 7"
    )
    assert_rejected(
        run(*given, *small, "--max-images", 13), "max_images must be at most 12, got 13"
    )
    assert_rejected(run(*given, *small, "--max-images", 0), "max_images must be a whole number")
    assert_rejected(
        run(*given, *small, "--max-images", 3, "--testset", "t.parquet"), "defines its images"
    )


def test_loaded_images_are_chosen_from_too(tmp_path):
    folder = save_images(tmp_path / "photos", each=3)
    options = {
        "corruptions": ["blur"], "n": 40, "bins": 9, "min_per_bin": 3, "n_bootstrap": 5,
        "humans": None,
        "max_images": 4,
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
    plan = Plan(max_images=8)
    published = find_published(root)
    own = published.plan(plan)
    with_clean = load_published(published, own, clean, "native")
    without = load_published(published, own, None)
    on_the_fly = ec.load_images(clean, "native")
    chosen = [on_the_fly.listed[place].name for place in choose_images(on_the_fly.listed, plan)]
    assert [image.name for image in with_clean.listed] == chosen
    assert [image.name for image in without.listed] == chosen
    assert with_clean.files.listed == without.files.listed
    assert len(chosen) == 8


def test_arrays_are_chosen_from_too(tmp_path):
    root = arrays(tmp_path / "c")
    found = ec.evaluate(MODEL, root, max_images=4, n_bootstrap=5, humans=None)
    assert found.images.n_images == 4
    published = find_published(root)
    plan = published.plan(Plan(max_images=4))
    images = load_published(published, plan, tmp_path / "clean.npy")
    whole, clean = np.load(root / "fog.npy"), np.load(tmp_path / "clean.npy")
    places = [int(image.name) for image in images.listed]
    assert sorted(images.labels) == ["0", "1", "2", "3"]
    read = torch.stack(images.files.read("fog", [2] * 4, range(4))).permute(0, 2, 3, 1).numpy()
    assert (read == whole[8 + np.array(places)]).all()
    assert (images.batch(range(4)).permute(0, 2, 3, 1).numpy() == clean[places]).all()


def test_a_test_set_of_chosen_images_is_made_again_from_all(run, tmp_path):
    folder = save_images(tmp_path / "photos", each=3)
    out = tmp_path / "t.parquet"
    small = ("--corruption", "blur", "--n", 8, "--stimulus", "native", "--max-images", 4)
    assert run("testset", "make", "--images", folder, "--out", out, *small).status == 0
    assert len(ec.read_testset(out).table["digest"].unique()) == 4
    assert run("testset", "render", out, "--images", folder, "--out", tmp_path / "pngs").status == 0
