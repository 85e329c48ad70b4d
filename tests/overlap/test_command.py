"""`eyechart overlap`: tables in, matrices, benchmarks and pictures out, and one sentence if not."""

import csv

import numpy as np
import pyarrow as pa
import pytest
from PIL import Image

import eyechart as ec
from commands import assert_rejected
from eyechart.cli.overlap.matrices import show_study
from eyechart.core.storage.parts import file_name, write_parquet
from eyechart.corruptions.suites.suite import load_suite
from eyechart.overlap.accuracy_table import write_accuracies
from eyechart.overlap.matrix_file import read_matrix
from eyechart.overlap.matrix_intervals import overlap_intervals
from overlap_cases import make_table, small_table, write_small


@pytest.fixture
def table(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return write_small(tmp_path)


@pytest.fixture
def both(tmp_path):
    """A table with all corruptions of two benchmarks; training on one helps its own group only."""
    names = [*ec.list_corruptions("imagenet-c"), *ec.list_corruptions("imagenet-noc")]
    noises = [name for name in names if "noise" in name]
    numbers = np.random.default_rng(0)
    standard = np.array([0.9, *numbers.uniform(0.4, 0.6, len(names))])
    rows = [standard]
    for place, name in enumerate(names):
        own = standard.copy()
        own[1 + place] += 0.3
        if name in noises:
            own[[1 + names.index(other) for other in noises]] += 0.2
        rows.append(own)
    change = np.array([0, *[0.1] * len(names)])
    rows += [standard + change, standard - change]
    models = ("standard", *names, "all:imagenet-c", "all:imagenet-noc")
    path = tmp_path / "both.csv"
    write_accuracies(make_table(names, models, np.clip(np.array(rows), 0, 1)), path)
    return path


def lines_of(path):
    return list(csv.DictReader(path.read_text(encoding="utf-8").splitlines()))


def write_study(folder, seeds=1, images=300):
    """The folder of a study, with the answers that its accuracies come from."""
    table = small_table()
    numbers = np.random.default_rng(1)
    shape = (seeds, len(table.models), len(table.tests), images)
    hits = numbers.random(shape) < table.values[..., None]
    names = tuple(map(str, range(seeds)))
    write_accuracies(
        make_table(table.corruptions, table.models, hits.mean(axis=-1), names),
        folder / "accuracies.csv",
    )
    for seed, own in zip(names, hits, strict=True):
        (folder / "tests" / seed).mkdir(parents=True)
        for place, test in enumerate(table.tests):
            columns = {model: own[at, place] for at, model in enumerate(table.models)}
            path = folder / "tests" / seed / f"{file_name(test)}.parquet"
            write_parquet(pa.table(columns), path)
    return hits


def test_a_matrix_is_printed_written_and_drawn(run, table):
    told = run("overlap", "matrix", table, "--out", "overlap.csv", "--figure", "overlap.png")
    assert told.status == 0, told.err
    matrix = read_matrix(table.parent / "overlap.csv")[0]
    assert matrix["gaussian_noise", "shot_noise"] == pytest.approx(0.75)
    (line,) = (
        text for text in told.out.splitlines() if text.split()[:2] == ["shot_noise", "0.400"]
    )
    assert line.split()[2:4] == ["gaussian_noise", "0.75"]
    assert "Training on noc/hue improves the robustness to it by 0.011" in told.out
    with Image.open("overlap.png") as image:
        assert image.format == "PNG" and image.width > 500
    # our own picture is replaced
    assert run("overlap", "matrix", table, "--figure", "overlap.png").status == 0


@pytest.mark.parametrize("ending", [".png", ".svg", ".pdf"])
@pytest.mark.parametrize(
    "options",
    [("matrix",), ("select", "--threshold", "0.8"), ("select", "--all"), ("balance",)],
    ids=" ".join,
)
def test_every_figure_is_drawn_in_every_format(run, table, options, ending):
    command, *more = options
    target = table.parent / f"figure{ending}"
    # our own figure is replaced
    for _ in range(2):
        told = run("overlap", command, table, *more, "--figure", target)
        assert told.status == 0, told.err
    start = {".png": b"\x89PNG", ".svg": b"<?xml", ".pdf": b"%PDF"}[ending]
    assert target.read_bytes().startswith(start) and str(target) in told.out


def test_a_smaller_gain_can_be_enough(run, table):
    told = run("overlap", "matrix", table, "--min-gain", "0.01")
    assert told.status == 0 and "undetermined" not in told.out
    assert "less than 0.75" not in told.out
    told = run("overlap", "matrix", table, "--classes", "2")
    assert "Note" in told.out and "clean images" not in told.out


def test_repetitions_in_a_table_have_their_deviation(run, tmp_path):
    write_accuracies(small_table(("0", "1")), tmp_path / "a.csv")
    told = run("overlap", "matrix", tmp_path / "a.csv")
    assert told.status == 0 and "SD over seeds" in told.out and "95 %" not in told.out


def test_a_study_has_intervals(run, tmp_path):
    hits = write_study(tmp_path, seeds=2)
    told = run(
        "overlap", "matrix", tmp_path, "--intervals", tmp_path / "i.csv", "--n-bootstrap", "50"
    )
    assert told.status == 0, told.err
    assert (
        "50 bootstrap replicates over 300 test images and 2 seeds" in told.out
        and "SD over seeds" in told.out
    )
    rows = lines_of(tmp_path / "i.csv")
    assert len(rows) == 6
    first = rows[0]
    assert (first["one"], first["two"]) == ("gaussian_noise", "shot_noise")
    assert float(first["low"]) < float(first["overlap"]) < float(first["high"])
    assert float(first["seed_deviation"]) > 0
    own = overlap_intervals(hits[:, :5], n_bootstrap=50)
    assert float(first["high"]) == own.high[0, 1] and float(first["low"]) == own.low[0, 1]


def test_a_finished_study_shows_itself(capsys, tmp_path):
    write_study(tmp_path)
    (tmp_path / "run.json").write_text('{"classes": ["a", "b"]}')
    show_study(tmp_path)
    said = capsys.readouterr().out
    assert "95 % confidence intervals" in said
    for name in ("overlap.csv", "overlap-intervals.csv", "overlap.png"):
        assert (tmp_path / name).is_file() and name in said


def test_tests_of_different_images_are_rejected(run, tmp_path):
    write_study(tmp_path)
    short = pa.table({name: [True] * 7 for name in small_table().models})
    write_parquet(short, tmp_path / "tests" / "0" / "shot_noise.parquet")
    assert_rejected(run("overlap", "matrix", tmp_path), "the same images", "7 and 300")


def test_a_selection_becomes_a_suite_that_runs(run, table):
    told = run(
        "overlap", "select", table, "--threshold", "0.1", "--out", "my-benchmark.yaml",
        "--marked", "marked.csv", "--figure", "selected.png",
    )  # fmt: skip
    assert told.status == 0, told.err
    assert "2 corruptions overlap by 0.1 or less" in told.out
    assert "Equally good (1):\n  shot_noise, defocus_blur" in told.out
    assert "Not selectable, because their overlaps are undetermined: noc/hue." in told.out
    suite = load_suite("my-benchmark.yaml")
    assert [entry.name for entry in suite] == ["gaussian_noise", "defocus_blur"]
    assert suite.name == "my-benchmark"
    _, selected = read_matrix(table.parent / "marked.csv")
    assert selected == ("gaussian_noise", "defocus_blur")
    assert (table.parent / "selected.png").is_file()
    # what is selected can be selected from again, as a matrix
    again = run("overlap", "select", "marked.csv", "--threshold", "0.1")
    assert again.out.splitlines()[1] == told.out.splitlines()[1]


def test_a_suite_of_ones_own_gives_its_entries(run, table):
    table.parent.joinpath("own.yaml").write_text(
        "name: own\ntitle: Own\nsource: me\ncorruptions:\n"
        "  - {name: gaussian_noise, group: noise, path: {sigma: [0.1, 0.2]}}\n"
        "  - {name: defocus_blur, group: blur, path: {radius: [1, 2]}}\n"
    )
    asked = ("overlap", "select", table, "--threshold", "0.1", "--out", "mine.yaml")
    told = run(*asked, "--suite", "own.yaml")
    assert told.status == 0, told.err
    assert load_suite("mine.yaml").entries[0].path == {"sigma": (0.1, 0.2)}
    told = run(*asked, "--suite", "vcr")
    assert_rejected(told, "gaussian_noise")


def test_every_threshold_is_listed(run, table):
    told = run("overlap", "select", table, "--all", "--figure", "sizes.png")
    assert told.status == 0, told.err
    assert "+gaussian_noise" in told.out
    # from 0 on there is a selection for every threshold
    assert "Below" not in told.out
    assert (table.parent / "sizes.png").is_file()
    told = run("overlap", "select", table, "--all", "--threshold", "0.8", "--figure", "sizes.png")
    assert "3 corruptions overlap by 0.8 or less" in told.out


def test_balance_prints_both_forms_and_writes_all_errors(run, table):
    told = run("overlap", "balance", table, "--out", "errors.csv", "--figure", "balance.png")
    assert told.status == 0, told.err
    assert "mCE (baseline standard): population standard deviation" in told.out
    assert "relative mCE (baseline standard)" in told.out and "population" in told.out
    rows = lines_of(table.parent / "errors.csv")
    assert len(rows) == 2 * 5 * 5 and {row["form"] for row in rows} == {"plain", "relative"}
    (own,) = (
        float(row["corruption_error"])
        for row in rows
        if (row["form"], row["trained_on"], row["tested_on"])
        == ("plain", "shot_noise", "gaussian_noise")
    )
    assert own == pytest.approx(0.28 / 0.55)
    assert (table.parent / "balance.png").is_file()


def test_balance_of_suites_by_the_published_errors(run, both, tmp_path):
    told = run(
        "overlap", "balance", both, "--suite", "imagenet-c", "--baseline", "alexnet",
        "--figure", tmp_path / "b.png", "--relative",
    )  # fmt: skip
    assert told.status == 0, told.err
    assert "imagenet-c, mCE (baseline alexnet)" in told.out
    assert "ImageNet's 50,000 validation images" in told.out
    told = run("overlap", "balance", both, "--suite", "imagenet-c", "--suite", "imagenet-noc")
    assert told.out.count("standard deviation") == 4


def test_coverage_is_printed_both_ways_with_the_direct_test(run, both):
    told = run("overlap", "coverage", both, "--by", "imagenet-noc", "--of", "imagenet-c")
    assert told.status == 0, told.err
    assert "0 of 15 corruptions of imagenet-c overlap by more than 0.3" in told.out
    assert "0 of 8 corruptions of imagenet-noc overlap by more than 0.3" in told.out
    assert "Training on all of imagenet-c improves robustness to 8 of 8 corruptions." in told.out
    assert "robustness to 0 of 15 corruptions, not to gaussian" in told.out
    told = run("overlap", "coverage", both, "--by", "imagenet-c", "--of", "imagenet-c")
    assert "15 of 15 corruptions" in told.out


def test_coverage_of_a_matrix_has_no_direct_test(run, both, tmp_path):
    assert run("overlap", "matrix", both, "--out", tmp_path / "o.csv").status == 0
    told = run(
        "overlap", "coverage", tmp_path / "o.csv", "--by", "imagenet-c", "--of", "imagenet-noc"
    )
    assert told.status == 0 and "Trained on all" not in told.out


@pytest.mark.parametrize(
    "arguments, words",
    [
        (("matrix", "none.csv"), "No such file"),
        (("matrix", "."), ""),
        (("matrix", "accuracies.csv", "--out", "x.txt"), "must end in .csv"),
        (("matrix", "accuracies.csv", "--out", "no/x.csv"), "No such folder"),
        (("matrix", "accuracies.csv", "--figure", "x.jpg"), "must end in .svg, .pdf or .png"),
        (("matrix", "accuracies.csv", "--figure", "other.png"), "was not written by eyechart"),
        (("matrix", "accuracies.csv", "--intervals", "i.csv"), "needs a study folder"),
        (("matrix", "accuracies.csv", "--min-gain", "-1"), "must be in [0, 1)"),
        (("matrix", "missing.csv"), "none for rain"),
        (("select", "accuracies.csv"), "Give --threshold, such as 0.1, or --all"),
        (("select", "accuracies.csv", "--threshold", "-1"), "at least 0, got -1"),
        (("select", "high.csv", "--threshold", "0.1"), "the lowest score is 0.4, for fog and rain"),
        (("select", "nothing.csv", "--threshold", "0.1"), "whose overlap is determined"),
        (("select", "accuracies.csv", "--all", "--out", "x.yaml"), "give --threshold"),
        (("select", "accuracies.csv", "--all", "--suite", "vcr"), "--suite needs --out"),
        (("select", "accuracies.csv", "--threshold", "1", "--out", "x.txt"), ".yaml"),
        (("select", "accuracies.csv", "--threshold", "1", "--out", "x.yaml", "--suite", "nocc"),
         "Unknown suite"),
        (("balance", "accuracies.csv", "--suite", "imagenet-c"), "12 of 15 are not"),
        (("balance", "accuracies.csv", "--baseline", "alex"), "Did you mean 'alexnet'"),
        (("balance", "high.csv"), "must begin with the columns trained_on"),
        (("coverage", "accuracies.csv", "--by", "vcr", "--of", "imagenet-c"), "of vcr must be in"),
        (("coverage", "accuracies.csv", "--by", "vcr"), "--of"),
    ],
)  # fmt: skip
def test_what_cannot_be_done_is_one_sentence(run, table, arguments, words):
    folder = table.parent
    (folder / "high.csv").write_text(",fog,rain\nfog,1,0.4\nrain,0.4,1\n")
    (folder / "nothing.csv").write_text(",fog,rain\nfog,,\nrain,,\n")
    (folder / "missing.csv").write_text(
        "trained_on,clean,fog,rain\nstandard,0.9,0.5,0.6\nfog,0.8,0.7,0.6\n"
    )
    Image.new("RGB", (4, 4)).save(folder / "other.png")
    if arguments == ("matrix", "."):
        table.unlink()
        words = "has no accuracies.csv"
    assert_rejected(run("overlap", *arguments), words)
    left = {path.name for path in folder.iterdir()}
    assert left <= {"accuracies.csv", "high.csv", "nothing.csv", "missing.csv", "other.png"}


def test_a_table_whose_relative_errors_have_no_denominator_still_has_plain_ones(run, tmp_path):
    table = small_table()
    values = table.values.copy()
    values[0, 0, 4] = values[0, 0, 0]
    write_accuracies(make_table(table.corruptions, table.models, values), tmp_path / "a.csv")
    told = run("overlap", "balance", tmp_path / "a.csv")
    assert told.status == 0 and "No relative errors on all corruptions" in told.out
    told = run(
        "overlap", "balance", tmp_path / "a.csv", "--relative", "--figure", tmp_path / "b.png"
    )
    assert_rejected(told, "omit --relative")
