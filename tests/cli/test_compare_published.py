"""Published results beside runs: ranked together on the same images, apart otherwise."""

import csv
import json
import shutil
from contextlib import redirect_stdout
from io import StringIO

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import published_scores as published
from changing import replace
from commands import assert_rejected
from eyechart.cli.app import main
from eyechart.results.published_results import FOLDER, find_published
from eyechart.results.ranking_comparison import is_comparable
from eyechart.results.runs import Leaderboard, make_leaderboards, read_run
from small_models import save_images

GOOD, POOR = "small_models:pale_colors", "small_models:four_classes"


@pytest.fixture(scope="module")
def small_run(tmp_path_factory):
    """A run of one corruption of ImageNet-C by two models, one of which is the baseline."""
    home = tmp_path_factory.mktemp("published")
    images = save_images(home / "images", each=2)
    words = (
        "evaluate", GOOD, POOR, "--images", images, "--out", home / "run", "--suite", "imagenet-c",
        "--corruption", "brightness", "--n", 20, "--bins", 5, "--min-per-bin", 2, "--n-bootstrap",
        20,
        "--stimulus", "native", "--baseline", POOR,
    )  # fmt: skip
    with pytest.raises(SystemExit) as stop, redirect_stdout(StringIO()):
        main([str(word) for word in words])
    assert stop.value.code == 0
    return home / "run"


def as_robustbench(run, out):
    """The run as if it had been on RobustBench's images: their names, and the mCE of two models."""
    shutil.copytree(run, out)
    results = json.loads((out / "results.json").read_text())
    digests = {name: "0" for name in published.robustbench_names()}
    results["images"]["digests"] = digests
    results["config"]["baseline"] = "robustbench-alexnet"
    (out / "results.json").write_text(json.dumps(results))
    scores = pq.read_table(out / "scores.parquet")
    lines = scores.to_pylist()
    for model, value in ((GOOD, 0.62), (POOR, 0.77)):
        ends = {"low95": value - 0.01, "high95": value + 0.01, "low83": value, "high83": value}
        many = [value] * len(lines[0]["replicates"])
        lines.append(
            {"model": model, "space": "native", "corruption": "", "score": "mce", "value": value}
            | ends
            | {"replicates": many}
        )
    pq.write_table(pa.Table.from_pylist(lines, scores.schema), out / "scores.parquet")
    return out


def test_published_results_on_the_same_images_are_ranked_with_runs(run, small_run, tmp_path):
    own = as_robustbench(small_run, tmp_path / "own")
    told = run("compare", own, "--published", "imagenet-c", "--out", tmp_path / "out")
    assert told.status == 0, told.err
    assert "published results on the same images (the 5,000" in told.out
    start = told.out.index("published results on the same images")
    block = told.out[start : told.out.index("robustbench-imagenet-c: RobustBench (")]
    rows = [line.split() for line in block.splitlines() if line.strip()[:1].isdigit()]
    # independent: the leaderboard's printed mCE, with those of the two models of the run
    values = {name: row[2] for name, row in published.ROBUSTBENCH.items()}
    values |= {GOOD: 62.0, POOR: 77.0}
    order = sorted(values, key=values.get)
    assert [row[1] for row in rows] == order
    assert [int(row[0]) for row in rows] == list(range(1, 11))
    assert [float(row[2]) for row in rows] == [values[name] for name in order]
    assert [row[-2:] == ["this", "run"] for row in rows] == [name in (GOOD, POOR) for name in order]
    # the papers' are of other images
    apart = told.out[told.out.index("Published, imagenet-c: Seven networks") :]
    assert apart.count("not ranked with the runs") == 6
    lines = list(csv.DictReader((tmp_path / "out" / "published.csv").read_text().splitlines()))
    ranked = {line["model"]: int(line["rank"]) for line in lines if line["rank"]}
    assert ranked == {name: place for place, name in enumerate(order, 1) if name[0].isupper()}
    assert {line["table"] for line in lines if line["rank"]} == {"robustbench-imagenet-c"}


@pytest.mark.parametrize(
    "change",
    [
        lambda results: results["images"]["digests"].popitem(),
        lambda results: results["config"].update(baseline="alexnet"),
        lambda results: results["config"].update(baseline=POOR),
    ],
)
def test_other_images_or_another_baseline_are_never_ranked_together(
    run, small_run, tmp_path, change
):
    own = as_robustbench(small_run, tmp_path / "own")
    results = json.loads((own / "results.json").read_text())
    change(results)
    (own / "results.json").write_text(json.dumps(results))
    told = run("compare", own, "--published", "imagenet-c")
    assert told.status == 0, told.err
    assert "on the same images" not in told.out
    assert told.out.count("not ranked with the runs") == 7


def test_a_model_called_as_the_table_is_no_table(small_run, tmp_path):
    own = read_run(as_robustbench(small_run, tmp_path / "own"))
    (table,) = find_published("robustbench-imagenet-c")
    (board,) = make_leaderboards([own])
    assert is_comparable(board, table)
    named = replace(own.results.models[0], name="robustbench-alexnet")
    same_name = replace(own, results=replace(own.results, models=(named,)))
    assert not is_comparable(Leaderboard((same_name,)), table)


def test_published_results_are_shown_without_any_run(run, tmp_path):
    told = run("compare", "--published", "imagenet-3dcc", "--published", "vcr", "--markdown")
    assert told.status == 0, told.err
    assert "the 5,000 ImageNet validation images used by RobustBench" in told.out
    assert "| Standard_R50           |         0.7672 | 0.5288 |  73.16 |" in told.out
    assert "baseline robustbench-alexnet-3dcc" in told.out
    assert "human area_a" in told.out and "0.838" in told.out
    told = run("compare", "--published", "imagenet-c", "--baseline", "alexnet")
    assert "76.7" in told.out and "76.38" not in told.out


def test_accuracies_in_a_file_give_mce_of_two_decimals(run, tmp_path):
    """The way for somebody who has a file of RobustBench's format."""
    for suite, column in (("imagenet_c", 2), ("imagenet_3dcc", 4)):
        path = tmp_path / f"{suite}.csv"
        path.write_text((FOLDER / f"robustbench_{suite}.csv").read_text())
        told = run("compare", "--published", path)
        assert told.status == 0, told.err
        rows = {line.split()[0]: line.split()[-1] for line in told.out.splitlines() if line.split()}
        for model, printed in published.ROBUSTBENCH.items():
            assert float(rows[model]) == printed[column] and len(rows[model].split(".")[1]) == 2
        assert "baseline robustbench-alexnet" in told.out
    told = run("compare", "--published", tmp_path / "imagenet_c.csv", "--baseline", "alexnet")
    assert told.status == 0 and "; baseline alexnet" in told.out and "76.38" not in told.out


def test_two_files_of_one_name_are_two_tables(run, tmp_path):
    text = (FOLDER / "robustbench_imagenet_c.csv").read_text()
    head, *lines = text.splitlines()
    paths = []
    for model in list(published.ROBUSTBENCH)[:2]:
        path = tmp_path / model / "acc.csv"
        path.parent.mkdir()
        path.write_text("\n".join([head, *(row for row in lines if row.startswith(f"{model},"))]))
        paths.append(path)
    told = run("compare", "--published", paths[0], "--published", paths[1])
    assert told.status == 0, told.err
    assert all(path.parent.name in told.out for path in paths)


def test_published_results_are_listed_by_name(run):
    told = run("list", "published")
    assert told.status == 0
    names = told.out.split()
    assert names[0] == "imagenet-c-paper" and "vcr-table3" in names and len(names) == 16
    assert {"vcr-coverage", "icons-50", "cifar-100-subclasses"} < set(names)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "at least one run folder, or --published"),
        (("--published", "imagenet-d"), "Did you mean 'imagenet-c'"),
        (("--published", "none.csv"), "Cannot read none.csv"),
        (("--published", "imagenet-c", "--by", "mc"), "Did you mean 'mce'"),
        (("--published", "vcr", "--baseline", "alexnet"), "relative to alexnet"),
        (("--published", "imagenet-c", "--baseline", "alexnett"), "Did you mean 'alexnet'"),
        (("RUN", "--baseline", "robustbench-alexnet"), "must be evaluated with --baseline"),
    ],
)
def test_published_results_that_are_not_there_are_rejected(run, small_run, arguments, words):
    given = [small_run if word == "RUN" else word for word in arguments]
    assert_rejected(run("compare", *given), words)
