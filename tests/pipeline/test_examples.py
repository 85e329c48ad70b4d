"""Example pictures: which rows are kept, their pixels, and what is said about each."""

import json
from io import BytesIO

import numpy as np
import pyarrow.parquet as pq
import pytest
from PIL import Image

import eyechart as ec
from eyechart.pipeline.examples import choose_rows
from eyechart.predictions.reading import Predictions
from eyechart.results.results_file import read_results, write_results
from small_models import colors, save_images

LABELS = ["blue", "green", "grey", "red"]


def drawn(images, delta_v, severity=None):
    """Answers to these pictures at these visual changes; rows count from 100."""
    count, nothing = len(images), np.full(len(images), np.nan)
    return Predictions(
        np.array(delta_v, dtype=float),
        nothing if severity is None else np.array(severity, dtype=float),
        np.array(images), np.zeros(count, dtype=int), np.ones(count),
        *(nothing for _ in range(4)), row=100 + np.arange(count),
    )  # fmt: skip


def test_one_image_that_reaches_far_is_shown_from_mild_to_strong():
    own = drawn([0] * 6 + [1] * 6, [0.95, 0.15, 0.35, 0.55, 0.75, 0.05] + [0.91] * 6)
    assert choose_rows({"fog": own}, None)["fog"].tolist() == [105, 101, 102, 103, 104, 100]


def test_of_several_rows_in_a_part_the_one_in_its_middle_is_shown():
    own = drawn([0] * 7, [0.11, 0.15, 0.19, 0.35, 0.55, 0.75, 0.95])
    assert choose_rows({"fog": own}, None)["fog"].tolist() == [101, 103, 104, 105, 106]


def test_where_no_image_reaches_far_others_stand_in():
    own = drawn([0, 0, 1, 2, 3, 4, 5], [0.05, 0.15, 0.25, 0.35, 0.45, 0.55, 0.65])
    assert choose_rows({"fog": own}, None)["fog"].tolist() == [100, 101, 102, 103, 104, 105, 106]


def test_all_corruptions_show_the_same_image_if_that_reaches_far_enough():
    tenths = [place / 10 + 0.05 for place in range(10)]
    fog = drawn([0] * 10 + [1] * 8, tenths + tenths[:8])
    snow = drawn([0] * 2 + [1] * 10, tenths[:2] + tenths)
    found = choose_rows({"fog": fog, "snow": snow}, None)
    assert [row - 100 for row in found["fog"]] == list(range(10, 18))
    assert [row - 100 for row in found["snow"]] == list(range(2, 12))


def test_published_levels_are_all_shown_of_one_image():
    own = drawn([3] * 5 + [4] * 5, [0.61, 0.62, 0.63, 0.64, 0.65] * 2, [1, 2, 3, 4, 5] * 2)
    assert choose_rows({"fog": own}, None)["fog"].tolist() == [100, 101, 102, 103, 104]


def test_images_that_are_recognised_clean_come_first():
    own = drawn([3] * 5 + [4] * 5, [0.1, 0.2, 0.3, 0.4, 0.5] * 2, [1, 2, 3, 4, 5] * 2)
    chosen = choose_rows({"fog": own}, np.array([4]))["fog"]
    assert chosen.tolist() == [105, 106, 107, 108, 109]


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    home = tmp_path_factory.mktemp("examples")
    folder = save_images(home / "photos", each=3)
    evaluation = ec.evaluate(
        ["small_models:colors", "small_models:four_classes"], folder, n=48,
        corruptions=["gaussian_noise", "brightness"],
        stimulus="native", bins=9, min_per_bin=3, n_bootstrap=20, humans=None, out=home / "run",
    )  # fmt: skip
    write_results(evaluation, home / "run")
    return folder, home / "run", evaluation


def test_every_example_is_a_row_of_the_run_with_its_predictions(kept):
    _, out, evaluation = kept
    assert {each.corruption for each in evaluation.examples} == {
        "clean", "vcr/gaussian_noise", "vcr/brightness",
    }  # fmt: skip
    for example in evaluation.examples:
        name = example.corruption.replace("/", "-")
        rows = pq.read_table(out / "predictions" / f"{name}.parquet").to_pylist()
        own = [row for row in rows if row["row"] == example.row]
        assert {row["model"] for row in own} == set(example.predictions)
        for row in own:
            said = example.predictions[row["model"]]
            assert said.prediction == LABELS[row["prediction"]]
            assert said.confidence == pytest.approx(row["confidence"])
            assert said.correct == (said.prediction == row["label"])
            assert (example.image, example.truth) == (row["image"], row["label"])
            assert example.delta_v == pytest.approx(row["delta_v"])
            assert example.parameters == dict(row["parameters"])


def test_consistent_means_the_clean_images_prediction(kept):
    _, _, evaluation = kept
    clean = {each.image: each for each in evaluation.examples if each.corruption == "clean"}
    for example in evaluation.examples:
        for model, said in example.predictions.items():
            same = said.prediction == clean[example.image].predictions[model].prediction
            assert said.consistent == same


def test_the_kept_images_are_those_that_models_saw(kept):
    folder, out, evaluation = kept
    for example in evaluation.examples:
        seen = np.asarray(Image.open(out / "examples" / example.file).convert("RGB"))
        made = Image.open(folder / example.image).convert("RGB")
        if example.corruption != "clean":
            name = example.corruption.replace("/", "-")
            rows = pq.read_table(out / "predictions" / f"{name}.parquet").to_pylist()
            row = next(row for row in rows if row["row"] == example.row)
            made = ec.corrupt(
                made, example.corruption, keys=[row["digest"]], draw=row["draw"],
                **example.parameters,
            )  # fmt: skip
        stored = BytesIO()
        made.save(stored, "JPEG", quality=90)
        np.testing.assert_array_equal(seen, np.asarray(Image.open(stored).convert("RGB")))


def test_examples_come_back_from_the_file(kept):
    _, out, evaluation = kept
    assert read_results(out).examples == evaluation.examples
    assert json.loads((out / "results.json").read_text("utf-8"))["examples"]


def test_without_a_folder_to_keep_them_there_are_no_examples(kept):
    folder, _, _ = kept
    found = ec.evaluate(
        colors, folder, n=12, corruptions=["brightness"], stimulus="native", bins=5, min_per_bin=2,
        n_bootstrap=5, humans=None,
    )  # fmt: skip
    assert found.examples == ()


def test_results_with_an_example_of_infinite_strength_are_read_again(tmp_path):
    few = {"bins": 4, "n_bootstrap": 5, "stimulus": "native", "humans": "none"}
    images = save_images(tmp_path / "images", each=2)
    # among so many samples, one has no shot noise at all: infinitely many photons
    written = ec.evaluate(
        colors, images, n=12, corruptions=["shot_noise"], out=tmp_path / "run", **few
    )
    written.save(tmp_path / "run")
    unchanged = [one for one in written.examples if one.corruption != "clean" and one.severity == 0]
    assert unchanged and all(not one.parameters for one in unchanged)
    assert ec.load(tmp_path / "run") == written
