"""Studies of new styles and new kinds on a page: their numbers, pictures and confusions."""

import html
import json
import re
from base64 import b64decode
from io import BytesIO

import numpy as np
import pytest
from PIL import Image

from changing import replace
from commands import assert_rejected
from eyechart.reports.figures.study_figures import draw_superclasses, plan_superclasses
from eyechart.reports.html.structure_view import structure_views
from eyechart.reports.series.superclass_scatter import models_with_accuracy, superclass_studies
from eyechart.structure.holdout_scores import notes_on
from eyechart.structure.study_results import (
    AccuracyEstimate,
    Confusion,
    FoldScore,
    HeldOutExample,
    HoldoutResults,
    SuperclassModelScore,
    SuperclassResults,
    SuperclassScore,
    read_study,
    write_results,
)


def share(value):
    return AccuracyEstimate(
        value=value,
        interval=(value - 0.05, value + 0.05),
        narrow_interval=(value - 0.03, value + 0.03),
    )


def fold(name, held, familiar, *examples):
    return FoldScore(
        name=name,
        held=(name,),
        held_out=share(held),
        familiar=share(familiar),
        gap=share(familiar - held),
        n_images=(40, 40, 200),
        copies=3,
        missing=("Kiss",) if name == "thin" else (),
        by_class={"Bird": held},
        confusions=(Confusion(label="Bird", prediction="Boat", share=0.25, n_images=8),),
        examples=examples,
    )


@pytest.fixture
def study(tmp_path):
    folder = tmp_path / "style"
    (folder / "examples").mkdir(parents=True)
    levels = np.full((32, 32, 3), 90, dtype=np.uint8)
    Image.fromarray(levels).save(folder / "examples" / "0.png")
    examples = (
        HeldOutExample(image="examples/0.png", label="Bird", prediction="<Boat>", is_right=False),
        HeldOutExample(image="examples/gone.png", label="Bird", prediction="Bird", is_right=True),
    )
    results = HoldoutResults(
        kind="style",
        network="wrn_16_4",
        epochs=50,
        seeds=(0,),
        classes=5,
        folds=(fold("easy", 0.9, 0.85), fold("thin", 0.375, 0.913, *examples)),
        held_out=share(0.6375),
        familiar=share(0.8815),
        gap=share(0.244),
    )
    write_results(results, folder)
    return folder


@pytest.fixture
def superclasses(tmp_path):
    folder = tmp_path / "superclass"
    folder.mkdir()
    bird = SuperclassScore(
        name="bird", wnid="n01503061", seen=share(0.8), unseen=None, gap=None, synsets=(3, 0),
        n_images=(12, 0),
    )  # fmt: skip
    one = SuperclassModelScore(
        name="net",
        imagenet_accuracy=0.77,
        seen=share(0.91),
        unseen=share(0.62),
        gap=share(0.29),
        mean_seen=share(0.9),
        mean_unseen=share(0.6),
        mean_gap=share(0.3),
        superclasses=(bird,),
        confusions=(Confusion(label="bird", prediction="fish", share=0.5, n_images=6),),
    )
    other = replace(one, name="bare", imagenet_accuracy=None)
    notes = ("Left out: 1 folder.",)
    results = SuperclassResults(
        tune="last", epochs=1, lr=0.01, n_images=(9, 9, 9), synsets=(3, 4), models=(one, other),
        notes=notes,
    )  # fmt: skip
    write_results(results, folder)
    return folder


def test_the_hardest_comes_first_with_its_numbers_images_and_confusions(study):
    (view,) = structure_views([study])
    assert [row.cells[0] for row in view.table.rows] == ["thin", "easy", "Mean"]
    assert view.table.rows[0].cells[1] == "37.5 [32.5, 42.5]"
    assert "64 %" in view.text and "thin (38 %)" in view.text
    assert "thin: Kiss" in str(view.table.note)
    dots = {trace["name"]: trace for trace in view.charts[0].spec["data"]}
    assert dots["held out"]["x"] == [0.375, 0.9] and dots["held out"]["y"] == ["thin", "easy"]
    assert dots["familiar"]["x"] == [0.913, 0.85]
    assert dots["familiar"]["error_x"]["array"] == [0.05, 0.05]
    ((_, cells),) = view.grids
    # a picture that is gone is left out
    assert [(cell.label, cell.prediction, cell.is_right) for cell in cells] == [
        ("Bird", "<Boat>", False)
    ]
    assert view.confusions is not None
    assert view.confusions.rows[0].cells[:2] == ("Bird", "Boat")


def test_large_images_are_made_small_on_the_page(study):
    levels = np.random.default_rng(0).integers(0, 256, (300, 200, 3), dtype=np.uint8)
    Image.fromarray(levels).save(study / "examples" / "0.png")
    (view,) = structure_views([study])
    ((_, cells),) = view.grids
    content = b64decode(cells[0].image.partition(",")[2])
    with Image.open(BytesIO(content)) as image:
        assert image.size == (85, 128)


def test_intervals_say_what_was_resampled(study):
    told = json.loads((study / "results.json").read_text("utf-8"))
    assert "bootstrap over subclasses" in str(structure_views([study])[0].table.note)
    (study / "results.json").write_text(json.dumps({**told, "resampled": "images"}))
    assert "bootstrap over images" in str(structure_views([study])[0].table.note)


def test_networks_that_only_guess_are_told(study):
    results = read_study(study, HoldoutResults)
    thin = replace(results.folds[1], guessing=0.87)
    write_results(replace(results, folds=(results.folds[0], thin)), study)
    note = str(structure_views([study])[0].table.note)
    assert "Networks trained without thin are hardly more accurate" in note and "(87 %)" in note
    assert "more than one fold" not in note
    twice = replace(results, folds=(thin, replace(thin, guessing=0.0)))
    assert "1 of 1 styles, such as thin" in notes_on(twice)[1]


def test_seen_and_unseen_kinds_stand_against_accuracy_on_imagenet(superclasses):
    (view,) = structure_views([superclasses])
    assert [row.cells[:2] for row in view.table.rows] == [("net", "77.0"), ("bare", "–")]
    # its mean over superclasses, and what was left out
    assert view.table.rows[0].cells[-1] == "30.0 [25.0, 35.0]"
    assert "Left out: 1 folder." in str(view.table.note)
    assert view.parts is not None and view.confusions is not None
    assert view.parts.rows[0].cells == (
        "bird", "3", "0", "80.0 [75.0, 85.0]", "–", "80.0 [75.0, 85.0]", "–"
    )  # fmt: skip
    assert [row.cells[:3] for row in view.confusions.rows] == [
        ("bird", "fish", "net"), ("bird", "fish", "bare")
    ]  # fmt: skip
    (chart,) = view.charts
    seen, unseen = chart.spec["data"]
    # what has no accuracy has no place in the chart
    assert seen["x"] == unseen["x"] == [77]
    assert (seen["y"], unseen["y"]) == ([91], [62])


def test_a_page_of_its_own_holds_everything_and_escapes_names(run, study, superclasses, tmp_path):
    target = tmp_path / "page.html"
    done = run("structure", "report", study, superclasses, "--out", target)
    assert done.status == 0, done.err
    text = target.read_text("utf-8")
    assert "37.5 [32.5, 42.5]" in text and html.escape("<Boat>") in text
    assert "<Boat>" not in text
    assert text.count('<img src="data:image/png;base64') == 1
    specs = json.loads(re.search(r'id="chart-specs">(.*?)</script>', text, re.DOTALL)[1])
    assert len(specs) == 2
    assert "http://" not in re.sub(r"<script>.*?</script>", "", text, flags=re.DOTALL)
    # a page of ours may be written again, another file not
    assert run("structure", "report", study, "--out", target).status == 0
    target.write_text("mine")
    assert_rejected(run("structure", "report", study, "--out", target), "not a report")


@pytest.mark.parametrize(
    ("content", "part"), [("{", "cannot be read"), ("{}", "cannot be read"), (None, "results.json")]
)
def test_studies_that_are_none_are_one_sentence(run, tmp_path, content, part):
    folder = tmp_path / "bad"
    folder.mkdir()
    if content is not None:
        (folder / "results.json").write_text(content)
    assert_rejected(run("structure", "report", folder), part)


def test_files_that_cannot_be_written_are_one_sentence(run, study, tmp_path):
    assert_rejected(run("structure", "report", study, "--out", tmp_path / "page.txt"), ".html")
    assert_rejected(run("structure", "report", tmp_path / "nowhere"), "No such folder")


# Figures for papers


def test_the_figure_has_both_accuracies_of_each_model_at_its_place(superclasses):
    (results,) = superclass_studies([superclasses])
    note, *_ = plan_superclasses([results])
    # "bare" has no place on the axis
    assert "1 of 2 models, such as bare" in note
    both = [results.models[0], replace(results.models[0], name="other")]
    figure = draw_superclasses(models_with_accuracy(both))
    (axes,) = figure.axes
    points = [(*own.lines[0].get_xdata(), *own.lines[0].get_ydata()) for own in axes.containers]
    assert points == [pytest.approx(own) for own in [(77, 91), (77, 62)] * 2]
    (bar,) = axes.containers[1].lines[2]
    assert [end[1] for end in bar.get_segments()[0]] == pytest.approx([57, 67])
    assert axes.get_xlabel().startswith("ImageNet-1K accuracy")


def test_the_command_writes_the_figure_as_svg_and_pdf(superclasses, study, run, tmp_path):
    told = run("structure", "report", superclasses, "--figures", tmp_path / "figures")
    assert told.status == 0, told.err
    names = sorted(path.name for path in (tmp_path / "figures").iterdir())
    assert names == ["superclasses.pdf", "superclasses.svg"]
    assert (tmp_path / "figures" / "superclasses.pdf").read_bytes().startswith(b"%PDF")
    assert "Note: Not in the figure" in told.out and "superclasses.svg" in told.out
    # the same study gives the same bytes, and what is not ours is not replaced
    before = (tmp_path / "figures" / "superclasses.svg").read_bytes()
    assert run("structure", "report", superclasses, "--figures", tmp_path / "figures").status == 0
    assert (tmp_path / "figures" / "superclasses.svg").read_bytes() == before
    (tmp_path / "figures" / "superclasses.svg").write_text("mine")
    told = run("structure", "report", superclasses, "--figures", tmp_path / "figures")
    assert_rejected(told, "superclasses.svg", "choose another folder")
    told = run("structure", "report", study, "--figures", tmp_path / "none")
    assert told.status == 0 and "no study is about superclasses" in told.out
    assert not (tmp_path / "none").exists()
