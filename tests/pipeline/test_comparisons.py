"""Error consistency over a run: models with each other, and with people who saw the pictures."""

import csv

import numpy as np
import pyarrow.parquet as pq
import pytest

import eyechart as ec
from eyechart.images.labels.imagenet import CATEGORIES, wordnet_ids
from small_models import TINTS, save_images

CLASSES = {404: "airplane", 294: "bear", 281: "cat", 409: "clock"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Tinted pictures in folders of four classes of ImageNet."""
    home = save_images(tmp_path_factory.mktemp("images") / "photos", each=5)
    for tint, place in zip(TINTS, CLASSES, strict=True):
        (home / tint).rename(home / wordnet_ids()[place])
    return home


def evaluate(folder, out, **more):
    return ec.evaluate(
        "small_models:thousand", folder, suite="vcr", corruptions=["gaussian_noise"], n=80,
        stimulus="native", n_bootstrap=60, bins=9, min_per_bin=3, out=out, labels="entry16",
        sampling="parameters", **more,
    )  # fmt: skip


def rows_of(run):
    """The rows of a run whose visual change could be measured, in their order."""
    table = pq.read_table(run / "predictions" / "vcr-gaussian_noise.parquet").to_pylist()
    return [row for row in table if row["delta_v"] is not None]


def humans_who_saw(run, path, subjects):
    """Write trials of people about the very rows of a run; each says the truth to some of them."""
    table = rows_of(run)
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["corruption", "subject", "image", "label", "response", "delta_v"])
        for subject in range(subjects):
            chance = np.random.default_rng(subject)
            for row in table:
                truth = CLASSES[wordnet_ids().index(row["label"])]
                right = chance.random() < 0.6
                said = truth if right else next(name for name in CATEGORIES if name != truth)
                writer.writerow(
                    ["vcr/gaussian_noise", f"s{subject}", row["image"], truth, said,
                     row["delta_v"]]
                )  # fmt: skip
    return table


def test_humans_who_saw_the_same_images_are_compared_trial_by_trial(run, folder, tmp_path):
    evaluate(folder, tmp_path / "first", humans=None)
    rows = humans_who_saw(tmp_path / "first", tmp_path / "trials.csv", subjects=3)
    humans = tmp_path / "people.parquet"
    made = run("humans", "import", tmp_path / "trials.csv", "--format", "trials", "--out", humans)
    assert made.status == 0, made.err
    found = evaluate(folder, tmp_path / "second", humans=str(humans))
    (own,) = found.agreements
    assert (own.space, own.second) == ("entry16", "humans")
    assert own.trials == 3 * len(rows)

    # the same once more, by hand: κ within each tenth of Δv, for each person, then the mean
    best = np.array([row["category_max"] for row in rows_of(tmp_path / "second")]).argmax(axis=1)
    truth = [CATEGORIES.index(CLASSES[wordnet_ids().index(row["label"])]) for row in rows]
    model = best == np.array(truth)
    tenth = np.minimum(np.array([row["delta_v"] for row in rows]) * 10 // 1, 9)
    kappas = []
    for subject in range(3):
        chance = np.random.default_rng(subject)
        theirs = np.array([chance.random() < 0.6 for _ in rows])
        for step in np.unique(tenth):
            one, two = model[tenth == step], theirs[tenth == step]
            expected = one.mean() * two.mean() + (1 - one.mean()) * (1 - two.mean())
            if expected < 1:
                kappas.append(((one == two).mean() - expected) / (1 - expected))
    assert own.kappa.value == pytest.approx(np.mean(kappas))


def test_humans_who_saw_other_images_are_not_compared_trial_by_trial(folder, tmp_path):
    found = evaluate(folder, tmp_path / "out", humans="geirhos")
    assert found.agreements == ()
    assert found.models[0].space("entry16")["vcr/gaussian_noise"].accuracy.humans is not None


def test_ce_against_humans_is_in_their_label_space(folder, tmp_path):
    found = evaluate(folder, tmp_path / "out", baseline="humans")
    own = found.models[0].space("entry16")
    divided = own.corruption_error
    assert divided.baseline == "humans" and set(divided.ce) == {"vcr/gaussian_noise"}
    score = own["vcr/gaussian_noise"]
    # people's error at the visual changes of these very pictures, by hand
    change = np.array([row["delta_v"] for row in rows_of(tmp_path / "out")])
    theirs = 1 - score.accuracy.humans.line.fitted(change).mean()
    assert divided.ce["vcr/gaussian_noise"].value == pytest.approx(score.error.value / theirs)
    low, high = divided.ce["vcr/gaussian_noise"].interval95
    assert low < score.error.value / theirs < high


def test_humans_who_saw_the_stimuli_themselves_are_compared_without_a_visual_change(
    run, folder, tmp_path
):
    """Images named as model-vs-human names its stimuli, and one table for each observer."""
    home, tables = tmp_path / "stimuli", []
    names = {}
    for number, path in enumerate(sorted(folder.rglob("*.png"))):
        truth = CLASSES[wordnet_ids().index(path.parent.name)]
        own = f"{number:04d}_ske_dnn_{number % 2}_{truth}_00_{truth}-{number}.png"
        target = home / path.parent.name / own
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(path.read_bytes())
        names[target.stem] = (number, truth)
    head = "subj,object_response,category,condition,imagename\n"
    chance = np.random.default_rng(0)
    hits = chance.random((2, len(names))) < 0.6
    # the last is of another experiment with the same images and conditions
    shown = [("sketch", 0, hits[0]), ("sketch", 1, hits[1]), ("edge", 0, ~hits[0])]
    for experiment, subject, right in shown:
        rows = [
            f"s{subject},{truth if right[number] else 'oven'},{truth},{number % 2}.0,"
            f"{99 - number:04d}_{experiment[:3]}_s0{subject}_{number % 2}"
            f"_{truth}_00_{truth}-{number}.png\n"
            for number, truth in names.values()
        ]
        tables.append(tmp_path / f"{experiment}_subject-0{subject}_session_1.csv")
        tables[-1].write_text(head + "".join(rows), encoding="utf-8")
    humans = tmp_path / "people.parquet"
    made = run("humans", "import", *tables, "--format", "model-vs-human", "--out", humans)
    assert made.status == 0, made.err
    found = evaluate(home, tmp_path / "out", humans=str(humans))
    (own,) = found.agreements
    assert (own.second, own.trials) == ("humans", 2 * len(names))

    # by hand: κ within each condition and for each observer, then the mean
    clean = pq.read_table(tmp_path / "out" / "predictions" / "clean.parquet").to_pylist()
    model = np.zeros(len(names), dtype=bool)
    for row in clean:
        number, truth = names[row["image"].rsplit("/", 1)[-1].removesuffix(".png")]
        model[number] = np.argmax(row["category_max"]) == CATEGORIES.index(truth)
    kappas = []
    for theirs in hits:
        for condition in range(2):
            one, two = model[condition::2], theirs[condition::2]
            expected = one.mean() * two.mean() + (1 - one.mean()) * (1 - two.mean())
            if expected < 1:
                kappas.append(((one == two).mean() - expected) / (1 - expected))
    assert own.kappa.value == pytest.approx(np.mean(kappas))
