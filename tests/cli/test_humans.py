"""`eyechart humans`: what it lists, imports, draws and refuses."""

import csv

import numpy as np
import pytest
from PIL import Image

from commands import assert_rejected, image_file
from eyechart.humans.human_responses import read_responses
from eyechart.humans.reference import find_reference
from eyechart.humans.transfer import CorruptionClass, SimilarClasses, write_classes
from eyechart.reports.figures import curve_figures
from eyechart.reports.figures.curve_figures import draw_by_class, draw_human_panels
from eyechart.reports.figures.paper_style import paper_style
from eyechart.scores.scoring import Fit
from real_images import real_images

HEAD = "corruption,subject,image,label,response,delta_v\n"


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
def humans_file(run, tmp_path):
    """An imported file with two experiments and judgements of them."""
    tables = [
        trials(tmp_path / "a.csv", "frost", 1500, 0.2),
        trials(tmp_path / "b.csv", "fog", 1500, 0.8, seed=1),
    ]
    judged = tmp_path / "judged.csv"
    rows = "fog,frost,0,0\n" * 6 + "frost,fog,1,1\n" * 3 + "frost,fog,1,0\n"
    judged.write_text("a,b,shown_same,same\n" + rows, encoding="utf-8")
    out = tmp_path / "people.parquet"
    result = run(
        "humans", "import", *tables, "--format", "trials", "--out", out, "--judgements", judged
    )
    assert result.status == 0, result.err
    return out


def test_list_names_experiments_humans_predictions_and_what_they_speak_for(run, humans_file):
    result = run("humans", "list", humans_file)
    assert result.status == 0
    assert "CC BY 4.0" in result.out and "Geirhos" in result.out
    assert "lowpass: 6 humans, 7,680 responses, Δv 0.00 to 0.99, accuracy" in result.out
    assert "frost: 4 humans, 1,500 responses" in result.out
    noise = next(line for line in result.out.splitlines() if "noise: 5 humans" in line)
    assert "accuracy on clean images 0.866 (from other participants)" in noise
    assert "shot_noise" in noise


def test_import_writes_a_file_that_is_a_reference(run, tmp_path):
    out = tmp_path / "people.parquet"
    table = trials(tmp_path / "t.csv", count=1500)
    for _ in range(2):  # a file of ours may be written again
        result = run("humans", "import", table, "--format", "trials", "--out", out)
        assert result.status == 0
    assert "frost: 4 humans, 1,500 responses" in result.out
    with table.open(encoding="utf-8") as file:
        right = sum(row["response"] == row["label"] for row in csv.DictReader(file))
    assert read_responses(out).correct.sum() == right
    assert find_reference(str(out)).curve("frost", n_bootstrap=5) is not None


def test_an_import_without_a_visual_change_is_marked_and_draws_nothing(run, tmp_path):
    table, out = tmp_path / "sketch_subject-01_session_1.csv", tmp_path / "sketch.parquet"
    table.write_text(
        "subj,object_response,category,condition,imagename\n"
        "s01,boat,boat,0,0001_ske_s01_0_boat_00_boat-0068-sketch-23.png\n",
        encoding="utf-8",
    )
    result = run("humans", "import", table, "--format", "model-vs-human", "--out", out)
    assert result.status == 0, result.err
    assert "sketch: 1 human, 1 response, no Δv" in result.out
    assert "only error consistency κ" in result.out
    assert_rejected(run("humans", "plot", out, "--out", tmp_path / "p.png"), "lack visual changes")


def test_plot_names_what_it_draws(run, tmp_path):
    """Frost has a Δv, fog none."""
    table, out = trials(tmp_path / "t.csv", "frost"), tmp_path / "p.parquet"
    with table.open("a", encoding="utf-8") as file:
        file.write("fog,p1,1,dog,dog,\n")
    assert run("humans", "import", table, "--format", "trials", "--out", out).status == 0
    for more in ((), ("--by-class",)):
        result = run("humans", "plot", out, "--out", tmp_path / "p.png", *more)
        assert result.status == 0 and result.out.endswith("p.png: curves of frost from p.\n"), (
            result.err
        )


def test_counts_are_said_to_be_of_two_choices_unless_told(run, tmp_path):
    table = tmp_path / "t.csv"
    table.write_text("IQA,Accuracy,Count,Num_Accs\n0.1,0.9,40,36\n", encoding="utf-8")
    command = ["humans", "import", table, "--format", "counts", "--corruption", "frost", "--out"]
    result = run(*command, tmp_path / "two.parquet")
    assert result.status == 0 and "Assumed 2 choices" in result.out
    result = run(*command, tmp_path / "ten.parquet", "--choices", 10)
    assert "Assumed" not in result.out and "10 choices" in result.out
    assert read_responses(tmp_path / "ten.parquet").choices == 10


def test_plot_draws_the_packaged_and_the_imported(run, humans_file, tmp_path):
    for arguments, width in (([], 3), ([humans_file], 2)):
        out = tmp_path / "p.png"
        for _ in range(2):  # a plot may be drawn again
            assert run("humans", "plot", *arguments, "--out", out).status == 0
        with Image.open(out) as drawn:
            # 4.2 inches a panel, 220 dots an inch
            assert drawn.width == pytest.approx(924 * width, abs=2)
            colors = np.asarray(drawn.convert("RGB")).reshape(-1, 3)
        # the curve's own blue is there
        assert (np.abs(colors.astype(int) - (0x1F, 0x4E, 0x79)).max(axis=1) < 8).sum() > 500


def test_predictions_to_clean_images_alone_are_no_curve(run, tmp_path):
    table, out = trials(tmp_path / "t.csv", "clean"), tmp_path / "p.parquet"
    assert run("humans", "import", table, "--format", "trials", "--out", out).status == 0
    assert_rejected(run("humans", "plot", out, "--out", tmp_path / "p.png"), "clean images only")
    assert not (tmp_path / "p.png").exists()


def test_similar_says_where_bands_are_apart_and_what_humans_said(run, humans_file):
    result = run("humans", "similar", humans_file, "frost", "fog")
    assert result.status == 0
    assert (
        "accuracy: the 83 % intervals do not overlap at Δv" in result.out
        and "different" in result.out
    )
    # 9 of 10 right: 22 of 1024 cases are as far from one half
    assert "0.900" in result.out and "Before correction: p = 0.02148 pooled" in result.out
    result = run("humans", "similar", "geirhos", "lowpass", "noise")
    assert result.status == 0 and "No same/different judgements" in result.out


def test_place_measures_the_conditions_on_ones_own_images(run, tmp_path):
    Image.fromarray(real_images()[1]).save(tmp_path / "cat.png")
    for _ in range(2):
        result = run("humans", "place", tmp_path / "cat.png", "--out", tmp_path / "t.csv")
        assert result.status == 0 and "1 image." in result.out
    lines = (tmp_path / "t.csv").read_text("utf-8").splitlines()
    assert "on 1 image (" in lines[1]
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
        (
            ["import", "t.csv", "--format", "trials", "--out", "mine.parquet"],
            "not an eyechart response file",
        ),
        (["import", "t.csv", "--format", "trials", "--out", "none/x.parquet"], "No such folder"),
        (["import", "none.csv", "--format", "trials", "--out", "x.parquet"], "Cannot read none"),
        (["import", "bad.csv", "--format", "trials", "--out", "x.parquet"], "bad.csv, row 3"),
        (["import", "t.csv", "--format", "counts", "--out", "x.parquet"], "Accuracy or Preserved"),
        (
            ["import", "t.csv", "--format", "trials", "--choices", "1", "--out", "x.parquet"],
            "choices",
        ),
        (["import", "t.csv", "--format", "model-vs-human", "--out", "x.parquet"], "subj"),
        (["plot", "--out", "photo.png"], "not written by eyechart"),
        (["plot", "--out", "p.jpg"], ".png"),
        (["plot", "t.csv", "--out", "p.png"], "not a Parquet file"),
        (["plot", "geirhos"], "--out"),
        (["similar", "geirhos", "noise", "noise"], "twice"),
        (["similar", "geirhos", "noise", "lowpas"], "Did you mean 'lowpass'"),
        (["place", "t.csv", "--out", "x.csv"], "t.csv"),
        (["place", "photo.png", "--out", "t.csv"], "not a placement"),
        (["place", "flat.png", "--out", "x.csv"], "enough structure"),
    ],
)
def test_what_cannot_be_done_is_rejected_in_a_sentence(run, tmp_path, monkeypatch, arguments, word):
    monkeypatch.chdir(tmp_path)
    trials(tmp_path / "t.csv")
    (tmp_path / "bad.csv").write_text(
        HEAD + "frost,a,1,dog,dog,0.5\nfrost,a,1,dog,dog,2\n", encoding="utf-8"
    )
    (tmp_path / "mine.parquet").write_bytes(b"precious")
    image_file(tmp_path / "photo.png", 0, (300, 300))
    Image.new("L", (300, 300), 99).save(tmp_path / "flat.png")
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    result = run("humans", *arguments)
    assert_rejected(result, word)
    assert not result.out
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_corruption_that_contradicts_the_table_is_rejected(run, tmp_path):
    table, out = trials(tmp_path / "t.csv", "frost"), tmp_path / "p.parquet"
    command = ["humans", "import", table, "--format", "trials", "--out", out, "--corruption"]
    assert_rejected(run(*command, "snow"), "frost, not snow", "--corruption")
    assert not out.exists()
    assert run(*command, "frost").status == 0


def test_areas_count_the_responses_behind_each_curve(run, tmp_path):
    table, out = trials(tmp_path / "t.csv", "frost"), tmp_path / "p.parquet"
    # 150 of the 400 images were shown clean, to somebody else
    clean = [f"clean,q{place % 3},{place},dog,dog,0\n" for place in range(150)]
    table.write_text(table.read_text("utf-8") + "".join(clean), encoding="utf-8")
    assert run("humans", "import", table, "--format", "trials", "--out", out).status == 0
    told = run("humans", "areas", out, "--clean-responses", "majority", "--n-bootstrap", 20)
    assert told.status == 0, told.err
    counts = {row[1]: row[-1] for row in map(str.split, told.out.splitlines()) if "frost" in row}
    assert counts == {"R_a": "400", "R_p": "150"}


def test_human_curves_stand_by_class_with_bands_of_a_level():
    reference = find_reference("geirhos")
    fit = Fit(n_bootstrap=50)
    with paper_style():
        figure = draw_by_class(reference, "accuracy", 0.83, fit)
    titles = [axes.get_title(loc="left") for axes in figure.axes]
    # the paper tested blur and noise; nobody tested contrast cut in gray images
    assert titles == ["(a) similar: noise", "(b) similar: blur", "(c) untested"]
    for axes, experiment in zip(figure.axes, ("noise", "lowpass", "contrast"), strict=True):
        curve = reference.curve(experiment, "accuracy", **fit.human_options())
        whole, observed, chance = axes.lines
        change = whole.get_xdata()
        np.testing.assert_allclose(whole.get_ydata(), curve(change))
        # pale where nobody was shown anything
        seen = ~np.isnan(observed.get_ydata())
        assert (seen == curve.is_observed(change)).all() and seen.any() and not seen.all()
        assert chance.get_ydata()[0] == 1 / 16
        low, high = curve.band(change, 0.83)
        drawn = axes.collections[0].get_paths()[0].vertices
        assert drawn[:, 1].max() == pytest.approx(high.max())
        assert drawn[:, 1].min() == pytest.approx(low.min())


@pytest.mark.parametrize("ending", ["svg", "pdf"])
def test_human_curves_are_drawn_for_papers(run, tmp_path, ending):
    out = tmp_path / f"humans.{ending}"
    assert run("humans", "plot", "--by-class", "--level", 83, "--out", out).status == 0
    assert out.stat().st_size > 5000


def test_custom_classes_are_drawn(run, tmp_path, monkeypatch):
    pair = CorruptionClass("grainy or pale", ("noise", "contrast"), "study", "curves")
    write_classes(
        tmp_path / "own.yaml", SimilarClasses("own", (pair,), ("noise", "contrast", "lowpass"))
    )
    titles = []

    def draw(panels, *arguments):
        titles.append([panel.short_title for panel in panels])
        return draw_human_panels(panels, *arguments)

    monkeypatch.setattr(curve_figures, "draw_human_panels", draw)
    asked = ("humans", "plot", "--by-class", "--out", tmp_path / "a.svg", "--similar")
    for classes in (tmp_path / "own.yaml", "published", "none"):
        told = run(*asked, classes)
        assert told.status == 0, told.err
    assert titles == [
        ["similar: grainy or pale", "dissimilar"],
        ["similar: noise", "similar: blur", "untested"],
        ["untested"],
    ]
    assert_rejected(run(*asked, tmp_path / "none.yaml"), "none.yaml")
    told = run("humans", "plot", "--out", tmp_path / "a.svg", "--similar", "none")
    assert_rejected(told, "--similar needs --by-class")


def test_what_cannot_be_plotted_is_said(run, tmp_path):
    out = tmp_path / "a.svg"
    assert_rejected(run("humans", "plot", "--level", 100, "--out", out), "between 0 and 100")
    assert_rejected(run("humans", "plot", "--consistency", "--out", out), "--by-class")
    asked = ("humans", "plot", "--by-class", "--consistency", "--out", out)
    assert_rejected(run(*asked), "no human consistency")
    assert_rejected(run("humans", "plot", "--out", tmp_path / "a.gif"), ".svg, .pdf or .png")
    assert not out.exists()
