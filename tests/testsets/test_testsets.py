"""Test sets: what is drawn, that anybody makes the same pictures of it, and what it covers."""

import csv
import hashlib
import json
import random
from collections import Counter
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from PIL import Image
from scipy import stats

import eyechart as ec
from commands import image_file
from eyechart.corruptions.suites.suite import load_suite
from eyechart.images.identity import content_keys
from eyechart.testsets import testset
from eyechart.testsets.coverage import coverage_of
from eyechart.testsets.manifest_rows import SCHEMA
from eyechart.testsets.plan import Plan
from eyechart.testsets.render import render_testset
from eyechart.testsets.samples import allocate, plan_samples
from small_models import save_images

CPU = torch.device("cpu")

DOMAINS = {
    "gaussian_noise": {"sigma": (0.0001, 1)},
    "shot_noise": {"photons": (1, 5)},
    "impulse_noise": {"amount": (0, 0.5)},
    "uniform_noise": {"width": (0, 1)},
    "gaussian_blur": {"sigma": (0.00001, 5)},
    "glass_blur": {"sigma": (0, 5), "reach": (1, 9)},
    "defocus_blur": {"radius": (0, 10), "softness": (0, 1)},
    "motion_blur": {"kernel": range(3, 50, 2), "angle": (0, 180)},
    "brightness": {"amount": (0, 1)},
    "frost": {"image_weight": (0.01, 1), "frost_weight": (0.01, 1)},
    "blur": {"kernel": range(3, 16, 2)},
    "median_blur": {"kernel": range(3, 22, 2)},
    "hue_saturation_value": {
        "hue": (-100, 100), "saturation": (-100, 100), "value": (-100, 100)
    },
    "color_jitter": {
        "brightness": (0, 2), "contrast": (0, 2), "saturation": (0, 2), "hue": (-1, 1),
    },
}  # fmt: skip
"""METHODS section 2: the domains that the paper samples uniformly; ranges are whole numbers.

Glass blur takes any real reach here (docs/decisions.md), whole ones there."""


def silent(count, message):
    pass


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Four classes of two pictures, and one class of three."""
    home = save_images(tmp_path_factory.mktemp("images"), each=2)
    image_file(home / "red" / "noise.png", 3, (40, 40))
    return home


@pytest.fixture(scope="module")
def images(folder):
    return ec.load_images(folder, "native")


@pytest.fixture(scope="module")
def drawn(images):
    """All 14 corruptions of the paper, few rows of each."""
    return ec.sample_testset(images, n=10, seed=3)


def rows(found, corruption=None):
    """The rows as dictionaries, parameters too."""
    table = found.table.to_pylist()
    for row in table:
        row["parameters"] = dict(row["parameters"])
    return [row for row in table if corruption in (None, row["corruption"])]


def parameters(found, corruption, name):
    return np.array([row["parameters"][name] for row in rows(found, corruption)])


# What is drawn


def test_drawing_twice_gives_the_same_table(images, drawn):
    again = ec.sample_testset(images, n=10, seed=3)
    assert again.table.equals(drawn.table)
    assert (again.plan, again.header) == (drawn.plan, drawn.header)


def test_another_seed_gives_other_parameters(images, drawn):
    other = ec.sample_testset(images, n=10, seed=4, corruptions=["gaussian_noise"])
    name = "vcr/gaussian_noise"
    assert not set(parameters(drawn, name, "sigma")) & set(parameters(other, name, "sigma"))


def test_names_and_order_of_the_files_do_not_matter(folder, drawn, tmp_path):
    """The same bytes under other names, which sort in another order."""
    for path in folder.rglob("*.png"):
        label, turned = path.parent.name, f"{hashlib.md5(path.name.encode()).hexdigest()}.png"
        (tmp_path / "new" / label).mkdir(parents=True, exist_ok=True)
        (tmp_path / "new" / label / turned).write_bytes(path.read_bytes())
    listed = sorted((tmp_path / "new").rglob("*.png"))
    random.Random(1).shuffle(listed)
    with (tmp_path / "list.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["path", "label"])
        writer.writerows([path.relative_to(tmp_path), path.parent.name] for path in listed)
    again = ec.sample_testset(tmp_path / "list.csv", n=10, seed=3, stimulus="native")

    def contents(found):
        kept = ("digest", "label", "corruption", "draw", "parameters", "pixels", "delta_v")
        return sorted(json.dumps([row[name] for name in kept]) for row in rows(found))

    assert contents(again) == contents(drawn)


def test_every_corruption_has_n_rows_and_every_image_is_there_clean(images, drawn):
    counts = Counter(drawn.table["corruption"].to_pylist())
    assert counts.pop("clean") == len(images) == 9
    assert counts == {f"vcr/{name}": 10 for name in DOMAINS}
    assert len(set(drawn.table["row"].to_pylist())) == len(drawn) == 9 + 14 * 10
    clean = rows(drawn, "clean")
    assert {row["digest"] for row in clean} == set(images.digests)
    assert {row["delta_v"] for row in clean} == {0.0}


@pytest.mark.parametrize("n", [1, 3, 10, 77])
@pytest.mark.parametrize("seed", [0, 1])
def test_classes_are_drawn_equally_and_so_are_the_images_of_a_class(n, seed):
    classes = [
        name for name, size in {"a": 1, "b": 4, "c": 13, None: 2}.items() for _ in range(size)
    ]
    digests = [f"{place:064d}" for place in range(len(classes))]
    counts = allocate(digests, classes, n, seed)
    assert counts.sum() == n
    by_class = Counter()
    for name, count in zip(classes, counts, strict=True):
        by_class[name] += int(count)
    assert max(by_class.values()) - min(by_class.values()) <= 1
    for name in set(classes):
        own = [c for c, each in zip(counts, classes, strict=True) if each == name]
        assert max(own) - min(own) <= 1


def test_who_is_drawn_once_more_depends_on_the_seed_and_not_on_the_order():
    digests = [f"{place:064d}" for place in range(12)]
    one = dict(zip(digests, allocate(digests, ["a"] * 12, 5, 0), strict=True))
    two = dict(zip(digests[::-1], allocate(digests[::-1], ["a"] * 12, 5, 0), strict=True))
    assert one == two
    others = {tuple(allocate(digests, ["a"] * 12, 5, seed)) for seed in range(8)}
    assert len(others) > 1


def test_without_balance_every_image_counts_the_same(tmp_path):
    for name, count in (("a", 1), ("b", 5)):
        for index in range(count):
            image_file(tmp_path / name / f"{index}.png", 10 * count + index, (24, 24))
    options = {"n": 12, "stimulus": "native", "corruptions": ["brightness"]}
    even = ec.sample_testset(tmp_path, balanced=False, **options)
    counts = Counter(row["digest"] for row in rows(even, "vcr/brightness"))
    assert set(counts.values()) == {2}
    by_class = ec.sample_testset(tmp_path, **options)
    assert Counter(row["label"] for row in rows(by_class, "vcr/brightness")) == {"a": 6, "b": 6}


def category_folder(home):
    """Two cats, a dog, and three pictures outside the 16 categories."""
    names = ("n02123045", "n02123159", "n02085782", "n01440764", "n01443537", "n01484850")
    for index, name in enumerate(names):
        image_file(home / name / "a.png", index, (24, 24))
    return home


def test_with_entry16_images_of_other_classes_are_left_out(tmp_path):
    home = category_folder(tmp_path)
    found = ec.sample_testset(
        home, n=12, labels="entry16", stimulus="native", corruptions=["brightness"]
    )
    counts = Counter(row["category"] for row in rows(found, "vcr/brightness"))
    assert counts == {"cat": 6, "dog": 6}
    labels = {row["label"] for row in rows(found)}
    assert labels == {"n02123045", "n02123159", "n02085782"}
    assert len(rows(found, "clean")) == 3


def test_images_of_no_category_are_rejected_with_entry16(folder):
    with pytest.raises(ec.UsageError, match="No image belongs to the 16 categories"):
        ec.sample_testset(folder, n=4, labels="entry16", stimulus="native")


def test_published_levels_have_every_image_at_each_of_five_and_ignore_n(images):
    found = ec.sample_testset(images, "imagenet-c", n=3, corruptions=["gaussian_noise", "pixelate"])
    for name in ("gaussian_noise", "pixelate"):
        counts = Counter((row["digest"], row["severity"]) for row in rows(found, name))
        assert counts == {(digest, float(s)): 1 for digest in images.digests for s in range(1, 6)}
    sigmas = {row["severity"]: row["parameters"] for row in rows(found, "gaussian_noise")}
    assert len({tuple(values.values()) for values in sigmas.values()}) == 5


def test_published_levels_have_every_image_of_the_16_categories_whatever_n(tmp_path):
    found = ec.sample_testset(
        category_folder(tmp_path), "imagenet-c", n=1, labels="entry16", stimulus="native",
        corruptions=["brightness"],
    )  # fmt: skip
    assert len(rows(found, "brightness")) == 3 * 5


# Parameters as the paper draws them


@pytest.fixture(scope="module")
def many(images):
    """The plan of 1,500 rows per corruption: parameters without pictures."""
    plan = Plan(n=1500, seed=1)
    return {samples.name: samples.values for samples in plan_samples(images, plan)}


def test_the_table_of_domains_names_all_corruptions_of_the_suite():
    assert [entry.name for entry in load_suite("vcr")] == [f"vcr/{name}" for name in DOMAINS]


@pytest.mark.parametrize("name", DOMAINS)
def test_parameters_are_uniform_over_the_published_domain(many, name):
    values = many[f"vcr/{name}"]
    assert set(values) - {"order", "texture"} == set(DOMAINS[name])
    for parameter, domain in DOMAINS[name].items():
        own = values[parameter]
        assert len(own) == 1500
        if isinstance(domain, range):
            counts = Counter(own.tolist())
            assert set(counts) == set(map(float, domain))
            found = stats.chisquare([counts[value] for value in domain])
        else:
            low, high = domain
            assert own.min() >= low and own.max() <= high
            found = stats.kstest(own, "uniform", (low, high - low))
        assert found.pvalue > 1e-4, parameter


def test_parameters_of_one_corruption_do_not_hang_together(many):
    jitter = many["vcr/color_jitter"]
    names = list(DOMAINS["color_jitter"])
    table = np.corrcoef([jitter[name] for name in names])
    # the standard error of a correlation of 1,500 independent pairs is 0.026
    assert np.abs(table - np.eye(len(names))).max() < 0.12


# The same manifest gives the same pixels


def test_every_row_is_what_corrupt_makes_of_the_image(images, drawn):
    """Also decision 1: the change that is recorded is that of these pixels."""
    places = {digest: place for place, digest in enumerate(images.digests)}
    checked = Counter()
    for row in rows(drawn):
        clean = images.batch([places[row["digest"]]])
        made = clean
        if row["corruption"] != "clean":
            made = ec.corrupt(
                clean, row["corruption"], keys=[row["digest"]], draw=row["draw"], seed=3,
                **row["parameters"],
            )  # fmt: skip
            change = float(ec.delta_v(clean, made)[0])
            assert row["delta_v"] == pytest.approx(change, abs=1e-9), row["corruption"]
        assert row["pixels"] == int(content_keys(made)[0]) % 2**64, row["corruption"]
        checked[row["corruption"]] += 1
    assert len(checked) == 15


def test_the_columns_say_how_a_row_was_made(images, drawn):
    assert drawn.table.schema.equals(SCHEMA)
    row = rows(drawn, "vcr/frost")[0]
    place = images.digests.index(row["digest"])
    assert row["label"] == images.labels[place] and row["image"] == images.listed[place].name
    known = (row["suite"], row["seed"], row["stimulus"], row["ruler"], row["version"])
    assert known == ("vcr", 3, "native", "vif", 2)
    assert row["severity"] is None and row["category"] is None
    # 40 px have room for two scales of the pyramid, as a direct measurement says
    clean = images.batch([place])
    assert row["scales"] == int(ec.measure_change(clean, clean).scales)


def files(folder):
    return {path.relative_to(folder): path for path in folder.rglob("*.png")}


def pixels_of(path):
    with Image.open(path) as opened:
        levels = torch.from_numpy(np.array(opened)).permute(2, 0, 1)
    return int(content_keys(levels[None].contiguous())[0]) % 2**64


def test_images_are_the_same_whatever_the_batches_and_the_order(
    images, drawn, folder, tmp_path, monkeypatch
):
    count = render_testset(drawn, images, CPU, tmp_path / "one", silent)
    assert count == len(drawn)
    monkeypatch.setattr("eyechart.testsets.stimuli.BATCH", {"cpu": 3})
    monkeypatch.setattr("eyechart.testsets.stimuli.CLEAN_PIXELS", {"cpu": 2 * 40 * 40})
    order = np.random.default_rng(0).permutation(len(drawn))
    shuffled = replace(drawn, table=drawn.table.take(order))
    # other places of the pictures in their set, too
    listed = [each.path for each in images.listed][::-1]
    with (tmp_path / "list.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["path", "label"], *((p, p.parent.name) for p in listed)])
    turned = ec.load_images(tmp_path / "list.csv", "native")
    render_testset(shuffled, turned, CPU, tmp_path / "two", silent)
    one, two = files(tmp_path / "one"), files(tmp_path / "two")
    assert one.keys() == two.keys() and len(one) == len(drawn)
    for name, path in one.items():
        assert path.read_bytes() == two[name].read_bytes(), name
    recorded = {row["row"]: row["pixels"] for row in rows(drawn)}
    assert {int(path.stem): pixels_of(path) for path in one.values()} == recorded


def test_images_lie_by_corruption_and_label(drawn, images, tmp_path):
    render_testset(drawn.only(["blur"]), images, CPU, tmp_path, silent)
    found = {name.parts[:-1] for name in files(tmp_path)}
    assert found == {("vcr-blur", label) for label in ("blue", "green", "grey", "red")}
    assert len(files(tmp_path)) == 10


def test_rendering_again_keeps_what_is_there_and_mends_what_is_not(drawn, images, tmp_path):
    own = drawn.only(["brightness"])
    render_testset(own, images, CPU, tmp_path, silent)
    paths = sorted(files(tmp_path).values())
    whole = paths[1].read_bytes()
    paths[1].write_bytes(whole[:-10])
    paths[2].unlink()
    old = paths[0].stat().st_mtime_ns
    render_testset(own, images, CPU, tmp_path, silent)
    assert paths[0].stat().st_mtime_ns == old
    assert paths[1].read_bytes() == whole and paths[2].exists()


def test_an_image_of_somebody_else_is_never_replaced(drawn, images, tmp_path):
    own = drawn.only(["brightness"])
    render_testset(own, images, CPU, tmp_path / "model", silent)
    name = sorted(files(tmp_path / "model"))[4]
    precious = image_file(tmp_path / "out" / name, 5).read_bytes()
    with pytest.raises(ec.UsageError, match="a different image"):
        render_testset(own, images, CPU, tmp_path / "out", silent)
    assert (tmp_path / "out" / name).read_bytes() == precious


def test_other_pixels_than_the_manifest_says_are_an_error(drawn, images, tmp_path):
    own = drawn.only(["brightness"])
    column = own.table.schema.get_field_index("pixels")
    other = pa.array([1] * len(own), pa.uint64())
    wrong = replace(own, table=own.table.set_column(column, "pixels", other))
    with pytest.raises(ec.UsageError, match="pixels of row"):
        render_testset(wrong, images, CPU, tmp_path, silent)
    assert not files(tmp_path)


# Saving and reading


def test_a_manifest_comes_back_exactly(drawn, tmp_path):
    drawn.save(tmp_path / "t.parquet")
    again = ec.read_testset(tmp_path / "t.parquet")
    assert again.table.equals(drawn.table) and again.table.schema.equals(SCHEMA)
    assert again.plan.settings() == drawn.plan.settings()
    assert again.header == drawn.header
    assert again.header.versions["eyechart"] == ec.__version__


def test_the_rows_of_a_manifest_are_those_that_were_drawn(images, drawn, tmp_path):
    drawn.save(tmp_path / "t.parquet")
    groups = ec.read_testset(tmp_path / "t.parquet").samples(images)
    planned = plan_samples(images, drawn.plan)
    assert [samples.name for samples in groups] == [samples.name for samples in planned]
    for own, theirs in zip(groups, planned, strict=True):
        for name in ("row", "image", "draw", "severity"):
            np.testing.assert_array_equal(getattr(own, name), getattr(theirs, name))
        assert own.values.keys() == theirs.values.keys()
        for name, values in own.values.items():
            np.testing.assert_array_equal(values, theirs.values[name])


def test_a_manifest_of_other_images_is_rejected(drawn, tmp_path):
    others = save_images(tmp_path / "others", each=2)
    image_file(others / "red" / "noise.png", 4, (40, 40))
    with pytest.raises(ec.UsageError) as rejected:
        drawn.samples(ec.load_images(others, "native"))
    assert "drawn from other images" in str(rejected.value)
    assert "red/noise.png" in str(rejected.value)


def test_a_manifest_of_another_stimulus_is_rejected(drawn, folder):
    with pytest.raises(ec.UsageError, match=r"stimulus native.*loaded as 224"):
        drawn.samples(ec.load_images(folder))


def test_a_corruption_that_changed_since_is_rejected(drawn, images):
    own = drawn.only(["brightness"])
    column = own.table.schema.get_field_index("version")
    older = own.table.set_column(column, "version", pa.array([0] * len(own), pa.int32()))
    with pytest.raises(ec.UsageError, match="older version of vcr/brightness"):
        replace(own, table=older).samples(images)


def foreign(path):
    pq.write_table(pa.table({"row": [1]}), path)


def other_schema(path):
    table = pa.table({"row": [1]}).replace_schema_metadata(
        {testset.HEADER: json.dumps({"schema": 999, "plan": {}})}
    )
    pq.write_table(table, path)


@pytest.mark.parametrize(
    ("make", "word"),
    [
        (foreign, "not a test set"),
        (other_schema, "schema 999"),
        (lambda path: path.write_bytes(b"PAR1"), "not a Parquet file"),
        (lambda path: path.mkdir(), "not a Parquet file"),
        (lambda path: None, "No such file"),
    ],
)
def test_a_file_that_is_no_test_set_is_rejected(tmp_path, make, word):
    make(tmp_path / "t.parquet")
    with pytest.raises(ec.UsageError, match=word):
        ec.read_testset(tmp_path / "t.parquet")


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"n": 0}, "n must be"),
        ({"n": 2.5}, "n must be"),
        ({"seed": 0.5}, "seed must be"),
        ({"seed": 2**64}, "seed must be"),
        ({"sampling": "parameter"}, "Did you mean 'parameters'"),
        ({"labels": "entry"}, "label space"),
        ({"suite": "vrc"}, "Did you mean 'vcr'"),
        ({"corruptions": ["gausian_noise"]}, "gaussian_noise"),
    ],
)
def test_a_plan_that_cannot_be_carried_out_is_rejected(images, options, word):
    with pytest.raises(ec.UsageError, match=word):
        ec.sample_testset(images, **{"n": 4, **options})


def test_suites_with_published_severities_have_one_sampling():
    for suite in ("imagenet-c", "imagenet-c-extra", "geometry", "imagenet-3dcc"):
        assert Plan(suite).sampling == "levels"
    for suite in ("vcr", "vcr@paper", "imagenet-noc", "noc-candidates"):
        assert Plan(suite).sampling == "parameters"
    Plan("imagenet-c", sampling="levels").check()


@pytest.mark.parametrize("sampling", ["pilot", "parameters"])
def test_a_sampling_that_a_suite_does_not_have_is_rejected(sampling):
    with pytest.raises(ec.UsageError, match="imagenet-c is applied at its published severities"):
        Plan("imagenet-c", sampling=sampling).check()
    with pytest.raises(ec.UsageError, match="needs a suite with published severities, which vcr"):
        Plan("vcr", sampling="levels").check()


def test_a_run_that_was_stopped_goes_on_and_makes_nothing_twice(images, drawn, tmp_path):
    plan = Plan(n=10, seed=3)
    done = []

    def stop(count, message):
        done.append(count)
        if sum(done) > 60:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        testset.make_testset(images, plan, CPU, tmp_path, stop)
    there = testset.PartFiles(tmp_path).done()
    assert 60 < len(there) < len(drawn)
    told = []
    made = testset.make_testset(images, plan, CPU, tmp_path, lambda n, _: told.append(n))
    assert told[0] == len(there) and sum(told) == len(drawn)
    assert made.table.equals(drawn.table)


# What it covers


def counted(values, corruption="fog"):
    return pa.table(
        {"corruption": [corruption] * len(values), "delta_v": pa.array(values, pa.float64())}
    )


def test_coverage_of_a_hand_counted_example():
    """Least 2: of 39 bins 0, 12 and 38 have two; bin 20 has one; of 40 bins only 0 and 39 do."""
    values = [0.0, 0.02, 12 / 39 + 1e-9, 13 / 39 - 1e-9, 20.5 / 39, 0.99, 1.0, None]
    (found,) = coverage_of(counted(values), min_per_bin=2)
    # 12.000…/39 is 0.3077 = 12.3/40, and 13/39 is 0.3333 = 13.3/40: two different bins
    assert found.rows == 8
    assert found.paper == 3 / 39
    assert found.equal == 2 / 40
    assert found.reached == 3 / 4
    assert found.largest == 1.0
    histogram = [0] * 39
    histogram[0], histogram[12], histogram[20], histogram[38] = 2, 2, 1, 2
    assert list(found.histogram) == histogram


@pytest.mark.parametrize("k", [1, 13, 23, 39])
def test_published_coverages_are_shares_of_39_bins(k):
    """23/39 is the printed 0.590 of brightness in ImageNet-C: k bins, each with 20 rows."""
    values = np.repeat((np.arange(k) + 0.5) / 39, 20)
    (found,) = coverage_of(counted(values.tolist()))
    assert found.paper == k / 39 and found.reached == 1
    (fewer,) = coverage_of(counted(values.tolist()), min_per_bin=21)
    assert fewer.paper == fewer.equal == fewer.reached == 0


def test_clean_rows_have_no_coverage_and_corruptions_have_their_own(drawn):
    found = drawn.coverage(min_per_bin=1)
    assert [own.corruption for own in found] == drawn.corruptions
    for own in found:
        values = np.array([row["delta_v"] for row in rows(drawn, own.corruption)])
        assert own.largest == values.max() and sum(own.histogram) == own.rows == 10
        assert own.paper == len(set(np.floor(values * 39))) / 39


def test_an_image_of_one_gray_has_no_visual_change_and_the_others_have(tmp_path):
    Image.new("RGB", (40, 40), (90, 90, 90)).save(tmp_path / "flat.png")
    image_file(tmp_path / "noise.png", 1, (40, 40))
    found = ec.sample_testset(tmp_path, n=4, stimulus="native", corruptions=["gaussian_noise"])
    for row in rows(found):
        assert (row["delta_v"] is None) == (row["image"] == "flat.png")


def test_rows_do_not_depend_on_torch_threads(images, drawn):
    before = torch.get_num_threads()
    torch.set_num_threads(2 if before == 1 else 1)
    try:
        again = ec.sample_testset(images, n=10, seed=3)
    finally:
        torch.set_num_threads(before)
    assert again.table["pixels"].equals(drawn.table["pixels"])
    np.testing.assert_allclose(
        again.table["delta_v"].to_numpy(), drawn.table["delta_v"].to_numpy(), atol=1e-5, rtol=0
    )


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ("blur", "corruptions must be a list of names, got 'blur'."),
        (3, "corruptions must be a list of names, got 3."),
        ([3], "each of corruptions must be a string, got 3."),
        (["blur", len], "each of corruptions must be a string, got a builtin_function_or_method."),
        ([lambda images: images], "each of corruptions must be a string, got a function."),
    ],
)
def test_corruptions_are_a_list_of_names(wrong, sentence):
    with pytest.raises(ec.UsageError) as error:
        ec.sample_testset("anywhere", n=4, corruptions=wrong)
    assert str(error.value) == sentence


def test_a_test_set_is_read_from_a_path():
    with pytest.raises(ec.UsageError, match="the path of a file"):
        ec.read_testset(5)


@pytest.mark.parametrize("name", ["clean", "a--b", "a[1]", "", "two words"])
def test_a_corruption_that_cannot_name_a_file_is_rejected(tmp_path, name):
    text = (
        "name: own\ntitle: own\nsource: me\ncorruptions:\n"
        f"  - {{name: '{name}', function: brightness, group: light, domain: {{amount: [0, 1]}}}}\n"
    )
    (tmp_path / "own.yaml").write_text(text)
    with pytest.raises(ec.UsageError, match="name must consist of"):
        ec.sample_testset("anywhere", str(tmp_path / "own.yaml"), n=4)
