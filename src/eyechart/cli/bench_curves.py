"""`eyechart bench curves`: prints how fast curves are fitted with their intervals."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from eyechart.cli.paths import check_file_to_write
from eyechart.core.errors import UsageError

if TYPE_CHECKING:
    from eyechart.reports.bench_curves import CurvesPlan, CurvesSpeed


def curves(
    corruptions: Annotated[int, typer.Option(help="How many corruptions.")] = 14,
    properties: Annotated[int, typer.Option(help="Curves of each: 2, as in VCR.")] = 2,
    answers: Annotated[int, typer.Option(help="Answers to each curve.")] = 5000,
    pictures: Annotated[int, typer.Option(help="Pictures that they are answers to.")] = 1000,
    replicates: Annotated[int, typer.Option(help="Refits of each curve.")] = 1000,
    rival_refits: Annotated[int, typer.Option(help="Refits by which rivals are timed.")] = 50,
    threads: Annotated[int, typer.Option(help="Threads for both sides.")] = 1,
    out: Annotated[Path | None, typer.Option("--json", help="Also write the figures here.")] = None,
) -> None:
    """Time all curves of a model with their intervals, and other fits in the same run."""
    from eyechart.reports import bench, bench_curves

    counts = (corruptions, properties, pictures, replicates, rival_refits, threads)
    if min(counts) < 1 or answers < 1000:
        raise UsageError("answers must be at least 1000, all other numbers at least 1.")
    plan = bench_curves.CurvesPlan(
        corruptions, properties, answers, pictures, replicates, rival_refits, threads
    )
    if out is not None:
        check_file_to_write(out)
    with bench.threads(threads):
        speed = bench_curves.measure(plan)
    _print(speed, plan)
    if out is not None:
        text = json.dumps(bench_curves.figures(speed, plan), indent=2)
        out.write_text(text + "\n", encoding="utf-8")


def _print(speed: "CurvesSpeed", plan: "CurvesPlan") -> None:
    import torch
    from rich import box
    from rich.console import Console
    from rich.table import Table

    from eyechart.reports.bench import machine_name
    from eyechart.reports.bench_curves import RIVALS

    console = Console(soft_wrap=True)
    console.print(f"{machine_name(torch.device('cpu'))}, threads {plan.threads}", highlight=False)
    console.print(
        f"{plan.corruptions} corruptions × {plan.properties} curves × {plan.replicates:,} refits of"
        f" {plan.answers:,} answers to {plan.pictures:,} pictures: {speed.seconds:.2f} s",
        highlight=False,
    )
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("refit")
    for title in ("µs each", "ratio to ours"):
        table.add_column(title, justify="right")
    table.add_row("ours, with resampling, intervals and bounds", f"{speed.refit * 1e6:,.0f}", "")
    for name, seconds in speed.rivals.items():
        table.add_row(RIVALS[name], f"{seconds * 1e6:,.0f}", f"{speed.ratios[name]:,.1f}×")
    console.print(table)
