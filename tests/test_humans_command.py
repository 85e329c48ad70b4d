"""`eyechart humans`: what it lists, imports, draws and refuses."""

import csv

import numpy as np
import pytest
from PIL import Image

from commands import assert_refused, picture
from eyechart.humans.records import read_answers
from eyechart.humans.reference import find_reference
from photographs import photographs

HEAD = "corruption,subject,picture,label,answer,delta_v\n"


def trials(path, name="frost", count=400, loss=0.6, seed=0):
    """A table of people whose accuracy falls from .9 along a line."""
    numbers = np.random.default_rng(seed)
    change = numbers.random(count)
    right = numbers.random(count) < 0.9 - loss * change
    rows = [
        f"{name},p{place % 4},{place},dog,{'dog' if hit else 'cat'},{v:.4f}\n"
        for place, (v, hit) in enumerate(zip(change, right, strict=True))
    ]
    path.write_text(HEAD + "".join(rows), encoding="utf-8")
    return path


@pytest.fixture
def people(run, tmp_path):
    """An imported file with two experiments and judgements of them."""
    tables = [
        trials(tmp_path / "a.csv", "frost", 1500, 0.2),
        trials(tmp_path / "b.csv", "fog", 1500, 0.8, seed=1),
    ]
    judged = tmp_path / "judged.csv"
    judged.write_text("a,b,same\n" + "fog,frost,0\n" * 9 + "frost,fog,1\n", encoding="utf-8")
    out = tmp_path / "people.parquet"
    result = run(
        "humans", "import", *tables, "--format", "trials", "--out", out, "--judgements", judged
    )
    assert result.status == 0, result.err
    return out


def test_list_names_experiments_people_answers_and_what_they_speak_for(run, people):
    result = run("humans", "list", people)
    assert result.status == 0
    assert "CC BY 4.0" in result.out and "Geirhos" in result.out
    assert "lowpass: 6 people, 7,680 answers, Δv 0.00 to 0.99, accuracy" in result.out
    assert "frost: 4 people, 1,500 answers" in result.out
    noise = next(line for line in result.out.splitlines() if "noise: 5 people" in line)
    assert "0.866 right of clean pictures (shown to others)" in noise
    assert "shot_noise" in noise


def test_import_writes_a_file_that_is_a_reference(run, tmp_path):
    out = tmp_path / "people.parquet"
    table = trials(tmp_path / "t.csv", count=1500)
    for _ in range(2):  # a file of ours may be written again
        result = run("humans", "import", table, "--format", "trials", "--out", out)
        assert result.status == 0
    assert "frost: 4 people, 1,500 answers" in result.out
    with table.open(encoding="utf-8") as file:
        right = sum(row["answer"] == row["label"] for row in csv.DictReader(file))
    assert read_answers(out).correct.sum() == right
    assert find_reference(str(out)).curve("frost", replicates=5) is not None


def test_counts_are_said_to_be_of_two_choices_unless_told(run, tmp_path):
    table = tmp_path / "t.csv"
    table.write_text("IQA,Accuracy,Count,Num_Accs\n0.1,0.9,40,36\n", encoding="utf-8")
    command = ["humans", "import", table, "--format", "counts", "--corruption", "frost", "--out"]
    result = run(*command, tmp_path / "two.parquet")
    assert result.status == 0 and "Taken to be 2 choices" in result.out
    result = run(*command, tmp_path / "ten.parquet", "--choices", 10)
    assert "Taken" not in result.out and "10 choices" in result.out
    assert read_answers(tmp_path / "ten.parquet").choices == 10


def test_plot_draws_the_packaged_and_the_imported(run, people, tmp_path):
    for arguments, width in (([], 3), ([people], 2)):
        out = tmp_path / "p.png"
        for _ in range(2):  # a plot may be drawn again
            assert run("humans", "plot", *arguments, "--out", out).status == 0
        with Image.open(out) as drawn:
            assert drawn.width == pytest.approx(630 * width, abs=2)
            colours = np.asarray(drawn.convert("RGB")).reshape(-1, 3)
        # the curve's own blue is there
        assert (np.abs(colours.astype(int) - (0x1F, 0x4E, 0x79)).max(axis=1) < 8).sum() > 500


def test_answers_to_clean_pictures_alone_are_no_curve(run, tmp_path):
    table, out = trials(tmp_path / "t.csv", "clean"), tmp_path / "p.parquet"
    assert run("humans", "import", table, "--format", "trials", "--out", out).status == 0
    assert_refused(run("humans", "plot", out, "--out", tmp_path / "p.png"), "clean pictures only")
    assert not (tmp_path / "p.png").exists()


def test_similar_says_where_bands_are_apart_and_what_people_said(run, people):
    result = run("humans", "similar", people, "frost", "fog")
    assert result.status == 0
    assert "accuracy: the 83 % bands are apart at Δv" in result.out and "different" in result.out
    # 1 of 10 the same: 22 of 1024 cases are as far from one half
    assert "1 of 10 times: p = 0.02148" in result.out
    result = run("humans", "similar", "geirhos", "lowpass", "noise")
    assert result.status == 0 and "No same/different judgements" in result.out


def test_place_measures_the_conditions_on_ones_own_pictures(run, tmp_path):
    Image.fromarray(photographs()[1]).save(tmp_path / "cat.png")
    for _ in range(2):
        result = run("humans", "place", tmp_path / "cat.png", "--out", tmp_path / "t.csv")
        assert result.status == 0 and "1 picture." in result.out
    lines = (tmp_path / "t.csv").read_text("utf-8").splitlines()
    assert "on 1 photographs" in lines[1]
    rows = list(csv.DictReader(lines[3:]))
    assert len(rows) == 24
    # of a single picture all quantiles are the same
    assert all(row["0"] == row["0.5"] == row["1"] for row in rows)


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["list", "none.parquet"], "No such file"),
        (["list", "geirhoss"], "Unknown reference"),
        (["import", "t.csv", "--format", "trial", "--out", "x.parquet"], "Did you mean 'trials'"),
        (["import", "t.csv", "--format", "trials"], "--out"),
        (["import", "t.csv", "--format", "trials", "--out", "x.csv"], ".parquet"),
        (["import", "t.csv", "--format", "trials", "--out", "mine.parquet"], "no answers"),
        (["import", "t.csv", "--format", "trials", "--out", "none/x.parquet"], "No such folder"),
        (["import", "none.csv", "--format", "trials", "--out", "x.parquet"], "Cannot read none"),
        (["import", "bad.csv", "--format", "trials", "--out", "x.parquet"], "bad.csv, row 3"),
        (["import", "t.csv", "--format", "counts", "--out", "x.parquet"], "Accuracy or Preserved"),
        (
            ["import", "t.csv", "--format", "trials", "--choices", "1", "--out", "x.parquet"],
            "choices",
        ),
        (["import", "t.csv", "--format", "model-vs-human", "--out", "x.parquet"], "placement"),
        (["plot", "--out", "photo.png"], "no plot of people"),
        (["plot", "--out", "p.jpg"], ".png"),
        (["plot", "t.csv", "--out", "p.png"], "not a Parquet file"),
        (["plot", "geirhos"], "--out"),
        (["similar", "geirhos", "noise", "noise"], "twice"),
        (["similar", "geirhos", "noise", "lowpas"], "Did you mean 'lowpass'"),
        (["place", "t.csv", "--out", "x.csv"], "t.csv"),
        (["place", "photo.png", "--out", "t.csv"], "no placement"),
        (["place", "flat.png", "--out", "x.csv"], "photographs"),
    ],
)
def test_what_cannot_be_done_is_refused_in_a_sentence(run, tmp_path, monkeypatch, arguments, word):
    monkeypatch.chdir(tmp_path)
    trials(tmp_path / "t.csv")
    (tmp_path / "bad.csv").write_text(
        HEAD + "frost,a,1,dog,dog,0.5\nfrost,a,1,dog,dog,2\n", encoding="utf-8"
    )
    (tmp_path / "mine.parquet").write_bytes(b"precious")
    picture(tmp_path / "photo.png", 0, (300, 300))
    Image.new("L", (300, 300), 99).save(tmp_path / "flat.png")
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    result = run("humans", *arguments)
    assert_refused(result, word)
    assert not result.out
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before
