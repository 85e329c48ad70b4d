"""`eyechart compare`: boards of finished runs, their order and tests, rankings that disagree."""

import csv
import json
import shutil
from contextlib import redirect_stdout
from io import StringIO
from itertools import combinations
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

import eyechart as ec
from commands import assert_rejected
from eyechart.cli.app import main
from eyechart.images.labels.imagenet import wordnet_ids
from eyechart.reports.latex import comparison_latex
from eyechart.reports.number_text import bracketed_text
from eyechart.reports.terminal.leaderboard import board_tables
from eyechart.reports.titles import short_names
from eyechart.results.ranking_comparison import Rankings, fixed_against_continuous, two_benchmarks
from eyechart.results.runs import make_leaderboards, read_run
from eyechart.results.standings import rank_models
from eyechart.scores.registry import SCORES
from small_models import save_images

GOOD, POOR = "small_models:pale_colors", "small_models:four_classes"
SMALL = ("--n", 60, "--bins", 9, "--min-per-bin", 3, "--n-bootstrap", 100, "--stimulus", "native")
ASKED = {
    "imagenet-c": ("gaussian_noise", "brightness"),
    "vcr": ("gaussian_noise", "brightness"),
    "imagenet-noc": ("brightness", "hue"),
}


def evaluate(folder, out, *arguments, models=(GOOD, POOR)):
    words = ("evaluate", *models, "--images", folder, "--out", out, *SMALL, *arguments)
    with pytest.raises(SystemExit) as stop, redirect_stdout(StringIO()) as printed:
        main([str(word) for word in words])
    assert stop.value.code == 0
    return printed.getvalue()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return save_images(tmp_path_factory.mktemp("images") / "photos", each=12)


@pytest.fixture(scope="module")
def runs(folder, tmp_path_factory):
    """A run of each of three suites, by two models, one of which is the baseline."""
    home = tmp_path_factory.mktemp("runs")
    for suite, names in ASKED.items():
        chosen = [word for name in names for word in ("--corruption", name)]
        evaluate(folder, home / suite, "--suite", suite, *chosen, "--baseline", POOR)
    return home


def predictions(run, corruption):
    """The recorded answers and labels of each model, read without anything of eyechart's."""
    table = pq.read_table(run / "predictions" / f"{corruption}.parquet").to_pydict()
    labels = {"blue": 0, "green": 1, "grey": 2, "red": 3}
    found = {}
    for model in (GOOD, POOR):
        own = [place for place, name in enumerate(table["model"]) if name == model]
        found[model] = np.array([table["prediction"][p] == labels[table["label"][p]] for p in own])
    return found


def test_mean_errors_are_those_of_a_plain_count(runs):
    (board,) = make_leaderboards([read_run(runs / "imagenet-c")])
    found = board.overall("native", "error")
    for model in (GOOD, POOR):
        wrong = [1 - predictions(runs / "imagenet-c", name)[model].mean() for name in ASKED["vcr"]]
        assert found[model].value == pytest.approx(np.mean(wrong))


def test_ce_against_a_model_is_the_ratio_of_plain_counts(runs):
    run = read_run(runs / "imagenet-c")
    for name in ASKED["imagenet-c"]:
        own = predictions(runs / "imagenet-c", name)
        ratio = (1 - own[GOOD].mean()) / (1 - own[POOR].mean())
        assert run.scores[GOOD, "native", name, "ce"].value == pytest.approx(ratio)
        assert run.scores[POOR, "native", name, "ce"].value == 1
        assert (run.scores[POOR, "native", name, "ce"].replicates == 1).all()
    assert run.baseline == POOR


def test_the_order_follows_the_score_and_its_direction(runs):
    (board,) = make_leaderboards([read_run(runs / "imagenet-c")])
    by_error, by_consistency = rank_models(board, by="error"), rank_models(board, by="r_p")
    assert by_error.order == [GOOD, POOR]
    values = {name: own.value for name, own in by_consistency.scores["r_p"].items()}
    assert by_consistency.order == sorted(values, key=lambda name: -values[name])


def test_a_pair_is_tested_on_the_same_resampled_images(runs):
    (board,) = make_leaderboards([read_run(runs / "imagenet-c")])
    standings = rank_models(board, by="error")
    (pair,) = standings.pairs
    one, two = (standings.scores["error"][name].replicates for name in (pair.first, pair.second))
    assert pair.interval == pytest.approx(np.percentile(one - two, [2.5, 97.5]))
    assert pair.corrected == pair.p_value  # of one test there is nothing to correct
    apart = np.percentile(two, 97.5) - np.percentile(two, 2.5)
    paired = np.percentile(one - two, 97.5) - np.percentile(one - two, 2.5)
    assert 0 < paired < 2 * apart


def test_few_images_allow_no_claim(folder, tmp_path):
    evaluate(folder, tmp_path / "few", "--corruption", "gaussian_noise", "--max-images", 20)
    (board,) = make_leaderboards([read_run(tmp_path / "few")])
    standings = rank_models(board)
    assert "insufficient data" in standings.verdict
    assert standings.worse_than(GOOD) == []


def test_runs_of_one_test_are_one_board(folder, runs, tmp_path):
    both = read_run(runs / "vcr")
    for model, name in ((GOOD, "one"), (POOR, "two")):
        chosen = [word for each in ASKED["vcr"] for word in ("--corruption", each)]
        evaluate(folder, tmp_path / name, *chosen, "--baseline", "none", models=(model,))
    (board,) = make_leaderboards([read_run(tmp_path / name) for name in ("one", "two")])
    assert board.models == (GOOD, POOR)
    for key, own in both.scores.items():
        if key[3] in ("ce", "relative_ce"):
            continue
        assert board.scores[key] == own
        assert np.array_equal(board.scores[key].replicates, own.replicates, equal_nan=True)


def test_three_rankings_of_each_shared_corruption(runs):
    boards = make_leaderboards([read_run(runs / suite) for suite in ("imagenet-c", "vcr")])
    found = fixed_against_continuous(boards)
    assert [each.subject for each in found.corruptions] == ["gaussian_noise", "brightness"]
    assert "frost" in found.missing and len(found.missing) == 7
    for each in found.corruptions:
        assert list(each.ranks) == ["ImageNet-C accuracy", "R_a", "R_p"]
        right = predictions(runs / "imagenet-c", each.subject)
        for model in (GOOD, POOR):
            own = each.scores["ImageNet-C accuracy"][model]
            assert own.value == pytest.approx(right[model].mean())
        orders = {way: sorted(own.ranks, key=own.ranks.get) for way, own in each.ranks.items()}
        differ = [pair for pair in combinations(orders, 2) if orders[pair[0]] != orders[pair[1]]]
        assert [swap[:2] for swap in each.swaps] == differ


def test_coverage_of_both_test_sets_is_counted_from_their_rows(runs):
    boards = make_leaderboards([read_run(runs / suite) for suite in ("imagenet-c", "vcr")])
    found = fixed_against_continuous(boards)
    for place, (suite, file) in enumerate((("imagenet-c", ""), ("vcr", "vcr-"))):
        table = pq.read_table(runs / suite / "predictions" / f"{file}gaussian_noise.parquet")
        rows = table.filter([name == GOOD for name in table["model"].to_pylist()])
        change = np.array([own for own in rows["delta_v"].to_pylist() if own is not None])
        bins = np.minimum((change * 39).astype(int), 38)
        covered = (np.bincount(bins, minlength=39) >= 3).mean()
        assert found.coverage["gaussian_noise"][place] == pytest.approx(covered)


def test_two_benchmarks_are_compared_by_one_metric_at_a_time(runs):
    boards = make_leaderboards([read_run(runs / suite) for suite in ("imagenet-c", "imagenet-noc")])
    found = two_benchmarks(boards)
    # of two corruptions each there is no mCE
    assert [each.subject for each in found] == ["error"]
    assert list(found[0].ranks) == ["imagenet-c", "imagenet-noc"]


def test_leaderboards_are_written_as_latex(run, runs, tmp_path):
    out = tmp_path / "table.tex"
    asked = ("compare", runs / "imagenet-c", runs / "imagenet-noc", "--latex", out)
    told = run(*asked)
    assert told.status == 0 and f"Written:\n  {out}" in told.out, told.err
    text = out.read_text()
    assert text.startswith("% Made by eyechart.") and "?" not in text
    boards, both = text.split(r"\begin{tabular}")[1:3], text.split(r"\begin{tabular}")[3]
    printed = make_leaderboards([read_run(runs / name) for name in ("imagenet-c", "imagenet-noc")])
    for board, table in zip(printed, boards, strict=True):
        standings = rank_models(board)
        rows = [line.split(" & ") for line in table.splitlines() if line.startswith("small")]
        names = short_names(standings.order)
        assert [row[0].replace("\\_", "_") for row in rows] == names
        for row, model in zip(rows, standings.order, strict=True):
            cell = bracketed_text(standings.scores[standings.by][model], SCORES[standings.by])
            assert cell.replace("–", "--") in " & ".join(row)
    # Table 3 of the paper on ImageNet-NOC: a row per model, each metric on both benchmarks
    lines = both.splitlines()
    assert lines[2:4] == [
        r" & \multicolumn{2}{c}{error} \\", r"Model & imagenet-c & imagenet-noc \\"
    ]  # fmt: skip
    (good,) = (line.split(" & ") for line in lines if "pale" in line)
    for board, cell in zip(printed, good[1:], strict=True):
        error = board.overall("native", "error")[GOOD].value
        assert cell.split()[0] == SCORES["error"].text(error)
    # part of a suite has no mCE
    suites = two_benchmarks(printed)[0].scores
    metrics = [Rankings(name, suites, {}, ()) for name in ("mce", "relative_mce")]
    head = r" & \multicolumn{2}{c}{mCE} & \multicolumn{2}{c}{relative mCE} \\"
    assert head in comparison_latex([], metrics)
    assert run(*asked).status == 0  # our own file is replaced
    out.write_text("mine")
    assert_rejected(run(*asked), "was not written by eyechart")
    published = ("compare", "--published", "imagenet-c", "--latex", tmp_path / "b.tex")
    assert_rejected(run(*published), "give at least one run folder")
    assert_rejected(run("compare", runs / "vcr", "--latex", tmp_path / "a.txt"), "end in .tex")


def test_the_command_prints_boards_and_writes_files(run, runs, tmp_path):
    found = run("compare", *(runs / suite for suite in ASKED), "--out", tmp_path / "out")
    assert found.status == 0
    for text in ("by error", "by R_a", "Fixed severities", "ImageNet-NOC", "order differently"):
        assert text in found.out
    with (tmp_path / "out" / "leaderboard.csv").open() as file:
        lines = list(csv.DictReader(file))
    assert [(line["suite"], line["model"]) for line in lines[:2]] == [
        ("imagenet-c", GOOD), ("imagenet-c", POOR),
    ]  # fmt: skip
    assert {line["baseline"] for line in lines} == {POOR}
    rankings = json.loads((tmp_path / "out" / "rankings.json").read_text())
    assert [each["what"] for each in rankings["corruptions"]] == ["gaussian_noise", "brightness"]


def test_markdown_tables_have_as_many_cells_in_every_line(run, runs):
    printed = run("compare", runs / "vcr", "--markdown").out
    lines = [line for line in printed.splitlines() if line.strip().startswith("|")]
    assert len(lines) == 4 and len({line.count("|") for line in lines}) == 1


@pytest.mark.parametrize("width", [60, 80, 120])
def test_no_number_is_cut_off_in_a_narrow_terminal(runs, width):
    from rich.console import Console

    (board,) = make_leaderboards([read_run(runs / "imagenet-c")])
    standings = rank_models(board)
    printed = StringIO()
    console = Console(file=printed, width=width)
    for table in board_tables(standings, width):
        console.print(table)
    assert "…" not in printed.getvalue()
    assert max(map(len, printed.getvalue().splitlines())) <= width
    for name in ("clean_accuracy", "error", "r_p"):
        if name in standings.scores:
            assert bracketed_text(standings.scores[name][GOOD], SCORES[name]) in printed.getvalue()


def test_several_models_are_ranked_at_the_end_of_their_run(folder, tmp_path):
    printed = evaluate(folder, tmp_path / "out", "--corruption", "gaussian_noise")
    assert "by R_a" in printed and "rank 95 %" in printed


def test_mixed_baselines_are_rejected(run, folder, runs, tmp_path):
    chosen = [word for name in ASKED["imagenet-c"] for word in ("--corruption", name)]
    evaluate(
        folder, tmp_path / "good", "--suite", "imagenet-c", *chosen, "--baseline", GOOD,
        models=("small_models:colors", GOOD),
    )  # fmt: skip
    rejected = run("compare", runs / "imagenet-c", tmp_path / "good")
    assert_rejected(rejected, "different baselines")
    assert GOOD in rejected.err and POOR in rejected.err


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda home, runs: home / "nothing", "no finished run"),
        (lambda home, runs: _spoilt(home, runs, "results.json", "{"), "cannot be read"),
        (lambda home, runs: _spoilt(home, runs, "results.json", "[]"), "not written by"),
        (lambda home, runs: runs / "vcr" / "results.json", "Give the folder of a run"),
        (lambda home, runs: _spoilt(home, runs, "results.json", '{"schema": 1}'), "is damaged"),
        (
            lambda home, runs: _spoilt(home, runs, "results.json", '{"schema": 2}'),
            "another version",
        ),
        (lambda home, runs: _spoilt(home, runs, "scores.parquet", "no table"), "Cannot read"),
    ],
)
def test_what_is_no_finished_run_is_rejected(run, runs, tmp_path, make, says):
    assert_rejected(run("compare", make(tmp_path, runs)), says)


def _spoilt(home: Path, runs: Path, name: str, text: str) -> Path:
    shutil.copytree(runs / "vcr", home / "spoilt")
    (home / "spoilt" / name).write_text(text)
    return home / "spoilt"


def test_runs_of_different_tests_are_rejected(run, folder, runs, tmp_path):
    chosen = [word for name in ASKED["vcr"] for word in ("--corruption", name)]
    other = ("--seed", 1, "--baseline", "none")
    evaluate(folder, tmp_path / "out", *chosen, *other, models=("small_models:colors",))
    rejected = run("compare", runs / "vcr", tmp_path / "out")
    assert_rejected(rejected, "different baselines")


def test_a_run_given_twice_counts_once(run, runs):
    once, twice = run("compare", runs / "vcr"), run("compare", runs / "vcr", runs / "vcr")
    assert twice.status == 0 and twice.out == once.out


def test_models_evaluated_one_by_one_against_the_same_baseline_are_one_board(folder, tmp_path):
    for model, name in ((GOOD, "one"), ("small_models:colors", "two")):
        chosen = ("--corruption", "gaussian_noise", "--baseline", POOR)
        evaluate(folder, tmp_path / name, *chosen, models=(model,))
    (board,) = make_leaderboards([read_run(tmp_path / name) for name in ("one", "two")])
    assert board.models == (GOOD, POOR, "small_models:colors")
    assert rank_models(board, by="error").order[-1] == POOR


def test_two_models_of_one_name_are_rejected(run, runs, tmp_path):
    shutil.copytree(runs / "vcr", tmp_path / "other")
    found = json.loads((tmp_path / "other" / "results.json").read_text())
    found["config"]["models"][GOOD] = "0123 torch.float32"
    (tmp_path / "other" / "results.json").write_text(json.dumps(found))
    assert_rejected(run("compare", runs / "vcr", tmp_path / "other"), "Two models are named")


def test_an_unknown_score_is_rejected_with_a_suggestion(run, runs):
    assert_rejected(run("compare", runs / "vcr", "--by", "r_aa"), "Did you mean")
    assert_rejected(run("compare", runs / "vcr", "--labels", "entry16"), "label space")


def test_a_score_that_a_board_lacks_is_replaced_by_its_usual_one(run, runs):
    found = run("compare", runs / "vcr", runs / "imagenet-c", "--by", "hmri_a")
    assert found.status == 0
    assert found.out.count("have no hmri_a") == 2 and "by R_a" in found.out


def test_models_that_no_two_runs_share_get_boards_and_a_note(run, folder, runs, tmp_path):
    chosen = ("--corruption", "gaussian_noise")
    evaluate(folder, tmp_path / "out", *chosen, models=("small_models:colors",))
    found = run("compare", runs / "imagenet-c", tmp_path / "out")
    assert found.status == 0
    assert "small_models:colors" in found.out and "fewer than two models in common" in found.out


def test_runs_of_different_images_are_compared_with_a_note(run, folder, runs, tmp_path):
    chosen = [word for name in ASKED["vcr"] for word in ("--corruption", name)]
    evaluate(folder, tmp_path / "out", *chosen, "--max-images", 40)
    found = run("compare", runs / "imagenet-c", tmp_path / "out")
    assert found.status == 0
    assert "48 images and vcr on 40, 40 of them shared" in found.out


def test_extras_are_no_part_of_the_means_of_imagenet_c(folder, tmp_path):
    names = [*ec.list_corruptions("imagenet-c"), "saturate"]
    chosen = [word for name in names for word in ("--corruption", name)]
    evaluate(folder, tmp_path / "out", "--suite", "imagenet-c", *chosen, "--max-images", 8)
    run = read_run(tmp_path / "out")
    (board,) = make_leaderboards([run])
    wrong = [run.scores[GOOD, "native", name, "error"].value for name in names[:-1]]
    assert board.overall("native", "error")[GOOD].value == pytest.approx(np.mean(wrong))
    assert (GOOD, "native", "saturate", "error") in run.scores


def test_scores_compared_with_humans_are_judged_in_their_own_label_space(tmp_path):
    """48 pictures of ImageNet's classes, of which 8 are of the 16 categories."""
    home = save_images(tmp_path / "photos", each=12)
    for tint, place in (("blue", 0), ("green", 1), ("grey", 2), ("red", 281)):
        (home / tint).rename(home / wordnet_ids()[place])
    for path in list((home / wordnet_ids()[281]).iterdir())[8:]:
        path.unlink()
    models = ("small_models:thousand", "small_models:Blocks()")
    # untrained models are not above chance
    options = ("--corruption", "gaussian_noise", "--accept-labels")
    evaluate(home, tmp_path / "out", *options, models=models)
    (board,) = make_leaderboards([read_run(tmp_path / "out")])
    assert (board.n_images("native"), board.n_images("entry16")) == (44, 8)
    assert rank_models(board, by="r_a").space == "native"
    compared_with_humans = rank_models(board, by="hmri_a")
    assert compared_with_humans.by == "hmri_a" and compared_with_humans.space == "entry16"
    assert "insufficient data" in compared_with_humans.verdict


def test_unlabeled_images_without_curves_are_written_and_compared_with_a_note(run, tmp_path):
    home = save_images(tmp_path / "photos", each=3, tints=("blue",))
    found = run(
        "evaluate", GOOD, POOR, "--images", home / "blue", "--out", tmp_path / "out", "--suite",
        "imagenet-noc", "--corruption", "shear", *SMALL,
    )  # fmt: skip
    assert found.status == 0, found.err
    assert "cannot be ranked" in found.out and "Written:" in found.out


def test_kappa_of_two_models_is_cohens(folder, tmp_path):
    found = ec.evaluate(
        [GOOD, POOR], folder, suite="imagenet-c", corruptions=["brightness"], stimulus="native",
        n_bootstrap=50, bins=9, min_per_bin=3, out=tmp_path / "out", humans=None,
    )  # fmt: skip
    (own,) = found.agreements
    right = predictions(tmp_path / "out", "brightness")
    one, two = right[GOOD].astype(float), right[POOR].astype(float)
    # rows come picture by picture, each at severities 1 to 5
    kappas = []
    for level in range(5):
        first, second = one[level::5], two[level::5]
        chance = first.mean() * second.mean() + (1 - first.mean()) * (1 - second.mean())
        if chance < 1:
            kappas.append(((first == second).mean() - chance) / (1 - chance))
    assert own.kappa.value == pytest.approx(np.mean(kappas))
    assert own.trials == len(one)
    low, high = own.kappa.interval95
    assert low <= own.kappa.value <= high


def test_names_of_files_are_shown_without_folder_and_ending_and_others_as_they_are():
    given = ["nets/one.tflite", "tflite:nets/two.tflite", "cards/three.yaml"]
    assert short_names(given) == ["one", "two", "three"]
    zoo = ["timm:resnet50.a1_in1k", "torchvision:resnet50/IMAGENET1K_V1", "small_models:colors"]
    assert short_names(zoo) == zoo
    same = ["a/net.onnx", "b/net.onnx"]
    assert short_names(same) == same
