import pytest

from eyechart.core.errors import UsageError
from eyechart.core.storage.run_folder import first_change, open_run_folder, read_settings

SETTINGS = {"seed": 1, "names": ["a", "b"]}


def open_study(out, settings=SETTINGS, **more):
    open_run_folder(
        out, settings, work="study", folders=("models", "tests"), files=("table.csv",), **more
    )


def test_the_same_settings_resume_and_leave_what_is_there(tmp_path):
    open_study(tmp_path / "out")
    (tmp_path / "out" / "models" / "a.pt").write_text("kept")
    open_study(tmp_path / "out")
    assert (tmp_path / "out" / "models" / "a.pt").read_text() == "kept"
    assert read_settings(tmp_path / "out" / "run.json") == SETTINGS


def test_other_settings_are_rejected_with_the_first_difference(tmp_path):
    open_study(tmp_path)
    with pytest.raises(UsageError, match=r"holds another study \(seed: 1, now 2\): choose another"):
        open_study(tmp_path, {"seed": 2, "names": ["c"]})
    assert read_settings(tmp_path / "run.json") == SETTINGS


def test_growing_settings_are_kept_and_not_compared(tmp_path):
    open_study(tmp_path, growing={"together": {"x": ["a"]}})
    open_study(tmp_path, growing={"together": {"x": ["a"], "y": ["b"]}})
    assert read_settings(tmp_path / "run.json")["together"] == {"x": ["a"], "y": ["b"]}


@pytest.mark.parametrize("name", ["models/a.pt", "tests/0/a.parquet", "table.csv"])
def test_files_of_something_else_are_rejected_before_anything_is_written(tmp_path, name):
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / name).write_text("mine")
    with pytest.raises(UsageError, match="already exists and is not from this study"):
        open_study(tmp_path)
    assert not (tmp_path / "run.json").exists()


def test_strays_are_tolerated(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    open_study(tmp_path)
    assert (tmp_path / "notes.txt").read_text() == "mine"


def test_a_file_and_a_damaged_record_are_one_sentence(tmp_path):
    (tmp_path / "file").write_text("mine")
    with pytest.raises(UsageError, match="it is a file, not a folder"):
        open_study(tmp_path / "file")
    (tmp_path / "run.json").write_text("{")
    with pytest.raises(UsageError, match=r"run\.json cannot be read"):
        open_study(tmp_path)


def test_leftovers_of_killed_processes_go_wherever_the_work_writes(tmp_path):
    open_study(tmp_path)
    (tmp_path / "models" / "0").mkdir()
    leftovers = [tmp_path / part / ".a.pt.999999999.tmp" for part in (".", "tests", "models/0")]
    for path in leftovers:
        path.write_text("")
    open_study(tmp_path)
    assert not [path for path in leftovers if path.exists()]


def test_of_long_lists_what_differs_is_named():
    names = [f"name{number}" for number in range(30)]
    assert first_change({"names": names}, {"names": names[:-1]}) == "names: no longer name29"
    assert first_change({"names": names}, {"names": [*names, "new"]}) == "names: now also new"
    swapped = [*names[:-2], *names[:-3:-1]]
    assert first_change({"names": names}, {"names": swapped}) == "names: in a different order"
    assert first_change({"a": 1, "gone": 2}, {"a": 1}) is None
