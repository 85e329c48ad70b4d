"""CE against AlexNet's published table, through the command line, on images named as ImageNet's."""

import json

import numpy as np
import pytest
import torch

from commands import assert_rejected, image_file
from eyechart.core.storage.parts import PartFiles
from eyechart.corruptions.suites.catalogue import list_corruptions
from eyechart.images.labels.imagenet import wordnet_ids
from eyechart.predictions.batches import BatchRecord, predictions_table, record_scores
from eyechart.predictions.compute_settings import ENGINES
from eyechart.predictions.engine import part_files
from eyechart.testsets.manifest_rows import samples_table
from imagenet_names import save_archive
from published_scores import ALEXNET_BY_SEVERITY
from small_models import save_images

TITLE = "CE against AlexNet (published table)"
MODEL = "small_models:thousand"
"""It guesses, which is accepted where a run goes on after its plan."""

CLEAN_ALEXNET = 0.435
ALEXNET = {name: np.mean(errors) for name, errors in ALEXNET_BY_SEVERITY.items()}
# the paper on ImageNet-NOC, figures 5 and 6
NOC_ALEXNET = {
    "noc/quantization": 0.592, "noc/blur": 0.570, "noc/vertical_artifacts": 0.758,
    "noc/rain": 0.748, "noc/border": 0.670, "noc/shear": 0.657, "noc/brightness": 0.577,
    "noc/hue": 0.684,
}  # fmt: skip


def first_line(told):
    """Return the first line of a run; before it, there are only lines of progress."""
    assert told.status == 0, told.err
    return next(line for line in told.err.splitlines() if line.startswith("Plan: "))


@pytest.fixture(scope="session")
def validation_set(tmp_path_factory):
    """Fifty tiny images of each of 1,000 classes, named as ImageNet's validation set."""
    return save_archive(tmp_path_factory.mktemp("imagenet") / "val.tar")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return save_images(tmp_path_factory.mktemp("images") / "photos", each=2)


def test_the_documented_command_divides_by_alexnets_published_table(run, validation_set, tmp_path):
    told = run(
        "evaluate", MODEL, "--images", validation_set, "--suite", "imagenet-c", "--jpeg", 85,
        "--out", tmp_path, "--dry-run",
    )  # fmt: skip
    line = first_line(told)
    assert "50,000 images, 15 corruptions, 3,750,000 samples at published severities" in line
    assert line.endswith(f"; {TITLE}.")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--preset", "imagenet-c"), f"{TITLE}."),
        (("--suite", "imagenet-c", "--jpeg", 85, "--baseline", "alexnet"), f"{TITLE}."),
        (("--suite", "imagenet-c"), "these were never saved as JPEG: give --jpeg 85."),
        (("--preset", "imagenet-noc"), f"{TITLE}."),
        (("--suite", "imagenet-noc", "--n", 50), "give --sampling parameters --n 50000."),
        (
            ("--preset", "imagenet-noc", "--n", 2000),
            "every image used equally often, but these samples differ: give --sampling parameters"
            " --n 50000.",
        ),
    ],
)
def test_the_plan_says_what_ce_is_against_or_what_to_type(
    run, validation_set, tmp_path, options, says
):
    told = run(
        "evaluate", MODEL, "--images", validation_set, "--out", tmp_path, *options, "--dry-run"
    )
    assert first_line(told).endswith(says)


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs hours on a CPU")
@pytest.mark.parametrize(
    ("preset", "mean", "of_guesses"),
    [
        ("imagenet-c", "mce", np.mean([0.999 / error for error in ALEXNET.values()])),
        ("imagenet-noc", "relative_mce", 0),
    ],
)
def test_a_whole_run_ends_with_the_mean_corruption_error(
    run, validation_set, tmp_path, preset, mean, of_guesses
):
    told = run(
        "evaluate", MODEL, "--images", validation_set, "--preset", preset, "--device", "cuda",
        "--accept-labels", "--humans", "none", "--out", tmp_path / "out",
    )  # fmt: skip
    assert first_line(told).endswith(f"; {TITLE}.")
    results = json.loads((tmp_path / "out" / "results.json").read_text())
    errors = results["models"][0]["spaces"]["native"]["corruption_error"]
    assert set(errors["ce"]) == set(list_corruptions(preset))
    assert errors[mean]["value"] == pytest.approx(of_guesses, abs=0.01)


LEFT = 5
"""Number of samples that the run has not predicted when it is stopped."""


class KnownErrors:
    """An engine that stores predictions with `errors`, and stops before the last ones.

    Pixels have the digest 0, unlike those of samples that are really corrupted and predicted.
    """

    def __init__(self):
        self.errors = {}

    def run(self, task, items, folder, advance, settings):
        random, files = np.random.default_rng(0), part_files(task, folder)
        label_of_image = torch.tensor(list(map(wordnet_ids().index, task.images.labels)))
        classes, scores = torch.arange(1000), 10 * torch.eye(1000)
        right = record_scores(scores, classes).numbers
        wrong = record_scores(scores.roll(1, dims=0), classes).numbers
        for number, samples in enumerate(task.groups):
            # clean images come first; strengths of ImageNet-NOC have no severities
            highest = np.nan_to_num(samples.severity, nan=5) / 5 if number else 0
            delta_v = random.uniform(size=len(samples)) * highest
            is_wrong = random.uniform(size=len(samples)) < 0.2 + (0.2 + number / 30) * delta_v
            self.errors[samples.name] = is_wrong.mean()
            n_left = LEFT if samples is task.groups[-1] else 0
            stored = np.arange(len(samples) - n_left)
            label = label_of_image[samples.image[stored]]
            numbers = torch.where(
                torch.from_numpy(is_wrong[stored, None]), wrong[label], right[label]
            )
            rows = samples_table(
                task.images,
                task.plan,
                samples.select(stored),
                delta_v[stored],
                pixels=np.zeros_like(stored),
                scales=1,
            )
            table = predictions_table(rows, MODEL, BatchRecord(numbers, has_categories=True))
            files.write(samples.name, table)
        raise KeyboardInterrupt


@pytest.fixture
def known_errors():
    engine = ENGINES.add("known-errors", KnownErrors())
    yield engine
    del ENGINES._items["known-errors"]


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    ("options", "table", "n_samples"),
    [
        (("--suite", "imagenet-c", "--jpeg", 85), ALEXNET, 3_750_000),
        (("--preset", "imagenet-noc"), NOC_ALEXNET, 400_000),
    ],
    ids=["imagenet-c", "imagenet-noc"],
)
def test_a_resumed_run_of_all_samples_ends_with_the_mean_corruption_error(
    run, validation_set, known_errors, monkeypatch, tmp_path, options, table, n_samples
):
    """All predictions would take more than a day, so that all but a few have known errors."""
    # a quarter of the memory for each of both sets of images
    monkeypatch.setattr("eyechart.images.imageset.KEPT_SHARE", 0)
    given = (
        "evaluate", MODEL, "--images", validation_set, *options, "--accept-labels", "--out",
        tmp_path / "out",
    )  # fmt: skip
    assert "Stopped" in run(*given, "--engine", "known-errors").err
    told = run(*given)
    assert first_line(told).endswith(f"; {TITLE}.")

    parts = PartFiles(tmp_path / "out" / "predictions")
    errors = known_errors.errors
    pixels = np.concatenate([parts.read(name, ["row", "pixels"])["pixels"] for name in errors])
    assert len(pixels) == 50_000 + n_samples and np.count_nonzero(pixels) == LEFT

    clean = errors.pop("clean")
    mce = np.mean([errors[name] / table[name] for name in table])
    relative_mce = np.mean(
        [(errors[name] - clean) / (table[name] - CLEAN_ALEXNET) for name in table]
    )
    results = json.loads((tmp_path / "out" / "results.json").read_text())
    found = results["models"][0]["spaces"]["native"]["corruption_error"]
    assert set(found["ce"]) == set(errors) == set(table)
    assert found["mce"]["value"] == pytest.approx(mce, abs=1e-4)
    assert found["relative_mce"]["value"] == pytest.approx(relative_mce, abs=1e-4)
    assert "alexnet's errors (mean: mCE and relative mCE)" in told.out
    mean = next(line for line in told.out.splitlines() if line.startswith("  mean "))
    assert f" {100 * mce:.1f} " in mean and f" {100 * relative_mce:.1f} " in mean


def test_on_other_images_the_first_line_says_what_to_type(run, folder, tmp_path):
    given = ("--images", folder, "--out", tmp_path / "out", "--dry-run")
    for options in (("--preset", "imagenet-c"), ("--suite", "imagenet-noc")):
        line = first_line(run("evaluate", "small_models:colors", *given, *options))
        assert "No CE: The table '" in line and "but 8 images were given" in line
        # AlexNet does not know these classes
        assert line.endswith("with the same classes on the same images: --baseline MODEL.")
    own = run("evaluate", "small_models:colors", *given, "--baseline", "small_models:pale_colors")
    assert first_line(own).endswith("; CE against small_models:pale_colors.")
    assert first_line(run("evaluate", "small_models:colors", *given)).endswith("±0.22.")


def test_on_other_images_of_imagenets_classes_the_first_line_names_alexnet(run, tmp_path):
    for wnid in ("n02123045", "n02085620"):
        for number in range(2):
            image_file(tmp_path / "set" / wnid / f"{number}.png", number)
    given = ("evaluate", MODEL, "--images", tmp_path / "set", "--suite", "imagenet-c", "--dry-run")
    alexnet = "on the same images, for example --baseline torchvision:alexnet --download."
    line = first_line(run(*given))
    assert "but 4 images were given" in line and line.endswith(alexnet)
    line = first_line(run(*given, "--labels", "entry16"))
    assert "not for 16 categories: use --labels native, or evaluate" in line
    assert line.endswith(alexnet)
    # a model that needs no download, in its place
    own = run(*given, "--labels", "entry16", "--baseline", "tinted_contrasts:untrained_thousand")
    assert first_line(own).endswith("CE against tinted_contrasts:untrained_thousand.")


def test_a_table_that_is_not_valid_is_rejected_before_the_plan_is_shown(run, folder, tmp_path):
    told = run(
        "evaluate", "small_models:colors", "--images", folder, "--suite", "imagenet-c", "--out",
        tmp_path / "out", "--baseline", "alexnet", "--dry-run",
    )  # fmt: skip
    assert_rejected(told, "but 8 images were given", "--baseline MODEL")
    assert "Plan: " not in told.err and not (tmp_path / "out").exists()


def test_a_finished_run_is_scored_again_with_another_baseline(run, folder, tmp_path):
    """Samples at published severities do not depend on options of sampling."""
    (tmp_path / "mine.csv").write_text("corruption,error\nclean,0.1\nfog,0.5\n")
    given = (
        "evaluate", "small_models:colors", "--images", folder, "--suite", "imagenet-c",
        "--corruption", "fog", "--stimulus", "native", "--n-bootstrap", 10,
        "--out", tmp_path / "out",
    )  # fmt: skip
    assert "No CE" in first_line(run(*given))
    file = tmp_path / "out" / "predictions" / "fog.parquet"
    before = file.stat().st_mtime_ns
    again = run(*given, "--baseline", tmp_path / "mine.csv")
    assert "; CE against mine.csv#" in first_line(again)
    assert file.stat().st_mtime_ns == before
    results = json.loads((tmp_path / "out" / "results.json").read_text())
    assert results["models"][0]["spaces"]["native"]["corruption_error"]["ce"]["fog"]["value"] > 0
    assert run(*given, "--sampling", "levels").status == 0
    rejected = run(*given, "--sampling", "pilot")
    assert_rejected(rejected, "imagenet-c is applied at its published severities: omit")
