"""Loggers store every score under a stable name; what they stored is read back by their readers."""

import csv
import json
import re
import shutil
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from PIL import Image

import eyechart as ec
from commands import assert_rejected
from eyechart.cli.app import main
from eyechart.integrations.loggers.log_results import log_record, metrics_of, settings_of
from eyechart.integrations.loggers.registry import LOGGERS, Logger, check_loggers
from nonempty import at_least_one

MODULE = """
def red_or_blue(images):
    return 9 * images.mean(dim=(2, 3))[:, [0, 2]]

def mostly_red(images):
    return 9 * images.mean(dim=(2, 3))[:, [0, 2]] + images.new_tensor([1.5, 0])
"""
CORRUPTIONS = ("gaussian_noise", "brightness")
SMALL = (
    *("--n", 40, "--bins", 4, "--min-per-bin", 2, "--n-bootstrap", 20, "--stimulus", "native"),
    *("--humans", "none", "--max-images", 8),
    *(word for name in CORRUPTIONS for word in ("--corruption", name)),
)
WITH_LETTER = {"r", "dv50", "hmri", "mrsi"}
"""Columns of results.csv that accuracy and consistency share."""


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A folder with red and blue images, two models and their finished evaluation."""
    folder = tmp_path_factory.mktemp("paints")
    for channel, name in ((2, "blue"), (0, "red")):
        (folder / "images" / name).mkdir(parents=True)
        for index in range(4):
            levels = np.random.default_rng([channel, index]).integers(0, 120, (48, 48, 3))
            levels[..., channel] += 100
            image = Image.fromarray(levels.astype(np.uint8))
            image.save(folder / "images" / name / f"{index}.png")
    (folder / "paints.py").write_text(MODULE)
    (folder / "map.txt").write_text("red\nblue\n")
    with pytest.MonkeyPatch.context() as patch, pytest.raises(SystemExit) as stop:
        patch.syspath_prepend(folder)
        main(arguments(folder, folder / "run"))
    assert stop.value.code == 0
    return folder


def arguments(home: Path, out: Path) -> list[str]:
    """The arguments that evaluate both models."""
    models = ("paints:red_or_blue", "paints:mostly_red")
    words = ("evaluate", *models, "--images", home / "images", *SMALL)
    return [str(word) for word in (*words, "--label-map", home / "map.txt", "--out", out)]


@pytest.fixture
def command(home, tmp_path, monkeypatch):
    """The arguments that evaluate both models into ./run, which is there and only scored again."""
    shutil.copytree(home / "run", tmp_path / "run")
    monkeypatch.syspath_prepend(home)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    for name in ("MLFLOW_TRACKING_URI", "MLFLOW_EXPERIMENT_NAME", "WANDB_MODE", "WANDB_PROJECT"):
        monkeypatch.delenv(name, raising=False)
    return arguments(home, Path("run"))


@pytest.fixture
def results(command):
    """The results of that evaluation, in ./run."""
    return ec.load("run")


def expected(folder: Path) -> dict[str, float]:
    """Every score in results.csv, and every mean in results.json, by the name of its metric."""
    numbers: dict[str, float] = {}
    with (folder / "results.csv").open() as file:
        for row in csv.DictReader(file):
            columns = [name.removesuffix("_low95") for name in row if name.endswith("_low95")]
            for column in columns:
                score = column
                if column in WITH_LETTER:
                    score += f"_{row['property'][0].replace('c', 'p')}"
                name = "/".join(
                    (row["model"].replace(":", "_"), row["corruption"].split("/")[1], score)
                )
                for suffix, source in (("", ""), ("_low", "_low95"), ("_high", "_high95")):
                    if row[column + source]:
                        numbers[name + suffix] = float(row[column + source])
    for model in json.loads((folder / "results.json").read_text())["models"]:
        space = model["spaces"]["native"]
        means = {"clean_accuracy": space["clean_accuracy"], **space["means"]}
        for score, estimate in at_least_one(means.items()):
            name = f"{model['name'].replace(':', '_')}/{score}"
            ends = (estimate["value"], *estimate["interval95"])
            for suffix, number in zip(("", "_low", "_high"), ends, strict=True):
                if number is not None:
                    numbers[name + suffix] = number
    return numbers


def approximately(numbers, tolerance=1e-6):
    """Equal up to the six decimals of results.csv."""
    return pytest.approx(numbers, abs=tolerance)


def test_every_score_of_results_has_a_metric(results):
    metrics = metrics_of(results)
    assert metrics == approximately(expected(Path("run")))
    assert {"paints_red_or_blue/gaussian_noise/r_a", "paints_mostly_red/r_p_high"} <= set(metrics)


def test_a_metric_is_the_score_that_python_returns(results):
    score = results["paints:red_or_blue"]["gaussian_noise"].r_a
    metrics = metrics_of(results)
    name = "paints_red_or_blue/gaussian_noise/r_a"
    assert metrics[name] == float(score)
    assert (metrics[f"{name}_low"], metrics[f"{name}_high"]) == score.interval(0.95)


def test_names_say_the_label_space_if_it_is_not_that_of_the_dataset(results):
    model = results.models[0]
    both = model.model_copy(update={"spaces": {**model.spaces, "entry16": model.primary}})
    metrics = metrics_of(results.model_copy(update={"models": (both,)}))
    native = {name for name in metrics if "/entry16/" not in name}
    assert {name.replace("/", "/entry16/", 1) for name in native} == set(metrics) - native


def test_models_of_similar_names_have_distinct_metrics(results):
    names = ("a:b", "a/b")
    models = tuple(
        model.model_copy(update={"name": name})
        for model, name in zip(results.models, names, strict=True)
    )
    metrics = metrics_of(results.model_copy(update={"models": models}))
    assert {name.split("/")[0] for name in metrics} == {"a_b", "a_b_2"}
    assert len(metrics) == len(metrics_of(results))


def test_settings_are_flat_and_complete(results):
    settings = settings_of(results)
    stored = json.loads(Path("run/results.json").read_text())
    assert settings["seed"] == stored["config"]["seed"]
    assert settings["fit.bins"] == stored["config"]["fit"]["bins"] == 4
    assert settings["images.digest"] == stored["images"]["digest"]
    assert settings["command"] == stored["run"]["command"]
    assert settings["versions.torch"] == stored["run"]["versions"]["torch"]
    assert settings["corruptions"] == "vcr/gaussian_noise, vcr/brightness"
    assert {name.split(".")[0] for name in settings} >= {
        key for key, value in stored["config"].items() if value not in (None, "", [], {})
    }


def test_the_record_has_the_figure_results_and_an_existing_report(results, tmp_path):
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    second.mkdir()
    record = log_record(results, first)
    assert [path.name for path in record.files] == ["results.json"]
    assert json.loads(record.files[0].read_text()) == json.loads(
        Path("run/results.json").read_text()
    )
    assert [path.name for path in record.figures] == ["curves.png"]
    results.report("run/report.html")
    names = [path.name for path in log_record(results, second).files]
    assert names == ["results.json", "report.html"]


@pytest.mark.parametrize("words", [("evaluate",), ("report", "run")])
@pytest.mark.parametrize("name", LOGGERS)
def test_a_missing_package_stops_before_any_work(run, tmp_path, monkeypatch, words, name):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, LOGGERS[name].packages[0], None)
    result = run(*words, "--log", name)
    install = f'pip install -e ".[{name}]"'
    assert_rejected(result, f"Logging to {name} needs {name}", install)
    assert not list(tmp_path.iterdir())


def test_an_unknown_logger_stops_before_any_work(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert_rejected(run("evaluate", "--log", "mflow"), "Unknown logger 'mflow'", "'mlflow'")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--hide", "paths"), "nothing is hidden"),
        (("--serve",), "omit it with --serve"),
    ],
)
def test_report_rejects_what_does_not_go_with_log(run, words, sentence):
    assert_rejected(run("report", ".", "--log", "mlflow", *words), sentence)


@pytest.fixture
def example_logger(monkeypatch):
    """A logger declared as the others are, which writes a JSON file, or fails if it exists."""

    def log(record):
        with Path("logged.json").open("x") as file:
            json.dump([record.name, record.metrics, [path.name for path in record.files]], file)
        return "Logged to logged.json."

    module = ModuleType("eyechart.integrations.loggers.json_logger")
    module.log = log
    monkeypatch.setitem(sys.modules, module.__name__, module)
    logger = Logger(name="json", title="JSON", home="json_logger", extra="json", packages=("json",))
    monkeypatch.setitem(LOGGERS._items, "json", logger)


def test_a_logger_needs_one_declaration_and_a_function(example_logger, command, run):
    result = run(*command, "--log", "json")
    assert result.status == 0 and result.out.endswith("Logged to logged.json.\n")
    name, metrics, files = json.loads(Path("logged.json").read_text())
    assert (name, files) == ("run", ["results.json"])
    assert metrics == approximately(expected(Path("run")))


def test_after_a_failure_results_stay_and_the_next_command_is_said(example_logger, command, run):
    Path("logged.json").write_text("")
    result = run(*command, "--log", "json")
    assert result.status == 1
    assert "Logging to json failed" in result.err and "Traceback" not in result.err
    assert ec.load("run").models
    later = re.search(r"log them with  eyechart (.+)\.$", result.err.strip())[1]
    again = run(*later.split())
    assert again.status == 1 and "Logging to json failed" in again.err
    Path("logged.json").unlink()
    assert run(*later.split()).status == 0
    assert json.loads(Path("logged.json").read_text())[2] == ["results.json", "report.html"]


def test_a_failure_in_python_is_one_sentence(example_logger, results):
    Path("logged.json").write_text("")
    with pytest.raises(ec.UsageError, match="results are in run; log them with") as error:
        results.log("json")
    assert "\n" not in str(error.value)
    with pytest.raises(ec.UsageError, match="Unknown logger"):
        results.log("json", "jsn")


def test_names_are_checked_without_importing_a_package():
    with pytest.raises(ec.UsageError, match="Unknown logger"):
        check_loggers(["tensor"])


# What follows needs the packages, see tests/support/adapters_check.sh.


@pytest.fixture
def mlflow():
    return pytest.importorskip("mlflow", reason="mlflow is not installed")


def test_mlflow_stores_scores_settings_and_files(mlflow, command, run):
    result = run(*command, "--log", "mlflow")
    assert result.status == 0, result.err
    client = mlflow.MlflowClient(f"sqlite:///{Path.cwd() / 'mlflow.db'}")
    (experiment,) = (own for own in client.search_experiments() if own.name == "eyechart")
    (stored,) = client.search_runs([experiment.experiment_id])
    assert stored.info.run_id in result.out
    assert (stored.info.run_name, stored.info.status) == ("run", "FINISHED")
    assert stored.data.metrics == approximately(expected(Path("run")))
    settings = {name: str(value) for name, value in settings_of(ec.load("run")).items()}
    assert stored.data.params == settings
    names = {item.path for item in client.list_artifacts(stored.info.run_id)}
    assert names == {"results.json", "curves.png"}
    copy = client.download_artifacts(stored.info.run_id, "results.json")
    assert json.loads(Path(copy).read_text()) == json.loads(Path("run/results.json").read_text())


def test_mlflow_run_that_is_active_gets_a_child(mlflow, results, tmp_path):
    mlflow.set_tracking_uri(f"sqlite:///{tmp_path / 'other.db'}")
    try:
        with mlflow.start_run() as parent:
            mlflow.log_param("seed", "the training's")
            results.log("mlflow")
        client = mlflow.MlflowClient()
        (child,) = client.search_runs(
            [parent.info.experiment_id], f"tags.mlflow.parentRunId = '{parent.info.run_id}'"
        )
        assert child.data.metrics == approximately(expected(Path("run")))
        assert client.get_run(parent.info.run_id).data.params == {"seed": "the training's"}
    finally:
        mlflow.set_tracking_uri(None)


def test_mlflow_that_fails_leaves_results_and_says_how_to_log_later(
    mlflow, command, run, monkeypatch
):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "nowhere://")
    result = run(*command, "--log", "mlflow")
    assert result.status == 1 and "Logging to mlflow failed" in result.err
    assert result.err.strip().endswith("log them with  eyechart report run --log mlflow.")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{Path.cwd() / 'later.db'}")
    assert run("report", "run", "--log", "mlflow").status == 0
    client = mlflow.MlflowClient()
    experiment = client.get_experiment_by_name("eyechart")
    (stored,) = client.search_runs([experiment.experiment_id])
    names = {item.path for item in client.list_artifacts(stored.info.run_id)}
    assert names == {"results.json", "report.html", "curves.png"}


def test_tensorboard_stores_scores_figure_and_settings(command, run):
    pytest.importorskip("tensorboard", reason="tensorboard is not installed")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    result = run(*command, "--log", "tensorboard")
    assert result.status == 0, result.err
    assert "tensorboard --logdir run/tensorboard" in result.out
    events = EventAccumulator("run/tensorboard")
    events.Reload()
    tags = events.Tags()
    scalars = {name: events.Scalars(name)[-1].value for name in tags["scalars"]}
    # event files contain 32-bit numbers
    assert scalars == approximately(expected(Path("run")), 2e-6)
    (image,) = events.Images("curves")
    with Image.open("run/curves.png") as figure:
        assert (image.width, image.height) == figure.size
    (text,) = events.Tensors("settings/text_summary")
    assert "| fit.bins | 4 |" in text.tensor_proto.string_val[0].decode()


def test_tensorboard_of_results_without_a_folder_is_in_runs(results):
    pytest.importorskip("tensorboard", reason="tensorboard is not installed")
    loose = ec.load("run").kept_in(None)
    (sentence,) = loose.log("tensorboard")
    (folder,) = Path("runs").iterdir()
    assert str(folder) in sentence and list(folder.glob("events.*"))


def test_wandb_stores_scores_settings_and_files_offline(command, run):
    pytest.importorskip("wandb", reason="wandb is not installed")
    from wandb_files import read_offline_run

    result = run(*command, "--log", "wandb")
    assert result.status == 0, result.err
    (folder,) = Path("wandb").glob("offline-run-*")
    assert f"wandb sync {folder.resolve()}" in result.out or f"wandb sync {folder}" in result.out
    stored = read_offline_run(folder)
    assert (stored.name, stored.project, stored.exit_code) == ("run", "eyechart", 0)
    scores = {name: value for name, value in stored.history.items() if "/" in name}
    assert scores == approximately(expected(Path("run")))
    assert stored.history["curves"]["_type"] == "image-file"
    assert (folder / "files" / stored.history["curves"]["path"]).is_file()
    settings = settings_of(ec.load("run"))
    assert {name: stored.config[name] for name in settings} == settings
    assert "eyechart/results.json" in stored.files
    copy = folder / "files" / "eyechart" / "results.json"
    assert not copy.is_symlink()
    assert json.loads(copy.read_text()) == json.loads(Path("run/results.json").read_text())


def test_wandb_run_that_is_active_is_used(results):
    wandb = pytest.importorskip("wandb", reason="wandb is not installed")
    from wandb_files import read_offline_run

    quiet = wandb.Settings(silent=True, console="off")
    with wandb.init(
        project="training", config={"seed": 7}, mode="offline", dir=Path.cwd(), settings=quiet
    ):
        results.log("wandb")
        assert wandb.run is not None
    (folder,) = Path("wandb").glob("offline-run-*")
    stored = read_offline_run(folder)
    assert (stored.project, stored.config["seed"]) == ("training", 7)
    assert stored.config["eyechart"]["fit.bins"] == 4
    assert "paints_red_or_blue/gaussian_noise/r_a" in stored.history
