"""`eyechart structure style` and `subclass`: small studies, and their scores counted again."""

import csv
import json
import shutil
from collections import Counter
from contextlib import redirect_stdout
from io import StringIO
from math import sqrt
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from PIL import Image

from commands import assert_rejected, image_file
from eyechart.cli.app import main
from eyechart.core.errors import UsageError
from eyechart.core.progress import NO_PROGRESS
from eyechart.core.storage.locks import try_lock
from eyechart.models.checkpoint import read_checkpoint
from eyechart.models.find import load_model
from eyechart.reports.html.structure_view import structure_views
from eyechart.structure.folds import Fold, style_folds
from eyechart.structure.holdout_images import load_holdout_images
from eyechart.structure.holdout_scores import keep_examples, score_study
from eyechart.structure.holdout_study import HoldoutJob, HoldoutStudy
from eyechart.structure.study_results import HoldoutResults, read_study
from eyechart.training.data import training_data
from eyechart.training.recipe import Recipe
from interrupting import stopping
from kinds_data import STYLES, TINTS, Row, colors, in_memory, tinted, write_rows

CPU = torch.device("cpu")
Z95 = 1.959963984540054
CLASSES = sorted(TINTS)
USUAL = ("--arch", "textures:network", "--batch-size", 8, "--lr", 0.05, "--flip", 0, "--crop", 0)


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """Three colors in three styles, of which one shows everything inverted."""
    folder = tmp_path_factory.mktemp("structure")
    write_rows(folder / "colors", colors(4), tinted)
    return folder


def words_of(home, kind, out, *more, epochs=2):
    given = ("--images", home / "colors" / "list.csv", "--out", out, "--epochs", epochs)
    return [str(word) for word in ("structure", kind, *given, *USUAL, *more)]


def finished(words):
    """What the command says that must come to its end."""
    said = StringIO()
    with pytest.raises(SystemExit) as stop, redirect_stdout(said):
        main(words)
    assert stop.value.code == 0
    return said.getvalue()


@pytest.fixture(scope="module")
def study(home):
    """The folder of a study of every style with two seeds, and what it said."""
    words = words_of(home, "style", home / "out", "--seeds", 2, "--seed", 3, epochs=12)
    return home / "out", finished(words)


def made_at(folder, which="[mt]*s/*/[!.]*"):
    return {str(path.relative_to(folder)): path.stat().st_mtime_ns for path in folder.glob(which)}


def told_by(folder):
    return json.loads((folder / "results.json").read_text())


def listed(home):
    """The pictures' classes, styles and pixels, read without the study's own code."""
    where = home / "colors"
    with (where / "list.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    pixels = np.stack([np.asarray(Image.open(where / row["path"])) for row in rows])
    return rows, torch.from_numpy(pixels).permute(0, 3, 1, 2).contiguous()


def test_results_that_lie_among_the_images_are_no_images(tmp_path, monkeypatch, run):
    for place, row in enumerate(colors(4)):
        path = tmp_path / row.label / row.subclass / f"{place}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(tinted(row, place)).save(path)
    monkeypatch.chdir(tmp_path)
    words = ("structure", "subclass", "--images", ".", "--epochs", 1, "--folds", 1, *USUAL)
    first = run(*words)
    assert first.status == 0, first.err
    assert list((tmp_path / "eyechart-subclass").rglob("*.png"))
    again = run(*words)
    assert (again.status, again.out) == (0, first.out), again.err


# What comes out


def test_every_share_is_what_the_checkpoints_get_right_when_asked_again(home, study):
    rows, pixels = listed(home)
    labels = np.array([CLASSES.index(row["label"]) for row in rows])
    seen = set()
    for fold in told_by(study[0])["folds"]:
        right, predictions = [], []
        for seed in (3, 4):
            model = load_model(
                str(study[0] / "models" / str(seed) / f"{fold['name']}.pt"), CPU, trust=True
            )
            assert list(model.class_names) == CLASSES
            predictions.append(model(pixels).argmax(dim=1).numpy())
            right.append(predictions[-1] == labels)
        own = np.array([row["style"] == fold["name"] for row in rows])
        assert fold["held"] == [fold["name"]]
        assert fold["held_out"]["value"] == pytest.approx(np.mean([r[own].mean() for r in right]))
        for name, value in fold["by_class"].items():
            some = own & (labels == CLASSES.index(name))
            assert value == pytest.approx(np.mean([r[some].mean() for r in right]))
        wrong = Counter(
            (CLASSES[label], CLASSES[prediction])
            for each in predictions
            for label, prediction in zip(labels[own], each[own], strict=True)
            if label != prediction
        )
        assert {
            (each["label"], each["prediction"]): round(each["share"] * 2 * 8)
            for each in fold["confusions"]
        } == wrong
        assert all(each["n_images"] == 8 for each in fold["confusions"])
        seen.add(fold["held_out"]["value"])
    assert len(seen) > 1


def test_familiar_images_are_asked_about_too_and_are_none_of_the_style(home, study):
    rows, pixels = listed(home)
    labels = np.array([CLASSES.index(row["label"]) for row in rows])
    for fold in told_by(study[0])["folds"]:
        right = []
        for seed in (3, 4):
            kept = pq.read_table(study[0] / "tests" / str(seed) / f"{fold['name']}.parquet")
            places = np.array(kept["place"])[~np.array(kept["held_out"])]
            assert all(rows[place]["style"] != fold["name"] for place in places)
            assert Counter(labels[places].tolist()) == {0: 8, 1: 8, 2: 8}
            model = load_model(
                str(study[0] / "models" / str(seed) / f"{fold['name']}.pt"), CPU, trust=True
            )
            right.append((model(pixels[places]).argmax(dim=1).numpy() == labels[places]).mean())
        assert fold["familiar"]["value"] == pytest.approx(np.mean(right))
        assert fold["gap"]["value"] == pytest.approx(np.mean(right) - fold["held_out"]["value"])
        assert fold["n_images"] == [24, 24, 24] and fold["copies"] == 0


def test_colors_are_learnt_and_inverted_ones_are_not_recognised(study):
    folds = {fold["name"]: fold for fold in told_by(study[0])["folds"]}
    assert list(folds) == sorted(STYLES)
    inverted = folds["inverted"]
    assert inverted["familiar"]["value"] > 0.9
    assert inverted["held_out"]["value"] < 0.4
    assert inverted["gap"]["interval"][0] > 0.3
    # the network has learnt two colors out of three styles at least: plain is like pale
    assert folds["plain"]["held_out"]["value"] > inverted["held_out"]["value"] + 0.3


def test_the_means_are_those_of_the_folds(study):
    told = told_by(study[0])
    for name in ("held_out", "familiar", "gap"):
        values = [fold[name]["value"] for fold in told["folds"]]
        assert told[name]["value"] == pytest.approx(np.mean(values))
        low, high = told[name]["interval"]
        assert low <= told[name]["value"] <= high
    assert told["gap"]["value"] == pytest.approx(
        told["familiar"]["value"] - told["held_out"]["value"]
    )
    assert (told["kind"], told["epochs"], told["seeds"]) == ("style", 12, [3, 4])


def test_the_command_shows_what_it_writes(study):
    folder, said = study
    told = told_by(folder)
    lines = {line.split()[0]: line for line in said.splitlines() if line.split()}
    for fold in told["folds"]:
        for name in ("held_out", "familiar", "gap"):
            assert f"{100 * fold[name]['value']:.1f} (".replace("-", "−") in lines[fold["name"]]
    mean = f"{100 * told['gap']['value']:.1f} (".replace("-", "−")
    assert mean in lines["mean"] and " 72" in lines["mean"]
    assert f"Written: {folder / 'results.json'}" in said and "Note:" not in said


def test_results_are_read_as_they_were_written(study, tmp_path):
    results = read_study(study[0], HoldoutResults)
    told = told_by(study[0])
    assert results.gap.value == told["gap"]["value"]
    assert [fold.held_out.interval for fold in results.folds] == [
        tuple(fold["held_out"]["interval"]) for fold in told["folds"]
    ]
    assert results.folds[0].confusions[0].label in CLASSES
    with pytest.raises(UsageError, match=r"has no finished study \(results\.json is missing\)"):
        read_study(tmp_path, HoldoutResults)
    for content in ("[]", "{", "{}", '{"kind": 3}'):
        (tmp_path / "results.json").write_text(content)
        with pytest.raises(UsageError, match=r"cannot be read .* written by eyechart structure"):
            read_study(tmp_path, HoldoutResults)


def test_results_of_another_schema_are_of_another_version_and_not_damaged(study, tmp_path):
    told = {**told_by(study[0]), "schema": 2}
    for fold in told["folds"]:
        fold["pictures"] = fold.pop("n_images")
    (tmp_path / "results.json").write_text(json.dumps(told))
    with pytest.raises(UsageError, match=r"another version of eyechart \(schema 2, not 1\)"):
        read_study(tmp_path, HoldoutResults)
    # results of an evaluation are of no study, whatever their schema
    (tmp_path / "results.json").write_text('{"schema": 5, "models": []}')
    with pytest.raises(UsageError, match=r"cannot be read .* written by eyechart structure"):
        read_study(tmp_path, HoldoutResults)


def test_subclasses_are_held_out_of_folders_too(home, run, tmp_path):
    for number, row in enumerate(colors(3, ("plain",), ("calm", "wild", "odd"))):
        path = tmp_path / "set" / row.label / row.subclass / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(tinted(row, number)).save(path)
    given = ("--images", tmp_path / "set", "--out", tmp_path / "out", "--epochs", 6, *USUAL)
    told = run("structure", "subclass", *given)
    assert told.status == 0, told.err
    results = told_by(tmp_path / "out")
    held = [set(fold["held"]) for fold in results["folds"]]
    assert set().union(*held) == {
        f"{label}/{kind}" for label in TINTS for kind in ("calm", "wild", "odd")
    }
    assert all(len(own) == 3 for own in held)
    assert "fold 1: 3 held out" in told.out
    # a color is a color: subclasses that mean nothing make no gap
    assert results["held_out"]["value"] > 0.8


def test_over_all_classes_those_with_nothing_held_out_are_named(home, run, tmp_path):
    words = words_of(home, "subclass", tmp_path / "out", "--in-all", 2, "--folds", 1)
    told = run(*words)
    assert told.status == 0, told.err
    (fold,) = told_by(tmp_path / "out")["folds"]
    classes = {name.split("/")[0] for name in fold["held"]}
    assert len(fold["held"]) == len(classes) == 2 == len(fold["by_class"])
    (missing,) = fold["missing"]
    assert missing not in classes and f"Note: fold 1 has no images of {missing}," in told.out


def test_a_style_that_misses_classes_is_a_note(run, tmp_path):
    rows = [row for row in colors(3) if (row.label, row.style) != ("green", "pale")]
    where = write_rows(tmp_path / "set", rows, tinted)
    given = ("--images", where, "--out", tmp_path / "out", "--hold", "pale", "--epochs", 1)
    told = run("structure", "style", *given, *USUAL)
    assert told.status == 0, told.err
    assert "Note: pale has no images of green, so these are not tested." in told.out
    (fold,) = told_by(tmp_path / "out")["folds"]
    assert fold["missing"] == ["green"] and set(fold["by_class"]) == {"blue", "red"}
    assert fold["n_images"][:2] == [12, 12]


def test_copies_that_were_not_trained_with_are_told_of(run, tmp_path):
    rows = colors(4)
    where = write_rows(tmp_path / "set", rows, tinted)
    own = [path for path in sorted((tmp_path / "set").glob("pale/*/*.png"))][:2]
    for path, other in zip(own, sorted((tmp_path / "set").glob("plain/*/*.png")), strict=False):
        shutil.copy(path, other)
    given = ("--images", where, "--out", tmp_path / "out", "--hold", "pale", "--epochs", 1)
    told = run("structure", "style", *given, *USUAL)
    assert told.status == 0, told.err
    assert "duplicates of test images: 2" in told.out
    assert told_by(tmp_path / "out")["folds"][0]["copies"] == 2


# The published protocol


def test_published_protocol_trains_on_all_images_that_are_not_held_out(run, tmp_path):
    where = write_rows(tmp_path / "set", colors(4), tinted)
    pale, plain = (sorted((tmp_path / "set").glob(f"{style}/*/*.png")) for style in STYLES[1:])
    shutil.copy(pale[0], plain[0])
    usual = ("structure", "style", "--images", where, "--epochs", 1, "--stimulus", "native", *USUAL)
    out = tmp_path / "out"
    told = run(*usual, "--protocol", "published", "--out", out)
    assert told.status == 0, told.err
    assert told.out.startswith("Protocol published (as in the paper): networks are trained on all")
    assert "none of them are left for an accuracy on familiar images. Training images: 48." in (
        told.out
    )
    assert "duplicates of test images:" not in told.out
    results = told_by(out)
    assert (results["protocol"], results["familiar"], results["gap"]) == ("published", None, None)
    assert json.loads((out / "run.json").read_text())["protocol"] == "published"
    images = load_holdout_images(where, "style", "native", NO_PROGRESS).data.images
    for fold in results["folds"]:
        assert fold["n_images"] == [24, 0, 48] and fold["copies"] == 0
        assert fold["familiar"] is fold["gap"] is None
        checkpoint = read_checkpoint(out / "models" / "0" / f"{fold['name']}.pt")
        own = [n for n, one in enumerate(images.listed) if one.style != fold["name"]]
        expected = training_data(images.select(own), CLASSES).fingerprint
        assert checkpoint.recipe["settings"]["data"] == expected
    (view,) = structure_views([out])
    assert "familiar" not in view.text and "all images that are not held out" in str(
        view.table.note
    )
    assert "–" in view.table.rows[0].cells and view.charts[0].title == "Accuracy on held-out images"
    # the same folder cannot be continued with the other protocol, which is the default
    assert_rejected(run(*usual, "--out", out), "protocol: published, now familiar")


def test_familiar_protocol_is_named_as_eyecharts_and_recorded(study):
    folder, said = study
    assert said.startswith("Protocol familiar (eyechart's own): familiar images are tested and not")
    assert "Training images: 24." in said.splitlines()[0]
    assert told_by(folder)["protocol"] == "familiar"
    (view,) = structure_views([folder])
    assert "Protocol familiar (eyechart's own)" in str(view.table.note)


def test_results_without_a_protocol_are_of_eyecharts(study, tmp_path):
    # as written before there were two protocols
    told = told_by(study[0])
    del told["protocol"]
    (tmp_path / "results.json").write_text(json.dumps(told))
    assert read_study(tmp_path, HoldoutResults).protocol == "familiar"


def test_styles_whose_names_look_like_markup_are_shown(run, tmp_path):
    rows = [Row(row.label, row.style, row.subclass) for row in colors(2, ("pale", "plain"))]
    where = write_rows(tmp_path / "set", rows, tinted)
    text = where.read_text().replace(",pale,", ",[red],").replace(",plain,", ",[/red],")
    where.write_text(text)
    told = run("structure", "style", "--images", where, "--out", tmp_path / "o", *USUAL)
    assert told.status == 0, told.err
    assert "[red]" in told.out and "[/red]" in told.out


# Once more


def test_the_same_command_again_trains_nothing_again(home, study, run):
    before, results = made_at(study[0]), told_by(study[0])
    assert len(before) == 12
    words = words_of(home, "style", study[0], "--seeds", 2, "--seed", 3, epochs=12)
    told = run(*words)
    assert told.status == 0, told.err
    assert made_at(study[0]) == before and told_by(study[0]) == results and told.out == study[1]


def test_predictions_that_are_gone_are_asked_for_again_without_training(home, study, run, tmp_path):
    out = shutil.copytree(study[0], tmp_path / "copy")
    models = made_at(out, "models/*/*.pt")
    gone = out / "tests" / "4" / "pale.parquet"
    before = pq.read_table(gone)
    gone.unlink()
    (out / "results.json").unlink()
    words = words_of(home, "style", out, "--seeds", 2, "--seed", 3, epochs=12)
    assert run(*words).status == 0
    assert pq.read_table(gone).equals(before) and told_by(out) == told_by(study[0])
    assert made_at(out, "models/*/*.pt") == models


@pytest.fixture(scope="module")
def once(home):
    """A study that nobody stopped."""
    finished(words_of(home, "subclass", home / "once", "--folds", 2))
    return home / "once"


@pytest.mark.parametrize("after", [3, 8])
def test_what_was_stopped_goes_on_to_the_same_results(
    home, once, run, tmp_path, monkeypatch, after
):
    out = tmp_path / "out"
    words = words_of(home, "subclass", out, "--folds", 2)
    with monkeypatch.context() as patch:
        stopping("training", after, patch)
        told = run(*words)
    assert told.status == 130 and len(told.err.strip().splitlines()) == 1
    assert "run the same command again to resume" in told.err
    assert not (out / "results.json").exists() and len(list(out.rglob("*.state"))) == 1
    before = made_at(out, "models/*/*.pt")
    # in the second network of two, or in the first
    assert len(before) == (1 if after == 8 else 0)
    assert run(*words).status == 0
    assert (out / "results.json").read_bytes() == (once / "results.json").read_bytes()
    now = made_at(out, "models/*/*.pt")
    assert {name: now[name] for name in before} == before and len(now) == 2
    assert not list(out.rglob("*.state"))


def test_what_a_killed_run_left_unfinished_is_removed(home, once, run, tmp_path):
    out = shutil.copytree(once, tmp_path / "copy")
    left = [
        out / "models" / "0" / ".fold 1.pt.999999999.tmp",
        out / "tests" / "0" / ".fold 1.parquet.999999999.tmp",
        out / ".results.json.999999999.tmp",
    ]
    for path in left:
        path.write_bytes(b"half")
    assert run(*words_of(home, "subclass", out, "--folds", 2)).status == 0
    assert [path for path in left if path.exists()] == []


def test_a_network_that_another_process_makes_is_waited_for(home, once, run, tmp_path, monkeypatch):
    out = shutil.copytree(once, tmp_path / "copy")
    path, predictions = (out / "models" / "0" / "fold 1.pt", out / "tests" / "0" / "fold 1.parquet")
    taken = predictions.rename(tmp_path / "taken.parquet")
    held = try_lock(path)
    assert held.__enter__()

    def other(seconds):
        """The other process comes to its end while we wait."""
        shutil.copy2(taken, predictions)
        held.__exit__(None, None, None)

    monkeypatch.setattr("eyechart.core.storage.shards.time.sleep", other)
    assert run(*words_of(home, "subclass", out, "--folds", 2)).status == 0
    assert predictions.stat().st_mtime_ns == taken.stat().st_mtime_ns
    assert told_by(out) == told_by(once)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (("--epochs", 3), "epochs: 2, now 3"),
        (("--lr", 0.1), "lr: 0.05, now 0.1"),
        (("--arch", "resnet9"), "network: textures:network, now resnet9"),
        (("--seeds", 2), "seeds: 0, now 0, 1"),
        (("--mixup", 1), "mixup: 0.0, now 1.0"),
        (("--per-class", 1, "--folds", 1), "held out: fold 1, fold 2, now fold 1"),
    ],
)
def test_another_configuration_is_rejected(home, once, run, more, words):
    before = made_at(once, "**/*.*")
    told = run(*words_of(home, "subclass", once, "--folds", 2, *more))
    assert_rejected(told, f"{once} holds another study", words, "another --out")
    assert made_at(once, "**/*.*") == before


def test_other_subclasses_held_out_are_rejected_and_said(home, once, run):
    told = run(*words_of(home, "subclass", once, "--folds", 2, "--in-all", 2))
    assert_rejected(told, "holds another study")
    # not two lists that read the same
    old, _, new = told.err.partition("(")[2].partition(")")[0].partition(", now ")
    assert new and new != old.partition(": ")[2]


def test_images_brought_to_another_size_are_another_study(home, once, run):
    told = run(*words_of(home, "subclass", once, "--folds", 2, "--stimulus", 24))
    assert_rejected(told, "holds another study")


def test_the_other_kind_of_study_is_rejected(home, once, run):
    assert_rejected(
        run(*words_of(home, "style", once)), "another study", "kind: subclass, now style"
    )


def test_other_images_are_rejected(once, run, tmp_path):
    where = write_rows(tmp_path / "set", colors(5), tinted)
    given = ("--images", where, "--out", once, "--epochs", 2, *USUAL, "--folds", 2)
    assert_rejected(run("structure", "subclass", *given), "holds another study (images:")


# Bad input


def rejected(run, tmp_path, *given, words=()):
    """Refused in a sentence, with nothing left behind."""
    out = tmp_path / "never"
    told = run("structure", *given, "--out", out, "--epochs", 1, *USUAL)
    assert_rejected(told, *words)
    assert not out.exists()


def test_a_class_with_one_style_is_one_sentence(run, tmp_path):
    rows = [row for row in colors(2) if row.label != "red" or row.style == "pale"]
    where = write_rows(tmp_path, rows, tinted)
    words = "'red' has images of only one style, 'pale'", "remove the class"
    rejected(run, tmp_path, "style", "--images", where, words=words)


def test_a_list_without_the_column_is_one_sentence(run, tmp_path):
    where = write_rows(tmp_path, colors(2), tinted, columns=())
    for trait in ("style", "subclass"):
        words = f"36 images in {where} have no {trait}, such as", f"column named {trait}"
        rejected(run, tmp_path, trait, "--images", where, words=words)


def test_a_list_with_some_styles_left_out_is_one_sentence(run, tmp_path):
    where = write_rows(tmp_path, colors(2), tinted)
    where.write_text(where.read_text().replace(",pale,", ",,"))
    rejected(run, tmp_path, "style", "--images", where, words=["12 images", "no style"])


def test_class_folders_have_no_style_and_no_subclass(run, tmp_path):
    for label in "ab":
        for number in range(3):
            image_file(tmp_path / "set" / label / f"{number}.png", number)
    for trait in ("style", "subclass"):
        words = "6 images", f"have no {trait}"
        rejected(run, tmp_path, trait, "--images", tmp_path / "set", words=words)


def test_one_style_alone_is_one_sentence(run, tmp_path):
    where = write_rows(tmp_path, colors(2, ("plain",)), tinted)
    words = "have the same style, 'plain'", "at least two"
    rejected(run, tmp_path, "style", "--images", where, words=words)


@pytest.mark.parametrize(
    ("kind", "more", "words"),
    [
        ("style", ("--hold", "pail"), ("Unknown style 'pail'", "'pale'")),
        ("style", ("--hold", "pale", "--hold", "blue"), ("Unknown style 'blue'",)),
        ("style", ("--seeds", 0), ("seeds must be a whole number from 1 to 1,000, got 0",)),
        ("style", ("--batch-size", 1), ("batch_size must be a whole number from 2",)),
        ("style", ("--schedule", "cosin"), ("Unknown schedule", "cosine")),
        ("style", ("--device", "gpu"), ("gpu",)),
        ("style", ("--seed", 2**70), ("seed must be a whole number",)),
        ("style", ("--arch", "resnet99"), ("Unknown network 'resnet99'", "resnet9")),
        ("style", ("--arch", "textures:fails"), ("'textures:fails' failed: no luck",)),
        ("subclass", ("--arch", "resnet99"), ("Unknown network 'resnet99'", "resnet9")),
        ("subclass", ("--seeds", -1), ("seeds must be a whole number from 1 to 1,000, got -1",)),
        ("subclass", ("--folds", 0), ("folds must be a whole number of at least 1, got 0",)),
        ("subclass", ("--per-class", 0), ("whole number of at least 1, got 0",)),
        ("subclass", ("--per-class", 2), ("'blue' has 2 subclasses, so 2 cannot be held out",)),
        ("subclass", ("--in-all", 4), ("Between 1 and 3 subclasses can be held out", "got 4")),
        ("subclass", ("--in-all", 0), ("Between 1 and 3 subclasses can be held out", "got 0")),
        ("subclass", ("--in-all", 2, "--per-class", 2), ("--per-class or --in-all, not both",)),
        ("subclass", ("--order", "published", "--folds", 1), ("has 0 of the 50 subclasses",)),
        ("subclass", ("--hold", "calm"), ("in one fold: omit",)),
        ("subclass", ("--hold", "clam", "--folds", 1), ("Unknown subclass 'clam'", "'calm'")),
        ("subclass", ("--hold", "no.txt", "--folds", 1), ("No such file: no.txt",)),
        ("subclass", ("--hold", "calm", "--hold", "calm", "--folds", 1), ("named only once",)),
        (
            "subclass",
            ("--hold", "calm", "--order", "published", "--folds", 1),
            ("--hold or --order published, not both",),
        ),
        (
            "subclass",
            ("--hold", "red/calm", "--hold", "red/wild", "--hold", "blue/calm", "--folds", 1),
            ("No training images of the class 'red' are left",),
        ),
        ("style", ("--protocol", "publishd"), ("Unknown protocol 'publishd'", "'published'")),
        ("subclass", ("--order", "alphabet"), ("Unknown order 'alphabet'", "published, random")),
        ("subclass", ("--mixup", -1), ("mixup must be in [0, 100], got -1.0",)),
        ("subclass", ("--cifar100", "somewhere"), ("either --images or --cifar100",)),
    ],
)
def test_options_that_cannot_be_are_one_sentence(home, run, tmp_path, kind, more, words):
    where = home / "colors" / "list.csv"
    out = tmp_path / "never"
    folds = ("--folds", 2) if kind == "subclass" else ()
    told = run("structure", kind, "--images", where, "--out", out, *USUAL, *folds, *more)
    assert_rejected(told, *words)
    # a command that is mended must not be refused because of this one
    assert not out.exists()


def test_neither_images_nor_cifar_100_is_one_sentence(run, tmp_path):
    rejected(run, tmp_path, "subclass", words=["Pass either --images or --cifar100."])
    rejected(run, tmp_path, "style", words=["--images"])


def test_images_that_are_not_there_are_one_sentence(run, tmp_path):
    for kind in ("style", "subclass"):
        rejected(run, tmp_path, kind, "--images", tmp_path / "none.csv", words=["none.csv"])
        rejected(run, tmp_path, kind, "--images", " ", words=["not an empty string"])


def test_out_may_be_no_file_no_other_run_and_not_the_images(home, run, tmp_path):
    (tmp_path / "file").write_text("mine")
    told = run(*words_of(home, "style", tmp_path / "file"))
    assert_rejected(told, "it is a file, not a folder")
    assert_rejected(run(*words_of(home, "style", tmp_path / "file" / "below")), "Cannot write into")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "run.json").write_text('{"kind": "overlap study"}')
    told = run(*words_of(home, "style", tmp_path / "run"))
    assert_rejected(told, "another study", "kind: overlap study, now style")
    (tmp_path / "run" / "run.json").write_text("{")
    assert_rejected(run(*words_of(home, "style", tmp_path / "run")), "run.json cannot be read")
    (tmp_path / "other" / "models").mkdir(parents=True)
    told = run(*words_of(home, "style", tmp_path / "other"))
    assert_rejected(told, "not from this study: choose another --out")
    folder = tmp_path / "set"
    for number, row in enumerate(colors(2)):
        (folder / row.label / row.subclass).mkdir(parents=True, exist_ok=True)
        made = Image.fromarray(tinted(row, number))
        made.save(folder / row.label / row.subclass / f"{number}.png")
    given = ("--images", folder, "--out", folder, "--epochs", 1, *USUAL)
    assert_rejected(run("structure", "subclass", *given), "contains the images")
    assert_rejected(run(*words_of(home, "style", home / "colors")), "contains the images")


def test_images_that_cannot_be_read_are_told(run, tmp_path):
    write_rows(tmp_path / "colors", colors(12), tinted)
    broken = sorted((tmp_path / "colors").rglob("*.png"))[5]
    broken.write_bytes(b"no picture")
    told = run(*words_of(tmp_path, "style", tmp_path / "out", epochs=1))
    assert told.status == 0, told.err
    assert "Note: 1 image was skipped" in told.out and broken.name in told.out


def test_one_image_of_each_class_and_style_is_one_sentence(run, tmp_path):
    where = write_rows(tmp_path, colors(1, ("pale", "plain"), ("calm",)), tinted)
    rejected(run, tmp_path, "style", "--images", where, words=["familiar"])


def test_styles_that_would_share_a_file_are_kept_apart_or_rejected(run, tmp_path):
    where = write_rows(tmp_path / "set", colors(2), tinted)
    where.write_text(where.read_text().replace(",pale,", ",a/b,").replace(",plain,", ",a-b,"))
    out = tmp_path / "out"
    told = run("structure", "style", "--images", where, "--out", out, "--epochs", 1, *USUAL)
    if told.status:
        assert_rejected(told, "a-b")
        return
    assert len(list(out.glob("models/0/*.pt"))) == len(list(out.glob("tests/0/*.parquet"))) == 3


# Scores of answers that are made up


def scored(out, rows, prediction, folds, seeds=(0,), kinds=None):
    """Write the answers that `answer(seed, place, is_held_out)` gives, and score them."""
    kinds = kinds or in_memory(rows)
    study = HoldoutStudy("style", tuple(folds), "resnet9", Recipe(), tuple(seeds))
    for fold in folds:
        for seed in seeds:
            places = np.concatenate([fold.held_out, fold.familiar])
            held = np.arange(len(places)) < len(fold.held_out)
            path = HoldoutJob(fold, seed).test(Path(out))
            path.parent.mkdir(parents=True, exist_ok=True)
            predictions = [
                prediction(seed, int(p), bool(h)) for p, h in zip(places, held, strict=True)
            ]
            table = {"place": places, "held_out": held, "label": kinds.labels[places]}
            pq.write_table(pa.table({**table, "prediction": np.array(predictions)}), path)
    return score_study(study, kinds, Path(out))


def fold_of(held_out, familiar, name="p", train=()):
    return Fold(
        name,
        (name,),
        *(np.array(each, dtype=np.int64) for each in (train, held_out, familiar)),
        copies=0,
    )


def wilson(share, count):
    """The two chances of which this share lies just 1.96 standard errors away."""
    z = Z95**2 / count
    low, high = sorted(np.roots([1 + z, -(2 * share + z), share**2]).real)
    return max(low, 0), min(high, 1)


def rows_of(count, each=1):
    """So many subclasses with pictures of two classes in turn."""
    return [Row("ab"[(n // each) % 2], "p", f"kind {n // each}", n) for n in range(count * each)]


def label_of(rows, place):
    return "ab".index(rows[place].label)


def test_all_right_and_none_right_have_wilsons_interval(tmp_path):
    rows = rows_of(24)
    fold = fold_of(range(8), range(8, 24))

    def prediction(seed, place, is_held_out):
        return 1 - label_of(rows, place) if is_held_out else label_of(rows, place)

    (own,) = scored(tmp_path, rows, prediction, [fold]).folds
    z = Z95**2
    assert own.held_out.value == 0 and own.familiar.value == 1
    assert own.held_out.interval == pytest.approx((0, z / (8 + z)))
    assert own.familiar.interval == pytest.approx((16 / (16 + z), 1))
    assert own.gap.value == 1
    assert own.held_out.narrow_interval[1] < own.held_out.interval[1]
    assert own.by_class == {"a": 0, "b": 0}


def test_the_gap_and_the_mean_of_few_images_are_no_surer_than_their_parts(tmp_path):
    rows = rows_of(16)
    folds = [fold_of(range(4), range(4, 8)), fold_of(range(8, 12), range(12, 16), "q")]

    def prediction(seed, place, is_held_out):
        return 1 - label_of(rows, place) if is_held_out else label_of(rows, place)

    results = scored(tmp_path, rows, prediction, folds)
    z = Z95**2
    # 4 of 4 right against 0 of 4: Newcombe's interval of a difference, from Wilson's two
    expected = 1 - sqrt(2) * z / (4 + z)
    for own in results.folds:
        low, high = own.gap.interval
        assert low <= expected + 1e-9 and high == 1
    low, high = results.held_out.interval
    assert low == 0 and high >= z / (8 + z) - 1e-9
    assert results.gap.interval[0] < 0.9
    # one fold is its own mean
    (alone,) = (scored(tmp_path / "one", rows, prediction, folds[:1]),)
    assert alone.held_out.interval == pytest.approx(alone.folds[0].held_out.interval)


def test_independent_images_have_the_interval_of_their_number(tmp_path):
    rows = rows_of(400)
    fold = fold_of(range(200), range(200, 400))
    numbers = np.random.default_rng(0).random(400)

    def prediction(seed, place, is_held_out):
        right = numbers[place] < (0.5 if is_held_out else 0.8)
        return label_of(rows, place) if right else 1 - label_of(rows, place)

    (own,) = scored(tmp_path, rows, prediction, [fold]).folds
    for share, count in ((own.held_out, 200), (own.familiar, 200)):
        low, high = share.interval
        least, most = wilson(share.value, count)
        # drawn again it is nearly the same, and never narrower
        assert low <= least + 1e-12 and high >= most - 1e-12
        assert (low, high) == pytest.approx((least, most), abs=0.012)
    spread = sqrt(sum(each.value * (1 - each.value) / 200 for each in (own.held_out, own.familiar)))
    half = Z95 * spread
    assert own.gap.interval == pytest.approx((own.gap.value - half, own.gap.value + half), abs=0.02)


@pytest.mark.parametrize(("is_known", "unit"), [(True, "subclasses"), (False, "images")])
def test_what_is_resampled_is_named(tmp_path, is_known, unit):
    rows = rows_of(8) if is_known else [Row(row.label, "p", None, 0) for row in rows_of(8)]
    fold = fold_of(range(4), range(4, 8))
    results = scored(tmp_path, rows, lambda seed, place, held: label_of(rows, place), [fold])
    assert results.resampled == unit
    (view,) = structure_views([tmp_path])
    assert f"bootstrap over {unit};" in str(view.table.note)


def test_subclasses_that_are_all_right_or_all_wrong_make_it_wider(tmp_path):
    rows = rows_of(40, 10)
    fold = fold_of(range(400), range(1))

    def by_kind(seed, place, is_held_out):
        right = place // 10 % 4 < 2
        return label_of(rows, place) if right else 1 - label_of(rows, place)

    def by_image(seed, place, is_held_out):
        return label_of(rows, place) if place % 2 else 1 - label_of(rows, place)

    (alike,) = scored(tmp_path / "alike", rows, by_kind, [fold]).folds
    (mixed,) = scored(tmp_path / "mixed", rows, by_image, [fold]).folds
    assert alike.held_out.value == mixed.held_out.value == 0.5
    # as if there were 40 pictures, not 400
    half = Z95 * sqrt(0.25 / 40)
    assert alike.held_out.interval == pytest.approx((0.5 - half, 0.5 + half), abs=0.02)
    # every subclass half right: no wider than 400 pictures have it, and no narrower
    assert mixed.held_out.interval == pytest.approx(wilson(0.5, 400))


def test_without_subclasses_each_image_counts_alone(tmp_path):
    rows = [Row("ab"[n % 2], "p", None, n) for n in range(401)]

    def prediction(seed, place, is_held_out):
        return label_of(rows, place) if place < 200 else 1 - label_of(rows, place)

    (own,) = scored(tmp_path, rows, prediction, [fold_of(range(400), [400])]).folds
    assert own.held_out.interval == pytest.approx(wilson(0.5, 400), abs=0.008)


def test_seeds_are_averaged_image_by_image(tmp_path):
    rows = rows_of(12)
    fold = fold_of(range(8), range(8, 12), train=range(3))

    def prediction(seed, place, is_held_out):
        right = place % 4 < seed
        return label_of(rows, place) if right else 1 - label_of(rows, place)

    results = scored(tmp_path, rows, prediction, [fold], seeds=(1, 2, 4))
    (own,) = results.folds
    assert own.held_out.value == pytest.approx((1 / 4 + 2 / 4 + 1) / 3)
    assert own.n_images == (8, 4, 3)
    # the first of every four is always right, the last of them once in three
    assert results.seeds == (1, 2, 4)


def test_folds_that_differ_make_the_mean_uncertain(tmp_path):
    rows = rows_of(400)
    folds = [
        fold_of(range(n * 100, n * 100 + 50), range(n * 100 + 50, n * 100 + 100), f"style {n}")
        for n in range(4)
    ]

    def differing(seed, place, is_held_out):
        right = not is_held_out or place < 200
        return label_of(rows, place) if right else 1 - label_of(rows, place)

    def alike(seed, place, is_held_out):
        right = not is_held_out or place % 2
        return label_of(rows, place) if right else 1 - label_of(rows, place)

    kinds = in_memory(rows)
    apart = scored(tmp_path / "apart", rows, differing, folds, kinds=kinds)
    same = scored(tmp_path / "same", rows, alike, folds, kinds=kinds)
    assert [fold.held_out.value for fold in apart.folds] == [1, 1, 0, 0]
    assert apart.held_out.value == pytest.approx(0.5) == same.held_out.value
    assert apart.familiar.value == same.familiar.value == 1
    # two of four folds are right: drawn again, none is in 1 of 16 cases, all in another
    assert apart.held_out.interval == pytest.approx((0, 1))
    low, high = same.held_out.interval
    # at least as uncertain as 200 pictures are, but far from that
    half = Z95 * sqrt(0.25 / 200)
    assert 0.9 * half < min(0.5 - low, high - 0.5) and max(0.5 - low, high - 0.5) < 1.6 * half
    assert apart.gap.value == pytest.approx(0.5)


def test_confusions_are_counted_over_all_seeds_the_most_frequent_first(tmp_path):
    labels = [name for name in "abcd" for _ in range(6)]
    rows = [Row(label, "p", f"kind {n}", n) for n, label in enumerate(labels)]
    fold = fold_of([n for n in range(24) if n % 6 < 5], [5, 11, 17, 23])
    numbers = np.random.default_rng(1).integers(0, 4, (2, 24))

    def prediction(seed, place, is_held_out):
        # what is familiar is never mistaken, and counts for nothing here
        return int(numbers[seed, place]) if is_held_out else place // 6

    (own,) = scored(tmp_path, rows, prediction, [fold], seeds=(0, 1)).folds
    wrong = Counter(
        ("abcd"[place // 6], "abcd"[numbers[seed, place]])
        for seed in (0, 1)
        for place in fold.held_out.tolist()
        if numbers[seed, place] != place // 6
    )
    assert {(each.label, each.prediction): each.share for each in own.confusions} == {
        pair: pytest.approx(count / 10) for pair, count in wrong.items()
    }
    counts = [wrong[each.label, each.prediction] for each in own.confusions]
    assert counts == sorted(counts, reverse=True) and len(set(counts)) > 1
    assert {each.n_images for each in own.confusions} == {5}
    assert own.familiar.value == 1


def test_only_the_twenty_most_frequent_confusions_are_kept(tmp_path):
    rows = [Row(f"class {n % 8}", "p", f"kind {n}", n) for n in range(448)]
    held = list(range(440))
    turn = {}

    def prediction(seed, place, is_held_out):
        # class 0 is taken for class 1 more often than anything else for anything
        label = place % 8
        if label == 0 and place < 240:
            return 1
        turn[label] = turn.get(label, 0) + 1
        return (label + 1 + turn[label] % 7) % 8

    (own,) = scored(tmp_path, rows, prediction, [fold_of(held, range(440, 448))]).folds
    assert len(own.confusions) == 20
    assert (own.confusions[0].label, own.confusions[0].prediction) == ("class 0", "class 1")
    assert own.held_out.value == 0


def test_classes_of_which_nothing_was_held_out_are_missing(tmp_path):
    rows = [Row("abc"[n % 3], "p", f"kind {n}", n) for n in range(12)]
    fold = fold_of([0, 1, 3, 4], [2, 5, 8])

    def prediction(seed, place, is_held_out):
        return place % 3 if place != 3 else 2

    (own,) = scored(tmp_path, rows, prediction, [fold]).folds
    assert own.missing == ("c",) and own.by_class == {"a": 0.5, "b": 1}
    assert [(each.label, each.prediction, each.share) for each in own.confusions] == [
        ("a", "c", 0.5)
    ]


def test_images_are_kept_from_the_hardest_class_to_the_easiest(tmp_path):
    labels = [f"{number:02d}" for number in range(50)]
    pairs = [(label, style) for label in labels for style in "pqr"]
    kinds = in_memory([Row(label, style, label, n) for n, (label, style) in enumerate(pairs)])
    (fold,) = style_folds(kinds, ["q"])
    places = [int(place) for place in fold.held_out]
    table = pa.table(
        {
            "place": places,
            "label": [int(kinds.labels[place]) for place in places],
            "prediction": [0] * len(places),
            "held_out": [True] * len(places),
        }
    )
    by_class = {label: number / 49 for number, label in enumerate(labels)}
    found = keep_examples(fold, table, by_class, kinds, tmp_path)
    assert len(found) == 20
    assert [own.label for own in found] == sorted(own.label for own in found)
    assert (found[0].label, found[-1].label) == ("00", "49")
