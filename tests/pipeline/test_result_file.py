"""Files of the VCR authors' code are scored as `evaluate` scores, and as NumPy alone does."""

import csv

import numpy as np
import pytest

from commands import assert_rejected
from curves_by_hand import area_by_hand, curve_by_hand, vcr_table

GRID = np.linspace(0, 1, 400_001)


def columns(path):
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    return {name: np.array([row[name] for row in rows]) for name in rows[0]}


def curves_of(path, *, of_humans):
    """Return the corners of the curves of accuracy and of consistency in a file."""
    data = columns(path)
    delta_v = data["vd_score"].astype(float)
    right = (data["transf_pred"] == data["label"]).astype(float)
    same = (data["transf_pred"] == data["orig_pred"]).astype(float)
    clean = (data["orig_pred"] == data["label"]).mean()
    # two humans may disagree on a clean image, a model agrees with itself
    start = None if of_humans else 1.0
    return {"a": curve_by_hand(delta_v, right, clean), "p": curve_by_hand(delta_v, same, start)}


def printed(run, *arguments):
    """Return the printed scores of the first corruption by their titles."""
    told = run("models", "score", *arguments, "--n-bootstrap", 20)
    assert told.status == 0, told.err
    lines = told.out.splitlines()
    start = next(i for i, line in enumerate(lines) if line.split()[:1] == ["corruption"])
    # each score is followed by its interval
    return dict(
        zip(lines[start].split()[1:], lines[start + 2].split()[1::2], strict=False)
    ), told.out


def test_scores_of_a_file_are_those_computed_by_hand(run, tmp_path):
    model = vcr_table(tmp_path / "model.csv", seed=1)
    # these humans lose less than the model, so that HMRI is below 1
    humans = vcr_table(tmp_path / "humans.csv", seed=2)
    text = [line.split(",") for line in humans.read_text("utf-8").splitlines()]
    for row in text[1::3]:
        row[2] = row[3]
    humans.write_text("\n".join(map(",".join, text)) + "\n", encoding="utf-8")
    reference = tmp_path / "humans.parquet"
    options = ("--format", "vcr", "--corruption", "frost", "--out", reference)
    assert run("humans", "import", humans, *options).status == 0
    expected = {}
    ours, theirs = curves_of(model, of_humans=False), curves_of(humans, of_humans=True)
    for letter in "ap":
        area, human_area = area_by_hand(*ours[letter]), area_by_hand(*theirs[letter])
        both = np.minimum(np.interp(GRID, *ours[letter]), np.interp(GRID, *theirs[letter]))
        common = np.trapezoid(both, GRID)
        expected[f"R_{letter}"] = area
        expected[f"HMRI_{letter}"] = common / human_area
        expected[f"MRSI_{letter}"] = abs(1 - common / area)
    assert expected["HMRI_a"] < 0.95
    scores, out = printed(run, model, "--corruption", "vcr/frost", "--humans", reference)
    assert {name: scores[name] for name in expected} == {
        name: f"{value:.3f}" for name, value in expected.items()
    }
    data = columns(model)
    clean = (data["orig_pred"] == data["label"]).mean()
    assert f"model.csv: 300 images, clean accuracy {clean:.3f}" in out
    assert "frost of humans (1,500 responses), shown to humans directly" in out


def test_labels_other_than_the_categories_are_scored_without_humans(run, tmp_path):
    table = vcr_table(tmp_path / "model.csv")
    names = {"dog": "207", "cat": "281", "bird": "13"}
    text = table.read_text("utf-8")
    for name, number in names.items():
        text = text.replace(name, number)
    table.write_text(text, encoding="utf-8")
    command = ("models", "score", table, "--corruption", "frost")
    assert_rejected(run(*command), "'207' is not one of the 16 categories", "choices")
    scores, out = printed(run, table, "--corruption", "frost", "--choices", 1000)
    assert {"R_a", "R_p"} <= scores.keys() and "HMRI" not in out
    assert "humans responded in the 16 categories, and the labels of this file are others" in out


def test_few_images_make_no_claim_and_other_proportions_are_said(run, tmp_path):
    table = vcr_table(tmp_path / "model.csv", images=32)
    _, out = printed(run, table, "--corruption", "vcr/gaussian_blur")
    assert "insufficient data (at least 5 images in each of 8 categories; have" in out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), ("must name the corruption of the images", "--corruption")),
        (("--corruption", "frost", "--right-anchor", "measured"), ("destroyed images",)),
    ],
)
def test_what_a_file_cannot_give_is_rejected(run, tmp_path, arguments, words):
    table = vcr_table(tmp_path / "model.csv")
    assert_rejected(run("models", "score", table, *arguments), *words)


def test_a_row_without_a_prediction_is_rejected(run, tmp_path):
    table = vcr_table(tmp_path / "model.csv")
    table.write_text(table.read_text("utf-8") + "i1,dog,,dog,0.5\n", encoding="utf-8")
    told = run("models", "score", table, "--corruption", "frost")
    assert_rejected(told, "transf_pred is empty in 1 of 1,501 rows")
