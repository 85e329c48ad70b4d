"""What a second reader of the experiment found wrong."""

from dataclasses import replace

import pytest

from eyechart_experiment.design.study_build import RENDERED
from eyechart_experiment.quality.judging import judge
from eyechart_experiment.quality.rules import rules_text
from eyechart_experiment.storage.experiment_folder import open_study
from eyechart_experiment.study_config import StudyConfig
from filled_studies import Robot, always, sitting_of
from study_inputs import SMALL, draw_testset, save_real_images

PAIRS = StudyConfig(name="s", title="S", kind="same-different", show_ms=1000)


def with_stamps(**stamps):
    """A session of a single trial with these stamps."""
    record = sitting_of(Robot(always("same")), PAIRS, seed=1)
    first = record.responses[0]
    first.stamps.update(stamps)
    return replace(record, responses=(first,))


@pytest.mark.parametrize("shown, is_odd", [(1000, False), (1016, False), (1034, True), (900, True)])
def test_two_images_that_were_shown_too_long_or_too_short_do_not_count(shown, is_odd):
    # of two images the browser says when they came and when, after them, only the buttons stayed
    end = 300.0 + shown
    record = with_stamps(stimulus=300.0, response=end, end=end + 2000, hz=60.0)
    reasons = judge(record, PAIRS).invalid_reasons.get(0, ())
    assert ("timing" in reasons) == is_odd and "stamps" not in reasons


def test_who_responses_before_the_two_images_are_gone_has_seen_enough_of_them():
    record = sitting_of(Robot(always("same")), PAIRS, seed=1)
    stamps = {"stimulus": 300.0, "end": 300.0 + record.responses[0].rt_ms + 20, "hz": 60.0}
    first = replace(record.responses[0], stamps=stamps)
    assert judge(replace(record, responses=(first,)), PAIRS).invalid_reasons == {}


def test_the_rules_do_not_read_as_if_every_response_were_right():
    text = rules_text()
    assert "No answer is wrong" not in text and "A missing response is incorrect" in text


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
