"""results.json: what is declared is what is written, and comes back as it was."""

import json

import pytest

from commands import assert_refused
from eyechart.core.errors import UsageError
from eyechart.results.schema import read_results
from report_runs import make_once, people_run


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    return make_once(tmp_path_factory, people_run)


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
                    people = own.people
                    lines = [own.curve, *([people.line, people.model_line] if people else [])]
                    for line in filter(None, lines):
                        curves += 1
                        rows = zip(line.low95, line.low83, line.high83, line.high95, strict=True)
                        assert all(a <= b <= c <= d for a, b, c, d in rows)
    assert curves > 20


def test_histograms_count_the_rows_of_the_test_set(out):
    for own in read_results(out).coverage.values():
        assert sum(own.histogram) == own.rows == 90 and len(own.histogram) == 39


def test_people_are_there_with_curves_and_the_rates_behind_them(out):
    people = {own.name: own for own in read_results(out).people}
    assert set(people) == {"noise", "lowpass", "contrast"}
    assert people["lowpass"].kind == "blur" and "gaussian_blur" in people["lowpass"].members
    points = people["noise"].accuracy.points
    assert sum(point.answers for point in points) == 6400
    assert all(a <= p.rate <= b for p in points for a, b in [p.interval83])


def test_classes_are_those_of_the_pictures_with_all_their_answers(out):
    found = read_results(out)
    for model in found.models:
        space = model.spaces["native"]
        assert len(space.by_class) == space.classes
        assert sum(own.pictures for own in space.by_class) == space.pictures
        answers = sum(score.accuracy.answers for score in space.corruptions.values())
        assert sum(own.answers for own in space.by_class) == answers


def test_a_file_that_lacks_a_field_is_refused_by_its_name(out, tmp_path, run):
    found = json.loads((out / "results.json").read_text("utf-8"))
    del found["models"][0]["spaces"]["native"]["means"]
    (tmp_path / "results.json").write_text(json.dumps(found))
    with pytest.raises(UsageError, match="means"):
        read_results(tmp_path)
    assert_refused(run("report", tmp_path), "is damaged")


@pytest.mark.parametrize(
    ("place", "value", "words"),
    [
        (("images", "pictures"), "60", "images.pictures"),
        (("images", "pictures"), True, "images.pictures"),
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
    ],
)
def test_a_value_of_another_type_is_refused_by_its_place(out, tmp_path, place, value, words):
    content = json.loads((out / "results.json").read_text("utf-8"))
    inner = content
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    (tmp_path / "results.json").write_text(json.dumps(content))
    with pytest.raises(UsageError, match=r"is damaged \(") as caught:
        read_results(tmp_path)
    assert words in str(caught.value) and "\n" not in str(caught.value)


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
        (b'{"schema": 4}', "is damaged"),
    ],
)
def test_a_file_of_another_kind_gets_one_sentence(tmp_path, content, words):
    (tmp_path / "results.json").write_bytes(content)
    with pytest.raises(UsageError, match=words):
        read_results(tmp_path)
