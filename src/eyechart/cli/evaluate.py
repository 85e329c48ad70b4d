"""`eyechart evaluate`: how robust models are, next to people, as a table and as files."""

import shlex
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from eyechart.cli.fit_options import (
    Binning,
    Bins,
    Density,
    Least,
    Method,
    Replicates,
    RightAnchor,
    parse_right_anchor,
)
from eyechart.cli.human_options import CleanResponses
from eyechart.cli.model_options import Download, Trust
from eyechart.cli.notes import note_left_out
from eyechart.cli.paths import folder, folder_or_file
from eyechart.cli.stop import Stop, stopped
from eyechart.cli.testset_options import Balanced, Definition, Jpeg, Pictures
from eyechart.core.errors import UsageError

if TYPE_CHECKING:
    from rich.console import Console

    from eyechart.pipeline.task import Task
    from eyechart.predictions.recheck import Comparison
    from eyechart.results.schema import Results, SpaceResults

DEMO_MODELS = ("efficientnet_lite0", "efficientnet_lite1", "efficientnet_lite2")
FAILED = 1


@dataclass(frozen=True)
class Defaults:
    """What is used where nothing was said: for a data set, and for the 20 demo photographs."""

    n: int
    bins: int | None
    least: int


USUAL, DEMO = Defaults(50_000, None, 20), Defaults(300, 11, 5)


def evaluate(
    context: typer.Context,
    models: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[MODEL]...",
            help="timm:NAME, hf:REPO, onnx:FILE, module:attribute, a file or a card; all share one"
            " pass; see eyechart list models. Without any: EfficientNet-Lite0, 1 and 2.",
        ),
    ] = None,
    images: Annotated[
        Path | None,
        typer.Option(
            metavar="PATH",
            parser=folder_or_file,
            help="Class folders, a CSV or Parquet file with path and label, or corrupted images of"
            " any benchmark in ImageNet-C's or CIFAR-10-C's layout; without it 20 demo images.",
        ),
    ] = None,
    suite: Annotated[
        str | None, typer.Option(help="A suite's name or YAML file; vcr, or what files are of.")
    ] = None,
    n: Annotated[
        int | None,
        typer.Option("--n", help="Pictures per corruption; 50,000, or 300 of the demo's."),
    ] = None,
    out: Annotated[
        Path,
        typer.Option(metavar="FOLDER", parser=folder, help="Where predictions and results go."),
    ] = Path("eyechart-results"),
    labels: Annotated[
        str,
        typer.Option(
            help="native (the data set's classes), entry16 (people's 16 categories) or none."
        ),
    ] = "native",
    rule: Annotated[
        str, typer.Option(help="From 1,000 classes to 16 categories: max, mean, sum or top1.")
    ] = "max",
    humans: Annotated[
        list[str] | None,
        typer.Option(
            help="Human reference: geirhos (default), a file, a study, or none; repeatable in order"
            " of precedence, responses to a corruption itself before transferred ones."
        ),
    ] = None,
    similar: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FILE",
            help="Classes within which human responses are transferred: published (default), none,"
            " or a file of eyechart humans similar --out; repeatable.",
        ),
    ] = None,
    match_choices: Annotated[
        bool,
        typer.Option(
            "--match-choices",
            help="Compare with people who had not 16 choices, both corrected for chance.",
        ),
    ] = False,
    clean_responses: CleanResponses = None,
    definition: Definition = "vcr",
    sampling: Annotated[
        str, typer.Option(help="paper (published domains) or uniform (in visual change).")
    ] = "paper",
    corruption: Annotated[
        list[str] | None, typer.Option(help="Only this corruption of the suite; repeatable.")
    ] = None,
    testset: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", parser=folder_or_file, help="Use this test set instead of drawing one."
        ),
    ] = None,
    stimulus: Annotated[
        str,
        typer.Option(
            help="224 (shorter side 256, middle 224) or another side, uncropped (shorter side 256),"
            " 224x224 (plain resize) or another WIDTHxHEIGHT, or native."
        ),
    ] = "224",
    clean: Annotated[
        Path | None,
        typer.Option(
            metavar="PATH",
            parser=folder_or_file,
            help="With corrupted images as --images: the clean ones, as class folders or a .npy"
            " file; without them there are only error rates.",
        ),
    ] = None,
    jpeg: Jpeg = None,
    pictures: Pictures = None,
    balanced: Balanced = True,
    seed: Annotated[int, typer.Option(help="Of all random numbers.")] = 0,
    bins: Bins = None,
    least: Least = None,
    binning: Binning = "paper",
    method: Method = "least-squares",
    right_anchor: RightAnchor = "none",
    density: Density = "uniform",
    replicates: Replicates = 1000,
    batch: Annotated[int | None, typer.Option(help="Pictures predicted at once.")] = None,
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
    baseline: Annotated[
        str,
        typer.Option(
            help="Whose errors CE divides by: alexnet or robustbench-alexnet (the suite's built-in"
            " table), a model (also named as above), people, or none; auto: a built-in table where"
            " it holds."
        ),
    ] = "auto",
    label_map: Annotated[
        list[str] | None,
        typer.Option(
            help="What the outputs are of models that have not ImageNet's 1,000: background-first,"
            " or a file with a line for each; repeatable."
        ),
    ] = None,
    defence: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME[:SETTING=NUMBER,…]",
            help="What comes before the models: clahe, nlm, ten-crop or centre-crop, as in"
            " clahe:clip=3; repeatable, in that order. A baseline has none.",
        ),
    ] = None,
    download: Download = False,
    trust: Trust = False,
    check: Annotated[
        bool, typer.Option("--check", help="Afterwards make 1 % of the rows again and compare.")
    ] = False,
    fail_under: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=NUMBER",
            help="Exit with 1 if a model's mean is lower, as hmri_a=0.8; repeatable.",
        ),
    ] = None,
) -> None:
    """Print R_a and R_p, and HMRI and MRSI next to people, of models under every corruption."""
    floors = [parse_floor(text) for text in fail_under or ()]
    from eyechart.cli.progress import ProgressBars
    from eyechart.core.devices import find_device
    from eyechart.models.defences.defended import (
        apply_defences,
        crop_of_crop_note,
        read_defences,
    )
    from eyechart.models.find import load_model
    from eyechart.models.label_map import find_map
    from eyechart.models.model import Model
    from eyechart.pipeline.baseline import with_baseline
    from eyechart.pipeline.evaluate import run_task
    from eyechart.pipeline.loading import find_source
    from eyechart.pipeline.prepare import prepare
    from eyechart.pipeline.task import Task
    from eyechart.scores.scoring import Fit
    from eyechart.testsets.plan import Plan

    usual = DEMO if images is None else USUAL
    if testset is not None:
        usual = replace(usual, n=USUAL.n)
    plan = Plan(
        suite or "vcr", usual.n if n is None else n, seed, sampling, labels, balanced, definition,
        tuple(corruption or ()), jpeg=jpeg, pictures=pictures,
    )  # fmt: skip
    fit = Fit(
        binning, usual.bins if bins is None else bins, usual.least if least is None else least,
        method, parse_right_anchor(right_anchor), replicates, density=density,
    )  # fmt: skip
    reference = human_names(humans)
    given = None if testset is None else str(testset)
    task = Task(
        plan, fit, rule, reference, given, batch, match_choices, clean_responses=clean_responses
    )
    task = replace(task, similar=tuple(similar) if similar else task.similar)
    source = find_source(images, stimulus, clean, out)
    task = source.task(task, suite)
    task.check()
    note_left_out(task.plan.left_out())
    where = find_device(device)
    defences = read_defences(defence or ())

    maps = tuple(find_map(name) for name in label_map or ())

    def load_one(spec: str) -> Model:
        return load_model(spec, where, trust=trust, download=download, label_maps=maps)

    loaded, divisor = with_baseline(
        [apply_defences(load_one(spec), defences) for spec in models or DEMO_MODELS],
        baseline,
        load_one,
    )
    task = replace(task, baseline=divisor, label_maps=maps)
    with ProgressBars() as bars:
        try:
            own = source.load(task.plan, bars)
            evaluation = run_task(task, loaded, own, where, out, bars)
        except KeyboardInterrupt:
            raise stopped(out, "what was predicted") from None
    # as it was typed, to be typed again
    command = shlex.join(["eyechart", *(context.obj or ())])
    evaluation = evaluation.with_command(command)
    note = crop_of_crop_note(defences, own.sizes)
    if note:
        evaluation = evaluation.with_warnings(note)
    _report(evaluation, out, task, images is None)
    if check:
        from eyechart.predictions.recheck import check as check_rows

        with ProgressBars() as bars:
            _say_check(check_rows(*prepare(task, loaded, own, where, out, bars)))
    failures = [line for name, floor in floors for line in _below(evaluation, name, floor)]
    if failures:
        raise Stop(" ".join(failures), FAILED)


def human_names(given: list[str] | None) -> str | tuple[str, ...] | None:
    """Return the human references that were asked for: geirhos without any, None for none."""
    if not given:
        return "geirhos"
    if "none" in given:
        if len(given) > 1:
            raise UsageError("--humans none stands alone: leave out none, or the others.")
        return None
    return given[0] if len(given) == 1 else tuple(given)


def parse_floor(text: str) -> tuple[str, float]:
    """Return the name and the number of NAME=NUMBER."""
    from eyechart.core.registry import unknown_name
    from eyechart.scores.registry import OVERALL

    name, equals, number = text.partition("=")
    try:
        floor = float(number)
    except ValueError:
        floor = float("nan")
    if not equals or floor != floor:
        raise UsageError(f"--fail-under must be NAME=NUMBER, such as hmri_a=0.8, got '{text}'.")
    known = [score.name for score in OVERALL if score.can_gate]
    if name not in known:
        raise unknown_name("score", name, known)
    return name, floor


def _report(evaluation: "Results", out: Path, task: "Task", is_demo: bool) -> None:
    from eyechart.cli.tables import wide_console
    from eyechart.reports.figures.curve_plot import draw_curves
    from eyechart.reports.human_sources import source_lines
    from eyechart.reports.terminal.result_tables import tables
    from eyechart.results.writing import write_results

    console = wide_console()
    for title, parts in tables(evaluation, console.width):
        print(title)
        for table in parts:
            console.print(table)
    if any(space.means for model in evaluation.models for space in model.spaces.values()):
        print("Behind each number its 95 % interval, from resampled pictures.")
    for line in source_lines(evaluation):
        print(line)
    for line in _unusual(evaluation):
        print(line)
    bins = task.fit.n_bins - (task.fit.binning == "paper")
    if is_demo:
        rows = max(own.rows for own in evaluation.coverage.values())
        print(
            f"Demo: {rows} answers per corruption and only {bins} wide bins of at least"
            f" {task.fit.least:g}; a study takes 50,000 and 40."
        )
    for warning in evaluation.warnings:
        print(f"Note: {warning}")
    for text in _unobserved(evaluation):
        print(f"Note: {text}")
    written = write_results(evaluation, out)
    if len(evaluation.models) > 1:
        _rank(console, out)
    print("Written:")
    for path in (*draw_curves(evaluation, out), *written):
        print(f"  {path}")


def _unusual(evaluation: "Results") -> list[str]:
    """Return a line on each setting that makes scores incomparable with those of a usual run."""
    from eyechart.curves.density import UNIFORM
    from eyechart.testsets.plan import Plan

    config, lines = evaluation.config, []
    if config["definition"] != Plan().definition:
        lines.append(f"Visual change is measured as {config['definition']} defines it.")
    if config["fit"]["density"] != UNIFORM.identity:
        lines.append(f"Areas are weighted by the density {config['fit']['density']} over Δv.")
    if "@" in str(config["suite"]):
        lines.append(f"Suite: {config['suite']}.")
    return lines


def _rank(console: "Console", out: Path) -> None:
    """Print the models of the run in order."""
    from eyechart.cli.compare import print_board
    from eyechart.results.comparison import stand
    from eyechart.results.runs import make_boards, read_run

    print()
    for board in make_boards([read_run(out)]):
        try:
            print_board(console, stand(board))
        except UsageError as error:
            print(f"Note: {error}")


def _unobserved(evaluation: "Results") -> list[str]:
    """Return a sentence if curves go on beyond what was observed."""
    largest = {name: own.largest for name, own in evaluation.coverage.items()}
    short = [name for name, value in largest.items() if value < 0.95]
    if not short:
        return []
    return [
        f"{len(short)} of {len(largest)} corruptions end below Δv 0.95 (the lowest at"
        f" {min(largest.values()):.2f}); what curves do beyond is a guess, and 'bounds' in"
        " results.json say how little is known."
    ]


def _say_check(found: "Comparison") -> None:
    text = (
        f"Check: {found.answers} answers made again; other pixels {found.pixels}, other Δv"
        f" {found.delta_v}, other answers {found.other}, and {found.close_calls} where the two best"
        " were all but equal."
    )
    if not found.passed:
        raise Stop(text, FAILED)
    print(text)


def _below(evaluation: "Results", name: str, floor: float) -> list[str]:
    """Return a sentence for each model whose score is below the floor."""
    found = []
    for model in evaluation.models:
        values = [
            (value, label_space)
            for label_space, space in model.spaces.items()
            if (value := _mean(space, name)) is not None
        ]
        if not values:
            raise Stop(
                f"--fail-under {name}: {model.name} has no {name}, see the notes above; results"
                " were written.",
                2,
            )
        value, where = values[0]
        if value < floor:
            found.append(f"{model.name}: {name} {value:.3f} ({where}) is under {floor:g}.")
    return found


def _mean(space: "SpaceResults", name: str) -> float | None:
    if name == "clean_accuracy":
        return None if space.clean_accuracy is None else space.clean_accuracy.value
    mean = space.means.get(name)
    return None if mean is None else mean.value
