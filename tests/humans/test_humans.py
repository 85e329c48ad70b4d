"""People's answers: records, importers, placements, references and what may be transferred."""

import csv
import json
from collections import Counter

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

import eyechart as ec
from eyechart.core.csv_table import packaged_rows
from eyechart.humans.human_fit import consistency, corrected_curve, corrected_for_chance
from eyechart.humans.human_responses import (
    Judgement,
    make_responses,
    read_responses,
    write_responses,
)
from eyechart.humans.importing import import_responses
from eyechart.humans.placement import (
    EXPERIMENTS,
    LEVELS,
    apply_condition,
    find_placement,
    measure_conditions,
    measure_placements,
    strength_of,
)
from eyechart.humans.reference import Reference, find_reference
from eyechart.humans.transfer import published_classes
from eyechart.scores.similar import bands_apart
from eyechart.stats.curve import fit_curve
from outside import outside
from places import DATA
from real_images import real_images

VCR = "orig_pred,transf_pred,label,vd_score\n"
GRID = np.linspace(0, 1, 501)

# mean Δv of the conditions on eight other photographs, and accuracy of the people of 2021
# (model-vs-human), who are others than those of the packaged reference
PUBLISHED = {
    "contrast": (
        [0, 0.24, 0.38, 0.55, 0.64, 0.76, 0.83, 0.94],
        [0.856, 0.827, 0.795, 0.734, 0.595, 0.353, 0.150, 0.062],
    ),
    "lowpass": (
        [0, 0.27, 0.64, 0.78, 0.84, 0.89, 0.93, 0.97],
        [0.920, 0.914, 0.795, 0.630, 0.588, 0.380, 0.200, 0.061],
    ),
    "noise": (
        [0.38, 0.56, 0.64, 0.75, 0.84, 0.89, 0.93, 0.95],
        [0.797, 0.834, 0.764, 0.770, 0.647, 0.398, 0.148, 0.070],
    ),
}

TRIALS = """corruption,subject,image,label,response,delta_v,clean_response
frost,ann,1,dog,dog,0.5,dog
frost,ann,2,cat,,0.6,cat
frost,bob,1,dog,cat,0.5,dog
frost,bob,2,cat,dog,,dog
"""

COUNTS = ("eyechart.humans", "data", "geirhos2018_counts.csv")


@pytest.fixture
def write(tmp_path):
    def call(text, name="table.csv"):
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return path

    return call


def simulated(count, seed=0, images=None, corruption="frost"):
    """Answers of people whose accuracy falls along a line from .95 to .15."""
    numbers = np.random.default_rng(seed)
    change = numbers.random(count)
    right = numbers.random(count) < 0.95 - 0.8 * change
    return make_responses(
        count,
        source="simulated",
        choices=16,
        label_space="entry16",
        corruption=np.full(count, corruption),
        image=np.full(count, "") if images is None else images,
        label=np.full(count, "dog"),
        response=np.where(right, "dog", "cat"),
        delta_v=change,
    )


# chance


def test_correction_for_chance_has_its_closed_form():
    rates = np.array([1.0, 0.75, 0.5, 0.2])
    np.testing.assert_allclose(corrected_for_chance(rates, 2), [1, 0.5, 0, 0])
    np.testing.assert_allclose(corrected_for_chance([1, 17 / 32, 1 / 16], 16), [1, 0.5, 0])
    with pytest.raises(ec.UsageError, match="at least 2"):
        corrected_for_chance(rates, 1)


@pytest.mark.parametrize("choices", [2, 16])
def test_a_corrected_curve_is_the_curve_corrected_everywhere(choices):
    responses = simulated(3000)
    curve = fit_curve(responses.delta_v, responses.correct, anchor=0.95, n_bootstrap=20)
    corrected = corrected_curve(curve, choices)
    expected = corrected_for_chance(curve(GRID), choices)
    np.testing.assert_allclose(corrected(GRID), expected, atol=1e-9)
    fine = corrected_for_chance(curve(np.linspace(0, 1, 20_001)), choices)
    assert corrected.area == pytest.approx(np.trapezoid(fine, dx=1 / 20_000), abs=1e-6)
    for own, other in zip(corrected.replicates, curve.replicates, strict=True):
        np.testing.assert_allclose(own(GRID), corrected_for_chance(other(GRID), choices), atol=1e-9)


# placement


def test_contrast_and_low_pass_are_what_was_published():
    gray = np.arange(0, 250, 10, dtype=np.uint8).reshape(5, 5)
    lower = apply_condition(gray, "contrast", 0.1)
    np.testing.assert_array_equal(lower, np.rint((0.45 + 0.1 * gray / 255) * 255))
    np.testing.assert_array_equal(apply_condition(gray, "contrast", 1), gray)
    np.testing.assert_array_equal(apply_condition(gray, "lowpass", 0), gray)
    # beyond the border lies the mean grey: a picture of that grey stays as it is, black brightens
    flat = np.full((60, 60), 113, dtype=np.uint8)
    assert np.ptp(apply_condition(flat, "lowpass", 5)) == 0
    black = apply_condition(np.zeros((60, 60), dtype=np.uint8), "lowpass", 5)
    # the mean gray fills three quarters of the window at a corner
    assert black[0, 0] == pytest.approx(0.4423 * 255 * 0.75, abs=8) and black[30, 30] == 0


def test_noise_is_uniform_on_top_of_a_contrast_of_30_percent():
    gray = np.full((200, 200), 128, dtype=np.uint8)
    lower = apply_condition(gray, "contrast", 0.3)
    np.testing.assert_array_equal(apply_condition(gray, "noise", 0.0), lower)
    change = (apply_condition(gray, "noise", 0.2).astype(float) - lower) / 255
    assert np.abs(change).max() <= 0.2 + 1 / 255
    assert change.mean() == pytest.approx(0, abs=0.005)
    assert change.std() == pytest.approx(0.2 / np.sqrt(3), rel=0.02)
    np.testing.assert_array_equal(*(apply_condition(gray, "noise", 0.9) for _ in range(2)))


def test_conditions_lie_where_they_were_measured_before():
    grays = [np.asarray(Image.fromarray(photo).convert("L")) for photo in real_images()]
    measured = measure_conditions(grays)
    for name, (means, _) in PUBLISHED.items():
        own = find_placement(name)
        for strength, mean in zip(EXPERIMENTS[name].strengths, means, strict=True):
            found = measured[name, strength]
            assert found.mean() == pytest.approx(mean, abs=0.05), (name, strength)
            # single photographs lie within the spread over 970 of them, or just beyond it
            low, middle, high = own.quantiles[strength][[0, len(LEVELS) // 2, -1]]
            assert low - 0.03 <= found.min() <= found.max() <= high + 0.03, (name, strength)
            assert middle == pytest.approx(mean, abs=0.03), (name, strength)


def test_a_placement_can_be_measured_on_ones_own_images(tmp_path):
    for number, photo in enumerate(real_images()[:2]):
        Image.fromarray(photo).save(tmp_path / f"{number}.png")
    placements, count = measure_placements([tmp_path])
    assert count == 2
    grays = [np.asarray(Image.open(path).convert("RGB")) for path in sorted(tmp_path.glob("*"))]
    # these are 224 px: to 256 and back to the middle 224
    small = [Image.fromarray(each).resize((256, 256), Image.BILINEAR) for each in grays]
    crops = [np.asarray(each.crop((16, 16, 240, 240))) for each in small]
    blurred = [apply_condition(_gray(each), "lowpass", 3) for each in crops]
    expected = [ec.delta_v(_gray(a), b) for a, b in zip(crops, blurred, strict=True)]
    ends = placements["lowpass"].quantiles[3][[0, -1]]
    np.testing.assert_allclose(ends, sorted(expected), atol=1e-9)


def _gray(rgb):
    red, green, blue = (rgb[..., place].astype(np.int64) for place in range(3))
    return ((9798 * red + 19235 * green + 3735 * blue + 16384) >> 15).astype(np.uint8)


def test_responses_are_spread_over_the_condition_and_not_put_at_its_mean():
    placement = find_placement("lowpass")
    values = placement.spread(3, 160)
    assert len(values) == 160 and (np.diff(values) >= 0).all()
    own = placement.quantiles[3]
    assert np.median(values) == pytest.approx(own[20], abs=1e-3)
    assert (values < own[10]).mean() == pytest.approx(0.25, abs=0.01)
    with pytest.raises(ec.UsageError, match="no condition 4; it has 0, 1, 3"):
        placement.spread(4, 1)
    assert strength_of("c05") == 0.05 and strength_of("0.35") == 0.35


# the packaged reference


def test_the_packaged_counts_are_those_of_the_publication():
    rows = list(packaged_rows(*COUNTS))
    totals = json.loads((DATA / "geirhos2018_totals.json").read_text("utf-8"))
    assert {name.partition("/")[0] for name in totals} == {"colour", "contrast", "lowpass", "noise"}
    for at, column in enumerate(("trials", "correct", "no_response")):
        added = Counter()
        for row in rows:
            added[f"{row['experiment']}/{row['condition']}"] += int(row[column])
        assert added == {name: numbers[at] for name, numbers in totals.items()}


def test_the_packaged_counts_of_every_observer_are_those_of_the_publication():
    rows = list(packaged_rows(*COUNTS))
    with outside("human", "geirhos_condition_counts.csv").open(encoding="utf-8") as file:
        theirs = {
            (row["experiment"], row["condition"], row["subj"]): row
            for row in csv.DictReader(file)
            if row["source"] == "geirhos2018" and row["experiment"] != "contrast-png"
        }
    assert len(theirs) == len(rows)
    for row in rows:
        other = theirs[row["experiment"], row["condition"], row["subject"]]
        for name in ("trials", "correct", "no_response"):
            assert row[name] == other[name]


def test_curves_start_at_the_accuracy_on_clean_images():
    reference = find_reference("geirhos")
    # right answers of all subjects to clean pictures, added up by hand
    own = {"lowpass": 825 / 960, "contrast": 693 / 800, "noise": (569 + 560 + 534) / 1920}
    for experiment, rate in own.items():
        curve = reference.curve(experiment, n_bootstrap=50)
        assert curve.left == pytest.approx(rate, abs=1e-9)
        assert reference.left_end(experiment)[1] == (experiment != "noise")
    # the noise experiment's clean pictures were shown to others, of whom no one is resampled
    assert np.ptp(reference.curve("noise", n_bootstrap=50).band(0.0)) < 1e-6
    assert np.ptp(reference.curve("lowpass", n_bootstrap=50).band(0.0)) > 0.02


@pytest.mark.parametrize("experiment", PUBLISHED)
def test_curves_go_through_the_conditions(experiment):
    reference = find_reference("geirhos")
    curve = reference.curve(experiment, n_bootstrap=2)
    assert curve.bins.counts.sum() == reference.count(experiment) >= 6400
    assert np.diff(curve(GRID)).max() <= 1e-9
    rows = [row for row in packaged_rows(*COUNTS) if row["experiment"] == experiment]
    for condition in {row["condition"] for row in rows}:
        own = [row for row in rows if row["condition"] == condition]
        rate = sum(int(row["correct"]) for row in own) / sum(int(row["trials"]) for row in own)
        changes = find_placement(experiment).spread(strength_of(condition), 160)
        assert curve(changes).mean() == pytest.approx(rate, abs=0.08), condition


@pytest.mark.parametrize("experiment", PUBLISHED)
def test_other_humans_in_the_same_experiment_did_much_the_same(experiment):
    changes, rates = PUBLISHED[experiment]
    gaps = np.abs(find_reference("geirhos").curve(experiment, n_bootstrap=2)(changes) - rates)
    assert gaps.mean() < 0.07 and gaps.max() < 0.13


def test_only_accuracy_was_measured_in_the_packaged_reference():
    assert find_reference("geirhos").curve("contrast", "consistency") is None


def test_trials_of_the_publication_lead_to_the_packaged_counts():
    noise = "generalization-humans-DNNs_noise-experiment.csv.gz"
    trials = outside("human", "geirhos2018_trials", noise)
    responses = import_responses([trials], "model-vs-human", placement="noise")
    assert (responses.choices, responses.label_space) == (16, "entry16")
    packaged = {
        (row["condition"], row["subject"]): row
        for row in packaged_rows(*COUNTS)
        if row["experiment"] == "noise"
    }
    assert len(packaged) == 40
    for (condition, subject), row in packaged.items():
        own = (responses.condition == condition) & (responses.subject == subject)
        assert own.sum() == int(row["trials"])
        assert responses.correct[own].sum() == int(row["correct"])
        assert (responses.response[own] == "").sum() == int(row["no_response"])
    # and to the same curve, but for the clean pictures, which this experiment did not show
    left = find_reference("geirhos").left_end("noise")[0]
    imported = Reference("imported", responses).curve("noise", anchor=left, n_bootstrap=2)
    packaged_curve = find_reference("geirhos").curve("noise", n_bootstrap=2)
    assert imported.area == pytest.approx(packaged_curve.area, abs=0.01)


# transfer


@pytest.mark.parametrize(
    ("corruption", "experiment", "kind"),
    [
        ("gaussian_noise", "noise", "transferred"),
        ("vcr/uniform_noise", "noise", "transferred"),
        ("vcr/shot_noise", "noise", "transferred"),
        ("impulse_noise", "noise", "transferred"),
        ("gaussian_blur", "lowpass", "direct"),
        ("vcr/gaussian_blur", "lowpass", "direct"),
        ("vcr/blur", "lowpass", "transferred"),
        ("vcr/median_blur", "lowpass", "transferred"),
        ("glass_blur", "lowpass", "transferred"),
        ("contrast", "contrast", "direct"),
        ("vcr/motion_blur", None, None),
        ("zoom_blur", None, None),
        ("speckle_noise", None, None),
        ("frost", None, None),
        ("jpeg_compression", None, None),
        ("noc/contrast", None, None),
        ("noc/blur", None, None),
    ],
)
def test_humans_speak_for_a_corruption_only_within_its_class(corruption, experiment, kind):
    reference = find_reference("geirhos")
    assert reference.match(corruption) == experiment
    assert reference.kind(corruption) == kind
    curve = reference.curve(corruption, "accuracy", n_bootstrap=2)
    if experiment is None:
        assert curve is None and reference.describe(corruption) == "no human reference"
    else:
        assert curve is reference.curve(experiment, "accuracy", n_bootstrap=2)
        assert ("transferred within the" in reference.describe(corruption)) == (
            kind == "transferred"
        )


def test_similar_classes_are_made_of_corruptions_that_there_are():
    vcr = set(ec.list_corruptions(suite="vcr"))
    found = published_classes()
    for own in found.classes:
        assert {f"vcr/{name}" for name in own.members} <= vcr
    assert {f"vcr/{name}" for name in found.tested} == vcr
    assert found.members_of("frost") == ("frost",)


def test_one_line_says_whose_responses_they_are():
    assert find_reference("geirhos").describe("shot_noise") == (
        "uniform noise of geirhos (5 humans, 6,400 responses), transferred within the noise class"
        " (published)"
    )


def test_the_corruption_itself_comes_before_a_similar_one():
    responses = simulated(400, corruption="shot_noise")
    both = make_responses(
        1000,
        source="simulated",
        choices=16,
        label_space="entry16",
        corruption=np.repeat(["shot_noise", "gaussian_noise"], [400, 600]),
        delta_v=np.tile(responses.delta_v, 3)[:1000],
        correct=np.tile(responses.correct, 3)[:1000],
    )
    reference = Reference("both", both)
    assert (reference.match("shot_noise"), reference.kind("shot_noise")) == ("shot_noise", "direct")
    # a bare name is VCR's corruption too: Δv is what says how strong it is
    assert reference.match("vcr/shot_noise") == "shot_noise"
    assert reference.kind("vcr/shot_noise") == "direct"
    # of its class, and the experiment with most answers
    assert reference.match("vcr/impulse_noise") == "gaussian_noise"
    assert reference.kind("vcr/impulse_noise") == "transferred"


def test_two_choices_never_meet_sixteen_unless_asked(write):
    table = write("IQA,Accuracy,Count,Num_Accs\n0.1,1,40,40\n0.5,0.75,40,30\n0.9,0.5,40,20\n")
    responses = import_responses([table], "counts", corruption="frost")
    assert responses.choices == 2
    reference = Reference("cars", responses)
    assert reference.for_choices(2) is reference
    with pytest.raises(ec.UsageError, match="Humans had 2 choices in cars, not 16"):
        reference.for_choices(16)
    corrected = reference.for_choices(16, chance_correct=True)
    assert "corrected for chance (2 choices)" in corrected.describe("frost")
    assert "chance" not in reference.describe("frost")
    own, other = (each.curve("frost", n_bootstrap=5) for each in (reference, corrected))
    np.testing.assert_allclose(other(GRID), corrected_for_chance(own(GRID), 2), atol=1e-9)


# tables of others


def test_a_table_of_trials_is_counted_as_by_hand(write):
    responses = import_responses([write(TRIALS)], "trials")
    np.testing.assert_array_equal(responses.correct, [1, 0, 0, 0])
    # no answer is none of the clean one's either
    np.testing.assert_array_equal(responses.consistent, [1, 0, 0, 1])
    np.testing.assert_array_equal(responses.delta_v, [0.5, 0.6, 0.5, np.nan])
    assert (responses.choices, responses.label_space) == (16, "entry16")
    assert responses.experiments == ("frost",)
    assert Reference("own", responses).n_participants("frost") == 2


def test_a_table_with_changes_of_its_own_needs_no_placement(write):
    head = "subj,Session,trial,rt,object_response,category,condition,imagename,delta_v\n"
    rows = "a,1,1,0.5,dog,dog,x,01_n02085620_7.png,0.25\na,1,2,NaN,na,cat,x,other.png,0.5\n"
    responses = import_responses([write(head + rows)], "model-vs-human", corruption="frost")
    np.testing.assert_array_equal(responses.delta_v, [0.25, 0.5])
    np.testing.assert_array_equal(responses.correct, [1, 0])
    assert responses.image.tolist() == ["n02085620_7", "other.png"]


def test_the_columns_of_the_vcr_study_are_counted_as_by_hand(write):
    """Accuracy: transf_pred against label; consistency: against orig_pred; Δv: never below 0."""
    rows = "dog,dog,dog,0.5\ncat,cat,dog,0.25\ndog,,dog,1\ndog,dog,dog,-0.001\ncat,dog,dog,\n"
    responses = import_responses([write(VCR + rows)], "vcr", corruption="vcr/frost")
    np.testing.assert_array_equal(responses.correct, [1, 0, 0, 1, 1])
    np.testing.assert_array_equal(responses.consistent, [1, 1, 0, 1, 0])
    np.testing.assert_array_equal(responses.delta_v, [0.5, 0.25, 1, 0, np.nan])
    assert set(responses.corruption) == {"vcr/frost"} and responses.choices == 16
    named = VCR.replace("orig", "corruption,subject,orig") + "fog,ann,dog,dog,dog,0.5\n"
    own = import_responses([write(named)], "vcr")
    assert (own.corruption.tolist(), own.subject.tolist()) == (["fog"], ["ann"])


STIMULI = {
    "sketch_subject-01_session_1.csv": "0001_ske_s01_0_boat_00_boat-0068-sketch-23.png",
    "sketch_subject-02_session_1.csv": "0731_ske_s02_0_boat_00_boat-0068-sketch-23.png",
    "eidolonI_subject-01_session_1.csv": "0001_eid_s01_1-10-10_oven_10_n04111531_17072.png",
}


def test_experiments_without_a_visual_change_are_imported_and_make_no_curves(write):
    """Trial and observer are no part of which image it is; files are named by the experiment."""
    head = "subj,Session,trial,rt,object_response,category,condition,imagename\n"
    paths = [
        write(f"{head}s{place},1,1,0.5,boat,boat,{image.split('_')[3]},{image}\n", name)
        for place, (name, image) in enumerate(STIMULI.items())
    ]
    responses = import_responses(paths, "model-vs-human")
    assert responses.experiments == ("sketch", "eidolonI")
    assert np.isnan(responses.delta_v).all() and (responses.correct == 1).all()
    sketch = "boat-0068-sketch-23"
    assert responses.image.tolist() == [sketch, sketch, "n04111531_17072"]
    named = import_responses(paths, "model-vs-human", corruption="contrast")
    reference = Reference("own", named)
    # a corruption's name alone makes no curve
    assert reference.match("contrast") is None and reference.curve("contrast") is None


def test_counts_and_single_responses_lead_to_the_same_curve(write):
    counts = [(0.05, 30, 29), (0.3, 40, 31), (0.6, 50, 22), (0.9, 40, 5)]
    rows = "".join(f"{v},{k / n},{n},{k}\n" for v, n, k in counts)
    table = write("IQA,Accuracy,Count,Num_Accs\n" + rows)
    one = Reference("a", import_responses([table], "counts", corruption="frost", choices=16))
    lines = [
        f"frost,,,dog,{'dog' if place < k else 'cat'},{v}\n"
        for v, n, k in counts
        for place in range(n)
    ]
    table = write("corruption,subject,image,label,response,delta_v\n" + "".join(lines), "b.csv")
    two = Reference("b", import_responses([table], "trials"))
    assert one.count("frost") == two.count("frost") == 160
    first, second = (each.curve("frost", n_bootstrap=50) for each in (one, two))
    np.testing.assert_array_equal(first(GRID), second(GRID))
    assert first.interval() == second.interval()


def test_accuracy_and_consistency_of_the_same_responses_are_not_counted_twice(write):
    accuracy = write("IQA,Accuracy,Count,Num_Accs\n0.1,0.9,40,36\n0.9,0.5,40,20\n")
    preserved = write("IQA,Preserved,Count,Num_Pre\n0.1,0.8,30,24\n0.9,0.4,30,12\n", "p.csv")
    responses = import_responses([accuracy, preserved], "counts", corruption="frost")
    reference = Reference("both", responses)
    assert reference.count("frost") == 80
    assert reference.curve("frost", "accuracy", n_bootstrap=2)(0.1) == pytest.approx(0.9, abs=0.01)
    assert reference.curve("frost", "consistency", n_bootstrap=2)(0.9) == pytest.approx(
        0.4, abs=0.01
    )
    points = reference.points("frost", "consistency")
    assert [(point.n_responses, point.hits) for point in points] == [(30, 24), (30, 12)]


def test_published_counts_start_at_the_clean_accuracy_of_their_study():
    names = ("brightness", "contrast", "defocus_blur", "gaussian_noise", "jpeg_compression")
    paths = [outside("human", "hu2022", f"imagenet_c_p_{name}.csv") for name in names]
    responses = import_responses(paths, "counts", corruption="all")
    slight = responses.delta_v <= 0.05
    rate = np.average(responses.correct[slight], weights=responses.trials[slight])
    assert rate == pytest.approx(0.970, abs=0.015)


@pytest.mark.parametrize(
    ("form", "text", "told", "sentence"),
    [
        ("trials", "corruption,subject\nfrost,a\n", {}, "lacks the column image: it needs"),
        ("trials", "", {}, "lacks the column"),
        ("trials", TRIALS.splitlines()[0] + "\n", {}, "has no rows"),
        ("trials", TRIALS + "frost,ann\n", {}, "row 6: 2 cells instead of 7"),
        ("trials", TRIALS + 'frost,"ann\n', {}, "the file is not valid CSV"),
        ("trials", TRIALS + "frost,a,1,dog,dog,1.5,\n", {}, "row 6: delta_v must be .* got '1.5'"),
        ("trials", TRIALS + "frost,a,1,dog,dog,nan,\n", {}, "row 6: delta_v must be"),
        ("trials", TRIALS + "frost,a,1,dog,wolf,0.5,\n", {}, "row 6: 'wolf' is not one of the 16"),
        ("trials", TRIALS + "frost,a,1,wolf,dog,0.5,\n", {}, r"row 6: 'wolf' .* \(choices\)"),
        ("trials", TRIALS + "frost,a,1,,dog,0.5,\n", {}, "row 6: label is empty"),
        ("trials", TRIALS + ",a,1,dog,dog,0.5,\n", {}, "row 6: corruption is empty"),
        ("counts", "IQA,Count\n0,1\n", {}, "lacks the column Accuracy or Preserved"),
        ("counts", "IQA,Accuracy,Count,Num_Accs\n.1,1,2,2\n", {}, "pass a corruption"),
        (
            "counts",
            "IQA,Accuracy,Count,Num_Accs\n.1,0.5,2,2\n",
            {"corruption": "frost"},
            "row 2: accuracy is not num_accs / count",
        ),
        (
            "counts",
            "IQA,Accuracy,Count,Num_Accs\n.1,0.5,many,2\n",
            {"corruption": "frost"},
            "row 2: count must be a whole number, got 'many'",
        ),
        (
            "counts",
            "IQA,Accuracy,Count,Num_Accs\n.1,0,0,0\n",
            {"corruption": "frost"},
            "contains no responses",
        ),
        ("model-vs-human", "x\n1\n", {}, "lacks the column subj"),
        ("vcr", "orig_pred,transf_pred,label\ndog,dog,dog\n", {}, "lacks the column vd_score"),
        ("vcr", VCR + "dog,cat,dog,0.5\n", {}, "must name the corruption of the images: pass"),
        ("vcr", VCR + "dog,cat,dog,-3\n", {"corruption": "frost"}, "row 2: vd_score must be"),
        ("vcr", VCR + "dog,wolf,dog,0\n", {"corruption": "frost"}, "row 2: 'wolf' is not one of"),
        ("vcr", VCR + "wolf,dog,dog,0\n", {"corruption": "frost"}, "row 2: 'wolf' is not one of"),
        (
            "trials",
            TRIALS + "frost,a,1,dog,dog,0.5,wolf\n",
            {},
            "row 6: 'wolf' is not one of the 16",
        ),
        ("model-vs-human", "x\n1\n", {"placement": "noise"}, "lacks the column subj"),
        ("model-vs-human", "x\n1\n", {"placement": "nois"}, "Did you mean 'noise'"),
        (
            "model-vs-human",
            "subj,object_response,category,condition,imagename\na,dog,dog,0.11,x\n",
            {"placement": "noise"},
            "row 2: The placement 'noise' has no condition 0.11",
        ),
        (
            "model-vs-human",
            "subj,object_response,category,condition,imagename\na,dog,dog,strong,x\n",
            {"placement": "noise"},
            "row 2: 'strong' is not a condition",
        ),
        ("trial", TRIALS, {}, "Did you mean 'trials'"),
    ],
)
def test_a_table_that_cannot_be_used_is_rejected_with_its_row(write, form, text, told, sentence):
    with pytest.raises(ec.UsageError, match=sentence) as rejected:
        import_responses([write(text)], form, **told)
    assert "\n" not in str(rejected.value)


def test_files_that_are_no_text_are_rejected(tmp_path):
    path = tmp_path / "t.csv"
    for content, sentence in (
        (b"\x1f\x8b\x08broken", "damaged or truncated"),
        (b"caf\xe9", "UTF-8"),
        (None, "Cannot read"),
    ):
        path.unlink(missing_ok=True) if content is None else path.write_bytes(content)
        with pytest.raises(ec.UsageError, match=sentence):
            import_responses([path], "trials")


# consistency


def humans_on_one_image():
    """Three said dog, cat, dog to a clean picture; two others saw it with frost."""
    return make_responses(
        5,
        source="hand",
        choices=16,
        label_space="entry16",
        corruption=["clean", "clean", "clean", "frost", "frost"],
        subject=["a", "b", "c", "d", "e"],
        image=["1"] * 5,
        label=["dog"] * 5,
        response=["dog", "cat", "dog", "dog", "cat"],
        delta_v=[0, 0, 0, 0.5, 0.5],
    )


def test_majority_compares_with_the_commonest_clean_response_of_others():
    agreed = consistency(humans_on_one_image(), "majority")
    # b, of whom both others said dog, does not agree; nor does e
    assert agreed[[1, 3, 4]].tolist() == [0, 1, 0]
    # for a the others said cat and dog, which is a tie: either may be drawn
    assert agreed[0] in (0, 1)


def test_random_compares_with_one_clean_response_drawn_from_others():
    responses = humans_on_one_image()
    drawn = np.array([consistency(responses, "random", seed) for seed in range(600)])
    np.testing.assert_allclose(drawn.mean(axis=0), [1 / 2, 0, 1 / 2, 2 / 3, 1 / 3], atol=0.08)


def test_peoples_consistency_starts_at_their_agreement_on_clean_images():
    numbers = np.random.default_rng(1)
    images = np.repeat(np.arange(300), 4).astype(str)
    clean = np.tile([True, True, False, False], 300)
    change = np.where(clean, 0, np.repeat(numbers.random(300), 4))
    same = numbers.random(1200) < np.where(clean, 0.9, 0.9 - 0.6 * change)
    responses = make_responses(
        1200,
        source="simulated",
        choices=16,
        label_space="entry16",
        corruption=np.where(clean, "clean", "frost"),
        subject=np.tile(["a", "b", "c", "d"], 300),
        image=images,
        label=np.full(1200, "dog"),
        response=np.where(same, "dog", "cat"),
        delta_v=change,
    )
    reference = Reference("simulated", responses, "majority")
    curve = reference.curve("frost", "consistency", n_bootstrap=20)
    # both right or both wrong
    assert curve.left == pytest.approx(0.9**2 + 0.1**2, abs=0.04)
    assert curve.bins.counts.sum() == 600
    assert reference.curve("frost", n_bootstrap=20).left == pytest.approx(0.9, abs=0.03)


# resampling and comparison


def test_responses_to_one_image_are_resampled_together():
    once = simulated(500)
    five = once.only(np.repeat(np.arange(500), 5))
    columns = {name: getattr(five, name) for name in ("label", "response", "corruption", "delta_v")}
    apart, together = (
        make_responses(
            2500, source="s", choices=16, label_space="entry16", image=images.astype(str),
            **columns,
        )
        for images in (np.arange(2500), np.repeat(np.arange(500), 5))
    )  # fmt: skip
    spreads = [
        Reference("x", each).curve("frost", n_bootstrap=300, smoothing=0.1).areas.std()
        for each in (apart, together)
    ]
    assert spreads[1] / spreads[0] == pytest.approx(5**0.5, rel=0.2)


def test_bands_of_one_truth_overlap_and_of_two_do_not():
    def curve(seed, loss):
        numbers = np.random.default_rng(seed)
        change = numbers.random(4000)
        return fit_curve(
            change, numbers.random(4000) < 0.9 - loss * change, anchor=0.9, n_bootstrap=200
        )

    assert bands_apart(curve(0, 0.3), curve(1, 0.8))[-1][1] == pytest.approx(1)
    stretches = bands_apart(curve(0, 0.5), curve(1, 0.5))
    assert sum(end - start for start, end in stretches) < 0.2


def test_bands_are_compared_only_where_both_were_seen():
    numbers = np.random.default_rng(0)
    low, high = 0.4 * numbers.random(500), 0.6 + 0.4 * numbers.random(500)
    one, two = (fit_curve(each, each < 0.9, n_bootstrap=5) for each in (low, high))
    with pytest.raises(ec.UsageError, match="in common"):
        bands_apart(one, two)


# files


def test_what_is_written_is_read_again(write, tmp_path):
    judged = write("a,b,shown_same,same,subject\nfrost,fog,0,1,ann\n", "judged.csv")
    responses = import_responses(
        [write(TRIALS)], "trials", judgements=judged, citation="Ann 2024", license="CC0"
    )
    path = tmp_path / "people.parquet"
    write_responses(path, responses)
    again = read_responses(path)
    for name in ("corruption", "response", "clean_response", "delta_v", "correct", "trials"):
        np.testing.assert_array_equal(getattr(again, name), getattr(responses, name))
    assert again.judgements == responses.judgements
    assert again.judgements == (Judgement("fog", "frost", "ann", "different", "same"),)
    assert (again.citation, again.license, again.choices) == ("Ann 2024", "CC0", 16)
    reference = find_reference(str(path))
    assert reference.name == "people" and reference.match("frost") == "frost"


def test_a_file_of_somebody_else_is_neither_read_nor_overwritten(tmp_path):
    path = tmp_path / "mine.parquet"
    for write_theirs, sentence in (
        (lambda: path.write_bytes(b"notes"), "not a Parquet file"),
        (lambda: pq.write_table(pa.table({"a": [1]}), path), "not an eyechart response file"),
    ):
        write_theirs()
        before = path.read_bytes()
        with pytest.raises(ec.UsageError, match="not an eyechart response file: choose another"):
            write_responses(path, simulated(5))
        assert path.read_bytes() == before
        with pytest.raises(ec.UsageError, match=sentence):
            find_reference(str(path))
    with pytest.raises(ec.UsageError, match="No such file"):
        find_reference(str(tmp_path / "none.parquet"))
    with pytest.raises(ec.UsageError, match="Unknown reference 'geirhoss'"):
        find_reference("geirhoss")


def test_a_file_of_another_version_or_without_a_column_is_rejected(tmp_path):
    path = tmp_path / "a.parquet"
    write_responses(path, simulated(5))
    table = pq.read_table(path)
    metadata = table.schema.metadata
    old = {**metadata, b"eyechart.version": b"2"}
    pq.write_table(table.replace_schema_metadata(old), path)
    with pytest.raises(ec.UsageError, match="version 2, not 1: import"):
        read_responses(path)
    pq.write_table(table.drop_columns(["response"]).replace_schema_metadata(metadata), path)
    with pytest.raises(ec.UsageError, match="damaged"):
        read_responses(path)


def test_too_few_responses_for_a_curve_are_named():
    with pytest.raises(ec.UsageError, match="few, frost: Fewer than 2 bins"):
        Reference("few", simulated(10)).curve("frost", estimator="spline")


@pytest.mark.parametrize(
    ("column", "values", "sentence"),
    [
        ("delta_v", [0.5, 1.5], "delta_v must be in"),
        ("correct", [0.5, -1], "correct must be in"),
        ("trials", [1, 0], "trials must be at least 1"),
        ("subject", ["a"], "subject must have one value per row: 2"),
    ],
)
def test_records_that_cannot_be_are_rejected(column, values, sentence):
    with pytest.raises(ec.UsageError, match=sentence):
        make_responses(2, source="s", choices=2, label_space="2 choices", **{column: values})


def test_a_misspelt_property_or_rule_gets_a_suggestion(tmp_path):
    reference = find_reference("geirhos")
    with pytest.raises(ec.UsageError, match="Did you mean 'accuracy'"):
        reference.curve("contrast", "acuracy")
    path = tmp_path / "a.parquet"
    write_responses(path, simulated(5))
    with pytest.raises(ec.UsageError, match="Did you mean 'majority'"):
        find_reference(str(path), clean_rule="majorty")


def test_a_small_study_has_fewer_bins_and_still_a_curve(tmp_path):
    random = np.random.default_rng(3)
    count = 300
    change = random.uniform(0, 1, count)
    chance = 1 - 0.9 * change
    responses = make_responses(
        count,
        source="small",
        choices=16,
        label_space="entry16",
        corruption=np.full(count, "frost"),
        image=[f"p{place}" for place in range(count)],
        label=np.full(count, "dog"),
        response=np.where(random.uniform(size=count) < chance, "dog", "cat"),
        delta_v=change,
    )
    curve = Reference("small", responses).curve("frost")
    low, high = curve.interval(0.999)
    assert low < 1 - 0.45 < high
    assert curve.observed[0][0] < 0.2 and curve.observed[-1][1] > 0.8
