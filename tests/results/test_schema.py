"""results.json: what is declared is what is written, and comes back as it was."""

import json
from dataclasses import fields
from importlib.resources import files

import jsonschema_rs
import pytest

import eyechart as ec
import eyechart.results
from commands import assert_rejected
from eyechart.core.errors import UsageError
from eyechart.humans.human_settings import ComparisonSettings
from eyechart.results.results_file import read_results, schema_text
from eyechart.stats.curve_settings import CurveSettings
from eyechart.testsets.plan import Plan
from places import ROOT
from report_runs import human_run, make_once


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    return make_once(tmp_path_factory, human_run)


def plain(value):
    """The value as JSON has it: lists for tuples."""
    return json.loads(json.dumps(value))


def test_the_records_declare_every_field_of_the_file_and_no_other(out):
    written = json.loads((out / "results.json").read_text("utf-8"))
    assert json.loads(read_results(out).model_dump_json(by_alias=True)) == written


def test_bands_hold_the_curve_and_the_narrow_one_lies_in_the_wide_one(out):
    curves = 0
    for model in read_results(out).models:
        for space in model.spaces.values():
            for score in space.corruptions.values():
                for own in score.properties.values():
                    humans = own.humans
                    lines = [own.curve, *([humans.line, humans.model_line] if humans else [])]
                    for line in filter(None, lines):
                        curves += 1
                        rows = zip(line.low95, line.low83, line.high83, line.high95, strict=True)
                        assert all(a <= b <= c <= d for a, b, c, d in rows)
    assert curves > 20


def test_histograms_count_the_rows_of_the_test_set(out):
    for own in read_results(out).coverage.values():
        assert sum(own.histogram) == own.rows == 90 and len(own.histogram) == 39


def test_humans_are_there_with_curves_and_the_rates_behind_them(out):
    humans = {own.name: own for own in read_results(out).humans}
    assert set(humans) == {"noise", "lowpass", "contrast"}
    assert humans["lowpass"].kind == "blur" and "gaussian_blur" in humans["lowpass"].members
    points = humans["noise"].accuracy.points
    assert sum(point.n_responses for point in points) == 6400
    assert all(a <= p.rate <= b for p in points for a, b in [p.interval83])


def test_classes_are_those_of_the_images_with_all_their_predictions(out):
    found = read_results(out)
    for model in found.models:
        space = model.spaces["native"]
        assert len(space.by_class) == space.classes
        assert sum(own.n_images for own in space.by_class) == space.n_images
        predictions = sum(score.accuracy.n_samples for score in space.corruptions.values())
        assert sum(own.n_samples for own in space.by_class) == predictions


def test_a_file_that_lacks_a_field_is_rejected_by_its_name(out, tmp_path, run):
    found = json.loads((out / "results.json").read_text("utf-8"))
    del found["models"][0]["spaces"]["native"]["means"]
    (tmp_path / "results.json").write_text(json.dumps(found))
    with pytest.raises(UsageError, match="means"):
        read_results(tmp_path)
    assert_rejected(run("report", tmp_path), "is damaged")


def test_the_settings_in_the_file_are_those_of_the_records_of_options(out):
    """An option that is added to a record of settings is in the file without being named again."""
    written = json.loads((out / "results.json").read_text("utf-8"))["config"]
    names = {field.name for record in (Plan, ComparisonSettings) for field in fields(record)}
    assert names <= set(written)
    assert {field.name for field in fields(CurveSettings)} <= set(written["fit"])
    config = read_results(out).config
    assert plain(config.written()) == written
    assert config.plan.settings()["strengths"] == config.strengths
    assert config.human_names == ("geirhos",) and config.similar_names == ("published",)


@pytest.mark.parametrize(
    "name", ["suite", "corruptions", "means_over", "models", "baseline", "fit"]
)
def test_a_file_without_a_setting_is_rejected_by_its_name(out, tmp_path, name):
    content = json.loads((out / "results.json").read_text("utf-8"))
    del content["config"][name]
    (tmp_path / "results.json").write_text(json.dumps(content))
    with pytest.raises(UsageError, match=f"config.{name}"):
        read_results(tmp_path)


@pytest.mark.parametrize(
    ("place", "value", "words"),
    [
        (("images", "n_images"), "60", "images.n_images"),
        (("images", "n_images"), True, "images.n_images"),
        (("images", "used"), 1.5, "images.used"),
        (("images", "damaged"), {}, "images.damaged"),
        (("coverage",), [], "coverage"),
        (("models", 0, "classes"), None, "models.0.classes"),
        (("models", 0, "spaces", "native"), [], "models.0.spaces.native"),
        (
            ("models", 0, "spaces", "native", "clean_accuracy", "interval95"),
            [0, 1, 2],
            "interval95",
        ),
        (("surplus",), 1, "surplus"),
        (("config", "seed"), "0", "config.seed"),
        (("config", "surplus"), 1, "config.surplus"),
        (("config", "fit", "bins"), None, "config.fit.bins"),
    ],
)
def test_a_value_of_another_type_is_rejected_by_its_place(out, tmp_path, place, value, words):
    content = json.loads((out / "results.json").read_text("utf-8"))
    inner = content
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    (tmp_path / "results.json").write_text(json.dumps(content))
    with pytest.raises(UsageError, match=r"is damaged \(") as caught:
        read_results(tmp_path)
    assert words in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize("value", [[], ["vif"], {}, {"vif": 1}, None, 5])
def test_a_setting_of_any_other_type_is_one_sentence(out, tmp_path, value):
    content = json.loads((out / "results.json").read_text("utf-8"))
    rejected = set()
    for name, own in content["config"].items():
        if type(own) is type(value):
            continue
        changed = {**content, "config": {**content["config"], name: value}}
        (tmp_path / "results.json").write_text(json.dumps(changed))
        try:
            read_results(tmp_path)
        except UsageError as error:
            assert f"config.{name}" in str(error)
            rejected.add(name)
    assert {"ruler", "stimulus", "labels", "suite"} <= rejected


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "cannot be read"),
        (b"\xff\xfe", "cannot be read"),
        (b"{" * 5000, "cannot be read"),
        (b"[" * 100_000, "cannot be read"),
        (b"[]", "was not written by eyechart"),
        (b'{"schema": "4"}', "was not written by eyechart"),
        (b'{"schema": 3}', "another version of eyechart"),
        (b'{"schema": 1}', "is damaged"),
    ],
)
def test_a_file_of_another_kind_gets_one_sentence(tmp_path, content, words):
    (tmp_path / "results.json").write_bytes(content)
    with pytest.raises(UsageError, match=words):
        read_results(tmp_path)


def test_what_is_written_is_valid_by_the_published_schema(out):
    """An independent validator reads the schema that the package holds."""
    published = json.loads((files(eyechart.results) / "results.schema.json").read_text("utf-8"))
    validator = jsonschema_rs.validator_for(published)
    content = json.loads((out / "results.json").read_text("utf-8"))
    assert [error.message for error in validator.iter_errors(content)] == []
    content["models"][0]["spaces"]["native"]["n_images"] = "many"
    assert not validator.is_valid(content)


def test_the_published_schema_is_that_of_the_records():
    """Otherwise: write what `schema_text` returns into the file."""
    published = (files(eyechart.results) / "results.schema.json").read_text("utf-8")
    assert published == schema_text()


def test_every_field_is_documented():
    schema = json.loads(schema_text())
    records = {"Results": schema, **schema["$defs"]}
    fields = [
        (name, field, declared.get("description"))
        for name, record in records.items()
        for field, declared in record["properties"].items()
    ]
    assert len(fields) > 150
    assert [field for field in fields if not field[2]] == []


def test_the_docs_hold_every_field(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "docs")
    import generate

    page = generate.on_page_markdown(
        (ROOT / "docs" / "reference" / "results_json.md").read_text("utf-8")
    )
    schema = json.loads(schema_text())
    fields = [field for record in schema["$defs"].values() for field in record["properties"]]
    assert all(f"| `{field}` |" in page for field in (*schema["properties"], *fields))
    assert all(f"## {name}\n" in page for name in schema["$defs"])


def test_loaded_results_have_their_replicates_again(out):
    results = ec.load(out)
    model = results.models[0].name
    score = results[model]["vcr/gaussian_noise"].accuracy.robustness
    assert len(score.replicates) == results.config.fit.n_bootstrap
    assert float(score) == score.value and f"{score:.3f}" == f"{score.value:.3f}"
    assert score.interval(0.95) == score.interval95
    low, high = score.interval(0.5)
    assert score.interval83[0] <= low <= high <= score.interval83[1]
    assert results[model].space("entry16")["vcr/gaussian_noise"].accuracy is not None


@pytest.mark.parametrize("key", ["nobody", "fog"])
def test_a_name_that_is_not_there_is_rejected_with_those_that_are(out, key):
    results = ec.load(out)
    with pytest.raises(UsageError, match=f"Unknown model '{key}'"):
        results[key]
    with pytest.raises(UsageError, match=f"Unknown corruption '{key}'"):
        results[results.models[0].name][key]
    with pytest.raises(UsageError, match=f"Unknown label space '{key}'"):
        results[results.models[0].name].space(key)


def test_saved_results_are_the_same_files(out, tmp_path):
    written = ec.load(out).save(tmp_path)
    for path in written:
        if path.suffix != ".parquet":
            assert path.read_bytes() == (out / path.name).read_bytes()
    assert ec.load(tmp_path) == ec.load(out)
