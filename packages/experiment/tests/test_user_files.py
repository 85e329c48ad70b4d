"""Files that users name: pipes, YAML beyond any use, and a test set with another ruler."""

import pytest

import small_models
from commands import assert_rejected, image_file, pipe
from eyechart.core.errors import UsageError
from eyechart_experiment.design.study_settings import _read_settings
from eyechart_experiment.study_config import read_config


@pytest.mark.parametrize(
    ("options", "name"),
    [
        (("--testset", "t.parquet", "--images", "photos"), "t.parquet"),
        (("--testset", "t", "--settings", "settings.yaml"), "settings.yaml"),
    ],
)
def test_a_named_pipe_as_an_option_is_one_sentence(run, tmp_path, monkeypatch, options, name):
    monkeypatch.chdir(tmp_path)
    small_models.save_images(tmp_path / "photos", each=1)
    with pipe(tmp_path / name):
        told = run("experiment", "new", "study", *options)
    assert_rejected(told)


@pytest.mark.parametrize("text", ["[" * 5000 + "]" * 5000, "a: " * 3])
@pytest.mark.parametrize("read", [read_config, _read_settings])
def test_settings_that_are_no_useful_yaml_are_one_sentence(tmp_path, text, read):
    path = tmp_path / "file.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(UsageError) as error:
        read(path)
    assert str(error.value).endswith(".") and "\n" not in str(error.value)


def test_a_test_set_with_another_ruler_is_rejected(run, tmp_path):
    photos = tmp_path / "photos"
    for number in range(20):
        image_file(photos / ("n02123045", "n02085620")[number % 2] / f"{number}.png", number)
    testset = tmp_path / "set.parquet"
    made = run(
        "testset", "make", "--images", photos, "--out", testset, "--n", 60, "--stimulus", "native",
        "--corruption", "gaussian_noise", "--ruler", "sheikh2006",
    )  # fmt: skip
    assert made.status == 0, made.err
    study = run("experiment", "new", tmp_path / "study", "--testset", testset, "--images", photos)
    assert_rejected(study, "the ruler vif", "sheikh2006")
