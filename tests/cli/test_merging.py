"""What `eyechart merge` does with the shards of other commands than `evaluate`."""

import json
from pathlib import Path

import pytest

from commands import image_file
from eyechart.cli.evaluate import merge_other
from eyechart.core.errors import UsageError


@pytest.fixture
def photos(tmp_path):
    for number in range(3):
        image_file(tmp_path / "photos" / "a" / f"{number}.png", number, (40, 40))
    return tmp_path / "photos"


def test_corrupted_images_are_merged(run, photos, tmp_path):
    foggy = tmp_path / "foggy"
    for shard in ("1/2", "2/2"):
        made = run("corrupt", photos, "-c", "fog", "-s", 1, "-o", foggy, "--shard", shard)
        assert made.status == 0, made.err
    assert merge_other(foggy) == f"{foggy}: the shards are merged (3 images or arrays)."


def test_a_study_is_finished_by_its_own_command(tmp_path):
    (tmp_path / "run.json").write_text(json.dumps({"kind": "style"}))
    with pytest.raises(UsageError, match="is a study: run its command again without --shard"):
        merge_other(tmp_path)


def test_everything_else_is_left_to_evaluations(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run.json").write_text(json.dumps({"suite": "vcr"}))
    assert merge_other(tmp_path) is None
    assert merge_other(tmp_path / "new") is None
    assert merge_other(Path(".")) is None
