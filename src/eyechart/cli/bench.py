"""`eyechart bench`: prints how fast things are on this machine."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from eyechart.cli.bench_curves import curves
from eyechart.cli.bench_loop import loop
from eyechart.cli.paths import check_file_to_write
from eyechart.core.arguments import as_whole, as_within
from eyechart.core.errors import UsageError

if TYPE_CHECKING:
    from rich.table import Table

    from eyechart.reports.bench import Plan, Speed
    from eyechart.reports.bench_vif import VifPlan, VifSpeed

app = typer.Typer(help="Measure speed on this machine.", no_args_is_help=True)
app.command("curves")(curves)
app.command("loop")(loop)


@app.callback()
def _bench() -> None:
    """Measure speed on this machine."""


@app.command("corruptions")
def corruptions(
    suite: Annotated[
        list[str] | None,
        typer.Option(
            help="Suites to time, or YAML files; can be repeated. [imagenet-c and its extra]"
        ),
    ] = None,
    batch: Annotated[
        list[int] | None, typer.Option(help="Batch sizes; can be repeated. [1 and 32]")
    ] = None,
    size: Annotated[int, typer.Option(help="Side of the pictures in pixels.")] = 224,
    severity: Annotated[float, typer.Option(help="Any number from 0 to 5.")] = 3.0,
    threads: Annotated[int, typer.Option(help="Threads for both sides.")] = 1,
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
    rival: Annotated[
        Path | None, typer.Option(help="Folder that holds the imagecorruptions package.")
    ] = None,
    draw: Annotated[
        str | None,
        typer.Option(help="'paper': parameters drawn from the suite's published domain."),
    ] = None,
    seconds: Annotated[float, typer.Option(help="About how long to time each.")] = 1.0,
    out: Annotated[Path | None, typer.Option("--json", help="Also write the figures here.")] = None,
) -> None:
    """Time every corruption, and a rival in the same run where there is one."""
    import numpy as np

    from eyechart.cli.progress import progress_bar
    from eyechart.core.devices import find_device
    from eyechart.reports import bench
    from eyechart.reports.rival import load_rival
    from eyechart.suites.strength import check_severity

    check_severity(np.array([severity]))
    batches = tuple(sorted(set(batch or (1, 32))))
    from eyechart.images.image_types import MAX_SIDE, SMALLEST_SIDE

    for each in batches:
        as_whole(each, "batch", 1, 100_000)
    as_whole(threads, "threads", 1, 10_000)
    as_whole(size, "size", SMALLEST_SIDE, MAX_SIDE)
    as_within(seconds, "seconds", 1e-6, 86_400)
    if draw not in (None, "paper"):
        raise UsageError(f"draw must be paper, got {draw}.")
    plan = bench.Plan(
        batches, size, severity, seconds, threads, find_device(device), draw == "paper"
    )
    if out is not None:
        check_file_to_write(out)
    if rival is not None and not plan.allows_rival:
        raise UsageError("A rival can be timed only on the cpu, at severity 1, 2, 3, 4 or 5.")
    entries = bench.entries_of(suite or ["imagenet-c", "imagenet-c-extra"])
    opponent = load_rival(rival) if plan.allows_rival else None
    speeds = []
    with bench.threads(threads), progress_bar("timing", len(entries)) as step:
        for entry in entries:
            speeds.append(bench.measure(entry, plan, opponent))
            step(1, "")
    _print(speeds, plan)
    if out is not None:
        text = json.dumps(bench.figures(speeds, plan, opponent), indent=2)
        out.write_text(text + "\n", encoding="utf-8")


@app.command("vif")
def vif(
    batch: Annotated[int, typer.Option(help="Pictures in a batch.")] = 32,
    size: Annotated[int, typer.Option(help="Side of the pictures in pixels.")] = 224,
    threads: Annotated[int, typer.Option(help="Threads for both sides.")] = 1,
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
    dtype: Annotated[str, typer.Option(help="float64 or float32.")] = "float64",
    seconds: Annotated[float, typer.Option(help="About how long to time each.")] = 2.0,
    out: Annotated[Path | None, typer.Option("--json", help="Also write the figures here.")] = None,
) -> None:
    """Time visual information fidelity, and pyrtools on the CPU in the same run."""
    from eyechart.core.devices import find_device
    from eyechart.reports import bench, bench_vif
    from eyechart.visual_change.measure import find_dtype
    from eyechart.visual_change.vif.pyramid import SMALLEST_SIDE

    if batch < 1 or threads < 1 or size < SMALLEST_SIDE or not seconds > 0:
        raise UsageError(
            f"batch and threads must be at least 1, size at least {SMALLEST_SIDE}, seconds above 0."
        )
    plan = bench_vif.VifPlan(batch, size, threads, find_device(device), find_dtype(dtype), seconds)
    if out is not None:
        check_file_to_write(out)
    with bench.threads(threads):
        speed = bench_vif.measure(plan)
    _print_vif(speed, plan)
    if out is not None:
        text = json.dumps(bench_vif.figures(speed, plan), indent=2)
        out.write_text(text + "\n", encoding="utf-8")


def _print_vif(speed: "VifSpeed", plan: "VifPlan") -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    from eyechart.reports.bench import machine_name

    console = Console(soft_wrap=True)
    kind = str(plan.dtype).removeprefix("torch.")
    console.print(
        f"{machine_name(plan.device)}, threads {plan.threads}, {plan.size} px,"
        f" batch {plan.batch}, {kind}",
        highlight=False,
    )
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("VIF")
    for title in ("pictures/s", "µs a picture", "ratio to pyrtools"):
        table.add_column(title, justify="right")
    rows = [
        ("clean side reused", speed.reused, speed.reused_ratio),
        ("clean side computed too", speed.whole, speed.whole_ratio),
    ]
    if speed.rival:
        rows.append((f"pyrtools {speed.rival_version}, on the CPU", speed.rival, 1.0))
    for title, rate, ratio in rows:
        shown = f"{ratio:,.1f}×" if ratio else ""
        table.add_row(title, f"{rate:,.0f}", f"{1e6 / rate:,.1f}", shown)
    console.print(table)
    if not speed.rival:
        why = "its pyramid needs 72 px" if plan.size < 72 else "pip install pyrtools"
        console.print(f"pyrtools was not timed: {why}.", highlight=False)
    console.print(
        f"clean statistics: {speed.statistics_bytes / 1e3:,.0f} kB a picture", highlight=False
    )
    if speed.bandwidth:
        console.print(
            f"memory bandwidth: {speed.bandwidth / 1e12:.2f} TB/s; reading pictures and statistics"
            f" once takes {speed.share_of_bandwidth:.1%} of the time",
            highlight=False,
        )


def _print(speeds: "list[Speed]", plan: "Plan") -> None:
    from rich.console import Console

    from eyechart.reports.bench import machine_name, mean_microseconds, mean_ratio

    console = Console(soft_wrap=True)
    how = "parameters drawn as published" if plan.paper_draw else f"severity {plan.severity:g}"
    console.print(
        f"{machine_name(plan.device)}, threads {plan.threads}, {plan.size} px, {how}",
        highlight=False,
    )
    console.print(_table(speeds, plan))
    for speed in speeds:
        if speed.rival_failure:
            console.print(f"rival's {speed.corruption} {speed.rival_failure}", highlight=False)
    console.print(f"mean time: {mean_microseconds(speeds):,.1f} µs an image", highlight=False)
    mean = mean_ratio(speeds)
    if mean is not None:
        count = sum(speed.ratio is not None for speed in speeds)
        console.print(
            f"geometric mean of {count} ratios to the rival: {mean:.2f}×", highlight=False
        )


def _table(speeds: "list[Speed]", plan: "Plan") -> "Table":
    from rich import box
    from rich.markup import escape
    from rich.table import Table

    with_rival = any(speed.rival_rate or speed.rival_failure for speed in speeds)
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("corruption", no_wrap=True)
    for size in plan.batches:
        table.add_column(f"images/s, batch {size}", justify="right")
    table.add_column("µs an image", justify="right")
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
