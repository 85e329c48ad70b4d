"""`eyechart train retrain`: a network gets better at what it is retrained on, and says how much."""

import csv
import inspect
import json
import shutil
from collections import Counter
from contextlib import redirect_stdout
from copy import deepcopy
from io import StringIO
from pathlib import Path

import numpy as np
import pytest
import torch

import tinted_contrasts
from commands import assert_rejected
from eyechart.cli import retrain as command
from eyechart.cli.app import main
from eyechart.core.progress import NO_PROGRESS
from eyechart.core.storage.locks import lock_folder
from eyechart.corruptions.suites.apply import corrupt
from eyechart.images.imageset import load_images
from eyechart.images.labels.imagenet import wordnet_ids
from eyechart.models.checkpoint import read_checkpoint
from eyechart.models.find import load_model
from eyechart.pipeline.human_references import find_humans
from eyechart.predictions.batches import blank_images
from eyechart.reports.terminal.retraining_tables import (
    BeforeAfter,
    RetrainedRow,
    retrained_cells,
    retrained_latex,
)
from eyechart.stats.estimate import make_estimate
from eyechart.stats.p_values import paired_difference
from eyechart.testsets.plan import Plan
from eyechart.testsets.samples import choose_images
from eyechart.training import retrain as retraining
from eyechart.training.data import training_data
from eyechart.training.recipe import RETRAINING, Recipe
from eyechart.training.retrain import ScoreChange, data_for, on_clean
from eyechart.training.training_loop import InitialModel, Training, train
from interrupting import stopping
from small_models import save_images
from tinted_contrasts import save_contrasts

CPU = torch.device("cpu")
NOISE, BLUR = "vcr/gaussian_noise", "vcr/gaussian_blur"
TEST = (
    *("--stimulus", "native", "--n", 240, "--bins", 9, "--min-per-bin", 6),
    *("--n-bootstrap", 100, "--corruption", "gaussian_noise"),
)
SMALL = (*TEST, "--humans", "none")


def words_of(home: Path, out: Path, *more: object, model: object = None) -> list[str]:
    """The command that retrains the standard network on noise.

    Only the standard network, a file that names code of ours, has to be trusted.
    """
    named = (home / "standard.pt", "--trust") if model is None else (model,)
    asked = ("--train-images", home / "train", "--images", home / "test", "--out", out)
    return [str(word) for word in ("train", "retrain", *named, *asked, *more)]


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """Pictures to train and to test with, and a network that was trained on clean pictures."""
    folder = tmp_path_factory.mktemp("retrain")
    save_contrasts(folder / "train", 40, seed=1)
    save_contrasts(folder / "test", 20, seed=2)
    start = InitialModel(deepcopy(tinted_contrasts.untrained), base="tinted_contrasts:untrained")
    recipe = Recipe(epochs=20, batch_size=32, lr=0.05, weight_decay=0, schedule="cosine", flip=0)
    data = training_data(load_images(folder / "train", "native"))
    train(Training(start, data, recipe), CPU, folder / "standard.pt", NO_PROGRESS)
    return folder


@pytest.fixture(scope="module")
def retrained(home):
    """The folder of a retraining on noise that came to its end, and what it said."""
    said = StringIO()
    learn = ("--epochs", 8, "--lr", 0.02, "--also", "gaussian_blur")
    with pytest.raises(SystemExit) as stop, redirect_stdout(said):
        main(words_of(home, home / "out", *SMALL, *learn))
    assert stop.value.code == 0
    return home / "out", said.getvalue()


def changes(out: Path) -> dict[tuple[str, str], dict[str, str]]:
    with (out / "retraining.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    return {(row["corruption"], row["score"]): row for row in rows}


# What it is for


def test_a_network_gets_better_under_the_corruption_that_it_is_retrained_on(retrained):
    found = changes(retrained[0])
    for score in ("r_a", "r_p"):
        row = found[NOISE, score]
        assert float(row["after_low95"]) > float(row["before_high95"])
        assert row["intervals_overlap"] == "no" and row["trained_on"] == "yes"
        assert float(row["p_corrected"]) < 0.01 and float(row["low95"]) > 0.1
    clean = found["clean", "clean_accuracy"]
    assert float(clean["after_value"]) > 0.9 and clean["trained_on"] == "no"


def test_few_images_are_tested_with_no_claim(home, run, tmp_path):
    save_contrasts(tmp_path / "test", 2, seed=2)
    few = ("--max-train-images", 8, "--epochs", 1, "--batch-size", 4)
    words = words_of(home, tmp_path / "out", *SMALL, *few)
    words[words.index(str(home / "test"))] = str(tmp_path / "test")
    result = run(*words)
    assert result.status == 0, result.err
    for row in changes(tmp_path / "out").values():
        assert row["note"].startswith("insufficient data") and row["difference"]
        assert row["p_value"] == row["p_corrected"] == row["intervals_overlap"] == ""
    latex = tmp_path / "table.tex"
    assert run("train", "table", tmp_path / "out", "--latex", latex).status == 0
    assert "textbf" not in latex.read_text("utf-8")


def test_a_limit_that_leaves_one_image_of_a_class_is_trained_with(home, run, tmp_path):
    limit = ("--max-train-images", 6, "--epochs", 1, "--batch-size", 3)
    result = run(*words_of(home, tmp_path / "out", *SMALL, *limit))
    assert result.status == 0, result.err
    assert read_checkpoint(tmp_path / "out" / "retrained.pt").trained_on == (NOISE,)
    assert "instead of 6" not in result.out


def test_the_gain_is_there_without_our_evaluation(home, retrained):
    images = load_images(home / "test", "native")
    pixels = images.batch(range(len(images)))
    noisy = corrupt(pixels, "vcr/gaussian_noise", severity=3, seed=9)
    labels = torch.from_numpy(np.unique(images.labels, return_inverse=True)[1])
    right = [
        float((load_model(str(path), CPU, trust=True)(noisy).argmax(1) == labels).float().mean())
        for path in (home / "standard.pt", retrained[0] / "retrained.pt")
    ]
    assert right[1] > right[0] + 0.3, right


def test_what_is_tested_besides_is_no_corruption_that_was_trained_on(retrained):
    rows = {score: row for (name, score), row in changes(retrained[0]).items() if name == BLUR}
    assert {"r_a", "r_p"} <= set(rows) and {row["trained_on"] for row in rows.values()} == {"no"}
    held = read_checkpoint(retrained[0] / "retrained.pt")
    assert held.trained_on == (NOISE,)


def test_the_checkpoint_stands_on_the_same_base_and_says_how_it_was_made(home, retrained):
    held = read_checkpoint(retrained[0] / "retrained.pt")
    assert (held.base, held.network) == ("tinted_contrasts:untrained", "")
    told = held.recipe["settings"]
    assert (told["epochs"], told["lr"], told["corruptions"]) == (8, 0.02, [NOISE])
    # nothing but what it says is needed to use it
    model = load_model(str(retrained[0] / "retrained.pt"), CPU, trust=True)
    assert model.trained_on == (NOISE,) and model(blank_images(32, 32)).shape[1] == 4


def test_the_table_says_what_results_say(home, retrained):
    results = json.loads((retrained[0] / "evaluation" / "results.json").read_text("utf-8"))
    before, after = results["models"]
    assert before["name"] == str(home / "standard.pt") and before["marked"] == []
    assert after["name"].endswith("retrained.pt") and after["marked"] == [NOISE]
    compared = 0
    for (corruption, score), row in changes(retrained[0]).items():
        for when, model in (("before", before), ("after", after)):
            space = model["spaces"]["native"]
            own = space[score] if corruption == "clean" else space["corruptions"][corruption]
            if score in ("r_a", "r_p"):
                own = own[{"a": "accuracy", "p": "consistency"}[score[-1]]]["robustness"]
            own = own[score] if score == "error" else own
            ends = (row[f"{when}_value"], row[f"{when}_low95"], row[f"{when}_high95"])
            np.testing.assert_allclose(
                [float(end) for end in ends], [own["value"], *own["interval95"]], atol=1e-6
            )
            compared += 1
        gain = float(row["after_value"]) - float(row["before_value"])
        assert float(row["difference"]) == pytest.approx(gain, abs=2e-6)
    assert compared == 14


def test_the_terminal_shows_the_same_with_marks_and_notes(retrained):
    out, said = retrained
    row = changes(out)[NOISE, "r_a"]
    (line,) = [own for own in said.splitlines() if NOISE in own and " R_a " in own]
    assert "†" in line and f"{float(row['before_value']):.3f} " in line
    assert f"{float(row['after_value']):.3f} " in line
    assert not any("†" in own for own in said.splitlines() if own.strip().startswith(BLUR))
    assert "Trained with 160 images instead of 12,000" in said
    assert "retrained.pt was trained on vcr/gaussian_noise" in said
    for name in ("retrained.pt", "retraining.csv", "results.json", "curves.png"):
        assert f"{name}\n" in said


def copy_with_note(out: Path, folder: Path, model: str) -> Path:
    """The table of the same retraining, of another model and with a note on few images."""
    text = (out / "retraining.csv").read_text("utf-8")
    folder.mkdir()
    rows = list(csv.reader(text.splitlines()))
    assert rows[0][0] == "before"
    assert rows[0][-1] == "note" and rows[1][-1] == ""
    rows = [rows[0], *([model, *row[1:-1], "insufficient data"] for row in rows[1:])]
    with (folder / "retraining.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(rows)
    return folder


def test_retrainings_of_several_models_make_one_latex_table(retrained, run, tmp_path):
    other = copy_with_note(retrained[0], tmp_path / "other", "model_2")
    out = tmp_path / "table.tex"
    result = run("train", "table", retrained[0], other, "--latex", out)
    assert result.status == 0, result.err
    text = out.read_text("utf-8")
    body = text.split(r"\midrule")[1].split(r"\bottomrule")[0].strip().splitlines()
    assert len(body) == 2 and body[1].startswith(r"model\_2 & Gaussian noise & ")
    row = changes(retrained[0])
    found = body[0].removesuffix(r" \\").split(" & ")[2:]
    scores = [row[NOISE, name] for name in ("r_a", "r_p")]
    before = [f"{float(own['before_value']):.3f}" for own in scores]
    # significantly better, which an earlier test shows without this table
    after = [rf"\textbf{{{float(own['after_value']):.3f}}}" for own in scores]
    assert found == [*before, *after]
    # too few images for a claim: nothing is bold
    assert "textbf" not in body[1]
    assert all(value in result.out for value in before)
    assert run("train", "table", other, "--latex", out).status == 0


def test_rows_of_two_label_spaces_are_told_apart():
    score = {"r_a": BeforeAfter(0.3, 0.7, False)}
    rows = [RetrainedRow("m", space, "vcr/frost", score) for space in ("native", "entry16")]
    labels = [cells[0] for cells in retrained_cells(rows)]
    assert labels == ["m (native)", "m (entry16)"]
    assert "m (entry16)" in retrained_latex(rows)
    assert retrained_cells(rows[:1])[0][0] == "m"


def test_what_is_no_retraining_makes_no_table(retrained, run, tmp_path):
    assert_rejected(run("train", "table", tmp_path), "retraining.csv")
    assert_rejected(run("train", "table", retrained[0], retrained[0]), "in two of the folders")
    (tmp_path / "retraining.csv").write_text("a,b\n1,2\n")
    assert_rejected(run("train", "table", tmp_path), "train retrain")
    others = tmp_path / "mine.tex"
    others.write_text("mine")
    assert_rejected(run("train", "table", retrained[0], "--latex", others), "already exists")
    assert_rejected(run("train", "table", retrained[0], "--latex", tmp_path / "a.txt"), ".tex")
    assert others.read_text() == "mine"


def test_the_results_make_a_report(retrained, run, tmp_path):
    result = run("report", retrained[0] / "evaluation", "--out", tmp_path / "page.html")
    assert result.status == 0, result.err
    assert "†" in (tmp_path / "page.html").read_text("utf-8")


# Going on


def test_the_same_command_again_trains_and_predicts_nothing(home, retrained, run):
    out = retrained[0]
    kept = [out / "retrained.pt", *sorted((out / "evaluation" / "predictions").rglob("*.parquet"))]
    assert len(kept) > 1
    before = [path.stat().st_mtime_ns for path in kept]
    table = (out / "retraining.csv").read_bytes()
    learn = ("--epochs", 8, "--lr", 0.02, "--also", "gaussian_blur")
    assert run(*words_of(home, out, *SMALL, *learn)).status == 0
    assert [path.stat().st_mtime_ns for path in kept] == before
    assert (out / "retraining.csv").read_bytes() == table


def test_another_configuration_in_the_same_folder_is_rejected(home, retrained, run):
    result = run(*words_of(home, retrained[0], *SMALL, "--epochs", 8, "--lr", 0.03))
    assert_rejected(result, "different configuration", "lr")


FEW = ("--epochs", 2, "--max-train-images", 64, "--batch-size", 16)


@pytest.fixture(scope="module")
def whole(home):
    """The folder of a short retraining that nobody stopped."""
    with pytest.raises(SystemExit) as stop, redirect_stdout(StringIO()):
        main(words_of(home, home / "whole", *SMALL, *FEW))
    assert stop.value.code == 0
    return home / "whole"


@pytest.mark.parametrize(("title", "after"), [("training", 4), ("predictions", 3)])
def test_what_was_stopped_goes_on_to_the_same_end(
    home, whole, run, tmp_path, monkeypatch, title, after
):
    parts = tmp_path / "parts"
    with monkeypatch.context() as patch:
        stopping(title, after, patch)
        result = run(*words_of(home, parts, *SMALL, *FEW))
    assert result.status == 130 and "run the same command again to resume" in result.err
    assert (parts / "retrained.pt").exists() == (title == "predictions")
    assert run(*words_of(home, parts, *SMALL, *FEW)).status == 0
    one, two = (read_checkpoint(each / "retrained.pt").weights for each in (whole, parts))
    assert all(torch.equal(own, two[name]) for name, own in one.items())
    tables = [changes(each) for each in (whole, parts)]
    for row in (*tables[0].values(), *tables[1].values()):
        del row["after"]
    assert tables[0] == tables[1]


# What is trained, and with what


def test_images_are_as_many_of_every_class(home, run, tmp_path):
    assert (
        run(
            *words_of(home, tmp_path / "out", *SMALL, "--epochs", 1, "--max-train-images", 10)
        ).status
        == 0
    )
    settings = read_checkpoint(tmp_path / "out" / "retrained.pt").recipe["settings"]
    images = load_images(home / "train", "native")
    chosen = images.select(choose_images(images.listed, Plan(max_images=10)).tolist())
    assert sorted(Counter(chosen.labels).values()) == [2, 2, 3, 3]
    model = load_model("tinted_contrasts:untrained", CPU)
    model(blank_images(32, 32))
    assert settings["data"] == data_for(model, chosen).fingerprint


def test_a_module_of_the_users_stays_as_it_is(home, run, tmp_path):
    kept = deepcopy(tinted_contrasts.untrained.state_dict())
    words = words_of(home, tmp_path / "out", *SMALL, *FEW, model="tinted_contrasts:untrained")
    assert run(*words).status == 0
    now = tinted_contrasts.untrained.state_dict()
    assert all(torch.equal(own, now[name]) for name, own in kept.items())
    made = tmp_path / "out" / "retrained.pt"
    # what names their code is called by the command that was given it, and later if trusted
    assert_rejected(run("models", "check", made), "tinted_contrasts:untrained", "--trust")
    new = read_checkpoint(made).weights
    assert not torch.equal(new["first.weight"], kept["first.weight"])


def test_labels_stand_for_the_outputs_that_an_evaluation_takes_them_for(tmp_path):
    places = [404, 8]
    images = load_images(save_wordnet(tmp_path / "photos", places), "native")
    labels = [places.index(wordnet_ids().index(label)) for label in images.labels]
    model = load_model("tinted_contrasts:untrained_thousand", CPU)
    model(blank_images(32, 32))
    assert data_for(model, images).labels.tolist() == [places[own] for own in labels]
    # with an output for the background in front, all others are one further
    more = load_model(tinted_contrasts.Small(1001), CPU, label_maps=["background-first"])
    more(blank_images(32, 32))
    assert data_for(more, images).labels.tolist() == [places[own] + 1 for own in labels]


def save_wordnet(folder, places):
    save_images(folder, each=2, tints=("red", "blue"))
    for name, place in zip(("red", "blue"), places, strict=True):
        (folder / name).rename(folder / wordnet_ids()[place])
    return folder


def test_names_that_mean_other_outputs_in_the_test_are_rejected(home, run, tmp_path):
    shutil.copytree(home / "train", tmp_path / "train")
    (tmp_path / "train" / "grey").rename(tmp_path / "train" / "gray")
    words = words_of(home, tmp_path / "out", *SMALL)
    words[words.index("--train-images") + 1] = str(tmp_path / "train")
    assert_rejected(run(*words), "unknown to a model with 4 classes")


def test_an_image_that_is_in_both_folders_is_rejected(home, run, tmp_path):
    shutil.copytree(home / "train", tmp_path / "train")
    shutil.copy(home / "test" / "blue" / "2-0.png", tmp_path / "train" / "blue" / "mine.png")
    words = words_of(home, tmp_path / "out", *SMALL)
    words[words.index("--train-images") + 1] = str(tmp_path / "train")
    assert_rejected(run(*words), "1 image is in both", "blue/2-0.png")
    assert not (tmp_path / "out").exists()


def test_images_of_several_sizes_are_rejected(home, run, tmp_path):
    shutil.copytree(home / "train", tmp_path / "train")
    save_contrasts(tmp_path / "train", 1, seed=8, side=40)
    words = words_of(home, tmp_path / "out", *SMALL)
    words[words.index("--train-images") + 1] = str(tmp_path / "train")
    assert_rejected(run(*words), "must have the same size")


# What cannot be


@pytest.mark.parametrize(
    ("model", "said"),
    [
        ("small_models:slow_colors", "Only torch modules can be trained"),
        ("small_models:colors", "has no parameters"),
        ("tinted_contrasts:with_softmax", "returns probabilities"),
        ("nowhere.pt", "nowhere.pt"),
    ],
)
def test_models_that_cannot_be_trained_are_rejected(home, run, tmp_path, model, said):
    assert_rejected(run(*words_of(home, tmp_path / "out", *SMALL, model=model)), said)


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
def test_torchscript_is_rejected(home, run, tmp_path):
    path = tmp_path / "small.ts"
    torch.jit.trace(deepcopy(tinted_contrasts.untrained).eval(), torch.zeros(1, 3, 32, 32)).save(
        str(path)
    )
    result = run(*words_of(home, tmp_path / "out", *SMALL, model=path))
    assert_rejected(result, "Only torch modules can be trained", "TorchScript")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--severity", "mild"), "--severity must be a range, such as 1-5, or a number"),
        (("--severity", "1-6"), "severity must be in [0, 5]"),
        (("--severity", "4-2"), "must be a range LOW-HIGH"),
        (("--delta-v", "0.8-0.2"), "delta_v must be a range within [0, 1]"),
        (("--severity", "1-5", "--delta-v", "0-1"), "not both"),
        (("--corruption", "gausian_noise"), "gaussian_noise"),
        (("--also", "nothing"), "nothing"),
        (("--suite", "vrc"), "vcr"),
        (("--share", "0"), "share must be above 0"),
        (("--share", "2"), "share must be in [0, 1]"),
        (("--epochs", "0"), "epochs must be a whole number from 1"),
        (("--batch-size", "1"), "batch_size must be a whole number from 2"),
        (("--lr", "0"), "lr must be above 0"),
        (("--max-train-images", "1"), "max_train_images must be a whole number of at least 2"),
        (("--precision", "float16"), "float16"),
        (("--n", "3"), "n = 3 is too small"),
        (("--labels", "mine"), "label space"),
        (("--device", "tpu"), "tpu"),
        (("--humans", "geirhos"), "--humans none cannot be combined with other values"),
        (("--label-map", "background-first"), "1,001 lines"),
    ],
)
def test_what_makes_no_sense_is_rejected_in_a_sentence(home, run, tmp_path, words, said):
    assert_rejected(run(*words_of(home, tmp_path / "out", *SMALL, *words)), said)
    assert not (tmp_path / "out").exists()


def test_human_references_are_taken_in_order_of_precedence(home, run, tmp_path, monkeypatch):
    sought = []

    def find(settings):
        sought.append(settings.human_names)
        return find_humans(settings)

    monkeypatch.setattr(retraining, "find_humans", find)
    words = words_of(home, tmp_path / "out", *TEST, "--humans", "geirhos", "--humans", "martians")
    assert_rejected(run(*words), "martians")
    assert sought == [("geirhos", "martians")]


def test_a_folder_that_is_a_file_is_rejected(home, run, tmp_path):
    (tmp_path / "out").write_text("mine")
    assert_rejected(run(*words_of(home, tmp_path / "out", *SMALL)), "it is a file, not a folder")


def test_defaults_of_the_command_are_those_of_the_study():
    usual = {
        name: own.default for name, own in inspect.signature(command.retrain).parameters.items()
    }
    assert usual["max_train_images"] == 12_000
    told = RETRAINING.settings()
    assert {name: own for name, own in usual.items() if name in told} == {
        name: own for name, own in told.items() if name in usual
    }
    assert (told["lr"], told["momentum"], told["epochs"]) == (1e-3, 0.9, 5)
    assert told["schedule"] == "constant" and usual["suite"] == "vcr" and usual["n"] == 50_000


def test_clean_accuracy_that_fell_is_said():
    low, high = (make_estimate(own, np.full(50, own) + spread(50)) for own in (0.5, 0.8))
    for before, after, said in ((high, low, 1), (low, high, 0), (low, low, 0)):
        found = paired_difference(after, before)
        own = ScoreChange("native", "", "clean_accuracy", before, after, found, 1.0)
        other = ScoreChange("native", NOISE, "r_a", before, after, found, 1.0)
        notes = on_clean([own, other], 0.001)
        assert len(notes) == said
        assert all("fell by 0.300" in note and "0.001" in note for note in notes)


def spread(count):
    return np.random.default_rng(0).normal(0, 0.01, count)


def test_intervals_that_touch_are_not_apart():
    def between(*ends):
        (a, b), (c, d) = ends
        one, two = (type("E", (), {"interval95": own}) for own in ((a, b), (c, d)))
        return ScoreChange("native", "", "r_a", one, two, None, 1.0).is_apart

    assert between((0.1, 0.2), (0.3, 0.4)) and between((0.3, 0.4), (0.1, 0.2))
    assert not between((0.1, 0.3), (0.3, 0.4)) and not between((0.1, 0.9), (0.3, 0.4))


def test_a_second_retraining_in_the_same_folder_is_rejected_before_any_work(home, run, tmp_path):
    out = tmp_path / "out"
    with lock_folder(out):
        told = run(*words_of(home, out, *SMALL, "--train-images", tmp_path / "none"))
        assert_rejected(told, "Another run is writing", str(out))
    assert not out.exists()


def test_a_folder_in_which_nothing_can_be_written_is_told_before_any_work(home, run, tmp_path):
    told = run(*words_of(home, "/proc/out", *SMALL, "--train-images", tmp_path / "none"))
    assert_rejected(told, "Cannot write into /proc/out")
