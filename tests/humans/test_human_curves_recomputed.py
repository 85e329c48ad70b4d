"""Human curves, areas and numbers of responses, computed a second time from the exported file.

The second computation uses NumPy alone, see `curves_by_hand`.
"""

import json
from collections import Counter

import numpy as np
import pyarrow.parquet as pq
import pytest

import eyechart as ec
from curves_by_hand import CATEGORIES, VCR, area_by_hand, curve_by_hand, vcr_table
from eyechart.humans.reference import find_reference
from eyechart.images.labels.imagenet import wordnet_ids
from eyechart.reports.series.human_curves import reference_line
from eyechart.scores.scoring import Fit
from small_models import TINTS, save_images

MIN_RESPONSES = 150
"""The documented minimum of responses to corrupted images."""


def columns_of(path):
    """Return the columns of an exported response file as arrays."""
    table = pq.read_table(path)
    return {name: np.array(table[name].to_pylist()) for name in table.column_names}


@pytest.fixture
def exported(run, tmp_path):
    def make(table, *options):
        out = tmp_path / "humans.parquet"
        result = run("humans", "import", table, *options, "--out", out)
        assert result.status == 0, result.err
        return out

    return make


def printed_areas(run, path, *options):
    """Return the last seven cells of each row that `humans areas` prints, by score."""
    result = run("humans", "areas", path, "--n-bootstrap", 20, *options)
    assert result.status == 0, result.err
    rows = [line.split() for line in result.out.splitlines()]
    return {row[1]: row[2:] for row in rows if len(row) > 3 and row[1] in ("R_a", "R_p")}


@pytest.mark.parametrize("lowest", [0.0, 0.6])
@pytest.mark.parametrize("has_images", [True, False])
def test_an_accuracy_curve_starts_at_the_clean_accuracy_of_its_table(
    run, tmp_path, exported, lowest, has_images
):
    table = vcr_table(tmp_path / "vcr.csv", lowest=lowest)
    if not has_images:
        lines = table.read_text("utf-8").splitlines()
        table.write_text("\n".join(line.split(",", 1)[1] for line in lines), encoding="utf-8")
    path = exported(table, "--format", "vcr", "--corruption", "frost")
    data = columns_of(path)
    clean = (data["clean_response"] == data["label"]).mean()
    corners = curve_by_hand(data["delta_v"], data["response"] == data["label"], clean)
    area = area_by_hand(*corners)

    reference = find_reference(str(path))
    curve = reference.curve("frost", n_bootstrap=10)
    grid = np.linspace(0, 1, 2001)
    np.testing.assert_allclose(curve(grid), np.interp(grid, *corners), atol=1e-12)
    assert curve.left == pytest.approx(clean) and 0.91 < clean < 0.95
    assert curve.area == pytest.approx(area, abs=1e-12)
    # what the commands print and draw is this curve
    printed = printed_areas(run, path)["R_a"]
    assert (printed[0], printed[4], printed[-1]) == (f"{area:.3f}", f"{clean:.3f}", "1,500")
    line = reference_line(reference, "frost", "accuracy", 0.95, Fit(n_bootstrap=10))
    assert line.values[0] == pytest.approx(np.interp(0, *corners))
    assert reference.left_end("frost") == (pytest.approx(clean), True)


def test_responses_to_clean_images_shown_apart_decide_where_the_curve_starts(
    run, tmp_path, exported
):
    """The column of clean responses repeats some of these responses; it is not counted again."""
    rows = [f"frost,p{n % 9},i{n},dog,dog,{(n + 1) / 400:.4f},dog" for n in range(400)]
    rows += [f"clean,q{n % 5},i{n},dog,{'dog' if n % 4 else 'cat'},0," for n in range(400)]
    table = tmp_path / "trials.csv"
    table.write_text(
        "corruption,subject,image,label,response,delta_v,clean_response\n" + "\n".join(rows),
        encoding="utf-8",
    )
    path = exported(table, "--format", "trials")
    assert find_reference(str(path)).curve("frost", n_bootstrap=2).left == pytest.approx(0.75)


HEAD = "subj,session,trial,rt,object_response,category,condition,imagename,delta_v\n"


def sessions(path, n_shared, seed=1):
    """Write trials of six humans; `n_shared` corrupted images were shown clean to another human."""
    random = np.random.default_rng(seed)
    lines = []

    def trial(subject, image, delta_v):
        label = CATEGORIES[image % len(CATEGORIES)]
        other = CATEGORIES[(image + 1) % len(CATEGORIES)]
        response = label if random.random() < 0.95 - 0.8 * delta_v else other
        lines.append(f"s{subject},1,1,0.5,{response},{label},x,im{image}.png,{delta_v:.4f}\n")

    for image in range(900):
        trial(image % 6, image, 0.02 + 0.97 * random.random())
    # of the participants, two are never the other human of a shared image
    shared = [image for image in range(900) if image % 6 < 4][:n_shared]
    for image in (*shared, *range(1000, 1060)):
        trial(4 + image % 2, image, 0)
    path.write_text(HEAD + "".join(lines), encoding="utf-8")
    return path


def consistency_by_hand(data):
    """Return who responded like another human to the clean image; NaN if there is no other human.

    No image has two clean responses here, so that there is no tie to break.
    """
    clean = {
        image: (subject, response)
        for image, subject, response, delta_v in zip(
            data["image"], data["subject"], data["response"], data["delta_v"], strict=True
        )
        if delta_v == 0
    }
    assert max(Counter(data["image"][data["delta_v"] == 0].tolist()).values()) == 1
    same = []
    for image, subject, response in zip(
        data["image"], data["subject"], data["response"], strict=True
    ):
        other = clean.get(image, (subject, ""))
        same.append(np.nan if other[0] == subject else float(other[1] == response))
    return np.array(same)


def start_by_hand(data, hits):
    """Return the rate at which a curve starts: each response starts at its own image's clean rate.

    Responses whose image nobody saw clean start at the mean over clean images. Returns None if no
    clean response is known to be a hit or not.
    """
    known = ~np.isnan(hits)
    clean = known & (data["delta_v"] == 0)
    if not clean.any():
        return None
    rates = {
        image: hits[clean & (data["image"] == image)].mean()
        for image in set(data["image"][clean].tolist())
    }
    mean = np.mean(list(rates.values()))
    return np.mean([rates.get(image, mean) for image in data["image"][known].tolist()])


def test_each_property_counts_its_own_responses_and_humans(run, tmp_path, exported):
    table = sessions(tmp_path / "mvh.csv", n_shared=400)
    path = exported(table, "--format", "model-vs-human", "--corruption", "frost")
    data = columns_of(path)
    same = consistency_by_hand(data)
    known = ~np.isnan(same)
    n_humans = len(set(data["subject"][known].tolist()))
    assert (len(data["image"]), known.sum(), n_humans) == (1360, 400, 4)

    reference = find_reference(str(path))
    printed = printed_areas(run, path)
    right = (data["response"] == data["label"]).astype(float)
    for metric, score, hits, humans in (
        ("accuracy", "R_a", right, 6),
        ("consistency", "R_p", same, n_humans),
    ):
        counted = ~np.isnan(hits)
        n = int(counted.sum())
        assert reference.count("frost", metric) == n
        assert reference.n_participants("frost", metric) == humans
        start = start_by_hand(data, hits)
        x, y = curve_by_hand(data["delta_v"][counted], hits[counted], start)
        area = area_by_hand(x, y)
        curve = reference.curve("frost", metric, n_bootstrap=2)
        assert curve.area == pytest.approx(area, abs=1e-12)
        grid = np.linspace(0, 1, 2001)
        np.testing.assert_allclose(curve(grid), np.interp(grid, x, y), atol=1e-12)
        assert printed[score][-2:] == [str(humans), f"{n:,}"]
        assert printed[score][0] == f"{area:.3f}"
    listed = run("humans", "list", path).out
    assert f"6 humans, 1,360 responses, consistency known for {known.sum()}, " in listed


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Tinted images in folders of four classes of ImageNet."""
    home = save_images(tmp_path_factory.mktemp("images") / "photos", each=3)
    for tint, index in zip(TINTS, (404, 294, 281, 409), strict=True):
        (home / tint).rename(home / wordnet_ids()[index])
    return home


SHOWN = {"cat": 0.7, "airplane": 0.1, "bear": 0.1, "clock": 0.1}
"""Share of each category in an uneven experiment; cats are recognized better than the others."""


def uneven_table(path, shares, count=1600):
    random = np.random.default_rng(3)
    labels = np.repeat(list(shares), [round(share * count) for share in shares.values()])
    lines = [VCR]
    for index, label in enumerate(labels.tolist()):
        delta_v = random.random()
        lost = 0.1 if label == "cat" else 0.8
        response = label if random.random() < 0.98 - lost * delta_v else "oven"
        clean = label if random.random() < 0.95 else "oven"
        lines.append(f"i{index},{clean},{response},{label},{delta_v:.4f}")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.mark.parametrize("shares", [SHOWN, dict.fromkeys(SHOWN, 0.25)])
def test_humans_who_saw_other_proportions_of_categories_are_reported_with_both_areas(
    run, tmp_path, exported, folder, shares
):
    table = uneven_table(tmp_path / "uneven.csv", shares)
    path = exported(table, "--format", "vcr", "--corruption", "frost")
    data = columns_of(path)
    right = (data["response"] == data["label"]).astype(float)
    clean = (data["clean_response"] == data["label"]).astype(float)
    areas = []
    for weights in (
        np.ones(len(right)),
        np.array([0.25 / shares[label] for label in data["label"].tolist()]),
    ):
        start = np.average(clean, weights=weights)
        areas.append(area_by_hand(*curve_by_hand(data["delta_v"], right, start, weights)))
    own, even = areas
    sentence = f"R_a of humans is {own:.3f}, and {even:.3f} in those of"
    told = run("humans", "areas", path, "--n-bootstrap", 20).out
    results = evaluate(folder, path)
    warned = [text for text in results.warnings if "other proportions" in text]
    if shares is SHOWN:
        assert own - even > 0.1
        assert f"{sentence} a test with equal numbers of each" in " ".join(told.split())
        (warning,) = warned
        assert f"{sentence} this test" in warning and "cat in 70 % instead of 25 %" in warning
    else:
        assert own == pytest.approx(even, abs=1e-9) and not warned
        assert "other proportions" not in told


def evaluate(folder, humans):
    return ec.evaluate(
        "small_models:thousand", folder, suite="vcr", stimulus="native", labels="entry16",
        corruptions=["frost"], humans=str(humans), n=60, n_bootstrap=20,
    )  # fmt: skip


def evaluated(folder, humans, out):
    """Return the scores under frost, as results.json has them."""
    results = evaluate(folder, humans)
    results.save(str(out))
    record = json.loads((out / "results.json").read_text("utf-8"))
    return record["models"][0]["spaces"]["entry16"]["corruptions"]["vcr/frost"]


def test_a_comparison_with_humans_states_the_responses_of_its_property(tmp_path, exported, folder):
    table = sessions(tmp_path / "mvh.csv", n_shared=400)
    path = exported(table, "--format", "model-vs-human", "--corruption", "frost")
    scores = evaluated(folder, path, tmp_path / "run")
    of = {name: scores[name]["humans"] for name in ("accuracy", "consistency")}
    assert (of["accuracy"]["observers"], of["accuracy"]["responses"]) == (6, 1360)
    assert (of["consistency"]["observers"], of["consistency"]["responses"]) == (4, 400)
    assert "(6 humans, 1,360 responses)" in of["accuracy"]["about"]
    assert "(4 humans, consistency known for 400 of 1,360 responses)" in of["consistency"]["about"]
    lines = (tmp_path / "run" / "results.csv").read_text("utf-8").splitlines()
    assert ["known for 400 of 1,360 responses" in line for line in lines[1:]] == [False, True]


@pytest.mark.parametrize("n_shared", [MIN_RESPONSES - 1, MIN_RESPONSES])
def test_too_few_responses_that_count_for_a_property_give_no_score(
    run, tmp_path, exported, folder, n_shared
):
    table = sessions(tmp_path / "mvh.csv", n_shared=n_shared)
    path = exported(table, "--format", "model-vs-human", "--corruption", "frost")
    scores = evaluated(folder, path, tmp_path / "run")
    is_enough = n_shared >= MIN_RESPONSES
    assert scores["accuracy"]["humans"] is not None
    assert (scores["consistency"]["humans"] is not None) == is_enough
    note = "consistency is known for 149 responses to corrupted images in frost of humans"
    assert (note in scores["consistency"]["human_note"]) != is_enough
    printed = printed_areas(run, path)
    assert printed["R_p"][-1] == str(n_shared) and (printed["R_p"][0] == "–") != is_enough
    drawn = run("humans", "plot", path, "--out", tmp_path / "humans.svg", "--bins", 5)
    assert drawn.status == 0 and (note in drawn.out) != is_enough
