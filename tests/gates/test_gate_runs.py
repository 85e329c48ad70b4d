"""The gate on small real runs: numbers, slices, several models, files, and what is rejected."""

import json
import shutil
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace
from xml.etree import ElementTree

import numpy as np
import pyarrow.parquet as pq
import pytest
import yaml

import eyechart as ec
from commands import assert_rejected
from eyechart.gates.bounds import clustered_mean
from eyechart.gates.decision import make_decider
from eyechart.gates.gate_results import GateResults
from eyechart.gates.rule_samples import TOLERANCE
from eyechart.gates.rules import load_rules
from eyechart.results.recorded_run import read_recorded_run
from report_runs import DULL, SHARP, evaluate, save_hues

CORRUPTIONS = ("vcr/gaussian_noise", "vcr/brightness", "vcr/frost")
ASKED = (
    "--n",
    60,
    "--sampling",
    "parameters",
    *(word for name in CORRUPTIONS for word in ("--corruption", name)),
)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A run of the sharp model, one of the dull one, one of both, and one with another seed."""
    home = tmp_path_factory.mktemp("gate")
    folder = save_hues(home / "hues", each=5)
    images = sorted(folder.rglob("*.png"))
    rows = [
        f"{path.relative_to(home)},{path.parent.name},{'north' if place % 2 else 'south'}"
        for place, path in enumerate(images)
    ]
    listed = home / "images.csv"
    listed.write_text("\n".join(["path,label,Site", *rows]))
    return SimpleNamespace(
        home=home,
        listed=listed,
        sharp=evaluate(listed, home / "sharp", *ASKED, models=(SHARP,)),
        dull=evaluate(listed, home / "dull", *ASKED, models=(DULL,)),
        both=evaluate(listed, home / "both", *ASKED, models=(SHARP, DULL)),
        other=evaluate(listed, home / "other", *ASKED, "--seed", 1, models=(DULL,)),
    )


def rule(**keys: object) -> dict[str, object]:
    """A rule about all corruptions, unless it says otherwise."""
    usual: dict[str, object] = {"name": "a rule"}
    if not {"corruptions", "families"} & set(keys):
        usual["corruptions"] = "all"
    if not {"at_least", "no_worse_than_old"} & set(keys):
        usual["at_least"] = 0.2
    return {**usual, **keys}


def decided(run: Path, against: Path | None = None, **keys: object):
    (result,) = ec.gate(run, against=against, rules=[rule(**keys)]).rules
    return result


def table(run: Path, corruption: str):
    name = corruption.replace("/", "-")
    return pq.read_table(run / "predictions" / f"{name}.parquet").to_pandas()


@pytest.mark.parametrize("corruption", CORRUPTIONS)
@pytest.mark.parametrize("metric", ["accuracy", "consistency"])
@pytest.mark.parametrize("space", ["native", "entry16"])
def test_over_all_samples_of_a_corruption_the_rate_is_that_of_the_run(
    runs, corruption, metric, space
):
    scores = ec.load(runs.sharp)[SHARP].spaces[space].corruptions[corruption]
    rate = getattr(scores, metric).rate
    result = decided(runs.sharp, corruptions=[corruption], metric=metric, labels=space)
    assert result.rate == result.estimate == pytest.approx(rate.value, abs=1e-12)
    assert result.n_samples == getattr(scores, metric).n_samples
    (condition,) = result.conditions
    assert condition.failure_rate == pytest.approx(1 - rate.value)
    assert condition.overall_rate == rate.value
    assert 0 <= result.lower < result.estimate <= result.upper <= 1


def test_a_range_of_visual_change_selects_its_samples(runs):
    rows = table(runs.sharp, "vcr/gaussian_noise")
    kept = rows[(rows.delta_v >= 0.2) & (rows.delta_v <= 0.6)]
    result = decided(runs.sharp, corruptions=["gaussian_noise"], delta_v=[0.2, 0.6])
    assert 0 < result.n_samples == len(kept) < 60
    assert result.n_images == kept.image.nunique()
    assert result.rate == pytest.approx((kept["rank"] == 1).mean())
    assert result.conditions[0].delta_v == (kept.delta_v.min(), kept.delta_v.max())


def test_families_select_their_corruptions(runs):
    result = decided(runs.sharp, families=["weather", "noise"])
    names = [condition.corruption for condition in result.conditions]
    assert {"vcr/gaussian_noise", "vcr/frost"} <= set(names)


def test_slices_select_images_by_class_and_by_column(runs):
    rows = table(runs.sharp, "vcr/frost")
    label = rows.label.iloc[0]
    by_class = decided(runs.sharp, corruptions=["frost"], classes=[label])
    assert by_class.n_samples == (rows.label == label).sum() > 0
    sites = dict(line.split(",")[::2] for line in runs.listed.read_text().splitlines()[1:])
    is_north = rows.image.map(sites) == "north"
    by_site = decided(runs.sharp, corruptions=["frost"], where={"site": "North"})
    assert by_site.n_samples == is_north.sum() > 0
    assert by_site.rate == pytest.approx((rows[is_north]["rank"] == 1).mean())
    by_image = decided(runs.sharp, corruptions=["frost"], where={"image": [rows.image.iloc[0]]})
    assert by_image.n_images == 1 and by_image.outcome == "inconclusive"


def test_new_minus_old_is_that_of_the_same_samples(runs):
    margin = {"margin": 0.05}
    result = decided(runs.dull, runs.sharp, no_worse_than_old=margin)
    new, old = (
        np.concatenate([(table(run, name)["rank"] == 1).to_numpy() for name in CORRUPTIONS])
        for run in (runs.dull, runs.sharp)
    )
    assert (result.rate, result.old_rate) == (pytest.approx(new.mean()), pytest.approx(old.mean()))
    assert result.estimate == pytest.approx(new.mean() - old.mean())
    assert result.limit == -0.05 and result.n_samples == len(new) == 180


def test_a_model_against_itself_has_no_difference_but_a_width(runs):
    result = decided(runs.sharp, runs.sharp, no_worse_than_old={"margin": 0.05})
    assert result.estimate == 0 and result.lower < -0.05 < result.upper
    assert result.outcome == "inconclusive"
    assert result.decider is not None and result.decider.samples_help is False
    assert "More samples of the same 40 images cannot decide the rule." in result.decider.sentence
    wide = decided(runs.sharp, runs.sharp, no_worse_than_old={"margin": 0.2})
    assert wide.outcome == "pass" and wide.decider is None


def test_both_models_may_be_in_one_run(runs):
    keys = {"model": DULL, "old_model": SHARP, "no_worse_than_old": {"margin": 0.05}}
    together = decided(runs.both, runs.both, **keys)
    apart = decided(runs.dull, runs.sharp, no_worse_than_old={"margin": 0.05})
    assert together.estimate == apart.estimate and together.lower == apart.lower


def test_outcomes_of_rules_make_the_outcome_of_the_gate(runs):
    good, bad = rule(name="low", at_least=0.01), rule(name="high", at_least=0.999)
    unsure = rule(name="self", no_worse_than_old={"margin": 0.01})
    passed = ec.gate(runs.sharp, rules=[good])
    assert (passed.outcome, passed.passed) == ("pass", True)
    failed = ec.gate(runs.dull, rules=[good, bad], inconclusive="pass")
    assert [result.outcome for result in failed.rules] == ["pass", "fail"]
    assert (failed.outcome, failed.passed) == ("fail", False)
    between = ec.gate(runs.sharp, against=runs.sharp, rules=[good, unsure])
    assert (between.outcome, between.passed) == ("inconclusive", False)
    assert ec.gate(runs.sharp, against=runs.sharp, rules=[unsure], inconclusive="pass").passed


def test_failing_is_corrected_for_the_number_of_rules(runs):
    one = ec.gate(runs.dull, rules=[rule(at_least=0.9)]).rules[0]
    four = ec.gate(runs.dull, rules=[rule(name=str(place), at_least=0.9) for place in "abcd"]).rules
    assert four[0].p_fail == pytest.approx(min(1, 4 * one.p_fail))
    assert four[0].p_pass == one.p_pass


class Page(HTMLParser):
    """The links and ids of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.ids: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name == "href":
                self.links.append(value or "")
            if name == "id":
                self.ids.append(value or "")


@pytest.fixture
def files(tmp_path):
    names = {"json": "g.json", "junit": "g.xml", "markdown": "g.md", "evidence": "g.html"}
    return {option: tmp_path / name for option, name in names.items()}


def write_rules(path: Path, *rules: dict[str, object], intended: str = "") -> Path:
    content = {"rules": list(rules), **({"intended_conditions": intended} if intended else {})}
    path.write_text(yaml.safe_dump(content))
    return path


def test_the_command_prints_a_table_and_writes_every_file(runs, files, run, tmp_path):
    path = write_rules(
        tmp_path / "gate.yaml",
        rule(name="<b>low</b> | x", at_least=0.01),
        rule(name="unsure", corruptions=["brightness"], no_worse_than_old={"margin": 0.01}),
        rule(name="high", metric="consistency", delta_v=[0, 1], at_least=0.999),
        intended="Only <i>hues</i>.",
    )
    options = [word for name, file in files.items() for word in (f"--{name}", file)]
    result = run("gate", runs.dull, "--against", runs.sharp, "--rules", path, *options)
    assert result.status == 1
    assert result.err == 'The gate fails: "high".\n'
    assert max(map(len, result.out.split("Written:")[0].splitlines())) <= 80
    assert all(f"{outcome}" in result.out for outcome in ("pass", "fail", "inconclusive"))

    stored = json.loads(files["json"].read_text())
    assert stored["outcome"] == "fail" and len(stored["rules"]) == 3
    read = GateResults.model_validate_json(files["json"].read_text())
    assert read.rules[0].rule.name == "<b>low</b> | x"
    results = json.loads((runs.dull / "results.json").read_text())
    for one in stored["rules"]:
        (model,) = [own for own in results["models"] if own["name"] == one["model"]]
        for condition in one["conditions"]:
            scores = model["spaces"][one["space"]]["corruptions"][condition["corruption"]]
            assert scores[one["rule"]["metric"]]["rate"]["value"] == condition["overall_rate"]

    suite = ElementTree.parse(files["junit"]).getroot()[0]
    assert (suite.get("tests"), suite.get("failures"), suite.get("skipped")) == ("3", "2", "0")
    assert [case.get("name") for case in suite] == ["<b>low</b> | x", "unsure", "high"]

    markdown = files["markdown"].read_text()
    rows = [line for line in markdown.splitlines() if line.startswith("|")]
    assert len(rows) == 5 and {line.count("|") for line in rows} == {8}

    text = files["evidence"].read_text()
    page = Page(text)
    assert "<b>low" not in text and "<i>hues" not in text
    assert "src=" not in text and "http:" not in text.replace("http-equiv", "")
    for link in page.links:
        is_inside = link.startswith("#") and link[1:] in page.ids
        assert is_inside or (files["evidence"].parent / link).resolve().is_file(), link
    for heading in ("Intended conditions", "Triggering conditions", "Statistical method", "Limits"):
        assert heading.lower() in text.lower()
    assert stored["new"]["images_digest"] in text


def test_inconclusive_can_count_as_a_pass(runs, files, run, tmp_path):
    path = write_rules(tmp_path / "gate.yaml", rule(no_worse_than_old={"margin": 0.01}))
    asked = ("gate", runs.sharp, "--against", runs.sharp, "--rules", path)
    assert run(*asked).status == 1
    result = run(*asked, "--inconclusive", "pass", "--junit", files["junit"])
    assert result.status == 0 and "which counts as pass" in result.out
    suite = ElementTree.parse(files["junit"]).getroot()[0]
    assert (suite.get("failures"), suite.get("skipped")) == ("0", "1")


def test_python_saves_by_suffix(runs, tmp_path):
    results = ec.gate(runs.sharp, rules=[rule()])
    for name in ("a.json", "a.xml", "a.md", "a.html"):
        assert results.save(tmp_path / name).stat().st_size > 300
    with pytest.raises(ec.UsageError, match=r"must end in .json, .xml, .md or .html"):
        results.save(tmp_path / "a.pdf")


REJECTED = {
    "another seed": (
        "other",
        {"no_worse_than_old": {"margin": 0.1}},
        "not runs on the same",
    ),
    "no old run": (None, {"no_worse_than_old": {"margin": 0.1}}, "give --against OLD"),
    "an unknown corruption": (None, {"corruptions": ["frots"]}, "line 1: corruptions: Unknown"),
    "an unknown family": (None, {"families": ["wether"]}, "line 2: families: Unknown family"),
    "an unknown class": (None, {"classes": ["unicorn"]}, "line 2: classes: Unknown class"),
    "an unknown column": (None, {"where": {"moon": "full"}}, "no column 'moon': the columns are"),
    "an unknown model": (None, {"model": "mine"}, "model: Unknown model 'mine'"),
    "no severities": (None, {"severity": [1, 2]}, "drawn without a severity: use delta_v"),
    "no sample": (
        None,
        {"delta_v": [0, 0.0001], "corruptions": ["frost"]},
        "no sample of the run meets the conditions",
    ),
}


@pytest.mark.parametrize("case", REJECTED)
def test_what_does_not_fit_the_runs_is_one_sentence(case, runs, run, tmp_path):
    against, keys, sentence = REJECTED[case]
    # a list, so that the first line is that of the rule's first key
    path = tmp_path / "gate.yaml"
    path.write_text(yaml.safe_dump([rule(**keys)]))
    options = () if against is None else ("--against", getattr(runs, against))
    result = run("gate", runs.sharp, *options, "--rules", path)
    assert_rejected(result)
    text = sentence.partition(": ")[2] if sentence.startswith("line") else sentence
    assert text in result.err, result.err
    if sentence.startswith("line"):
        assert f"{path}, line " in result.err


def test_a_rule_must_name_one_of_several_models(runs, run, tmp_path):
    path = write_rules(tmp_path / "gate.yaml", rule())
    assert_rejected(run("gate", runs.both, "--rules", path), "model is missing", "has 2 models")


def test_an_edited_delta_v_or_a_missing_folder_is_one_sentence(runs, run, tmp_path):
    path = write_rules(tmp_path / "gate.yaml", rule(no_worse_than_old={"margin": 0.1}))
    assert_rejected(run("gate", tmp_path / "none", "--rules", path), "no finished run")
    copy = tmp_path / "copy"
    (copy / "predictions").mkdir(parents=True)
    for file in (runs.sharp / "predictions").glob("*.parquet"):
        rows = pq.read_table(file)
        place = rows.schema.get_field_index("delta_v")
        moved = rows["delta_v"].to_numpy() + 10 * TOLERANCE
        pq.write_table(rows.set_column(place, "delta_v", [moved]), copy / "predictions" / file.name)
    (copy / "results.json").write_bytes((runs.sharp / "results.json").read_bytes())
    asked = ("gate", runs.sharp, "--against", copy, "--rules", path)
    assert_rejected(run(*asked), "Δv of vcr/gaussian_noise differs")


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [({"ruler": "sheikh2006"}, "different rulers"), ({"ruler_version": 9}, "different versions")],
)
def test_runs_by_different_rulers_are_not_compared(changes, sentence, runs, run, tmp_path):
    other = tmp_path / "other"
    shutil.copytree(runs.dull, other)
    record = json.loads((other / "results.json").read_text())
    record["config"] |= changes
    (other / "results.json").write_text(json.dumps(record))
    rules = write_rules(tmp_path / "rules.yaml", rule(no_worse_than_old={"margin": 0.1}))
    assert_rejected(run("gate", runs.sharp, "--against", other, "--rules", rules), sentence)


def test_files_are_checked_before_the_work(runs, run, tmp_path):
    path = write_rules(tmp_path / "gate.yaml", rule())
    asked = ("gate", runs.sharp, "--rules", path, "--json")
    assert_rejected(run(*asked, tmp_path), "is a folder")
    assert_rejected(run(*asked, tmp_path / "a", "--junit", tmp_path / "a"), "is given twice")
    assert_rejected(run(*asked, tmp_path / "a", "--inconclusive", "maybe"), "must be fail or pass")


def test_the_options_are_those_of_python():
    with pytest.raises(ec.UsageError, match=r"Unknown argument 'rule'. Did you mean 'rules'"):
        ec.gate("run", rule="x")
    with pytest.raises(ec.UsageError, match="must be the path of a run folder"):
        ec.gate(3, rules=[])


def test_python_also_takes_results_that_are_stored(runs):
    by_path = ec.gate(runs.dull, against=runs.sharp, rules=[rule(no_worse_than_old={"margin": 1})])
    stored = [ec.load(folder) for folder in (runs.dull, runs.sharp)]
    rules = [rule(no_worse_than_old={"margin": 1})]
    assert ec.gate(stored[0], against=stored[1], rules=rules).rules == by_path.rules
    unstored = stored[0].model_copy()
    unstored._folder = None
    with pytest.raises(ec.UsageError, match="must be stored in a folder"):
        ec.gate(unstored, rules=rules)


def test_records_are_frozen(runs):
    results = ec.gate(runs.sharp, rules=[rule()])
    assert repr(results) == "<GateResults of 1 rule: pass>"
    assert "<td>a rule</td>" in results._repr_html_()
    with pytest.raises(TypeError):
        replace(results, outcome="fail")


@pytest.fixture(scope="module")
def few(tmp_path_factory):
    """A run of the sharp model on 16 images of 8 classes."""
    home = tmp_path_factory.mktemp("few")
    folder = save_hues(home / "hues", each=2)
    return evaluate(folder, home / "run", *ASKED, models=(SHARP,))


@pytest.mark.parametrize("limit", [0.01, 0.999])
def test_sixteen_images_decide_nothing(few, limit, files, run, tmp_path):
    (result,) = ec.gate(few, rules=[rule(at_least=limit)]).rules
    assert result.outcome == "inconclusive" and result.insufficient
    assert result.n_images == 16 and result.decider is not None
    sentence = "Insufficient data (at least 40 images; have 16)."
    assert result.decider.sentence == sentence and result.decider.n_images == 40
    # not even if inconclusive rules count as a pass
    path = write_rules(tmp_path / "gate.yaml", rule(at_least=limit))
    options = ("--inconclusive", "pass", "--junit", files["junit"])
    done = run("gate", few, "--rules", path, *options)
    assert done.status == 1 and "which counts as fail" in done.err
    assert ElementTree.parse(files["junit"]).getroot()[0].get("failures") == "1"


def test_a_rule_about_a_class_needs_the_minimum_of_images_too(runs):
    label = table(runs.sharp, "vcr/frost").label.iloc[0]
    result = decided(runs.sharp, classes=[label], at_least=0.01)
    assert result.n_images == 5 and result.outcome == "inconclusive"
    assert "have 5)" in result.decider.sentence


def test_more_samples_of_images_that_had_none_are_advised_below_the_minimum(runs):
    result = decided(runs.sharp, corruptions=["frost"], delta_v=[0.4, 0.6], at_least=0.01)
    assert result.n_images < 40 and result.outcome == "inconclusive"
    assert "More samples of the same 40 images would suffice" in result.decider.sentence
    n = int(result.decider.sentence.split("--n ")[1].split(",")[0])
    assert n >= 60 * 40 / result.n_images and result.decider.samples_help


def test_advice_changes_something(runs):
    for limit in np.arange(0.02, 1, 0.04):
        result = decided(runs.sharp, at_least=float(limit))
        if result.decider is not None:
            check_advice(result)
    for margin in (0.001, 0.01, 0.05, 0.1, 0.2):
        for new, old in ((runs.dull, runs.sharp), (runs.sharp, runs.sharp)):
            result = decided(new, old, no_worse_than_old={"margin": margin})
            if result.decider is not None:
                check_advice(result)


@pytest.mark.parametrize("drop", [0.006, 0.0096, 0.01])
def test_a_size_that_suffices_for_equal_models_is_not_advised_again(runs, drop):
    # 5,000 images would show equal models to be equal, but these models are not
    n = 5000
    lost, won = int(n * (0.015 + drop / 2)), int(n * (0.015 - drop / 2))
    values = np.repeat([-1.0, 1.0, 0.0], [lost, won, n - lost - won])
    mean = clustered_mean(values, np.arange(n), lowest=-1)
    (margin,), _ = load_rules([rule(no_worse_than_old={"margin": 0.01})])
    decider = make_decider(margin, mean, n, 1, read_recorded_run(runs.sharp))
    assert "now 60" not in decider.sentence
    if drop == 0.006:
        assert n < decider.n_images <= 50_000 and "equal to the old" not in decider.sentence
    else:
        assert decider.n_images is None
        assert decider.sentence.startswith("Not decidable with this test set: the estimate, -0.")


def check_advice(result) -> None:
    """Check that the advice asks for more data than there are, in a number that exists."""
    decider = result.decider
    if decider.n_samples is None and decider.n_images is None:
        assert "Not decidable with this test set" in decider.sentence
    if decider.n_samples is not None:
        assert decider.n_samples > result.n_samples
        words = decider.sentence.split("--n ")[1].split(")")[0]
        advised, now = words.split(", now ")
        assert int(advised) > int(now) == 60
    if decider.n_images is not None:
        assert result.n_images < decider.n_images <= 50_000


def test_an_estimate_next_to_its_limit_is_not_decidable(runs):
    rate = decided(runs.sharp).rate
    result = decided(runs.sharp, at_least=round(rate - 1e-5, 6))
    assert result.outcome == "inconclusive"
    assert result.decider.sentence.startswith("Not decidable with this test set: the estimate, ")
    assert result.decider.n_images is None and result.decider.n_samples is None
