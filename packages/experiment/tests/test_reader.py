"""What a second reader of the experiment found wrong."""

import pytest

from eyechart_experiment.design.stimulus_files import RENDERED
from eyechart_experiment.quality.judging import find_rules
from eyechart_experiment.quality.rules_v1 import odd
from eyechart_experiment.storage.experiment_folder import open_study
from eyechart_experiment.study_config import StudyConfig
from filled_studies import Robot, always, sitting_of
from study_inputs import SMALL, draw_testset, save_real_images

PAIRS = StudyConfig(name="s", title="S", kind="same-different", show_ms=1000)


@pytest.mark.parametrize("shown, is_odd", [(1000, False), (1016, False), (1034, True), (900, True)])
def test_two_images_that_were_shown_too_long_or_too_short_do_not_count(shown, is_odd):
    response = sitting_of(Robot(always("same")), PAIRS, seed=1).responses[0]
    # of two images the browser says when they came and when, after them, only the buttons stayed
    response.stamps.update({"stimulus": 300.0, "response": 300.0 + shown, "hz": 60.0})
    assert odd(response, 60.0, PAIRS) == (("timing",) if is_odd else ())


def test_who_responses_before_the_two_images_are_gone_has_seen_enough_of_them():
    response = sitting_of(Robot(always("same")), PAIRS, seed=1).responses[0]
    response.stamps.update({"stimulus": 300.0, "end": 700.0, "hz": 60.0})
    assert odd(response, 60.0, PAIRS) == ()


def test_the_rules_do_not_read_as_if_every_response_were_right():
    text = find_rules(1).text
    assert "No answer is wrong" not in text and "without an answer counts as wrong" in text


def test_images_are_mended_where_the_list_of_them_was_lost_too(run, tmp_path):
    images = save_real_images(tmp_path / "images")
    manifest = draw_testset(images, tmp_path / "t.parquet")
    new = ("experiment", "new", tmp_path / "study", "--testset", manifest, "--images", images)
    assert run(*new, *SMALL).status == 0
    study = open_study(tmp_path / "study")
    before = {path.name for path in study.stimuli.iterdir()}
    (study.path / RENDERED).unlink()
    for path in list(study.stimuli.iterdir())[:3]:
        path.unlink()
    result = run(*new, *SMALL)
    assert result.status == 0 and "are valid" in result.out
    assert {path.name for path in study.stimuli.iterdir()} == before
    assert "already" in run(*new, *SMALL).err
