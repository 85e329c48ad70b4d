"""`eyechart rulers study`: from counts and images to a table, figures and a record."""

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from commands import assert_rejected
from eyechart.rulers.agreement import agreement
from eyechart.rulers.human_experiments import EXPERIMENTS, MAIN, read_counts
from eyechart.rulers.measure_conditions import CONDITIONS
from eyechart.rulers.study_record import StudyRecord
from eyechart.visual_change.registry import RULERS
from outside import outside
from real_images import NAMES, real_images

RULER = next(name for name in RULERS if "pixel" in name)
"""The fastest one."""

FEW = ("rotation", "power-equalisation", "phase-scrambling")
OPTIONS = [part for name in FEW for part in ("--experiment", name)]


def write_counts(path: Path, experiments=FEW, accuracy=lambda place, count: 0.9 - 0.1 * place):
    lines = ["experiment,condition,subj,trials,correct,no_answer"]
    for name in experiments:
        for place, condition in enumerate(EXPERIMENTS[name].parameters):
            share = max(0.06, accuracy(place, len(EXPERIMENTS[name].parameters)))
            for subject in range(3):
                lines.append(f"{name},{condition},s{subject},100,{round(100 * share) + subject},0")
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture
def inputs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, levels in zip(NAMES[:3], real_images()[:3], strict=True):
        Path("photos").mkdir(exist_ok=True)
        Image.fromarray(levels).save(f"photos/{name}.png")
    write_counts(Path("counts.csv"))
    return ["rulers", "study", "--human", "counts.csv", "--images", "photos", "--out", "study",
            "--ruler", RULER, "--n-bootstrap", "20", *OPTIONS]  # fmt: skip


def test_a_study_prints_a_table_and_writes_a_record_a_csv_file_and_a_figure(run, inputs):
    result = run(*inputs)
    assert result.status == 0, result.err
    assert RULER in result.out and "cannot show" in result.out
    record = StudyRecord.from_plain(json.loads(Path("study/study.json").read_text()))
    assert [ruler.ruler for ruler in record.rulers] == [RULER]
    assert (record.n_images, record.n_observers) == (3, 9)
    # the record is sufficient to compute the statistics again
    again = agreement(
        np.array(record.rulers[0].values),
        np.array([condition.rescaled for condition in record.conditions]),
        [condition.experiment for condition in record.conditions],
    )
    assert record.rulers[0].error.estimate.value == pytest.approx(again.error)
    assert Path("study/study.csv").read_text().startswith("ruler,images,explained,")
    with Image.open("study/agreement.png") as figure:
        assert figure.width > 500


def test_a_study_measures_only_what_is_missing(run, inputs):
    assert run(*inputs).status == 0
    before = {path: path.stat().st_mtime_ns for path in Path("study/measured").iterdir()}
    assert before
    assert run(*inputs).status == 0
    assert {path: path.stat().st_mtime_ns for path in Path("study/measured").iterdir()} == before


def test_other_images_need_another_folder(run, inputs):
    assert run(*inputs).status == 0
    assert_rejected(run(*inputs, "--max-images", "2"), "study holds another study", "--out")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (["--human", "missing.csv"], "missing.csv"),
        (["--human", "photos/coffee.png"], "photos/coffee.png"),
        (["--experiment", "rotaton"], "Did you mean 'rotation'?"),
        (["--experiment", "contrast"], "experiment contrast, condition"),
        (["--ruler", f"{RULER}s"], f"'{RULER}'"),
        (["--n-bootstrap", "1"], "n_bootstrap"),
    ],
)
def test_bad_input_gets_one_sentence(run, inputs, change, words):
    assert_rejected(run(*inputs, *change), words)


def test_more_correct_responses_than_trials_are_rejected(run, inputs):
    path = Path("counts.csv")
    path.write_text(path.read_text().replace("rotation,0,s0,100,90,0", "rotation,0,s0,80,90,0"))
    assert_rejected(run(*inputs), "correct must not exceed trials")


def test_accuracy_is_rescaled_by_the_clean_images_of_its_experiment(tmp_path):
    humans = read_counts(write_counts(tmp_path / "counts.csv"), FEW)
    by_condition = dict(zip(zip(humans.experiments, humans.names, strict=True),
                            humans.rescaled(), strict=True))  # fmt: skip
    assert by_condition["rotation", "0"] == 1
    assert by_condition["rotation", "90"] == pytest.approx((0.81 - 1 / 16) / (0.91 - 1 / 16))


def test_noise_is_rescaled_by_the_clean_images_of_the_contrast_experiment(tmp_path):
    path = write_counts(tmp_path / "counts.csv", ("contrast", "uniform-noise"))
    humans = read_counts(path, ("uniform-noise", "contrast"))
    assert humans.rescaled()[humans.names.index("0.00")] == pytest.approx(1)


def test_row_numbers_of_stored_values_stay_the_same():
    """Conditions may be added at the end only, because part files refer to their places."""
    assert CONDITIONS.index(("contrast", "c100")) == 0
    assert CONDITIONS.index(("rotation", "270")) == 42
    assert CONDITIONS.index(("eidolonIII", "128-0-10")) == 68


def test_the_published_counts_have_the_accuracies_of_the_papers():
    path = outside("human", "geirhos2021_all_condition_counts.csv")
    humans = read_counts(path, MAIN)
    accuracy = dict(zip(zip(humans.experiments, humans.names, strict=True),
                        humans.accuracy().round(2), strict=True))  # fmt: skip
    assert len(humans) == 43
    assert accuracy["rotation", "180"] == 0.80
    assert accuracy["high-pass", "0.7"] == 0.35
    assert accuracy["phase-scrambling", "120"] == 0.39
