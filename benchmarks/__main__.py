"""`python -m benchmarks`: measure how fast eyechart and rival packages are on this machine."""

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import numpy as np
import torch
import typer
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

import benchmarks.corruptions as corruptions_bench
import benchmarks.curves as curves_bench
import benchmarks.transforms as transforms_bench
import benchmarks.vif as vif_bench
from benchmarks.against import checked_out, compare_parts, figures, table
from benchmarks.against_side import PARTS
from benchmarks.albumentations_rival import load_albumentations
from benchmarks.corruptions import (
    CorruptionSpeed,
    CorruptionsPlan,
    mean_microseconds,
    mean_ratio,
)
from benchmarks.curves import CurvesPlan, CurvesSpeed
from benchmarks.imagecorruptions_rival import PACKAGE, load_rival
from benchmarks.loop import measure_loop
from benchmarks.pilot import measure_pilot
from benchmarks.plans import measure_plans
from benchmarks.scoring import RIVAL, measure_scoring
from benchmarks.shards import measure_shards
from benchmarks.timing import limited_threads, machine_name
from benchmarks.transforms import ALBUMENTATIONS, EYECHART, TransformSpeed, TransformsPlan
from benchmarks.vif import VifPlan
from eyechart.cli.app import main
from eyechart.cli.shared.output_files import check_file_to_write
from eyechart.cli.shared.progress import progress_bar
from eyechart.cli.shared.stop import FAILED, Stop
from eyechart.core.arguments import as_int, as_within
from eyechart.core.devices import find_device
from eyechart.core.errors import UsageError
from eyechart.core.registry import one_of, unknown_name
from eyechart.corruptions.suites.strength import check_severity
from eyechart.corruptions.suites.suite import find_variant
from eyechart.images.image_types import MAX_SIDE, SMALLEST_SIDE
from eyechart.visual_change.measure_inputs import find_dtype
from eyechart.visual_change.vif.pyramid import SMALLEST_SIDE as SMALLEST_FOR_VIF

app = typer.Typer(help="Measure speed on this machine.", no_args_is_help=True)


@app.callback()
def _bench() -> None:
    """Measure the speed of eyechart and of rival packages on this machine."""


@app.command("corruptions")
def corruptions(
    suite: Annotated[
        list[str] | None,
        typer.Option(
            help="Name or YAML file of a suite to time; repeatable. [imagenet-c, imagenet-c-extra]"
        ),
    ] = None,
    batch_size: Annotated[
        list[int] | None, typer.Option(help="Batch size; repeatable. [1 and 32]")
    ] = None,
    size: Annotated[int, typer.Option(help="Width and height of the images in pixels.")] = 224,
    severity: Annotated[float, typer.Option(help="Severity, from 0 to 5.")] = 3.0,
    threads: Annotated[int, typer.Option(help="Number of threads, also for the rival.")] = 1,
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
    rival: Annotated[
        Path | None, typer.Option(help="Folder that contains the imagecorruptions package.")
    ] = None,
    draw: Annotated[
        str | None,
        typer.Option(help="'parameters': draw parameters from the suite's published domain."),
    ] = None,
    seconds: Annotated[float, typer.Option(help="Approximate seconds per measurement.")] = 1.0,
    out: Annotated[Path | None, typer.Option("--json", help="JSON file for the results.")] = None,
) -> None:
    """Time every corruption, and the same corruption in a rival package if it has one."""
    check_severity(np.array([severity]))
    batches = tuple(sorted(set(batch_size or (1, 32))))

    for number in batches:
        as_int(number, "batch_size", 1, 100_000)
    as_int(threads, "threads", 1, 10_000)
    as_int(size, "size", SMALLEST_SIDE, MAX_SIDE)
    as_within(seconds, "seconds", 1e-6, 86_400)
    if draw not in (None, "parameters"):
        raise UsageError(f"draw must be parameters, got {draw}.")
    plan = CorruptionsPlan(
        batches, size, severity, seconds, threads, find_device(device), draw == "parameters"
    )
    if out is not None:
        check_file_to_write(out)
    if rival is not None and not plan.allows_rival:
        raise UsageError("A rival can only be timed on the CPU, at severity 1, 2, 3, 4 or 5.")
    entries = corruptions_bench.entries_of(suite or ["imagenet-c", "imagenet-c-extra"])
    opponent = load_rival(rival) if plan.allows_rival else None
    speeds = []
    with limited_threads(threads), progress_bar("timing", len(entries)) as step:
        for entry in entries:
            speeds.append(corruptions_bench.measure(entry, plan, opponent))
            step(1, "")
    _print(speeds, plan)
    if out is not None:
        text = json.dumps(corruptions_bench.figures(speeds, plan, opponent), indent=2)
        out.write_text(text + "\n", encoding="utf-8")


@app.command("vif")
def vif(
    batch_size: Annotated[int, typer.Option(help="Batch size.")] = 32,
    size: Annotated[int, typer.Option(help="Width and height of the images in pixels.")] = 224,
    threads: Annotated[int, typer.Option(help="Number of threads, also for the rival.")] = 1,
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
    dtype: Annotated[str, typer.Option(help="float64 or float32.")] = "float64",
    seconds: Annotated[float, typer.Option(help="Approximate seconds per measurement.")] = 2.0,
    out: Annotated[Path | None, typer.Option("--json", help="JSON file for the results.")] = None,
) -> None:
    """Time visual information fidelity (VIF) in eyechart, and in pyrtools on the CPU."""
    if batch_size < 1 or threads < 1 or size < SMALLEST_FOR_VIF or not seconds > 0:
        raise UsageError(
            "batch_size and threads must be at least 1,"
            f" size at least {SMALLEST_FOR_VIF}, seconds above 0."
        )
    plan = VifPlan(batch_size, size, threads, find_device(device), find_dtype(dtype), seconds)
    if out is not None:
        check_file_to_write(out)
    with limited_threads(threads):
        speed = vif_bench.measure(plan)
    vif_bench.print_speed(speed, plan)
    if out is not None:
        text = json.dumps(vif_bench.figures(speed, plan), indent=2)
        out.write_text(text + "\n", encoding="utf-8")


def _print(speeds: list[CorruptionSpeed], plan: CorruptionsPlan) -> None:

    console = Console(soft_wrap=True)
    how = "parameters drawn as published" if plan.paper_draw else f"severity {plan.severity:g}"
    console.print(
        f"{machine_name(plan.device)}, threads {plan.threads}, {plan.size} px, {how}",
        highlight=False,
    )
    console.print(_table(speeds, plan))
    for speed in speeds:
        if speed.rival_failure:
            console.print(f"The rival's {speed.corruption} {speed.rival_failure}", highlight=False)
    console.print(f"mean time: {mean_microseconds(speeds):,.1f} µs per image", highlight=False)
    mean = mean_ratio(speeds)
    if mean is not None:
        count = sum(speed.ratio is not None for speed in speeds)
        console.print(
            f"geometric mean of {count} ratios to the rival: {mean:.2f}×", highlight=False
        )


def _table(speeds: list[CorruptionSpeed], plan: CorruptionsPlan) -> Table:

    with_rival = any(speed.rival_rate or speed.rival_failure for speed in speeds)
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("corruption", no_wrap=True)
    for size in plan.batches:
        table.add_column(f"images/s, batch {size}", justify="right")
    table.add_column("µs per image", justify="right")
    if with_rival:
        table.add_column("rival, images/s", justify="right")
        table.add_column("ratio", justify="right")
    for speed in speeds:
        cells = [f"{speed.rates[size]:,.0f}" for size in plan.batches]
        cells.append(f"{1e6 / speed.rates[max(plan.batches)]:,.1f}")
        if with_rival:
            rate = f"{speed.rival_rate:,.0f}" if speed.rival_rate else ""
            rate = "crashes" if speed.rival_failure else rate
            cells += [rate, f"{speed.ratio:.2f}×" if speed.ratio else ""]
        table.add_row(escape(speed.corruption), *cells)
    return table


@app.command("curves")
def curves(
    corruptions: Annotated[int, typer.Option(help="Number of corruptions.")] = 14,
    properties: Annotated[int, typer.Option(help="Curves per corruption; VCR has 2.")] = 2,
    predictions: Annotated[int, typer.Option(help="Number of predictions per curve.")] = 5000,
    n_images: Annotated[
        int, typer.Option(help="Number of images to which the predictions belong.")
    ] = 1000,
    n_bootstrap: Annotated[int, typer.Option(help="Number of refits per curve.")] = 1000,
    rival_refits: Annotated[int, typer.Option(help="Number of refits of each rival.")] = 50,
    threads: Annotated[int, typer.Option(help="Number of threads, also for the rival.")] = 1,
    out: Annotated[Path | None, typer.Option("--json", help="JSON file for the results.")] = None,
) -> None:
    """Time all curves of a model with their intervals, and rival methods in the same run."""
    counts = (corruptions, properties, n_images, n_bootstrap, rival_refits, threads)
    if min(counts) < 1 or predictions < 1000:
        raise UsageError("predictions must be at least 1000, all other numbers at least 1.")
    plan = CurvesPlan(
        corruptions, properties, predictions, n_images, n_bootstrap, rival_refits, threads
    )
    if out is not None:
        check_file_to_write(out)
    with limited_threads(threads):
        speed = curves_bench.measure(plan)
    _print_curves(speed, plan)
    if out is not None:
        text = json.dumps(curves_bench.figures(speed, plan), indent=2)
        out.write_text(text + "\n", encoding="utf-8")


def _print_curves(speed: CurvesSpeed, plan: CurvesPlan) -> None:

    console = Console(soft_wrap=True)
    console.print(f"{machine_name(torch.device('cpu'))}, threads {plan.threads}", highlight=False)
    console.print(
        f"{plan.corruptions} corruptions × {plan.properties} curves × {plan.n_bootstrap:,} refits"
        f" of {plan.predictions:,} predictions of {plan.images:,} images: {speed.seconds:.2f} s",
        highlight=False,
    )
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("refit")
    for title in ("µs per refit", "ratio to eyechart"):
        table.add_column(title, justify="right")
    title = "eyechart, with resampling, intervals and bounds"
    table.add_row(title, f"{speed.refit * 1e6:,.0f}", "")
    for name, seconds in speed.rivals.items():
        table.add_row(
            curves_bench.RIVALS[name], f"{seconds * 1e6:,.0f}", f"{speed.ratios[name]:,.1f}×"
        )
    console.print(table)


@app.command("scoring")
def scoring(
    n: Annotated[int, typer.Option("--n", help="Samples per corruption.", min=100)] = 50_000,
    n_images: Annotated[int, typer.Option("--images", help="Number of images.", min=100)] = 5_000,
    models: Annotated[int, typer.Option(help="Number of models.", min=1)] = 1,
    n_bootstrap: Annotated[int, typer.Option(help="Number of refits per curve.", min=1)] = 1000,
) -> None:
    """Time everything that `evaluate` does after the predictions, on synthetic predictions."""
    speed = measure_scoring(n, n_images, models, n_bootstrap)
    print(f"{machine_name(torch.device('cpu'))}, {speed.n_cores} cores")
    print(
        f"{models} models, 14 corruptions × {n:,} samples of {n_images:,} images,"
        f" {speed.n_curves} curves: {speed.seconds:.1f} s ({speed.cpu_seconds:.1f} s of CPU time)"
    )
    print(f"{RIVAL}, curves only: {speed.rival_seconds:.1f} s, {speed.ratio:.1f} times as long")


@app.command("loop")
def loop(
    n: Annotated[int, typer.Option("--n", help="Images per corruption.", min=1)] = 4096,
    max_images: Annotated[int, typer.Option(help="Number of different images.", min=1)] = 512,
    batch_size: Annotated[int | None, typer.Option(help="Batch size.", min=1)] = None,
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
    is_whole_only: Annotated[
        bool, typer.Option("--whole", help="Only the run over all corruptions.")
    ] = False,
) -> None:
    """Time the evaluation loop (corrupt, measure, predict, write), and a ResNet-50 alone."""
    where = find_device(device)
    print(machine_name(where))
    speed = measure_loop(where, n, max_images, batch_size, is_whole_only)
    print(f"ResNet-50 alone: {speed.model:,.0f} images/s")
    for name, rate in speed.loop.items():
        print(f"  {name:26} {rate:>9,.0f}/s  {rate / speed.model:.2f} of the model's speed")
    if speed.loop:
        print(
            f"The loop, mean of {len(speed.loop)} corruptions: {speed.mean:,.0f} images/s,"
            f" {speed.ratio:.2f} of the model's speed"
        )
    whole = speed.whole
    print(
        f"One run over all corruptions and clean images ({whole.n_images:,} images, already"
        f" decoded): predictions {whole.seconds:.1f} s, {whole.rate:,.0f} images/s,"
        f" {whole.rate / speed.model:.2f} of the model's speed; scores and results.json"
        f" {whole.scoring_seconds:.1f} s; together {whole.seconds + whole.scoring_seconds:.1f} s"
    )


@app.command("shards")
def shards(
    n_shards: Annotated[int, typer.Option("--shards", help="Number of shards.", min=1)] = 4,
    model: Annotated[str, typer.Option(help="Model to evaluate.")] = "efficientnet_lite0",
    n: Annotated[int, typer.Option("--n", help="Samples per corruption.", min=20)] = 600,
    corruption: Annotated[
        list[str] | None, typer.Option(help="Name of a corruption; repeatable. [all of VCR]")
    ] = None,
) -> None:
    """Compare the CPU time of a run in shards, one after the other, with that of one process."""
    named = [word for name in corruption or () for word in ("--corruption", name)]
    cost = measure_shards(n_shards, [model, "--n", str(n), *named])
    print(f"{machine_name(torch.device('cpu'))}, demo images, {n:,} samples per corruption")
    each = ", ".join(f"{seconds:.1f}" for seconds in cost.shards)
    print(f"CPU time of one process: {cost.unsplit:.1f} s; of shards: {each} s")
    print(f"of the merge: {cost.merge:.1f} s; in addition to one process: {cost.repeated:.1f} s")
    print(
        f"{n_shards} shards: {cost.ratio:.3f} times the work of one process; 1.05 times if that"
        f" takes {cost.seconds_for(1.05):,.0f} s"
    )


@app.command("transforms")
def transforms(
    corruption: Annotated[
        list[str] | None,
        typer.Option(help="Name of a corruption; repeatable. [all of ImageNet-C]"),
    ] = None,
    size: Annotated[int, typer.Option(help="Width and height of the images in pixels.")] = 224,
    severity: Annotated[int, typer.Option(help="Severity, from 1 to 5.")] = 3,
    workers: Annotated[int, typer.Option(help="Number of worker processes.")] = 2,
    seconds: Annotated[float, typer.Option(help="Approximate seconds per round.")] = 0.5,
    rival: Annotated[
        Path | None, typer.Option(help="Folder that contains the imagecorruptions package.")
    ] = None,
) -> None:
    """Time ec.Corrupt in a DataLoader, and transforms of imagecorruptions and albumentations."""
    as_int(size, "size", SMALLEST_SIDE, MAX_SIDE)
    as_int(severity, "severity", 1, 5)
    as_int(workers, "workers", 1, 1000)
    as_within(seconds, "seconds", 1e-6, 86_400)
    names = corruption or [
        entry.name for entry in corruptions_bench.entries_of(["imagenet-c", "imagenet-c-extra"])
    ]
    for name in names:
        find_variant(name)
    plan = TransformsPlan(size, severity, workers, seconds)
    opponent, package = load_rival(rival), load_albumentations()
    speeds = []
    with limited_threads(1), progress_bar("timing", len(names)) as step:
        for name in names:
            speeds.append(transforms_bench.measure(name, plan, opponent, package))
            step(1, "")
    _print_transforms(speeds, plan)
    if opponent is None:
        print(f"{PACKAGE} was not timed: pip install {PACKAGE}, or give --rival FOLDER.")
    if package is None:
        print(f"{ALBUMENTATIONS} was not timed: pip install {ALBUMENTATIONS}.")


def _print_transforms(speeds: list[TransformSpeed], plan: TransformsPlan) -> None:

    # seven columns, also where the output is not a terminal of that width
    console = Console(soft_wrap=True, width=120)
    console.print(
        f"{machine_name(torch.device('cpu'))}, workers {plan.workers}, one thread each,"
        f" {plan.size} px, severity {plan.severity}, images/s",
        highlight=False,
    )
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("corruption", no_wrap=True)
    for title in ("ec.Corrupt", PACKAGE, "ratio", ALBUMENTATIONS, "ratio"):
        table.add_column(title, justify="right")
    table.add_column("nearest transform", no_wrap=True)
    for speed in speeds:
        cells = [f"{speed.rates[EYECHART]:,.0f}"]
        for name in (PACKAGE, ALBUMENTATIONS):
            rate = f"{speed.rates[name]:,.0f}" if name in speed.rates else ""
            cells.append("crashes" if name in speed.failures else rate)
            cells.append(f"{speed.ratios[name]:.2f}×" if name in speed.ratios else "")
        table.add_row(escape(speed.corruption), *cells, speed.nearest)
    console.print(table)
    for name in (PACKAGE, ALBUMENTATIONS):
        mean = transforms_bench.mean_ratio(speeds, name)
        if mean is not None:
            console.print(
                f"geometric mean of {mean[1]} ratios to {name}: {mean[0]:.2f}×", highlight=False
            )


@app.command("plans")
def plans(
    images: Annotated[Path, typer.Argument(help="Folder, CSV or Parquet file of labeled images.")],
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
) -> None:
    """Compare the run time that plans predict with the time that the runs take."""
    print(machine_name(find_device(device)), flush=True)
    for time in measure_plans(images, device):
        print(
            f"  {time.case:40} n {time.n:>6,}  planned {time.planned:6.1f} s"
            f"  took {time.measured:6.1f} s  ratio {time.ratio:.2f}",
            flush=True,
        )


@app.command("pilot")
def pilot(
    images: Annotated[Path, typer.Argument(help="Folder, CSV or Parquet file of labeled images.")],
    model: Annotated[str, typer.Option(help="The model.")] = "efficientnet_lite0",
    n: Annotated[int, typer.Option("--n", help="Samples per corruption.", min=1)] = 300,
    n_reference: Annotated[int, typer.Option(help="Samples of the reference.", min=1)] = 20_000,
    repeats: Annotated[int, typer.Option(help="Number of timed runs of each.", min=1)] = 9,
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
) -> None:
    """Measure how many of the reachable bins pilot sampling covers, and its extra time."""
    print(machine_name(find_device(device)), flush=True)
    with TemporaryDirectory(prefix="eyechart-") as folder:
        coverage = measure_pilot(images, model, device, n, n_reference, repeats, Path(folder))
    for name, covered in coverage.covered.items():
        print(
            f"  {name:26} {covered:6.1%}  (paper's sampling {coverage.covered_by_paper[name]:.1%})"
        )
    low, high = min(coverage.time_ratios), max(coverage.time_ratios)
    print(
        f"Run time relative to the paper's sampling: {coverage.time_ratio:.2f} "
        f"(median of {repeats}; {low:.2f} to {high:.2f})"
    )


@app.command("against")
def against(
    revision: Annotated[str, typer.Argument(metavar="REV", help="Commit to compare with.")],
    part: Annotated[
        list[str] | None, typer.Option(help=f"{one_of(PARTS)}; repeatable. [all]")
    ] = None,
    rounds: Annotated[int, typer.Option(help="Number of rounds.", min=1, max=1000)] = 7,
    n: Annotated[int, typer.Option("--n", help="Samples per corruption (loop).", min=20)] = 20,
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
    out: Annotated[Path | None, typer.Option("--json", help="JSON file for the results.")] = None,
) -> None:
    """Compare speed and memory of the working tree with another commit's, taking turns."""
    for name in part or ():
        if name not in PARTS:
            raise unknown_name("part", name, PARTS)
    where = find_device(device)
    if out is not None:
        check_file_to_write(out)
    parts = list(dict.fromkeys(part or PARTS))
    with checked_out(revision) as commit, progress_bar("rounds", len(parts) * rounds) as step:
        compared = compare_parts(parts, commit, rounds, (device, str(n)), lambda: step(1, ""))
    print(f"{machine_name(where)}; rounds: {rounds}; ratio: working tree / {commit.name}")
    print("\n".join(table(compared)))
    if out is not None:
        written = {"machine": machine_name(where), **figures(compared)}
        out.write_text(json.dumps(written, indent=2) + "\n", encoding="utf-8")
    if compared.failures:
        raise Stop(" ".join(compared.failures), FAILED)


if __name__ == "__main__":
    main(command=app)
