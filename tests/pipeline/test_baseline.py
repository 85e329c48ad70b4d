"""Whose errors CE divides by: when a table holds, a model of the user's, and people."""

import csv
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import eyechart as ec
import published_scores as published
from commands import assert_rejected
from eyechart.corruptions.suites.catalogue import list_corruptions
from eyechart.images.image_list import ListedImage
from eyechart.images.imageset import ImageSet
from eyechart.images.labels.imagenet import wordnet_ids
from eyechart.images.stimulus import STIMULI
from eyechart.pipeline.scoring.baseline import BaselineError, choose_baseline, normalize
from eyechart.predictions.reading import Predictions
from eyechart.results.model_results import ModelResults
from eyechart.scores.baseline_tables import find_baseline
from eyechart.scores.human_relative import clean_expected_error, expected_error
from eyechart.stats.curve import fit_curve
from eyechart.stats.estimate import Estimate, complement, make_estimate
from eyechart.testsets.plan import Plan
from eyechart.testsets.published_files import find_published, load_published
from result_records import corruption_results, model_results, space_results
from small_models import save_images

WHOLE = 50_000


def validation_set(count: int = WHOLE, side: int = 224) -> ImageSet:
    """The names, labels and sizes of ImageNet's validation set, without any pixels."""
    wnids = wordnet_ids()
    names = [f"ILSVRC2012_val_{number:08d}.JPEG" for number in range(1, count + 1)]
    images = tuple(
        ListedImage(Path(name), f"{wnids[place % 1000]}/{name}", wnids[place % 1000])
        for place, name in enumerate(names)
    )
    sizes = ((side, side),) * count
    return ImageSet("val", STIMULI["224"], images, tuple(names), sizes)


@pytest.fixture(scope="module")
def whole():
    return validation_set()


def test_the_table_of_a_suite_is_taken_where_it_holds(whole):
    found = choose_baseline("auto", Plan("imagenet-c", jpeg=85), whole, [])
    assert found.name == "alexnet" and found.table is find_baseline("alexnet")
    assert choose_baseline("auto", Plan("imagenet-noc"), whole, []).name == "noc-alexnet"
    assert choose_baseline("auto", Plan("vcr"), whole, []).name == ""


def robustbench_images():
    names = published.robustbench_names()
    wnids = wordnet_ids()
    images = tuple(
        ListedImage(Path(name), name, wnids[place % 997]) for place, name in enumerate(names)
    )
    return ImageSet("5000", STIMULI["224"], images, tuple(names), ((224, 224),) * len(names))


def test_robustbenchs_table_is_taken_for_its_own_images(whole):
    """Its 5,000 images are told by their names; the table of the whole set does not hold there."""
    images = robustbench_images()
    for wanted in ("auto", "robustbench-alexnet"):
        found = choose_baseline(wanted, Plan("imagenet-c", jpeg=85), images, [])
        assert found.name == "robustbench-alexnet" and found.table.clean == pytest.approx(0.4376)
    three_d = replace(images, files=object())
    for wanted in ("auto", "robustbench-alexnet"):
        found = choose_baseline(wanted, Plan("imagenet-3dcc"), three_d, [])
        assert found.name == "robustbench-alexnet-3dcc"
        assert set(found.table.corruptions) == set(Plan("imagenet-3dcc").all_names())
    with pytest.raises(ec.UsageError, match="but these are RobustBench's 5,000"):
        choose_baseline("alexnet", Plan("imagenet-c", jpeg=85), images, [])
    with pytest.raises(
        ec.UsageError, match=r"RobustBench's 5,000 .* 50,000 images with other names"
    ):
        choose_baseline("robustbench-alexnet", Plan("imagenet-c", jpeg=85), whole, [])
    with pytest.raises(ec.UsageError, match="for imagenet-c, but these are corruptions of vcr"):
        choose_baseline("robustbench-alexnet", Plan("vcr"), images, [])


def test_files_of_3d_common_corruptions_have_robustbenchs_table(tmp_path):
    for severity in range(1, 6):
        (tmp_path / "flash" / str(severity) / "n01440764").mkdir(parents=True)
        one = tmp_path / "flash" / str(severity) / "n01440764" / "one.JPEG"
        Image.new("RGB", (224, 224), (40 * severity, 90, 160)).save(one)
    found = find_published(tmp_path)
    plan = found.plan(Plan())
    files = load_published(found, plan, None).files
    assert plan.suite == "imagenet-3dcc" and files is not None
    images = replace(robustbench_images(), files=files)
    for wanted in ("auto", "robustbench-alexnet"):
        chosen = choose_baseline(wanted, plan, images, [])
        assert chosen.name == "robustbench-alexnet-3dcc"
        # 1 − the mean of AlexNet's five accuracies
        flash = (0.2858, 0.248, 0.2082, 0.156, 0.0958)
        assert chosen.table.errors["flash"] == pytest.approx(1 - np.mean(flash))


def test_a_table_is_looked_up_for_the_suite(whole):
    assert choose_baseline("alexnet", Plan("imagenet-noc"), whole, []).name == "noc-alexnet"
    found = choose_baseline("noc-alexnet", Plan("imagenet-c", jpeg=85), whole, [])
    assert found.name == "alexnet"


@pytest.mark.parametrize(
    ("plan", "images", "says"),
    [
        (Plan("imagenet-c"), None, "JPEG"),
        (Plan("imagenet-c", jpeg=75), None, "75"),
        (Plan("imagenet-c", jpeg=85), {"count": 970}, "970"),
        (Plan("imagenet-c", jpeg=85), {"side": 299}, "299"),
        (Plan("vcr", jpeg=85), None, "vcr"),
        (
            Plan("imagenet-noc", sampling="pilot"),
            None,
            "these samples differ: give --sampling par",
        ),
        (Plan("imagenet-c", jpeg=85, labels="entry16"), None, "16 categories"),
    ],
)
def test_a_table_is_rejected_where_it_does_not_hold(whole, plan, images, says):
    own = whole if images is None else validation_set(**images)
    with pytest.raises(ec.UsageError, match=says):
        choose_baseline("alexnet", plan, own, [])
    assert choose_baseline("auto", plan, own, []).name == ""


def test_a_table_holds_only_where_every_image_is_shown_equally_often(whole):
    for n, name in ((50_000, "noc-alexnet"), (100_000, "noc-alexnet"), (100, ""), (75_000, "")):
        assert choose_baseline("auto", Plan("imagenet-noc", n), whole, []).name == name
    given = choose_baseline("auto", Plan("imagenet-noc"), whole, [], has_testset=True)
    assert given.name == "" and "these samples differ" in given.note


def estimate(value: float) -> Estimate:
    return make_estimate(value, np.full(20, value))


def model_score(name: str, errors: dict[str, float], clean: float) -> ModelResults:
    scores = {
        corruption: corruption_results(estimate(1 - error), estimate(clean))
        for corruption, error in errors.items()
    }
    space = space_results(scores, WHOLE, 1000, estimate(1 - clean))
    return model_results(name, {"native": space}, 1000)


def test_alexnet_itself_has_an_mce_of_100(whole):
    table = find_baseline("alexnet")
    errors = {name: table.errors[name] for name in list_corruptions("imagenet-c")}
    plan = Plan("imagenet-c", jpeg=85)
    choice = choose_baseline("alexnet", plan, whole, [])
    (found,) = normalize([model_score("AlexNet", errors, table.clean)], choice, plan, {})
    own = found.primary.corruption_error
    assert own.baseline == "alexnet"
    assert own.mce.value == pytest.approx(1) and own.relative_mce.value == pytest.approx(1)
    assert len(own.ce) == 15


def test_a_part_of_the_suite_has_ce_and_no_mce(whole):
    plan = Plan("imagenet-c", jpeg=85, corruptions=("fog", "snow"))
    choice = choose_baseline("alexnet", plan, whole, [])
    (found,) = normalize([model_score("m", {"fog": 0.5, "snow": 0.6}, 0.2)], choice, plan, {})
    own = found.primary.corruption_error
    assert own.mce is None and "15 corruptions" in own.note
    assert own.ce["fog"].value == pytest.approx(0.5 / find_baseline("alexnet").errors["fog"])


def test_the_extras_have_ce_and_no_mce(whole):
    plan = Plan("imagenet-c-extra", jpeg=85)
    choice = choose_baseline("alexnet", plan, whole, [])
    errors = dict.fromkeys(list_corruptions("imagenet-c-extra"), 0.5)
    own = normalize([model_score("m", errors, 0.2)], choice, plan, {})[0].primary.corruption_error
    assert len(own.ce) == 5 and own.mce is None and "does not include" in own.note


def test_the_candidates_of_noc_have_a_mean_over_the_published_eight(whole):
    plan = Plan("noc-candidates")
    choice = choose_baseline("noc-alexnet", plan, whole, [])
    errors = dict.fromkeys(list_corruptions("noc-candidates"), 0.7)
    own = normalize([model_score("m", errors, 0.2)], choice, plan, {})[0].primary.corruption_error
    eight = [own.relative_ce[name].value for name in list_corruptions("imagenet-noc")]
    assert len(own.relative_ce) == 23
    assert own.relative_mce.value == pytest.approx(np.mean(eight))


def test_no_relative_mce_is_explained():
    """A baseline that is better under fog than on clean pictures cannot be divided by."""
    plan = Plan("imagenet-c", corruptions=("fog", "snow"))
    models = [
        model_score("m", {"fog": 0.5, "snow": 0.6}, 0.2),
        model_score("odd", {"fog": 0.1, "snow": 0.3}, 0.15),
    ]
    choice = choose_baseline("odd", plan, validation_set(10), ["m", "odd"])
    own = normalize(models, choice, plan, {})[0].primary.corruption_error
    assert set(own.ce) == {"fog", "snow"} and set(own.relative_ce) == {"snow"}
    assert "No mCE" in own.note


def test_a_baseline_without_errors_gives_no_ce_and_says_so():
    plan = Plan("imagenet-c", corruptions=("fog", "snow"))
    models = [
        model_score("m", {"fog": 0.5, "snow": 0.6}, 0.2),
        model_score("best", {"fog": 0.0, "snow": 0.3}, 0.1),
    ]
    choice = choose_baseline("best", plan, validation_set(10), ["m", "best"])
    own = normalize(models, choice, plan, {})[0].primary.corruption_error
    assert set(own.ce) == {"snow"} and "more than 0" in own.note
    assert own.relative_ce["snow"].value == pytest.approx((0.6 - 0.2) / (0.3 - 0.1))


def test_a_baseline_next_to_itself_is_100_percent_even_in_draws_without_errors():
    rare = make_estimate(0.05, np.r_[np.zeros(10), np.full(10, 0.1)], 5)
    space = space_results({"fog": corruption_results(complement(rare))})
    model = model_results("m", {"native": space})
    plan = Plan("imagenet-c", corruptions=("fog",))
    own = normalize([model], choose_baseline("m", plan, validation_set(10), ["m"]), plan, {})
    divided = own[0].primary.corruption_error.ce["fog"]
    assert divided.interval95 == (1, 1)


def test_ce_against_a_table_is_no_surer_than_the_error_itself(whole):
    """Five pictures that are all wrong: the error's interval is Wilson's, and so is that of CE."""
    plan = Plan("imagenet-c", jpeg=85, corruptions=("fog",))
    wrong = make_estimate(1.0, np.ones(20), 5)
    space = space_results({"fog": corruption_results(complement(wrong))}, 5, 1000)
    model = model_results("m", {"native": space}, 1000)
    (found,) = normalize([model], choose_baseline("alexnet", plan, whole, []), plan, {})
    divided, base = found.primary.corruption_error.ce["fog"], find_baseline("alexnet").errors["fog"]
    assert divided.interval95 == pytest.approx((wrong.interval95[0] / base, 1 / base))
    assert wrong.interval95[0] < 0.6


def outcomes(change, image, weights=None):
    change = np.asarray(change, dtype=np.float64)
    nothing = np.zeros(len(change))
    label = np.zeros(len(change), dtype=np.int64)
    return Predictions(
        change, nothing, np.asarray(image), label, *(nothing for _ in range(5)), weights
    )


def test_humans_who_fall_in_a_straight_line_are_wrong_as_often_as_change_is_large():
    """s(v) = 1 − v: the expected error is the mean of Δv itself."""
    truth = np.repeat(np.linspace(0, 1, 2001), 10)
    chance = np.random.default_rng(0)
    hits = (chance.random(len(truth)) < 1 - truth).astype(float)
    human = fit_curve(truth, hits, anchor=1.0, n_bootstrap=200)
    change = chance.random(3000) * 0.9
    found = expected_error(human, outcomes(change, np.arange(3000) % 100), seed=0)
    assert found.value == pytest.approx(change.mean(), abs=0.01)
    low, high = found.interval95
    assert low < change.mean() < high and high - low < 0.1
    assert clean_expected_error(human, seed=0).value == pytest.approx(0, abs=1e-6)


def test_the_expected_error_is_that_of_each_prediction_read_off_the_curve():
    chance = np.random.default_rng(1)
    truth = chance.random(4000)
    human = fit_curve(truth, (chance.random(4000) < 0.9 - 0.5 * truth).astype(float), anchor=0.9)
    change, weights = chance.random(500), chance.random(500)
    found = expected_error(human, outcomes(change, np.arange(500), weights), seed=0)
    by_hand = np.sum(weights * (1 - human(change))) / weights.sum()
    assert found.value == pytest.approx(by_hand)
    assert found.replicates.mean() == pytest.approx(by_hand, abs=0.01)
    assert expected_error(human, outcomes([np.nan] * 3, [0, 1, 2]), seed=0) is None


def test_ce_against_humans_divides_by_their_errors():
    humans = {"native": {"fog": BaselineError(estimate(0.25), estimate(0.05))}}
    choice = choose_baseline("humans", Plan("imagenet-c"), validation_set(10), [])
    models = [model_score("m", {"fog": 0.5, "snow": 0.6}, 0.2)]
    own = normalize(models, choice, Plan("imagenet-c"), humans)[0].primary.corruption_error
    assert own.baseline == "humans" and set(own.ce) == {"fog"}
    assert own.ce["fog"].value == pytest.approx(2)
    assert own.relative_ce["fog"].value == pytest.approx(0.3 / 0.2)


# ------------------------------------------------------------------ the command


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return save_images(tmp_path_factory.mktemp("images") / "photos", each=2)


@pytest.fixture
def evaluate(run, folder, tmp_path):
    def call(*arguments):
        return run(
            "evaluate", "small_models:colors", "--images", folder, "--out", tmp_path / "out",
            "--n", 40, "--bins", 9, "--min-per-bin", 3, "--n-bootstrap", 20, "--stimulus", "native",
            *arguments,
        )  # fmt: skip

    return call


def test_images_that_no_table_holds_for_are_said_so_and_get_plain_errors(evaluate):
    found = evaluate("--suite", "imagenet-c", "--corruption", "fog")
    assert found.status == 0
    assert "No CE: The table 'alexnet' is valid for" in found.out and "error" in found.out


def test_a_table_asked_for_by_name_must_hold(evaluate):
    rejected = evaluate("--suite", "imagenet-c", "--corruption", "fog", "--baseline", "alexnet")
    assert_rejected(rejected, "50,000", "--baseline")


def test_a_baseline_that_is_not_among_the_models_is_evaluated_too(evaluate):
    found = evaluate("--corruption", "frost", "--baseline", "small_models:four_classes")
    assert found.status == 0, found.err
    assert "small_models:four_classes, native classes" in found.out
    assert "CE as a percentage of small_models:four_classes's errors" in found.out
    assert "(mean: " not in found.out


def test_the_title_of_a_table_names_the_means_in_its_last_row(evaluate):
    found = evaluate("--suite", "imagenet-noc", "--baseline", "small_models:four_classes")
    # of 8 images, no relative CE of some corruptions
    title = next(line for line in found.out.splitlines() if line.startswith("small_models:colors,"))
    assert title.endswith("'s errors (mean: mCE)"), found.out


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("alexnett", "Did you mean 'alexnet'"),
        ("robustbench-alexnet", "is valid for imagenet-c"),
        ("humans", "--baseline humans needs"),
        ("small_models:nobody", "nobody"),
    ],
)
def test_a_baseline_that_cannot_be_had_is_rejected_in_one_sentence(evaluate, name, says):
    more = ("--humans", "none") if name == "humans" else ()
    assert_rejected(evaluate("--corruption", "frost", "--baseline", name, *more), says)


def test_a_table_of_ones_own_divides_by_its_numbers(evaluate, tmp_path):
    (tmp_path / "mine.csv").write_text("corruption,error\nclean,0.1\nfog,0.5\nsnow,0.4\n")
    found = evaluate(
        "--suite", "imagenet-c", "--corruption", "fog", "--baseline", tmp_path / "mine.csv"
    )
    assert found.status == 0, found.err
    assert "CE as a percentage of mine.csv#" in found.out
    results = json.loads((tmp_path / "out" / "results.json").read_text())
    own = results["models"][0]["spaces"]["native"]
    error = own["corruptions"]["fog"]["error"]["value"]
    clean = own["corruptions"]["fog"]["clean_error"]["value"]
    divided = own["corruption_error"]
    assert divided["ce"]["fog"]["value"] == pytest.approx(error / 0.5)
    assert divided["relative_ce"]["fog"]["value"] == pytest.approx((error - clean) / 0.4)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("corruption,error\nfog,50\n", "from 0 to 1"),
        ("corruption,error\nfogg,0.5\n", "Did you mean 'fog'"),
        ("corruption,error\nfog,0.5\nfog,0.4\n", "twice"),
        ("name,error\nfog,0.5\n", "lacks the column"),
        (None, "Cannot read"),
    ],
)
def test_a_table_that_cannot_be_used_is_rejected(evaluate, tmp_path, text, says):
    if text is not None:
        (tmp_path / "mine.csv").write_text(text)
    asked = ("--suite", "imagenet-c", "--corruption", "fog", "--baseline", tmp_path / "mine.csv")
    assert_rejected(evaluate(*asked), says)


def test_intervals_that_few_images_leave_undetermined_are_shown_as_such(run, tmp_path):
    """The baseline errs on two images of twelve: one replicate in nine has none of them."""
    images, out = save_images(tmp_path / "images", each=3), tmp_path / "run"
    asked = ("--suite", "imagenet-c", "--corruption", "saturate", "--corruption", "fog")
    small = ("--stimulus", "native", "--bins", 5, "--min-per-bin", 3, "--n-bootstrap", 200)
    found = run(
        "evaluate", "small_models:pale_colors", "small_models:colors", "--images", images,
        "--baseline", "small_models:colors", "--humans", "none", "--out", out, *asked, *small,
    )  # fmt: skip
    assert found.status == 0, found.err
    assert found.out.count("undetermined") == 4 and "inf" not in found.out.replace("info", "")
    assert "undetermined for fog: in too many bootstrap replicates" in found.out
    results = json.loads((out / "results.json").read_text())
    errors = results["models"][0]["spaces"]["native"]["corruption_error"]
    for name in ("ce", "relative_ce"):
        assert errors[name]["fog"]["interval95"] == [None, None]
        assert errors[name]["fog"]["value"] > 5
        low, high = errors[name]["saturate"]["interval95"]
        assert 0 < low < errors[name]["saturate"]["value"] < high < 3
    lines = csv.DictReader((out / "results.csv").read_text(encoding="utf-8").splitlines())
    (fog,) = (
        own for own in lines
        if own["corruption"] == "fog" and own["property"] == "accuracy" and "pale" in own["model"]
    )  # fmt: skip
    assert fog["relative_ce_low95"] == fog["relative_ce_high95"] == "" != fog["relative_ce"]
    reported = run("report", out, "--out", tmp_path / "report.html", "--figures", tmp_path / "f")
    assert reported.status == 0, reported.err
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert page.count('title="95 % interval undetermined"') == 2
    assert "interval of relative CE is undetermined for fog" in page
    table = next((tmp_path / "f").glob("relative-corruption-errors*.tex")).read_text()
    assert "$^?$" in table and "interval is undetermined" in table


def test_a_model_that_never_errs_has_no_surer_ce_than_its_error():
    plan = Plan("imagenet-c", corruptions=("fog",))
    found = []
    for name, error in (("m", 0.0), ("other", 0.5)):
        rate = complement(make_estimate(error, np.full(20, error), 60))
        space = space_results({"fog": corruption_results(rate)}, 60)
        found.append(model_results(name, {"native": space}))
    choice = choose_baseline("other", plan, validation_set(10), ["m", "other"])
    divided = normalize(found, choice, plan, {})[0].primary.corruption_error.ce["fog"]
    # Wilson's upper end of 0 of 60 is z² / (n + z²)
    assert divided.interval95 == pytest.approx((0, 3.8415 / 63.8415 / 0.5), abs=1e-4)
