"""Options and keywords are derived from one record: what can be said on one side can on both."""

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import pytest
import typer

import eyechart as ec
from commands import assert_rejected
from eyechart.cli.app import app, main
from eyechart.cli.shared.derived_options import Only, Typed, derived_options, read_typed
from eyechart.cli.shared.help import CommandLine
from eyechart.core.options import GROUPS, Option, fields_of, signature_of
from eyechart.humans.human_settings import ImportSettings
from eyechart.humans.importing import import_responses
from eyechart.pipeline import settings as declared
from eyechart.pipeline.settings import EvaluateSettings
from eyechart.scores.scoring import Fit
from eyechart.stats.curve_settings import BINS, N_BOOTSTRAP
from eyechart.testsets.plan import Plan
from eyechart.testsets.testset_settings import MIN_PER_BIN, N_SAMPLES, SampleSettings

DIFFERENT = {"out"}
"""The command writes into a folder where none is named; a function does not."""


@pytest.fixture(scope="module")
def options():
    """The options of the command, by the name of the setting."""
    command = typer.main.get_command(app).commands["evaluate"]
    return {option.name: option for option in command.params}


def typed_defaults(options) -> EvaluateSettings:
    """Return the settings of the command without any word."""
    fields = fields_of(EvaluateSettings)
    return EvaluateSettings(
        **read_typed(fields, {name: options[name].default for name in fields if name in options})
    )


def test_options_and_keywords_are_the_fields_of_the_settings(options):
    keywords = inspect.signature(ec.evaluate).parameters
    assert set(keywords) == set(fields_of(EvaluateSettings))
    # in Python, results.log()
    assert set(options) == {*keywords, "log"}
    assert len(keywords) > 35


@pytest.mark.parametrize(
    ("group", "command", "function", "record"),
    [
        ("testset", "make", ec.sample_testset, SampleSettings),
        ("humans", "import", import_responses, ImportSettings),
    ],
    ids=["draw", "import_responses"],
)
def test_other_functions_have_the_options_of_their_commands(group, command, function, record):
    found = typer.main.get_command(app).commands[group].commands[command]
    keywords = inspect.signature(function).parameters
    # in Python there is nothing to write
    assert {option.name for option in found.params} == {*keywords, "out"}
    assert list(keywords) == list(signature_of(record).parameters)


def test_options_and_keywords_have_equal_defaults(options):
    by_keyword = {
        name: own.default for name, own in inspect.signature(ec.evaluate).parameters.items()
    }
    by_option = vars(typed_defaults(options))
    for name, default in by_keyword.items():
        assert default == getattr(EvaluateSettings(), name)
        assert (by_option[name] == default) is (name not in DIFFERENT), name


def test_every_option_has_a_group_and_a_sentence(options):
    for name, field in fields_of(EvaluateSettings).items():
        assert field.option.group in GROUPS
        assert options[name].help.startswith(field.option.help) and field.option.help.endswith(".")


def test_the_documentation_of_the_function_has_every_help_text():
    text = " ".join(inspect.getdoc(ec.evaluate).split())
    for name, field in fields_of(EvaluateSettings).items():
        assert f"{name}: {field.option.help}" in text


def test_the_function_is_called_with_few_positional_arguments():
    parameters = inspect.signature(ec.evaluate).parameters.values()
    positional = [own.name for own in parameters if own.kind is own.POSITIONAL_OR_KEYWORD]
    assert positional == ["model", "images", "suite", "n"]


def test_an_unknown_keyword_is_one_sentence():
    with pytest.raises(ec.UsageError, match=r"Unknown argument 'n_bootstraps'.*'n_bootstrap'"):
        ec.evaluate("m", "images", n_bootstraps=3)


def test_defaults_are_said_where_they_are_declared():
    settings = EvaluateSettings(images="images")
    assert settings.plan == Plan(sampling="pilot") and settings.fit == Fit()
    assert (Plan().n, Fit().n_bins, Fit().min_per_bin) == (N_SAMPLES, BINS, 0)
    assert Fit(estimator="spline").min_per_bin == MIN_PER_BIN
    assert Fit().n_bootstrap == N_BOOTSTRAP
    fields = fields_of(EvaluateSettings)
    for name, number in (
        ("bins", f"{BINS}"),
        ("min_per_bin", f"{MIN_PER_BIN}"),
    ):
        assert number in fields[name].option.help


def test_the_demo_images_have_a_smaller_default():
    assert EvaluateSettings().plan.n == declared.DEMO_SAMPLES == 150
    asked = EvaluateSettings(n=70, bins=4, min_per_bin=2)
    assert (asked.plan.n, asked.fit.bins, asked.fit.min_per_bin) == (70, 4, 2)
    # a test set has its own number of samples
    assert EvaluateSettings(testset="set.parquet").plan.n == N_SAMPLES


def test_settings_of_a_plan_are_those_of_the_plan():
    plan = Plan("imagenet-c", 60, labels="entry16", seed=3, jpeg=85)
    assert EvaluateSettings(images="images").with_plan(plan).plan == plan


@pytest.mark.parametrize(
    ("keyword", "option", "words"),
    [
        ({"fail_under": ["r_a"]}, ("--fail-under", "r_a"), "NAME=NUMBER"),
        ({"fail_under": {"hmri": 0.5}}, ("--fail-under", "hmri=0.5"), "Unknown score 'hmri'"),
        ({"fail_under": {"r_a": 2}}, ("--fail-under", "r_a=2"), "r_a must be in [0, 1], got 2."),
        ({"fail_under": {"ece": -1}}, ("--fail-under", "ece=-1"), "ece must be in [0, 1], got -1."),
        (
            {"fail_under": ["r_a>=0.5"]},
            ("--fail-under", "r_a>=0.5"),
            "must be NAME=NUMBER, got 'r_a>=0.5': give r_a=0.5, which is a minimum (for errors, a"
            " maximum).",
        ),
        (
            {"humans": ["geirhos", "none"]},
            ("--humans", "geirhos", "--humans", "none"),
            "cannot be combined",
        ),
        ({"defenses": ["clahee"]}, ("--defense", "clahee"), "clahe"),
        ({"label_maps": ["no.txt"]}, ("--label-map", "no.txt"), "the file no.txt does not exist"),
        ({"rule": "least"}, ("--rule", "least"), "Unknown rule"),
        ({"batch_size": 0}, ("--batch-size", 0), "batch_size must be at least 1"),
    ],
    ids=str,
)
def test_both_sides_reject_the_same_with_the_same_sentence(run, tmp_path, keyword, option, words):
    found = run("evaluate", "module:none", "--images", tmp_path, "--out", tmp_path / "out", *option)
    assert_rejected(found, words)
    with pytest.raises(ec.UsageError) as error:
        ec.evaluate("module:none", tmp_path, out=tmp_path / "out", **keyword)
    assert str(error.value) in found.err


@dataclass(frozen=True, kw_only=True)
class CopySettings:
    """What options can be besides those of evaluate."""

    to: Annotated[Path, Option(help="Where to.", group="Output", metavar="FOLDER", path="folder")]
    sources: Annotated[
        tuple[Path, ...],
        Option(
            help="What.",
            group="Output",
            metavar="FILE...",
            path="folder or file",
            is_argument=True,
        ),
    ]
    name: Annotated[str, Option(help="Its name.", group="Data", is_argument=True)]
    times: Annotated[int, Option(help="How often.", group="Data", minimum=1, maximum=9)] = 2


def copy(capsys, *words: str) -> tuple[list[CopySettings], str]:
    """Return what a command with these options was called with, and what it printed."""
    calls: list[CopySettings] = []

    def command(settings: CopySettings) -> None:
        """Copy files."""
        calls.append(settings)

    command_line = CommandLine()
    command_line.command()(derived_options(command))
    with pytest.raises(SystemExit):
        main(words, command_line)
    return calls, capsys.readouterr().err


def test_arguments_keep_their_order_and_paths_may_be_several(capsys):
    calls, _ = copy(capsys, "a.png", "b.png", "both", "--to", "there")
    sources = (Path("a.png"), Path("b.png"))
    assert calls == [CopySettings(sources=sources, name="both", to=Path("there"), times=2)]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("a.png", "one"), "Missing option '--to'"),
        (("--to", "there"), "Missing argument"),
        (("a.png", "one", "--to", "there", "--times", "0"), "Invalid value for '--times'"),
        (("a.png", "one", "--to", "there", "--times", "10"), "Invalid value for '--times'"),
        (("a.png", "one", "--to", " "), "not an empty string"),
        (("", "one", "--to", "there"), "not an empty string"),
    ],
    ids=str,
)
def test_what_must_be_given_and_limits_are_of_the_record(capsys, words, sentence):
    calls, error = copy(capsys, *words)
    assert sentence in error and not calls
    assert signature_of(CopySettings).parameters["to"].default is inspect.Parameter.empty


@dataclass(frozen=True, kw_only=True)
class PaintSettings:
    """Settings of which a command may want some, or other defaults."""

    color: Annotated[str, Option(help="Which.", group="Output")] = "red"
    layers: Annotated[int, Option(help="How many.", group="Compute")] = 1
    brushes: Annotated[
        tuple[str, ...],
        Option(help="Which.", group="Data", flags=("--brush",), cli_type=list[str]),
    ] = ("flat", "round")
    is_dry: bool = False


def paint(capsys, annotation: object, *words: str) -> tuple[object, str]:
    """Return what a command with an argument of this kind was called with, and its help."""
    calls: list[object] = []

    def command(paint: annotation, copy: CopySettings) -> None:
        """Paint."""
        calls.append(paint)

    command_line = CommandLine()
    command_line.command()(derived_options(command))
    copied = ("a.png", "one", "--to", "there")
    for line in ((*copied, *words), ("--help",)):
        with pytest.raises(SystemExit):
            main(line, command_line)
    return calls[0], capsys.readouterr().out


def test_a_command_may_have_other_defaults_also_of_what_is_no_option(capsys):
    usual = PaintSettings(color="blue", layers=3, is_dry=True)
    some = Annotated[PaintSettings, Only("layers", "color", usual=usual)]
    painted, text = paint(capsys, some, "--layers", "2")
    assert painted == PaintSettings(color="blue", layers=2, is_dry=True)
    assert "[default: blue]" in text and "--brush" not in text
    with pytest.raises(ValueError, match="colour"):
        Only("colour").fields(PaintSettings)


def test_a_mapping_has_what_was_typed_alone(capsys):
    typed = Annotated[Mapping[str, object], Typed(fields_of(PaintSettings).values())]
    assert paint(capsys, typed)[0] == {}
    # also where it is the default
    painted, text = paint(capsys, typed, "--color", "red", "--brush", "fan")
    assert painted == {"color": "red", "brushes": ("fan",)}
    assert "[default: red]" in text and "[default: flat, round]" in text


def test_groups_have_their_order_whichever_records_they_are_of(capsys):
    _, text = paint(capsys, PaintSettings)
    order = [text.index(f"\n{group}\n") for group in ("Data", "Compute", "Output")]
    assert order == sorted(order)
    assert text.index("--times") > text.index("--brush")


@dataclass(frozen=True, kw_only=True)
class ManySettings:
    """More options than help shows at once."""

    depth: Annotated[int, Option(help="How deep.", group="Data")] = 1
    phase: Annotated[float, Option(help="Which.", group="Data", is_advanced=True)] = 0.5


@pytest.mark.parametrize(("most", "is_shown"), [(1, False), (2, True)])
def test_advanced_options_are_hidden_among_many(run, monkeypatch, capsys, most, is_shown):
    def command(many: ManySettings) -> None:
        """Do."""

    monkeypatch.setattr("eyechart.cli.shared.help.MANY_OPTIONS", most)
    command_line = CommandLine(add_completion=False)
    command_line.command()(derived_options(command))
    with pytest.raises(SystemExit):
        main(["--help"], command_line)
    text = capsys.readouterr().out
    assert "--depth INT" in text and ("--phase FLOAT" in text) is is_shown
    assert ("1 more option: eyechart --help-all" in text) is not is_shown
